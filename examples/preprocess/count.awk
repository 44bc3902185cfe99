# Adds up lines "word TAB count".
{
    total[$1] += $2
}

END {
    for (word in total) {
        print word "\t" total[word]
    }
}
