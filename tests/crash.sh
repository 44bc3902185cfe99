#!/bin/bash
# kill -9 at random moments, hundreds of times: nothing accepted is lost or runs again, and no
# process survives.
# CRASH_SEED=N repeats a run's choices, CRASH_SECONDS=N makes it longer.
. "$(dirname "$0")/lib.sh"
t_start "killed over and over"
command -v python3 >/dev/null || skip_all "no python3 to do the killing"

mkdir crash
if ! python3 "$SOURCE/tests/crash.py" "$DROVER" "$T/work/crash" "${CRASH_SECONDS:-40}" \
    "${CRASH_SEED:-$RANDOM$RANDOM}"; then
    t_failed=1
fi
