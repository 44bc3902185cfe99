#!/bin/bash
# A node that will be taken away: its tasks write a checkpoint and go on elsewhere at once.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/cluster.bash"
t_start "draining and preemption"

LEASE_MS=60000 # nothing here may be the work of the lease

# Counts until the file `finish` is there; told to end, it writes how far it came, and ends badly or,
# as some programs do, well. Each attempt says where it began; the last line is where it was told.
cat >count.sh <<'END'
side=$1 end=$2
n=$(cat "$DROVER_CHECKPOINT/n" 2>/dev/null || echo 0)
echo "attempt $DROVER_ATTEMPT from $n" >>"$side/began"
told() {
    sleep 0.3
    echo "$n" >"$DROVER_CHECKPOINT/n.tmp" && mv "$DROVER_CHECKPOINT/n.tmp" "$DROVER_CHECKPOINT/n"
    echo "attempt $DROVER_ATTEMPT told at $n" >>"$side/told"
    exit "$end"
}
trap told TERM
until [ -e "$side/finish" ]; do
    sleep 0.02
    n=$((n + 1))
done
echo "done at $n"
END

recipe() { # NAME LABEL END : a recipe in NAME.yaml, its side effects in NAME/
    mkdir -p "$1"
    cat >"$1.yaml" <<END
experiments:
  work:
    checkpoint: true
    grace: 20s
    hardware: {labels: [$2]}
    command: exec bash $PWD/count.sh $PWD/$1 $3
END
}

# Starts NAME, waits until it has come some way, runs COMMAND with the name of its node, and checks
# that it goes on where it was at another node.
moves() { # NAME LABEL END WHAT COMMAND...
    local name=$1 what=$4 from at
    recipe "$1" "$2" "$3"
    shift 4
    submit "$name.yaml"
    wait_until 10 task_has work/0 state running
    wait_until 10 test -s "$name/began"
    sleep 0.3
    from=$(task_is work/0 node)
    at=$(now_ms)
    "$@" "$from" >/dev/null 2>&1
    check "$what: the task goes on elsewhere" wait_until 10 has_lines "$name/began" 2
    # It cleans up for 0.3 s, out of a grace of 20 and a lease of 60.
    check_equal "$what: as soon as it has written its checkpoint" 1 "$(($(now_ms) - at < 8000))"
    check_equal "$what: from the very place" \
        "attempt 1 told at $(sed -n '2s/.*from //p' "$name/began")" "$(head -n 1 "$name/told")"
    check_equal "$what: which is not the beginning" "" "$(sed -n '2{/from 0$/p}' "$name/began")"
    touch "$name/finish"
    check "$what: it succeeds without a retry" finished "$id"
    check_equal "$what: in its second attempt" 2 "$(task_is work/0 attempt)"
    check_equal "$what: not where it was" 0 "$([ "$(task_is work/0 node)" = "$from" ]; echo $((! $?)))"
    left=$from
}

signal_node() { # SIGNAL NODE
    kill "-$1" "${pid_of[$2]}"
}

write_notice() { # NODE
    echo "spot price" >"$1.notice"
}

drain_now() { # NODE
    drover nodes drain "$1" --now
}

check "a server starts" serve
node a --slots 2 --label ab --label ac --label abc --notice-file "$PWD/a.notice"
node b --slots 2 --label ab --label abc --notice-file "$PWD/b.notice"
node c --slots 2 --label cd --label ac --label abc --no-share --notice-file "$PWD/c.notice"
node d --slots 2 --label cd --no-share --notice-file "$PWD/d.notice"
check "four nodes join" wait_until 10 are_here a b c d

# ---- told by the master ---------------------------------------------------------------------------

moves one ab 1 "drain --now" drain_now
check "the drained node is shown so" is_in_state "$left" draining
printf 'experiments:\n  e: {parameters: {x: 0..7}, hardware: {labels: [ab]}, command: "true"}\n' >few.yaml
submit few.yaml
check "other work is done meanwhile" finished "$id"
check_equal "none of it there" "" "$(drover tasks "$id" --json | grep -F "\"node\":\"$left\"")"
check "draining is taken back" drover nodes drain "$left" --off
check_equal "and it takes work again" "== $left" "$(drover exec --on "$left" -- true)"

# ---- told by the node, by signal: a remote one to a remote one -------------------------------------

moves two cd 0 "SIGUSR1 to a remote node" signal_node USR1
check "it is draining, and still there" is_in_state "$left" draining
check "taken back by the master" drover nodes drain "$left" --off
check_equal "it takes work again" "== $left" "$(drover exec --on "$left" -- true)"

# ---- by a file, between a node that shares the disk and one that does not; and back -----------------

moves three ac 1 "a notice file" write_notice
first=$left
check_output "the server tells why" "node $left will be taken away \(spot price\)" \
    cat server.said
drover nodes drain "$left" --off >/dev/null
check "the file is old news" is_in_state "$left" here
rm "$left.notice"
[ "$first" = a ] && other=c || other=a
drover nodes drain "$first" >/dev/null # so that it begins at the other one
recipe four ac 1
submit four.yaml
wait_until 10 has_lines four/began 1
check "it begins at the one that is not drained" wait_until 5 task_has work/0 node "$other"
sleep 0.3
drover nodes drain "$first" --off >/dev/null
drover nodes drain "$other" --now >/dev/null
check "and back the other way" wait_until 10 has_lines four/began 2
check_equal "with its checkpoint" "attempt 1 told at $(sed -n '2s/.*from //p' four/began)" "$(head -n 1 four/told)"
touch four/finish
check "to its end" finished "$id"
drover nodes drain "$other" --off >/dev/null

# ---- softly ---------------------------------------------------------------------------------------

recipe five ab 1
submit five.yaml
wait_until 10 task_has work/0 state running
from=$(task_is work/0 node)
drover nodes drain "$from" >/dev/null
sleep 0.5
check_equal "a soft drain tells the task nothing" "" "$(cat five/told 2>/dev/null)"
touch five/finish
check "it ends where it is" finished "$id"
check_equal "in its first attempt" "1 $from" "$(task_is work/0 attempt) $(task_is work/0 node)"
drover nodes drain "$from" --off >/dev/null

# ---- a task that does not listen --------------------------------------------------------------------

cat >deaf.yaml <<END
experiments:
  deaf: {grace: 1s, hardware: {labels: [ab]}, shell: bash, command: "trap '' TERM; echo x >>$PWD/deaf; until [ -e $PWD/heard ]; do sleep 0.1; done"}
END
submit deaf.yaml
wait_until 10 has_lines deaf 1
wait_until 10 task_has deaf/0 state running
from=$(task_is deaf/0 node)
at=$(now_ms)
drover nodes drain "$from" --now >/dev/null
check "a task that ignores TERM moves, too" wait_until 10 has_lines deaf 2
check_equal "after its grace" 1 "$(($(now_ms) - at >= 900))"
touch heard
check "and is done" finished "$id"
drover nodes drain "$from" --off >/dev/null

# ---- the node itself is ended ------------------------------------------------------------------------

moves six abc 1 "SIGTERM to the node" signal_node TERM
wait_for "${pid_of[$left]}"
check_equal "the agent ends well" 0 "$t_status"
check "and has left" is_in_state "$left" left
recipe seven abc 0
submit seven.yaml
wait_until 10 has_lines seven/began 1
check "work goes on with those that stay" touch seven/finish
check "to its end" finished "$id"

# ---- nowhere to go ---------------------------------------------------------------------------------------

recipe eight cd 1
submit eight.yaml
wait_until 10 has_lines eight/began 1
wait_until 5 task_has work/0 state running
for name in c d; do [ "$name" = "$left" ] || drover nodes drain "$name" --now; done >/dev/null
check "with all nodes drained the task waits" wait_until 10 task_has work/0 state queued
sleep 0.5
check_equal "and is not begun" 1 "$(lines_of eight/began)"
touch eight/finish
drover nodes drain d --off >/dev/null
check "until one is there again" finished "$id"
stop_all
