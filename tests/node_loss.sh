#!/bin/bash
# One of two nodes is killed in the middle of the work: nothing is lost, nothing finished is repeated.
. "$(dirname "$0")/lib.sh"
t_start "the loss of a node"

mkdir marks
cat >work.yaml <<END
experiments:
  work:
    parameters: { i: { values: 0..199 } }
    command:
      - date +%s.%N >>$PWD/marks/{{i}}.began
      - sleep 0.05
      - echo "result {{i}}"
END

start_node() { # NAME OPTIONS... : t_pid is its process
    background "$DROVER" node --join @state/join.url --work "$1.work" --name "$1" --slots 2 --quiet "${@:2}"
}

here() { # COUNT : so many nodes are here
    [ "$("$DROVER" nodes --state state --json | grep -c '"state":"here"')" = "$1" ]
}

begun() { # COUNT : so many tasks have begun
    [ "$(find marks -name '*.began' | wc -l)" -ge "$1" ]
}

# The numbers of the tasks, one object a line in FILE, that match the expression.
numbers() { # FILE EXPRESSION
    grep -E -e "$2" "$1" | sed -E 's/.*"id":"[^"]*\/([0-9]+)".*/\1/'
}

background "$DROVER" serve --state state --quiet
server=$t_pid
check "a server starts" wait_until 10 test -s state/api.url
start_node survivor
survivor=$t_pid
# This one sends what it has instead of writing it where the server is.
start_node victim --no-share
victim=$t_pid
check "two nodes join it" wait_until 10 here 2

id=$("$DROVER" submit work.yaml --state state --no-sync --quiet)
wait_until 30 begun 100
"$DROVER" tasks "$id" --state state --json >before
killed=$EPOCHREALTIME
{
    kill -KILL "$victim"
    wait_for "$victim"
} 2>/dev/null # bash says that it was killed
check "the work is done although one of them is killed" "$DROVER" wait "$id" --state state --timeout 60s --quiet
"$DROVER" tasks "$id" --state state --json >after

check_equal "all 200 tasks are accepted" 200 "$(numbers after '"state":"succeeded"' | sort -u | wc -l)"
finished=$(numbers before '"state":"succeeded"')
check_equal "many were finished before ($(wc -w <<<"$finished"))" 1 "$(($(wc -w <<<"$finished") >= 50))"
again=$(for i in $finished; do [ "$(wc -l <"marks/$i.began")" = 1 ] || echo "$i"; done)
check_equal "none of those was run again" "" "$again"
twice=$(find marks -name '*.began' -exec awk 'END { if (NR > 1) print FILENAME }' {} \; | wc -l)
check_equal "only what the dead node was running was begun twice ($twice)" 1 "$((twice >= 1 && twice <= 2))"

slowest=0
lost=$(numbers after '"attempt":([2-9]|[1-9][0-9])')
for i in $lost; do
    slowest=$(tail -n 1 "marks/$i.began" | awk -v k="$killed" -v s="$slowest" '{ t = $1 - k; print (t > s ? t : s) }')
done
check_equal "the $(wc -w <<<"$lost") lost ones began again within 5 s of the kill ($slowest)" 1 \
    "$(awk -v s="$slowest" 'BEGIN { print (s > 0 && s <= 5) }')"

there=$(numbers after '"node":"victim"')
check_equal "tasks ran on the dead node ($(wc -w <<<"$there"))" 1 "$(($(wc -w <<<"$there") >= 20))"
wrong=$(for i in $there $lost; do
    [ "$("$DROVER" logs "$id/work/$i" --state state)" = "result $i" ] || echo "$i"
done)
check_equal "their logs and those of the lost ones are all here" "" "$wrong"

kill "$survivor"
wait_for "$survivor"
check_equal "the other node ends when told" 0 "$t_status"
kill "$server"
wait_for "$server"
check_equal "and so does the server" 0 "$t_status"
