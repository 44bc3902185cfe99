#!/bin/bash
# timeout: 150
# Tasks on many machines write to one volume, through an owner beside the server; whoever is killed.
. "$(dirname "$0")/lib.sh"
t_start "one volume, tasks on many nodes"
. "$SOURCE/tests/mount.bash"
mount_possible || skip_all "$mount_why"

mounted() { grep -cE " $T/.* (fuse.drover|erofs) " /proc/mounts; }
none_mounted() { [ "$(mounted)" -eq 0 ]; }
owner_pid() { pgrep -f "drover meta .*--state $PWD/serve/volumes/"; }
has_owner() { [ -n "$(owner_pid)" ]; }
no_owner() { ! has_owner; }
serve() {
    background "$DROVER" serve --state serve --listen 127.0.0.1:0
    server=$t_pid
    wait_until 20 test -s serve/api.url
}
node() { # NAME [options] : on a disk of its own; as another machine where that can be played
    local name=$1
    shift
    if unshare --uts true 2>/dev/null; then
        background unshare --uts sh -c 'hostname "$1"; shift; exec "$@"' - "$name" "$DROVER" node \
            --join @serve/join.url --slots 2 --work "$name" --no-share --label "$name" "$@"
    else
        background "$DROVER" node --join @serve/join.url --slots 2 --work "$name" --no-share --label "$name" "$@"
    fi
}
joined() { # COUNT
    [ "$("$DROVER" nodes --state serve --json | grep -o '"name"' | wc -l)" -ge "$1" ]
}

check "a volume" "$DROVER" volume create shared --store "file://$PWD/store"
serve
node one
node1=$t_pid
node two
node2=$t_pid
check "two machines join" wait_until 20 joined 2

# ---- both write at the same time ----------------------------------------------------------------

cat >write.yaml <<'END'
experiments:
  write:
    volumes: {out: shared}
    parameters: {i: 0..15}
    command:
      - hostname >{{volumes.out}}/{{i}}
      - sleep 0.2
END
check "tasks on two machines write to one volume" "$DROVER" submit write.yaml --state serve --wait
check "nobody had to say how: its owner runs beside the server" has_owner
check_equal "what they wrote is stored when they have ended" 16 "$("$DROVER" data ls shared:/ | wc -l)"
check_equal "and each sees it all through its mount" "16 16" \
    "$(for n in one two; do find "$n/volumes/1" -mindepth 1 | wc -l; done | paste -sd ' ')"
check_equal "its secret is for nobody else to read" "600 600 600" \
    "$(stat -c %a serve/volumes/*/volume.url one/volumes/*.url two/volumes/*.url | paste -sd ' ')"
check "nor in a command line" sh -c '! pgrep -af "drover (meta|mount)" | grep -q secret='

# ---- a machine vanishes: its task's checkpoint is on the other ----------------------------------

cat >train.yaml <<'END'
volumes: {checkpoint: shared}
experiments:
  train:
    checkpoint: true
    retries: 3
    backoff: 100ms
    command: >-
      if test -e {{checkpoint}}/half; then echo "went on at $(hostname) from $(cat {{checkpoint}}/half)";
      else hostname >{{checkpoint}}/new; sync {{checkpoint}}/new; mv {{checkpoint}}/new {{checkpoint}}/half;
      sync {{checkpoint}}; touch "$BEGAN"; sleep 60; fi
END
BEGAN=$PWD/began
sed -i "s,\"\$BEGAN\",$BEGAN," train.yaml
"$DROVER" submit train.yaml --state serve >submitted
check "a task has written a checkpoint" wait_until 20 test -e "$BEGAN"
if "$DROVER" tasks --state serve --json | grep -q '"node":"one"'; then
    lost=$node1 stays=$node2
else
    lost=$node2 stays=$node1
fi
kill -KILL "$lost"
wait "$lost" 2>/dev/null
check "its machine is lost, and it goes on at the other" "$DROVER" wait --state serve
check_output "from the checkpoint" 'went on at .* from ' "$DROVER" logs train/0 --state serve

# ---- the server and the owner are killed ---------------------------------------------------------

node three
node3=$t_pid
check "a third machine joins" wait_until 20 joined 3
cat >slow.yaml <<'END'
experiments:
  slow:
    volumes: {out: shared}
    parameters: {i: 0..3}
    retries: 2
    command:
      - mkdir {{volumes.out}}/slow.{{i}}.$DROVER_ATTEMPT
      - for k in 1 2 3 4 5 6 7 8 9 10; do echo $k >{{volumes.out}}/slow.{{i}}.$DROVER_ATTEMPT/$k; sleep 0.2; done
      - cat {{volumes.out}}/slow.{{i}}.$DROVER_ATTEMPT/* | wc -l >{{volumes.out}}/done.{{i}}
END
"$DROVER" submit slow.yaml --state serve >submitted
began() { ls -d "$PWD"/*/volumes/*/slow.* >/dev/null 2>&1; }
check "tasks write" wait_until 20 began
kill -KILL "$(owner_pid)"
check "the owner is killed, and comes back" wait_until 20 has_owner
sleep 0.5
kill -KILL "$server"
wait "$server" 2>/dev/null
check "the server is killed: its owner leaves" wait_until 20 no_owner
rm -f serve/api.url
serve
check "the next server's owner takes its place" wait_until 20 has_owner
check "and the tasks finish" "$DROVER" wait --state serve
check_equal "all they wrote is there" "10 10 10 10" \
    "$(for i in 0 1 2 3; do "$DROVER" data get "shared:/done.$i" "got.$i" >/dev/null 2>&1 && cat "got.$i"; done | paste -sd ' ')"

# ---- somebody else has it ------------------------------------------------------------------------

check "another volume" "$DROVER" volume create mine --store "file://$PWD/mine"
mkdir hand
check "that a user has mounted" "$DROVER" mount mine hand
sed 's/shared/mine/; s/0\.\.15/0..0/' write.yaml >mine.yaml
check_exit 1 "cannot be written to by tasks" "$DROVER" submit mine.yaml --state serve --wait
check_output "and they say why" 'mine.*has an owner' "$DROVER" logs write/0 --state serve
"$DROVER" unmount hand

kill "$stays" "$node3"
wait "$stays" "$node3" 2>/dev/null
kill "$server"
wait "$server" 2>/dev/null
check "nothing is mounted when all have left" wait_until 20 none_mounted
check "and no owner is left" wait_until 20 no_owner
check_output "the volume is sound" 'sound|nothing wrong|ok' "$DROVER" volume fsck shared
