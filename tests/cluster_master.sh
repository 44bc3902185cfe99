#!/bin/bash
# The master is killed, frozen, started twice: its nodes go on with what they have, and nothing is
# run again.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/cluster.bash"
t_start "restarts of the master"

mkdir ran
# Each attempt leaves a line when it begins and one when it ends.
cat >task.sh <<'END'
echo "$DROVER_ATTEMPT" >>"$1/$2.began"
trap 'echo "$DROVER_ATTEMPT" >>"$1/$2.told"' TERM
until [ -e "$1/$2.go" ] || [ -e "$1/go" ]; do sleep 0.05; done
echo "result $2"
echo "$2" >"$DROVER_OUTPUT/result"
head -c 200000 /dev/zero | tr '\0' x
echo
echo "$DROVER_ATTEMPT" >>"$1/$2.ended"
END
cat >work.yaml <<END
experiments:
  work:
    parameters: {i: 0..7}
    command: exec bash $PWD/task.sh $PWD/ran {{i}}
END

begun() { # COUNT
    [ "$(find ran -name '*.began' | wc -l)" -ge "$1" ]
}

ended() { # TASK...
    local i
    for i in "$@"; do
        [ -e "ran/$i.ended" ] || return 1
    done
}

# Everything went through one attempt, undisturbed, and its result is there.
check_undisturbed() { # WHAT
    local wrong="" i
    for i in 0 1 2 3 4 5 6 7; do
        [ "$(cat "ran/$i.began" "ran/$i.ended" "ran/$i.told" 2>/dev/null | paste -sd ' ')" = "1 1" ] || wrong+=" $i"
    done
    check_equal "$1: no task was run twice or told to end" "" "$wrong"
    check_equal "$1: all are accepted in their first attempts" 8 \
        "$(drover tasks "$id" --json | grep -c '"state":"succeeded","attempt":1,')"
    wrong=""
    for i in 0 1 2 3 4 5 6 7; do
        [ "$(cat "$STATE/workflows/$id/outputs/work/$i/result")" = "$i" ] || wrong+=" output $i"
        [ "$(drover logs "$id/work/$i" | head -n 1)" = "result $i" ] || wrong+=" log $i"
        [ "$(drover logs "$id/work/$i" | wc -c)" = 200010 ] || wrong+=" size of log $i"
    done
    check_equal "$1: with their outputs and logs" "" "$wrong"
}

begin() {
    rm -rf ran
    mkdir ran
    submit work.yaml
    check "eight tasks run on shared and remote nodes" wait_until 15 begun 8
}

check "a server starts" serve
node a --slots 2
node b --slots 2 --no-share
node c --slots 2
node d --slots 2 --no-share
check "four nodes join" wait_until 10 are_here a b c d

# ---- killed -----------------------------------------------------------------------------------------

url=$(cat "$STATE/api.url")
port=$(sed 's/.*:\([0-9]*\).*/\1/' "$STATE/join.url")
begin
kill_hard "$server"
touch ran/{0,1,2,3}.go
check "tasks end while there is no master" wait_until 10 ended 0 1 2 3
sleep "$(((LEASE_MS + 999) / 1000 + 1))" # longer than the lease
check "the master is started again" serve
check_equal "at the same address for people" "$url" "$(cat "$STATE/api.url")"
check_equal "and at the same port for nodes" "$port" "$(sed 's/.*:\([0-9]*\).*/\1/' "$STATE/join.url")"
check "its nodes come back" wait_until 15 are_here a b c d
four_accepted() { [ "$(drover tasks "$id" --json | grep -c '"state":"succeeded"')" = 4 ]; }
check "what ended meanwhile is accepted" wait_until 10 four_accepted
touch ran/go
check "the rest goes on to its end" finished "$id"
check_undisturbed "killed"

# ---- killed over and over, at bad moments --------------------------------------------------------------

begin
for i in 0 1 2 3 4 5; do
    touch "ran/$i.go"
    sleep "0.$((RANDOM % 4))"
    kill_hard "$server"
    serve
done
touch ran/go
check "six more times" finished "$id"
check_undisturbed "killed six times"

# ---- stopped politely: nodes and tasks go on -------------------------------------------------------------

begin
kill "$server"
wait_for "$server"
check_equal "a server that is told to ends" 0 "$t_status"
touch ran/{4,5}.go
check "its nodes do not" wait_until 10 ended 4 5
serve
touch ran/go
check "and are found again" finished "$id"
check_undisturbed "stopped"

# ---- frozen -----------------------------------------------------------------------------------------------

begin
kill -STOP "$server"
touch ran/{2,3}.go
sleep "$(((LEASE_MS * 2 + 999) / 1000))"
check "tasks end while the master is frozen" wait_until 10 ended 2 3
kill -CONT "$server"
touch ran/go
check "it goes on" finished "$id"
check_undisturbed "frozen"
check_equal "its nodes are all here" "" "$(drover nodes --json | grep -v '"state":"here"')"

# ---- two of them ----------------------------------------------------------------------------------------------

check_exit 1 "a second master on the same folder is refused" timeout 20 "$DROVER" serve --state "$STATE"
check_output "with the reason" 'in use|another|already' timeout 20 "$DROVER" serve --state "$STATE"
check "the first does not mind" are_here a b c d
check_equal "and is the one in api.url" "$url" "$(cat "$STATE/api.url")"
kill -STOP "$server"
check_exit 1 "nor while the first is frozen" timeout 20 "$DROVER" serve --state "$STATE"
kill -CONT "$server"

# ---- a port that was taken meanwhile -----------------------------------------------------------------------------

if command -v python3 >/dev/null; then
    begin
    kill_hard "$server"
    background python3 -c "import socket, time; s = socket.socket(); s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1); s.bind(('127.0.0.1', $port)); s.listen(); open('stolen', 'w'); time.sleep(60)"
    thief=$t_pid
    check "somebody takes its port" wait_until 5 test -e stolen
    check "it starts although it cannot have its port" serve
    check_output "and says so" "port $port of last time is taken" cat server.said
    # The nodes read join.url again, since they were given the file.
    check "nodes that were given the file find it" wait_until 25 are_here a b c d
    touch ran/go
    check "and all is done" finished "$id"
    check_undisturbed "moved"
    kill_hard "$thief"
else
    skip "no python3 to take a port"
fi
stop_all
