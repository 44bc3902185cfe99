#!/bin/bash
# drover run: order, outputs, retries, timeouts, failures and what follows from them.
. "$(dirname "$0")/lib.sh"
t_start "running a DAG"

said() { # SENTENCE REGEX : what the last check ran printed it
    if grep -qE -e "$2" "$T/harness/out"; then
        t_ok "$1"
    else
        t_not_ok "$1" "nothing matches '$2' in:" "$(t_seen)"
    fi
}

state_of() { # EXPERIMENT/INDEX STATE_FOLDER : state, attempt and reason of a task
    "$DROVER" tasks --state "$2" | awk -v task="$1" '$1 == task { print $2, $3 }'
}

# ---- order and outputs ------------------------------------------------------------------------

cat >dag.yaml <<'END'
experiments:
  last:
    depends_on: [left, right]
    command:
      - echo last >>order
      - cat {{left.output}}/*/part {{right.output}}/*/part {{first.output}}/0/part
      - ls {{left.output}} | wc -l
      - ls {{empty.output}} | wc -l
  left:
    depends_on: first
    parameters: {n: 0..3}
    command: echo left >>order; echo left {{n}} >{{output}}/part
  right:
    depends_on: [first, empty]
    parameters: {n: 0..1}
    outputs: part
    command: echo right >>order; echo right {{n}} >$DROVER_OUTPUT/part; sleep 0.1
  first:
    command: echo first >>order; echo first >{{output}}/part; sleep 0.1
  empty:
    command: "true"
END
check "a DAG runs" "$DROVER" run dag.yaml --state dag
check_equal "the first is first" first "$(head -n 1 order)"
check_equal "the last is last" last "$(tail -n 1 order)"
check_equal "each task ran once" 8 "$(wc -l <order)"
check_equal "outputs reach the tasks that depend on them" \
    "left 0 left 1 left 2 left 3 right 0 right 1 first 4 0" \
    "$("$DROVER" logs last/0 --state dag | tr -s '\n ' ' ' | sed 's/ $//')"
check_output "the summary has a row for each experiment" '^left +4 +4 +0 +0 +4 ' \
    "$DROVER" status --state dag
check_output "and a last line" '^succeeded: 9 of 9 tasks.*state and logs in /' \
    "$DROVER" status --state dag
check "running it again has nothing left to do" "$DROVER" run dag.yaml --state dag
check_equal "and does nothing" 8 "$(wc -l <order)"

cat >missing.yaml <<'END'
experiments:
  a: {outputs: [there, "not there"], command: "touch {{output}}/there"}
  b: {parameters: {x: ../outside}, outputs: "{{x}}", command: "touch {{output}}/../outside"}
END
check_exit 1 "an output that is not there is a failure" "$DROVER" run missing.yaml --state missing
said "which names it" '^a/0: an output is missing.*not there'
check_equal "an output outside the folder is a failure too" "failed 1" "$(state_of b/0 missing)"

cat >fresh.yaml <<'END'
experiments:
  a:
    parameters: {n: 1..4}
    retries: 2
    backoff: 10ms
    command:
      - ls -A {{output}} | wc -l
      - touch {{output}}/attempt-{{attempt}}
      - test {{attempt}} -gt 1
END
check "outputs of failed attempts do not stay" "$DROVER" run fresh.yaml --state fresh --slots 2
check_equal "every attempt begins with an empty folder" "0" \
    "$(sort -u fresh/logs/a/0/*.log)"
check_equal "and only the accepted one is kept" "attempt-2" \
    "$(find -L fresh/outputs/a -type f -printf '%f\n' | sort -u)"

# ---- retries and back-off ---------------------------------------------------------------------

cat >retry.yaml <<'END'
experiments:
  a: {retries: 3, backoff: 200ms, command: "date +%s%N >>tries; test {{attempt}} -ge 4"}
  b: {retries: 2, backoff: 1ms, command: "echo attempt {{attempt}}; exit 7"}
  c:
    checkpoint: true
    retries: 5
    backoff: 1ms
    command: echo x >>{{checkpoint}}/n; test $(wc -l <$DROVER_CHECKPOINT/n) -ge 3
END
check_exit 1 "retries are bounded" "$DROVER" run retry.yaml --state retry
check_equal "a task is tried until it succeeds" "succeeded 4" "$(state_of a/0 retry)"
check_equal "and no longer than its retries" "failed 3" "$(state_of b/0 retry)"
check_equal "a checkpoint survives attempts" "succeeded 3" "$(state_of c/0 retry)"
check_equal "the pause between attempts grows" ok "$(awk '
    NR > 1 { gap[NR] = ($1 - last) / 1e6 } { last = $1 }
    END {
        grows = gap[2] >= 95 && gap[3] >= 190 && gap[4] >= 380 && gap[4] < 3000
        print (grows ? "ok" : gap[2] " " gap[3] " " gap[4])
    }' tries)"
check_equal "each attempt has its own log" "0.1.log 0.2.log 0.3.log" \
    "$(find retry/logs/b -type f -printf '%f\n' | sort | paste -sd ' ')"

# ---- timeouts ---------------------------------------------------------------------------------

cat >timeout.yaml <<'END'
experiments:
  polite:
    timeout: 300ms
    grace: 20s
    command: trap 'echo got TERM; exit 5' TERM; sleep 30 & wait
  rude: {timeout: 300ms, grace: 300ms, command: "trap '' TERM; while :; do sleep 0.1; done"}
  quick: {timeout: 30s, command: "true"}
END
start=$(date +%s%N)
check_exit 1 "tasks that take too long fail" "$DROVER" run timeout.yaml --state timeout --slots 3
took_ms=$((($(date +%s%N) - start) / 1000000))
check_equal "and do not keep us waiting (took $took_ms ms)" 1 \
    "$((took_ms >= 600 && took_ms < 5000))"
check_equal "TERM comes first" "got TERM" "$("$DROVER" logs polite/0 --state timeout)"
check_output "and both are called timed out" 'failed: rude/0, timed out' \
    "$DROVER" status --state timeout
check_output "whatever the exit code" 'failed: polite/0, timed out' "$DROVER" status --state timeout

# ---- ends told apart --------------------------------------------------------------------------

cat >ends.yaml <<'END'
experiments:
  code: {command: "exit 42"}
  signal: {command: "kill -SEGV $$"}
  missing: {exec: [/no/such/program]}
  path: {exec: [no-such-program]}
  place: {workdir: /no/such/folder, command: "true"}
  stops: {command: ["false", "echo not reached"]}
  pipe: {command: "echo x | false"}
END
check_exit 1 "failures exit with 1" "$DROVER" run ends.yaml --state ends
for line in 'code/0: exit 42' 'signal/0: killed by SEGV \(signal 11\)' \
    'missing/0: could not start: .*/no/such/program.*No such file' \
    'path/0: could not start: no-such-program: no such program in PATH' \
    'place/0: could not start: .*/no/such/folder' 'stops/0: exit 1' 'pipe/0: exit 1'; do
    said "told apart: $line" "^$line"
done
check_equal "a list of commands stops at the first that fails" "" \
    "$("$DROVER" logs stops/0 --state ends)"
check_exit 1 "a workflow that failed stays failed when run again" \
    "$DROVER" run ends.yaml --state ends

# ---- what follows from failures ---------------------------------------------------------------

cat >follow.yaml <<'END'
experiments:
  bad: {command: "exit 1"}
  after_bad: {depends_on: bad, command: "touch after_bad"}
  after_after: {depends_on: after_bad, command: "touch after_after"}
  forgiven:
    allow_failure: true
    parameters: {n: 0..3}
    command: echo {{n}} >{{output}}/n; test {{n}} -ne 2
  after_forgiven: {depends_on: forgiven, command: "cat {{forgiven.output}}/*/n | paste -sd ' '"}
END
check_exit 1 "a failure is the workflow's" "$DROVER" run follow.yaml --state follow
check_equal "what depends on it is skipped" "skipped 0" "$(state_of after_bad/0 follow)"
check_equal "and what depends on that" "skipped 0" "$(state_of after_after/0 follow)"
check_equal "and does not run" "" "$(find . -maxdepth 1 -name 'after_*')"
check_equal "allow_failure lets others go on" "succeeded 1" "$(state_of after_forgiven/0 follow)"
check_equal "with the outputs that there are" "0 1 3" \
    "$("$DROVER" logs after_forgiven/0 --state follow)"
check "forgiven failures alone are no failure" "$DROVER" run follow.yaml --state forgiven \
    --set bad.command=true

cat >hopeless.yaml <<'END'
experiments:
  a: {parameters: {n: 1..500}, max_failures: 5, command: "echo x >>hopeless; sleep 0.02; exit 1"}
  b: {depends_on: a, command: "touch after_hopeless"}
  c: {parameters: {n: 1..20}, command: "sleep 0.02"}
END
check_exit 1 "a hopeless experiment fails" \
    "$DROVER" run hopeless.yaml --state hopeless-state --slots 2
check_equal "soon after max_failures" 1 "$(awk 'END { print (NR >= 5 && NR <= 8) }' hopeless)"
check_output "the rest of it is not run" '^a +500 +0 +[5-8] +49[0-9] ' \
    "$DROVER" status --state hopeless-state
check_output "others go on" '^c +20 +20 ' "$DROVER" status --state hopeless-state

# ---- concurrency ------------------------------------------------------------------------------

# Each task counts how many are running at once: markers in a folder.
cat >caps.yaml <<'END'
experiments:
  capped:
    workers: 2
    parameters: {n: 1..12}
    command: touch marks/{{n}}; ls marks | wc -l >>capped; sleep 0.1; rm marks/{{n}}
END
mkdir marks
check "workers caps" "$DROVER" run caps.yaml --state caps --slots 6
check_equal "never more than two at once, and two" "2" "$(sort -n capped | tail -n 1)"
rm capped
check "--slots caps too" "$DROVER" run caps.yaml --state slots --slots 3 --set capped.workers=100
check_equal "never more than three at once, and three" "3" "$(sort -n capped | tail -n 1)"
cat >halves.yaml <<'END'
experiments:
  halves:
    hardware: {cpu: 0.5}
    parameters: {n: 1..12}
    command: touch marks/{{n}}; ls marks | wc -l >>halves; sleep 0.1; rm marks/{{n}}
  whole:
    depends_on: halves
    hardware: {cpu: 2}
    parameters: {n: 1..3}
    command: touch marks/{{n}}; ls marks | wc -l >>whole; sleep 0.1; rm marks/{{n}}
END
check "cpu shares are respected" "$DROVER" run halves.yaml --state halves-state --slots 2
check_equal "four halves on two slots" "4" "$(sort -n halves | tail -n 1)"
check_equal "one pair on two slots" "1" "$(sort -n whole | tail -n 1)"
