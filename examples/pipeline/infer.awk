# usage: awk -f features.awk -f infer.awk MODEL POINTS - a label for each point on stdout; how many
# were right goes to stderr, which drover keeps in the task's log.
NR == FNR {
    kind = $1
    for (i = 3; i <= NF; i++) {
        w[i - 2] = $i
    }
    next
}

{
    n = features(kind, $1, $2, f)
    label = probability(w, f, n) > 0.5
    print label
    right += label == $3
}

END {
    printf "accuracy %.3f on %d points with the %s model\n", right / FNR, FNR, kind >"/dev/stderr"
}
