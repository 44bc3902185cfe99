#!/bin/bash
# What a task gets (environment, secrets, folders, stdin), and what becomes of what it prints.
. "$(dirname "$0")/lib.sh"
t_start "what a task gets and prints"

# ---- environment ------------------------------------------------------------------------------

cat >env.yaml <<'END'
env: {SHARED: one, BOTH: root}
experiments:
  exact: {exec: [env], parameters: {n: [5]}, env: {OWN: "n is {{n}}", BOTH: own, EMPTY: ""}}
  more: {exec: [env], inherit_env: true, env: {OUTER_B: mine}}
  place: {exec: [env], checkpoint: true}
END
export OUTER_A=outer OUTER_B=outer
check "tasks print their environment" env LANG=xx_YY "$DROVER" run env.yaml --state env --seed 3
run_output="$(pwd)/env/slots/[0-9]+/output"
"$DROVER" logs exact/0 --state env | LC_ALL=C sort |
    sed -E "s,=$run_output\$,=SLOT," >seen
LC_ALL=C sort >expected <<END
BOTH=own
DROVER_ATTEMPT=1
DROVER_EXPERIMENT=exact
DROVER_INDEX=0
DROVER_OUTPUT=SLOT
DROVER_PARAMS={"n":5}
DROVER_TASK=env/exact/0
EMPTY=
HOME=$HOME
LANG=xx_YY
OWN=n is 5
PATH=$PATH
SHARED=one
END
check_equal "a task's environment is exactly what is promised" "$(cat expected)" "$(cat seen)"
check_output "inherit_env adds ours" '^OUTER_A=outer$' "$DROVER" logs more/0 --state env
check_output "and env: still comes first" '^OUTER_B=mine$' "$DROVER" logs more/0 --state env
check_output "a checkpoint folder is told" "^DROVER_CHECKPOINT=$(pwd)/env/checkpoints/place/0/0\$" \
    "$DROVER" logs place/0 --state env

# ---- folder, stdin, leaks ---------------------------------------------------------------------

mkdir -p elsewhere/sub
cat >elsewhere/place.yaml <<'END'
experiments:
  here: {command: pwd}
  there: {workdir: sub, command: pwd}
  stdin: {command: 'cat; readlink /proc/self/fd/0'}
  descriptors: {exec: [ls, /proc/self/fd]}
  both: {command: 'echo to stdout; echo to stderr >&2'}
END
check "a recipe runs from anywhere" "$DROVER" run elsewhere/place.yaml --state place
check_equal "tasks begin in the recipe's folder" "$(pwd)/elsewhere" \
    "$("$DROVER" logs here/0 --state place)"
check_equal "or in their workdir below it" "$(pwd)/elsewhere/sub" \
    "$("$DROVER" logs there/0 --state place)"
check_equal "stdin is empty" "/dev/null" "$("$DROVER" logs stdin/0 --state place)"
check_equal "no descriptor of ours reaches a task" "0 1 2 3" \
    "$("$DROVER" logs descriptors/0 --state place | paste -sd ' ')"
check_equal "stdout and stderr are both kept" "to stderr to stdout" \
    "$("$DROVER" logs both/0 --state place | sort | paste -sd ' ')"

# ---- secrets ----------------------------------------------------------------------------------

secret=hush-$RANDOM$RANDOM$RANDOM
echo "$secret" >key.txt
chmod 600 key.txt
cat >secret.yaml <<'END'
experiments:
  a:
    secrets: {API_KEY: key.txt}
    command: >-
      test -n "$API_KEY" && echo "${#API_KEY} letters" &&
      for p in /proc/[0-9]*; do cat $p/cmdline 2>/dev/null | tr '\0' ' '; echo; done >cmdlines
END
check "secrets come from files" "$DROVER" run secret.yaml --state secret
check_equal "the task has it" "${#secret} letters" "$("$DROVER" logs a/0 --state secret)"
check_equal "no command line of any process has it" 0 "$(grep -c "$secret" cmdlines)"
check_equal "nothing in the state has it" "" "$(grep -rl "$secret" secret)"
check_equal "nor did drover print it" 0 "$(grep -c "$secret" "$T/harness/out")"
sed 's/key\.txt/nokey.txt/' secret.yaml >nosecret.yaml
check_exit 2 "a secret that is not there is refused at once" \
    "$DROVER" run nosecret.yaml --state nosecret
check_output "and named" 'API_KEY.*nokey.txt: No such file' \
    "$DROVER" run nosecret.yaml --state nosecret
check_equal "and nothing is made" 0 "$(find . -name nosecret | wc -l)"
cat >start.yaml <<'END'
experiments:
  a: {exec: [no-such-program]}
END
check_exit 1 "a program that is not there is a failure" "$DROVER" run start.yaml --state start
check_output "which the log explains, also later" 'no-such-program: no such program' \
    "$DROVER" logs a/0 --state start

# ---- logs -------------------------------------------------------------------------------------

cat >log.yaml <<'END'
experiments:
  long:
    log_limit: 64KiB
    command: i=0; while [ $i -lt 20000 ]; do echo "line $i"; i=$((i + 1)); done
  bytes: {command: "printf 'a\\0b\\377\\n'"}
  none: {command: "true"}
END
check "tasks may print a lot" "$DROVER" run log.yaml --state log
size=$(cat log/logs/long/0/* | wc -c)
check_equal "a log keeps to its limit ($size bytes)" 1 "$((size <= 65536 + 4096))"
check_equal "and keeps the end" "line 19999" "$("$DROVER" logs long/0 --state log | tail -n 1)"
check_equal "any bytes are kept" "$(printf 'a\0b\377\n' | od -c)" \
    "$("$DROVER" logs bytes/0 --state log | od -c)"
check_equal "an empty log is empty" 0 "$("$DROVER" logs none/0 --state log | wc -c)"
check_exit 2 "a log of a task that is not there" "$DROVER" logs none/7 --state log

cat >follow.yaml <<'END'
experiments:
  a: {command: "for i in 1 2 3; do echo line $i; sleep 0.3; done"}
END
background "$DROVER" run follow.yaml --state follow
run_pid=$t_pid
wait_until 5 test -s follow/logs/a/0/0.1.log
check_equal "logs -f follows a task to its end" "line 1 line 2 line 3" \
    "$(timeout 10 "$DROVER" logs -f a/0 --state follow | paste -sd ' ')"
wait_for "$run_pid"

# ---- plain, quiet, JSON -----------------------------------------------------------------------

cat >show.yaml <<'END'
experiments:
  good: {parameters: {n: 0..4}, command: "true"}
  bad: {allow_failure: true, retries: 1, backoff: 10ms, command: "exit 9"}
  killed: {allow_failure: true, command: "kill -KILL $$"}
  after: {depends_on: bad, command: "true"}
END
check "plain lines" "$DROVER" run show.yaml --state plain
check_equal "off a terminal no escape sequence is printed" 0 "$(grep -c $'\033' "$T/harness/out")"
grep -q '^good: begins, 5 tasks$' "$T/harness/out"
check_equal "experiments begin" 0 $?
grep -q '^good: ended, 5 succeeded$' "$T/harness/out"
check_equal "and end" 0 $?
check "quiet" "$DROVER" run show.yaml --state quiet --quiet
check_equal "says nothing when all is well" "" "$(t_seen)"
"$DROVER" run show.yaml --state json --json >events 2>err
check_equal "JSON has nothing on stderr" "" "$(cat err)"
if command -v python3 >/dev/null; then
    check_equal "JSON events tell the whole story" ok "$(python3 -c '
import json
events = [json.loads(line) for line in open("events")]
assert events[0]["event"] == "begin" and events[0]["tasks"] == 8, events[0]
end = events[-1]
assert end["event"] == "end" and end["state"] == "succeeded" and not end["stopped"], end
assert {e["name"]: (e["tasks"], e["succeeded"], e["failed"]) for e in end["experiments"]} == {
    "good": (5, 5, 0), "bad": (1, 0, 1), "killed": (1, 0, 1), "after": (1, 1, 0)}, end
tasks = [e for e in events if e["event"] == "task"]
ended = {(e["experiment"], e["task"], e["attempt"]): e for e in tasks if "outcome" in e}
assert len(ended) == 9, ended.keys()
assert ended["bad", 0, 1]["exit_code"] == 9 and ended["bad", 0, 1]["state"] != "failed"
assert ended["bad", 0, 2]["state"] == "failed"
assert ended["killed", 0, 1]["outcome"] == "signalled" and ended["killed", 0, 1]["signal"] == 9
assert ended["killed", 0, 1]["exit_code"] is None
assert ended["good", 3, 1]["state"] == "succeeded" and ended["good", 3, 1]["exit_code"] == 0
order = [(e["experiment"], e["ended"]) for e in events if e["event"] == "experiment"]
assert order.index(("bad", True)) < order.index(("after", False)), order
print("ok")' 2>&1)"
    {
        echo 'experiments:'
        echo '  e0: {command: "true"}'
        for n in $(seq 20); do
            echo "  e$n: {depends_on: e$((n - 1)), command: 'true'}"
        done
    } >chain.yaml
    "$DROVER" run chain.yaml --state chain --json >events
    check_equal "however short, an experiment begins once and then ends once" ok "$(python3 -c '
import json
events = [json.loads(line) for line in open("events")]
story = [(e["experiment"], e["ended"]) for e in events if e["event"] == "experiment"]
assert story == [(f"e{n}", ended) for n in range(21) for ended in (False, True)], story
print("ok")' 2>&1)"
    "$DROVER" tasks --state json --json >tasks.json
    check_equal "drover tasks --json has the promised keys" ok "$(python3 -c '
import json
from datetime import datetime
rows = [json.loads(line) for line in open("tasks.json")]
assert len(rows) == 8
for row in rows:
    for key in "experiment task state attempt node exit_code started_at finished_at params".split():
        assert key in row, (key, row)
    start, end = (datetime.fromisoformat(row[k].replace("Z", "+00:00"))
                  for k in ("started_at", "finished_at"))
    assert start <= end
good = [row for row in rows if row["experiment"] == "good"]
assert [row["params"] for row in good] == [{"n": n} for n in range(5)]
assert {row["state"] for row in good} == {"succeeded"} and {row["exit_code"] for row in good} == {0}
bad, = [row for row in rows if row["experiment"] == "bad"]
assert (bad["state"], bad["attempt"], bad["exit_code"]) == ("failed", 2, 9), bad
killed, = [row for row in rows if row["experiment"] == "killed"]
assert killed["exit_code"] is None and "KILL" in killed["reason"], killed
print("ok")' 2>&1)"
    "$DROVER" status --state json --json >status.json
    check_equal "drover status --json has the promised keys" ok "$(python3 -c '
import json
status, = [json.loads(line) for line in open("status.json")]
assert status["id"] == "show" and status["state"] == "succeeded", status
for experiment in status["experiments"]:
    for key in "name tasks succeeded failed running".split():
        assert key in experiment, (key, experiment)
print("ok")' 2>&1)"
else
    skip "JSON: no python3 to read it with"
fi
