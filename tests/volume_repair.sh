#!/bin/bash
# drover volume repair: a store that has lost or damaged a part of a volume's log.
. "$(dirname "$0")/lib.sh"
t_start "drover volume repair"

# Each put opens the volume (a fence), stores one commit, and leaves.
fill() { # NAME FIRST LAST
    local i
    for i in $(seq "$2" "$3"); do
        mkdir -p "in/$i"
        echo "text $i" >"in/$i/small"
        head -c 300000 /dev/urandom >"in/$i/large"
        "$DROVER" data put "in/$i" "$1:/$i" >/dev/null || return 1
    done
}

log_of() { # STORE: its log objects, the oldest first
    find "$1/log," -type f | LC_ALL=C sort
}

state_of() { # STORE: every object with its bytes
    find "$1" -type f ! -name ',lock' -exec sha256sum {} + | LC_ALL=C sort -k 2
}

json() { # KEY: of the object on standard input
    python3 -c 'import json, sys; print(json.load(sys.stdin)[sys.argv[1]])' "$1"
}

check "a volume" "$DROVER" volume create t --store "file://$PWD/store"
check "with files" fill t 1 2
check "and a snapshot of them" "$DROVER" data snapshot t early
check "and more files" fill t 3 6
check_output "nothing is wrong with it" 'nothing to repair' "$DROVER" volume repair t
before=$(state_of store)
check "repairing it all the same is no error" "$DROVER" volume repair t --yes
check_equal "and changes nothing" "$before" "$(state_of store)"
check_equal "for programs" whole "$("$DROVER" volume repair t --json | json log)"

# The commit of 5 is the third last of 5's fence, 5, 6's fence, 6.
lost=$(log_of store | tail -3 | head -1)
key=log/${lost##*/}
rm "$lost"
check_output "a lost log object is named, and the command" "^drover: $key: missing.*\\(drover volume repair t says" \
    "$DROVER" data ls t:/
check_exit 1 "to those who write too" "$DROVER" data put in/1 t:/x
before=$(state_of store)
check_exit 1 "without --yes" "$DROVER" volume repair t
check_equal "nothing is changed" "$before" "$(state_of store)"
check_output "what is wrong is said" "t: $key: missing" "$DROVER" volume repair t
check_output "what it costs" 'goes back to commit [0-9]+, .* is lost, and 1 later commit ' "$DROVER" volume repair t
check_output "and the command" 'drover volume repair t --yes' "$DROVER" volume repair t
check_equal "for programs: what" missing "$("$DROVER" volume repair t --json | json log)"
check_equal "how much" 1 "$("$DROVER" volume repair t --json | json later_commits)"
check_equal "and that it was not done" False "$("$DROVER" volume repair t --json | json repaired)"
check_output "by its address, too" 'drover volume repair file://.*store --yes' "$DROVER" volume repair "file://$PWD/store"
check_exit 2 "a snapshot is not repaired" "$DROVER" volume repair t@early
check_exit 2 "nor a part" "$DROVER" volume repair t:/1
check_exit 2 "nor what is not there" "$DROVER" volume repair nosuch
check "the snapshot can be read meanwhile" "$DROVER" data verify t@early

saved=$(log_of store | tail -2 | xargs -d '\n' cat | sha256sum)
check_output "with --yes it is repaired" 't is repaired: .*1 later commit ' "$DROVER" volume repair t --yes
check_output "then nothing is wrong" 'nothing to repair' "$DROVER" volume repair t
check_equal "the files are those before it" "1/ 2/ 3/ 4/" "$("$DROVER" data ls t:/ | tr '\n' ' ' | sed 's/ $//')"
check_output "all sound" 'all sound' "$DROVER" volume fsck t
check "as they went in" "$DROVER" data get t:/4 out
check "byte for byte" diff -r in/4 out
check "the snapshot too" "$DROVER" data verify t@early
check_equal "what was cut off is kept" "$saved" \
    "$(find store/lost, -type f | LC_ALL=C sort | xargs -d '\n' cat | sha256sum)"
check "files can be written" fill t 7 8
check_output "gc" 'deleted' "$DROVER" data gc t
check_equal "deletes the packs of what was cut off" 6 "$(find store/packs, -type f | wc -l)"
check_output "and nothing else" 'all sound' "$DROVER" volume fsck t
check "of the snapshot neither" "$DROVER" data verify t@early
check "what was kept stays" test -n "$(find store/lost, -type f)"

# A damaged one, and repairs that are killed.
check "another volume" "$DROVER" volume create d --store "file://$PWD/damaged"
check "with files in it" fill d 1 4
broken=$(log_of damaged | tail -3 | head -1)
printf 'x' | dd of="$broken" bs=1 seek=40 conv=notrunc status=none
check_output "a damaged log object is named, and the command" "^drover: log/${broken##*/}: damaged.*\\(drover volume repair d says" \
    "$DROVER" data ls d:/
check_equal "for programs" damaged "$("$DROVER" volume repair d --json | json log)"
cp -a damaged pristine
seen=
for try in $(seq 10); do
    rm -rf damaged
    cp -a pristine damaged
    for delay in $((RANDOM % 8 + 2)) $((RANDOM % 15 + 4)) $((RANDOM % 30 + 5)); do
        timeout -s KILL "$(printf '0.%03d' "$delay")" "$DROVER" volume repair d --yes >/dev/null 2>&1
        said=$("$DROVER" data ls d:/ 2>&1 | tr '\n' ' ')
        case $said in
        "1/ 2/ " | *"drover volume repair d says"*) ;;
        *) seen="$seen try $try: $said" ;;
        esac
    done
    "$DROVER" volume repair d --yes >/dev/null 2>&1 || seen="$seen try $try: not repaired"
    said=$("$DROVER" volume fsck d 2>&1 && "$DROVER" data ls d:/ 2>&1 | tr '\n' ' ')
    case $said in
    *"all sound"*"1/ 2/ ") ;;
    *) seen="$seen try $try: $said" ;;
    esac
done
check_equal "killed at any moment it is repaired, or says that it needs it" "" "$seen"

# An owner that lives.
check "one more volume" "$DROVER" volume create o --store "file://$PWD/owned"
check "with some files" fill o 1 3
background "$DROVER" meta o --listen 127.0.0.1:0 --state meta --quiet
owner=$t_pid
wait_until 20 test -s meta/volume.url
rm "$(log_of owned | tail -3 | head -1)"
check_output "who owns it is said, and that nothing need be lost" 'It has an owner: served by drover meta .*nothing is lost' "$DROVER" volume repair o
before=$(state_of owned)
check_exit 1 "while it lives nothing is repaired" "$DROVER" volume repair o --yes
check_equal "nor changed" "$before" "$(state_of owned)"
check_output "and the way out is said" 'has an owner: .*drover volume repair o --yes --take-over' "$DROVER" volume repair o --yes
kill -STOP "$owner"
check "unless it is taken from it" "$DROVER" volume repair o --yes --take-over
kill -CONT "$owner"
check "files can be written then" fill o 7 7
check_output "and all is sound" 'all sound' "$DROVER" volume fsck o
