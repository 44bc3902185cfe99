#!/bin/bash
# timeout: 300
# A volume in a real S3: filled, mounted, killed, and its server killed in the middle of writes.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/s3.bash"
t_start "a volume in S3"
. "$SOURCE/tests/mount.bash"
mount_possible || skip_all "$mount_why"
s3_there || skip_all "$s3_why"
check "$S3_SERVER starts" s3_up
[ -n "$s3_endpoint" ] || exit 1
check "a bucket can be made" s3_bucket volumes

check "a volume in it" "$DROVER" volume create t --store s3://volumes/t --endpoint "$s3_endpoint"
check_exit 1 "the wrong key is refused" env AWS_SECRET_ACCESS_KEY=wrong "$DROVER" data ls t:/
check_no_output "and not shown" "$AWS_SECRET_ACCESS_KEY" env AWS_SECRET_ACCESS_KEY=wrong "$DROVER" data ls t:/
check_exit 2 "a bucket that is not there" "$DROVER" volume create u --store s3://nosuch/t --endpoint "$s3_endpoint"
mkdir source
for i in $(seq 300); do head -c $((RANDOM % 40000)) /dev/urandom >"source/f$i"; done
head -c 9000000 /dev/urandom >source/big
check "files go in" "$DROVER" data put source t:/data
check "a snapshot" "$DROVER" data snapshot t v1
check "a mount" mount_on t@v1
check "has them" diff -r source "$M/data"
check "ends" mount_off
check "and one for writing" mount_on t
seed=${SEED:-$RANDOM}
echo "# seed $seed"
check "random operations" "$FILETEST" fsx "$M/fsx" "$seed" 600
check "is ended" mount_off

has_grown() {
    [ "$(wc -l <log)" -gt "$before" ]
}
bad=0
syncs=0
before=0
for round in 1 2 3 4; do
    mount_on t || { bad=1; break; }
    mkdir -p "$M/w" && rm -f "$M"/w/*
    "$FILETEST" writer "$M/w" $((seed + round)) >log 2>/dev/null &
    writer=$!
    sleep "0.$((RANDOM % 9 + 1))"
    if [ $((round % 2)) = 0 ]; then # the server dies; the mount waits until it is back
        kill -KILL "$s3_pid"
        wait "$s3_pid" 2>/dev/null
        before=$(wc -l <log)
        s3_again || { bad="no server"; break; }
        wait_until 60 has_grown || { bad="it does not go on"; break; }
    fi
    mount_kill
    wait "$writer" 2>/dev/null
    mount_on t || { bad=2; break; }
    said=$("$FILETEST" check "$M/w" log 2>&1) || { bad="round $round: $said"; break; }
    syncs=$((syncs + ${said%% *}))
    mount_off || { bad=3; break; }
done
check_equal "whoever is killed, what was synced is there and nothing is half there" 0 "$bad"
check "something was synced at all" test "$syncs" -gt 0
check "the volume is sound" "$DROVER" data verify t
check "everything is removed" "$DROVER" data rm -r 't:/*'
check "the snapshot too" "$DROVER" data snapshot --delete t v1
check "gc" "$DROVER" data gc t
check_output "leaves nothing that nothing refers to" '"objects":0,.*"packs_kept":0' "$DROVER" data gc t --json

# ---- while an order waits for the store ----------------------------------------------------------

mount_on t
mkdir "$M/go" && echo first >"$M/go/first" && sync "$M/go/first"
kill -STOP "$s3_pid"
"$DROVER" data gc t >gc.out 2>&1 &
order=$!
"$DROVER" data snapshot t held >held.out 2>&1 &
held=$!
sleep 0.5
goes_on() { echo more >"$M/go/$1" && mv "$M/go/$1" "$M/go/more" && rm "$M/go/more"; }
export -f goes_on
export M
check "a gc and a snapshot wait for a store that is away, and files are written beside them" \
    timeout 10 bash -c 'goes_on a && goes_on b'
check "they are not done" kill -0 "$order" "$held"
kill -CONT "$s3_pid"
check "when it is back the gc is" wait "$order"
check "and the snapshot" wait "$held"
check "which has what was there" "$DROVER" data ls t@held:/go/first
check "and goes" "$DROVER" data snapshot --delete t held
check "the mount ends" mount_off

# ---- a snapshot whose store does not answer ------------------------------------------------------

check "files go in again" "$DROVER" data put source t:/again
check "a snapshot of them" "$DROVER" data snapshot t v2
gone() { ! readlink "/proc/$pid/exe" >/dev/null; } # a zombie has none
for how in TERM KILL; do
    rm -rf "$HOME/.cache/drover"
    check "it is mounted" mount_on t@v2
    pid=$(mount_pid)
    kill -STOP "$s3_pid"
    cat "$M/again/big" >read.out 2>&1 &
    reader=$!
    sleep 0.5
    check "who reads it waits for the store" kill -0 "$reader"
    kill -"$how" "$pid"
    check "a mount that is told to end ($how) does" wait_until 10 gone
    wait "$reader"
    check_equal "and whoever waited is told" 1 "$?"
    kill -CONT "$s3_pid"
    umount "$M" 2>/dev/null
    check_equal "nothing stays mounted" 0 "$(grep -c " $M " /proc/mounts)"
done
rm -rf "$HOME/.cache/drover"
check "it is mounted for one who gives up" mount_on t@v2
kill -STOP "$s3_pid"
timeout -s KILL 1 cat "$M/again/big" >read.out 2>&1
start_ns=$(date +%s%N)
check "unmounting waits for what was being read" timeout 20 "$DROVER" unmount "$M"
check_equal "but not for long" 1 "$((($(date +%s%N) - start_ns) / 1000000000 < 15))"
check_equal "and it is gone" 0 "$(grep -c " $M " /proc/mounts)"
kill -CONT "$s3_pid"
rm -rf "$HOME/.cache/drover"
check "it is mounted once more" mount_on t@v2
kill -STOP "$s3_pid"
cat "$M/again/big" >read.out 2>&1 &
reader=$!
sleep 0.5
kill -KILL "$reader"
check "who is killed while it waits goes at once" wait_until 5 bash -c "! kill -0 $reader 2>/dev/null || [ \"\$(cut -d' ' -f3 /proc/$reader/stat)\" = Z ]"
wait "$reader" 2>/dev/null
kill -CONT "$s3_pid"
check "and the mount goes on" cmp source/big "$M/again/big"
check "and ends" mount_off

# ---- a bucket that others have filled ------------------------------------------------------------

[ -z "$s3_is_tree" ] || exit 0 # it takes no such keys
check "a bucket of somebody else's" s3_bucket theirs
python3 - <<'PY' | python3 "$SOURCE/tests/s3_put.py" "$s3_endpoint" theirs
import json
for key, content in [["with space (1).txt", "spaces"], ["ümläut/日本 & co+a=b,c^d.txt", "odd" * 3000000],
                     ["100%41", "percent"], ["empty", ""], ["folder/marker/", ""], ["a//b", "no path"],
                     ["d/../x", "no path"], ["both", "a file"], ["both/below", "and a folder"]]:
    print(json.dumps([key, content]))
PY
check_output "is imported, as far as its objects can be files" '^imported 5 files, 9.0 MB' \
    "$DROVER" data import s3://theirs t:/theirs
check_output "what cannot is passed over, and said so" '"unchanged":5,.*"passed_over":3' \
    "$DROVER" data import s3://theirs t:/theirs --json
check_equal "with its names" "100%41 both empty folder/marker with space (1).txt ümläut/日本 & co+a=b,c^d.txt" \
    "$("$DROVER" data get t:/theirs got >/dev/null && cd got && find . -type f -o -empty | LC_ALL=C sort | sed 's,^./,,' | paste -sd ' ')"
check_equal "and contents" "percent 9000000" "$(cat got/100%41) $(cat got/ümläut/* | wc -c)"
