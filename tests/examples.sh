#!/bin/bash
# The examples do what their comments say.
. "$(dirname "$0")/lib.sh"
t_start "examples"

# They write nothing beside themselves, but run where they are: a copy shows both.
mkdir examples
(cd "$SOURCE/examples" && tar -c --exclude=data .) | tar -x -C examples
find examples -type f -exec sha256sum {} + | LC_ALL=C sort >before

for recipe in examples/*.yaml; do
    check "$recipe is a good recipe" "$DROVER" check "$recipe"
    check "$recipe can be planned" "$DROVER" plan "$recipe" --limit 3
done

# ---- pipeline ---------------------------------------------------------------------------------

start=$(date +%s)
check "the pipeline runs" "$DROVER" run examples/pipeline.yaml --state pipeline
took_s=$(($(date +%s) - start))
check_equal "in under a minute (took $took_s s)" 1 "$((took_s < 60))"
check_output "all of it" '^succeeded: 58 of 58 tasks' "$DROVER" status --state pipeline
check_output "each training is cut short once" '^train +2 +2 +0 +0 +4 ' \
    "$DROVER" status --state pipeline
check_output "and goes on from its checkpoint" '^going on from epoch 160$' \
    "$DROVER" logs train/1 --state pipeline
check_equal "the squares model is the better one" squares \
    "$(sort -nr pipeline/outputs/train/*/score | head -n 1 | cut -d ' ' -f 2)"
check_equal "the search beats the first training, and inference is right most of the time" ok "$(
    cat pipeline/outputs/search/*/score pipeline/outputs/train/1/score | awk '
        { last = $1 } $1 > best { best = $1 } END { exit !(best >= last && best > 0.85) }' &&
        cat pipeline/logs/infer/0/*.log | awk '
        $1 == "accuracy" { sum += $2; n++ } END { exit !(n == 12 && sum / n > 0.85) }' && echo ok)"
check_equal "a label for each point" 6000 "$(cat pipeline/outputs/infer/*/labels | wc -l)"

# ---- flaky ------------------------------------------------------------------------------------

check_exit 1 "flaky fails, as it says" "$DROVER" run examples/flaky.yaml --state flaky
"$DROVER" tasks --state flaky | awk '{ print $1, $2, $3 }' >states
for line in 'shaky/0 succeeded 1' 'shaky/2 succeeded 3' 'doomed/0 failed 2' 'slow/0 failed 1' \
    'crash/0 failed 1' 'after/0 succeeded 1' 'wrong/0 failed 1' 'never/0 skipped 0'; do
    check "flaky: $line" grep -qx "$line" states
done
check_output "flaky: the slow task timed out" 'slow/0.*timed out' \
    "$DROVER" tasks --failed --state flaky
check_equal "flaky: the hopeless experiment is given up" 1 \
    "$(($(grep -c '^hopeless/.* cancelled' states) >= 95))"

# ---- preprocess -------------------------------------------------------------------------------

check "the files of preprocess are made" sh examples/preprocess/make-data.sh
check "preprocess can be checked" "$DROVER" check examples/preprocess/preprocess.yaml
check "preprocess runs" "$DROVER" run examples/preprocess/preprocess.yaml --state preprocess
check_output "over five thousand files in batches of 250" '^pack +20 +20 ' \
    "$DROVER" status --state preprocess
check_equal "into as many records" 5000 "$(cat preprocess/outputs/pack/*/records.tsv | wc -l)"
check_equal "and the words are counted right" \
    "$(find examples/preprocess/data -name '*.txt' -exec cat {} + | tr -cs '[:lower:]' '\n' |
        grep -cx drover)" \
    "$(awk '$1 == "drover" { print $2 }' preprocess/outputs/count/0/words.tsv)"
rm -rf examples/preprocess/data

# ---- branin ---------------------------------------------------------------------------------------

check_output "the search finds the valley, with fewer trials than it may take" "the target of 0.42 is reached" \
    "$DROVER" run examples/branin.yaml --state branin

# ---- mnist-search -----------------------------------------------------------------------------

check_output "the search says what hardware it lacks" 'needs 1 gpu of kind k80|^ok' \
    sh -c "'$DROVER' run examples/mnist-search.yaml --state k80 --set mnist.samples=1 && echo ok"
if command -v python >/dev/null; then
    check "and runs without it" "$DROVER" run examples/mnist-search.yaml --state mnist \
        --ignore-hardware --set mnist.samples=4
    check_output "printing losses" 'final loss' "$DROVER" logs mnist/3 --state mnist
else
    skip "mnist-search runs python, and there is none"
fi

find examples -type f -exec sha256sum {} + | LC_ALL=C sort >after
check "no example writes beside itself" cmp before after
