#!/bin/bash
# timeout: 240
# What breaks file systems: a listing whose folder shrinks, gc while a file is being written, a rename of a
# file that is still open and then a crash, times far away, very large holes, damage.
. "$(dirname "$0")/lib.sh"
t_start "hard cases of a mount"
. "$SOURCE/tests/mount.bash"
mount_possible || skip_all "$mount_why"

"$DROVER" volume create hard --store "file://$PWD/store" >/dev/null
check "it is mounted" mount_on hard

cat >seek.py <<'PY'
import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
class Entry(ctypes.Structure):
    _fields_ = [("ino", ctypes.c_uint64), ("off", ctypes.c_int64), ("size", ctypes.c_uint16),
                ("type", ctypes.c_uint8), ("name", ctypes.c_char * 256)]
libc.opendir.restype = ctypes.c_void_p
libc.readdir.restype = ctypes.POINTER(Entry)
libc.telldir.restype = ctypes.c_long
libc.readdir.argtypes = libc.telldir.argtypes = [ctypes.c_void_p]
libc.seekdir.argtypes = [ctypes.c_void_p, ctypes.c_long]
folder = sys.argv[1] + "/seek"
os.mkdir(folder)
for i in range(300):
    open("%s/%03d" % (folder, i), "w").close()
listing = libc.opendir(folder.encode())
def following():
    entry = libc.readdir(listing)
    return entry.contents.name.decode() if entry else None
passed = [following() for i in range(100)]
place = libc.telldir(listing)
expected = following()
for i in range(30):
    following()
for name in passed[:50]:
    if not name.startswith("."):
        os.unlink(folder + "/" + name)
libc.seekdir(listing, place)
got = following()
assert got == expected, "%s instead of %s" % (got, expected)
PY
if python3 -c 'import ctypes' 2>/dev/null; then
    check "a listing goes on where it was, though names before that have gone" python3 seek.py "$M"
else
    skip "no ctypes in this python3"
fi

cat >crumbs.py <<'PY'
import os, random, sys
rng = random.Random(7)
files = [os.open(path, os.O_CREAT | os.O_RDWR) for path in sys.argv[1:]]
whole = rng.randbytes(1 << 20)
for file in files:
    os.write(file, whole)
for turn in range(3):
    for at in range(turn * 37, 1 << 20, 150):
        crumb = rng.randbytes(20)
        for file in files:
            os.pwrite(file, crumb, at)
    for file in files:
        os.fsync(file)
PY
"$DROVER" volume create crumbs --store "file://$PWD/crumbs.store" >/dev/null
mount_off
check "another is mounted" mount_on crumbs
check "a file is written in thousands of small pieces" python3 crumbs.py "$M/crumbs" crumbs
check "and stored" mount_off
check "and read by another mount" mount_on crumbs
check "all of it" cmp crumbs "$M/crumbs"
mount_off
check "and by one for reading only" mount_on crumbs --read-only --fuse
check "it is the same" cmp crumbs "$M/crumbs"
mount_off
mount_on hard

cat >slow_writer.py <<'PY'
import os, sys, time
file = open(sys.argv[1], "wb", buffering=0)
for i in range(80):
    file.write(bytes([i]) * (1 << 20))
open("written", "w").close()
while not os.path.exists("go"):
    time.sleep(0.05)
file.close()
PY
background python3 slow_writer.py "$M/big"
writer=$t_pid
wait_until 60 test -e written
echo 1 >"$M/one" && sleep 1.5
echo 2 >"$M/two" && sync "$M/two"
check "gc while a file is being written" "$DROVER" data gc hard
touch go
wait "$writer"
sync "$M/big"
rm -rf "$HOME/.cache"
check_output "leaves what was written of it" 'all sound' "$DROVER" data verify hard

cat >stamps.py <<'PY'
import os, sys, time
os.chdir(sys.argv[1])
open("a", "w").close()
before = os.stat("a").st_ctime_ns
time.sleep(0.02)
fd = os.open("a", os.O_RDWR)
os.write(fd, b"x" * 100000)
assert os.fstat(fd).st_ctime_ns > before, "a write changes ctime"
os.close(fd)
assert os.stat("a").st_ctime_ns > before, "also once it is closed"
assert os.stat("a").st_blocks >= 195, "and the blocks are right"
for seconds in (-1, -2**31 - 5, 2**33):
    os.utime("a", ns=(seconds * 10**9 + 1, seconds * 10**9 + 7))
    assert os.stat("a").st_mtime_ns == seconds * 10**9 + 7, seconds
for seconds in (2**34, 2**40):
    os.utime("a", (seconds, seconds))
    assert os.stat("a").st_mtime > 2**33, "the far future is not the past"
for seconds in (-2**34, -2**40):
    os.utime("a", (seconds, seconds))
    assert os.stat("a").st_mtime < -2**33, "the far past is not the future"
open("stamp", "w").close()
os.utime("stamp", (1000, 1000))
open("stamp", "w").close()
PY
check "times" python3 stamps.py "$M"

truncate -s 4E "$M/hole"
printf end >>"$M/hole" 2>/dev/null || printf end | dd of="$M/hole" bs=1 seek=1152921504606846976 conv=notrunc 2>/dev/null
sync "$M/hole"
check "a file that is one hole is checked quickly" timeout 20 "$DROVER" data verify hard
truncate -s 1T "$M/hole2" && sync "$M/hole2"
check "and comes out as one" timeout 20 "$DROVER" data get hard:/hole2 hole2
check_equal "of the same size and no blocks" "1099511627776 0" "$(stat -c '%s %b' hole2)"
rm -f "$M/hole" "$M/hole2"

echo old >"$M/target" && sync "$M/target"
cat >rename_open.py <<'PY'
import os, sys, time
os.chdir(sys.argv[1])
file = open("fresh", "w")
file.write("new\n")
file.flush()
os.rename("fresh", "target")
os.close(os.open("other", os.O_CREAT | os.O_WRONLY))
fd = os.open("other", os.O_RDONLY)
os.fsync(fd)
os.kill(os.getpid(), 9)
PY
# The writer is stopped, not ended: ending closes its files.
sed -i 's/os.kill(os.getpid(), 9)/os.kill(os.getpid(), 19)/' rename_open.py
background python3 rename_open.py "$M"
writer=$t_pid
wait_until 20 grep -q 'State:.*T' "/proc/$writer/status"
kill -KILL "$(mount_pid)" "$writer"
wait "$writer" 2>/dev/null
check "a mount whose process was killed is unmounted" mount_off
check "mounted again after a crash" mount_on hard
check_equal "a file that was renamed while open is whole under its new name" new "$(cat "$M/target")"
check "an emptied file that was empty has a new time" test "$(stat -c %Y "$M/stamp")" -gt 2000
check "it is unmounted" mount_off

cat >many.py <<'PY'
import os, sys
for folder in range(20):
    os.mkdir("%s/m%02d" % (sys.argv[1], folder))
    for i in range(1000):
        open("%s/m%02d/a-name-of-some-length-%04d" % (sys.argv[1], folder, i), "w").close()
PY
mount_on hard && python3 many.py "$M" && mount_off
run=$(find store -path '*runs*' -type f -size +100k | head -1)
python3 - "$run" <<'PY'
import sys
with open(sys.argv[1], "r+b") as f:
    f.seek(f.seek(0, 2) * 3 // 5)  # among the attributes of files
    f.write(b"\xff" * 500)
PY
rm -rf "$HOME/.cache"
mount_on hard
bad=0
for folder in "$M"/m*; do
    find "$folder" -ls >/dev/null 2>&1 || bad=$((bad + 1))
done
check "damage of metadata is noticed" test "$bad" -ge 1
check "but only by who needs it" test "$bad" -lt 10
check "others are written to" sh -c "echo fine >'$M/fine'"
check "and synced" sync "$M/fine"
check "with damage it is unmounted too" mount_off

mount_on hard
echo before >"$M/before" && sync "$M/before"
first=$(mount_pid)
mkdir second
kill -STOP "$first"
check "another takes the volume over while its mount sleeps" "$DROVER" mount --take-over hard second
check_equal "and has what was synced" before "$(cat second/before)"
kill -CONT "$first"
check_exit 1 "the first, awake again, cannot sync" sh -c "echo after >'$M/after' && sync '$M/after'"
check_exit 1 "and says so when it is unmounted" mount_off
check "the second goes on" sh -c 'echo on >second/on && sync second/on'
check "to its end" "$DROVER" unmount second

# In a container or before a reboot processes had other numbers: nobody can ask for them, but they held a lock.
if unshare --pid --fork true 2>/dev/null; then
    background unshare --pid --fork --kill-child "$DROVER" meta hard --state "$T/meta" --quiet
    elsewhere=$!
    wait_until 10 test -s "$T/meta/volume.url"
    check_exit 1 "an owner in a container is not taken for gone while it lives" "$DROVER" mount hard second
    kill -KILL "$elsewhere" && wait_for "$elsewhere"
    check "once it was killed the volume is had without being asked for" "$DROVER" mount hard second
    check "and given back" "$DROVER" unmount second
else
    skip "no pid namespaces here"
fi

mount_on hard
echo seen >"$M/seen" && sync "$M/seen"
first=$(mount_pid)
kill -STOP "$first"
within() { # SECONDS COMMAND... : what it printed, and its exit code
    timeout "$@" 2>&1
    echo "exit $?"
}
within 30 "$DROVER" data ls hard:/ >read.out &
within 30 "$DROVER" mount --stats "$M" >stats.out &
within 30 "$DROVER" data sync hard >sync.out &
within 30 "$DROVER" unmount "$M" >unmount.out &
wait
kill -CONT "$first"
check_output "a mount that is stopped: reading goes on from the store" "\\bseen" cat read.out
check_output "and what may be missing is said" "the mount at $M does not answer" cat read.out
check_output "what it has done cannot be told" 'does not answer' cat stats.out
check_output "a sync says that it was none" 'exit 1' cat sync.out
check_output "unmounting does not wait for ever" 'exit 1' cat unmount.out
check "awake again it is unmounted" mount_off

"$DROVER" volume create gap --store "file://$PWD/gap" >/dev/null
mount_on gap
for i in 1 2 3 4 5 6; do echo "$i" >"$M/f$i" && sync "$M/f$i"; done
mount_kill
rm "$(find gap -path '*log*' -type f | sort | sed -n 4p)"
check_exit 1 "a volume whose store has lost a commit is not opened as if it had ended there" mount_on gap
check_output "and it is said which" 'log/.*: missing, though later commits are there' "$DROVER" data ls gap:/

mount_on hard
check_output "a gc by a mount is told in words" '^deleted [0-9]+ objects, ' "$DROVER" data gc hard
check_output "or as JSON" '^\{"objects":[0-9]+,.*"dead_bytes_kept":[0-9]+\}$' "$DROVER" data gc hard --json
mount_off

# A process that waits for its own file system holds that open, so both stay for ever.
"$DROVER" data snapshot hard early >/dev/null
cat >early.py <<'PY'
import os, signal, subprocess, sys
for i in range(20):
    mount = subprocess.Popen([*sys.argv[1:], os.environ["M"]], stdout=subprocess.PIPE)
    assert os.read(mount.stdout.fileno(), 100) == b"ready\n"
    mount.send_signal(signal.SIGKILL if i % 2 else signal.SIGTERM)
    mount.wait()
    mount.stdout.close()
    subprocess.run(["umount", "-l", os.environ["M"]], stderr=subprocess.DEVNULL)
PY
export M
check "a mount may be ended in the moment when it is ready" \
    python3 early.py "$DROVER" mount --foreground --for-node -- hard@early
no_mount_process() { ! pgrep -f "mount .*--for-node -- hard@early $M"; }
check "and nothing of it is left" wait_until 5 no_mount_process
