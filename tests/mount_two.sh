#!/bin/bash
# timeout: 300
# Two mounts of one volume through its owner: what one closes the other sees, whoever is killed.
. "$(dirname "$0")/lib.sh"
t_start "one volume, many machines"
. "$SOURCE/tests/mount.bash"
mount_possible || skip_all "$mount_why"

A=$T/a
B=$T/b
mkdir "$A" "$B"
STATE=$T/meta
seed=${SEED:-$RANDOM}
rounds=${META_KILLS:-4}
echo "# seed $seed, $rounds rounds (SEED, META_KILLS)"

meta_on() { # [options]
    "$DROVER" meta "$V" --state "$STATE" --lease 3000 "$@" >>"$T/meta.out" 2>>"$T/meta.err" &
    meta_pid=$!
    t_pids+=("$meta_pid")
}
meta_off() { # SIGNAL
    kill "-$1" "$meta_pid"
    wait "$meta_pid" 2>/dev/null
}
is_served() { [ "$(grep -c 'serving at' "$T/meta.out")" -eq "$1" ]; }
kill_mount() { # FOLDER
    M=$1 mount_kill
}
V=two-$$ # found by its name among all mounts of this machine
"$DROVER" volume create "$V" --store "file://$PWD/store" >/dev/null
meta_on
check "the owner serves" wait_until 20 is_served 1
check_equal "its address is nobody else's to read" 600 "$(stat -c %a "$STATE/volume.url")"
check "a mount through it" "$DROVER" mount "@$STATE/volume.url" "$A"
check "another" "$DROVER" mount "@$STATE/volume.url" "$B"
sed 's/secret=..../secret=0000/' "$STATE/volume.url" >wrong.url
check_exit 1 "a wrong secret is refused" "$DROVER" mount @wrong.url "$M"
check_output "and said so" 'secret' "$DROVER" mount @wrong.url "$M"
echo junk >junk.url
check_output "what is no address is named" 'junk.url: no address' "$DROVER" mount --foreground @junk.url "$M"
check_output "who opens the volume beside it is told who has it" 'drover meta' "$DROVER" mount "$V" "$M"

echo one >"$A/f"
check_equal "what one closes the other sees" one "$(cat "$B/f")"
echo three >"$B/f"
check_equal "and the other way" three "$(cat "$A/f")"
exec 5<"$B/f"
rm "$A/f"
check_equal "removed at one, it is read where it is open" three "$(cat <&5)"
check_exit 1 "but has no name" test -e "$B/f"
exec 5<&-
cat >moved.py <<'PY'
import ctypes, os, sys
a, b = sys.argv[1:]
os.makedirs(a + "/m/one/below")
os.mkdir(a + "/m/two")
os.mkdir(a + "/m/cwd")
for name in ("", "/one", "/one/below", "/two", "/cwd"):
    os.stat(b + "/m" + name)
os.rename(a + "/m/one", a + "/m/two/three")
os.rename(b + "/m/two/three", b + "/m/four")  # rename(2) alone: nothing has looked at it before
assert sorted(os.listdir(b + "/m")) == ["cwd", "four", "two"], os.listdir(b + "/m")
os.rename(b + "/m/four", b + "/m/two/one")
os.rename(a + "/m/two/one", a + "/m/one")  # back to where this mount has had it
assert os.listdir(a + "/m/one") == os.listdir(b + "/m/one") == ["below"]
os.chdir(b + "/m/cwd")
open("file", "w").close()
os.rename(b + "/m/cwd", b + "/m/moved")
assert os.getcwd() == b + "/m/moved", os.getcwd()
os.rename(a + "/m/moved", a + "/m/one/moved")
assert os.listdir(".") == ["file"]
assert os.listdir(b + "/m/one/moved") == ["file"]
libc = ctypes.CDLL(None, use_errno=True)
os.makedirs(b + "/x/left")
os.makedirs(b + "/y/z/right")
for mine, there in ((b + "/x", b + "/y/z"), (b + "/y/z", b + "/x")):
    os.chdir(mine)
    number, content = os.stat(".").st_ino, os.listdir(".")
    done = libc.renameat2(-100, (b + "/x").encode(), -100, (b + "/y/z").encode(), 2)
    assert done == 0, os.strerror(ctypes.get_errno())
    os.stat(there)
    os.stat(mine)
    assert os.getcwd() == there, os.getcwd()
    assert os.stat(there).st_ino == number and os.listdir(there) == content
    assert os.listdir(a + there[len(b):]) == content
PY
check "a folder that one moves the other moves on, and who is in it stays there" python3 moved.py "$A" "$B"
head -c 9000000 /dev/urandom >big
cp big "$A/big"
check "a large file" cmp big "$B/big"
cat >locks.py <<'PY'
import fcntl, subprocess, sys, time
def soon(file):  # the kernel tells of a last close a moment later
    for _ in range(200):
        try:
            return fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            time.sleep(0.05)
    sys.exit("a lock of a closed file is still held")
a, b = open(sys.argv[1], "w"), open(sys.argv[2], "r+")
fcntl.flock(a, fcntl.LOCK_EX)
try:
    fcntl.flock(b, fcntl.LOCK_EX | fcntl.LOCK_NB)
    sys.exit("a lock that is held was given")
except BlockingIOError:
    pass
wait = "import fcntl, sys; fcntl.flock(open(sys.argv[1], 'r+'), fcntl.LOCK_EX)"
waiter = subprocess.Popen([sys.executable, "-c", wait, sys.argv[2]])
time.sleep(0.7)
assert waiter.poll() is None, "the waiter did not wait"
fcntl.flock(a, fcntl.LOCK_UN)
assert waiter.wait(20) == 0
fcntl.flock(a, fcntl.LOCK_SH)
fcntl.flock(b, fcntl.LOCK_SH)
a.close()
soon(b)
waiter = subprocess.Popen([sys.executable, "-c", wait, sys.argv[1]])
time.sleep(0.5)
waiter.terminate()
waiter.wait(20)
b.close()
with open(sys.argv[1], "r+") as c:
    soon(c)
PY
check "locks hold between them" timeout 60 python3 locks.py "$A/lock" "$B/lock"
cat >impatient.py <<'PY'
# Who is interrupted while he waits for a lock tries again at once; inside there is never more than one.
import fcntl, os, random, signal, sys, time
class Interrupted(Exception):
    pass
def interrupt(*_):
    raise Interrupted
def lock(file, kind):
    signal.signal(signal.SIGALRM, interrupt)
    while True:
        try:
            signal.setitimer(signal.ITIMER_REAL, random.uniform(0.0005, 0.02))
            fcntl.flock(file, kind)
            signal.setitimer(signal.ITIMER_REAL, 0)
            return
        except Interrupted:
            pass
def work(path):
    random.seed()
    with open(path, "r+") as file:
        for _ in range(40):
            if random.random() < 0.3:
                lock(file, fcntl.LOCK_SH)
            lock(file, fcntl.LOCK_EX)
            os.close(os.open("inside", os.O_CREAT | os.O_EXCL))
            with open("count") as count:
                now = int(count.read())
            time.sleep(random.uniform(0, 0.004))
            with open("count", "w") as count:
                count.write(str(now + 1))
            os.unlink("inside")
            fcntl.flock(file, fcntl.LOCK_UN)
with open("count", "w") as count:
    count.write("0")
children = []
for i in range(6):
    child = os.fork()
    if child == 0:
        try:
            work(sys.argv[1 + i % 2])
            os._exit(0)
        except BaseException as error:
            print(repr(error), file=sys.stderr)
            os._exit(1)
    children.append(child)
ends = [os.waitpid(child, 0)[1] for child in children]
with open("count") as count:
    assert ends == [0] * 6 and count.read() == "240", ends
PY
check "and for the impatient" timeout 100 python3 impatient.py "$A/lock" "$B/lock"
check "random reads and writes of a file at both" \
    timeout 120 "$FILETEST" fsx2 "$A/fsx" "$B/fsx" "$seed" 700
check "random names at both, as in a plain folder" \
    env FILETEST_MODEL="$T/model" timeout 120 "$FILETEST" names2 "$A/names" "$B/names" "$seed" 800

check "a snapshot, asked for through a mount" "$DROVER" data snapshot "$V" kept
cat >lapse.py <<'PY'
import os, signal, sys, time
a, b, pid = sys.argv[1], sys.argv[2], int(sys.argv[3])
with open(a, "w") as out:
    out.write("old.")
held = os.open(b, os.O_RDONLY)
assert os.pread(held, 9, 0) == b"old."
os.kill(pid, signal.SIGSTOP)  # longer than its lease
with open(a, "w") as out:
    out.write("new.")
time.sleep(5)
os.kill(pid, signal.SIGCONT)
for _ in range(100):
    if os.pread(held, 9, 0) == b"new.":
        sys.exit(0)
    time.sleep(0.1)
sys.exit("what was open when the lease lapsed is still read from the kernel's memory")
PY
check "a mount that was away for longer than its lease comes back and forgets what it knew" \
    timeout 60 python3 lapse.py "$A/lapse" "$B/lapse" "$(M=$B mount_pid)"
check "it goes on" cp big "$B/lapse"
: >"$T/meta.err"

# The owner is killed in the middle, again and again: mounts wait, and nothing is done twice.
(
    exec 6>"$A/held"
    echo one >&6
    cat "$A/held" >/dev/null # a reader closes it while it is being made
    until [ -e go ]; do sleep 0.1; done
    echo two >&6
) &
holder=$!
python3 -c 'import os, sys; os.close(os.open(sys.argv[1], os.O_CREAT | os.O_RDONLY))' "$A/unwritten"
mkdir "$A/w"
"$FILETEST" writer "$A/w" "$seed" 250 >log 2>writer.err &
writer=$!
FILETEST_MODEL=$T/model2 "$FILETEST" names2 "$A/n2" "$B/n2" $((seed + 1)) 500 >names.out 2>&1 &
names=$!
RANDOM=$seed
for round in $(seq "$rounds"); do
    sleep "1.$((RANDOM % 10))"
    meta_off KILL
    sleep "0.$((RANDOM % 5))"
    meta_on
    wait_until 30 is_served $((round + 1))
done
wait "$writer"
check_equal "a writer went on over the owner's deaths" "0 " "$? $(cat writer.err)"
names_code=0; wait "$names" || { names_code=$?; cat "$T/meta.err" "$HOME/.local/state/drover/mount.log"; }
check_equal "names were each made once" "0 " "$names_code $(cat names.out)"
touch go
wait "$holder"
check_equal "what was open all the time is whole" "one two" "$(paste -sd ' ' "$B/held")"
check_equal "and what nobody wrote to is there" 0 "$(stat -c %s "$B/unwritten")"
check "everything synced is there" "$FILETEST" check "$B/w" log
sed 's/^closed/synced/' log >closed
check "everything closed is there" "$FILETEST" check "$B/w" closed

# A mount is killed: what it had not synced reverts whole, the other goes on.
mkdir "$B/k"
"$FILETEST" writer "$B/k" $((seed + 2)) >log 2>/dev/null &
writer=$!
sleep 2
kill_mount "$B"
wait "$writer" 2>/dev/null
umount "$B" 2>/dev/null
check "the other goes on" cp big "$A/after"
has_lapsed() { grep -q 'let go' "$T/meta.err"; }
check "the dead one's session lapses" wait_until 20 has_lapsed
check "what it had synced is there, and all of it is whole" "$FILETEST" check "$A/k" log
(
    exec 6>"$A/unclosed"
    until [ -e ended ]; do sleep 0.1; done
) &
holder=$!
wait_until 10 test -e "$A/unclosed"
mount=$(M=$A mount_pid)
has_ended() { [[ $(ps -o stat= -p "$mount") =~ ^(Z.*)?$ ]]; }
kill -TERM "$mount"
check "a mount ends when it is told to, though a new file is open there" wait_until 20 has_ended
touch ended
wait "$holder"
umount "$A" 2>/dev/null
"$DROVER" mount "@$STATE/volume.url" "$A"
check "and the file is there" test -e "$A/unclosed"
free_port='import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'
meta_off KILL
meta_on --listen "127.0.0.1:$(python3 -c "$free_port")"
check "an owner that has another address now is found" timeout 40 sh -c "echo moved >'$A/moved'"
rm "$A/moved"
check "unmounting stores everything" "$DROVER" unmount "$A"
meta_off TERM
check "the volume is sound" "$DROVER" data verify "$V"
rm -rf "$HOME/.cache"
M=$A check "it is there without the owner" "$DROVER" mount "$V" "$A"
check "all of it" cmp big "$A/after"
find "$A" -mindepth 1 -delete
check "emptied" "$DROVER" unmount "$A"
check "the snapshot is not needed any more" "$DROVER" data snapshot "$V" kept --delete
check "gc, once nobody is left who could refer to it" "$DROVER" data gc "$V"
check_equal "leaves no pack" 0 "$(find store -path '*packs*' -type f | wc -l)"
check_equal "mounts have complained of nothing but the owner's deaths" "" \
    "$(grep -v 'owner' "$HOME/.local/state/drover/mount.log")"
