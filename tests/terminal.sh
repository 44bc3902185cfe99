#!/bin/bash
# The live view of drover run on a terminal, as one sees it: bars, colours, widths, Ctrl-C, summary.
. "$(dirname "$0")/lib.sh"
t_start "the live view"
command -v python3 >/dev/null || skip_all "no python3 to be the terminal"
screen() { # COLUMNS ROWS FOLDER COMMAND...
    python3 "$SOURCE/tests/screen.py" "$@"
}

# No screen shows an experiment twice: the view is drawn over itself and not below itself.
rows_twice() { # FOLDER
    awk '/^----$/ { split("", seen) }
         /[█░#.]{3,}/ && seen[$1]++ { twice[$1]++ }
         END { for (name in twice) print name }' "$1/frames"
}

cat >live.yaml <<'END'
experiments:
  prepare: {parameters: {n: 0..19}, command: "sleep 0.05"}
  a_rather_long_name: {depends_on: prepare, parameters: {n: 0..9}, command: "sleep 0.1"}
  flaky: {allow_failure: true, parameters: {n: 0..5}, command: "sleep 0.05; test {{n}} -gt 2"}
END
export TERM=xterm-256color
unset NO_COLOR
check "a run on a terminal" screen 100 30 wide "$DROVER" run live.yaml --state wide-state
check_output "has a bar for each experiment" '^prepare +█+░* +[0-9]+/20' cat wide/frames
check_output "that waits for others" '^a_rather_long_name +░+ +0/10 +waiting' cat wide/frames
check_output "counts what is running" '^prepare .* [12] running' cat wide/frames
check_output "and what failed" '^flaky .* [123] failed' cat wide/frames
check_output "has a line with rate and time left" 'tasks/s +about .* left' cat wide/frames
check_output "tells of failures above it" '^flaky/[012]: exit 1' cat wide/all
check_output "is coloured" $'\033\\[32m' cat wide/raw
check_equal "is drawn over itself" "" "$(rows_twice wide)"
check_equal "more than ten times" 1 "$(($(grep -c '^----$' wide/frames) > 10))"
check_equal "and stays once, full, at the end" "prepare a_rather_long_name flaky" \
    "$(awk '/█/ && !/░/ { print $1 }' wide/all | paste -sd ' ')"
check_output "before the summary" '^succeeded: 33 of 36 tasks succeeded in ' tail -n 3 wide/all
check_output "with its table" '^a_rather_long_name +10 +10 +0' cat wide/all
check_equal "the cursor is left visible" 0 "$(grep -c $'\033\\[?25l' wide/raw)"

NO_COLOR=1 check "with NO_COLOR" screen 100 30 plain "$DROVER" run live.yaml --state plain-state
check_equal "there is no colour" 0 "$(grep -cE $'\033\\[[0-9;]+m' plain/raw)"
check_output "but there are bars" '^prepare +█+░* +[0-9]+/20' cat plain/frames

LC_ALL=C check "where there is no UTF-8" screen 100 30 ascii \
    "$DROVER" run live.yaml --state ascii-state
check_output "bars are of letters" '^prepare +#+\.* +[0-9]+/20' cat ascii/frames
check_equal "and nothing else is not" 0 "$(LC_ALL=C grep -cP '[\x80-\xff]' ascii/raw)"

for width in 40 60; do
    check "on $width columns" screen $width 12 "narrow-$width" \
        "$DROVER" run live.yaml --state "narrow-$width-state"
    check_equal "$width columns: nothing is drawn twice" "" "$(rows_twice "narrow-$width")"
    check_output "$width columns: bars are there" '^prepare +█+░* +[0-9]+/20' \
        cat "narrow-$width/frames"
done
SCREEN_RESIZE=50 check "a window that gets narrower" screen 110 30 resized \
    "$DROVER" run live.yaml --state resized-state

{
    echo 'experiments:'
    for n in $(seq 30); do
        echo "  e$n: {parameters: {x: 0..4}, command: 'sleep 0.02'}"
    done
} >tall.yaml
check "thirty experiments on ten rows" screen 80 10 tall "$DROVER" run tall.yaml --state tall-state
check_output "are summed up" 'and [0-9]+ more' cat tall/frames
check_equal "and nothing is drawn twice" "" "$(rows_twice tall)"

check "--plain on a terminal" screen 100 30 lines \
    "$DROVER" run live.yaml --state lines-state --plain
check_equal "prints no escape sequence" 0 "$(grep -c $'\033' lines/raw)"
TERM=dumb check "a dumb terminal" screen 100 30 dumb "$DROVER" run live.yaml --state dumb-state
check_equal "gets plain lines too" 0 "$(grep -c $'\033\\[[0-9]*A' dumb/raw)"

cat >slow.yaml <<'END'
experiments:
  a: {parameters: {n: 0..99}, command: "sleep 0.2"}
END
SCREEN_INTERRUPT='2 running' check_exit 1 "Ctrl-C on a terminal" \
    screen 100 30 stopped "$DROVER" run slow.yaml --state stopped-state
check_output "is answered" 'note: stopping' cat stopped/all
check_output "ends with the summary" '^stopped: [0-9]+ of 100 tasks' cat stopped/all
check_output "and how to go on" '^to go on: ' cat stopped/all
