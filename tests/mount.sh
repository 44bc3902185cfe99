#!/bin/bash
# timeout: 240
# A volume as a folder: what ordinary programs do on it, compared with what they do elsewhere.
. "$(dirname "$0")/lib.sh"
t_start "drover mount"
. "$SOURCE/tests/mount.bash"
mount_possible || skip_all "$mount_why"

"$DROVER" volume create t --store "file://$PWD/store" >/dev/null
check_exit 2 "a folder that is not there" "$DROVER" mount t nowhere
check_exit 2 "a volume that is not there" "$DROVER" mount nosuch "$M"
touch file
check_exit 2 "a file is no folder to be mounted on" "$DROVER" mount t file
check "mounting returns once it is mounted" mount_on t
check_output "the table of mounts shows it" "^file://$PWD/store $M fuse.drover rw" cat /proc/mounts

seed=${SEED:-$RANDOM}
echo "# seed $seed"
check "random reads, writes, cuts and maps of a file" "$FILETEST" fsx "$M/fsx" "$seed" 2500
check "random names, as in a plain folder" env FILETEST_MODEL="$T/model" "$FILETEST" names "$M/names" "$seed" 4000

echo one >"$M/one"
exec 5<"$M/one"
rm "$M/one"
check_equal "a file that was removed is read while it is open" one "$(cat <&5)"
exec 5<&-
printf 'aaaa' >"$M/append"
printf 'bbbb' >>"$M/append"
check_equal "appending" aaaabbbb "$(cat "$M/append")"
ln "$M/append" "$M/hard"
check_equal "a hard link is the same file" "$(stat -c %i "$M/append")" "$(stat -c %i "$M/hard")"
truncate -s 1000000000 "$M/sparse"
check_equal "a hole takes no room" 0 "$(stat -c %b "$M/sparse")"
mkdir "$M/set" && chgrp 12345 "$M/set" && chmod 2775 "$M/set" && mkdir "$M/set/in" && touch "$M/set/f"
check_equal "a set-group-id folder hands its group on" "12345 2755 12345" \
    "$(stat -c '%g %a' "$M/set/in") $(stat -c %g "$M/set/f")"
cat >attributes.py <<'PY'
import os, sys
p = sys.argv[1]
os.setxattr(p, "user.a", b"\x00value")
assert os.getxattr(p, "user.a") == b"\x00value"
assert os.listxattr(p) == ["user.a"]
os.removexattr(p, "user.a")
assert os.listxattr(p) == []
PY
check "extended attributes" python3 attributes.py "$M/append"
cat >locks.py <<'PY'
import fcntl, os, sys
a = open(sys.argv[1], "r+")
fcntl.flock(a, fcntl.LOCK_EX)
b = open(sys.argv[1], "r+")
try:
    fcntl.flock(b, fcntl.LOCK_EX | fcntl.LOCK_NB)
    sys.exit(1)
except BlockingIOError:
    pass
PY
check "locks" python3 locks.py "$M/append"
cat >database.py <<'PY'
import sqlite3, sys
db = sqlite3.connect(sys.argv[1])
db.execute("create table t (n integer primary key, x text)")
for batch in range(20):
    with db:
        db.executemany("insert into t (x) values (?)", [("row %d" % i,) for i in range(200)])
assert db.execute("select count(*) from t").fetchone() == (4000,)
assert db.execute("pragma integrity_check").fetchone() == ("ok",)
PY
check "a database" python3 database.py "$M/db"
mkdir "$M/many"
for i in $(seq 3000); do echo "$i"; done | (cd "$M/many" && xargs touch)
check_equal "a large folder lists whole" 3000 "$(find "$M/many" -type f | wc -l)"
rm -r "$M/many"
check_equal "and goes whole" 1 "$(find "$M/many" 2>&1 | wc -l)"
tar -C "$SOURCE" -cf src.tar --exclude=build --exclude='build-*' --exclude=.git src docs tests
mkdir "$M/tree" plain
tar -C "$M/tree" -xf src.tar
tar -C plain -xf src.tar
check "an archive unpacked is the same as elsewhere" diff -r --no-dereference plain "$M/tree"
check_output "a second writer is refused and told why" "mounted at $M" "$DROVER" data put plain t:/again
check "reading goes beside it" "$DROVER" data get t:/tree out
check "and sees what was just written" diff -r --no-dereference plain out
check "a snapshot of a mounted volume" "$DROVER" data snapshot t now
check "what the mount did" "$DROVER" mount --stats "$M"
check "unmounting stores everything" mount_off
check_exit 2 "a second time it is not there" "$DROVER" unmount "$M"

rm -rf "$HOME/.cache" "$HOME/.local/share"
check "from the store alone, by its address" mount_on "file://$PWD/store"
check "everything is there" diff -r --no-dereference plain "$M/tree"
check_equal "the database too" 4000 "$(python3 -c 'import sqlite3, sys; print(sqlite3.connect(sys.argv[1]).execute("select count(*) from t").fetchone()[0])' "$M/db")"
check "unmounting again" mount_off
check "a snapshot is mounted read-only" mount_on "file://$PWD/store@now"
check "and has it too" diff -r --no-dereference plain "$M/tree"
check_exit 1 "it cannot be written to" touch "$M/new"
check "unmounting the snapshot" mount_off
check_equal "nothing went wrong on the way" "" "$(cat "$HOME/.local/state/drover/mount.log" 2>/dev/null)"
