#!/bin/bash
# Nothing that a task starts outlives it, however it hides, nor outlives a drover that is killed.
. "$(dirname "$0")/lib.sh"
t_start "orphans"

# Each run has a mark of its own in the environment of everything it starts.
alive() { # MARK : processes that have it
    local file
    for file in /proc/[0-9]*/environ; do
        if tr '\0' '\n' <"$file" 2>/dev/null | grep -qx "ORPHAN_MARK=$1"; then
            basename "$(dirname "$file")"
        fi
    done 2>/dev/null
}

none_alive() { # MARK
    [ -z "$(alive "$1")" ]
}

cat >hide.sh <<'END'
# usage: hide.sh FILE - starts processes that hide in every way sh knows, then writes FILE
sleep 301 &
(sleep 302 &)
setsid sleep 303 >/dev/null 2>&1 </dev/null &
setsid sh -c 'trap "" TERM INT HUP; (setsid sleep 304 &) ; sleep 305' &
nohup sh -c 'trap "" TERM; while :; do sleep 306 & wait; done' >/dev/null 2>&1 &
(
    cd / || exit 1
    exec >/dev/null 2>&1 </dev/null
    setsid sh -c 'setsid sh -c "sleep 307 & sleep 308" & exit 0' &
)
# one that keeps making children and leaving
setsid sh -c 'n=0; while [ $n -lt 2000 ]; do n=$((n + 1)); (sleep 309 & ) ; sleep 0.05; done' &
sleep 0.3
echo ready >"$1"
END
mark=$(basename "$T")-$$

recipe() { # NAME REST_OF_COMMAND
    cat >"$1.yaml" <<END
experiments:
  a:
    env: {ORPHAN_MARK: "$mark-$1"}
    timeout: 60s
    grace: 200ms
    command:
      - sh hide.sh $1.ready
      - $2
END
}

recipe good "true"
check "a task that leaves daemons behind succeeds" "$DROVER" run good.yaml --state good
check_equal "and they are gone when the run is over" "" "$(alive "$mark-good")"

recipe bad "exit 3"
check_exit 1 "a task that fails and leaves daemons" "$DROVER" run bad.yaml --state bad
check_equal "leaves none either" "" "$(alive "$mark-bad")"

recipe late "sleep 60"
check_exit 1 "a task that times out" "$DROVER" run late.yaml --state late --set a.timeout=1s
check_equal "leaves none" "" "$(alive "$mark-late")"

# The next task of the same slot must not have to wait for them, nor see them.
cat >next.yaml <<END
experiments:
  a: {env: {ORPHAN_MARK: "$mark-next"}, parameters: {n: 1..4}, command: "sh hide.sh next.{{n}}"}
  b:
    depends_on: a
    command: cat /proc/[0-9]*/environ 2>/dev/null | grep -ac ORPHAN_MARK=$mark-next || true
END
check "what comes after sees none of them" "$DROVER" run next.yaml --state next --slots 1
check_equal "none at all" 0 "$("$DROVER" logs b/0 --state next)"

for signal in KILL TERM; do
    recipe "$signal" "sleep 60"
    background "$DROVER" run "$signal.yaml" --state "$signal"
    wait_until 10 test -s "$signal.ready"
    count=$(alive "$mark-$signal" | wc -l)
    check_equal "a task has many processes ($count)" 1 "$((count > 8))"
    kill "-$signal" "$t_pid"
    wait_for "$t_pid" 2>/dev/null
    check "$signal of drover leaves none of them within 2 s" wait_until 2 none_alive "$mark-$signal"
done

# Two tasks, and only one of them ends: the other's processes stay.
cat >two.yaml <<END
experiments:
  ends: {env: {ORPHAN_MARK: "$mark-ends"}, command: "sh hide.sh ends.ready"}
  stays:
    env: {ORPHAN_MARK: "$mark-stays"}
    command: ["setsid sleep 310 & ", "while [ ! -e go ]; do sleep 0.05; done"]
END
background "$DROVER" run two.yaml --state two --slots 2
wait_until 10 sh -c "'$DROVER' tasks --state two | grep -q 'ends/0 .*succeeded'"
check_equal "the end of one task ends its own processes" "" "$(alive "$mark-ends")"
check_equal "and not those of another" 1 "$(($(alive "$mark-stays" | wc -l) >= 2))"
touch go
wait_for "$t_pid"
check_equal "until that one ends" "" "$(alive "$mark-stays")"
