#!/bin/sh
# usage: make-data.sh [FOLDER [COUNT]] - makes COUNT (5,000) small text files for preprocess.yaml in
# FOLDER (data, beside this script), 500 to a sub-folder; the same ones each time.
set -eu
folder=${1:-$(dirname "$0")/data}
count=${2:-5000}

i=0
while [ "$i" -lt "$count" ]; do
    mkdir -p "$folder/$((i / 500))"
    i=$((i + 500))
done
awk -v folder="$folder" -v count="$count" '
function draw(below) {
    state = (state * 16807) % 2147483647
    return int(state / 2147483647 * below)
}
BEGIN {
    state = 20211
    known = split("the a of to herd drover dog sheep cow horse road river grass rain moon star " \
                  "night morning gate hill runs walks sleeps sings waits finds loses counts", words)
    for (i = 0; i < count; i++) {
        file = folder "/" int(i / 500) "/" i ".txt"
        for (sentence = 3 + draw(5); sentence > 0; sentence--) {
            text = ""
            for (word = 4 + draw(8); word > 0; word--) {
                # the product of two draws makes the first words the common ones
                text = text " " words[1 + int(draw(known) * draw(known) / known)]
            }
            print substr(text, 2) "." >file
        }
        close(file)
    }
}'
echo "$count files in $folder"
