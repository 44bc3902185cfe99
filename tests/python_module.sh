#!/bin/bash
# The Python module and `drover report`: they say the same, and what is wrong is told.
. "$(dirname "$0")/lib.sh"
t_start "reporting metrics: the Python module and the command"

unset DROVER_REPORT DROVER_CONTROL DROVER_PARAMS DROVER_OUTPUT DROVER_CHECKPOINT DROVER_TASK

# ---- the command ------------------------------------------------------------------------------

check_output "metrics are printed as a line" \
    '^drover: \{"step":3,"accuracy":0.97,"time":[0-9]+(\.[0-9]+)?\}$' \
    "$DROVER" report accuracy=0.97 step=3
check_equal "and that succeeds" 0 "$t_status"
check_output "percentages, nan and infinities are numbers" \
    '"a":0.912,"b":NaN,"c":-Infinity,' "$DROVER" report a=91.2% b=nan c=-inf
export DROVER_REPORT=$PWD/report
check "metrics go to the file of the task" "$DROVER" report loss=0.5 step=1
check_equal "and nothing is printed" "" "$(t_seen)"
check "a second report is appended" "$DROVER" report loss=0.25 step=2
check_equal "each is one line" 2 "$(wc -l <report)"
check_equal "the lines are JSON" "1 0.5
2 0.25" "$(python3 -c 'import json
for line in open("report"): o = json.loads(line); print(o["step"], o["loss"])')"
export DROVER_REPORT=$PWD/no/such/report
check_exit 1 "a file that cannot be written is an error" "$DROVER" report a=1
check_output "and is named" 'no/such/report: No such file' "$DROVER" report a=1
unset DROVER_REPORT
for wrong in accuracy accuracy= =0.5 accuracy=high accuracy=0.5x step=nan; do
    check_exit 2 "'$wrong' is refused" "$DROVER" report $wrong loss=1
done
check_exit 2 "no metrics are wrong usage" "$DROVER" report
check_exit 2 "a step alone is wrong usage" "$DROVER" report step=3
check_output "a metric given twice is refused" 'a is given twice' "$DROVER" report a=1 a=2
check_exit 2 "an unknown option is refused" "$DROVER" report a=1 --frobnicate
check_output "report --help shows its usage" '^usage: drover report' "$DROVER" report --help

# ---- the module -------------------------------------------------------------------------------

if ! command -v python3 >/dev/null; then
    skip_all "no python3 here"
fi
export PYTHONDONTWRITEBYTECODE=1
t_run python3 -m unittest discover -s "$SOURCE/python" -v
while read -r name _; do
    t_ok "python: ${name//_/ }"
done < <(grep -E '\.\.\. ok$' "$T/harness/out" | sed 's/^test_//')
check_equal "the module's own tests pass" 0 "$t_status"
if [ "$t_status" -ne 0 ]; then
    t_seen
fi
check_equal "module and command print the same" \
    "$("$DROVER" report epoch=2 'val/loss=0.25' n=3 | sed 's/"time":.*//')" \
    "$(PYTHONPATH=$SOURCE/python python3 -c \
        'import drover; drover.report({"epoch": 2, "val/loss": 0.25, "n": 3})' |
        sed 's/"time":.*//')"
