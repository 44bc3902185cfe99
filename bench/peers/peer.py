"""peer.py - what the peers of the cluster benchmarks have in common.

Each peer is a program: PEER COUNT FOLDER. It starts its own service in FOLDER, on private sockets,
runs COUNT times /bin/echo on two workers with a log file each, prints "TASKS_PER_S" measured from
the submission to the last result, and leaves no process behind. Exit 77 says why it cannot run.
"""

import ctypes
import os
import signal
import subprocess
import sys
import time

sys.dont_write_bytecode = True
os.environ["PYTHONDONTWRITEBYTECODE"] = "1"
os.environ["PYTHONPATH"] = os.path.dirname(os.path.abspath(__file__))  # for workers
LEFT_OUT = 77
COMMAND = ["/bin/echo", "x"]
PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36
libc = ctypes.CDLL(None)


def leave_out(why):
    print(why)
    sys.exit(LEFT_OUT)


def main(measure):
    """Calls measure(count, folder), whatever happens ends all processes below us, prints the rate."""
    if len(sys.argv) != 3:
        sys.exit(f"usage: {sys.argv[0]} COUNT FOLDER")
    count, folder = int(sys.argv[1]), os.path.abspath(sys.argv[2])
    logs = os.path.join(folder, "logs")
    os.makedirs(logs)
    os.makedirs(os.path.join(folder, "warm"))
    os.environ["HOME"] = folder  # where they would otherwise leave their settings
    libc.prctl(PR_SET_CHILD_SUBREAPER, 1)  # what a service leaves behind becomes ours
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    try:
        elapsed = measure(count, folder)
    finally:
        bury_children()
    found = len(os.listdir(logs))
    if found != count:
        sys.exit(f"{found} of {count} tasks have run")
    print(f"{count / elapsed:.2f}", flush=True)
    os._exit(0)  # their exit handlers would look for services that are gone


def log_files(folder, name, count):
    return [os.path.join(folder, name, f"{i}.log") for i in range(count)]


def run_logged(log):
    """The task: the same command for everyone, its output in a file of its own."""
    with open(log, "wb") as out:
        return subprocess.run(COMMAND, stdout=out, stderr=out, check=True).returncode


def timed(function, *args):
    began = time.monotonic()
    function(*args)
    return time.monotonic() - began


def start(command, log, **options):
    """A service that cannot outlive us."""
    with open(log, "ab") as out:
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
            preexec_fn=lambda: libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL),
            **options,
        )


def stop(process, patience_s=5):
    if process is None:
        return
    process.terminate()
    try:
        process.wait(patience_s)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def children():
    found = []
    for task in os.listdir("/proc/self/task"):
        with open(f"/proc/self/task/{task}/children", encoding="ascii") as file:
            found += [int(pid) for pid in file.read().split()]
    return found


def bury_children():
    """Kills what is still there; each death may hand us the children of the dead."""
    while pids := children():
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
            try:
                os.waitpid(pid, 0)
            except ChildProcessError:
                pass  # another thread was quicker


def wait_until(condition, seconds, what):
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            sys.exit(f"{what}: not within {seconds} s")
        time.sleep(0.05)
