# shellcheck shell=bash
# tests/s3.bash - a real S3 server for a test, on loopback, on ports that nobody else has. After lib.sh:
#
#     s3_there || skip_all "$s3_why"
#     check "the server starts" s3_up   # sets
#     $s3_endpoint                      # http://localhost:PORT; BUCKET.localhost works as well
#     $s3_tls_endpoint $s3_ca           # https://localhost:PORT; "" where there is none
#     $s3_is_tree                       # not empty: keys are paths to it, see object_conformance.h
#     $s3_pid                           # what answers; once it is killed
#     s3_again                          # starts it again
#     AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY   # exported; of a user of its own
#     s3_bucket NAME                    # makes one
#
# S3_SERVER says whose it is: ceph (as it is not set) or minio. Servers are background processes of the test,
# so they end with it; their files are below $T.
# shellcheck disable=SC2034 # all of these are for the tests

s3_why=
s3_endpoint=
s3_tls_endpoint=
s3_ca=
s3_is_tree=
s3_pid=

s3_free_ports() { # COUNT : ports that are free now
    python3 - "$1" <<'PY'
import socket, sys
sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(int(sys.argv[1]))]
print(*(s.getsockname()[1] for s in sockets))
PY
}

s3_make_certificate() { # DIR
    command -v openssl >/dev/null || return 0
    openssl req -x509 -newkey rsa:2048 -nodes -days 2 -keyout "$1/tls.key" -out "$1/tls.pem" \
        -subj /CN=localhost -addext "subjectAltName=DNS:localhost,IP:127.0.0.1" &&
        s3_ca=$1/tls.pem
}

# Whoever runs the tests may have an S3 of their own, which must not be touched.
s3_forget_others() {
    unset "${!AWS_@}"
    export AWS_EC2_METADATA_DISABLED=true
}

s3_bucket() { # NAME
    local empty=e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855
    curl -sf -o /dev/null -X PUT --aws-sigv4 aws:amz:us-east-1:s3 -K - \
        -H "x-amz-content-sha256: $empty" "$s3_endpoint/$1" <<KEYS
user = "$AWS_ACCESS_KEY_ID:$AWS_SECRET_ACCESS_KEY"
KEYS
}

case ${S3_SERVER:=ceph} in
    minio) . "$(dirname "${BASH_SOURCE[0]}")/minio.bash" ;;
    *) . "$(dirname "${BASH_SOURCE[0]}")/ceph.bash" ;;
esac
