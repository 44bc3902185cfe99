#!/bin/bash
# A search is killed again and again, and goes on each time as if nothing had happened: the same
# suggestions in the same order, no result lost, none counted twice.
# timeout: 240
. "$(dirname "$0")/lib.sh"
t_start "searches that are killed"

cat >r.yaml <<'END'
seed: 7
experiments:
  train:
    parameters:
      x: {range: -5..10}
      y: {range: 0..15}
      kind: [a, b]
    search: {metric: loss, goal: minimize, trials: 60, parallel: 1}
    command: |
      echo "$DROVER_TRIAL" >>ran
      case {{trial}} in *7) exit 1;; *8) echo loss=nan;; esac
      awk -v x={{x}} -v y={{y}} 'BEGIN { print "loss=" (x-2)^2 + (y-3)^2 }'
END

# What was suggested and what came of it, without the times.
story() { # FOLDER
    sed -n 's/"at":[0-9]*,//; /"kind":"\(suggested\|result\)"/p' "$1/trials.log"
}

# Runs until it is not killed any more; $kills says how often it was.
harry() { # MS-MAX COMMAND...
    local most=$1
    shift
    kills=0
    while :; do
        "$@" >>said 2>&1 </dev/null &
        t_pid=$!
        t_pids+=("$t_pid")
        sleep "$(awk -v m="$most" -v r="$RANDOM" 'BEGIN { print (5 + r % m) / 1000 }')"
        if [ "$kills" -lt 40 ] && kill -KILL "$t_pid" 2>/dev/null; then
            wait "$t_pid" 2>/dev/null
            kills=$((kills + 1))
        else
            wait_for "$t_pid"
            return
        fi
    done
}

for algorithm in auto tpe cma-es; do
    check "a search by $algorithm that nobody disturbs" \
        "$DROVER" run r.yaml --set "train.search.algorithm=$algorithm" --state "whole.$algorithm" --slots 2
    harry 150 "$DROVER" run r.yaml --set "train.search.algorithm=$algorithm" --state "killed.$algorithm" --slots 2
    check_equal "the same one killed $kills times ends as well" 0 "$t_status"
    check_equal "with the same suggestions and results ($algorithm)" "$(story "whole.$algorithm" | cksum)" \
        "$(story "killed.$algorithm" | cksum)"
    check_equal "all of them" 60 "$(story "killed.$algorithm" | grep -c '"kind":"result"')"
done

cat >many.yaml <<'END'
seed: 7
experiments:
  train:
    parameters: {x: {values: 0..19}, y: {values: 0..19}}
    search: {metric: loss, goal: minimize, algorithm: grid, parallel: 8}
    command: echo loss={{x}}
END
harry 250 "$DROVER" run many.yaml --state many --slots 4
check_equal "a grid of 400, eight at a time, killed $kills times, ends" 0 "$t_status"
check_equal "each combination was suggested once" "400 400" \
    "$(grep -c '"suggested"' many/trials.log) $(grep -o '"params":{[^}]*}' many/trials.log | sort -u | wc -l)"
check_equal "and has one result" "400 400" "$(grep -c '"kind":"result"' many/trials.log) $(grep '"kind":"result"' \
    many/trials.log | grep -o '"task":[0-9]*' | sort -u | wc -l)"

cat >asha.yaml <<'END'
seed: 3
experiments:
  train:
    parameters: {lr: {range: 0.001..1, sampling: log}}
    search:
      {metric: acc, goal: maximize, trials: 27, parallel: 1, algorithm: tpe,
       early_stop: {algorithm: asha, resource: epoch, min: 1, max: 9, eta: 3}}
    command: awk -v l={{lr}} -v e={{budget}} 'BEGIN { print "epoch " e " acc=" (1-(log(l)+3)^2/20)*e/(e+1) }'
END
check "asha that nobody disturbs" "$DROVER" run asha.yaml --state whole.asha --slots 2
harry 150 "$DROVER" run asha.yaml --state killed.asha --slots 2
check_equal "asha killed $kills times has the same rungs" "$(story whole.asha | cksum)" "$(story killed.asha | cksum)"

# --- a record that is damaged -------------------------------------------------------------------

"$DROVER" run r.yaml --set train.search.trials=5 --state torn --slots 1 >/dev/null 2>&1
cp torn/trials.log trials.whole
sed -i '4s/"task":[0-9]*/"task":77/' torn/trials.log
check_output "a line that makes no sense is named" 'trials.log: line 4: ' "$DROVER" tasks --state torn
check_output "also when the run is resumed" 'trials.log: line 4: ' \
    "$DROVER" run r.yaml --set train.search.trials=5 --state torn
cp trials.whole torn/trials.log
printf '{"v":1,"kind":"sugg' >>torn/trials.log
check "half a line at the end is none" "$DROVER" tasks --state torn
