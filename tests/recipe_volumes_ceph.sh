#!/bin/bash
# timeout: 180
# Volumes in recipes, in S3: addresses travel with the workflow, credentials are each node's own.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/s3.bash"
t_start "volumes in recipes, in S3"
. "$SOURCE/tests/mount.bash"
mount_possible || skip_all "$mount_why"
s3_there || skip_all "$s3_why"
check "$S3_SERVER starts" s3_up
[ -n "$s3_endpoint" ] || exit 1
check "a bucket can be made" s3_bucket volumes

none_mounted() {
    ! grep -qE " $T/.* (fuse.drover|erofs) " /proc/mounts
}

mkdir files
for i in 0 1 2 3; do echo "number $i" >"files/$i.txt"; done
for name in data results; do
    check "a volume for $name" "$DROVER" volume create "$name" --store "s3://volumes/$name" \
        --endpoint "$s3_endpoint" --addressing path
done
"$DROVER" data put files data:/ >/dev/null
check "a snapshot of the data" "$DROVER" data snapshot data v1
cat >copy.yaml <<'END'
volumes: {in: data@v1, output: results}
experiments:
  copy:
    parameters: {i: 0..3}
    outputs: copy
    command: cp {{volumes.in}}/{{i}}.txt {{output}}/copy
  read:
    depends_on: copy
    command: cat {{copy.output}}/*/copy
END
check "a run reads and writes volumes in S3" "$DROVER" run copy.yaml --state run
check_equal "rightly" "number 0 number 1 number 2 number 3" "$("$DROVER" logs read/0 --state run | xargs)"

background "$DROVER" serve --state serve
server=$t_pid
wait_until 10 test -s serve/join.url
background "$DROVER" node --join @serve/join.url --work node
node=$t_pid
check "so do tasks of a server" "$DROVER" submit copy.yaml --state serve --wait
check_equal "rightly, too" "number 0 number 1 number 2 number 3" \
    "$("$DROVER" logs read/0 --state serve | xargs)"
check_equal "no secret is in the state, the work folder or a command line" "" "$(
    grep -rlaF -- "$AWS_SECRET_ACCESS_KEY" run serve node/*.* 2>/dev/null
    grep -laF -- "$AWS_SECRET_ACCESS_KEY" /proc/[0-9]*/cmdline 2>/dev/null
)"
kill "$node"
wait "$node" 2>/dev/null
check "nothing is mounted afterwards" none_mounted

AWS_SECRET_ACCESS_KEY=wrong background "$DROVER" node --join @serve/join.url --work node2
node=$t_pid
check_exit 1 "a node without the right credentials fails its tasks" \
    "$DROVER" submit copy.yaml --state serve --wait
check_output "and says so" '^drover: volume s3://volumes/' "$DROVER" logs copy/0 --state serve
kill "$node"
wait "$node" 2>/dev/null
check "nothing is mounted after that either" none_mounted
no_mount_process() { ! pgrep -f "drover mount .*--for-node .*$T/" >/dev/null; }
check "and no process is left" wait_until 20 no_mount_process
kill "$server"
wait "$server" 2>/dev/null
check "no owner is left when the server has ended" sh -c '! pgrep -f "drover meta .*--state $PWD/serve/"'
