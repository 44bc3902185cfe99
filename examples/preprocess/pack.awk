# usage: awk -v output=FOLDER -f pack.awk MANIFEST - the files named in MANIFEST, one a line, become
# FOLDER/records.tsv (name and text, a record a line) and FOLDER/words.tsv (word and count).
{
    record = ""
    while ((status = (getline line <$0)) > 0) {
        gsub(/\t/, " ", line)
        record = record (record == "" ? "" : " ") line
    }
    if (status < 0) {
        print "cannot read " $0 >"/dev/stderr"
        failed = 1
        exit 1
    }
    close($0)
    name = $0
    sub(/.*\//, "", name)
    print name "\t" record >(output "/records.tsv")
    count = split(tolower(record), words, /[^a-z]+/)
    for (i = 1; i <= count; i++) {
        if (words[i] != "") {
            seen[words[i]]++
        }
    }
}

END {
    if (failed) {
        exit 1
    }
    for (word in seen) {
        print word "\t" seen[word] >(output "/words.tsv")
    }
    print NR " files packed"
}
