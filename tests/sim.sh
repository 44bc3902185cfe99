#!/bin/bash
# The simulator as a command: predictions, the same for a seed, and a million tasks on ten thousand nodes.
. "$(dirname "$0")/lib.sh"
t_start "simulation"

cat >grid.yaml <<'R'
experiments:
  grid:
    parameters: {i: 0..4095}
    command: train {{i}}
R
cat >big.yaml <<'R'
experiments:
  big:
    parameters: {i: 0..999999}
    command: train {{i}}
R

field() { # KEY of the JSON on standard input
    sed -n "s/.*\"$1\":\([^,}]*\).*/\1/p"
}

check_output "4,096 tasks of ten minutes on 4,096 nodes take ten minutes" '"simulated_s":600\.' \
    "$DROVER" sim grid.yaml --nodes 4096 --task-time 10m --json
one=$("$DROVER" sim grid.yaml --nodes 50 --mtbf 10m --task-time 'exp(60s)' --net-loss 0.1 --json | sed 's/"wall_s":[^,]*,//')
two=$("$DROVER" sim grid.yaml --nodes 50 --mtbf 10m --task-time 'exp(60s)' --net-loss 0.1 --json | sed 's/"wall_s":[^,]*,//')
check_equal "the same seed gives the same run" "$one" "$two"
check_equal "all are accepted though nodes vanish" 4096 "$(field accepted <<<"$one")"
check_equal "none is lost" 0 "$(field lost <<<"$one")"
check_equal "none is accepted twice" 0 "$(field duplicates <<<"$one")"
check "nodes did vanish" test "$(field node_losses <<<"$one")" -gt 10

big=$(timeout 100 "$DROVER" sim big.yaml --nodes 10000 --mtbf 2h --task-time 'lognormal(60s,0.5)' --price 0.3 --json)
check_equal "a million tasks on ten thousand nodes of two hours' life" "1000000 0 0" \
    "$(field accepted <<<"$big") $(field lost <<<"$big") $(field duplicates <<<"$big")"
check "in under a minute" awk -v w="$(field wall_s <<<"$big")" 'BEGIN { exit !(w < 60) }'

check_exit 2 "a time that is none is refused" "$DROVER" sim grid.yaml --task-time soon
check_exit 2 "a share over one is refused" "$DROVER" sim grid.yaml --net-loss 2
check_exit 2 "no nodes are refused" "$DROVER" sim grid.yaml --nodes 0
check_exit 2 "no recipe is refused" "$DROVER" sim
check_exit 1 "a limit of simulated time is kept" "$DROVER" sim grid.yaml --nodes 1 --task-time 1h --limit 2h
