#!/bin/bash
# HTTPS with a certificate of one's own, and plain HTTP only where nobody else listens.
. "$(dirname "$0")/lib.sh"
t_start "HTTPS"
unset DROVER_SERVER DROVER_TOKEN DROVER_CA

serve() { # FOLDER OPTIONS... : t_pid is its process
    background "$DROVER" serve --state "$@"
    wait_until 10 test -s "$1/api.url"
}

# ---- plain HTTP stays at home -----------------------------------------------------------------

for address in 0.0.0.0:0 "[::]:0" "$(hostname -i 2>/dev/null | cut -d ' ' -f 1):0"; do
    case $address in 127.* | :0) continue ;; esac
    check_exit 2 "plain HTTP on $address is refused" timeout 5 "$DROVER" serve --state no --listen "$address"
    check_output "and what to do is said" '[-]-certificate' timeout 5 "$DROVER" serve --state no --listen "$address"
done
check_exit 2 "a certificate needs its key" "$DROVER" serve --state no --certificate c.pem
serve plain --listen 127.0.0.1:0
check_output "on loopback it is served" '^http://127\.0\.0\.1:[0-9]+$' cat plain/api.url
check_exit 2 "a token is not sent to another machine in the clear" \
    env DROVER_SERVER=http://192.0.2.1:7643 DROVER_TOKEN=drv_x timeout 20 "$DROVER" nodes
check_output "and why is said" 'https' \
    env DROVER_SERVER=http://192.0.2.1:7643 DROVER_TOKEN=drv_x timeout 20 "$DROVER" nodes

# ---- HTTPS ------------------------------------------------------------------------------------

command -v openssl >/dev/null || skip_all "there is no openssl to make a certificate with"
certificate() { # NAME SUBJECT
    openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -keyout "$1.key" \
        -out "$1.pem" -subj "/CN=$2" -addext "subjectAltName=$3" 2>/dev/null
}
certificate good localhost "DNS:localhost,IP:127.0.0.1"
certificate other elsewhere.example "DNS:elsewhere.example"

check_exit 2 "a certificate that is not there is refused" timeout 5 "$DROVER" serve --state bad --certificate none.pem --key good.key
printf 'nonsense\n' >nonsense.pem
check_output "so is nonsense" 'nonsense.pem' timeout 5 "$DROVER" serve --state bad --certificate nonsense.pem --key good.key
check_output "and a key that does not belong to it" 'key' timeout 5 "$DROVER" serve --state bad --certificate good.pem --key other.key

serve tls --listen 127.0.0.1:0 --certificate good.pem --key good.key
url=$(cat tls/api.url)
check_equal "the address says https" https "${url%%:*}"
export DROVER_TOKEN
DROVER_TOKEN=$(cat tls/admin.token)
DROVER_SERVER=$url DROVER_CA=good.pem check "with its certificate a client gets in" "$DROVER" nodes
DROVER_SERVER=$url check_exit 3 "without it, it does not" "$DROVER" nodes
DROVER_SERVER=$url check_output "because nobody vouches for it" 'DROVER_CA|certificate' "$DROVER" nodes
DROVER_SERVER=$url DROVER_CA=other.pem check_exit 3 "another certificate does not help" "$DROVER" nodes
DROVER_SERVER=http${url#https} check_exit 3 "plain HTTP gets no answer" "$DROVER" nodes
background "$DROVER" node --join @tls/join.url --name one --work w --slots 1
printf 'experiments: {a: {command: echo over tls}}\n' >r.yaml
check "work is submitted and waited for" env DROVER_SERVER="$url" DROVER_CA=good.pem \
    timeout 60 "$DROVER" submit r.yaml --no-sync --wait
check_equal "its log is read" "over tls" "$(DROVER_SERVER=$url DROVER_CA=good.pem "$DROVER" logs a/0)"
unset DROVER_TOKEN
check "on the server's own machine --state is enough" env DROVER_CA=good.pem "$DROVER" nodes --state tls
check_equal "an old protocol is refused" "" \
    "$(openssl s_client -tls1_1 -connect "${url#https://}" </dev/null 2>/dev/null | grep -o 'Protocol *: TLSv1.1.*Cipher *: [A-Z]')"
