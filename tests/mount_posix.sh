#!/bin/bash
# timeout: 120
# Owners, modes and set-id bits on a mount that several users share; FIFOs, sockets and devices.
. "$(dirname "$0")/lib.sh"
t_start "users of a mount"
. "$SOURCE/tests/mount.bash"
mount_possible || skip_all "$mount_why"
[ "$(id -u)" -eq 0 ] || skip_all "only root can act as other users"

"$DROVER" volume create p --store "file://$PWD/store" >/dev/null
check "root mounts" mount_on p
check_output "a mount of root is for all users" "^file://$PWD/store $M fuse.drover .*default_permissions,allow_other" cat /proc/mounts

cat >users.py <<'PY'
import errno, os, socket, stat, sys, threading, time

THEM, US = 65534, 65533
os.chdir(sys.argv[1])


def as_user(uid, work, groups=()):
    """Runs work() as another user; what it raises fails the test."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            os.setgroups(list(groups))
            os.setresgid(uid, uid, uid)
            os.setresuid(uid, uid, uid)
            work()
            status = 0
        except BaseException as error:
            import traceback
            traceback.print_exc()
        os._exit(status)
    assert os.waitpid(child, 0)[1] == 0, "as user %d" % uid


def refuses(code, work, *arguments, **named):
    try:
        work(*arguments, **named)
    except OSError as error:
        assert error.errno == code, error
        return
    raise AssertionError("was not refused")


def mode(path):
    return stat.S_IMODE(os.lstat(path).st_mode)


def make(path, bits, owner=0):
    os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY))
    os.chown(path, owner, owner)
    os.chmod(path, bits)
    return path


def test_modes_are_checked():
    make("theirs", 0o640)
    make("open", 0o644)
    os.mkdir("closed", 0o700)
    make("closed/in", 0o666)
    os.mkdir("drop")
    os.chmod("drop", 0o1777)
    make("drop/root", 0o666)

    def work():
        refuses(errno.EACCES, open, "theirs")
        open("open").close()
        refuses(errno.EACCES, open, "open", "a")
        refuses(errno.EACCES, open, "closed/in")
        refuses(errno.EACCES, os.listdir, "closed")
        refuses(errno.EACCES, os.mkdir, "new")
        refuses(errno.EPERM, os.chmod, "open", 0o777)
        refuses(errno.EPERM, os.chown, "open", THEM, THEM)
        refuses(errno.EPERM, os.utime, "open", (1, 1))
        open("drop/mine", "w").close()
        refuses(errno.EPERM, os.unlink, "drop/root")
        refuses(errno.EPERM, os.rename, "drop/root", "drop/mine")
        refuses(errno.EPERM, os.chown, "drop/mine", US, -1)
        os.unlink("drop/mine")
    as_user(THEM, work)


def test_a_write_by_others_takes_rights_away():
    for name, change in (
            ("write", lambda fd: os.write(fd, b"x")),
            ("cut", lambda fd: os.ftruncate(fd, 3)),
            ("grow", lambda fd: os.posix_fallocate(fd, 0, 4096))):
        make("p-" + name, 0o6777)

        def work():
            fd = os.open("p-" + name, os.O_RDWR)
            change(fd)
            assert stat.S_IMODE(os.fstat(fd).st_mode) == 0o777, (name, "while open")
            os.close(fd)
        as_user(THEM, work)
        assert mode("p-" + name) == 0o777, name
    make("p-open", 0o6777)
    with open("p-open", "w") as out:
        out.write("content")
    assert mode("p-open") == 0o6777, "root keeps them"
    as_user(THEM, lambda: os.close(os.open("p-open", os.O_WRONLY | os.O_TRUNC)))
    assert mode("p-open") == 0o777, "emptied"
    make("p-none", 0o6777)
    as_user(THEM, lambda: os.close(os.open("p-none", os.O_RDWR)))
    assert mode("p-none") == 0o6777, "opening changes nothing"


def test_rights_given_after_a_write_stay():
    def work():
        fd = os.open("drop/installed", os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
        os.write(fd, b"program")
        os.fchmod(fd, 0o6755)
        assert stat.S_IMODE(os.fstat(fd).st_mode) == 0o6755
        os.close(fd)
        assert mode("drop/installed") == 0o6755
    as_user(THEM, work)


def test_what_is_given_away_loses_rights():
    makers = {"file": lambda path: make(path, 0o600),
              "fifo": os.mkfifo,
              "socket": lambda path: os.mknod(path, stat.S_IFSOCK | 0o600)}
    for kind, maker in makers.items():
        path = "g-" + kind
        maker(path)
        os.chown(path, THEM, THEM)
        os.chmod(path, 0o6555)
        as_user(THEM, lambda: os.chown(path, -1, US), [US])
        assert (mode(path), os.lstat(path).st_gid) == (0o555, US), kind


def test_capabilities_go_with_a_write():
    path = make("caps", 0o777)
    try:
        os.setxattr(path, "security.capability", bytes.fromhex("0100000200200000000000000000000000000000"))
    except OSError:
        return  # not to be had here
    with open(path, "a") as out:
        out.write("more")
    assert "security.capability" not in os.listxattr(path)


def test_fifos_and_sockets_work():
    os.mkfifo("fifo")
    got = []
    reader = threading.Thread(target=lambda: got.append(open("fifo").read()))
    reader.start()
    with open("fifo", "w") as out:
        out.write("through a pipe")
    reader.join(10)
    assert got == ["through a pipe"], got
    server, client = socket.socket(socket.AF_UNIX), socket.socket(socket.AF_UNIX)
    server.bind("socket")
    server.listen()
    client.connect("socket")
    client.send(b"through a socket")
    assert server.accept()[0].recv(100) == b"through a socket"
    assert stat.S_ISSOCK(os.lstat("socket").st_mode)


def test_a_folder_that_was_removed_is_there_for_who_has_it_open():
    os.mkdir("left", 0o751)
    fd = os.open("left", os.O_RDONLY)
    os.rmdir("left")
    now = os.fstat(fd)
    assert (stat.S_IMODE(now.st_mode), now.st_nlink) == (0o751, 0)
    assert os.listdir(fd) == []
    refuses(errno.ENOENT, os.mkdir, "in", dir_fd=fd)
    os.fsync(fd)
    os.close(fd)
    refuses(errno.ENOENT, os.stat, "left")


def test_attributes_have_the_name_spaces_of_linux():
    path = make("spaces", 0o600)
    for name in ("user.a", "trusted.a", "security.a"):
        os.setxattr(path, name, b"")
    assert sorted(os.listxattr(path)) == ["security.a", "trusted.a", "user.a"]
    refuses(errno.EOPNOTSUPP, os.setxattr, path, "other.a", b"")
    refuses(errno.EINVAL, os.setxattr, path, "user.", b"")
    refuses(errno.EPERM, os.setxattr, "fifo", "user.a", b"")
    os.chmod(path, 0o666)

    def work():
        refuses(errno.EPERM, os.setxattr, path, "trusted.b", b"")
        refuses(errno.ENODATA, os.getxattr, path, "trusted.a")
    as_user(THEM, work)


def test_devices_are_kept_and_not_opened():
    try:
        os.mknod("null", stat.S_IFCHR | 0o666, os.makedev(1, 3))
    except PermissionError:
        return  # a container forbids it everywhere
    assert os.lstat("null").st_rdev == os.makedev(1, 3)
    refuses(errno.EACCES, open, "null")


for name, test in list(globals().items()):
    if name.startswith("test_"):
        try:
            test()
            print("passed", name)
        except BaseException as error:
            import traceback
            traceback.print_exc()
            print("failed", name)
PY
python3 users.py "$M" >users.out 2>users.err
while read -r verdict name; do
    check_equal "${name#test_}" passed "$verdict"
done <users.out
check_equal "nothing else is said" "" "$(cat users.err)"
mode_of() { stat -c '%F %a %u:%g' "$@"; }
before=$(cd "$M" && mode_of p-* g-* fifo socket drop/installed)
check "unmounting" mount_off
rm -rf "$HOME/.cache"
check "mounting again" mount_on p
check_equal "owners, modes and kinds are kept" "$before" "$(cd "$M" && mode_of p-* g-* fifo socket drop/installed)"
check "the end" mount_off
