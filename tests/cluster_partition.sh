#!/bin/bash
# Cables that are cut, one way and both, for shorter and longer than the lease, and bad ones.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/cluster.bash"
. "$(dirname "$0")/netns.bash"
t_start "partitions"
net_up 2 2>/dev/null || skip_all "no network namespaces here: nothing can be cut off"

LONG=$((LEASE_MS * 2 / 1000 + 1))

cat >task.sh <<'END'
echo "$DROVER_ATTEMPT" >>"$1.began"
trap 'echo "$DROVER_ATTEMPT" >>"$1.told"; exit 1' TERM
until [ -e "$1.go.$DROVER_ATTEMPT" ] || [ -e "$1.go" ]; do sleep 0.05; done
echo "attempt $DROVER_ATTEMPT" | tee "$DROVER_OUTPUT/made"
echo "$DROVER_ATTEMPT" >>"$1.ended"
END

recipe() { # NAME LABEL
    cat >"$1.yaml" <<END
experiments:
  work: {grace: 5s, hardware: {labels: [$2]}, command: exec bash $PWD/task.sh $PWD/$1}
END
}

begin() { # NAME LABEL NODE : the task runs there
    recipe "$1" "$2"
    submit "$1.yaml"
    wait_until 10 has_lines "$1.began" 1
    wait_until 10 task_has work/0 state running
    check_equal "$1: a task runs on node $3" "$3" "$(task_is work/0 node)"
}

check_first() { # NAME : it went through one attempt that nothing happened to
    touch "$1.go"
    check "$1: it comes to its end" finished "$id"
    check_equal "$1: in its first attempt" 1 "$(task_is work/0 attempt)"
    check_equal "$1: which nobody disturbed" "1 1" "$(cat "$1".began "$1".told "$1".ended 2>/dev/null | paste -sd ' ')"
    check_equal "$1: its log and output are here" "attempt 1 attempt 1" \
        "$(drover logs "$id/work/0") $(cat "$STATE/workflows/$id/outputs/work/0/made")"
}

check_second() { # NAME : the first attempt was replaced, and does not count
    touch "$1.go.2"
    check "$1: its replacement comes to its end" finished "$id"
    check_equal "$1: which counts" "2 $2" "$(task_is work/0 attempt) $(task_is work/0 node)"
    check_equal "$1: its log and output are those that count" "attempt 2 attempt 2" \
        "$(drover logs "$id/work/0") $(cat "$STATE/workflows/$id/outputs/work/0/made")"
    check_equal "$1: none was begun again" "1 2" "$(paste -sd ' ' "$1.began")"
}

check "a server starts" serve --wire "$net_master:0"
# shellcheck disable=SC2206 # a prefix of words
wrapper=(${net_on[1]})
node one --slots 1 --label one --label any --no-share
# shellcheck disable=SC2206
wrapper=(${net_on[2]})
node two --slots 1 --label two --label any --no-share
wrapper=()
check "two nodes join over the network" wait_until 10 are_here one two

# ---- shorter than the lease: nothing has happened ------------------------------------------------------

for how in net_cut net_cut_from net_cut_to; do
    begin "short_$how" one one
    $how 1
    sleep 0.7
    net_heal 1
    check_first "short_$how"
done

# ---- longer, with nobody to take over: the attempt stays valid ------------------------------------------

for how in net_cut net_cut_from net_cut_to; do
    begin "long_$how" one one
    $how 1
    check "long_$how: the master suspects it" wait_until "$((LONG + 5))" is_in_state one suspect
    [ $how = net_cut ] && touch "long_$how.go" # it ends while nobody can hear of it
    sleep 1
    net_heal 1
    check "long_$how: it is here again" wait_until 20 are_here one
    check_first "long_$how"
done

# ---- longer, and another node takes over: what comes back is stale ------------------------------------------

for end in running ended; do
    drover nodes drain two >/dev/null
    begin "stale_$end" any one
    drover nodes drain two --off >/dev/null
    net_cut 1
    check "stale_$end: another node takes over" wait_until "$((LONG + 5))" has_lines "stale_$end.began" 2
    if [ $end = ended ]; then
        touch "stale_$end.go.1"
        check "stale_$end: the first attempt ends as if it had succeeded" wait_until 5 test -s "stale_$end.ended"
    fi
    net_heal 1
    check "stale_$end: the first node is here again" wait_until 20 are_here one
    if [ $end = running ]; then
        check "stale_$end: what it runs is told to end" wait_until 10 has_lines "stale_$end.told" 1
        check_equal "stale_$end: and nothing else is" "1" "$(paste -sd ' ' "stale_$end.told")"
    fi
    check_output "stale_$end: nothing is accepted from it" '^(assigned|running)$' task_is work/0 state
    check_second "stale_$end" two
done
check_equal "nothing of the stale attempts is on the master" "" \
    "$(find "$STATE"/workflows/stale* -path '*/attempts/*' -name '0.1*')"

# ---- cut in the middle of sending ----------------------------------------------------------------------

cat >large.yaml <<END
experiments:
  make: {hardware: {labels: [one]}, command: "seq 1 10000000 >{{output}}/numbers; seq 1 400000"}
  use: {depends_on: make, hardware: {labels: [two]}, command: "md5sum <{{make.output}}/0/numbers"}
END
sum=$(seq 1 10000000 | md5sum)
submit large.yaml
arriving() {
    grep -rqs . "$STATE"/workflows/"$id"/incoming*
}
wait_until 20 arriving
net_cut 1
sleep "$LONG"
check_equal "a cable is cut while an output is sent" "" "$(task_is make/0 finished_at | grep -v null)"
net_heal 1
check "an output whose sending was cut off arrives in the end" finished "$id"
check_equal "to the byte, also where it is needed" "$sum" "$(drover logs "$id/use/0")"
check_equal "and the task that made it was not run again" 1 "$(task_is make/0 attempt)"

check_equal "nodes keep nothing of what has ended" "" "$(find one.work/workflows two.work/workflows -type f -path '*/attempts/*')"

# ---- a bad cable ----------------------------------------------------------------------------------------

cat >many.yaml <<END
experiments:
  a:
    parameters: {i: 0..99}
    hardware: {labels: [three]}
    command: "echo {{i}} >{{output}}/i; echo {{i}} >>$PWD/many; echo number {{i}}"
  b:
    depends_on: a
    hardware: {labels: [three]}
    command: "cat {{a.output}}/*/i | sort -n | md5sum; head -c 1000000 /dev/zero >{{output}}/zeros"
END
if command -v python3 >/dev/null && [ -w /dev/net/tun ]; then
    seed=${CABLE_SEED:-$RANDOM}
    python3 "$SOURCE/tests/cluster_cable.py" "$(net_space 1)" "$net_master" "10.80.$net_block.11" "$seed" ready \
        >cable.said 2>&1 &
    cable=$!
    t_pids+=("$cable")
    check "a bad cable is laid" wait_until 5 test -e ready
    # shellcheck disable=SC2206
    wrapper=(${net_on[1]})
    node three --slots 2 --label three --no-share
    check "a node joins by it" wait_until 15 are_here three
    submit many.yaml
    check "packets that are late, lost, doubled and out of order do no harm" finished "$id" 40
    check_equal "each task ran once" "$(seq 0 99 | md5sum)" "$(sort -n many | md5sum)"
    check_equal "and its output was where it is needed" "$(seq 0 99 | md5sum)" "$(drover logs "$id/b/0")"
    check_equal "what it sent is whole" 1000000 "$(stat -L -c %s "$STATE/workflows/$id/outputs/b/0/zeros")"
    stop_all
    kill "$cable"
    wait_for "$cable"
    cat cable.said
    check_output "the cable was bad indeed" '[1-9][0-9]* overtaken, [1-9][0-9]* lost, [1-9]' cat cable.said
else
    skip "no python3 or no /dev/net/tun: packets are neither late nor out of order"
    stop_all
fi
