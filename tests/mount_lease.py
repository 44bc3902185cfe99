"""Two mounts of one volume: what one has changed, the other sees at once, although it knew better.

mount_lease.py turns A B SEED ROUNDS   changes at one, looks at the other, in folders of their own
mount_lease.py tennis A B ROUNDS       one file, written in turn
mount_lease.py both A B SEED ROUNDS    both mounts change the names of one folder at the same time
mount_lease.py append A B ROUNDS       one appends, while others look at what it appends to
mount_lease.py warm M FILES            walks twice: prints the owner's asks of the second walk
"""
import json
import os
import random
import sys
import threading

XATTR = "user.test"


def absent(path):
    try:
        os.stat(path)
        return False
    except FileNotFoundError:
        return True


def read(path):
    with open(path) as file:
        return file.read()


def write(path, text):
    with open(path, "w") as file:
        file.write(text)


def expect(value, wanted, what):
    if value != wanted:
        sys.exit(f"{what}: {value!r} instead of {wanted!r}")


def stats(mount):
    return json.loads(os.getxattr(mount, "user.drover.stats"))


class Turn:
    """One folder, known at `there`; then one change at `here`."""

    def __init__(self, here, there, name):
        self.here, self.there = os.path.join(here, name), os.path.join(there, name)
        os.mkdir(self.here)
        os.mkdir(os.path.join(self.here, "sub"))
        for name in ("f", "g", "h"):
            write(os.path.join(self.here, name), "old " + name)
        os.symlink("old", os.path.join(self.here, "s"))
        os.setxattr(os.path.join(self.here, "f"), XATTR, b"old")

    def at(self, name):
        return os.path.join(self.here, name)

    def seen(self, name):
        return os.path.join(self.there, name)

    def know(self):
        for _ in range(2):
            expect(sorted(os.listdir(self.there)), ["f", "g", "h", "s", "sub"], "listing")
            for name in ("f", "g", "h"):
                expect(read(self.seen(name)), "old " + name, "content")
                expect(os.stat(self.seen(name)).st_nlink, 1, "links")
            expect(absent(self.seen("new")), True, "absent")
            expect(absent(self.seen("sub/new")), True, "absent")
            expect(os.readlink(self.seen("s")), "old", "target")
            expect(os.getxattr(self.seen("f"), XATTR), b"old", "attribute")

    def content(self):
        write(self.at("f"), "new content")
        expect(read(self.seen("f")), "new content", "content")

    def append(self):
        with open(self.at("f"), "a") as file:
            file.write("+")
        expect(os.stat(self.seen("f")).st_size, 6, "size")
        expect(read(self.seen("f")), "old f+", "content")

    def mode(self):
        os.chmod(self.at("f"), 0o600)
        expect(os.stat(self.seen("f")).st_mode & 0o777, 0o600, "mode")

    def times(self):
        os.utime(self.at("f"), ns=(5, 7))
        expect(os.stat(self.seen("f")).st_mtime_ns, 7, "time")

    def cut(self):
        os.truncate(self.at("f"), 2)
        expect(read(self.seen("f")), "ol", "content")

    def make(self):
        write(self.at("new"), "made")
        expect(read(self.seen("new")), "made", "a new file")
        expect("new" in os.listdir(self.there), True, "listing")

    def folder(self):
        before = os.stat(self.there).st_nlink
        os.mkdir(self.at("new"))
        expect(os.stat(self.there).st_nlink, before + 1, "links of the folder")
        os.rmdir(self.at("new"))
        expect(absent(self.seen("new")), True, "a removed folder")

    def remove(self):
        os.unlink(self.at("g"))
        expect(absent(self.seen("g")), True, "a removed file")
        expect("g" in os.listdir(self.there), False, "listing")

    def link(self):
        os.link(self.at("f"), self.at("sub/new"))
        expect(os.stat(self.seen("f")).st_nlink, 2, "links")
        expect(read(self.seen("sub/new")), "old f", "another name")
        os.unlink(self.at("f"))
        expect(os.stat(self.seen("sub/new")).st_nlink, 1, "links")

    def rename(self):
        os.rename(self.at("f"), self.at("sub/new"))
        expect(absent(self.seen("f")), True, "the old name")
        expect(read(self.seen("sub/new")), "old f", "the new name")

    def replace(self):
        os.rename(self.at("f"), self.at("g"))
        expect(read(self.seen("g")), "old f", "what was replaced")
        expect(sorted(os.listdir(self.there)), ["g", "h", "s", "sub"], "listing")

    def symlink(self):
        os.symlink("new", self.at("t"))
        os.rename(self.at("t"), self.at("s"))
        expect(os.readlink(self.seen("s")), "new", "target")

    def xattr(self):
        os.setxattr(self.at("f"), XATTR, b"new")
        expect(os.getxattr(self.seen("f"), XATTR), b"new", "attribute")

    def held(self):
        with open(self.seen("f")) as file:
            os.unlink(self.at("f"))
            expect(file.read(), "old f", "an open file that was removed")
        expect(absent(self.seen("f")), True, "its name")


CHANGES = [value for name, value in vars(Turn).items()
           if callable(value) and name not in ("__init__", "at", "seen", "know")]


def turns(a, b, seed, rounds):
    rng = random.Random(seed)
    before = stats(a)["owner_forgets"] + stats(b)["owner_forgets"]
    for i in range(rounds):
        here, there = (a, b) if rng.random() < 0.5 else (b, a)
        turn = Turn(here, there, f"turn-{seed}-{i}")
        turn.know()
        change = rng.choice(CHANGES)
        try:
            change(turn)
        except OSError as error:
            sys.exit(f"round {i}: {change.__name__}: {error}")
    forgets = stats(a)["owner_forgets"] + stats(b)["owner_forgets"] - before
    if forgets < rounds:
        sys.exit(f"only {forgets} Forgets in {rounds} rounds: what was changed was not known before")


def tennis(a, b, rounds):
    write(os.path.join(a, "ball"), "0")
    for i in range(rounds):
        here, there = (a, b) if i % 2 else (b, a)
        expect(read(os.path.join(there, "ball")), str(i), "before")
        write(os.path.join(here, "ball"), str(i + 1))
        expect(read(os.path.join(there, "ball")), str(i + 1), "after")


def both(a, b, seed, rounds):
    """Each has names of its own in one folder; neither may wait for the other for ever."""
    os.mkdir(os.path.join(a, "both"))
    faults = []

    def side(mount, mine):
        rng = random.Random(seed + mine)
        names = [False] * 8
        folder = os.path.join(mount, "both")
        for _ in range(rounds):
            i = rng.randrange(8)
            path = os.path.join(folder, f"{mine}-{i}")
            if names[i]:
                os.unlink(path)
            else:
                write(path, "x")
            names[i] = not names[i]
            for j in range(8):
                if absent(os.path.join(folder, f"{mine}-{j}")) == names[j]:
                    faults.append(f"{mount}: name {j}")

    threads = [threading.Thread(target=side, args=(mount, i)) for i, mount in enumerate((a, b))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    expect(faults, [], "own names")
    expect(sorted(os.listdir(os.path.join(a, "both"))), sorted(os.listdir(os.path.join(b, "both"))),
           "listings of both")


def append(here, there, rounds):
    """One appends and syncs, while others list and look here, and another mount reads."""
    folder = os.path.join(here, "append")
    os.mkdir(folder)
    path = os.path.join(folder, "log")
    fd = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o644)
    over = threading.Event()
    faults = []

    def look():
        while not over.is_set():
            with os.scandir(folder) as entries:
                for entry in entries:
                    entry.stat()
            read(path)

    def elsewhere():
        while not over.is_set():
            text = read(os.path.join(there, "append", "log"))
            if text != "".join(f"{i:09}\n" for i in range(len(text) // 10)):
                faults.append(text[-40:])

    threads = [threading.Thread(target=side, daemon=True) for side in (look, look, elsewhere)]
    for thread in threads:
        thread.start()
    for i in range(rounds):
        os.write(fd, f"{i:09}\n".encode())
        if i % 3:
            os.fsync(fd)
        expect(os.fstat(fd).st_size, 10 * (i + 1), "size")
    over.set()
    for thread in threads:
        thread.join()
    os.close(fd)
    expect(faults, [], "what is read elsewhere is a beginning of what was written, but for")
    wanted = "".join(f"{i:09}\n" for i in range(rounds))
    expect(read(path) == wanted, True, "what was appended, here")
    expect(read(os.path.join(there, "append", "log")) == wanted, True, "what was appended, there")


def walk(mount):
    count = 0
    for folder, _, files in os.walk(mount):
        for name in files:
            os.stat(os.path.join(folder, name))
            count += 1
    return count


def warm(mount, files):
    expect(walk(mount), files, "files")
    before = stats(mount)
    expect(walk(mount), files, "files")
    after = stats(mount)
    print(after["owner_asks"] - before["owner_asks"])


def main():
    what, *rest = sys.argv[1:]
    numbers = [int(word) if word.isdigit() else word for word in rest]
    {"turns": turns, "tennis": tennis, "both": both, "append": append,
     "warm": warm}[what](*numbers)


main()
