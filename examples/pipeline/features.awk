# Shared by training and inference: what a model of a kind sees of a point, and its answer.
function features(kind, x, y, f,    r2) { # fills f[1..n], returns n
    f[1] = 1
    f[2] = x
    f[3] = y
    if (kind == "linear") {
        return 3
    }
    r2 = x * x + y * y
    f[4] = r2
    f[5] = r2 * r2 / 8
    return 5
}

function probability(w, f, n,    i, z) {
    z = 0
    for (i = 1; i <= n; i++) {
        z += w[i] * f[i]
    }
    return z > 30 ? 1 : z < -30 ? 0 : 1 / (1 + exp(-z))
}
