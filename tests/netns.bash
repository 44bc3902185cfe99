# shellcheck shell=bash
# tests/netns.bash - hosts with addresses and cables of their own on one machine, for tests: each is a
# network namespace with one cable to a bridge. They share the file system and the processes.
#
#     net_up 2 || skip_all "..."      # hosts 1 and 2; $net_master is the address of this side
#     "${net_on[1]}" is a prefix:     ${net_on[1]} command...
#     net_cut 1; net_cut_from 1; net_cut_to 1; net_heal 1
#     net_down                        # also at exit, by the trap that net_up sets

net_block=$((1 + $$ % 250))
net_master=10.79.$net_block.1
net_made=()
declare -A net_on

net_space() { # HOST
    echo "dcln$net_block-$1"
}

net_cable() { # HOST : its end at the bridge
    echo "dcl$net_block-$1"
}

net_address() { # HOST
    echo "10.79.$net_block.$((10 + $1))"
}

net_add_host() { # HOST
    local space cable
    space=$(net_space "$1")
    cable=$(net_cable "$1")
    ip netns add "$space" || return 1
    net_made+=("ip netns del $space")
    ip link add "$cable" type veth peer name eth0 netns "$space" || return 1
    net_made+=("ip link del $cable") # a namespace may linger after its end
    ip link set "$cable" master "dcl$net_block" up &&
        ip -n "$space" link set lo up &&
        ip -n "$space" addr add "$(net_address "$1")/24" dev eth0 &&
        ip -n "$space" link set eth0 up || return 1
    net_on[$1]="ip netns exec $space"
}

net_try_up() { # COUNT
    local host
    ip link add "dcl$net_block" type bridge || return 1
    net_made+=("ip link del dcl$net_block")
    ip addr add "$net_master/24" dev "dcl$net_block" && ip link set "dcl$net_block" up || return 1
    for ((host = 1; host <= $1; host++)); do
        net_add_host "$host" || return 1
    done
}

# Another test may have the same block: the next one is tried then.
net_up() { # COUNT
    local try
    command -v ip >/dev/null || return 1
    trap net_end EXIT
    for ((try = 0; try < 3; try++)); do
        net_try_up "$1" 2>/dev/null && return 0
        net_down
        net_block=$((1 + (net_block + 83) % 250))
        net_master=10.79.$net_block.1
    done
    return 1
}

net_down() {
    local i
    for ((i = ${#net_made[@]} - 1; i >= 0; i--)); do
        ${net_made[i]} 2>/dev/null
    done
    net_made=()
    for i in "${!net_on[@]}"; do
        ip route del blackhole "$(net_address "$i")/32" 2>/dev/null
    done
}

net_end() {
    local status=$?
    net_down
    (exit "$status")
    t_end
}

net_cut() { # HOST
    ip link set "$(net_cable "$1")" down
}

net_cut_from() { # HOST : what it sends is lost
    ip -n "$(net_space "$1")" route add blackhole "$net_master/32"
}

net_cut_to() { # HOST : what is sent to it is lost
    ip route add blackhole "$(net_address "$1")/32"
}

net_heal() { # HOST
    ip link set "$(net_cable "$1")" up
    ip -n "$(net_space "$1")" route del blackhole "$net_master/32" 2>/dev/null
    ip route del blackhole "$(net_address "$1")/32" 2>/dev/null
    true
}
