# Prints `count` points of a shard, "x y label": 1 in the ring, 0 outside it, one in 25 mislabelled.
# The random numbers are our own, so that every awk makes the same points.
function draw() { # 0 <= draw < 1
    state = (state * 16807) % 2147483647
    return state / 2147483647
}

BEGIN {
    state = shard * 7919 + 12345
    for (i = 0; i < count; i++) {
        x = 4 * draw() - 2
        y = 4 * draw() - 2
        radius2 = x * x + y * y
        label = (radius2 > 0.6 && radius2 < 2.6) ? 1 : 0
        if (draw() < 0.04) {
            label = 1 - label
        }
        printf "%.6f %.6f %d\n", x, y, label
    }
}
