# shellcheck shell=bash
# tests/lib.sh - the harness of the end-to-end tests. A test is a script that begins
#
#     . "$(dirname "$0")/lib.sh"
#     t_start "what this file is about"
#
# and then says sentences:
#
#     check "a good recipe is accepted" "$DROVER" check good.yaml
#     check_exit 2 "a wrong recipe is refused" "$DROVER" check wrong.yaml
#     check_output "the cycle is named" 'cycle: a -> b -> a' "$DROVER" check cycle.yaml
#     check_equal "each task ran once" 100 "$(wc -l <ran)"
#     background "$DROVER" run long.yaml   # sets t_pid; killed at the end if still there
#     wait_until 5 test -s started
#
# Each sentence prints one line, "ok - …" or "not ok - …" with what was seen; `skip "why"` prints
# "skip - why", skip_all also ends the test. The script runs in its own folder $T, removed at exit.
# The program under test is $DROVER, the sources are in $SOURCE, the build folder is $DROVER_BUILD.

set -u

SOURCE=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
DROVER_BUILD=${DROVER_BUILD:-$SOURCE/build}
DROVER=${DROVER:-$DROVER_BUILD/drover}
T=
t_failed=0
t_pids=()
t_pid=

t_start() { # NAME
    T=$(mktemp -d "${TMPDIR:-/tmp}/drover-test.XXXXXX") || exit 1
    mkdir "$T/work" "$T/harness"
    cd "$T/work" || exit 1
    # Nothing of the user's own may reach a test, or be touched by it.
    export HOME=$T/work LC_ALL=C.UTF-8
    unset XDG_DATA_HOME XDG_STATE_HOME XDG_CONFIG_HOME
    trap t_end EXIT
    trap 'exit 1' INT TERM
    echo "# $1"
}

t_end() {
    local status=$? pid
    trap - EXIT
    for pid in "${t_pids[@]+"${t_pids[@]}"}"; do
        # Still our child (unreaped), so the number cannot belong to anyone else.
        if t_is_child "$pid"; then
            kill -KILL "$pid" 2>/dev/null
            wait "$pid" 2>/dev/null
        fi
    done
    cd / || true
    chmod -R u+rwX "$T" 2>/dev/null
    rm -rf "$T"
    if [ "$status" -eq 0 ] && [ "$t_failed" -gt 0 ]; then
        status=1
    fi
    exit "$status"
}

t_is_child() { # PID
    [ "$(sed -n 's/^PPid:[[:space:]]*//p' "/proc/$1/status" 2>/dev/null)" = "$$" ]
}

t_ok() { # SENTENCE
    echo "ok - $1"
}

t_not_ok() { # SENTENCE [DETAIL...]
    local detail
    echo "not ok - $1"
    shift
    for detail in "$@"; do
        printf '%s\n' "$detail" | sed 's/^/#   /'
    done
    t_failed=$((t_failed + 1))
}

# Runs a command with its output in $T/harness/out; t_status is its exit code.
t_run() { # COMMAND...
    t_status=0
    "$@" >"$T/harness/out" 2>&1 </dev/null || t_status=$?
}

t_seen() {
    head -c 4000 "$T/harness/out" | tr -d '\000'
}

check() { # SENTENCE COMMAND...
    check_exit 0 "$@"
}

check_exit() { # CODE SENTENCE COMMAND...
    local code=$1 sentence=$2
    shift 2
    t_run "$@"
    if [ "$t_status" -eq "$code" ]; then
        t_ok "$sentence"
    else
        t_not_ok "$sentence" "$*" "exit $t_status, not $code; it printed:" "$(t_seen)"
    fi
}

# The output, stdout and stderr together, has a line that matches the extended regular expression.
check_output() { # SENTENCE REGEX COMMAND...
    local sentence=$1 regex=$2
    shift 2
    t_run "$@"
    if grep -qE -e "$regex" "$T/harness/out"; then
        t_ok "$sentence"
    else
        t_not_ok "$sentence" "$*" "exit $t_status; nothing matches '$regex' in:" "$(t_seen)"
    fi
}

check_no_output() { # SENTENCE REGEX COMMAND...
    local sentence=$1 regex=$2
    shift 2
    t_run "$@"
    if grep -qE -e "$regex" "$T/harness/out"; then
        t_not_ok "$sentence" "$*" "exit $t_status; '$regex' is in:" "$(t_seen)"
    else
        t_ok "$sentence"
    fi
}

check_equal() { # SENTENCE EXPECTED ACTUAL
    if [ "$2" = "$3" ]; then
        t_ok "$1"
    else
        t_not_ok "$1" "expected: $2" "was:      $3"
    fi
}

skip() { # WHY
    echo "skip - $1"
}

skip_all() { # WHY
    skip "$1"
    exit 0
}

# Starts a command; t_pid is its process. Its output goes to $T/harness/background.N unless the
# caller redirects it.
background() { # COMMAND...
    "$@" </dev/null >"$T/harness/background.${#t_pids[@]}" 2>&1 &
    t_pid=$!
    t_pids+=("$t_pid")
}

# Waits for a background process; t_status is its exit code (128 + N: it died of signal N).
wait_for() { # PID
    t_status=0
    wait "$1" || t_status=$?
}

wait_until() { # SECONDS COMMAND... : true as soon as the command is
    local deadline=$((SECONDS + $1))
    shift
    until "$@" >/dev/null 2>&1; do
        if [ "$SECONDS" -ge "$deadline" ]; then
            return 1
        fi
        sleep 0.02
    done
}
