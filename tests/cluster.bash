# shellcheck shell=bash
# tests/cluster.bash - a server and nodes for the end-to-end tests. A test sources it after lib.sh:
#
#     . "$(dirname "$0")/cluster.bash"
#     serve                            # a server in $T/work/s; $server is its process, server.said
#                                      # what it prints
#     node a --slots 1                 # a node called a, with its work in $T/work/a.work
#     node b --slots 1 --no-share      # ${pid_of[b]} is its process
#     submit r.yaml                    # $id is the workflow
#     check "it is done" finished "$id"
#
# Time is short here: a lease of LEASE_MS. Nodes and server are ended by tests/lib.sh, or with stop.

LEASE_MS=${LEASE_MS:-1500}
STATE=s
server=
id=
declare -A pid_of
wrapper=() # put before the command of a node: ip netns exec ...
unset DROVER_SERVER DROVER_TOKEN

drover() { # COMMAND ARGUMENTS...
    "$DROVER" "$1" --state "$STATE" "${@:2}"
}

# shellcheck disable=SC2120 # options are seldom needed
serve() { # OPTIONS...
    "$DROVER" serve --state "$STATE" --listen 127.0.0.1:0 --lease "$LEASE_MS" "$@" </dev/null >>server.said 2>&1 &
    server=$!
    t_pids+=("$server")
    wait_until 20 drover nodes
}

node() { # NAME OPTIONS...
    local name=$1
    shift
    "${wrapper[@]+"${wrapper[@]}"}" "$DROVER" node --join "@$STATE/join.url" --name "$name" --work "$name.work" "$@" \
        </dev/null >>"$name.said" 2>&1 &
    t_pid=$!
    t_pids+=("$t_pid")
    pid_of[$name]=$t_pid
}

# The state of a node as the server has it.
state_of() { # NODE
    drover nodes --all --json | grep -F "\"name\":\"$1\"" | tail -n 1 | sed 's/.*"state":"\([a-z]*\)".*/\1/'
}

is_in_state() { # NODE STATE...
    local name=$1 now
    now=$(state_of "$name")
    shift
    [[ " $* " == *" $now "* ]]
}

are_here() { # NODE...
    local name
    for name in "$@"; do
        is_in_state "$name" here || return 1
    done
}

submit() { # RECIPE OPTIONS...
    id=$("$DROVER" submit "$1" --no-sync --quiet --state "$STATE" "${@:2}")
}

finished() { # WORKFLOW [SECONDS] : it has succeeded
    "$DROVER" wait "$1" --state "$STATE" --timeout "${2:-30}s" --quiet
}

# One field of one task, as drover tasks --json has it.
task_is() { # TASK FIELD : TASK is EXPERIMENT/INDEX of $id
    drover tasks "$id" --json | grep -F "\"id\":\"$id/$1\"" |
        sed -n 's/.*"'"$2"'":"\{0,1\}\([^",}]*\).*/\1/p'
}

task_has() { # TASK FIELD VALUE
    [ "$(task_is "$1" "$2")" = "$3" ]
}

# Counts the lines of a file that may not be there.
lines_of() { # FILE
    if [ -e "$1" ]; then wc -l <"$1"; else echo 0; fi
}

has_lines() { # FILE COUNT
    [ "$(lines_of "$1")" -ge "$2" ]
}

# Ends a process at once, as a power cut would; bash says nothing about it.
kill_hard() { # PID
    {
        kill -KILL "$1"
        wait "$1"
    } 2>/dev/null
    true
}

# Ends nodes and server politely, and says so if one does not end well.
# shellcheck disable=SC2154 # wait_for sets t_status
stop_all() {
    local name status=0 began
    began=$(now_ms)
    for name in "${!pid_of[@]}"; do
        t_is_child "${pid_of[$name]}" && kill "${pid_of[$name]}" 2>/dev/null
    done
    for name in "${!pid_of[@]}"; do
        if t_is_child "${pid_of[$name]}"; then
            wait_for "${pid_of[$name]}"
            [ "$t_status" -eq 0 ] || status="node $name: $t_status"
        fi
    done
    if t_is_child "$server"; then
        kill "$server"
        wait_for "$server"
        [ "$t_status" -eq 0 ] || status="server: $t_status"
    fi
    check_equal "nodes and server end when told" 0 "$status"
    check_equal "and at once, since nothing is left to do" 1 "$(($(now_ms) - began < 15000))"
}

# Milliseconds of the clock that does not jump.
now_ms() {
    local up
    read -r up _ </proc/uptime
    echo $((10 * ${up/./}))
}
