# shellcheck shell=bash
# tests/ceph.bash - for s3.bash: Ceph of one node and its RADOS Gateway, from Debian's packages, in memory. It
# takes some 15 s to start.

# A start that takes longer than this has failed.
ceph_patience_s=60

ceph_write_config() { # DIR MON_PORT RGW_PORT RGW_TLS_PORT
    local dir=$1 tls=
    if [ -n "$s3_ca" ]; then
        tls="ssl_endpoint=127.0.0.1:$4 ssl_certificate=$s3_ca ssl_private_key=$dir/tls.key"
    fi
    cat >"$dir/ceph.conf" <<CONF
[global]
fsid = $(cat /proc/sys/kernel/random/uuid)
mon_initial_members = a
mon_host = [v1:127.0.0.1:$2]
public_addr = 127.0.0.1
cluster_addr = 127.0.0.1
# Nobody but this test reaches it.
auth_cluster_required = none
auth_service_required = none
auth_client_required = none
keyring = $dir/keyring
run_dir = $dir
admin_socket =
pid_file =
log_file = $dir/\$name.log
mon_cluster_log_file = $dir/cluster.log
mon_data = $dir/mon
osd_data = $dir/osd
# One copy of everything, on one disk, which is memory.
osd_pool_default_size = 1
osd_pool_default_min_size = 1
osd_pool_default_pg_num = 4
osd_pool_default_pgp_num = 4
osd_crush_chooseleaf_type = 0
mon_allow_pool_size_one = true
mon_max_pg_per_osd = 1000
mon_data_avail_crit = 1
osd_objectstore = memstore
# A disk that tells the monitor about itself may do so before it knows the cluster, and is refused.
osd_class_update_on_start = false
osd_crush_update_on_start = false
memstore_device_bytes = 4294967296
osd_max_object_size = 134217728
[client.rgw]
# Without tcp_nodelay an answer of 50 KB takes 40 ms.
rgw_frontends = beast endpoint=127.0.0.1:$3 tcp_nodelay=1 $tls
rgw_dns_name = localhost
# 16.2.15 crashes now and then when it deletes several objects of one request at a time.
rgw_multi_obj_del_max_aio = 1
rgw_enable_usage_log = false
rgw_enable_ops_log = false
CONF
}

ceph_start_cluster() { # DIR MON_PORT
    local dir=$1 uuid
    uuid=$(cat /proc/sys/kernel/random/uuid)
    mkdir "$dir/mon" "$dir/osd" &&
        ceph-authtool --create-keyring "$dir/keyring" --gen-key -n mon. --cap mon 'allow *' &&
        monmaptool --create --addv a "[v1:127.0.0.1:$2]" \
            --fsid "$(sed -n 's/^fsid = //p' "$dir/ceph.conf")" "$dir/monmap" &&
        ceph-mon --mkfs -i a --monmap "$dir/monmap" --keyring "$dir/keyring" || return 1
    background ceph-mon -f -i a
    # A monitor that has not yet told its name refuses.
    wait_until "$ceph_patience_s" timeout 20 ceph mon stat && ceph osd new "$uuid" &&
        ceph-osd -i 0 --mkfs --osd-uuid "$uuid" &&
        ceph osd crush add osd.0 1.0 root=default || return 1
    background ceph-osd -f -i 0
}

s3_again() {
    background radosgw -f -n client.rgw
    # shellcheck disable=SC2034,SC2154 # of the test
    s3_pid=$t_pid
    wait_until "$ceph_patience_s" curl -sf -o /dev/null "$s3_endpoint/"
}

ceph_start_gateway() { # DIR PORT
    s3_endpoint=http://localhost:$2
    s3_again || return 1
    # The keys are drawn there, so that no command line shows them.
    radosgw-admin -n client.rgw user create --uid=test --display-name=test >"$1/user" || return 1
    AWS_ACCESS_KEY_ID=$(sed -n 's/.*"access_key": "\([^"]*\)".*/\1/p' "$1/user")
    AWS_SECRET_ACCESS_KEY=$(sed -n 's/.*"secret_key": "\(.*\)".*/\1/p' "$1/user" | sed 's,\\/,/,g')
    export AWS_ACCESS_KEY_ID AWS_SECRET_ACCESS_KEY
    [ -n "$AWS_ACCESS_KEY_ID" ] && [ -n "$AWS_SECRET_ACCESS_KEY" ]
}

s3_there() {
    local tool
    for tool in ceph ceph-mon ceph-osd radosgw radosgw-admin ceph-authtool monmaptool curl; do
        if ! command -v "$tool" >/dev/null; then
            # shellcheck disable=SC2034 # for the test
            s3_why="no $tool here (Debian's ceph-mon, ceph-osd, radosgw and curl)"
            return 1
        fi
    done
}

s3_up() {
    local ports dir=$T/ceph
    s3_forget_others
    mkdir "$dir"
    read -ra ports < <(s3_free_ports 3)
    export CEPH_CONF=$dir/ceph.conf
    if s3_make_certificate "$dir" >"$dir/start" 2>&1 </dev/null &&
        ceph_write_config "$dir" "${ports[@]}" &&
        ceph_start_cluster "$dir" "${ports[0]}" >"$dir/start" 2>&1 </dev/null &&
        ceph_start_gateway "$dir" "${ports[1]}" 2>>"$dir/start" </dev/null; then
        # shellcheck disable=SC2034 # for the test
        [ -z "$s3_ca" ] || s3_tls_endpoint=https://localhost:${ports[2]}
        return 0
    fi
    s3_endpoint=
    tail -n 5 "$dir"/start "$dir"/*.log
    return 1
}
