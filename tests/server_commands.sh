#!/bin/bash
# The commands against a server: up, nodes, submit, wait, list, status, tasks, logs, cancel, retry,
# exec, map, token, down; and what they say when there is none.
. "$(dirname "$0")/lib.sh"
t_start "commands against a server"
unset DROVER_SERVER DROVER_TOKEN

end_cluster() {
    "$DROVER" down --server --now --state "$T/work/s" >/dev/null 2>&1
    t_end
}

# ---- without a server -------------------------------------------------------------------------

printf 'experiments:\n  a: {parameters: {x: 0..9}, command: "echo hello {{x}}; test {{x}} -ne 3"}\n' >r.yaml
for command in "submit r.yaml" "wait" "cancel a-1" "retry a-1" "nodes" "token list" \
    "exec -- true" "map echo r.yaml"; do
    # shellcheck disable=SC2086 # the words are meant to be split
    check_exit 3 "$command without a server is unreachable" "$DROVER" $command
done
check_output "and what to do is said" 'drover serve --state DIR or drover up' "$DROVER" nodes
DROVER_SERVER=http://127.0.0.1:9 check_exit 2 "a server without a token is wrong usage" "$DROVER" nodes
DROVER_SERVER=http://127.0.0.1:9 DROVER_TOKEN=x check_exit 3 "nobody at that address" "$DROVER" nodes
for command in submit wait cancel retry nodes token exec map up down clusters; do
    check_output "$command --help shows its usage" "^usage: drover $command" "$DROVER" $command --help
    check_exit 2 "$command refuses an unknown option" "$DROVER" $command --frobnicate
done

# ---- up ---------------------------------------------------------------------------------------

trap end_cluster EXIT
check "up starts a server and two nodes" "$DROVER" up --state s --nodes 2 --slots 2 --label zone=a
check_output "both are here" '^local-2 +here +2 +0 ' "$DROVER" nodes --state s
check_output "clusters lists them" "^local +http://127.0.0.1:[0-9]+ +2 nodes +$T/work/s\$" "$DROVER" clusters
check_equal "secrets are for their owner alone" "600 600" \
    "$(stat -c %a s/admin.token s/join.url | paste -sd ' ')"
check_equal "no secret is on a command line" "" \
    "$(grep -lzF -e "$(cat s/admin.token)" -e "$(sed 's/.*secret=//' s/join.url)" /proc/[0-9]*/cmdline 2>/dev/null)"

# ---- submit, wait, looking --------------------------------------------------------------------

check_output "submit names the workflow" '^r-1: 1 experiment, 10 tasks$' "$DROVER" submit r.yaml --no-sync --state s
check_exit 1 "wait fails as the workflow did" "$DROVER" wait r-1 --state s
check_output "its summary names the failure" '^failed: a/3, exit 1 after 1 attempt' "$DROVER" status r-1 --state s
check_equal "tasks has a line for each" 11 "$("$DROVER" tasks r-1 --state s | wc -l)"
check_equal "and an object" 10 "$("$DROVER" tasks r-1 --json --state s | grep -c '"id":"r-1/a/')"
check_output "the failed one is found" '^a/3 +failed ' "$DROVER" tasks --failed --state s
check_equal "its log is there" "hello 3" "$("$DROVER" logs r-1/a/3 --state s)"
check_equal "and can be followed to its end" "hello 4" "$(timeout 10 "$DROVER" logs -f r-1/a/4 --state s)"
check_equal "logs are searched" "a/7.1:1: hello 7" "$("$DROVER" logs r-1 --grep 'lo 7' --state s)"
check_exit 1 "what is nowhere is not found" "$DROVER" logs r-1 --grep nowhere --state s
check_output "list shows it" '^r-1 +failed +9 of 10 ' "$DROVER" list --state s
check_exit 2 "an unknown workflow is wrong usage" "$DROVER" status nope-1 --state s
printf 'experiments:\n  a: {comand: x}\n' >wrong.yaml
check_exit 2 "a wrong recipe is refused" "$DROVER" submit wrong.yaml --no-sync --state s
check_output "as check does" "^wrong.yaml:2:[0-9]+: unknown key 'comand'" "$DROVER" submit wrong.yaml --no-sync --state s
check_equal "the same key gives the same workflow" "r-2 r-2" \
    "$("$DROVER" submit r.yaml --key k1 -q --no-sync --state s) $("$DROVER" submit r.yaml --key k1 -q --no-sync --state s)"
check_output "retry runs again what failed" '^r-1: 1 task to be run again$' "$DROVER" retry r-1 --state s

printf 'experiments:\n  s: {parameters: {x: 0..9}, command: "sleep 100"}\n' >slow.yaml
slow=$("$DROVER" submit slow.yaml -q --no-sync --state s)
check_exit 1 "wait gives up when its time is over" timeout 20 "$DROVER" wait "$slow" --timeout 1s --state s
check_output "cancel ends it" "^$slow: 10 tasks cancelled\$" "$DROVER" cancel "$slow" --state s
check_exit 1 "and it has ended" timeout 20 "$DROVER" wait "$slow" --quiet --state s

# ---- the folder goes along --------------------------------------------------------------------

mkdir project
printf 'echo version 1\n' >project/run.sh
printf 'experiments:\n  a: {command: sh run.sh}\n' >project/p.yaml
check "a recipe runs in a copy of its folder" timeout 60 "$DROVER" submit project/p.yaml --wait --state s
check_equal "with its files" "version 1" "$("$DROVER" logs a/0 --state s)"
printf 'echo version 2\n' >project/run.sh
check "and again when they changed" timeout 60 "$DROVER" submit project/p.yaml --wait --state s
check_equal "with the new ones" "version 2" "$("$DROVER" logs a/0 --state s)"

# ---- exec and map -----------------------------------------------------------------------------

check_equal "exec runs everywhere, in order" "== local-1
exec-1/local-1/0
== local-2
exec-1/local-2/0" "$("$DROVER" exec --state s -- sh -c 'echo $DROVER_TASK')"
check_exit 1 "a command that fails is a failure" "$DROVER" exec --state s --on local-1 -- false
check_output "and shown as one" '^== local-1: exit 1$' "$DROVER" exec --state s --on local-1 -- false
check_equal "a label selects" 2 "$("$DROVER" exec --state s --on zone=a --json -- true | grep -c '"exit_code":0')"
check_exit 1 "a selector that names nobody fails" "$DROVER" exec --state s --on zone=b -- true
check_exit 1 "a command that takes too long is ended" timeout 30 "$DROVER" exec --state s --timeout 1s -- sleep 100
check_equal "map keeps the order of a thousand inputs" "$(seq 2 1001 | md5sum)" \
    "$(seq 1000 | timeout 60 "$DROVER" map 'expr {} + 1' - --state s | md5sum)"
printf '%s\n' 'a b' "it's" 'a b' '$(reboot)' '' 'a b' >inputs
check_equal "inputs arrive as they are, repeats too" "[a b]
[it's]
[a b]
[\$(reboot)]
[a b]" "$("$DROVER" map 'printf "[%s]\n" {}' inputs --state s)"
check_exit 1 "an input that fails is a failure" "$DROVER" map false inputs --state s
check_equal "and is an object like any other" 5 "$("$DROVER" map false inputs --json --state s 2>/dev/null | grep -c '"exit_code":1')"

# ---- tokens -----------------------------------------------------------------------------------

token=$("$DROVER" token create bob --role reader --state s 2>/dev/null)
url=$(cat s/api.url)
DROVER_SERVER=$url DROVER_TOKEN=$token check "a reader may look" "$DROVER" status r-1
DROVER_SERVER=$url DROVER_TOKEN=$token check_exit 2 "but not submit" "$DROVER" submit r.yaml --no-sync
check "a token is removed" "$DROVER" token rm bob --state s
DROVER_SERVER=$url DROVER_TOKEN=$token check_exit 2 "and worth nothing then" "$DROVER" status r-1

# ---- nodes come and go ------------------------------------------------------------------------

check_output "a node is drained" '^local-1: draining' "$DROVER" nodes drain local-1 --state s
check_output "and shown so" '^local-1 +draining ' "$DROVER" nodes --state s
check_output "and takes work again" 'takes work again' "$DROVER" nodes drain local-1 --off --state s
check_output "a third node" '1 node joined' "$DROVER" up --state s --name extra --slots 1
check_equal "takes part" "== extra-1" "$("$DROVER" exec --state s --on extra-1 -- true)"
check_output "and is ended" '^1 node ended' "$DROVER" down extra-1 --state s
check_exit 2 "what up did not start is not ended" "$DROVER" down nobody --state s

# ---- down, and looking without a server -------------------------------------------------------

check_output "down ends all" '^2 nodes ended, and the server$' "$DROVER" down --server --state s
check_equal "nothing is left running" "" "$(grep -lzF "$T/work/s" /proc/[0-9]*/cmdline 2>/dev/null)"
check_equal "no cluster is left" "" "$("$DROVER" clusters)"
check_output "what was done can still be read" '^r-1 +(succeeded|failed) ' "$DROVER" list --state s
check_equal "a log, too" "hello 4" "$("$DROVER" logs r-1/a/4 --state s)"
check_equal "and searched" "a/7.1:1: hello 7" "$("$DROVER" logs r-1 --grep 'lo 7' --state s)"
check_equal "with the same objects" 10 "$("$DROVER" tasks r-1 --json --state s | grep -c '"id":"r-1/a/')"
check_exit 3 "but nothing can be submitted" "$DROVER" submit r.yaml --no-sync --state s
