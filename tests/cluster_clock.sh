#!/bin/bash
# The date jumps, on a node and on the master: nothing is lost, nothing is run again.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/cluster.bash"
t_start "clocks that jump"
command -v cc >/dev/null || skip_all "no compiler to make a clock that jumps"
[[ $DROVER_BUILD == *asan* ]] && skip_all "a sanitizer wants to be loaded first"

# What a process takes for the date is that of the file it finds in CLOCK_FILE, in seconds, further.
cat >clock.c <<'END'
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>
static long offset(void)
{
    char text[32] = "";
    int fd = open(getenv("CLOCK_FILE"), O_RDONLY | O_CLOEXEC);
    if (fd >= 0) {
        (void)!read(fd, text, sizeof text - 1);
        close(fd);
    }
    return atol(text);
}
int clock_gettime(clockid_t clock, struct timespec *at)
{
    int code = (int)syscall(SYS_clock_gettime, clock, at);
    if (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE) {
        at->tv_sec += offset();
    }
    return code;
}
time_t time(time_t *out)
{
    struct timespec at;
    clock_gettime(CLOCK_REALTIME, &at);
    if (out) {
        *out = at.tv_sec;
    }
    return at.tv_sec;
}
int gettimeofday(struct timeval *restrict out, void *restrict zone)
{
    struct timespec at;
    (void)zone;
    clock_gettime(CLOCK_REALTIME, &at);
    out->tv_sec = at.tv_sec;
    out->tv_usec = at.tv_nsec / 1000;
    return 0;
}
END
cc -shared -fPIC -O1 -w -o clock.so clock.c || skip_all "the clock cannot be built"

jump() { # WHO SECONDS
    echo "$2" >"$1.clock.tmp"
    mv "$1.clock.tmp" "$1.clock"
}

jump master 0
jump a 0
jump b 0
export LD_PRELOAD=$PWD/clock.so CLOCK_FILE=$PWD/master.clock
check_equal "a process can be told another date" "$(($(date +%Y) + 10))" \
    "$(jump a 315576000; CLOCK_FILE=$PWD/a.clock date +%Y; jump a 0)"

mkdir ran
cat >task.sh <<'END'
echo "$DROVER_ATTEMPT" >>"$1/$2.began"
trap 'echo "$DROVER_ATTEMPT" >>"$1/$2.told"' TERM
until [ -e "$1/go" ]; do sleep 0.05; done
echo "$DROVER_ATTEMPT" >>"$1/$2.ended"
END
cat >work.yaml <<END
experiments:
  work:
    parameters: {i: 0..3}
    timeout: 1h
    command: exec bash $PWD/task.sh $PWD/ran {{i}}
END
cat >short.yaml <<END
experiments:
  short: {parameters: {i: 0..19}, retries: 3, backoff: 500ms, command: "[ {{i}} != 3 ] || [ {{attempt}} = 2 ]"}
END

check "a server starts" serve
CLOCK_FILE=$PWD/a.clock node a --slots 2
CLOCK_FILE=$PWD/b.clock node b --slots 3 --no-share
check "two nodes join" wait_until 10 are_here a b
submit work.yaml
long=$id
began() { [ "$(find ran -name '*.began' | wc -l)" = 4 ]; }
check "tasks with a time limit run" wait_until 10 began

for who in a b master; do
    for by in 86400 -86400 3000000 0; do
        jump "$who" "$by"
        sleep 0.4
        if ! are_here a b; then
            t_not_ok "the clock of $who jumps by $by seconds: both nodes stay" "$(drover nodes)"
        fi
    done
    jump "$who" 7200
    submit short.yaml
    check "the clock of $who has jumped: work is done, retries too" finished "$id" 20
    jump "$who" -7200
    submit short.yaml
    check "and back: work is done, retries too" finished "$id" 20
done
check_equal "the tasks that ran meanwhile noticed nothing" "" "$(cat ran/*.told ran/*.ended 2>/dev/null)"

# A master whose clock was put back while it was down: two hours later by its own log it is earlier.
kill_hard "$server"
jump master -100000
check "a master starts in its own past" serve
check "its nodes come back" wait_until 15 are_here a b
submit short.yaml
check "and work is done" finished "$id" 20
touch ran/go
id=$long
check "the tasks that ran all the time end" finished "$id" 20
check_equal "in their first attempts" "1 1 1 1 1 1 1 1" "$(cat ran/*.began ran/*.ended | paste -sd ' ')"

# Two days later an old join.url is worth nothing; whoever has joined by it stays.
cp "$STATE/join.url" old.url
kill_hard "$server"
jump master 100000
check "the master starts two days later" serve
check_equal "join.url is another" 1 "$(cmp -s old.url "$STATE/join.url"; echo $?)"
check_exit 1 "nobody gets in with the old one" timeout 20 "$DROVER" node --join @old.url --name old --work old.work
check_output "who tries is told what to do" 'wrong or has expired; take the newest join.url' \
    timeout 20 "$DROVER" node --join @old.url --name old --work old.work
check "those who joined by it are here" wait_until 15 are_here a b
stop_all
