#!/bin/bash
# The event stream of a real server, logs that are followed, both over a restart; and webhooks.
. "$(dirname "$0")/lib.sh"
t_start "events, followed logs and webhooks"
export DROVER
python3 "$SOURCE/tests/api_events.py"
