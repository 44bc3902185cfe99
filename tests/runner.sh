#!/bin/bash
# The test runner and the harness themselves: a fault that they miss is a fault nobody sees.
. "$(dirname "$0")/lib.sh"
t_start "the test runner"

mkdir suite
cp "$SOURCE/tests/lib.sh" suite/lib.sh
write() { # NAME BODY
    printf '. "$(dirname "$0")/lib.sh"\nt_start "%s"\n%s\n' "$1" "$2" >"suite/$1.sh"
}
run_suite() { # PATTERN : output in file out, last line in file last
    TESTS_DIR=$PWD/suite TEST_TIMEOUT=2 "$SOURCE/tests/run" e2e "$1" >out 2>&1
    local status=$?
    tail -n 1 out >last
    return "$status"
}
gone() { # PIDFILE
    ! kill -0 "$(cat "$1")" 2>/dev/null
}

write good 'check "true is true" true; check_exit 1 "false is false" false
            check_output "echo echoes" "^b+$" echo bbb; skip "not today"'
check "a suite that passes exits 0" run_suite good
check_equal "and ends with its count" "3 passed, 0 failed, 1 skipped" "$(cat last)"

write bad 'check "true is true" true; check "false is true" false'
check_exit 1 "a failure makes it exit 1" run_suite bad
check_equal "and is counted" "1 passed, 1 failed" "$(cat last)"
check "and its output is shown" grep -q 'not ok - false is true' out

write empty ':'
check_exit 1 "a test that checks nothing has failed" run_suite empty
write broken 'check "true is true" true; exit 7'
check_exit 1 "a script that breaks off has failed" run_suite broken
check_equal "and what went well is still counted" "1 passed, 1 failed" "$(cat last)"
check_exit 1 "no test at all is a failure" run_suite nothing-is-called-this
check_equal "and says so" "0 passed, 0 failed" "$(cat last)"

write hang "check 'true is true' true; echo \$\$ >$PWD/hang.pid; sleep 60 & wait"
check_exit 1 "a test that hangs is killed" run_suite hang
check "and does not live on" gone hang.pid

write orphan "check 'true is true' true; (setsid sleep 60 >/dev/null 2>&1 & echo \$! >$PWD/orphan.pid)"
check_exit 1 "a test that leaves a process behind has failed" run_suite orphan
check "and the process is named" grep -q 'left processes behind: .*sleep 60' out
check "and killed" gone orphan.pid

write litter 'check "true is true" true; touch "$TMPDIR/litter"'
check_exit 1 "a test that leaves a file behind has failed" run_suite litter

write child "background sleep 60; echo \$t_pid >$PWD/child.pid; check 'it runs' kill -0 \$t_pid"
check "what a test put into the background goes with it" run_suite child
check "and is gone" gone child.pid
