#!/bin/bash
# Lists of 100,000 and of a million tasks: whole, in order, and no page keeps anybody waiting.
. "$(dirname "$0")/lib.sh"
t_start "lists of a million tasks"
export DROVER
python3 "$SOURCE/tests/api_pages.py"
