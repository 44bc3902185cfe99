#!/bin/bash
# Ways in which a local run was once broken.
. "$(dirname "$0")/lib.sh"
t_start "a local run under strain"

# ---- two that begin in the same new folder ------------------------------------------------------

cat >one.yaml <<'END'
experiments:
  a: {parameters: {x: {range: 0.1-0.9}}, samples: 20, command: "echo {{x}} >>ran"}
END
check "a run by the first" "$DROVER" run one.yaml --state first
seed_of() {
    "$DROVER" tasks --state "$1" --json | sha256sum
}
before=$(seed_of first)
mkdir second
touch second/lock
exec 9<second/lock
flock 9
background "$DROVER" run one.yaml --state second 9<&-
wait_until 5 sh -c "ls -l /proc/$t_pid/fd 2>/dev/null | grep -q second/lock"
cp first/drover.db second/ # as if the first had done all of it while the second waited
exec 9<&-
wait_for "$t_pid"
check_equal "one that waited for another's new folder resumes what is there" 0 "$t_status"
check_equal "and runs nothing again" 20 "$(wc -l <ran)"
check_equal "nor changes what it was run with" "$before" "$(seed_of second)"

# ---- few files ----------------------------------------------------------------------------------

cat >many.yaml <<'END'
experiments:
  a: {parameters: {n: 0..119}, retries: 0, command: "sleep 1; ulimit -Sn >{{output}}/limit"}
END
(
    ulimit -Sn 128 && ulimit -Hn 1024 && exec "$DROVER" run many.yaml --slots 100 --state many
) >out 2>&1 </dev/null
check_equal "many slots need not fit into a small soft limit of files" 0 $?
check_equal "no slot is lost" 0 "$(grep -c lost out)"
check_equal "and tasks get the limit as it was" 128 "$(sort -u many/outputs/a/*/limit)"

# ---- a task that clears its output folder by making it again -----------------------------------------

cat >again.yaml <<'END'
experiments:
  a: {command: "rm -r {{output}}; mkdir {{output}}; echo result >{{output}}/x"}
  b: {depends_on: a, command: "cat {{a.output}}/0/x"}
END
check "an output folder made again is an output folder" "$DROVER" run again.yaml --state again
check_equal "with what is in it" result "$("$DROVER" logs b/0 --state again)"

# ---- a machine with no process to give ----------------------------------------------------------

cat >crowd.py <<'END'
import os, time
until = time.monotonic() + 1
while time.monotonic() < until: # takes every process that another gives back
    try:
        if os.fork() == 0:
            time.sleep(1.5)
            os._exit(0)
    except OSError:
        time.sleep(0.0002)
END
cat >crowded.yaml <<'END'
experiments:
  crowd: {retries: 0, command: "exec python3 crowd.py"}
  a: {parameters: {n: 0..999}, retries: 0, exec: [/bin/true]}
END
as_user=(setpriv --reuid=64123 --regid=64123 --clear-groups)
if [ "$(id -u)" -eq 0 ] && "${as_user[@]}" test -x "$DROVER" 2>/dev/null; then
    chmod 755 "$T" "$T/work"
    mkdir -m 777 crowded
    # shellcheck disable=SC2016 # $0 is the inner shell's
    "${as_user[@]}" bash -c 'ulimit -u 40 && exec "$0" "$@"' \
        "$DROVER" run crowded.yaml --slots 2 --state crowded/state >out 2>&1 </dev/null
    check_equal "tasks wait while the machine has no process to give" 0 $?
    check_equal "and none of them fails" 0 "$(grep -c '^a/' out)"
else
    skip "no other user can be taken on here"
fi

# ---- a machine that goes down signals everyone --------------------------------------------------

cat >down.yaml <<'END'
experiments:
  a: {parameters: {n: 0..1}, retries: 0, command: "[ ! -e go ] || exit 0; echo $$ >>pids; exec sleep 100"}
END
background "$DROVER" run down.yaml --slots 2 --state down
wait_until 10 sh -c '[ "$(wc -l <pids)" -eq 2 ]'
# shellcheck disable=SC2046 # several numbers
kill -TERM $(cat pids) "$t_pid"
wait_for "$t_pid"
check_equal "a run that is stopped with all its tasks ends" 1 "$t_status"
touch go
check "and its tasks are none the worse for it" "$DROVER" run down.yaml --slots 2 --state down

# ---- nobody reads what it prints ----------------------------------------------------------------

cat >talk.yaml <<'END'
experiments:
  a: {parameters: {n: 0..4999}, exec: [/bin/true]}
END
mkfifo pipe
exec 8<>pipe # open, and never read
"$DROVER" run talk.yaml --json --state talk >pipe 2>/dev/null </dev/null 8<&- &
t_pid=$!
t_pids+=("$t_pid")
events() {
    "$DROVER" status --json --state talk | grep -o '"succeeded":[0-9]*'
}
wait_until 10 test -d talk/logs
stalled() {
    local before
    before=$(events)
    sleep 0.5
    [ -n "$before" ] && [ "$before" = "$(events)" ]
}
wait_until 20 stalled
kill -INT "$t_pid"
gone() {
    ! t_is_child "$t_pid" || grep -q '^State:.*zombie' "/proc/$t_pid/status"
}
check "Ctrl-C ends a run whose output nobody takes" wait_until 8 gone
kill -KILL "$t_pid" 2>/dev/null
wait_for "$t_pid"
check_equal "with exit 1" 1 "$t_status"
exec 8<&-
check "and it can be resumed" "$DROVER" run talk.yaml --quiet --state talk
