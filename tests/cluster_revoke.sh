#!/bin/bash
# Who gets in and who is put out: revoked nodes, wrong and old secrets, wrong masters.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/cluster.bash"
t_start "revoked nodes and join secrets"

LEASE_MS=60000 # nothing here may be the work of the lease

cat >task.sh <<'END'
echo $$ >>"$1.began"
until [ -e "$1.go" ]; do sleep 0.05; done
echo "attempt $DROVER_ATTEMPT" >"$DROVER_OUTPUT/made"
echo "$DROVER_ATTEMPT" >>"$1.ended"
END
recipe() { # NAME
    printf 'experiments:\n  t: {grace: 1s, retries: 0, command: "exec bash %s/task.sh %s/%s"}\n' "$PWD" "$PWD" "$1" >"$1.yaml"
}

began_on() { # NAME NODE : a new workflow of one task runs on that node, the others being drained
    local other
    for other in "${!pid_of[@]}"; do
        [ "$other" = "$2" ] || drover nodes drain "$other"
    done >/dev/null 2>&1
    recipe "$1"
    submit "$1.yaml"
    wait_until 10 has_lines "$1.began" 1
    wait_until 10 task_has t/0 node "$2"
    for other in "${!pid_of[@]}"; do
        [ "$other" = "$2" ] || drover nodes drain "$other" --off
    done >/dev/null 2>&1
}

is_gone() { # PID : it has ended, whether anybody has asked for its end or not
    ! kill -0 "$1" 2>/dev/null || grep -q '^State:[[:space:]]*Z' "/proc/$1/status" 2>/dev/null
}

refused() { # WHAT REGEX NODE-OPTIONS... : a node ends with 1 and says that
    local what=$1 regex=$2
    shift 2
    check_exit 1 "$what is refused" timeout 8 "$DROVER" node "$@"
    if grep -qE -e "$regex" "$T/harness/out"; then
        t_ok "$what: and is told what to do"
    else
        t_not_ok "$what: and is told what to do" "$(t_seen)"
    fi
}

check "a server starts" serve
node a --slots 1 --no-share
node b --slots 1
node keep --slots 1
check "three nodes join" wait_until 10 are_here a b keep

# ---- revoked, with a task ---------------------------------------------------------------------------------

for name in a b; do
    began_on "of_$name" "$name"
    first=$(head -n 1 "of_$name.began")
    check "node $name, with a task, is revoked" drover nodes revoke "$name"
    check "$name: the task begins anew elsewhere at once" wait_until 5 has_lines "of_$name.began" 2
    wait_for "${pid_of[$name]}"
    check_equal "$name: its agent ends, and not well" 1 "$t_status"
    check_output "$name: and says why" 'the master says: this node was revoked' cat "$name.said"
    check "$name: its task is no more" wait_until 5 is_gone "$first"
    check "$name: it is known as revoked" is_in_state "$name" revoked
    check_no_output "$name: and not listed with the others" "^$name " drover nodes
    touch "of_$name.go"
    check "$name: its task is done by another" finished "$id"
    check_equal "$name: once, in the second attempt, without a retry" "2 2" \
        "$(task_is t/0 attempt) $(paste -sd ' ' "of_$name.ended")"
    refused "$name: the same key again" 'revoked; remove its node.key to join as another' \
        --join "@$STATE/join.url" --name "$name" --work "$name.work"
    unset "pid_of[$name]"
    [ $name = a ] && node c --slots 1 && wait_until 10 are_here c
done
rm a.work/node.key
node a --slots 1
check "with a new key, and the secret, the machine may join again" wait_until 10 are_here a
refused "a key that was revoked is not forgotten over there" 'revoked' --join "@$STATE/join.url" --name b --work b.work

# ---- revoked while it cannot hear it ------------------------------------------------------------------------

began_on frozen a
first=$(head -n 1 frozen.began)
kill -STOP "${pid_of[a]}"
check "a frozen node is revoked" drover nodes revoke a
check "its task begins anew elsewhere at once" wait_until 5 has_lines frozen.began 2
touch frozen.go
check "and is done" finished "$id"
kill -CONT "${pid_of[a]}"
wait_for "${pid_of[a]}"
unset 'pid_of[a]'
check_equal "when it wakes it is sent away" 1 "$t_status"
check "with its task" wait_until 5 is_gone "$first"
check_equal "whose result does not count" "attempt 2" "$(cat "$STATE/workflows/$id/outputs/t/0/made")"

# ---- a restart does not forget ----------------------------------------------------------------------------------

kill_hard "$server"
serve
refused "after a restart of the master, too, a revoked key" 'revoked' --join "@$STATE/join.url" --name b --work b.work
check "the others are here" wait_until 15 are_here keep c

# ---- revoked while it is frozen for longer than the lease ------------------------------------------------------------

kill_hard "$server"
LEASE_MS=1500
serve
node z --slots 1 --no-share
check "a node joins a master with a short lease" wait_until 10 are_here z keep c
began_on asleep z
first=$(head -n 1 asleep.began)
kill -STOP "${pid_of[z]}"
drover nodes revoke z >/dev/null
wait_until 5 has_lines asleep.began 2
sleep 2
kill -CONT "${pid_of[z]}"
check "when it wakes it is sent away, too" wait_until 10 is_gone "${pid_of[z]}"
kill_hard "${pid_of[z]}" # if it was not
unset 'pid_of[z]'
check_output "and told why" 'the master says: this node was revoked' cat z.said
check "with its task" wait_until 5 is_gone "$first"
touch asleep.go
check "which is done by another" finished "$id"

# ---- secrets ------------------------------------------------------------------------------------------------------

check_equal "join.url is for its owner alone" 600 "$(stat -c %a "$STATE/join.url")"
sed 's/\(secret=\)..../\10000/' "$STATE/join.url" >wrong.url
refused "a wrong secret" 'join secret is wrong or has expired; take the newest join.url' --join @wrong.url --name w --work w.work
sed 's/&secret=.*//' "$STATE/join.url" >none.url
t_run timeout 20 "$DROVER" node --join @none.url --name w --work w.work
check_equal "no secret gets nobody in ($t_status)" 1 "$((t_status == 1 || t_status == 2))"
check_exit 2 "what is no URL is wrong usage" "$DROVER" node --join http://127.0.0.1:1 --name w --work w.work
check_exit 2 "so is a file that is not there" "$DROVER" node --join @nowhere --name w --work w.work
check_equal "none of them is known" "" "$(drover nodes --all | grep '^w ')"

# Another master at this address: it does not have the key of the URL, and learns nothing.
sed 's/key=......../key=00000000/' "$STATE/join.url" >other.url
background timeout 4 "$DROVER" node --join @other.url --name w --work w.work
wait_for "$t_pid"
check_equal "a master with another key is not joined" "" "$(drover nodes --all | grep '^w ')"

if command -v curl >/dev/null; then
    cp "$STATE/join.url" before.url
    post() { # PATH
        curl -sS -f -X POST -H "Authorization: Bearer $(cat "$STATE/admin.token")" "$(cat "$STATE/api.url")/api/v1/$1"
    }
    check "the secret is renewed on demand" post join/rotate
    check_equal "join.url is another" 1 "$(cmp -s before.url "$STATE/join.url"; echo $?)"
    node d --slots 1
    check "with the new one nodes join" wait_until 10 are_here d
    check "it is renewed, and the old ones are worth nothing" post "join/rotate?revoke=true"
    refused "the one before" 'join secret is wrong or has expired' --join @before.url --name w --work w.work
    check "those who are in stay in" are_here keep c d
    kill_hard "${pid_of[d]}"
    cp before.url "$STATE.url"
    "$DROVER" node --join "@$STATE.url" --name d --work d.work </dev/null >>d.said 2>&1 &
    pid_of[d]=$!
    t_pids+=("${pid_of[d]}")
    check "and come back with their keys, whatever secret they have" wait_until 10 are_here d
else
    skip "no curl to renew the secret with"
fi

# ---- two with one name, two in one folder ------------------------------------------------------------------------

check_exit 1 "a second agent in the same folder is refused" timeout 20 "$DROVER" node --join "@$STATE/join.url" --name x --work keep.work
"$DROVER" node --join "@$STATE/join.url" --name keep --work keep2.work </dev/null >keep2.said 2>&1 &
pid_of[keep2]=$!
t_pids+=("${pid_of[keep2]}")
check "a second node of the same name gets another" wait_until 10 are_here keep keep-2
stop_all
