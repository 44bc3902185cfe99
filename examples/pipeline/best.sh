#!/bin/sh
# usage: best.sh OUTPUTS kind|folder - of the models in OUTPUTS/*/, the kind or the folder of the
# one with the best score. A task that failed has no folder there, so every score counts.
set -eu
best=$(for folder in "$1"/*/; do
    echo "$(cat "$folder/score") $folder"
done | LC_ALL=C sort -k 1,1nr | head -n 1)
case $2 in
kind) echo "$best" | cut -d ' ' -f 2 ;;
folder) echo "$best" | cut -d ' ' -f 5- ;;
esac
