#!/bin/bash
# timeout: 300
# What a mount knows without asking is true, also when another has just changed it, or does not answer.
. "$(dirname "$0")/lib.sh"
t_start "mounts know what has not changed"
. "$SOURCE/tests/mount.bash"
. "$SOURCE/tests/netns.bash"
mount_possible || skip_all "$mount_why"

A=$T/a
B=$T/b
C=$T/c
mkdir "$A" "$B" "$C"
STATE=$T/meta
LEASE_MS=3000
PY="python3 $SOURCE/tests/mount_lease.py"
seed=${SEED:-$RANDOM}
rounds=${LEASE_ROUNDS:-200}
echo "# seed $seed, $rounds rounds (SEED, LEASE_ROUNDS)"

lease_end() {
    local status=$?
    [ -n "${stopped:-}" ] && kill -CONT "$stopped" 2>/dev/null
    net_down
    (exit "$status")
    mount_end
}
now_ms() { echo $(($(date +%s%N) / 1000000)); }

has_net=no
net_up 1 2>/dev/null && has_net=yes
trap lease_end EXIT
host=127.0.0.1
[ "$has_net" = yes ] && host=$net_master

V=lease-$$
"$DROVER" volume create "$V" --store "file://$PWD/store" >/dev/null
"$DROVER" meta "$V" --state "$STATE" --lease "$LEASE_MS" --listen "$host:0" >meta.out 2>meta.err &
t_pids+=("$!")
is_served() { grep -q 'serving at' meta.out; }
check "the owner serves" wait_until 20 is_served
check "a mount" "$DROVER" mount "@$STATE/volume.url" "$A"
check "another" "$DROVER" mount "@$STATE/volume.url" "$B"

# shellcheck disable=SC2086 # words
{
    check "what one changes the other sees at once, though it knew what was there" \
        timeout 200 $PY turns "$A" "$B" "$seed" "$rounds"
    check "one file in turn" timeout 60 $PY tennis "$A" "$B" 500
    check "one appends, others look" timeout 60 $PY append "$A" "$B" 600
    check "both change the names of one folder" timeout 100 $PY both "$A" "$B" "$seed" 300
}
$PY turns "$A" "$B" $((seed + 1)) $((rounds / 4)) 2>one.err &
one=$!
$PY turns "$A" "$B" $((seed + 2)) $((rounds / 4)) 2>two.err &
two=$!
wait "$one"; one=$?
wait "$two"; two=$?
check_equal "two at a time" "0 0 " "$one $two $(cat one.err two.err)"
rm -rf "${A:?}"/*

# What does not change is not asked for again.
mkdir "$A"/d{1..20}
for i in $(seq 20); do
    (cd "$A/d$i" && touch f{1..100})
done
asks=$($PY warm "$B" 2000)
echo "# $asks asks of the owner in a second walk over 2000 files"
check "a second walk asks the owner (almost) nothing" test "$asks" -lt 40

# A mount that does not answer is waited for, its lease at most, and does not believe what it knew.
echo old >"$A/x"
check_equal "known at the other" "old old" "$(cat "$B/x") $(cat "$B/x")"
sleep 1 # what was just changed is not granted at once
cat "$B/x" >/dev/null
stopped=$(M=$B mount_pid)
kill -STOP "$stopped"
began=$(now_ms)
echo new >"$A/x"
took=$(($(now_ms) - began))
echo "# waited $took ms for a mount that is stopped"
check "a stopped mount is waited for" test "$took" -gt 500
check "for its lease at most" test "$took" -lt $((LEASE_MS + 1500))
cat "$B/x" >seen 2>&1 & # asked before it goes on
reader=$!
sleep 0.2
kill -CONT "$stopped"
wait "$reader"
check_equal "going on, it sees what is new" new "$(cat seen)"
has_lapsed() { grep -q 'let go' meta.err; }
check "its session had lapsed" wait_until 10 has_lapsed
wait_until 10 cat "$B/x" >/dev/null
sleep 1
check_equal "known again" "new new" "$(cat "$B/x") $(cat "$B/x")"
kill -STOP "$stopped"
(sleep 0.7; kill -CONT "$stopped") &
echo newer >"$A/x"
check_equal "stopped for less than its lease" newer "$(cat "$B/x")"
wait $!
stopped=

# The same with a network that is cut.
if [ "$has_net" = yes ]; then
    netns=/run/netns/$(net_space 1)
    check "a mount on another machine" nsenter --net="$netns" "$DROVER" mount "@$STATE/volume.url" "$C"
    sleep 1
    check_equal "it knows" "newer newer" "$(cat "$C/x") $(cat "$C/x")"
    net_cut 1
    began=$(now_ms)
    echo cut >"$A/x"
    took=$(($(now_ms) - began))
    echo "# waited $took ms for a mount that is cut off"
    check "one that is cut off is waited for, its lease at most" test "$took" -lt $((LEASE_MS + 1500))
    check_exit 124 "it says nothing rather than what was" timeout 2 cat "$C/x"
    net_heal 1
    check_equal "healed, it sees what is new" cut "$(timeout 60 cat "$C/x")"
    check "unmounted" "$DROVER" unmount "$C"
else
    skip "no network namespaces here: nothing can be cut off"
fi
check "unmounting" "$DROVER" unmount "$A"
check "both" "$DROVER" unmount "$B"
