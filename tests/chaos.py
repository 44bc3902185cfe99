#!/usr/bin/env python3
"""tests/chaos.py DROVER FOLDER SECONDS SEED [NODES] [TASKS] - a cluster of real processes, harassed.

A server and NODES node processes, each in a network namespace of its own where that is allowed, run
TASKS tasks. For SECONDS, every few hundred milliseconds something is killed (the master included),
frozen, cut off in one or both directions, or drained. Then everything is healed, and it is checked
that every task has exactly one accepted result, that no log or output of an accepted attempt is
missing, that no accepted task ran again, and that no process and no file is left that should not be.

Half of the nodes share the master's disk, half send everything over the network. Prints the lines
of tests/lib.sh; exit 1 if something is wrong.
"""
import json
import os
import random
import signal
import subprocess
import sys
import time

DROVER, FOLDER, SECONDS, SEED = sys.argv[1], sys.argv[2], float(sys.argv[3]), int(sys.argv[4])
NODES = int(sys.argv[5]) if len(sys.argv) > 5 else 20
TASKS = int(sys.argv[6]) if len(sys.argv) > 6 else 20000
RNG = random.Random(SEED)
STATE = os.path.join(FOLDER, "state")
SIDE = os.path.join(FOLDER, "side")
MARK = f"chaos-{os.getpid()}-{SEED}"
LEASE_MS = 1500
END_S = 240  # after the healing, everything must be done by then

# Every task says who it is in its log; one in 20 leaves an output, which the last experiment reads.
# A task's last action is a line in a file of its own outside the state: two lines mean it ran twice.
RECIPE = """
experiments:
  work:
    parameters: {n: 0..%d}
    crash_limit: 0
    env: {CHAOS_MARK: "%s"}
    exec: ["%s/task", "{{n}}", "{{attempt}}", "{{output}}"]
  sum:
    depends_on: work
    parameters: {n: 0..9}
    crash_limit: 0
    env: {CHAOS_MARK: "%s"}
    command: cat {{work.output}}/*/made | wc -l
"""

TASK = """#!/bin/sh
echo "task $1 attempt $2"
if [ $(($1 % 20)) -eq 0 ]; then echo "$1" >"$3/made"; fi
if [ $(($1 % 50)) -eq 0 ]; then setsid sleep 300 >/dev/null 2>&1 & sleep 0.3; fi
echo "$2" >>"SIDE/$(($1 / 1000)).$1"
"""


class Wrong(Exception):
    pass


def run(*argv, check=True):
    return subprocess.run(argv, check=check, capture_output=True, text=True, timeout=60)


class Net:
    """A bridge, and a namespace with a cable to it for each node. Without rights: loopback."""

    def __init__(self):
        self.block = 100 + os.getpid() % 100
        self.bridge = f"dch{self.block}"
        self.made = []
        self.works = self.try_to_make()
        self.master = f"10.78.{self.block}.1" if self.works else "127.0.0.1"

    def space(self, index):
        return f"dchn{self.block}-{index}"

    def cable(self, index):
        return f"dch{self.block}-{index}"

    def try_to_make(self):
        try:
            run("ip", "link", "add", self.bridge, "type", "bridge")
            self.made.append(("ip", "link", "del", self.bridge))
            run("ip", "addr", "add", f"10.78.{self.block}.1/24", "dev", self.bridge)
            run("ip", "link", "set", self.bridge, "up")
            for index in range(NODES):
                space, cable = self.space(index), self.cable(index)
                run("ip", "netns", "add", space)
                self.made.append(("ip", "netns", "del", space))
                run("ip", "link", "add", cable, "type", "veth", "peer", "name", "eth0", "netns", space)
                run("ip", "link", "set", cable, "master", self.bridge, "up")
                run("ip", "-n", space, "link", "set", "lo", "up")
                run("ip", "-n", space, "addr", "add", f"10.78.{self.block}.{10 + index}/24", "dev", "eth0")
                run("ip", "-n", space, "link", "set", "eth0", "up")
        except (OSError, subprocess.SubprocessError):
            self.remove()
            return False
        return True

    def remove(self):
        for command in reversed(self.made):
            run(*command, check=False)
        self.made = []

    def prefix(self, index):
        return ["ip", "netns", "exec", self.space(index)] if self.works else []

    def cut(self, index):
        run("ip", "link", "set", self.cable(index), "down", check=False)

    def cut_one_way(self, index):
        """What the node sends is lost; what is sent to it arrives."""
        run("ip", "-n", self.space(index), "route", "add", "blackhole", f"{self.master}/32", check=False)

    def heal(self, index):
        run("ip", "link", "set", self.cable(index), "up", check=False)
        run("ip", "-n", self.space(index), "route", "del", "blackhole", f"{self.master}/32", check=False)


class Herd:
    def __init__(self, net):
        self.net = net
        self.master = None
        self.nodes = [None] * NODES
        self.until = {}  # (kind, index) -> when it is healed
        self.counts = {}
        self.env = dict(os.environ, CHAOS_MARK=MARK, HOME=FOLDER)
        self.log = open(os.path.join(FOLDER, "log"), "ab")

    def start_master(self):
        self.master = subprocess.Popen(
            [DROVER, "serve", "--state", STATE, "--listen", "127.0.0.1:0", "--wire", f"{self.net.master}:0",
             "--lease", str(LEASE_MS)],
            stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log, env=self.env)

    def start_node(self, index):
        shared = index % 2 == 0
        argv = self.net.prefix(index) + [
            DROVER, "node", "--join", f"@{STATE}/join.url", "--slots", "1", "--name", f"n{index}",
            "--work", os.path.join(FOLDER, f"node{index}"), "--quiet"]
        self.nodes[index] = subprocess.Popen(
            argv if shared else argv + ["--no-share"],
            stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log, env=self.env)

    def count(self, what):
        self.counts[what] = self.counts.get(what, 0) + 1

    def harass(self):
        kinds = ["kill node", "freeze node", "kill master", "freeze master"]
        weights = [6, 3, 2, 1]
        if self.net.works:
            kinds += ["cut", "cut one way"]
            weights += [4, 2]
        kind = RNG.choices(kinds, weights)[0]
        index = RNG.randrange(NODES)
        later = time.monotonic() + RNG.choice([0.3, 1.0, 2.5])
        self.count(kind)
        if kind == "kill node":
            self.nodes[index].kill()
            self.nodes[index].wait()
            self.start_node(index)
        elif kind == "freeze node":
            self.nodes[index].send_signal(signal.SIGSTOP)
            self.until[("node", index)] = later
        elif kind == "kill master":
            self.master.kill()
            self.master.wait()
            self.start_master()
        elif kind == "freeze master":
            self.master.send_signal(signal.SIGSTOP)
            self.until[("master", 0)] = later
        else:
            (self.net.cut if kind == "cut" else self.net.cut_one_way)(index)
            self.until[("net", index)] = later

    def heal(self, everything=False):
        now = time.monotonic()
        for (what, index), when in list(self.until.items()):
            if not everything and when > now:
                continue
            del self.until[(what, index)]
            if what == "net":
                self.net.heal(index)
            else:
                process = self.master if what == "master" else self.nodes[index]
                if process.poll() is None:
                    process.send_signal(signal.SIGCONT)

    def revive(self):
        if self.master.poll() is not None:
            raise Wrong(f"the master ended by itself: {self.master.returncode}")
        for index, node in enumerate(self.nodes):
            if node.poll() is not None:
                raise Wrong(f"node {index} ended by itself: {node.returncode}")

    def stop(self):
        self.heal(everything=True)
        for process in self.nodes + [self.master]:
            if process and process.poll() is None:
                process.send_signal(signal.SIGTERM)
        until = time.monotonic() + 40
        for process in self.nodes + [self.master]:
            if process:
                try:
                    process.wait(max(0.1, until - time.monotonic()))
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.wait()
                    raise Wrong(f"{process.args[-8:]} did not stop")


def drover(*argv, tries=1):
    for attempt in range(tries):
        done = subprocess.run([DROVER, *argv, "--state", STATE], capture_output=True, text=True, timeout=60)
        if done.returncode == 0 or attempt == tries - 1:
            return done
        time.sleep(0.3)
    return None


def status():
    done = drover("status", "--json")
    return json.loads(done.stdout) if done.returncode == 0 else None


def wait_for(seconds, what, condition):
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        value = condition()
        if value:
            return value
        time.sleep(0.1)
    raise Wrong(f"{what}: not within {seconds} s")


def survivors():
    """Processes that carry our mark."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/environ", "rb") as file:
                marked = f"CHAOS_MARK={MARK}".encode() in file.read().split(b"\0")
            if marked and int(pid) != os.getpid():
                with open(f"/proc/{pid}/cmdline", "rb") as file:
                    found.append(f"{pid} {file.read()[:80]!r}")
        except OSError:
            pass
    return found


def say(good, sentence, detail=""):
    print(f"{'ok' if good else 'not ok'} - {sentence}")
    if not good and detail:
        print("    " + detail.replace("\n", "\n    "))
    sys.stdout.flush()
    return good


def prepare():
    os.makedirs(SIDE)
    task = os.path.join(FOLDER, "task")
    with open(task, "w", encoding="utf-8") as file:
        file.write(TASK.replace("SIDE", SIDE))
    os.chmod(task, 0o755)
    with open(os.path.join(FOLDER, "chaos.yaml"), "w", encoding="utf-8") as file:
        file.write(RECIPE % (TASKS - 1, MARK, FOLDER, MARK))


def harass(herd):
    herd.start_master()
    wait_for(10, "join.url", lambda: os.path.exists(f"{STATE}/join.url") and os.path.exists(f"{STATE}/api.url"))
    for index in range(NODES):
        herd.start_node(index)
    key = f"key-{SEED}"
    done = drover("submit", os.path.join(FOLDER, "chaos.yaml"), "--no-sync", "--key", key, "--seed", "1", tries=20)
    if done.returncode != 0:
        raise Wrong(f"submit failed: {done.stdout}{done.stderr}")
    end = time.monotonic() + SECONDS
    while time.monotonic() < end:
        time.sleep(RNG.uniform(0.1, 0.5))
        herd.harass()
        herd.heal()
        herd.revive()
    herd.heal(everything=True)


def check_end(herd):
    def is_over():
        herd.revive()
        now = status()
        return now and now["state"] != "running" and now
    end = wait_for(END_S, "the end of the workflow", is_over)
    work = next(e for e in end["experiments"] if e["name"] == "work")
    good = say(end["state"] == "succeeded" and work["succeeded"] == TASKS,
               f"every one of {TASKS} tasks is accepted", json.dumps(end))
    rows = [json.loads(line) for line in drover("tasks", "--json").stdout.splitlines()]
    attempts = {row["task"]: row["attempt"] for row in rows if row["experiment"] == "work"}
    good &= say(len(attempts) == TASKS, "each has one row", str(len(attempts)))
    folder = os.path.join(STATE, "workflows", end["id"])
    return good & check_logs(folder, attempts) & check_outputs(folder, attempts) & check_runs(attempts)


def check_logs(folder, attempts):
    lost = []
    for task, attempt in attempts.items():
        path = f"{folder}/logs/work/{task // 1000}/{task}.{attempt}.log"
        try:
            with open(path, encoding="utf-8") as file:
                if file.read() != f"task {task} attempt {attempt}\n":
                    lost.append(path)
        except OSError:
            lost.append(path)
    return say(not lost, "no log of an accepted attempt is lost or damaged", f"{len(lost)}: {lost[:3]}")


def check_outputs(folder, attempts):
    wrong = []
    for task in attempts:
        link = f"{folder}/outputs/work/{task}"
        if task % 20 == 0:
            try:
                with open(f"{link}/made", encoding="utf-8") as file:
                    if file.read() != f"{task}\n":
                        wrong.append(link)
            except OSError:
                wrong.append(link)
        elif os.path.lexists(link):
            wrong.append(link)
    good = say(not wrong, "the outputs are those of the accepted attempts", f"{len(wrong)}: {wrong[:3]}")
    sums = set()
    for task in range(10):
        for name in os.listdir(f"{folder}/logs/sum/0"):
            with open(f"{folder}/logs/sum/0/{name}", encoding="utf-8") as file:
                sums.add(file.read().strip())
    return good & say(bool(sums) and sums <= {str(len([t for t in attempts if t % 20 == 0])), ""},
                      "whoever depends on them sees them all", str(sums))


def check_runs(attempts):
    """The accepted attempt wrote its line; no later attempt of the task did."""
    wrong = []
    for task, attempt in attempts.items():
        try:
            with open(f"{SIDE}/{task // 1000}.{task}", encoding="utf-8") as file:
                ran = [int(line) for line in file.read().split()]
        except OSError:
            ran = []
        if attempt not in ran or max(ran) > attempt or len(set(ran)) != len(ran):
            wrong.append((task, attempt, ran))
    return say(not wrong, "no accepted task ran again, and no attempt ran twice", f"{len(wrong)}: {wrong[:5]}")


def check_rest(herd, folder):
    herd.stop()
    try:
        wait_for(5, "no process is left", lambda: not survivors())
        good = say(True, "no process is left")
    except Wrong:
        good = say(False, "no process is left", "\n".join(survivors()[:10]))
    left = []
    for name in ("incoming",):
        if os.path.isdir(f"{folder}/{name}"):
            left += [f"{name}/{entry}" for entry in os.listdir(f"{folder}/{name}")]
    linked = {os.path.realpath(f"{folder}/outputs/work/{name}") for name in os.listdir(f"{folder}/outputs/work")}
    for shard in os.listdir(f"{folder}/attempts/work"):
        for name in os.listdir(f"{folder}/attempts/work/{shard}"):
            path = os.path.realpath(f"{folder}/attempts/work/{shard}/{name}")
            if path not in linked:
                left.append(path)
    for index in range(NODES):
        for top, _, names in os.walk(f"{FOLDER}/node{index}/slots"):
            left += [f"{top}/{name}" for name in names]
        if os.path.isdir(f"{FOLDER}/node{index}/workflows"):
            for top, _, names in os.walk(f"{FOLDER}/node{index}/workflows"):
                left += [f"{top}/{name}" for name in names if "/inputs/" not in f"{top}/" and "/outputs/" not in f"{top}/"]
    return good & say(not left, "no file is left that nobody speaks for", f"{len(left)}: {left[:5]}")


def main():
    prepare()
    net = Net()
    if not net.works:
        print("skip - no network namespaces here: nothing is cut off")
    herd = Herd(net)
    good = False
    try:
        harass(herd)
        good = check_end(herd)
        ids = os.listdir(f"{STATE}/workflows")
        good &= say(len(ids) == 1, "the workflow was submitted once", str(ids))
        good &= check_rest(herd, f"{STATE}/workflows/{ids[0]}")
    except Wrong as wrong:
        good = say(False, str(wrong))
    finally:
        for process in herd.nodes + [herd.master]:
            if process and process.poll() is None:
                process.kill()
                process.wait()
        net.remove()
        print(f"# seed {SEED}; harassed by: " +
              ", ".join(f"{kind} {count}" for kind, count in sorted(herd.counts.items())))
    if not good:
        with open(os.path.join(FOLDER, "log"), encoding="utf-8", errors="replace") as file:
            print("    " + file.read()[-3000:].replace("\n", "\n    "))
    return 0 if good else 1


sys.exit(main())
