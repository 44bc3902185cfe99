#!/bin/bash
# A task that prints a gigabyte, and one whose output is large: nobody else notices, and neither the
# node nor the master grows.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/cluster.bash"
t_start "a flood"

LEASE_MS=4000
GROWTH_KB=65536

peak_kb() { # PID : the most memory it has had
    sed -n 's/^VmHWM:[[:space:]]*\([0-9]*\) kB/\1/p' "/proc/$1/status"
}

check "a server starts" serve
node loud --slots 2 --label loud --no-share
node near --slots 1 --label loud
node calm --slots 1 --label calm --no-share
check "three nodes join" wait_until 10 are_here loud near calm
declare -A before
pid_of[server]=$server
for name in server loud near; do
    before[$name]=$(peak_kb "${pid_of[$name]}")
done

# Half of it is kept, so that hundreds of megabytes do travel.
cat >flood.yaml <<END
experiments:
  flood:
    parameters: {where: [0, 1]}
    log_limit: 256MiB
    hardware: {labels: [loud]}
    command: "yes 'all work and no play' | head -c 1000000000; echo; echo the end"
  large:
    hardware: {labels: [loud]}
    command: head -c 300000000 /dev/zero >{{output}}/zeros
END
cat >calm.yaml <<END
experiments:
  calm:
    parameters: {i: 0..39}
    hardware: {labels: [calm]}
    command: "echo {{i}}; sleep 0.05; date +%s%N >>$PWD/calm"
END
submit flood.yaml
flood=$id
wait_until 10 grep -q . <(drover tasks "$flood" --json | grep '"state":"running"')
began=$(now_ms)
submit calm.yaml
check "others' work is done while it goes on" finished "$id" 60
took=$(($(now_ms) - began))
check_equal "in not much more than its time ($took ms)" 1 "$((took < 15000))"
check_equal "none of it twice" "40 40" \
    "$(lines_of calm) $(drover tasks "$id" --json | grep -c '"attempt":1,')"
check_equal "no node is missed" "" "$(drover nodes --json | grep -v '"state":"here"')"
check "the flood comes to its end" finished "$flood" 60
check_equal "in its first attempts" 3 "$(drover tasks "$flood" --json | grep -c '"attempt":1,')"
for name in server loud near; do
    grown=$(($(peak_kb "${pid_of[$name]}") - before[$name]))
    check_equal "$name grew by less than $((GROWTH_KB / 1024)) MB ($((grown / 1024)))" 1 "$((grown < GROWTH_KB))"
done
unset 'pid_of[server]'
for i in 0 1; do
    size=$(cat "$STATE/workflows/$flood/logs/flood/0/$i".* | wc -c)
    check_equal "log $i is within its limit ($size)" 1 "$((size > 128 << 20 && size <= 256 << 20))"
    check_equal "and has its end" "the end" "$(tail -n 1 "$STATE/workflows/$flood/logs/flood/0/$i.1.log")"
    check_output "which a search finds" ": the end$" drover logs "$flood" --grep 'the end' --limit 5
done
check_equal "the large output is whole" 300000000 "$(stat -L -c %s "$STATE/workflows/$flood/outputs/large/0/zeros")"
if [[ $DROVER_BUILD == *asan* ]] || ! command -v prlimit >/dev/null; then
    skip "no limit on memory to read a flood with"
else
    check_equal "a flood is read in little memory, too" "the end" \
        "$(prlimit --as=268435456 "$DROVER" logs --state "$STATE" "$flood/flood/0" | tail -n 1)"
fi
stop_all
