#!/bin/bash
# timeout: 180
# Slow, huge, many and senseless clients against a real server, while a normal one works.
. "$(dirname "$0")/lib.sh"
t_start "hostile clients"
export DROVER
ulimit -n 4096
python3 "$SOURCE/tests/api_hostile.py"
