#!/bin/bash
# drover plan: rows, JSON, seeds, grids, minimal repetition, and memory that stays flat.
. "$(dirname "$0")/lib.sh"
t_start "plan"

cat >small.yaml <<'END'
experiments:
  second:
    depends_on: first
    parameters: {name: ["plain", "two words", "it's"]}
    exec: [prog, "{{name}}", "--in={{first.output}}"]
  first:
    parameters: {x: 1..2, y: [a, b]}
    command: echo {{x}} {{y}}
END
check_output "rows have experiment, task, parameters and command" \
    $'^first\t2\t\\{"x":2,"y":"a"\\}\techo 2 a$' "$DROVER" plan small.yaml
check_equal "in the order they may run" "first first first first second second second" \
    "$(cut -f 1 "$T/harness/out" | tr '\n' ' ' | sed 's/ $//')"
check_equal "the last parameter varies fastest" '1 a,1 b,2 a,2 b' \
    "$("$DROVER" plan small.yaml -e first | cut -f 4 | sed 's/echo //' | paste -sd ,)"
check_equal "--limit prints the first of each" 2 "$("$DROVER" plan small.yaml --limit 1 | wc -l)"
check_exit 2 "an unknown --experiment is refused" "$DROVER" plan small.yaml --experiment third
check_equal "a reader that goes away early is no error" 1 \
    "$("$DROVER" plan small.yaml --set first.parameters.x=0..99999 2>err | head -n 1 | wc -l)"
check_equal "and nothing is said about it" "" "$(cat err)"

if command -v python3 >/dev/null; then
    "$DROVER" plan small.yaml --json >rows
    check_equal "--json rows are objects with the promised keys" "7 ok" "$(python3 -c '
import json
rows = [json.loads(line) for line in open("rows")]
for row in rows:
    assert list(row) == ["experiment", "task", "params", "command"], row
    assert isinstance(row["task"], int) and isinstance(row["params"], dict)
    assert all(isinstance(word, str) for word in row["command"])
second = [row for row in rows if row["experiment"] == "second"]
assert [row["command"][1] for row in second] == ["plain", "two words", "it\x27s"]
assert [row["params"]["name"] for row in second] == ["plain", "two words", "it\x27s"]
print(len(rows), "ok")' 2>&1)"
else
    skip "--json: no python3 to read it with"
fi

# ---- seeds ------------------------------------------------------------------------------------

cat >drawn.yaml <<'END'
seed: 11
experiments:
  a:
    parameters:
      lr: {range: 1e-5..1e-1, sampling: log}
      width: {range: 0.1-0.3}
      n: {range: 1..100, sampling: integer}
      bell: {range: -1..1, sampling: normal}
      kind: [x, y, z]
    samples: 500
    command: echo {{lr}} {{width}} {{n}} {{bell}} {{kind}}
END
"$DROVER" plan drawn.yaml >one
"$DROVER" plan drawn.yaml >two
check "the same seed gives the same plan" cmp one two
"$DROVER" plan drawn.yaml --seed 12 >three
check_equal "another seed gives another plan" differs "$(cmp -s one three || echo differs)"
# What every machine must print for this seed; a change here would change every recorded run.
check_equal "the plan of a seed is the same on every machine" \
    '{"lr":0.0004554407990808962,"width":0.17186044537545933,"n":10,"bell":0.2907927183962339,"kind":"z"}' \
    "$(cut -f 3 one | head -n 1)"
check_equal "draws stay in their ranges" 500 "$(cut -f 4 one | awk '
    { ok += $2 >= 1e-5 && $2 <= 0.1 && $3 >= 0.1 && $3 <= 0.3 && $4 >= 1 && $4 <= 100 &&
            $4 == int($4) && $5 >= -1 && $5 <= 1 }
    END { print ok }')"
check_equal "half of the logarithmic draws lie below the geometric middle" 1 \
    "$(cut -f 4 one | awk '$2 < 1e-3 { n++ } END { print (n > 200 && n < 300) }')"
sed 1d drawn.yaml >unseeded.yaml
check_output "without a seed one is drawn, and told" 'seed [0-9]+, drawn' \
    "$DROVER" plan unseeded.yaml
seed=$(sed -n 's/.*seed \([0-9]*\),.*/\1/p' "$T/harness/out")
grep -v '^drover: seed' "$T/harness/out" >one
"$DROVER" plan unseeded.yaml --seed "$seed" >two
check "and with it the same plan comes again" cmp one two

# ---- grids ------------------------------------------------------------------------------------

{
    echo 'experiments: {a: {command: "true", parameters: {'
    for p in a b c d e f g h i j k l; do
        echo "p$p: [0, 1],"
    done
    echo '}}}'
} >grid.yaml
check_equal "twelve binary parameters make 4,096 tasks, each once" "4096 4096" \
    "$("$DROVER" plan grid.yaml | cut -f 3 | LC_ALL=C sort | uniq -c |
        awk '{ n++; total += $1 } END { print n, total }')"
start=$(date +%s%N)
"$DROVER" plan grid.yaml >/dev/null
took_ms=$((($(date +%s%N) - start) / 1000000))
check_equal "in well under a second (took $took_ms ms)" 1 "$((took_ms < 1000))"

minimal() { # SAMPLES VALUES_OF_X VALUES_OF_Y
    local n=$1 p=$(($2 * $3))
    cat >minimal.yaml <<END
experiments:
  a: {parameters: {x: 1..$2, y: 1..$3}, samples: $n, command: "true"}
END
    check_equal "$n samples of $p combinations: each $((n / p)) or $(((n + p - 1) / p)) times" ok \
        "$("$DROVER" plan minimal.yaml --seed $((n * 7 + p)) | cut -f 3 | LC_ALL=C sort | uniq -c |
            awk -v n="$n" -v p="$p" '
            $1 < int(n / p) || $1 > int((n + p - 1) / p) { wrong++ }
            { distinct++; total += $1 }
            END { print !wrong && total == n && distinct == (n < p ? n : p) ? "ok" : "wrong" }')"
}
minimal 10 3 5
minimal 15 3 5
minimal 1 10 10
minimal 1000 7 11
minimal 999 2 2
minimal 5000 100 100
minimal 20000 100 100
cat >huge.yaml <<'END'
experiments:
  a:
    parameters: {p: 1..1000000, q: 1..1000000, r: 1..1000000}
    samples: 1000
    command: echo {{p}} {{q}} {{r}}
END
check_equal "a product of 10^18 is sampled without building it" 1000 \
    "$("$DROVER" plan huge.yaml --seed 1 | sort -u | wc -l)"

# ---- memory -----------------------------------------------------------------------------------

if ! command -v python3 >/dev/null; then
    skip_all "memory: no python3 to measure it with"
fi

plan_many() { # SAMPLES : the rows go to rows, the peak memory in kB to stdout
    cat >many.yaml <<END
experiments:
  a: {parameters: {x: {range: 0-1}, k: [a, b, c]}, samples: $1, command: "echo {{x}} {{k}}"}
END
    ASAN_OPTIONS="${ASAN_OPTIONS:-}:quarantine_size_mb=1" python3 -c '
import os, sys
rows = os.open("rows", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
pid = os.posix_spawn(sys.argv[1], sys.argv[1:], os.environ,
                     file_actions=[(os.POSIX_SPAWN_DUP2, rows, 1)])
print(os.wait4(pid, 0)[2].ru_maxrss)' "$DROVER" plan many.yaml --seed 1
}
small_kb=$(plan_many 1000)
large_kb=$(plan_many 1000000)
check_equal "a million rows are printed" 1000000 "$(wc -l <rows)"
check_equal "with the memory of a thousand ($small_kb and $large_kb kB)" 1 \
    "$((large_kb < small_kb + 2048))"
