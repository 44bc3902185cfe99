#!/bin/bash
# timeout: 180
# Everyday programs on a mount: git, make, SQLite, tar, rsync, cp and mv; names and attributes at their limits.
. "$(dirname "$0")/lib.sh"
t_start "everyday programs on a mount"
. "$SOURCE/tests/mount.bash"
mount_possible || skip_all "$mount_why"

"$DROVER" volume create work --store "file://$PWD/store" >/dev/null
check "it is mounted" mount_on work

# git ---------------------------------------------------------------------------------------------

generate_sources() { # FOLDER
    local i
    mkdir "$1"
    for i in $(seq 12); do
        printf '#include "all.h"\nint part_%d(int x)\n{\n    return x * %d + 1;\n}\n' "$i" "$i"
    done >"$1/whole"
    (cd "$1" && csplit -s -z -f part_ -b %02d.c whole '/^#include/' '{*}' && rm whole)
    for i in $(seq 12); do echo "int part_$i(int x);"; done >"$1/all.h"
    printf '#include "all.h"\n#include <stdio.h>\nint main(void)\n{\n    int x = 1;\n' >"$1/main.c"
    for i in $(seq 12); do echo "    x = part_$i(x);"; done >>"$1/main.c"
    # shellcheck disable=SC2028 # the program prints the newline
    echo '    printf("%d\n", x);
    return 0;
}' >>"$1/main.c"
    # shellcheck disable=SC2016 # make's variables
    printf 'OBJECTS := $(patsubst %%.c,%%.o,$(wildcard *.c))\nprogram: $(OBJECTS)\n\t$(CC) -o $@ $^\n%%.o: %%.c all.h\n\t$(CC) -c -o $@ $<\n' >"$1/Makefile"
}
generate_sources plain

git_clone() { # of the project itself where it has a history
    if git -C "$SOURCE" rev-parse -q --verify HEAD >/dev/null; then
        git clone -q --depth 20 --no-tags "file://$SOURCE" "$M/repo"
    else
        cp -r plain "$M/repo" && git -C "$M/repo" init -q && git -C "$M/repo" add . &&
            git -C "$M/repo" commit -qm one
    fi
}
git_is_clean() { [ -z "$(git -C "$M/repo" status --porcelain)" ]; }

has_git=0
if command -v git >/dev/null; then
    has_git=1
    git config --global --add safe.directory '*'
    git config --global user.name test
    git config --global user.email test@localhost
    check "git clone" git_clone
    check "what was checked out is what was committed" git_is_clean
    mkdir "$M/repo/more" && cp plain/* "$M/repo/more"
    git -C "$M/repo" add more
    check "git commit" git -C "$M/repo" commit -qm 'more'
    check "git gc" git -C "$M/repo" gc -q --prune=now
    check "git fsck" git -C "$M/repo" fsck --full --strict --no-dangling
    check "git switch to an older commit and back" sh -c \
        "cd '$M/repo' && git switch -q --detach HEAD~1 2>/dev/null && test ! -e more/main.c && git switch -q -"
else
    skip "no git here"
fi

# make --------------------------------------------------------------------------------------------

expected=1
for i in $(seq 12); do expected=$((expected * i + 1)); done
if command -v make >/dev/null && command -v cc >/dev/null; then
    cp -r plain "$M/build"
    check "make with two compilers at once" make -s -j2 -C "$M/build"
    check_equal "what was built there runs there" "$expected" "$("$M/build/program")"
    touch "$M/build/part_03.c"
    check_equal "make builds what has changed and nothing else" "cc -c -o part_03.o part_03.c" \
        "$(make -C "$M/build" --no-print-directory CC=cc | head -n -1)"
else
    skip "no make or no C compiler here"
fi

# SQLite ------------------------------------------------------------------------------------------

cat >count.py <<'PY'
"""count.py DATABASE MODE TIMES: two processes add to one counter; nothing may be lost."""
import os, sqlite3, sys
path, mode, times = sys.argv[1], sys.argv[2], int(sys.argv[3])


def connect():
    db = sqlite3.connect(path, timeout=60, isolation_level=None)
    assert db.execute("pragma journal_mode = " + mode).fetchone() == (mode,), "journal mode"
    db.execute("pragma synchronous = normal")
    return db


db = connect()
db.execute("create table if not exists t (n integer)")
db.execute("create table if not exists log (who integer, n integer)")
db.execute("delete from t")
db.execute("insert into t values (0)")
db.close()
children = []
for who in range(2):
    child = os.fork()
    if child == 0:
        status = 1
        try:
            mine = connect()
            for i in range(times):
                mine.execute("begin immediate")
                n = mine.execute("select n from t").fetchone()[0]
                mine.execute("update t set n = ?", (n + 1,))
                mine.execute("insert into log values (?, ?)", (who, n + 1))
                mine.execute("commit")
            mine.close()
            status = 0
        finally:
            os._exit(status)
    children.append(child)
for child in children:
    assert os.waitpid(child, 0)[1] == 0, "a process failed"
db = connect()
assert db.execute("select n from t").fetchone() == (2 * times,), "an addition was lost"
assert db.execute("select count(distinct n) from log").fetchone() == (2 * times,)
assert db.execute("pragma integrity_check").fetchone() == ("ok",)
PY
cat >sound.py <<'PY'
import sqlite3, sys
db = sqlite3.connect(sys.argv[1])
assert db.execute("pragma integrity_check").fetchone() == ("ok",)
print(db.execute("select count(*) from log").fetchone()[0])
PY
has_sqlite=0
if python3 -c 'import sqlite3' 2>/dev/null; then
    has_sqlite=1
    check "SQLite, two processes, a journal that is deleted" timeout 60 python3 count.py "$M/delete.db" delete 60
    check "SQLite, two processes, a journal that is written ahead and shared memory" \
        timeout 60 python3 count.py "$M/wal.db" wal 200
else
    skip "no SQLite in this python3"
fi

# copies ------------------------------------------------------------------------------------------

tar -C "$SOURCE" -cf src.tar docs src/base
mkdir "$M/tree" tree
tar -C tree -xf src.tar
ln tree/docs/volumes.md tree/linked
ln -s docs/volumes.md tree/symbolic
touch -d '1999-12-31 23:59:59.123456789' tree/linked
chmod 741 tree/docs
tar -C tree -cf tree.tar .
check "tar unpacks" tar -C "$M/tree" -xf tree.tar
tar -C tree --sort=name -cf tree.tar . && tar -C "$M/tree" --sort=name -cf again.tar .
check "and packs the same again, byte for byte" cmp tree.tar again.tar
if command -v rsync >/dev/null; then
    check "rsync" rsync -aH tree/ "$M/rsynced"
    check_equal "a second one finds nothing to do" "" "$(rsync -aHi --delete --checksum tree/ "$M/rsynced/")"
else
    skip "no rsync here"
fi
check "cp -a" cp -a tree "$M/copied"
check "copies are alike" diff -r --no-dereference tree "$M/copied"
check_equal "a hard link within a copy is one" 2 "$(stat -c %h "$M/copied/linked")"
check_equal "times to the nanosecond" "$(stat -c %.9Y tree/linked)" "$(stat -c %.9Y "$M/copied/linked")"

{ head -c 100000 /dev/urandom; head -c 20000000 /dev/zero; head -c 100000 /dev/urandom; } >sparse
check "cp --sparse=always onto it" cp --sparse=always sparse "$M/sparse"
check "keeps the content" cmp sparse "$M/sparse"
check "and the hole" test "$(stat -c %b "$M/sparse")" -lt 2000
check "cp --sparse=auto from it" cp --sparse=auto "$M/sparse" sparse.back
check "keeps the content too" cmp sparse sparse.back
check "and the hole too" test "$(stat -c %b sparse.back)" -lt 2000

echo old >"$M/target"
echo new >"$M/source"
exec 5<"$M/target"
exec 6>>"$M/target"
mv "$M/source" "$M/target"
echo more >&6
check_equal "mv over a file that is open: the name is new" new "$(cat "$M/target")"
check_equal "who has it open still has the old one, and what he writes" "old more" "$(tr '\n' ' ' <&5 | sed 's/ $//')"
exec 5<&- 6>&-

# limits ------------------------------------------------------------------------------------------

cat >limits.py <<'PY'
import errno, os, sys
made, root = sys.argv[1] == "make", os.fsencode(sys.argv[2])


def refuses(code, work, *arguments):
    try:
        work(*arguments)
    except OSError as error:
        assert error.errno == code, error
        return
    raise AssertionError("was not refused")


# Every byte but the two that cannot be; and longest names, also of many bytes for each letter.
names = [bytes([b]) * 3 for b in range(1, 256) if b != ord("/")]
names += [bytes(b for b in range(1, 256) if b != ord("/"))]
names += [b"n" * 255, "\u00fc".encode() * 127, b"\xff" * 255, b"...", b" ", b"-rf"]
names = [name for name in names if name not in (b".", b"..")]
if made:
    os.mkdir(root + b"/names")
    for name in names:
        with open(root + b"/names/" + name, "wb") as out:
            out.write(name)
    refuses(errno.ENAMETOOLONG, os.mkdir, root + b"/names/" + b"n" * 256)
assert sorted(os.listdir(root + b"/names")) == sorted(set(names)), "a listing has other names"
for name in names:
    with open(root + b"/names/" + name, "rb") as file:
        assert file.read() == name, name

# A path longer than one call takes.
os.chdir(root)
for depth in range(30):
    if made:
        os.mkdir(b"d" * 200)
    os.chdir(b"d" * 200)
if made:
    os.symlink(b"t" * 4095, b"link")
    refuses(errno.ENAMETOOLONG, os.symlink, b"t" * 4096, b"longer")
assert os.readlink(b"link") == b"t" * 4095
os.chdir(root)

# Attributes: the largest, many, an empty one, and binary values.
values = {b"user.large": os.urandom(65536) if made else None, b"user.empty": b"",
          b"user." + b"n" * 250: bytes(range(256))}
values.update({b"user.a%03d" % i: b"%d" % i for i in range(200)})
if made:
    open("attributes", "w").close()
    for name, value in values.items():
        os.setxattr("attributes", name, value)
    with open(sys.argv[3], "wb") as out:
        out.write(values[b"user.large"])
with open(sys.argv[3], "rb") as file:
    values[b"user.large"] = file.read()
assert sorted(os.listxattr(b"attributes")) == sorted(os.fsdecode(name) for name in values)
for name, value in values.items():
    assert os.getxattr("attributes", name) == value, name
if made:
    refuses(errno.E2BIG, os.setxattr, "attributes", "user.larger", bytes(65537))
    refuses(errno.EEXIST, os.setxattr, "attributes", "user.empty", b"", os.XATTR_CREATE)
    refuses(errno.ENODATA, os.setxattr, "attributes", "user.none", b"", os.XATTR_REPLACE)
PY
check "names of every byte, long names, deep folders, large attributes" python3 limits.py make "$M" "$T/large"
cat >twenty_thousand.py <<'PY'
import os, sys
os.mkdir(sys.argv[1])
for i in range(20000):
    os.close(os.open("%s/entry-%05d" % (sys.argv[1], i), os.O_CREAT | os.O_WRONLY))
PY
check "a folder of 20,000 files" python3 twenty_thousand.py "$M/many"
check_equal "has them all" 20000 "$(find "$M/many" -type f | wc -l)"
check "rm -rf takes them all" timeout 60 rm -rf "$M/many"
check_exit 1 "and the folder" test -e "$M/many"

# from the store alone ----------------------------------------------------------------------------

check "it is unmounted" mount_off
rm -rf "$HOME/.cache"
check "and mounted again with an empty cache" mount_on work
if [ "$has_git" -eq 1 ]; then
    check "the repository is sound" git -C "$M/repo" fsck --full --strict --no-dangling
    check "and what was checked out" git_is_clean
fi
if [ "$has_sqlite" -eq 1 ]; then
    check_equal "the databases are sound and have every row" "120 400" \
        "$(python3 sound.py "$M/delete.db") $(python3 sound.py "$M/wal.db")"
fi
check "trees are as they were" diff -r --no-dereference tree "$M/copied"
check "the sparse file too" cmp sparse "$M/sparse"
check "names and attributes too" python3 limits.py look "$M" "$T/large"
check "everything goes with rm -rf" find "$M" -mindepth 1 -delete
check_equal "nothing is left" "" "$(ls -A "$M")"
check "the end" mount_off
check_equal "nothing went wrong on the way" "" "$(cat "$HOME/.local/state/drover/mount.log" 2>/dev/null)"
