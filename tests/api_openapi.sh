#!/bin/bash
# What the server answers is what its OpenAPI document says: every path, good and bad requests.
. "$(dirname "$0")/lib.sh"
t_start "the OpenAPI document and the answers"
export DROVER
python3 "$SOURCE/tests/api_openapi.py"
