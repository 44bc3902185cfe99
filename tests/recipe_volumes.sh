#!/bin/bash
# timeout: 120
# Volumes in recipes: mounted for tasks, committed before they are done, gone afterwards.
. "$(dirname "$0")/lib.sh"
t_start "volumes in recipes"
. "$SOURCE/tests/mount.bash"
mount_possible || skip_all "$mount_why"

mounted() { # how many of this test's mounts there are
    grep -cE " $T/.* (fuse.drover|erofs) " /proc/mounts
}

none_mounted() {
    [ "$(mounted)" -eq 0 ]
}

no_mount_process() {
    ! pgrep -f "drover mount .*--for-node -- .* $T/" >/dev/null
}

mkdir files
for i in 0 1 2 3; do echo "number $i" >"files/$i.txt"; done
check "a volume for data" "$DROVER" volume create data --store "file://$PWD/data-store"
check "and one for results" "$DROVER" volume create results --store "file://$PWD/results-store"
"$DROVER" data put files data:/ >/dev/null
check "with a snapshot" "$DROVER" data snapshot data v1

# ---- drover run -------------------------------------------------------------------------------

cat >copy.yaml <<'END'
volumes: {in-put: data@v1}
experiments:
  copy:
    volumes: {out: results}
    parameters: {i: 0..3}
    command:
      - cat {{volumes.in-put}}/{{i}}.txt >{{volumes.out}}/{{i}}.copy
      - test "$DROVER_VOLUME_IN_PUT" = {{volumes.in-put}}
      - test "$DROVER_VOLUME_OUT" = {{volumes.out}}
      - if touch {{volumes.in-put}}/new; then exit 9; fi
END
check_output "a plan shows where volumes are used" 'cat volumes/in-put/2.txt >.?volumes/out' \
    "$DROVER" plan copy.yaml
check "a run reads a snapshot and writes to a volume" "$DROVER" run copy.yaml --state run --slots 2
check "nothing is mounted afterwards" none_mounted
check "nor left in the state folder" test ! -e run/volumes
check "no process is left" no_mount_process
check "what was written is in the volume" "$DROVER" data get results:/ got
check_equal "all of it" "number 0number 1number 2number 3" "$(cat got/*.copy | tr -d '\n')"

# ---- mistakes, before anything runs ------------------------------------------------------------

sed 's/out: results/out: reslts/' copy.yaml >wrong.yaml
check_exit 2 "a volume that is not in the list is an error" "$DROVER" run wrong.yaml --state wrong
check_output "with its place and a suggestion" \
    "^wrong.yaml:4:20: volume 'out': reslts: no volume of that name.*did you mean 'results'" \
    "$DROVER" run wrong.yaml --state wrong
check "and leaves nothing" test ! -e wrong
sed 's/data@v1/data@v2/' copy.yaml >wrong.yaml
check_output "so is a snapshot that is not there" \
    "^wrong.yaml:1:19: volume 'in-put': .* has no snapshot 'v2'" \
    "$DROVER" run wrong.yaml --state wrong
sed "s,data@v1,file://$PWD/nowhere," copy.yaml >wrong.yaml
check_exit 2 "and a store that is not there" "$DROVER" run wrong.yaml --state wrong

# ---- kill -9 ----------------------------------------------------------------------------------

cat >long.yaml <<'END'
experiments:
  long:
    volumes: {in: data@v1, out: results}
    parameters: {i: 0..1}
    command: cat {{volumes.in}}/{{i}}.txt >{{volumes.out}}/{{i}}.long; touch began.{{i}}; sleep 1
END
background "$DROVER" run long.yaml --state killed --slots 2
wait_until 10 test -e began.1
check_equal "while tasks run both volumes are mounted" 2 "$(mounted)"
kill -KILL "$t_pid"
wait "$t_pid" 2>/dev/null
check "after kill -9 the mounts are gone" wait_until 10 none_mounted
check "and their processes" wait_until 10 no_mount_process
check "the same run again finishes" "$DROVER" run long.yaml --state killed --slots 2
check_equal "with everything stored" "number 0number 1" \
    "$(for i in 0 1; do "$DROVER" data get "results:/$i.long" "long.$i" >/dev/null; cat "long.$i"; done | tr -d '\n')"
check "and nothing mounted" none_mounted

# Agent and mounts killed together leave dead mounts, which the next start cleans.
rm -f began.*
background "$DROVER" run long.yaml --state dead --slots 2
wait_until 10 test -e began.1
mapfile -t pids < <(pgrep -f "drover mount .*--for-node -- .* $T/")
check_equal "a process for each mount" 2 "${#pids[@]}"
kill -STOP "$t_pid"
kill -KILL "${pids[@]}"
kill -KILL "$t_pid"
wait "$t_pid" 2>/dev/null
check_equal "dead mounts are left" 2 "$(mounted)"
check "the same run again cleans up and finishes" "$DROVER" run long.yaml --state dead --slots 2
check "and nothing is mounted" none_mounted

# A mount that dies under its task: the attempt fails, and is tried again on a new one.
rm -f began.*
sed 's/  long:/&\n    retries: 2\n    backoff: 100ms/' long.yaml >again.yaml
background "$DROVER" run again.yaml --state again --slots 2 --plain
wait_until 10 test -e began.1
kill -KILL "$(pgrep -f "drover mount .*--for-node -- file://$PWD/results-store $T/")"
wait "$t_pid"
check_equal "a run outlives the death of a mount" 0 "$?"
check_output "by trying again" '^long +2 +2 +0 +0 +4 ' "$DROVER" status --state again
check "and nothing is mounted" none_mounted

# ---- checkpoints ------------------------------------------------------------------------------

cat >resume.yaml <<'END'
volumes: {checkpoint: results}
experiments:
  train:
    checkpoint: true
    retries: 1
    backoff: 100ms
    parameters: {i: 0..1}
    command: >-
      if test -e {{checkpoint}}/half; then cat {{checkpoint}}/half;
      else echo "half of {{i}}" >"$DROVER_CHECKPOINT"/half; exit 3; fi
END
check "a checkpoint lives in the volume of that name" "$DROVER" run resume.yaml --state resume
check_output "the second attempt finds it" '^half of 1$' "$DROVER" logs train/1 --state resume
check_output "below workflow, experiment and index" '^/resume-[0-9-]+/train/1/half$' \
    "$DROVER" data ls -r results:/

# ---- outputs ----------------------------------------------------------------------------------

cat >outputs.yaml <<'END'
volumes: {output: results}
experiments:
  make:
    parameters: {i: 0..3}
    outputs: made
    command: echo "made {{i}}" >{{output}}/made; sleep 0.2; test ! -e slow || sleep 5
  fail:
    allow_failure: true
    outputs: missing
    command: echo no >{{output}}/there
  nothing: {command: "true"}
  sum:
    depends_on: [make, nothing]
    volumes: {output: file:///none}
    command: cat {{make.output}}/*/made; ls -A {{make.output}}
END
sed -i "s,file:///none,file://$PWD/other-store," outputs.yaml
"$DROVER" volume create other --store "file://$PWD/other-store" >/dev/null
check "outputs live in the volume of that name" "$DROVER" run outputs.yaml --state outputs
check_equal "and are read from there" "made 0 made 1 made 2 made 3 0 1 2 3" \
    "$("$DROVER" logs sum/0 --state outputs | xargs)"
check_output "a promised one that is missing fails the task" 'an output is missing' \
    "$DROVER" tasks fail --state outputs
check_equal "only what was accepted is there" "0 1 2 3" \
    "$("$DROVER" data ls -r results:/ | sed -n 's,^/outputs-[0-9-]*/[a-z]*/\([^/]*\)/$,\1,p' | xargs)"
check "none of it on the master's disk" test ! -e outputs/attempts
touch slow
background "$DROVER" run outputs.yaml --state again-outputs --slots 2
wait_until 10 sh -c 'find again-outputs/volumes/*/outputs-*/make/.* -name made | grep -q .'
kill -KILL "$t_pid"
wait "$t_pid" 2>/dev/null
rm slow
check "after kill -9 the same run finishes" "$DROVER" run outputs.yaml --state again-outputs --slots 2
check_equal "with the same outputs" "made 0 made 1 made 2 made 3 0 1 2 3" \
    "$("$DROVER" logs sum/0 --state again-outputs | xargs)"

# ---- a server and two nodes -------------------------------------------------------------------

cat >read.yaml <<'END'
experiments:
  read:
    volumes: {in: data@v1}
    parameters: {i: 0..3}
    command: cat {{volumes.in}}/{{i}}.txt; sleep 0.5
END
background "$DROVER" serve --state serve
server=$t_pid
wait_until 10 test -s serve/join.url
background "$DROVER" node --join @serve/join.url --slots 2 --work node1
node1=$t_pid
background "$DROVER" node --join @serve/join.url --slots 2 --work node2 --no-share
node2=$t_pid
both_joined() {
    [ "$("$DROVER" nodes --state serve --json | grep -c '"name"')" -eq 2 ]
}
wait_until 10 both_joined
check "a snapshot is submitted by name" "$DROVER" submit read.yaml --state serve
check "and read by tasks of two nodes" "$DROVER" wait --state serve
check_equal "both of which mounted it" 2 "$(mounted)"
check_output "and read it right" '^number 3$' "$DROVER" logs read/3 --state serve
check_equal "on two nodes" 2 "$("$DROVER" tasks --state serve --json | grep -o '"node":"[^"]*"' | sort -u | wc -l)"
check_exit 2 "an unknown name is refused by submit" "$DROVER" submit wrong.yaml --state serve \
    --set 'copy.volumes.out=nobody'
check "a volume is written to from two nodes" "$DROVER" submit copy.yaml --state serve --wait
sed "s,data@v1,file://$PWD/nowhere," read.yaml >away.yaml
check_exit 1 "a store that no node can reach fails the task" \
    "$DROVER" submit away.yaml --state serve --wait
check_output "and is its reason, in its log" '^drover: volume file://.*/nowhere: ' \
    "$DROVER" logs read/0 --state serve

kill -KILL "$node1"
wait "$node1" 2>/dev/null
kill "$node2"
wait "$node2" 2>/dev/null
kill "$server"
wait "$server" 2>/dev/null
check "nothing is mounted when all have left" wait_until 10 none_mounted
check "and no process is left" wait_until 10 no_mount_process
