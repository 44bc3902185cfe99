#!/usr/bin/env python3
"""tests/crash.py DROVER FOLDER SECONDS SEED - kill -9 drover at random moments, over and over.

With and without a store that fails; after each kill and at each end it checks that nothing accepted
is lost or runs again, and that no process of the run survives. Prints the lines of tests/lib.sh;
exit 1 if something is wrong.

Every task appends "INDEX ATTEMPT" to a file of its own outside the state as its very last action.
"""
import json
import os
import random
import signal
import subprocess
import sys
import time

DROVER, FOLDER, SECONDS, SEED = sys.argv[1], sys.argv[2], float(sys.argv[3]), int(sys.argv[4])
RNG = random.Random(SEED)
MAKE_TASKS, USE_TASKS = 120, 80
GONE_S = 2.0  # everything of a killed run must be gone by then

RECIPE = """
experiments:
  make:
    parameters: {n: 0..%d}
    crash_limit: 0
    env: {CRASH_MARK: "@HERE@"}
    command:
      - sleep 0.0$(({{n|raw}} %% 4))
      - if [ $(({{n|raw}} %% 3)) -ne 0 ]; then echo "{{n}} {{attempt}}" >{{output}}/made; fi
      - echo "{{n}} {{attempt}}" >>@HERE@/side/make.{{n}}
  use:
    depends_on: make
    parameters: {n: 0..%d}
    crash_limit: 0
    env: {CRASH_MARK: "@HERE@"}
    command:
      - if [ $(({{n|raw}} %% 3)) -ne 0 ]; then cp {{make.output}}/{{n}}/made {{output}}/used; fi
      - setsid sleep 300 >/dev/null 2>&1 &
      - sleep 0.0$(({{n|raw}} %% 3))
      - echo "{{n}} {{attempt}}" >>@HERE@/side/use.{{n}}
""" % (MAKE_TASKS - 1, USE_TASKS - 1)


class Wrong(Exception):
    pass


class State:
    """One state folder, killed and resumed until its workflow is done."""

    def __init__(self, number, faults):
        self.mark = os.path.join(FOLDER, f"round-{number}-{RNG.randrange(10**9)}")
        self.state = os.path.join(self.mark, "state")
        self.recipe = os.path.join(self.mark, "recipe.yaml")
        self.log = os.path.join(self.mark, "output")
        self.side = os.path.join(self.mark, "side")
        self.faults = faults
        self.kills = 0
        self.accepted = {}  # (experiment, index) → (attempt, lines of its side file when seen)
        os.makedirs(self.side)
        with open(self.recipe, "w", encoding="utf-8") as file:
            file.write(RECIPE.replace("@HERE@", self.mark))

    def start(self):
        argv = [DROVER, "run", self.recipe, "--state", self.state, "--slots", "2"]
        if self.faults:
            argv += ["--store-faults", f"{RNG.randrange(2**31)}:{self.faults}"]
        with open(self.log, "wb") as out:
            return subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=out, stderr=out)

    def output(self):
        with open(self.log, encoding="utf-8", errors="replace") as file:
            return file.read()[-2000:]

    def kill_once(self):
        """Starts it, kills it a moment later; true if it came to its end before that."""
        process = self.start()
        delay_s = 0.005 + 0.295 * RNG.random() ** 2
        try:
            process.wait(delay_s)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            self.kills += 1
        if process.returncode not in (0, -signal.SIGKILL):
            raise Wrong(f"exit {process.returncode}: {self.output()}")
        self.expect_gone()
        return process.returncode == 0

    def run_to_end(self):
        process = self.start()
        try:
            process.wait(60)
        except subprocess.TimeoutExpired as error:
            process.kill()
            process.wait()
            raise Wrong(f"not done after 60 s: {self.output()}") from error
        if process.returncode != 0:
            raise Wrong(f"exit {process.returncode} at the end: {self.output()}")

    def alive(self):
        """Processes of this run: its folder is on their command line or in their environment."""
        found = []
        mark = self.mark.encode()
        for pid in filter(str.isdigit, os.listdir("/proc")):
            for name in ("cmdline", "environ"):
                try:
                    with open(f"/proc/{pid}/{name}", "rb") as file:
                        if mark in file.read():
                            found.append(int(pid))
                            break
                except OSError:
                    pass
        return found

    def expect_gone(self):
        deadline = time.monotonic() + GONE_S
        while left := self.alive():
            if time.monotonic() > deadline:
                commands = [open(f"/proc/{pid}/cmdline", "rb").read() for pid in left]
                raise Wrong(f"{len(left)} processes survived {GONE_S} s: {commands}")
            time.sleep(0.005)

    def tasks(self):
        if not os.path.exists(os.path.join(self.state, "drover.db")):
            return []
        result = subprocess.run([DROVER, "tasks", "--state", self.state, "--json"],
                                capture_output=True, text=True, check=False)
        if result.returncode == 2 or (result.returncode != 0 and not self.accepted):
            return []  # killed before there was anything to read
        if result.returncode != 0:
            raise Wrong(f"drover tasks: {result.stderr}")
        return [json.loads(line) for line in result.stdout.splitlines()]

    def lines(self, experiment, index):
        try:
            with open(f"{self.side}/{experiment}.{index}", encoding="utf-8") as file:
                return file.read().splitlines()
        except FileNotFoundError:
            return []

    def look(self):
        """Accepted stays accepted, with the same attempt, and does not run again."""
        seen = {}
        for task in self.tasks():
            if task["state"] == "succeeded":
                key = (task["experiment"], task["task"])
                seen[key] = (task["attempt"], len(self.lines(*key)))
            elif task["state"] in ("failed", "skipped", "cancelled"):
                raise Wrong(f"task {task['state']}: {task}")
        for key, before in self.accepted.items():
            if seen.get(key) != before:
                raise Wrong(f"{key} was accepted as (attempt, runs) {before}, "
                            f"is now {seen.get(key)}")
        for key, (attempt, _) in seen.items():
            if f"{key[1]} {attempt}" not in self.lines(*key):
                raise Wrong(f"{key}: attempt {attempt} was accepted, but never came to its end")
        self.accepted = seen

    def check_end(self):
        tasks = self.tasks()
        if len(tasks) != MAKE_TASKS + USE_TASKS or len(self.accepted) != len(tasks):
            raise Wrong(f"{len(self.accepted)} of {len(tasks)} tasks accepted")
        attempts = {(task["experiment"], task["task"]): task["attempt"] for task in tasks}
        for (experiment, index), attempt in attempts.items():
            link = f"{self.state}/outputs/{experiment}/{index}"
            if index % 3 == 0:
                if os.path.lexists(link):
                    raise Wrong(f"{link}: this task left no output")
                continue
            made_by = attempts["make", index]
            name = "made" if experiment == "make" else "used"
            with open(f"{link}/{name}", encoding="utf-8") as file:
                content = file.read()
            if content != f"{index} {made_by}\n":
                raise Wrong(f"{link}/{name} holds {content!r}, accepted was attempt {made_by}")
            if experiment == "use" and os.path.basename(os.readlink(link)) != f"{index}.{attempt}":
                raise Wrong(f"{link} leads to {os.readlink(link)}, accepted was attempt {attempt}")
        kept = {}
        for experiment in ("make", "use"):
            walk = os.walk(f"{self.state}/attempts/{experiment}")
            kept[experiment] = sum(len(folders) for _, folders, _ in walk)
        # folders: one for each kept output and one for each thousand
        wanted = {"make": sum(1 for n in range(MAKE_TASKS) if n % 3) + 1,
                  "use": sum(1 for n in range(USE_TASKS) if n % 3) + 1}
        if kept != wanted:
            raise Wrong(f"attempt folders {kept}, not {wanted}: those of lost attempts stay")


def play(number, faults, deadline):
    state = State(number, faults)
    done = False
    try:
        while not done and time.monotonic() < deadline:
            done = state.kill_once()
            state.look()
        state.run_to_end()
        state.expect_gone()
        state.look()
        state.check_end()
    except Wrong as wrong:
        print(f"not ok - state {number}, store faults {faults or 'none'}, {state.kills} kills")
        print(f"#   {wrong}".replace("\n", "\n#   "))
        return state.kills, False
    reruns = sum(len(state.lines(*key)) - 1 for key in state.accepted)
    print(f"ok - state {number}, store faults {faults or 'none'}: {state.kills} kills, "
          f"nothing lost, {reruns} runs that were not accepted")
    return state.kills, True


def main():
    print(f"# seed {SEED}: run again with CRASH_SEED={SEED}", flush=True)
    # FAIL:FULL:LOST:DELAY_US, see drover run --store-faults
    faults = ["", "0.1:0:0:0", "0.05:0.05:0.1:2000", "0:0:0.3:0", "", "0.3:0.1:0.1:5000"]
    start = time.monotonic()
    kills = number = 0
    fine = True
    while fine and (time.monotonic() - start < SECONDS * 0.8 or number < 2):
        # the last round is cut short and run to its end
        more, fine = play(number, faults[number % len(faults)], start + SECONDS)
        kills += more
        number += 1
        sys.stdout.flush()
    print(f"{'ok' if fine else 'not ok'} - {kills} kills over {number} states in "
          f"{time.monotonic() - start:.0f} s")
    return 0 if fine else 1


if __name__ == "__main__":
    sys.exit(main())
