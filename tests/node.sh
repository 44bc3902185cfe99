#!/bin/bash
# drover node by hand: joining, what it prints, where it works, and how it leaves.
. "$(dirname "$0")/lib.sh"
t_start "a node"

cat >sweep.yaml <<'YAML'
experiments:
  a:
    command: "echo hello {{i}}; echo {{i}} >$DROVER_OUTPUT/number"
    parameters: { i: { values: 0..9 } }
  b:
    depends_on: [a]
    command: "cat {{a.output}}/*/number | sort -n | tr '\\n' ' '; head -c 100000 /dev/zero | tr '\\0' x"
YAML

check_exit 2 "a node without a master is told so" "$DROVER" node
check_exit 2 "a file that is not there is told" "$DROVER" node --join @nowhere
check_exit 2 "what is no URL is told" "$DROVER" node --join http://example.org
check_exit 2 "a name that no folder can have is refused" "$DROVER" node --join @nowhere --name a/b

background "$DROVER" serve --state srv --quiet
server=$t_pid
check "the server says how to join" wait_until 10 test -s srv/join.url

# As from another machine, though it is this one; the URL itself on the command line.
"$DROVER" node --join "$(cat srv/join.url)" --work far --name far --no-share --slots 2 >far.out 2>&1 &
far=$!
t_pids+=("$far")
check "it says that it has joined" wait_until 10 grep -q '^joined far at .*: 2 slots, ' far.out
check_equal "the secret is not on its command line" 0 \
    "$(tr '\0' '\n' <"/proc/$far/cmdline" | grep -c secret=)"
check_output "two nodes cannot work in one folder" 'another node works here' \
    "$DROVER" node --join @srv/join.url --work far

check "a workflow runs there" "$DROVER" submit sweep.yaml --state srv --wait --quiet
check_equal "a small log came with its end" "hello 3" "$("$DROVER" logs a/3 --state srv)"
check_equal "inputs went there, and a large log came back" "0 1 2 3 4 5 6 7 8 9 " \
    "$("$DROVER" logs b/0 --state srv | tr -d x)"
check_equal "the large log is whole" 100020 "$("$DROVER" logs b/0 --state srv | wc -c)"
check_equal "outputs are on the server" 7 "$(cat srv/workflows/*/outputs/a/7/number)"

{ kill -9 "$server" && wait "$server"; } 2>/dev/null
check "it says that the connection is lost" wait_until 15 grep -q '^no connection to ' far.out
background "$DROVER" serve --state srv --quiet
server=$t_pid
check "and that it is back" wait_until 20 grep -q '^back as far at ' far.out

kill -TERM "$far"
wait "$far"
check_equal "TERM ends it with exit 0" 0 $?
check_equal "what it worked with is gone" "" "$(cd far && find . -path ./code -prune -o -type f -print |
    grep -v -e lock -e node.key)"
kill -TERM "$server"
wait "$server"
check_equal "and the server too" 0 $?
