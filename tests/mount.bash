# shellcheck shell=bash
# tests/mount.bash - volumes and mounts for a test. After lib.sh:
#
#     mount_possible || skip_all "$mount_why"
#     mount_on VOLUME [options]     # at $M; what is mounted below $T is ended with the test
#     mount_off
#     mount_kill                    # kill -9, and the folder is taken out of the table
#     $FILETEST                     # tests/tools/filetest.c

M=$T/m
mount_why=
# shellcheck disable=SC2034 # for the tests
FILETEST=$DROVER_BUILD/tests/filetest

mount_possible() {
    if [ ! -e /dev/fuse ] || ! [ -r /dev/fuse ]; then
        mount_why="no /dev/fuse to be used here"
        return 1
    fi
    mkdir -p "$T/probe" "$T/probe-store"
    if ! "$DROVER" volume create probe --store "file://$T/probe-store" >/dev/null ||
        ! "$DROVER" mount probe "$T/probe" >"$T/harness/probe" 2>&1; then
        # shellcheck disable=SC2034 # for the tests
        mount_why="mounting is not possible here: $(tail -n 1 "$T/harness/probe")"
        return 1
    fi
    "$DROVER" unmount "$T/probe"
    "$DROVER" volume delete probe
    mkdir -p "$M"
    trap mount_end EXIT
}

mount_pid() { # the process that serves $M
    mount_stat pid
}

mount_stat() { # KEY : of what the mount says of itself
    "$DROVER" mount --stats --json "$M" 2>/dev/null |
        python3 -c 'import json, sys; print(json.load(sys.stdin)[sys.argv[1]])' "$1" 2>/dev/null
}

mount_on() { # VOLUME [options]
    "$DROVER" mount "$@" "$M"
}

mount_off() {
    "$DROVER" unmount "$M"
}

mount_kill() {
    local pid
    pid=$(mount_pid) || return 1
    kill -KILL "$pid"
    wait_until 5 umount "$M" || umount -l "$M"
}

# Whatever goes wrong, nothing stays mounted below the folder that is removed.
mount_end() {
    local status=$? folder
    awk -v t="$T/" 'index($2, t) == 1 && ($3 == "fuse.drover" || $3 == "erofs") { print $2 }' /proc/mounts |
        while read -r folder; do
            (M=$folder mount_kill || umount -l "$folder") 2>/dev/null </dev/null
        done
    (exit "$status")
    t_end
}
