#!/usr/bin/env python3
"""tests/mount_image.py make FOLDER SEED | compare ONE OTHER SEED

make: all kinds of files that a file system can hold, in a folder of a mount.
compare: two mounts of one volume show the same, as far as a program can tell: names, kinds, owners, modes, links,
sizes, times of change, extended attributes, contents read whole, in pieces and mapped.
"""
import mmap
import os
import random
import stat
import sys

BLOCK = 4096


def name_of(rng, size):
    return bytes(rng.choice([b for b in range(1, 256) if b != 0x2F]) for _ in range(size))


def write(path, content):
    with open(path, "wb") as file:
        file.write(content)


def make_names(root, rng):
    folder = root + b"/names"
    os.mkdir(folder)
    # around "." and "..", which are entries too; blocks that are just full; all bytes
    names = {b"!", b"-", b"-.", b".!", b"...", b"..a", b".a", b".\xff", b"/".replace(b"/", b"0"), b"\x01", b"\xff" * 255}
    names |= {bytes([b]) for b in range(1, 256) if b not in b"./"}
    names |= {name_of(rng, rng.choice([1, 2, 3, 8, 254, 255])) for _ in range(400)}
    for name in names - {b".", b".."}:
        write(folder + b"/" + name, name)
    for count in (0, 1, 200, 340, 341, 342, 3000):
        os.mkdir(b"%s/many-%d" % (root, count))
        for i in range(count):
            os.close(os.open(b"%s/many-%d/%d" % (root, count, i), os.O_CREAT | os.O_WRONLY, 0o640))


def make_contents(root, rng):
    folder = root + b"/contents"
    os.mkdir(folder)
    for size in (0, 1, BLOCK - 1, BLOCK, BLOCK + 1, 65536, 65537, (1 << 20) - 1, (1 << 20) + 1, 9000001):
        write(b"%s/%d" % (folder, size), rng.randbytes(size))
    with open(folder + b"/sparse", "wb") as file:
        for at in (0, 5 << 20, 5 << 30, (5 << 30) + 70000):
            file.seek(at)
            file.write(rng.randbytes(rng.randrange(1, 9000)))
    with open(folder + b"/hole", "wb") as file:
        file.truncate(1 << 41)
    # thousands of extents in one piece that is read
    fd = os.open(folder + b"/crumbs", os.O_CREAT | os.O_RDWR, 0o600)
    os.write(fd, rng.randbytes(1 << 20))
    os.close(fd)
    for turn in range(3):
        fd = os.open(folder + b"/crumbs", os.O_RDWR)
        for at in range(turn * 37, 1 << 20, 150):
            os.pwrite(fd, rng.randbytes(20), at)
        os.close(fd)


def make_kinds(root, rng):
    folder = root + b"/kinds"
    os.mkdir(folder)
    os.mkfifo(folder + b"/fifo")
    os.mknod(folder + b"/char", stat.S_IFCHR | 0o600, os.makedev(300, 70000))
    os.mknod(folder + b"/block", stat.S_IFBLK | 0o600, os.makedev(8, 1))
    os.mknod(folder + b"/socket", stat.S_IFSOCK | 0o777)
    for size in (1, 30, 59, 60, 900, 3967, 3968, 4032, 4033, 4095):
        os.symlink(b"x" * size, b"%s/link-%d" % (folder, size))
        os.symlink(b"y" * size, b"%s/more-%d" % (folder, size))
    write(folder + b"/one", b"one content")
    os.mkdir(folder + b"/below")
    os.link(folder + b"/one", folder + b"/two")
    os.link(folder + b"/one", folder + b"/below/three")
    os.link(folder + b"/link-900", folder + b"/below/link")
    for i in range(100):
        write(b"%s/m%d" % (folder, i), b"")
        os.link(b"%s/m%d" % (folder, i), b"%s/n%d" % (folder, i))
    for mode in (0o000, 0o4755, 0o2755, 0o1777, 0o6711):
        path = b"%s/mode-%o" % (folder, mode)
        write(path, b"m")
        os.chmod(path, mode)
        os.mkdir(path + b"-folder")
        os.chmod(path + b"-folder", mode)
    write(folder + b"/theirs", b"t")
    os.chown(folder + b"/theirs", 4000000000, 123456)
    for second in (-(1 << 35), -1, 0, 1, 1 << 35):
        path = b"%s/time%d" % (folder, second)
        write(path, b"t")
        os.utime(path, ns=(second * 10**9 + 999999999, second * 10**9 + 999999999))


def make_xattrs(root, rng):
    folder = root + b"/xattrs"
    os.mkdir(folder)
    for size in (0, 1, 3, 4, 5, 4000, 4096, 40000, 65535):
        path = b"%s/%d" % (folder, size)
        write(path, b"content behind it")
        os.setxattr(path, b"user." + name_of(rng, 200).replace(b"\0", b"0"), rng.randbytes(size))
        os.setxattr(path, b"trusted.t", b"t")
    for count in (2, 50):
        path = b"%s/count-%d" % (folder, count)
        os.mkdir(path)
        for i in range(count):
            os.setxattr(path, b"user.%d" % i, rng.randbytes(rng.randrange(300)))
    os.symlink(b"z" * 3000, folder + b"/link")
    os.setxattr(folder + b"/link", b"trusted.on-a-link", rng.randbytes(2000), follow_symlinks=False)


def make_tree(root, rng):
    folders = [root + b"/tree"]
    os.mkdir(folders[0])
    for i in range(600):
        folder = rng.choice(folders[-20:])
        path = b"%s/%s%d" % (folder, name_of(rng, rng.randrange(1, 12)).replace(b".", b"_"), i)
        if rng.random() < 0.3 and len(path) < 3000:
            os.mkdir(path)
            folders.append(path)
        else:
            write(path, rng.randbytes(rng.randrange(1, 1 << rng.randrange(1, 18))))


def make(root, rng):
    os.umask(0)
    make_names(root, rng)
    make_contents(root, rng)
    make_kinds(root, rng)
    make_xattrs(root, rng)
    make_tree(root, rng)


def refuses(call, *arguments):
    try:
        call(*arguments)
        return None
    except OSError as error:
        return error.errno


def xattrs(path):
    names = [n for n in os.listxattr(path, follow_symlinks=False) if n != "user.drover.socket"]
    return {n: os.getxattr(path, n, follow_symlinks=False) for n in names}


def same(what, path, one, other):
    if one != other:
        sys.exit("%r: %s: %s is not %s" % (path, what, str(one)[:300], str(other)[:300]))


def compare_contents(one, other, size, rng):
    with open(one, "rb") as a, open(other, "rb") as b:
        if size <= 32 << 20:
            same("content", one, a.read(), b.read())
        for _ in range(12):
            at = rng.randrange(size + 3)
            length = rng.choice([1, 100, BLOCK, 70000, 1 << 20])
            same("%d bytes at %d" % (length, at), one, os.pread(a.fileno(), length, at), os.pread(b.fileno(), length, at))
        same("its end", one, os.pread(a.fileno(), 9000, max(0, size - 5000)), os.pread(b.fileno(), 9000, max(0, size - 5000)))
        if 0 < size <= 32 << 20:
            with mmap.mmap(a.fileno(), size, prot=mmap.PROT_READ) as c, mmap.mmap(b.fileno(), size, prot=mmap.PROT_READ) as d:
                same("mapped", one, c[:], d[:])
        same("a write", one, refuses(open, one, "r+b"), refuses(open, other, "r+b"))


def compare(one, other, rng):
    inodes, count = {}, 0
    todo = [b""]
    while todo:
        path = todo.pop()
        a, b = os.lstat(one + path), os.lstat(other + path)
        for field in ("st_mode", "st_uid", "st_gid", "st_nlink", "st_rdev", "st_mtime_ns"):
            same(field, path, getattr(a, field), getattr(b, field))
        same("extended attributes", path, xattrs(one + path), xattrs(other + path))
        same("which file it is", path, inodes.setdefault(a.st_ino, b.st_ino), b.st_ino)
        count += 1
        if stat.S_ISDIR(a.st_mode):
            names = sorted(os.listdir(one + path))
            same("names", path, names, sorted(os.listdir(other + path)))
            same("above it", path, inodes[os.stat(one + path + b"/..").st_ino] if path else 0,
                 os.stat(other + path + b"/..").st_ino if path else 0)
            for name in (b"nosuch", b"\xff\xfe", b"a" * 255, b"a" * 256):
                same("none of that name", path, refuses(os.lstat, one + path + b"/" + name), refuses(os.lstat, other + path + b"/" + name))
            kinds = {e.name: e.is_dir(follow_symlinks=False) for e in os.scandir(other + path)}
            same("kinds", path, {e.name: e.is_dir(follow_symlinks=False) for e in os.scandir(one + path)}, kinds)
            todo += [path + b"/" + name for name in names]
            continue
        same("st_size", path, a.st_size, b.st_size)
        if stat.S_ISLNK(a.st_mode):
            same("target", path, os.readlink(one + path), os.readlink(other + path))
        if stat.S_ISREG(a.st_mode):
            compare_contents(one + path, other + path, a.st_size, rng)
    same("inodes", b"all", len(inodes), len(set(inodes.values())))
    print("%d are the same" % count)


if sys.argv[1] == "make":
    make(os.fsencode(sys.argv[2]), random.Random(int(sys.argv[3])))
else:
    compare(os.fsencode(sys.argv[2]), os.fsencode(sys.argv[3]), random.Random(int(sys.argv[4])))
