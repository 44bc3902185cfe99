#!/bin/bash
# drover analyse: stabilisation points, the cost table, own or rent, pictures; and bad input.
. "$(dirname "$0")/lib.sh"
t_start "drover analyse"

# Curves like those of Malta et al. (2019), table 2: 3 runs of each type and batch. The plateau
# begins at the paper's stabilisation point, the time there is the paper's.
awk 'BEGIN {
    n = split("64 60000 1.33 2.70 91.20 128 30000 1.17 3.51 91.67 256 17000 1.17 3.68 91.03 " \
              "512 8000 1.00 3.63 89.77", v, " ")
    print "type,batch,run,step,time,accuracy"
    for (i = 1; i <= n; i += 5) {
        for (t = 0; t < 2; t++) {
            hours = t ? v[i + 2] / v[i + 3] : v[i + 2]
            for (r = 0; r < 3; r++) {
                for (k = 0; k <= 80; k++) {
                    s = v[i + 1] * k / 50
                    m = k < 50 ? v[i + 4] * (0.1 + 0.016 * k) : v[i + 4]
                    printf "%s,%d,%d,%d,%.3f,%.4f\n", t ? "p3.2xlarge" : "p2.xlarge", v[i], r, s, \
                        hours * 3600 * k / 50, m + (r - 1) * 0.3 + (k * 7919 + r * 31) % 10 / 50
                }
            }
        }
    }
}' >curves.csv
price=(--price p2.xlarge=0.90 --price p3.2xlarge=3.06 --baseline p2.xlarge)

# ---- stabilise --------------------------------------------------------------------------------

"$DROVER" analyse stabilise curves.csv --json >runs.json
check_equal "every run is judged and every group summed up" "24 8" \
    "$(grep -c '"kind":"run"' runs.json) $(grep -c '"kind":"group"' runs.json)"
check_equal "the points are those of the paper" "60000 30000 17000 8000" \
    "$(sed -n 's/.*"kind":"group","type":"p2.xlarge".*"step":\([0-9]*\).*"low_step.*/\1/p' runs.json |
        tr '\n' ' ' | sed 's/ $//')"
"$DROVER" analyse stabilise curves.csv --json >again.json
check "the same input gives the same bytes" cmp runs.json again.json
check_output "people get a table" '^p2.xlarge +64 0 +60000 +4788.* stable$' \
    "$DROVER" analyse stabilise curves.csv
check_output "and an interval for the repeats" '3 of 3 runs stable, at step 60000 \(90 %: ' \
    "$DROVER" analyse stabilise curves.csv

awk 'BEGIN { print "step,loss"; for (i = 0; i < 100; i++) { print i "," 100 - i } }' >moving.csv
check_output "a curve that still moves is not yet stable" 'not yet stable: it is still moving' \
    "$DROVER" analyse stabilise moving.csv --goal minimize
check_output "nor is one that only gets worse" 'not yet stable: it has gained nothing' \
    "$DROVER" analyse stabilise moving.csv --goal maximize
printf 'step,metric\n1,5\n' >one.csv
check_output "nor is a single point" 'not yet stable: it has too few points' \
    "$DROVER" analyse stabilise one.csv
printf '{"step":%d,"loss":%s}\n' 3 1 1 9 2 4 2 3 4 1 5 1 6 1 7 1 8 1 9 1 10 1 11 1 12 1 13 1 14 1 >l.jsonl
check_output "unsorted steps are sorted, repeated ones counted" '1 points repeat a step' \
    "$DROVER" analyse stabilise l.jsonl --goal minimize
check_output "JSON lines are read" ' 3 .* stable$' "$DROVER" analyse stabilise l.jsonl --goal minimize
check_output "with --online it says where training could have stopped" 'STOP_AT' \
    "$DROVER" analyse stabilise l.jsonl --goal minimize --online

# ---- cost -------------------------------------------------------------------------------------

"$DROVER" analyse cost curves.csv "${price[@]}" --json >cost.json
field() { # TYPE BATCH FIELD
    sed -n "s/.*\"type\":\"$1\",\"batch\":$2,.*\"$3\":\([-0-9.e]*\).*/\1/p" cost.json
}
near() { # SENTENCE EXPECTED WITHIN VALUE
    if awk -v a="$2" -v w="$3" -v b="$4" 'BEGIN { exit !(b != "" && b - a <= w && a - b <= w) }'; then
        t_ok "$1"
    else
        t_not_ok "$1" "expected $2, got '$4'"
    fi
}
while read -r batch p2 p3 speedup; do
    near "batch $batch on p2.xlarge costs what the paper says" "$p2" 0.011 "$(field p2.xlarge "$batch" cost)"
    near "batch $batch on p3.2xlarge costs what the paper says" "$p3" 0.011 "$(field p3.2xlarge "$batch" cost)"
    near "batch $batch is as much faster as the paper says" "$speedup" 0.01 "$(field p3.2xlarge "$batch" speedup)"
done <<'END'
64 1.20 1.51 2.70
128 1.05 1.02 3.51
256 1.05 0.97 3.68
512 0.90 0.85 3.63
END
check_output "the cheapest is recommended" '^cheapest +p3.2xlarge, batch 512' \
    "$DROVER" analyse cost curves.csv "${price[@]}"
check_output "at a target metric another" '^cheapest +p3.2xlarge, batch 256' \
    "$DROVER" analyse cost curves.csv "${price[@]}" --target 91
check_output "none where none reaches it" '^fastest +none reaches the target' \
    "$DROVER" analyse cost curves.csv "${price[@]}" --target 99
check_output "prices may come from a catalog" '^cheapest +p3.2xlarge' \
    "$DROVER" analyse cost curves.csv --catalog "$SOURCE/data/catalog/papers-2019.csv"
check_output "a missing price is named" "no price for type 'p3.2xlarge'" \
    "$DROVER" analyse cost curves.csv --price p2.xlarge=0.9
check_output "curves without times cannot be priced" 'need times' \
    "$DROVER" analyse cost one.csv --price 1 --point 1
check_exit 2 "with exit 2" "$DROVER" analyse cost one.csv

# ---- own --------------------------------------------------------------------------------------

cat >own.csv <<'END'
name,kind,price,machines,time_s,watts,lifetime_years
Tesla K80,own,3000,,,,
Tesla V100,own,8000,,,,
GTX 1080 Ti,own,800,,2700,250,4
virt_cpu + virt_gpu x 2,rent,0.9,2,5460,,
virt_gpu x 3,rent,0.9,3,2460,,
virt_cpu + virt_gpu x 3,rent,0.9,3,2580,,
END
"$DROVER" analyse own own.csv --json >own.json
check_equal "a job costs what table 3.6 says" "2.73 1.845 1.935" \
    "$(sed -n 's/.*"own":"Tesla K80".*"rent_job":\([0-9.]*\).*/\1/p' own.json | tr '\n' ' ' | sed 's/ $//')"
check_equal "and the break-even point follows" 1627 \
    "$(sed -n 's/.*"own":"Tesla K80","rent":"virt_gpu x 3".*"break_even_jobs":\([0-9]*\).*/\1/p' own.json)"
check_output "people get a table" '^Tesla K80 +3000.00 +virt_gpu x 3 +1.84 +0.000 +1627' \
    "$DROVER" analyse own own.csv

# ---- map --------------------------------------------------------------------------------------

# Brás & Valadão (2015), 1,000 epochs: one CPU server and eight GPU servers, and a laptop.
cat >map.csv <<'END'
name,kind,time,cost
laptop,owned,69.4,2.42
1 CPU server,cpu,34.0,0.67
1 GPU server,gpu,8.2,0.70
8 GPU servers x 8 engines,gpu,1.14,0.64
END
check_equal "only the GPU cluster is on the front" '8 GPU servers x 8 engines' \
    "$("$DROVER" analyse map map.csv --time-unit h --currency EUR --json |
        sed -n 's/.*"name":"\([^"]*\)".*"pareto":true.*/\1/p')"
check "the map is drawn" "$DROVER" analyse map map.csv --time-unit h --currency EUR --svg map.svg
check_output "with its currency" 'cost \(EUR\)' cat map.svg
printf 'name,time,cost\na,1,-3\n' >bad.csv
check_output "a cost below zero is refused" 'bad.csv: line 2: cost' "$DROVER" analyse map bad.csv

# ---- pictures ---------------------------------------------------------------------------------

check "the curves are drawn" "$DROVER" analyse stabilise curves.csv --svg curves.svg
check "the cost map is drawn" "$DROVER" analyse cost curves.csv "${price[@]}" --svg cost.svg
check "as well-formed XML" python3 -c '
import sys, xml.etree.ElementTree as tree
for name in sys.argv[1:]:
    assert tree.parse(name).getroot().tag.endswith("svg")' curves.svg cost.svg
check_equal "that needs nothing else" "" "$(grep -E 'href|url\(|<script' curves.svg cost.svg)"
check_output "with units on the axes" 'cost \(USD\)' cat cost.svg
check_output "the terminal gets braille" '⣿|⠒|⡀' "$DROVER" analyse stabilise curves.csv --plot
check_equal "or ASCII where that is all it knows" "" \
    "$(LC_ALL=C "$DROVER" analyse stabilise curves.csv --plot | LC_ALL=C grep -P '[^\x00-\x7f]')"
check_exit 1 "a picture that cannot be written is an error" \
    "$DROVER" analyse stabilise curves.csv --svg /nonexistent/x.svg

# ---- bad input --------------------------------------------------------------------------------

bad() { # SENTENCE REGEX OPTION... : the file is on stdin
    local sentence=$1 regex=$2
    shift 2
    cat >bad.csv
    check_output "$sentence" "$regex" timeout 10 "$DROVER" analyse stabilise bad.csv "$@"
    check_equal "$sentence, exit 2" 2 "$t_status"
}
bad "NaN" "bad.csv:3: metric: 'NaN' is not a finite number" < <(printf 'step,metric\n1,1\n2,NaN\n')
bad "1e308" 'bad.csv:2: metric 1e\+308 is too large' < <(printf 'step,metric\n1,1e308\n')
bad "a missing column" "no column 'metric' \(there are: step, x\)" < <(printf 'step,x\n1,1\n')
bad "a column that is named but not there" "no column 'f1'" --metric f1 < <(printf 'step,metric\n1,1\n')
bad "an empty file" '.' </dev/null
bad "a heading alone" 'no points' < <(printf 'step,metric\n')
bad "a row that is too short" 'bad.csv:2: ' < <(printf 'step,metric\n1\n')
bad "half of a JSON array" 'bad.csv:2: ' <<<'[{"step":1,"metric":2}'
bad "brackets without end" 'nested too deep' < <(printf '{"a":' && head -c 200000 /dev/zero | tr '\0' '[')
check_exit 2 "an analysis that does not exist" "$DROVER" analyse stabilize-it curves.csv
check_output "one nearly right is suggested" "did you mean 'cost'" "$DROVER" analyse csot curves.csv
check_exit 2 "a tolerance that makes no sense" "$DROVER" analyse stabilise curves.csv --tolerance 7
check_exit 2 "a price that is none" "$DROVER" analyse cost curves.csv --price p2.xlarge=cheap
check_output "a price below zero" 'price' "$DROVER" analyse cost curves.csv --price p2.xlarge=-1
check_exit 2 "a file that is not there" "$DROVER" analyse stabilise nope.csv
check_exit 2 "no file at all" "$DROVER" analyse stabilise
check_output "--help is there" '^usage: drover analyse' "$DROVER" analyse --help

# ---- real curves ------------------------------------------------------------------------------

real=${DROVER_TEST_DATA:-}/curves/taskset_imdb_patch32_LSTM128_bs128.csv
if [ -f "$real" ]; then
    check_exit 0 "a thousand real curves are judged" timeout 60 "$DROVER" analyse stabilise "$real" \
        --wide v --goal minimize --skip-bad --resamples 20 --json
else
    skip "DROVER_TEST_DATA is not set: the real curves are left out"
fi
