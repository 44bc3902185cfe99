#!/bin/bash
# timeout: 1500
# Random operations through two mounts of one volume while something happens to its owner or to a mount, round
# after round, each with a seed of its own. MOUNT_SOAK_SECONDS=N makes it longer, SEED=N begins with that round.
. "$(dirname "$0")/lib.sh"
t_start "two mounts, harassed"
. "$SOURCE/tests/mount.bash"
mount_possible || skip_all "$mount_why"

A=$T/a
B=$T/b
mkdir "$A" "$B"
STATE=$T/meta
V=soak-$$ # found by its name among all mounts of this machine
seconds=${MOUNT_SOAK_SECONDS:-15}
LOG=$HOME/.local/state/drover/mount.log

meta_on() {
    "$DROVER" meta "$V" --state "$STATE" --lease 5000 >>"$T/meta.out" 2>>"$T/meta.err" &
    meta_pid=$!
    t_pids+=("$meta_pid")
    starts=$((starts + 1))
    wait_until 30 is_served "$starts"
}
meta_off() { # SIGNAL
    kill "-$1" "$meta_pid"
    wait "$meta_pid" 2>/dev/null
    return 0
}
is_served() { [ "$(grep -c 'serving at' "$T/meta.out")" -ge "$1" ]; }
mount_both() {
    "$DROVER" mount "@$STATE/volume.url" "$A" && "$DROVER" mount "@$STATE/volume.url" "$B"
}
disturb() { # does one thing to those who serve; what it was is in $what
    case $((RANDOM % 7)) in
    0) what=nothing ;;
    1) what="gc" && "$DROVER" data gc "$V" >/dev/null ;;
    2) what="a snapshot" && "$DROVER" data snapshot "$V" "s$round" >/dev/null ;;
    3) what="kill -9 of the owner" && meta_off KILL && sleep "0.$((RANDOM % 9))" && meta_on ;;
    4) what="kill -9 of the owner, twice" && meta_off KILL && meta_on && sleep 0.5 && meta_off KILL && meta_on ;;
    5) what="a new owner" && meta_off TERM && meta_on ;;
    6) what="a mount that sleeps" && kill -STOP "$b_pid" && sleep "1.$((RANDOM % 9))" && kill -CONT "$b_pid" ;;
    esac
}

# Checks say nothing here unless they fail: there are many rounds.
must() { # WHAT COMMAND...
    local sentence=$1
    shift
    t_run "$@"
    [ "$t_status" -eq 0 ] && return 0
    t_not_ok "round $round, seed $seed, $what: $sentence" "$*" "exit $t_status" "$(t_seen)" \
        "$(tail -n 5 "$T/meta.err")" "$(tail -n 5 "$LOG" 2>/dev/null)"
    return 1
}
same() { [ "$(cksum <"$1")" = "$(cksum <"$2")" ]; }

one_round() {
    local fsx names writer codes
    RANDOM=$seed
    what=nothing
    b_pid=$(M=$B mount_pid)
    mkdir "$A/w$round"
    timeout 120 "$FILETEST" fsx2 "$A/fsx$round" "$B/fsx$round" "$seed" 250 >fsx.out 2>&1 &
    fsx=$!
    FILETEST_MODEL=$T/model$round timeout 120 "$FILETEST" names2 "$A/n$round" "$B/n$round" "$seed" 350 >names.out 2>&1 &
    names=$!
    timeout 120 "$FILETEST" writer "$A/w$round" "$seed" 60 >writer.log 2>writer.err &
    writer=$!
    sleep "0.$((RANDOM % 9))"
    disturb
    wait "$fsx"; codes=$?
    wait "$names"; codes="$codes $?"
    wait "$writer"; codes="$codes $?"
    must "files, names and a writer go on" test "$codes" = "0 0 0" ||
        { cat fsx.out names.out writer.err; return 1; }
    must "both see one content" same "$A/fsx$round" "$B/fsx$round" || return 1
    sed 's/^closed/synced/' writer.log >closed
    must "everything that was closed is there" "$FILETEST" check "$B/w$round" closed || return 1
    must "from the store alone" one_remount || return 1
    find "$A" -mindepth 1 -delete
    rm -rf "$T/model$round"
}

# Every third round everything is started anew without a cache, and every other of those by force.
one_remount() {
    [ $((round % 3)) -eq 0 ] || return 0
    local before
    before=$(cksum <"$A/fsx$round")
    if [ $((round % 2)) -eq 0 ]; then
        sync "$A/fsx$round"
        M=$A mount_kill
        M=$B mount_kill
        meta_off KILL
    else
        "$DROVER" unmount "$A" && "$DROVER" unmount "$B" && meta_off TERM || return 1
    fi
    rm -rf "$HOME/.cache"
    meta_on && mount_both || return 1
    [ "$(cksum <"$B/fsx$round")" = "$before" ] && "$FILETEST" check "$A/w$round" writer.log
}

"$DROVER" volume create "$V" --store "file://$PWD/store" >/dev/null
starts=0
meta_on
check "two mounts through one owner" mount_both
round=0
deadline=$((SECONDS + seconds))
while [ "$t_failed" -eq 0 ] && { [ "$round" -eq 0 ] || [ "$SECONDS" -lt "$deadline" ]; }; do
    round=$((round + 1))
    seed=$RANDOM$RANDOM
    [ "$round" -eq 1 ] && seed=${SEED:-$seed}
    one_round
    echo "# round $round: seed $seed, $what"
    RANDOM=$((seed + SECONDS))
done
check "$round rounds went well" test "$t_failed" -eq 0
check "unmounting" "$DROVER" unmount "$A"
check "both" "$DROVER" unmount "$B"
meta_off TERM
check_output "the volume is sound" 'all sound' "$DROVER" data verify "$V"
