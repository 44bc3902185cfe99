#!/bin/bash
# timeout: 300
# The S3 driver of src/object against a real server.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/s3.bash"
t_start "S3 stores"

program=$DROVER_BUILD/src/object/object_s3_test
[ -x "$program" ] || skip_all "object_s3_test is not built"
s3_there || skip_all "$s3_why"
check "$S3_SERVER starts" s3_up
[ -n "$s3_endpoint" ] || exit 1
check "a bucket can be made" s3_bucket objects

background python3 "$SOURCE/tests/object_proxy.py" "${s3_endpoint#http://}"
proxy=$T/harness/background.$((${#t_pids[@]} - 1))
background python3 "$SOURCE/tests/object_metadata.py"
metadata=$T/harness/background.$((${#t_pids[@]} - 1))
check "a bad network is set up" wait_until 10 grep -q random= "$proxy"
check "and metadata servers" wait_until 10 grep -q http: "$metadata"

export DROVER_TEST_S3=$s3_endpoint DROVER_TEST_S3_BUCKET=objects
DROVER_TEST_S3_FAULTS=$(cat "$proxy")
DROVER_TEST_S3_METADATA=$(cat "$metadata")
export DROVER_TEST_S3_FAULTS DROVER_TEST_S3_METADATA
if [ -n "$s3_ca" ]; then
    export DROVER_TEST_S3_TLS=$s3_tls_endpoint DROVER_TEST_S3_CA=$s3_ca
fi
if [ -n "$s3_is_tree" ]; then
    export DROVER_TEST_S3_TREE=1
fi
export CMOCKA_MESSAGE_OUTPUT=TAP
# Its own lines say what went well: one for each test.
"$program" </dev/null 2>&1
t_status=$?
check_equal "all of the driver's tests pass" 0 "$t_status"
