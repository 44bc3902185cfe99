#!/bin/bash
# What nodes and tasks use: measured, sent, kept over a restart, shown by top.
. "$(dirname "$0")/lib.sh"
t_start "utilisation"

cat >burn.yaml <<'END'
experiments:
  burn:
    command: timeout 7 sh -c 'while :; do :; done' || true
    parameters: { i: { values: 0..1 } }
  short:
    command: 'true'
END

background "$DROVER" serve --state state --listen 127.0.0.1:0
server=$t_pid
wait_until 10 test -s state/join.url
check_exit 3 "top says that nobody answers" env DROVER_SERVER=http://127.0.0.1:1 DROVER_TOKEN=x \
    "$DROVER" top --once
check_output "top shows a server without nodes" 'no node has joined' \
    "$DROVER" top --once --state state
check_exit 2 "an interval must be one" "$DROVER" top --interval never --state state

background "$DROVER" node --join @state/join.url --slots 2 --name ox --price 3.6 --quiet
node=$t_pid
check "the work is submitted" "$DROVER" submit burn.yaml --no-sync --state state
look() { # JSON of top, once
    "$DROVER" top --once --json --state state
}
two_run() {
    look | grep -q '"running":2,.*"name":"ox".*"tasks":2,"slots":2,"cpu":[0-9]*[.1-9]'
}
check "top sees two tasks and what the node uses" wait_until 10 two_run
check_output "top shows the workflow and how much is left" 'burn.* [01]/3 ' \
    "$DROVER" top --once --state state
check_output "top shows what it costs" 'cost [0-9.]*, 3.60/h' "$DROVER" top --once --state state

# On a terminal: keys are typed one after the other, and what was sent is written to a file.
cat >terminal.py <<'END'
import fcntl, os, pty, select, struct, sys, termios, time
pid, fd = pty.fork()
if pid == 0:
    os.environ["TERM"] = "xterm"
    os.execvp(sys.argv[2], sys.argv[2:])
fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
seen = b""
for key, wanted in ((b"", b"sort: busy"), (b"s", b"sort: tasks"), (b"n", b"n all"), (b"q", None)):
    os.write(fd, key)
    end = time.time() + 10
    while time.time() < end and (wanted is None or wanted not in seen):
        if select.select([fd], [], [], 0.1)[0]:
            try:
                seen += os.read(fd, 65536)
            except OSError:
                break
open(sys.argv[1], "wb").write(seen)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
END
if command -v python3 >/dev/null; then
    check "top runs on a terminal until q" python3 terminal.py screen "$DROVER" top --state state
    check_output "s sorts by something else" 'sort: tasks' cat screen
    check_output "n shows only nodes" 'n all' cat screen
    check_equal "and the terminal is put back" $'\033[?25h\033[?1049l' "$(tail -c 14 screen)"
fi
check "the workflow ends" "$DROVER" wait --state state

ask() { # QUERY
    curl -sS -H "Authorization: Bearer $(cat state/admin.token)" \
        "$(cat state/api.url)/api/v1/usage?$1"
}
workflow=$("$DROVER" list --state state --json | sed 's/.*"id":"\([^"]*\)".*/\1/' | head -n 1)
count() { # QUERY : samples with some use of the processor
    ask "$1" | grep -oE '"cpu":[0-9]*\.?[0-9]*[1-9]' | wc -l
}
check "a task that took long has a series" test "$(count "task=$workflow/burn/0")" -ge 2
check_equal "a short one has none" 0 "$(count "task=$workflow/short/0")"
check "a node has a series" test "$(count node=ox)" -ge 3
seen=$(count "task=$workflow/burn/1")

kill "$node"
wait "$node"
kill "$server"
wait "$server"
check "samples are on disk" test -n "$(find state/usage -path '*/nodes/*' -size +0)"
background "$DROVER" serve --state state --listen 127.0.0.1:0
server=$t_pid
is_served() {
    curl -sf "$(cat state/api.url)/healthz"
}
wait_until 10 is_served
check_equal "they are there after a restart" "$seen" "$(count "task=$workflow/burn/1")"
check_output "a step averages" '^\{"items":\[\{[^{]*\}\]' ask "task=$workflow/burn/1&step=3600"
kill "$server"
wait "$server"
