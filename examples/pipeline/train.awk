# Logistic regression by gradient descent. Variables: kind, lr, l2, epochs, model and score (files
# to write), checkpoint (a file, or empty), lost_at (an epoch, or empty). Arguments: the points to
# learn from, then "valid", then those to judge by.
function load(file,    line, part) {
    while ((getline line <file) > 0) {
        split(line, part)
        count++
        xs[count] = part[1]
        ys[count] = part[2]
        labels[count] = part[3]
    }
    close(file)
}

function resume(    line, epoch) { # the epoch to go on from
    n = features(kind, 0, 0, f)
    for (i = 1; i <= n; i++) {
        w[i] = 0
    }
    if (!checkpoint || (getline line <checkpoint) <= 0) {
        return 0
    }
    split(line, part)
    for (i = 1; i <= n; i++) {
        w[i] = part[i + 2]
    }
    print "going on from epoch " part[2]
    return part[2]
}

# Written beside and renamed: whoever is killed here leaves the old one whole.
function save(file, epoch,    line) {
    line = kind " " epoch
    for (i = 1; i <= n; i++) {
        line = line " " sprintf("%.9g", w[i])
    }
    print line >(file ".new")
    close(file ".new")
    system("mv '" file ".new' '" file "'")
}

function step(    p, error, slope) {
    for (i = 1; i <= n; i++) {
        slope[i] = l2 * w[i]
    }
    for (p = 1; p <= learn; p++) {
        features(kind, xs[p], ys[p], f)
        error = (probability(w, f, n) - labels[p]) / learn
        for (i = 1; i <= n; i++) {
            slope[i] += error * f[i]
        }
    }
    for (i = 1; i <= n; i++) {
        w[i] -= lr * slope[i]
    }
}

function accuracy(    p, right) {
    for (p = learn + 1; p <= count; p++) {
        features(kind, xs[p], ys[p], f)
        right += (probability(w, f, n) > 0.5) == labels[p]
    }
    return right / (count - learn)
}

BEGIN {
    for (a = 1; a < ARGC; a++) {
        if (ARGV[a] == "valid") {
            learn = count
        } else {
            load(ARGV[a])
        }
    }
    for (epoch = resume(); epoch < epochs; epoch++) {
        if (lost_at && epoch == lost_at) {
            print "cut short at epoch " epoch ", as if the machine had been taken away"
            exit 75
        }
        step()
        if ((epoch + 1) % 20 == 0) {
            if (checkpoint) {
                save(checkpoint, epoch + 1)
            }
            printf "epoch %d: accuracy %.4f\n", epoch + 1, accuracy()
        }
    }
    save(model, epochs)
    printf "%.4f %s %s %s\n", accuracy(), kind, lr, l2 >score
}
