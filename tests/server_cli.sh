#!/bin/bash
# The commands against a server as programs use them: objects with exactly their keys, exit codes,
# which server and which workflow is meant, single tasks, and a submission whose answer is lost.
. "$(dirname "$0")/lib.sh"
t_start "commands as programs use them"
unset DROVER_SERVER DROVER_TOKEN DROVER_CA

keys_of() { # FILE : the keys of each object, sorted, each set once
    python3 -c 'import json, sys
seen = {" ".join(sorted(json.loads(line))) for line in open(sys.argv[1])}
print("\n".join(sorted(seen)))' "$1"
}
field() { # KEY < OBJECT
    python3 -c 'import json, sys; print(json.load(sys.stdin)[sys.argv[1]])' "$1"
}
here() { # COUNT : so many nodes are here
    [ "$("$DROVER" nodes --state s --json | grep -c '"state":"here"')" = "$1" ]
}
state_is() { # TASK STATE
    "$DROVER" tasks "${1%%/*}" --state s --json | grep -F "\"id\":\"$1\"" | grep -qF "\"state\":\"$2\""
}

background "$DROVER" serve --state s --json
wait_until 10 test -s s/api.url
background "$DROVER" node --join @s/join.url --name one --work w1 --slots 2 --label zone=a --price 0.25 --quiet
background "$DROVER" node --join @s/join.url --name two --work w2 --slots 2 --no-share --quiet
wait_until 10 here 2
url=$(cat s/api.url)
admin=$(cat s/admin.token)

mkdir project
cat >project/r.yaml <<'END'
name: mixed
seed: 3
experiments:
  good: {parameters: {x: 0..2}, command: "echo good {{x}}"}
  bad: {parameters: {x: 0..1}, command: "echo before the end; exit {{x}}"}
  after: {depends_on: bad, command: echo never}
END

# ---- objects ----------------------------------------------------------------------------------

"$DROVER" submit project/r.yaml --json --state s >submit.json
check_equal "submit --json has its keys" "experiments id number state tasks" "$(keys_of submit.json)"
check_exit 1 "wait --json" sh -c '"$0" wait --json --state s >wait.json' "$DROVER"
"$DROVER" status --json --state s >status.json
status="active created_at experiments finished_at id number owner priority seed state state_folder waiting_for"
check_equal "status --json has its keys" "$status" "$(keys_of status.json)"
check_equal "wait --json is the same object" "$(cat status.json)" "$(cat wait.json)"
"$DROVER" list --json --state s >list.json
check_equal "list --json has the same keys" "$status" "$(keys_of list.json)"
"$DROVER" tasks --json --state s >tasks.json
check_equal "tasks --json has its keys" \
    "attempt exit_code experiment finished_at id node params reason started_at state task" "$(keys_of tasks.json)"
check_equal "a line a task" 6 "$(wc -l <tasks.json)"
check_equal "what failed says how" 'mixed-1/bad/1 failed 1' \
    "$(grep '"failed"' tasks.json | python3 -c 'import json, sys
for line in sys.stdin:
    t = json.loads(line); print(t["id"], t["state"], t["exit_code"])')"
"$DROVER" nodes --json --state s >nodes.json
check_equal "nodes --json has its keys" "cost cpu disk_bytes ended gpu gpus heard_at joined_at labels \
memory_bytes name number pid price_hour slots state tasks usage used version" "$(keys_of nodes.json)"
"$DROVER" logs --grep good --json --state s >found.json
check_equal "logs --grep --json has its keys" "attempt experiment line task text" "$(keys_of found.json)"
"$DROVER" token list --json --state s >tokens.json
check_equal "token list --json has its keys" "created_at name role" "$(keys_of tokens.json)"
"$DROVER" exec --json --state s -- true >exec.json
check_equal "exec --json has its keys" "exit_code node output reason state" "$(keys_of exec.json)"
printf 'a\nb\n' | "$DROVER" map --json --state s 'echo {}' - >map.json
check_equal "map --json has its keys" "exit_code input node output state" "$(keys_of map.json)"
"$DROVER" top --once --json --state s >top.json
check_equal "top --json has its keys" "at cost cost_hour cpu cpu_total failed gpu gpus memory_bytes \
memory_total_bytes nodes nodes_away nodes_here queued running server succeeded tasks_per_s uptime_s workflows" \
    "$(keys_of top.json)"
check_equal "every line of serve --json is an object" "" \
    "$(python3 -c 'import json, sys
for line in open(sys.argv[1]):
    json.loads(line)' "$T/harness/background.0" 2>&1)"

# ---- for people -------------------------------------------------------------------------------

check_output "the table of tasks names the node" '^bad/1 +failed +1 +[0-9.]+m?s +(one|two) +exit 1 ' \
    "$DROVER" tasks mixed-1 --state s
check_output "a failure comes with the command that shows its log" '^ +drover logs mixed-1/bad/1 --state s$' \
    "$DROVER" status mixed-1 --state s
check_equal "which does" "before the end" "$("$DROVER" logs mixed-1/bad/1 --state s)"
check_output "top --once is for people" '^one +here +0/2 ' "$DROVER" top --once --state s
check_no_output "and without control characters" $'\033' "$DROVER" top --once --state s

# ---- which server -----------------------------------------------------------------------------

DROVER_SERVER=$url DROVER_TOKEN=$admin check_output "the environment names a server" '^one ' "$DROVER" nodes
DROVER_SERVER=http://127.0.0.1:9 DROVER_TOKEN=x check_output "--state goes before it" '^one ' "$DROVER" nodes --state s
DROVER_SERVER=$url/ DROVER_TOKEN=$admin check "a slash at the end does no harm" "$DROVER" nodes
DROVER_SERVER=$url DROVER_TOKEN=drv_wrong check_exit 2 "a wrong token is wrong usage" "$DROVER" nodes
DROVER_SERVER=$url DROVER_TOKEN=drv_wrong check_no_output "and not shown" 'drv_wrong' "$DROVER" nodes
DROVER_SERVER=ftp://x DROVER_TOKEN=x check_exit 2 "what is no URL is wrong usage" "$DROVER" nodes
DROVER_SERVER=http://127.0.0.1:9 DROVER_TOKEN=x check_exit 3 "nobody there: exit 3" "$DROVER" list
check_exit 2 "a folder that is not there" "$DROVER" status --state nowhere

# ---- one task ---------------------------------------------------------------------------------

printf 'experiments:\n  s: {parameters: {x: 0..3}, command: sleep 100, grace: 1s}\n' >slow.yaml
slow=$("$DROVER" submit slow.yaml --no-sync -q --state s)
wait_until 10 state_is "$slow/s/1" running
check_output "one task is cancelled" "^$slow/s/1: 1 task cancelled\$" "$DROVER" cancel "$slow/s/1" --state s
check "it is cancelled, the others run" state_is "$slow/s/1" cancelled
check "as they did" state_is "$slow/s/2" running
check_exit 2 "what is over cannot be cancelled" "$DROVER" cancel "$slow/s/1" --state s
check_output "it is run again" "^$slow/s/1: 1 task to be run again\$" "$DROVER" retry "$slow/s/1" --state s
check "it runs" wait_until 15 state_is "$slow/s/1" running
check_exit 2 "what runs cannot be run again" "$DROVER" retry "$slow/s/2" --state s
check_exit 2 "there is no such task" "$DROVER" cancel "$slow/s/4" --state s
check_exit 2 "nor such an experiment" "$DROVER" cancel "$slow/t/0" --state s
check_exit 2 "nor such a workflow" "$DROVER" cancel nothing-1 --state s
check_equal "cancel --json counts" "{\"id\":\"$slow\",\"tasks\":4}" "$("$DROVER" cancel "$slow" --json --state s)"
check_exit 1 "a cancelled workflow is not a success" timeout 20 "$DROVER" wait "$slow" -q --state s

# ---- earlier attempts -------------------------------------------------------------------------

printf 'experiments: {a: {retries: 2, command: "echo attempt {{attempt}}; exit 1"}}\n' >again.yaml
check_exit 1 "a task fails three times" timeout 60 "$DROVER" submit again.yaml --no-sync --wait --state s
check_equal "its log is of the last attempt" "attempt 3" "$("$DROVER" logs a/0 --state s)"
check_equal "earlier ones can be read, too" "attempt 1" "$("$DROVER" logs a/0 --attempt 1 --state s)"
check_exit 2 "there was no fourth" "$DROVER" logs a/0 --attempt 4 --state s
check_exit 2 "they cannot be followed" "$DROVER" logs a/0 --attempt 1 -f --state s
check_equal "all are searched" "a/0.1:1: attempt 1
a/0.2:1: attempt 2
a/0.3:1: attempt 3" "$("$DROVER" logs --grep attempt --state s)"

# ---- what is left out of the code -------------------------------------------------------------

# A server's own folder below the recipe's: its keys and tokens stay where they are.
printf 'experiments: {a: {command: "find . -type f | sort"}}\n' >here.yaml
check "a recipe beside the state folder is submitted" timeout 60 "$DROVER" submit here.yaml --wait --state s
check_output "its folder is sent" '^\./project/r.yaml$' "$DROVER" logs a/0 --state s
check_no_output "without the server's state and the nodes' folders" '/(s|w1|w2)/' "$DROVER" logs a/0 --state s
check_no_output "and without any secret" 'admin.token|join.url|node.key|server.key' "$DROVER" logs a/0 --state s

# ---- a submission whose answer is lost --------------------------------------------------------

# Between client and server: passes everything on, but hangs up instead of giving the first answer
# to a submission.
cat >proxy.py <<'END'
import socket, sys, threading
host, port = sys.argv[1].rsplit("/", 1)[1].split(":")
door = socket.create_server(("127.0.0.1", 0))
with open("proxy.url", "w") as file:
    file.write(f"http://127.0.0.1:{door.getsockname()[1]}")
dropped = []
def pump(a, b, is_answer, state):
    try:
        while data := a.recv(65536):
            if not is_answer and b"POST /api/v1/workflows?" in data:
                state.append("submit")
            if is_answer and state and not dropped:
                dropped.append(1)
                open("dropped", "w").close()
                break
            b.sendall(data)
    except OSError:
        pass
    for end in (a, b):
        try:
            end.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
while True:
    client, _ = door.accept()
    server = socket.create_connection((host, int(port)))
    state = []
    threading.Thread(target=pump, args=(client, server, False, state), daemon=True).start()
    threading.Thread(target=pump, args=(server, client, True, state), daemon=True).start()
END
background python3 proxy.py "$url"
wait_until 10 test -s proxy.url
before=$("$DROVER" list --json --state s | wc -l)
DROVER_SERVER=$(cat proxy.url) DROVER_TOKEN=$admin check "a submission whose answer is lost is sent again" \
    timeout 60 "$DROVER" submit project/r.yaml --no-sync -q
check "it was lost" test -e dropped
check_equal "and makes one workflow" $((before + 1)) "$("$DROVER" list --json --state s | wc -l)"

# ---- which workflow ---------------------------------------------------------------------------

id=$("$DROVER" submit here.yaml --no-sync -q --name last --state s)
check "wait without a name waits for the newest" timeout 30 "$DROVER" wait -q --state s
check_equal "status means the newest" "$id" "$("$DROVER" status --json --state s | field id)"
check_output "tasks, too" "\"id\":\"$id/a/0\"" "$DROVER" tasks --json --state s
check_output "a number names a workflow" '"id":"mixed-1"' "$DROVER" status 1 --json --state s
check_equal "its number is in its object" 1 "$(field number <status.json)"

# ---- runs and workflows side by side ----------------------------------------------------------

# In the default place both are known; the newest of all is meant, whoever made it.
printf 'name: both\nexperiments: {a: {command: echo both}}\n' >both.yaml
end_default() {
    "$DROVER" down --server --now >/dev/null 2>&1
    t_end
}
trap end_default EXIT
where() { # [W] : the folder that status means
    "$DROVER" status "$@" --json | field state_folder | sed "s|.*/drover/||"
}
check "a run" "$DROVER" run both.yaml --quiet
check_equal "is the newest" runs/both-1 "$(where)"
check "a server is started in the default place" "$DROVER" up --nodes 1 --slots 1
check_equal "the run is still the newest" runs/both-1 "$(where)"
check "a workflow of the same name" timeout 60 "$DROVER" submit both.yaml --no-sync --wait
check_equal "is the newest then" server/workflows/both-1 "$(where)"
check_equal "and is meant by the name" server/workflows/both-1 "$(where both-1)"
check_equal "both are listed" 2 "$("$DROVER" list | grep -c '^both-1 ')"
check "another run" "$DROVER" run both.yaml --quiet
check_equal "is the newest again" runs/both-2 "$(where)"
check "the server is ended" "$DROVER" down --server
check_equal "without it the newest is the same" runs/both-2 "$(where)"
check_equal "and the name means the same" server/workflows/both-1 "$(where both-1)"
