#!/bin/bash
# Looking at searches: trials, best, compare and their pictures, in folders and on servers.
. "$(dirname "$0")/lib.sh"
t_start "drover trials, best and compare"

# A value of a JSON line by its key: field KEY <line
field() { # KEY
    python3 -c 'import json, sys
for line in sys.stdin:
    value = json.loads(line)[sys.argv[1]]
    print(value if isinstance(value, str) else json.dumps(value))' "$1"
}

cat >quad.yaml <<'END'
name: quad
seed: 3
experiments:
  train:
    parameters:
      lr: {range: 1e-5..1e-1, sampling: log}
      optimizer: [sgd, adam, "it's"]
      momentum: {range: 0.5-0.99, when: optimizer == sgd}
      layers: {range: 1-8, sampling: integer}
    search: {metric: accuracy, goal: maximize, trials: 40, parallel: 2}
    command: sh ./train {{lr}} {{optimizer}} {{layers}}
END
cat >train <<'END'
[ "$3" = 8 ] && exit 1
awk -v lr="$1" -v l="$3" 'BEGIN {
    x = log(lr) / log(10) + 2.5
    printf "epoch 3: loss=0.5 accuracy=%.9f\n", 0.97 - 0.05 * x * x - 0.01 * (l - 4) * (l - 4) }'
echo kept >"$DROVER_OUTPUT/model"
END
check "a search runs" "$DROVER" run quad.yaml --state one --quiet

# ---- trials -----------------------------------------------------------------------------------

"$DROVER" trials --state one --json >trials.json
check_equal "there is an object for each trial" 40 "$(wc -l <trials.json)"
check_equal "every number is there" "$(seq 0 39)" "$(field trial <trials.json | sort -n)"
check_equal "the best is first, failures are last" ok "$(python3 - <<'END'
import json
rows = [json.loads(line) for line in open("trials.json")]
good = [r["value"] for r in rows if r["state"] == "succeeded"]
print("ok" if good == sorted(good, reverse=True) and rows[0]["best"]
      and sum(r["best"] for r in rows) == 1
      and [r["state"] for r in rows] == ["succeeded"] * len(good) + ["failed"] * (40 - len(good))
      and all(r["metrics"]["accuracy"] == r["value"] and r["metrics"]["loss"] == 0.5
              and r["step"] == 3 for r in rows[:len(good)])
      and all(("momentum" in r["params"]) == (r["params"]["optimizer"] == "sgd") for r in rows)
      and all(r["value"] is None and r["reason"] for r in rows[len(good):]) else rows)
END
)"
check_output "the table has a heading" 'trial +state +accuracy +lr +optimizer +momentum +layers' \
    "$DROVER" trials --state one
check_output "and says what is searched for" '^quad/train: maximize accuracy; auto: gp' \
    "$DROVER" trials --state one
check_equal "--limit shows only the best" 5 "$("$DROVER" trials --state one --limit 2 | wc -l)"
"$DROVER" trials --state one --csv >trials.csv
check_equal "CSV reads back as the same trials" ok "$(python3 - <<'END'
import csv, json
rows = list(csv.DictReader(open("trials.csv", newline="")))
same = [json.loads(line) for line in open("trials.json")]
print("ok" if len(rows) == 40 and all(
    int(r["trial"]) == t["trial"] and r["params.optimizer"] == t["params"]["optimizer"]
    and float(r["params.lr"]) == t["params"]["lr"]
    and (r["value"] == "" if t["value"] is None else float(r["value"]) == t["value"])
    for r, t in zip(rows, same)) else rows[0])
END
)"
check_output "importance is said with its method" 'fANOVA' "$DROVER" trials --state one --importance
check_output "and for programs" '"method":"fanova".*"parameters":\[\{"name":"' \
    "$DROVER" trials --state one --importance --json
check_output "the history is drawn in the terminal" 'best so far' "$DROVER" trials --state one --plot

# ---- pictures ---------------------------------------------------------------------------------

check "all pictures are drawn" "$DROVER" trials --state one --svg-dir pictures
check_equal "one of each kind" "train-history.svg
train-importance.svg
train-parallel.svg
train-slices.svg" "$(ls pictures)"
check "one picture is drawn" "$DROVER" trials --state one --svg one.svg --kind slices
check "and is the same as before" cmp one.svg pictures/train-slices.svg
well_formed() {
    python3 -c 'import sys, xml.dom.minidom
for name in sys.argv[1:]:
    xml.dom.minidom.parse(name)' "$@"
}
check "they are well-formed" well_formed pictures/*.svg
check_exit 2 "one metric has no front" "$DROVER" trials --state one --svg x.svg --kind pareto
check_exit 2 "there is no such kind" "$DROVER" trials --state one --svg x.svg --kind pie
check_equal "and nothing was written" "" "$(ls x.svg 2>/dev/null)"
check_exit 1 "a picture that cannot be written is an error" \
    "$DROVER" trials --state one --svg /nowhere/x.svg

# ---- best -------------------------------------------------------------------------------------

"$DROVER" best --state one --json >best.json
check_equal "best is the first of the trials" "$(head -n 1 trials.json | field trial)" \
    "$(field trial <best.json)"
field command_line <best.json >again.sh
check_equal "its command gives its value again" "$(field value <best.json)" \
    "$(DROVER_OUTPUT=$T sh again.sh | sed 's/.*accuracy=//; s/0*$//')"
check_equal "the command is that of the task" "$(python3 -c 'import json
command = json.load(open("best.json"))["command"]
print("\n".join(command))')" "/bin/sh
-c
$(cat again.sh)"
check_equal "its output is there" kept "$(cat "$(field output <best.json)/model")"
check_output "for people it ends with the command" "^sh ./train [0-9.e-]+ " "$DROVER" best --state one

# ---- several metrics, rungs -------------------------------------------------------------------

cat >more.yaml <<'END'
name: more
seed: 5
experiments:
  rungs:
    parameters: {lr: {range: 1e-4..1, sampling: log}}
    search:
      metric: accuracy
      goal: maximize
      trials: 12
      parallel: 2
      early_stop: {algorithm: asha, resource: epoch, min: 1, max: 9, eta: 3}
    command: |
      awk -v lr={{lr}} -v n={{budget}} 'BEGIN { x = log(lr) / log(10) + 2
          for (e = 1; e <= n; e++) print "epoch " e ": accuracy=" 0.9 - 0.05 * x * x - 0.3 / e }'
      echo {{budget}} >{{checkpoint}}/epoch
  front:
    parameters: {x: {range: 0-1}, y: {range: 0-1}}
    search: {metric: [acc, time], goal: [maximize, minimize], trials: 15, parallel: 2}
    exec: [sh, -c, 'echo acc={{x}} time=$(awk "BEGIN{print {{x}} * {{x}} + {{y}}}")']
END
check "a search with rungs and one for a front run" "$DROVER" run more.yaml --state more --quiet
check_output "the table has rungs and what they count" 'trial +state +accuracy +rung +epoch +lr' \
    "$DROVER" trials --state more -e rungs
"$DROVER" best --state more -e rungs --json >best.json
check_equal "the best went all the way" 9 "$(field budget <best.json)"
check_equal "its checkpoint is the trial's" 9 "$(cat "$(field checkpoint <best.json)/epoch")"
check_equal "the front is what nobody beats" ok "$("$DROVER" trials --state more -e front --json |
    python3 -c '
import json, sys
rows = [json.loads(line) for line in sys.stdin]
def beats(a, b):
    (x, y), (p, q) = a["values"], b["values"]
    return x >= p and y <= q and (x > p or y < q)
bad = [r for r in rows if r["best"] == any(beats(o, r) for o in rows)]
print("ok" if len(rows) == 15 and not bad and all(r["value"] is None for r in rows) else bad)')"
check_equal "best shows all of it" \
    "$("$DROVER" trials --state more -e front --json | grep -c '"best":true')" \
    "$("$DROVER" best --state more -e front --json | wc -l)"
check "a front is drawn" "$DROVER" trials --state more -e front --svg front.svg --kind pareto
check "and is well-formed" well_formed front.svg
check_exit 2 "two searches do not go into one CSV" "$DROVER" trials --state more --csv

# ---- compare ----------------------------------------------------------------------------------

check "the same search at random" "$DROVER" run quad.yaml --state two --quiet \
    --set train.search.algorithm=random
check_output "compare has a line for each" '^\./two +random +40 ' "$DROVER" compare ./one ./two
"$DROVER" compare ./one ./two --json >compare.json
check_equal "and the best of each" "$(head -n 1 trials.json | field value)" \
    "$(head -n 1 compare.json | field best)"
check_equal "the target is what both reached" ok "$(python3 - <<'END'
import json
rows = [json.loads(line) for line in open("compare.json")]
target = min(r["best"] for r in rows)
print("ok" if all(r["target"] == target and 1 <= r["reached"] <= 40
                  and [v for n, v in r["curve"]] == sorted(v for n, v in r["curve"])
                  for r in rows) else rows)
END
)"
check "it is drawn" "$DROVER" compare ./one ./two --svg compare.svg
check "well-formed" well_formed compare.svg
check_exit 2 "one alone is nothing to compare" "$DROVER" compare ./one
check_exit 2 "other metrics cannot be compared" "$DROVER" compare ./one ./more -e front
check_output "and that is said" "searches for accuracy, not for acc" "$DROVER" compare ./more ./one \
    --metric acc

# ---- while it runs, and what is wrong ---------------------------------------------------------

cat >slow.yaml <<'END'
name: slow
experiments:
  train:
    parameters: {x: {range: 0-1}}
    search: {metric: a, goal: minimize, trials: 4, parallel: 2}
    command: 'echo a={{x}}; [ {{trial}} = 0 ] || until [ -e go ]; do sleep 0.05; done'
  plain: {command: "true"}
END
background "$DROVER" run slow.yaml --state slow --slots 2
slow_pid=$t_pid
states() {
    "$DROVER" trials --state slow --json | field state | sort | uniq -c | tr -s ' \n' ' '
}
shows() { [ "$(states)" = "$1" ]; }
check "trials that run are shown" wait_until 10 shows " 2 running 1 succeeded "
check_exit 0 "the best so far is known" "$DROVER" best --state slow
touch go
wait_for "$slow_pid"
check_equal "in the end all have ended" " 4 succeeded " "$(states)"
check_exit 2 "an experiment without a search" "$DROVER" trials --state slow -e plain
check_exit 2 "an experiment that is not there" "$DROVER" best --state slow -e nope
check_exit 2 "a metric that is not searched for" "$DROVER" trials --state slow --metric b
check_exit 2 "a folder without state" "$DROVER" trials --state .
check_exit 2 "--json and --csv at once" "$DROVER" trials --state one --json --csv
printf '{"v":1,"kind":"resu' >>slow/trials.log
check_equal "half a line at the end is passed over" " 4 succeeded " "$(states)"
printf '\n' >>slow/trials.log
check_output "a damaged log is named with its line" "trials.log.*line [0-9]+" \
    "$DROVER" trials --state slow
check_equal "and is no success" 1 "$t_status"
printf 'experiments:\n  a: {command: "true"}\n' >plain.yaml
"$DROVER" run plain.yaml --state plain --quiet
check_output "a run without a search says so" "has no experiment with search" \
    "$DROVER" trials --state plain

# ---- warm start -------------------------------------------------------------------------------

cat >again.yaml <<'END'
name: again
seed: 11
experiments:
  train:
    parameters:
      lr: {range: 1e-5..1e-1, sampling: log}
      optimizer: [sgd, adam]
      layers: {range: 1-8, sampling: integer}
    search: {metric: accuracy, goal: maximize, trials: 12, parallel: 1}
    command: sh ./train {{lr}} {{optimizer}} {{layers}}; sleep 0.05
END
check "a search to learn from" "$DROVER" run again.yaml --quiet
check_output "a second one is told its trials" '12 trials of again-1 are known' \
    "$DROVER" run again.yaml --plain --set train.search.warm_start=again-1
check_equal "they are in its own record" 12 \
    "$(grep -c '"kind":"warm"' .local/share/drover/runs/again-2/trials.log)"
check_output "and shown" '12 of earlier workflows were known' "$DROVER" trials again-2
check_equal "which has trials of its own only" 12 "$("$DROVER" trials again-2 --json | wc -l)"
check_equal "nothing is tried again" "" "$(for run in again-1 again-2; do
    "$DROVER" trials "$run" --json | field params
done | sort | uniq -d)"
warm=(again.yaml --set train.search.warm_start=again-1 --state killed)
background "$DROVER" run "${warm[@]}"
wait_until 10 grep -q '"kind":"result"' killed/trials.log
kill -KILL "$t_pid"
wait_for "$t_pid" 2>/dev/null
mv .local/share/drover/runs/again-1 hidden
check "killed, it goes on without the earlier one" "$DROVER" run "${warm[@]}" --quiet
params() { # the suggestions, in order
    grep '"kind":"suggested"' "$1" | field params
}
check_equal "exactly as if it had not been killed" \
    "$(params .local/share/drover/runs/again-2/trials.log)" "$(params killed/trials.log)"
check_output "one that is not there is warned of" "there is no workflow 'again-1'" \
    "$DROVER" run again.yaml --plain --state alone --set train.search.warm_start=again-1
mv hidden .local/share/drover/runs/again-1
check_output "trials that do not fit are counted" \
    'warning: train: 0 trials of again-1 are known, 12 do not fit its parameters \(trial 0: more\)' \
    "$DROVER" run again.yaml --plain --state other --set train.search.warm_start=again-1 \
    --set train.parameters.more=1

# ---- on a server ------------------------------------------------------------------------------

background "$DROVER" serve --state server --quiet
check "a server starts" wait_until 10 test -s server/join.url
background "$DROVER" node --join @server/join.url --slots 2 --work node --quiet
check "the search runs there" "$DROVER" submit quad.yaml --state server --wait --quiet
"$DROVER" trials quad-1 --state server --json >served.json
check_equal "its trials are asked for" 40 "$(wc -l <served.json)"
check_output "as is the best" "^task +quad-1/train/[0-9]+$" "$DROVER" best --state server
check_output "a search there can learn from another" '"warm":40' sh -c "
    '$DROVER' submit quad.yaml --state server --wait --quiet --set train.search.warm_start=quad-1 \
        --set train.search.trials=3 &&
    curl -sS -H \"Authorization: Bearer \$(cat server/admin.token)\" \
        \"\$(cat server/api.url)/api/v1/workflows/quad-2/trials\""
check_output "and importance" 'fANOVA' "$DROVER" trials quad-1 --state server --importance
check_output "a server's search beside a folder's" '^\./one +gp' \
    "$DROVER" compare quad-1 ./one --state server
get() { # PATH
    curl -sS -o answer -w '%{http_code}' -H "Authorization: Bearer $(cat server/admin.token)" \
        "$(cat server/api.url)/api/v1/workflows/$1"
}
check_equal "the API has them, too" 200 "$(get quad-1/trials?experiment=train)"
check_equal "all of them" 40 "$(python3 -c 'import json
print(len(json.load(open("answer"))["trials"]))')"
check_equal "an experiment that is not there is 404" 404 "$(get quad-1/trials?experiment=nope)"
check_equal "what a task runs" 200 "$(get quad-1/tasks/train/3/plan)"
check_equal "is what its trial says" ok "$(python3 - <<'END'
import json
plan = json.load(open("answer"))
trial = [t for t in map(json.loads, open("served.json")) if t["task"] == 3][0]
print("ok" if json.loads(plan["env"]["DROVER_PARAMS"]) == trial["params"] else plan)
END
)"
