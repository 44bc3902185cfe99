#!/usr/bin/python3
"""slurm_peer.py COUNT FOLDER - a Slurm array on two nodes of one processor each.

Its own munged, slurmctld and two slurmd, on free ports. It schedules as eagerly as Slurm can.
"""

import getpass
import os
import random
import shutil
import socket
import subprocess

import peer

os.environ["PATH"] += ":/usr/sbin:/sbin"
for name in ("munged", "slurmctld", "slurmd", "sbatch", "squeue", "sinfo"):
    if not shutil.which(name):
        peer.leave_out(f"{name} is not installed")

SETTINGS = """ClusterName=bench
SlurmctldHost={host}(127.0.0.1)
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
AuthInfo=socket={folder}/run/munge.sock
SlurmctldPort={port}
SlurmctldPidFile={folder}/run/slurmctld.pid
SlurmdPidFile={folder}/run/slurmd-%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd-%n.log
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool/%n
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
MpiDefault=none
ReturnToService=2
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SlurmdParameters=config_overrides
MaxJobCount=20000
MaxArraySize=10001
SchedulerParameters=sched_interval=1,bf_interval=1,batch_sched_delay=0,sched_min_interval=1000
NodeName=n[1-2] NodeHostname={host} NodeAddr=127.0.0.1 Port=[{first}-{last}] CPUs=1 RealMemory=1000 State=UNKNOWN
PartitionName=main Nodes=n[1-2] Default=YES MaxTime=INFINITE State=UP
"""


def free_ports(count):
    """The first of COUNT free ports in a row."""
    while True:
        first = random.randrange(20000, 32000)
        sockets = [socket.socket() for _ in range(count)]
        try:
            for i, one in enumerate(sockets):
                one.bind(("127.0.0.1", first + i))
            return first
        except OSError:
            continue
        finally:
            for one in sockets:
                one.close()


def write_settings(folder):
    port = free_ports(3)
    host = socket.gethostname().split(".")[0]
    with open(os.environ["SLURM_CONF"], "w", encoding="ascii") as file:
        file.write(SETTINGS.format(folder=folder, host=host, user=getpass.getuser(), port=port, first=port + 1,
                                   last=port + 2))


def start_munge(folder):
    key = os.path.join(folder, "munge.key")
    with open(os.open(key, os.O_WRONLY | os.O_CREAT, 0o400), "wb") as file:
        file.write(os.urandom(1024))
    run = os.path.join(folder, "run")
    where = [f"--key-file={key}", f"--socket={run}/munge.sock", f"--pid-file={run}/munged.pid",
             f"--log-file={folder}/munged.log", f"--seed-file={run}/seed"]
    peer.start(["munged", "--force", "--foreground", *where], os.path.join(folder, "munged.out"))
    peer.wait_until(lambda: os.path.exists(f"{run}/munge.sock"), 10, "munge")


def said(*command):
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.split()


def start_slurm(folder):
    peer.start(["slurmctld", "-D", "-c"], os.path.join(folder, "slurmctld.out"))
    for node in ("n1", "n2"):
        os.makedirs(os.path.join(folder, "spool", node))
        peer.start(["slurmd", "-D", "-N", node], os.path.join(folder, f"{node}.out"))
    peer.wait_until(lambda: said("sinfo", "-h", "-N", "-o", "%T") == ["idle", "idle"], 60, "two idle nodes")


def submit_and_wait(count, logs):
    command = ["sbatch", "--quiet", "--array", f"0-{count - 1}", "--output", f"{logs}/%a.log"]
    subprocess.run([*command, "--wrap", "exec /bin/echo x"], check=True, stdout=subprocess.DEVNULL)
    peer.wait_until(lambda: said("squeue", "-h") == [], 600, "an empty queue")


def measure(count, folder):
    os.makedirs(os.path.join(folder, "state"))
    os.mkdir(os.path.join(folder, "run"), 0o755)
    os.environ["SLURM_CONF"] = os.path.join(folder, "slurm.conf")
    os.chdir(folder)
    write_settings(folder)
    start_munge(folder)
    start_slurm(folder)
    submit_and_wait(4, os.path.join(folder, "warm"))
    return peer.timed(submit_and_wait, count, os.path.join(folder, "logs"))


peer.main(measure)
