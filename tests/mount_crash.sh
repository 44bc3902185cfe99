#!/bin/bash
# timeout: 300
# kill -9 of a mount in the middle of writes: what was synced is there, nothing is half there.
. "$(dirname "$0")/lib.sh"
t_start "a mount that is killed"
. "$SOURCE/tests/mount.bash"
mount_possible || skip_all "$mount_why"

rounds=${MOUNT_KILLS:-15}
seed=${SEED:-$RANDOM}
echo "# seed $seed, $rounds rounds (SEED, MOUNT_KILLS)"
RANDOM=$seed
"$DROVER" volume create t --store "file://$PWD/store" >/dev/null
syncs=0
bad=0
for round in $(seq "$rounds"); do
    mount_on t || { bad=1; break; }
    mkdir -p "$M/w" && rm -f "$M"/w/*
    "$FILETEST" writer "$M/w" $((seed + round)) >"log" 2>/dev/null &
    writer=$!
    sleep "0.$((RANDOM % 9 + 1))"
    mount_kill
    wait "$writer" 2>/dev/null
    mount_on t || { bad=2; break; }
    said=$("$FILETEST" check "$M/w" log 2>&1) || { bad="round $round: $said"; break; }
    syncs=$((syncs + ${said%% *}))
    mount_off || { bad=3; break; }
done
check_equal "everything synced was there, everything there was whole" 0 "$bad"
check "something was synced at all" test "$syncs" -gt 0
echo "# $syncs syncs over $rounds kills"
cat >locks.py <<'PY'
import os, sys
folder = os.open(sys.argv[1], os.O_RDONLY)
for i in range(50):  # as flock(1) makes its file
    os.close(os.open(f"{sys.argv[1]}/lock{i}", os.O_CREAT | os.O_RDONLY, 0o600))
    if i % 7 == 0:
        os.fsync(folder)
os.fsync(folder)
PY
mount_on t && mkdir "$M/locks" && python3 locks.py "$M/locks"
mount_kill
mount_on t
check_equal "files that nobody wrote to, whose folder was synced, are there" 50 "$(find "$M/locks" -type f | wc -l)"
rm -r "$M/locks"
mount_off
check "the volume is sound" "$DROVER" data verify t
check "gc" "$DROVER" data gc t
mount_on t && rm -rf "$M/w" && mount_off
check "everything removed, gc" "$DROVER" data gc t
check_equal "leaves no pack that nothing refers to" "" "$(find store -path '*packs*' -type f)"
