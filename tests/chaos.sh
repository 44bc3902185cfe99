#!/bin/bash
# A cluster of real processes of which something is killed, frozen or cut off every few hundred
# milliseconds: every task has exactly one accepted result, and nothing is left behind.
# CHAOS_SEED=N repeats a run's choices, CHAOS_SECONDS=N makes it longer.
. "$(dirname "$0")/lib.sh"
t_start "a harassed cluster"
command -v python3 >/dev/null || skip_all "no python3 to do the harassing"

mkdir chaos
if ! python3 "$SOURCE/tests/chaos.py" "$DROVER" "$T/work/chaos" "${CHAOS_SECONDS:-20}" \
    "${CHAOS_SEED:-$RANDOM$RANDOM}" "${CHAOS_NODES:-20}" "${CHAOS_TASKS:-20000}"; then
    t_failed=1
fi
