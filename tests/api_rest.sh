#!/bin/bash
# The HTTP API of a real server with two nodes: roles, tokens, keys, bodies, problems, lists, logs.
. "$(dirname "$0")/lib.sh"
t_start "the HTTP API"
export DROVER
python3 "$SOURCE/tests/api_rest.py"
