#!/bin/bash
# Volumes without a mount: making, filling, listing, changing, snapshots, gc, and what is refused.
. "$(dirname "$0")/lib.sh"
t_start "drover volume and drover data"

mkdir -p source/a/b source/empty
echo hello >source/x
head -c 3000000 /dev/urandom >source/a/big
for i in $(seq 50); do echo "file $i" >"source/a/b/f$i.txt"; done
ln -s ../x source/a/link
touch -d '1969-12-31 12:00:00.25 UTC' source/old
printf 'odd' >"source/a/ name with 'quotes' and $(printf '\377')"
chmod 640 source/x

check "a volume is made in a folder" "$DROVER" volume create t --store "file://$PWD/store"
check_exit 2 "a second one of that name is refused" "$DROVER" volume create t --store "file://$PWD/store2"
check_output "so is a second one in that place, and the way out is said" 'drover volume add' \
    "$DROVER" volume create other --store "file://$PWD/store"
check_no_output "nothing of it stays" other "$DROVER" volume list
check_output "it is listed" '^t +file://' "$DROVER" volume list
check_equal "for programs too" t "$("$DROVER" volume list --json | python3 -c 'import json,sys; print(json.load(sys.stdin)["name"])')"

check_output "files are put in" 'stored 54 files' "$DROVER" data put source t:/data
check_output "a second time only what has changed" 'stored 0 files.*55 unchanged' "$DROVER" data put source t:/data
echo changed >source/x
check_output "which is one file now" 'stored 1 file,.*54 unchanged' "$DROVER" data put source t:/data
check "they come out again" "$DROVER" data get t:/data out
check "as they went in" diff -r --no-dereference source out
check_equal "with their permissions" 640 "$(stat -c %a out/x)"
check_equal "and times, before 1970 too" "$(stat -c %.9Y source/old)" "$(stat -c %.9Y out/old)"
check_output "out again: nothing to do" 'fetched 0 files' "$DROVER" data get t:/data out
check "one file comes out under another name" "$DROVER" data get t:/data/a/big big2
check "byte for byte" cmp source/a/big big2
check "a pattern takes several" "$DROVER" data get 't:/data/a/b/f1*.txt' some
check_equal "and no others" 11 "$(find some -type f | wc -l)"
check_exit 2 "a pattern that nothing matches is an error" "$DROVER" data get 't:/data/*.nothing' none
check_exit 2 "so is a path that is not there" "$DROVER" data get t:/nothing none
check_exit 2 "and one with .." "$DROVER" data ls t:/data/../data

check_output "listing" '^x$' "$DROVER" data ls t:/data
check_output "with sizes" '3000000 .*big$' "$DROVER" data ls -l t:/data/a
check_equal "everything below" 58 "$("$DROVER" data ls -r t:/data --json | wc -l)"
check_output "one file" '"type":"link".*"target":"../x"' "$DROVER" data stat t:/data/a/link --json
check_output "how much there is" '"files":55,.*"bytes":30' "$DROVER" data du t:/data --json
check "renaming" "$DROVER" data mv t:/data/x t:/data/y
check_exit 2 "the old name is gone" "$DROVER" data stat t:/data/x
check "removing" "$DROVER" data rm t:/data/y
check_exit 2 "a folder needs -r" "$DROVER" data rm t:/data/a
check_output "which says so" 'recursive' "$DROVER" data rm t:/data/a

check "a snapshot" "$DROVER" data snapshot t v1
check_exit 2 "of the same name once only" "$DROVER" data snapshot t v1
check_exit 2 "and of a name that can be one" "$DROVER" data snapshot t '../v'
check "removing everything" "$DROVER" data rm -r t:/data
check_equal "leaves nothing" "" "$("$DROVER" data ls t:/)"
check "but the snapshot has it all" "$DROVER" data get t@v1:/data old
check "byte for byte too" cmp source/a/big old/a/big
check_exit 2 "a snapshot cannot be written to" "$DROVER" data put source t@v1:/
check_output "it is listed with its size" '^v1 .*files' "$DROVER" data snapshot --list t
check "by its address alone, without any name" "$DROVER" data get "file://$PWD/store@v1:/data" old2
check "the same" diff -r --no-dereference old old2
check "gc" "$DROVER" data gc t
check "spares what a snapshot holds" "$DROVER" data verify t@v1
check "until it is deleted" "$DROVER" data snapshot --delete t v1
check "then gc" "$DROVER" data gc t
check_equal "leaves no pack" "" "$(find store -path '*packs*' -type f)"

check "a new start" "$DROVER" data put source t:/
check_output "verify reads it all" 'all sound' "$DROVER" data verify t
pack=$(find store -path '*packs*' -type f -size +1M | head -1)
python3 - "$pack" <<'PY'
import sys
with open(sys.argv[1], "r+b") as f:
    f.seek(100000)
    f.write(b"damage")
PY
rm -rf "$HOME/.cache"
check_exit 1 "damage is found" "$DROVER" volume fsck t
check_output "and the file is named" '/a/big: .*checksum' "$DROVER" data verify t
check_exit 1 "damaged bytes are not given out" "$DROVER" data get t:/a/big never
check_exit 1 "no file stays of it" test -e never

check_exit 2 "an unknown volume" "$DROVER" data ls nosuch:/
check_output "says what to do" 'drover volume list' "$DROVER" data ls nosuch:/
check_exit 2 "a store that means nothing" "$DROVER" volume create z --store ftp://x
check_exit 2 "no store at all" "$DROVER" volume create z
check_exit 2 "a folder where there is no volume" "$DROVER" volume add z --store "file://$PWD/source"
check_output "and how one is made there" "source: no volume is there \\(drover volume create" "$DROVER" volume add z --store "file://$PWD/source"
check_output "a store is never a volume's name" "'t' is not file:///folder" "$DROVER" volume create z --store t
check_output "a snapshot that is not there: where the others are" 'there is none \(drover data snapshot --list t\)' "$DROVER" data ls t@none:/
check_output "also when it is to be deleted" 'there is none \(drover data snapshot --list' "$DROVER" data snapshot t none --delete
check_output "a verb that is not there" "'nope' is none of create" "$DROVER" volume nope
check_output "one that needs two words" 'export needs a VOLUME and a FOLDER' "$DROVER" volume export t
check_output "a folder into itself" 'cannot be moved into itself' "$DROVER" data mv t:/a t:/a/in
check_exit 2 "deleting the data needs --yes" "$DROVER" volume delete t --data
check "with it" "$DROVER" volume delete t --data --yes
check_equal "every object is gone" "" "$(find store -type f ! -name ',lock')"
check_equal "and the name" "" "$("$DROVER" volume list)"
