#!/bin/bash
# timeout: 300
# The S3 driver of src/object against a real server: Ceph's RADOS Gateway.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/ceph.bash"
t_start "S3 stores"

program=$DROVER_BUILD/src/object/object_s3_test
[ -x "$program" ] || skip_all "object_s3_test is not built"
ceph_there || skip_all "$ceph_why"
check "Ceph starts" ceph_up
[ -n "$ceph_endpoint" ] || exit 1
check "a bucket can be made" ceph_bucket objects

background python3 "$SOURCE/tests/object_proxy.py" "${ceph_endpoint#http://}"
proxy=$T/harness/background.$((${#t_pids[@]} - 1))
background python3 "$SOURCE/tests/object_metadata.py"
metadata=$T/harness/background.$((${#t_pids[@]} - 1))
check "a bad network is set up" wait_until 10 grep -q random= "$proxy"
check "and metadata servers" wait_until 10 grep -q http: "$metadata"

export DROVER_TEST_S3=$ceph_endpoint DROVER_TEST_S3_BUCKET=objects
DROVER_TEST_S3_FAULTS=$(cat "$proxy")
DROVER_TEST_S3_METADATA=$(cat "$metadata")
export DROVER_TEST_S3_FAULTS DROVER_TEST_S3_METADATA
if [ -n "$ceph_ca" ]; then
    export DROVER_TEST_S3_TLS=$ceph_tls_endpoint DROVER_TEST_S3_CA=$ceph_ca
fi
export CMOCKA_MESSAGE_OUTPUT=TAP
# Its own lines say what went well: one for each test.
"$program" </dev/null 2>&1
t_status=$?
check_equal "all of the driver's tests pass" 0 "$t_status"
