#!/bin/bash
# Gangs: all of it or none of it, at the start, when one is lost, and when others are in the way.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/cluster.bash"
t_start "gangs"

# A member says that it is here, and waits for the others of its attempt; alone it fails, after a
# while. Then it works until told otherwise.
cat >member.sh <<'END'
side=$1 index=$2 gang=$3 work=$4
group=$((index / gang))
here=$side/$group.$DROVER_ATTEMPT
echo "$index" >>"$here"
echo "+ $group.$DROVER_ATTEMPT" >>"$side/events"
trap 'echo "- $group.$DROVER_ATTEMPT" >>"$side/events"' EXIT
trap 'echo "$index $DROVER_ATTEMPT" >>"$side/told"; exit 1' TERM
n=0
until [ "$(wc -l <"$here")" -ge "$gang" ]; do
    n=$((n + 1))
    if [ $n -gt 150 ]; then
        echo "$index" >>"$side/alone"
        exit 3
    fi
    sleep 0.1
done
case $work in
until) until [ -e "$side/go" ]; do sleep 0.05; done ;;
fail) if [ "$DROVER_ATTEMPT" = 1 ] && [ $((index % gang)) = 1 ]; then exit 7; else sleep 0.3; fi ;;
bad) if [ $((index % gang)) = 1 ]; then exit 7; else until [ -e "$side/go" ]; do sleep 0.05; done; fi ;;
*) sleep "$work" ;;
esac
END

recipe() { # NAME COUNT GANG WORK KEYS
    mkdir "$1"
    cat >"$1.yaml" <<END
experiments:
  g:
    parameters: {i: 0..$(($2 - 1))}
    gang: $3
    grace: 5s
    $5
    command: exec bash $PWD/member.sh $PWD/$1 {{i}} $3 $4
END
}

check "a server starts" serve
node a --slots 2
node b --slots 2 --no-share
check "two nodes join" wait_until 10 are_here a b

# ---- all or nothing --------------------------------------------------------------------------------------

recipe plain 9 3 0.1 "retries: 0"
submit plain.yaml
check "three gangs of three on four processors" finished "$id"
check_equal "no member was ever alone" "" "$(cat plain/alone 2>/dev/null)"
check_equal "each in its first attempt" "3 3 3" "$(wc -l <plain/0.1) $(wc -l <plain/1.1) $(wc -l <plain/2.1)"

# While somebody else has two of the processors, a gang of three has to wait, whole.
printf 'experiments:\n  t: {parameters: {i: 0..1}, command: "until [ -e %s/off ]; do sleep 0.05; done"}\n' "$PWD" >block.yaml
submit block.yaml
block=$id
both_run() { [ "$(drover tasks "$block" --json | grep -c '"state":"running"')" = 2 ]; }
wait_until 10 both_run
recipe waits 3 3 0.1 "retries: 0"
submit waits.yaml
sleep 1
check_equal "a gang without room for all of it does not begin" 0 "$(lines_of waits/events)"
touch off
check "and begins when there is" finished "$id"
check_equal "whole" "" "$(cat waits/alone 2>/dev/null)"

recipe large 6 6 0.1 "retries: 0"
submit large.yaml
check_output "a gang that never has room is queued, and status says so" 'needs room for a gang of 6' drover status "$id"
node c --slots 2
check "until there is a node more" finished "$id"
kill "${pid_of[c]}"
wait_for "${pid_of[c]}"

# ---- a member is lost with its node ---------------------------------------------------------------------------

recipe lost 3 3 until "retries: 0"
submit lost.yaml
wait_until 10 has_lines lost/events 3
wait_until 5 task_has g/2 state running
victim=$(task_is g/0 node)
[ "$victim" = a ] && other=b || other=a
node c --slots 2
wait_until 10 are_here c
kill_hard "${pid_of[$victim]}"
check "when a node dies its gang begins again" wait_until 20 has_lines lost/0.2 3
wait_until 5 has_lines lost/told 1
check_equal "those that were left were told to end" "" "$(grep -v ' 1$' lost/told)"
touch lost/go
check "and all of it is done" finished "$id"
check_equal "in the second attempt of each" 3 "$(drover tasks "$id" --json | grep -c '"attempt":2,')"
check_equal "no member was ever alone, and no retry was used up" "" "$(cat lost/alone 2>/dev/null)"

# ---- a node is drained -------------------------------------------------------------------------------------------

node "$victim" --slots 2
wait_until 10 are_here "$victim" "$other" c
recipe moved 3 3 until "retries: 0"
submit moved.yaml
wait_until 10 has_lines moved/events 3
wait_until 5 task_has g/2 state running
from=$(task_is g/0 node)
drover nodes drain "$from" --now >/dev/null
check "when a node is drained its gang moves" wait_until 20 has_lines moved/0.2 3
check_equal "nothing of it is there" "" "$(drover tasks "$id" --json | grep "\"node\":\"$from\"")"
touch moved/go
check "and is done without a retry" finished "$id"
drover nodes drain "$from" --off >/dev/null

# ---- a member fails ------------------------------------------------------------------------------------------------

recipe fails 3 3 fail "{retries: 1, backoff: 100ms}"
sed -i 's/{retries: 1, backoff: 100ms}/retries: 1/' fails.yaml
submit fails.yaml
check "a gang of which one fails is tried again" finished "$id"
check_equal "as a whole" "3 3" "$(wc -l <fails/0.1) $(wc -l <fails/0.2)"
check_equal "no member was ever alone" "" "$(cat fails/alone 2>/dev/null)"
recipe broken 3 3 bad "retries: 0"
submit broken.yaml
check_exit 1 "one that fails for good takes its gang with it" finished "$id"
check_equal "the others are cancelled" 2 "$(drover tasks "$id" --json | grep -c '"state":"cancelled"')"

# ---- small tasks do not keep it out -----------------------------------------------------------------------------------

printf 'experiments:\n  s: {parameters: {i: 0..399}, command: "echo >>%s/small; sleep 0.1"}\n' "$PWD" >small.yaml
submit small.yaml
small=$id
wait_until 10 has_lines small 10
recipe large2 6 6 0.1 "retries: 0"
submit large2.yaml
check "a gang that needs every processor gets in between small tasks" finished "$id" 30
check_equal "of which many were left ($(lines_of small) of 400 had begun)" 1 "$(($(lines_of small) < 300))"
check_equal "whole" "" "$(cat large2/alone 2>/dev/null)"
drover cancel "$small" >/dev/null
stop_all
