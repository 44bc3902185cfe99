#!/bin/bash
# A search that may cost so much: what runs counts, and so does what was stopped early.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/cluster.bash"
t_start "what a search may cost"

serve
node a --slots 2 --price 7200 # a dollar for each second of a task
check "the node is here" wait_until 20 are_here a

cat >plain.yaml <<'END'
seed: 1
experiments:
  train:
    parameters: {x: {range: 0..1}}
    search: {metric: loss, goal: minimize, trials: 60, parallel: 2, algorithm: random, stop: {cost: 4 USD}}
    command: sleep 0.5; echo loss={{x}}
END
submit plain.yaml
check "a search with a limit ends" finished "$id"
trials=$(grep -c '"kind":"suggested"' "$STATE/workflows/$id/trials.log")
check "after no more trials than that buys, and those that run: $trials" test "$trials" -ge 2 -a "$trials" -le 10
check_output "as soon as it is spent, and says so" 'the budget is spent: [4-6]\.[0-9]* USD of 4.00 USD' drover trials "$id"

# The first are good and run to their end; the others are worse from the beginning, and stopped.
cat >stopped.yaml <<'END'
seed: 1
experiments:
  train:
    parameters: {x: {range: 0..1}}
    search:
      {metric: loss, goal: minimize, trials: 60, parallel: 2, algorithm: random, stop: {cost: 8 USD},
       early_stop: {algorithm: median, min: 2}}
    command: for s in 1 2 3 4 5 6 7 8 9 10; do echo "step $s loss={{trial}}"; sleep 0.1; done
END
submit stopped.yaml
check "one whose trials are stopped ends" finished "$id"
log=$STATE/workflows/$id/trials.log
check "many of them were stopped" test "$(grep '"state":"stopped"' "$log" | grep -c 'median of')" -ge 3
trials=$(grep -c '"kind":"suggested"' "$log")
check "what they had cost counts: after $trials of 60 it is over" test "$trials" -lt 40
check_output "and that is why" 'the budget is spent: .* of 8.00 USD' drover trials "$id"
