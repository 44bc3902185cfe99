# shellcheck shell=bash
# tests/minio.bash - for s3.bash: MinIO of one disk, where whoever runs the tests has one (Debian does not).

minio=$(realpath -q "${DROVER_TEST_MINIO:-$(command -v minio)}")

s3_there() {
    if [ ! -x "$minio" ] || ! command -v curl >/dev/null; then
        # shellcheck disable=SC2034 # for the test
        s3_why="no minio here (DROVER_TEST_MINIO names its program)"
        return 1
    fi
}

s3_again() {
    # It looks for its settings at home.
    HOME=$T/minio MINIO_DOMAIN=localhost MINIO_ROOT_USER=$AWS_ACCESS_KEY_ID \
        MINIO_ROOT_PASSWORD=$AWS_SECRET_ACCESS_KEY MINIO_BROWSER=off MINIO_UPDATE=off \
        background "$minio" server --quiet --address "127.0.0.1:${s3_endpoint##*:}" "$T/minio/data"
    # shellcheck disable=SC2034,SC2154 # of the test
    s3_pid=$t_pid
    wait_until 60 curl -sf -o /dev/null "$s3_endpoint/minio/health/ready"
}

s3_up() {
    s3_forget_others
    unset "${!MINIO_@}"
    mkdir "$T/minio"
    AWS_ACCESS_KEY_ID=tester
    AWS_SECRET_ACCESS_KEY=$(od -An -N16 -tx1 /dev/urandom | tr -d ' \n')
    export AWS_ACCESS_KEY_ID AWS_SECRET_ACCESS_KEY
    # shellcheck disable=SC2034 # for the test
    s3_is_tree=1
    s3_endpoint=http://localhost:$(s3_free_ports 1)
    if ! s3_again; then
        s3_endpoint=
        return 1
    fi
}
