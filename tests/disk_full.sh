#!/bin/bash
# A disk that fills up under a run: drover says so once, waits, and goes on when there is room.
# In a mount namespace of its own, so that the small disk is nobody else's.
if [ -z "${IN_NAMESPACE:-}" ] && unshare -m true 2>/dev/null; then
    IN_NAMESPACE=1 exec unshare -m bash "$0"
fi
. "$(dirname "$0")/lib.sh"
t_start "a full disk"
[ -n "${IN_NAMESPACE:-}" ] || skip_all "no mount namespace can be made here (not root?)"
mkdir small
mount -t tmpfs -o size=4m,nr_inodes=20000 tmpfs small 2>/dev/null ||
    skip_all "no tmpfs can be mounted here"
trap 'code=$?; umount -l "$T/work/small"; (exit $code); t_end' EXIT

fill() {
    cat /dev/zero >small/ballast 2>/dev/null
}

empty() {
    rm -f small/ballast
}

cat >short.yaml <<'END'
experiments:
  a: {parameters: {n: 0..299}, retries: 0, command: "sleep 0.01; echo {{n}} >>ran"}
END
check_clean_end() { # WHAT
    check_equal "$1: every task ran" 300 "$(sort -u ran | wc -l)"
    check_output "$1: and was accepted" '^succeeded: 300 of 300' \
        "$DROVER" status --state small/state
}

# ---- while it runs ----------------------------------------------------------------------------

"$DROVER" run short.yaml --state small/state >out 2>&1 </dev/null &
t_pid=$!
t_pids+=("$t_pid")
wait_until 10 test -s ran
fill
check "a full disk is noticed" wait_until 10 grep -q '^note: waiting' out
check_output "with the reason" '^note: waiting.*(full|No space)' cat out
sleep 0.5
before=$(wc -l <ran)
sleep 0.7
check_equal "nothing new is started meanwhile" "$before" "$(wc -l <ran)"
check "drover lives" kill -0 "$t_pid"
check_output "and can be looked at" '^running: ' "$DROVER" status --state small/state
check_equal "it says so once" 1 "$(grep -c '^note: waiting' out)"
empty
wait_for "$t_pid"
check_equal "with room again it goes on to its end" 0 "$t_status"
check_output "and says so" '^note: .*again' cat out
check_clean_end "after a full disk"
check_equal "no task ran twice" "" "$(sort ran | uniq -d | paste -sd ' ')"

# ---- killed while the disk is full ------------------------------------------------------------

rm -rf small/state ran
"$DROVER" run short.yaml --state small/state >out 2>&1 </dev/null &
t_pid=$!
t_pids+=("$t_pid")
wait_until 10 test -s ran
fill
wait_until 10 grep -q '^note: waiting' out
kill -KILL "$t_pid"
wait_for "$t_pid"
"$DROVER" run short.yaml --state small/state >out 2>&1 </dev/null &
t_pid=$!
t_pids+=("$t_pid")
check "resuming on a full disk says so" wait_until 10 grep -qE '(full|No space)' out
kill -TERM "$t_pid" 2>/dev/null
sleep 0.2
kill -TERM "$t_pid" 2>/dev/null
ended() {
    ! t_is_child "$t_pid" || grep -q '^State:.*zombie' "/proc/$t_pid/status"
}
check "and TERM still ends it" wait_until 8 ended
kill -KILL "$t_pid" 2>/dev/null
wait_for "$t_pid"
check_equal "with exit 1" 1 "$t_status"
empty
check "with room it resumes" "$DROVER" run short.yaml --state small/state
check_clean_end "after kill -9 on a full disk"

# ---- outputs that do not fit ------------------------------------------------------------------

rm -rf small/state
cat >large.yaml <<'END'
experiments:
  a:
    parameters: {n: 0..19}
    retries: 0
    command: head -c 100000 /dev/zero >{{output}}/data
  b:
    depends_on: a
    command: cat {{a.output}}/*/data | wc -c
END
check "what fits, fits" "$DROVER" run large.yaml --state small/state
check_equal "and is whole" 2000000 "$("$DROVER" logs b/0 --state small/state)"
rm -rf small/state
mkdir small/empty
fill
check_exit 1 "a new run on a full disk is refused" \
    timeout -k 1 10 "$DROVER" run short.yaml --state small/state
grep -qE 'full|No space' "$T/harness/out"
check_equal "with the reason" 0 $?
empty
check "and can be begun once there is room" "$DROVER" run short.yaml --state small/state
