#!/bin/bash
# Stopping and going on: Ctrl-C once and twice, changed recipes, two drovers on one state, --resume.
. "$(dirname "$0")/lib.sh"
t_start "stopping and resuming"

said() { # SENTENCE REGEX : what the last check ran printed it
    if grep -qE -e "$2" "$T/harness/out"; then
        t_ok "$1"
    else
        t_not_ok "$1" "nothing matches '$2' in:" "$(t_seen)"
    fi
}

# A task writes its number to the file `ran` as its last action. One that was told to end just then
# is not accepted and runs again, rightly; one that was accepted never does.
accepted() { # STATE_OPTIONS... : numbers of the tasks accepted so far
    "$DROVER" tasks "$@" | sed -n 's,^a/\([0-9]*\) *succeeded.*,\1,p'
}

ran_again() { # : of the numbers in the file done-before, those that are more than once in ran
    local n
    while read -r n; do
        if [ "$(grep -cx "$n" ran)" -ne 1 ]; then
            echo "$n"
        fi
    done <done-before
}

# Runs drover in the background with its output in ./out; as a job of its own, so that it has the
# signals of a foreground program.
start() { # ARGUMENT...
    set -m
    "$DROVER" run "$@" >out 2>&1 </dev/null &
    t_pid=$!
    set +m
    t_pids+=("$t_pid")
}

# ---- once -------------------------------------------------------------------------------------

cat >many.yaml <<'END'
experiments:
  a:
    parameters: {n: 0..23}
    command:
      - trap 'echo $DROVER_INDEX >>terms; exit 1' TERM
      - touch began
      - sleep 0.1 & wait
      - echo {{n}} >>ran
END
start many.yaml --state once
wait_until 10 test -s ran
kill -INT "$t_pid"
wait_for "$t_pid"
check_equal "Ctrl-C ends a run with exit 1" 1 "$t_status"
check_equal "its tasks got TERM" 1 "$(($(wc -l <terms) > 0))"
check_output "it says so" '^note: stopping' cat out
check_output "and how to go on" 'to go on: ' cat out
check_output "the last line tells how far it came" '^stopped: [0-9]+ of 24 tasks' cat out
check_output "the state says that it is not over" '^stopped: [0-9]+ of 24' \
    "$DROVER" status --state once
accepted --state once >done-before
count=$(wc -l <done-before)
check_equal "what was accepted had run" "" \
    "$(sort done-before | comm -23 - <(sort ran))"
check "the same command goes on" "$DROVER" run many.yaml --state once
said "and says how much was done" "resumed, $count done before"
check_equal "to the end" 24 "$(sort -u ran | wc -l)"
check_equal "nothing accepted ran again" "" "$(ran_again)"
check_output "stopping used up no attempt for good" '^succeeded: 24 of 24' \
    "$DROVER" status --state once
check_exit 0 "and there is nothing more to do" "$DROVER" run many.yaml --state once
rm -f ran terms began

start many.yaml --state term
wait_until 10 test -s ran
kill -TERM "$t_pid"
wait_for "$t_pid"
check_equal "TERM does as Ctrl-C does" 1 "$t_status"
accepted --state term >done-before
check "and that state goes on too" "$DROVER" run many.yaml --state term
check_equal "nothing accepted ran again" "" "$(ran_again)"

# ---- twice ------------------------------------------------------------------------------------

cat >stubborn.yaml <<'END'
experiments:
  a: {command: "trap '' TERM INT; touch stubborn-began; while :; do sleep 1; done"}
END
start stubborn.yaml --state twice
wait_until 10 test -e stubborn-began
kill -INT "$t_pid"
sleep 0.3
check "a stubborn task holds up a polite stop" kill -0 "$t_pid"
start_ns=$(date +%s%N)
kill -INT "$t_pid"
wait_for "$t_pid"
took_ms=$((($(date +%s%N) - start_ns) / 1000000))
check_equal "a second Ctrl-C does not wait (took $took_ms ms)" 1 "$((took_ms < 2000))"
check_equal "and exits with 1" 1 "$t_status"
check_output "the state is kept" '^stopped: 0 of 1' "$DROVER" status --state twice

# ---- a changed recipe -------------------------------------------------------------------------

cat >change.yaml <<'END'
seed: 5
experiments:
  a: {parameters: {lr: {range: 0.1-0.3}}, samples: 3, command: "echo {{lr}}"}
  b: {depends_on: a, command: "true"}
END
check "a recipe runs" "$DROVER" run change.yaml --state change
cp -r change before
sed 's/0.1-0.3/0.1-0.4/; s/samples: 3/samples: 4/' change.yaml >changed.yaml
check_exit 2 "a changed recipe is refused" "$DROVER" run changed.yaml --state change
said "with what was" '0\.1-0\.3'
said "and what is" '0\.1-0\.4'
said "in every place" 'samples'
said "and what to do" 'another --state'
check_exit 2 "a --set is a change too" "$DROVER" run change.yaml --state change --set a.samples=5
check_exit 2 "and so is another seed" "$DROVER" run change.yaml --state change --seed 6
diff -r before/outputs change/outputs >/dev/null
check_equal "nothing was changed by refusing" 0 $?
cat >same.yaml <<'END'
# the same, said otherwise
experiments:
  a:
    samples: 3     # what was first is last
    command: 'echo {{lr}}'
    parameters:
      lr:
        range: "0.1-0.3"
  b:
    command: "true"
    depends_on: a

seed: 5
END
check "comments, order and style are no change" "$DROVER" run same.yaml --state change

# ---- two at once ------------------------------------------------------------------------------

cat >slow.yaml <<'END'
experiments:
  a: {command: "touch slow-began; sleep 30"}
END
start slow.yaml --state both
first=$t_pid
wait_until 10 test -e slow-began
check_exit 1 "a second drover on the same state is refused" \
    timeout 20 "$DROVER" run slow.yaml --state both
said "with the pid of the first" "\\b$first\\b"
check_output "looking is allowed meanwhile" '^running: 0 of 1' "$DROVER" status --state both
check_output "also at tasks" '^a/0 +(running|assigned)' "$DROVER" tasks --state both
kill -KILL "$first"
wait_for "$first"
rm slow-began
start slow.yaml --state both
wait_until 10 test -e slow-began
check_output "a state whose drover was killed is free" '"attempts":2' \
    "$DROVER" status --state both --json
kill -INT "$t_pid"
wait_for "$t_pid"

# ---- the default place ------------------------------------------------------------------------

export XDG_DATA_HOME=$T/work/data
check_equal "before the first run there is nothing to list" "" "$("$DROVER" list)"
rm -f ran terms began
start many.yaml
wait_until 10 test -s ran
kill -INT "$t_pid"
wait_for "$t_pid"
check_output "a run in the default place has a name" 'to go on: drover run --resume many-1' cat out
check_output "and is listed" '^many-1 +stopped ' "$DROVER" list
check_equal "below XDG_DATA_HOME" many-1 "$(ls data/drover/runs)"
accepted many-1 >done-before
rm many.yaml
check "--resume goes on with it, even without its recipe" "$DROVER" run --resume many-1
check_equal "to the end" 24 "$(sort -u ran | wc -l)"
check_equal "nothing accepted ran again" "" "$(ran_again)"
check_output "the list shows it" '^many-1 +succeeded +24 of 24' "$DROVER" list
cat >many.yaml <<'END'
experiments:
  a: {command: "true"}
END
check "each run without --state is a new one" "$DROVER" run many.yaml
check_equal "with the next number, newest first" "many-2 many-1" \
    "$("$DROVER" list | awk '{ print $1 }' | paste -sd ' ')"
check_output "status without a name means the newest" '^succeeded: 1 of 1' "$DROVER" status
check_output "and with one that one" '^succeeded: 24 of 24' "$DROVER" status many-1
check "logs take a run's name too" "$DROVER" logs many-1/a/0
