#!/bin/bash
# Searches: trials are chosen one after another by what came of those before, metrics are found
# whichever way a task tells them, and whatever a trial does the search goes on.
. "$(dirname "$0")/lib.sh"
t_start "searches"

lines() { # FOLDER KIND : the lines of that kind in its record of trials
    grep -F "\"kind\":\"$2\"" "$1/trials.log"
}

count() { # FOLDER KIND [WHAT] : how many of them there are, that hold WHAT
    lines "$1" "$2" | grep -cF -e "${3:-}"
}

best() { # FOLDER : the least value
    lines "$1" result | sed -n 's/.*"values":\[\([-0-9.e+]*\)\].*/\1/p' | sort -g | head -n 1
}

is_below() { # NUMBER LIMIT
    awk -v n="$1" -v l="$2" 'BEGIN { exit !(n != "" && n < l) }'
}

# --- every algorithm ----------------------------------------------------------------------------

cat >bowl.yaml <<'END'
seed: 7
experiments:
  train:
    parameters:
      x: {range: -5..10}
      y: {range: 0.001..1000, sampling: log}
      shape: [bowl, tray]
      depth: {values: [1, 2, 4], when: shape == bowl}
    search: {metric: loss, goal: minimize, trials: 40, parallel: 2}
    command: awk -v x={{x}} -v y={{y}} -v d={{depth|raw}} 'BEGIN { print "epoch 1 loss=" (x-2)^2 + log(y)^2 + (d == "") + d/10 }'
END
for algorithm in auto random sobol tpe gp cma-es; do
    check "a search by $algorithm runs to its end" \
        "$DROVER" run bowl.yaml --set "train.search.algorithm=$algorithm" --state "s.$algorithm" --slots 2
    check_equal "$algorithm: each trial has a suggestion and a result" "40 40" \
        "$(count "s.$algorithm" suggested) $(count "s.$algorithm" result '"state":"succeeded"')"
done
check "a search by gp comes near the best there is" is_below "$(best s.gp)" 3
check_equal "auto says what it chose" 1 "$(count s.auto search '"algorithm":"auto","chosen":"gp"')"
check_output "and so does the run" 'looking for the least loss by auto: gp' \
    "$DROVER" run bowl.yaml --set train.search.trials=2 --set train.search.algorithm=auto --state s.said --slots 1
check_output "drover tasks shows the parameters of trials" '^train/0 .*"x":-?[0-9.]+,"y":[0-9.e-]+,"shape":"(bowl|tray)"' \
    "$DROVER" tasks --state s.gp
check_output "drover plan says what the search will do" 'is a search of at most 40 trials for the least loss, by auto, 2 at a time' "$DROVER" plan bowl.yaml
check_output "drover check counts trials" '^ok: 1 experiments, 40 tasks$' "$DROVER" check bowl.yaml

cat >grid.yaml <<'END'
seed: 1
experiments:
  train:
    parameters: {a: {values: 0..7}, b: {values: 0..7}, c: {values: 0..7}, d: {values: 0..7}}
    search: {metric: loss, goal: minimize, algorithm: grid}
    exec: [/bin/true]
END
check "a grid of 4,096 combinations runs" "$DROVER" run grid.yaml --state s.grid --slots 4
check_equal "each of them once" 4096 \
    "$(lines s.grid suggested | grep -o '"params":{[^}]*}' | sort -u | wc -l)"
check_equal "and each has a result" 4096 "$(count s.grid result)"
check_output "on 4,096 nodes it takes the time of one trial" '"accepted":4096,.*"simulated_s":600' \
    "$DROVER" sim grid.yaml --nodes 4096 --task-time 10m --json

# --- metrics, by each way -----------------------------------------------------------------------

export DROVER
cat >ways.yaml <<'END'
seed: 1
experiments:
  printed:
    parameters: {x: {range: 0..1}}
    search: {metric: accuracy, goal: maximize, trials: 2, algorithm: random}
    command: "echo 'epoch 3: loss=0.5 accuracy=0.75'"
  pattern:
    parameters: {x: {range: 0..1}}
    metrics: "result <{value}> after {step} rounds"
    search: {metric: reward, goal: maximize, trials: 2, algorithm: random}
    command: "echo 'result <0.75> after 7 rounds'; echo reward=5"
  file:
    parameters: {x: {range: 0..1}}
    search: {metric: val/accuracy, goal: maximize, trials: 2, algorithm: random}
    command: echo '{"step":4,"val":{"accuracy":0.75}}' >{{output}}/metrics.jsonl
  report:
    parameters: {x: {range: 0..1}}
    inherit_env: true
    search: {metric: accuracy, goal: maximize, trials: 2, algorithm: random}
    command: $DROVER report accuracy=0.75 step=3
  board:
    parameters: {x: {range: 0..1}}
    search: {metric: accuracy, goal: maximize, trials: 2, algorithm: random}
    command: python3 board.py {{output}}/logs
END
cat >board.py <<'END'
import os, struct, sys
def crc(data):
    c = 0xFFFFFFFF
    for byte in data:
        c ^= byte
        for _ in range(8):
            c = (c >> 1) ^ (0x82F63B78 if c & 1 else 0)
    c ^= 0xFFFFFFFF
    return (((c >> 15) | (c << 17)) + 0xA282EAD8) & 0xFFFFFFFF
value = b"\x0a\x08accuracy" + b"\x15" + struct.pack("<f", 0.75)
summary = b"\x0a" + bytes([len(value)]) + value
event = b"\x09" + struct.pack("<d", 1.7e9) + b"\x10\x03" + b"\x2a" + bytes([len(summary)]) + summary
size = struct.pack("<Q", len(event))
os.makedirs(sys.argv[1])
with open(sys.argv[1] + "/events.out.tfevents.1.host", "wb") as file:
    file.write(size + struct.pack("<I", crc(size)) + event + struct.pack("<I", crc(event)))
END
check "metrics come in five ways" "$DROVER" run ways.yaml --state s.ways --slots 2
for way in printed pattern file report board; do
    check_equal "metrics by $way" "2" "$(lines s.ways result | grep -F "\"experiment\":\"$way\"" |
        grep -cF '"state":"succeeded","values":[0.75]')"
done

# --- trials that fail ---------------------------------------------------------------------------

cat >bad.yaml <<'END'
seed: 3
experiments:
  train:
    parameters: {q: {range: 0..1}}
    search: {metric: accuracy, goal: maximize, trials: 30, parallel: 3}
    command: |
      case {{trial}} in *3) exit 3;; *5) echo accuracy=nan;; *6) echo loss=3;; *) echo accuracy={{q}};; esac
END
check "a search goes on whatever its trials do" "$DROVER" run bad.yaml --state s.bad --slots 3
check_equal "what failed, diverged or said nothing is told as such" "21 3 3 3" \
    "$(count s.bad result '"state":"succeeded"') $(count s.bad result '"exit 3"') $(count s.bad result \
        '"state":"diverged"') $(count s.bad result '"no value of accuracy; seen: loss"')"
"$DROVER" run bad.yaml --state s.bad2 --slots 3 >bad.said 2>&1
check_equal "a metric that did not come is warned of once, with what was seen" 1 \
    "$(grep -c 'warning: .*no value of accuracy; seen: loss' bad.said)"
check_exit 1 "where no trial succeeds the run has failed" \
    "$DROVER" run bad.yaml --set 'train.command=exit 1' --state s.none --slots 3

# --- the end of a search ------------------------------------------------------------------------

cat >end.yaml <<'END'
seed: 5
experiments:
  train:
    parameters: {x: {values: 0..999}}
    search: {metric: loss, goal: minimize, trials: 500, parallel: 1, algorithm: random}
    command: echo loss={{trial}}
  after:
    depends_on: [train]
    command: echo done
END
check "patience ends a search" "$DROVER" run end.yaml --set train.search.stop.patience=10 --state s.patience
check_equal "after so many results that were no better" "11 no better value in 10 results" \
    "$(count s.patience result) $(lines s.patience stop | grep -o 'no better value in 10 results')"
check "a target ends a search" "$DROVER" run end.yaml --set train.search.goal=maximize \
    --set train.search.stop.target=7 --state s.target
check_equal "when it is reached" "8 the target of 7 is reached; the best is 7, of trial 7" \
    "$(count s.target result) $(lines s.target stop | sed 's/.*"why":"\([^"]*\)".*/\1/')"
check "time ends a search" "$DROVER" run end.yaml --set train.search.stop.time=1s --set train.search.parallel=2 \
    --set 'train.command=echo loss=1; sleep 0.3' --state s.time --slots 2
check_equal "and what still ran counts as stopped" "1 1" \
    "$(count s.time stop 'the time is up') $(($(count s.time result '"state":"stopped"') > 0))"
check_equal "what depends on a search runs after it" succeeded \
    "$("$DROVER" tasks --state s.time -e after --json | sed 's/.*"state":"\([a-z]*\)".*/\1/')"
check "a space with fewer points than trials is tried whole" "$DROVER" run end.yaml \
    --set 'train.parameters.x.values=0..19' --state s.whole
check_equal "no point twice" "20 1" \
    "$(lines s.whole suggested | grep -o '"params":{[^}]*}' | sort -u | wc -l) $(count s.whole stop 'every combination')"

# --- early stopping -----------------------------------------------------------------------------

cat >asha.yaml <<'END'
seed: 3
experiments:
  train:
    parameters: {lr: {range: 0.001..1, sampling: log}}
    search:
      {metric: acc, goal: maximize, trials: 20, parallel: 4, algorithm: random,
       early_stop: {algorithm: asha, resource: epoch, min: 1, max: 9, eta: 3}}
    command:
      - e=$(cat {{checkpoint}}/epoch 2>/dev/null || echo 0); echo "start at $e"
      - while [ $e -lt {{budget}} ]; do e=$((e+1)); echo $e >{{checkpoint}}/epoch; done
      - awk -v l={{lr}} -v e=$e 'BEGIN { print "epoch " e " acc=" (1-(log(l)+3)^2/20)*e/(e+1) }'
END
check "asha runs" "$DROVER" run asha.yaml --state s.asha --slots 4
check_equal "each trial has its first rung" 20 "$(count s.asha suggested '"rung":0,"budget":1,')"
check "few have the last one" test "$(count s.asha suggested '"rung":2,"budget":9,')" -le 4
check_equal "and go on from where they were" "$(count s.asha suggested '"rung":2,')" \
    "$(grep -lx 'start at 3' s.asha/logs/train/*/*.log | wc -l)"
check_equal "no rung begins anew" 20 "$(grep -lx 'start at 0' s.asha/logs/train/*/*.log | wc -l)"

cat >median.yaml <<'END'
seed: 3
experiments:
  train:
    parameters: {q: {values: 1..8}}
    search:
      {metric: acc, goal: maximize, trials: 8, parallel: 8, algorithm: grid,
       early_stop: {algorithm: median, resource: epoch, min: 2}}
    command:
      - v={{q}}; test $v -lt 4 || v=9
      - for e in 1 2 3; do echo "epoch $e acc=$v"; done
      - test $v -eq 9 || sleep 1; echo "epoch 4 acc=$v"
      - test $v -eq 9 || sleep 30
END
SECONDS=0
check "trials worse than the median are stopped" "$DROVER" run median.yaml --state s.median --slots 8
check "at once" test "$SECONDS" -lt 15
check_equal "those three, and it is recorded why" "3 3" \
    "$(count s.median result '"state":"stopped"') $(count s.median result 'is worse than')"
check_output "and they count as succeeded" '8 of 8 tasks succeeded' "$DROVER" status --state s.median

cat >files.yaml <<'END'
seed: 3
experiments:
  train:
    parameters: {q: {values: 1..8}}
    search:
      {metric: acc, goal: maximize, trials: 8, parallel: 8, algorithm: grid, early_stop: {algorithm: median, min: 2}}
    command:
      - v={{q}}; test $v -lt 4 || v=9
      - for e in 1 2 3; do echo '{"step":'$e',"acc":'$v'}' >>{{output}}/metrics.jsonl; done
      - test $v -eq 9 || sleep 1; echo '{"step":4,"acc":'$v'}' >>{{output}}/metrics.jsonl
      - test $v -eq 9 || sleep 30
END
SECONDS=0
check "also by what they write to files" "$DROVER" run files.yaml --state s.files --slots 8
check "as they write it" test "$SECONDS" -lt 15
check_equal "the same three" 3 "$(count s.files result '"state":"stopped"')"

cat >stable.yaml <<'END'
seed: 3
experiments:
  train:
    parameters: {q: {values: 1..2}}
    search: {metric: acc, goal: maximize, trials: 2, algorithm: grid, early_stop: {algorithm: stabilised, resource: epoch}}
    command:
      - awk 'BEGIN { for (e = 1; e <= 60; e++) print "epoch " e " acc=" 0.9 - 0.8 * exp(-e / 3) }'
      - sleep 0.1; test {{q}} -eq 1 || sleep 30
END
SECONDS=0
check "a trial whose curve has become flat is stopped" "$DROVER" run stable.yaml --state s.stable --slots 2
check_equal "at once, and it is recorded why" "1 1" \
    "$((SECONDS < 15)) $(count s.stable result '"reason":"the curve has stabilised"')"

# --- what makes no sense ------------------------------------------------------------------------

wrong() { # SENTENCE REGEX SET...
    local sentence=$1 regex=$2
    shift 2
    check_output "$sentence" "$regex" "$DROVER" check bowl.yaml "${@/#/--set=}"
    check_exit 2 "$sentence: exit 2, and nothing is made" "$DROVER" run bowl.yaml --state s.wrong "${@/#/--set=}"
    check_exit 1 "no state is left" test -e s.wrong
}
wrong "a goal with a typo is named" "did you mean 'minimize'" train.search.goal=minimze
wrong "so is an algorithm" "did you mean 'sobol'" train.search.algorithm=sobl
wrong "a condition that nothing fulfils is found at once" '^bowl.yaml:[0-9]+:[0-9]+: require: nothing' \
    'train.require=x > 20'
wrong "a pattern that is none is shown" '^bowl.yaml:.*metrics: character' 'train.metrics=loss={value'
