#!/usr/bin/env python3
"""tests/cluster_cable.py SPACE MASTER ADDRESS SEED READY - a bad cable between here and a network namespace.

For kernels without netem. Two tun devices, one here and one in the namespace SPACE, which gets
ADDRESS; packets between ADDRESS and MASTER, an address of this side, go through this process. Each
is kept for 5 to 60 ms, so that they overtake each other; one in 100 is lost, one in 50 comes twice.
Writes the file READY when it is up. Until TERM; then it says what it did. The devices go with it.
"""
import ctypes
import fcntl
import heapq
import os
import random
import select
import signal
import struct
import subprocess
import sys
import time

SPACE, MASTER, ADDRESS, SEED, READY = sys.argv[1:6]
TUNSETIFF = 0x400454CA
IFF_TUN, IFF_NO_PI = 0x0001, 0x1000
CLONE_NEWNET = 0x40000000
PACKET_MAX = 65536


def open_tun(name):
    fd = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(fd, TUNSETIFF, struct.pack("16sH22x", name.encode(), IFF_TUN | IFF_NO_PI))
    return fd


def ip(*words):
    subprocess.run(["ip", *words], check=True)


def enter(path):
    with open(path, "rb") as space:
        if ctypes.CDLL(None, use_errno=True).setns(space.fileno(), CLONE_NEWNET) != 0:
            raise OSError(ctypes.get_errno(), path)


def connect():
    name = SPACE[:12] + "t"
    here = open_tun(name)
    ip("link", "set", name, "up")
    ip("route", "add", f"{ADDRESS}/32", "dev", name)
    enter(f"/run/netns/{SPACE}")
    there = open_tun(name)
    ip("addr", "add", f"{ADDRESS}/32", "dev", name)
    ip("link", "set", name, "up")
    ip("route", "add", f"{MASTER}/32", "dev", name, "src", ADDRESS)
    return here, there


def main():
    rng = random.Random(SEED)
    counts = {"packets": 0, "overtaken": 0, "lost": 0, "doubled": 0}
    stop = []
    signal.signal(signal.SIGTERM, lambda *_: stop.append(1))
    here, there = connect()
    other = {here: there, there: here}
    due, number, last = [], 0, {here: 0, there: 0}
    with open(READY, "w", encoding="utf-8"):
        pass
    while not stop:
        wait = max(0.0, due[0][0] - time.monotonic()) if due else 0.2
        for fd in select.select([here, there], [], [], min(wait, 0.2))[0]:
            packet = os.read(fd, PACKET_MAX)
            counts["packets"] += 1
            luck = rng.random()
            copies = 0 if luck < 0.01 else 2 if luck < 0.03 else 1
            counts["lost"] += copies == 0
            counts["doubled"] += copies == 2
            for _ in range(copies):
                number += 1
                heapq.heappush(due, (time.monotonic() + rng.uniform(0.005, 0.06), number, other[fd], packet))
        while due and due[0][0] <= time.monotonic():
            _, which, fd, packet = heapq.heappop(due)
            counts["overtaken"] += which < last[fd]
            last[fd] = max(last[fd], which)
            try:
                os.write(fd, packet)
            except OSError:
                pass  # its queue is full: lost, as on any cable
    print("# seed " + SEED + ": " + ", ".join(f"{n} {what}" for what, n in counts.items()), flush=True)


main()
