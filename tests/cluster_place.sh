#!/bin/bash
# What runs where, and when: labels, gpus, cpus and memory, priorities, fair shares, order, workers.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/cluster.bash"
t_start "placement"

# A task says "+ NAME" when it begins and "- NAME" when it ends, in one file; an append is whole.
cat >say.sh <<'END'
echo "+ $2" >>"$1"
sleep "$3"
echo "- $2" >>"$1"
END

most_at_once() { # FILE [PATTERN]
    grep -E -e "${2:-.}" "$1" | awk '{ n += $1 == "+" ? 1 : -1; if (n > most) most = n } END { print most + 0 }'
}

order() { # FILE [PATTERN] : the names in the order they began
    grep -E -e "${2:-.}" "$1" | sed -n 's/^+ //p'
}

check "a server starts" serve
node a --slots 2 --label zone=a --label fast
node b --slots 2 --label zone=b --no-share
check "two nodes join" wait_until 10 are_here a b

# ---- labels -------------------------------------------------------------------------------------------

cat >labels.yaml <<END
experiments:
  fast: {parameters: {i: 0..9}, hardware: {labels: [fast, zone=a]}, command: "true"}
  other: {parameters: {i: 0..9}, hardware: {labels: zone=b}, command: "true"}
  both: {hardware: {labels: [fast, zone=b]}, command: "true"}
END
submit labels.yaml
twenty_done() { [ "$(drover tasks "$id" --json | grep -c '"state":"succeeded"')" = 20 ]; }
check "tasks run where their labels are" wait_until 20 twenty_done
check_equal "and nowhere else" "" \
    "$(drover tasks "$id" --json | grep -E '/fast/.*"node":"b"|/other/.*"node":"a"')"
check "what no node has is queued" task_has both/0 state queued
check_output "and status says what is missing" 'waiting for: both needs' drover status "$id"
node c --slots 1 --label fast --label zone=b
check "until one comes that has it" finished "$id"
check_equal "and there it ran" c "$(task_is both/0 node)"
kill "${pid_of[c]}"
wait_for "${pid_of[c]}"

# ---- gpus ---------------------------------------------------------------------------------------------

cat >gpu.yaml <<END
experiments:
  train: {hardware: {gpu: k80, gpus: 2}, command: "true"}
  rest: {parameters: {i: 0..3}, command: "true"}
END
submit gpu.yaml
four_done() { [ "$(drover tasks "$id" --json | grep -c '"state":"succeeded"')" = 4 ]; }
check "a need for gpus that nobody meets holds nobody else up" wait_until 20 four_done
check "it is queued" task_has train/0 state queued
check_output "and status says why" 'train.*gpu.*k80' drover status "$id"
check_output "to programs, too" '"waiting_for":"[^"]*gpu' drover status "$id" --json
drover cancel "$id" >/dev/null

# ---- cpus and memory -----------------------------------------------------------------------------------

memory=$(drover nodes --json | grep '"name":"a"' | grep -o '"memory_bytes":[0-9]*' | head -n 1 | cut -d: -f2)
cat >pack.yaml <<END
experiments:
  half: {parameters: {i: 0..15}, hardware: {cpu: 0.5, labels: [fast]}, command: "sh $PWD/say.sh $PWD/half {{i}} 0.3"}
  two: {parameters: {i: 0..2}, hardware: {cpu: 2, labels: [zone=b]}, command: "sh $PWD/say.sh $PWD/two {{i}} 0.2"}
END
submit pack.yaml
check "tasks of half a processor and of two" finished "$id"
check_equal "four of the small ones at once on two processors" 4 "$(most_at_once half)"
check_equal "one of the large ones" 1 "$(most_at_once two)"
cat >memory.yaml <<END
experiments:
  large: {parameters: {i: 0..2}, hardware: {cpu: 0.1, memory: $((memory * 6 / 10)), labels: [fast]}, command: "sh $PWD/say.sh $PWD/large {{i}} 0.2"}
  small: {parameters: {i: 0..2}, hardware: {cpu: 0.1, memory: 1MB, labels: [fast]}, command: "sh $PWD/say.sh $PWD/large small{{i}} 0.5"}
  huge: {hardware: {memory: $((memory * 2))}, command: "true"}
END
submit memory.yaml
six_done() { [ "$(drover tasks "$id" --json | grep -c '"state":"succeeded"')" = 6 ]; }
check "tasks that need more than half the memory" wait_until 20 six_done
check_equal "run one after another" 1 "$(most_at_once large ' [0-9]$')"
check_equal "while small ones run beside them" 1 "$(($(most_at_once large) >= 3))"
check_output "one that needs more than there is waits, and status says so" 'huge.*memory' drover status "$id"
drover cancel "$id" >/dev/null

# ---- workers ---------------------------------------------------------------------------------------------

cat >workers.yaml <<END
experiments:
  few: {parameters: {i: 0..9}, workers: 3, hardware: {cpu: 0.1}, command: "sh $PWD/say.sh $PWD/few {{i}} 0.1"}
END
submit workers.yaml
check "with workers: 3" finished "$id"
check_equal "three run at once, though there is room for more" 3 "$(most_at_once few)"

# ---- priority, and first come first served ----------------------------------------------------------------------

recipe() { # NAME PRIORITY COUNT SECONDS LABEL
    cat >"$1.yaml" <<END
priority: $2
experiments:
  t: {parameters: {i: 1..$3}, hardware: {labels: [$5]}, command: "sh $PWD/say.sh $PWD/order $1{{i}} $4"}
END
}
drover nodes drain b >/dev/null
printf 'experiments:\n  t: {parameters: {i: 0..1}, command: "until [ -e %s/begin{{i}} ]; do sleep 0.02; done"}\n' "$PWD" >block.yaml
submit block.yaml
block=$id
both_run() { [ "$(drover tasks "$block" --json | grep -c '"state":"running"')" = 2 ]; }
wait_until 10 both_run
recipe low -5 4 0.05 fast
recipe middle 0 4 0.05 fast
recipe high 7 4 0.05 fast
ids=()
for name in low middle high; do
    submit $name.yaml
    ids+=("$id")
done
touch begin0 # one of the two slots: one after another, so that the order is seen exactly
for id in "${ids[@]}"; do finished "$id"; done
touch begin1
check_equal "the highest priority goes first, though it came last" "high high high high middle middle middle middle low low low low" \
    "$(order order | tr -d 0-9 | paste -sd ' ')"
for name in high middle low; do
    check_equal "$name: first come, first served" "$(seq 1 4 | sed "s/^/$name/" | paste -sd ' ')" \
        "$(order order "$name" | sort -s -k 1.1,1.1 | awk -v k=2 '{ a[NR] = $1 } END { for (i = 1; i <= NR; i += k) { x = a[i]; y = a[i + 1]; if (x > y) { z = x; x = y; y = z } print x; print y } }' | paste -sd ' ')"
done
drover nodes drain b --off >/dev/null

# ---- fair shares ------------------------------------------------------------------------------------------------------

rm -f order
recipe many 0 400 0.1 zone=a
recipe late 0 30 0.1 zone=a
submit many.yaml
many=$id
wait_until 10 has_lines order 10
at=$(lines_of order)
submit late.yaml
check "a small workflow that comes after a large one is soon done" finished "$id" 30
during=$(tail -n "+$((at + 1))" order | grep -n '^- late' | tail -n 1 | cut -d: -f1)
tail -n "+$((at + 1))" order | head -n "$during" >share
a=$(grep -c '^+ many' share)
b=$(grep -c '^+ late' share)
check_equal "both got about the same meanwhile ($a and $b)" 1 "$((a >= b * 7 / 10 && a <= b * 14 / 10 + 2))"
drover cancel "$many" >/dev/null
stop_all
