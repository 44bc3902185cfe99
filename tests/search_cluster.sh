#!/bin/bash
# A search on a server with nodes, one of them without the master's disk: metrics are read from what
# came up, checkpoints follow their trial, and the server may die in the middle.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/cluster.bash"
t_start "searches on a cluster"

kinds() { # WORKFLOW KIND [WHAT] : how many such lines its record of trials has
    grep -F "\"kind\":\"$2\"" "$STATE/workflows/$1/trials.log" | grep -cF -e "${3:-}"
}

serve
node a --slots 2
node b --slots 2 --no-share
check "both nodes are here" wait_until 20 are_here a b

cat >file.yaml <<'END'
seed: 1
experiments:
  train:
    parameters: {x: {range: 0..1}, y: {values: [1, 2, 4]}}
    search: {metric: loss, goal: minimize, trials: 40, parallel: 4, algorithm: tpe}
    command: echo '{"step":1,"loss":{{x}}}' >{{output}}/metrics.jsonl; sleep 0.02
END
submit file.yaml
check "a search runs on two nodes" finished "$id"
check_equal "the metrics of both are known" "40 40" "$(kinds "$id" suggested) $(kinds "$id" result '"state":"succeeded"')"
check "both had a part in it" test "$(drover tasks --json "$id" | grep -o '"node":"[ab]"' | sort -u | wc -l)" -eq 2
check_output "the server shows the parameters of trials" '"params":\{"x":0\.[0-9]+,"y":[124]\}' drover tasks --json "$id"
check_equal "a value is of the parameters that it stands beside" "$(kinds "$id" result)" \
    "$(paste -d' ' <(grep '"suggested"' "$STATE/workflows/$id/trials.log" | sed 's/.*"task":\([0-9]*\),.*"x":\([^,}]*\).*/\1 \2/' | sort -n) \
        <(grep '"result"' "$STATE/workflows/$id/trials.log" | sed 's/.*"task":\([0-9]*\),.*"values":\[\([^]]*\)\].*/\1 \2/' | sort -n) |
        awk '$1 == $3 && $2 == $4' | wc -l)"

cat >asha.yaml <<'END'
seed: 3
experiments:
  train:
    parameters: {lr: {range: 0.001..1, sampling: log}}
    search:
      {metric: acc, goal: maximize, trials: 18, parallel: 4, algorithm: random,
       early_stop: {algorithm: asha, resource: epoch, min: 1, max: 9, eta: 3}}
    command:
      - e=$(cat {{checkpoint}}/epoch 2>/dev/null || echo 0); echo "start at $e"
      - while [ $e -lt {{budget}} ]; do e=$((e+1)); echo $e >{{checkpoint}}/epoch; done
      - awk -v l={{lr}} -v e=$e 'BEGIN { print "epoch " e " acc=" (1-(log(l)+3)^2/20)*e/(e+1) }'
END
submit asha.yaml
check "asha runs on two nodes" finished "$id"
check_equal "whichever node a rung is on, it goes on where the one before ended" \
    "$(kinds "$id" suggested '"rung":0,') $(kinds "$id" suggested '"rung":1,') $(kinds "$id" suggested '"rung":2,')" \
    "$(for n in 0 1 3; do grep -lx "start at $n" "$STATE/workflows/$id"/logs/train/*/*.log | wc -l; done | xargs)"

cat >slow.yaml <<'END'
seed: 4
experiments:
  train:
    parameters: {x: {range: 0..1}}
    search: {metric: loss, goal: minimize, trials: 16, parallel: 4, algorithm: auto}
    command: sleep 0.4; echo loss={{x}}
END
submit slow.yaml
has_more() { # COUNT : suggestions than that
    test "$(kinds "$id" suggested)" -gt "$1"
}
check "the search is under way" wait_until 20 has_more 0
for _ in 1 2 3; do
    sleep 0.5
    kill -KILL "$server"
    wait "$server" 2>/dev/null
    serve
done
check "it outlives three deaths of the server" finished "$id" 60
check_equal "with every suggestion and every result once" "16 16 16" \
    "$(kinds "$id" suggested) $(kinds "$id" result) $(grep '"result"' "$STATE/workflows/$id/trials.log" | grep -o '"task":[0-9]*' | sort -u | wc -l)"

cat >median.yaml <<'END'
seed: 3
experiments:
  train:
    parameters: {q: {values: 1..4}}
    search:
      {metric: acc, goal: maximize, trials: 4, parallel: 4, algorithm: grid,
       early_stop: {algorithm: median, resource: epoch}}
    command:
      - for e in 1 2 3; do echo "epoch $e acc={{q}}"; done
      - test {{q}} -gt 1 || sleep 1.5; echo "epoch 4 acc={{q}}"
      - test {{q}} -gt 1 || sleep 60
END
submit median.yaml
check "a trial on a node is stopped early" finished "$id" 30
check_equal "and it is recorded why" 1 "$(kinds "$id" result 'is worse than')"

submit slow.yaml --set train.search.trials=1000
check "a long search is under way" wait_until 20 grep -q '"result"' "$STATE/workflows/$id/trials.log"
check "it can be cancelled" drover cancel "$id"
check_exit 1 "and has then not succeeded" finished "$id"
before=$(kinds "$id" suggested)
check "it can be taken up again" drover retry "$id"
check "and goes on" wait_until 20 has_more "$((before + 8))"
drover cancel "$id" >/dev/null 2>&1
