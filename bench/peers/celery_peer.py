#!/usr/bin/python3
"""celery_peer.py COUNT FOLDER - Celery with Redis as broker and result store, two worker processes."""

import os
import shutil
import sys

import peer

try:
    import celery
    import redis
except ImportError as error:
    peer.leave_out(f"{error.name} is not installed")
# Debian's redis-server is the same program as redis-check-rdb and looks at its name. The latter is
# in redis-tools, which comes without a service.
SERVER = shutil.which("redis-server") or shutil.which("redis-check-rdb")
if not SERVER:
    peer.leave_out("Redis is not installed")


def start_redis(folder, socket):
    settings = ["--port", "0", "--unixsocket", socket, "--dir", folder, "--save", "", "--daemonize", "no"]
    server = peer.start(["redis-server", *settings], os.path.join(folder, "redis.log"), executable=SERVER)
    peer.wait_until(lambda: os.path.exists(socket), 10, "redis")
    redis.Redis(unix_socket_path=socket).ping()
    return server


def start_worker(folder):
    command = [sys.executable, "-m", "celery", "-A", "celery_tasks", "worker", "--concurrency", "2", "--pool",
               "prefork", "--without-gossip", "--without-mingle", "--without-heartbeat", "--loglevel", "ERROR"]
    environment = {**os.environ, "C_FORCE_ROOT": "1"}
    return peer.start(command, os.path.join(folder, "worker.log"), cwd=folder, env=environment)


def submit_and_wait(task, logs):
    celery.group(task.s(log) for log in logs).apply_async().get(timeout=600)


def measure(count, folder):
    socket = os.path.join(folder, "redis.sock")
    os.environ["BENCH_REDIS"] = f"redis+socket://{socket}"
    start_redis(folder, socket)
    start_worker(folder)
    import celery_tasks

    submit_and_wait(celery_tasks.run, peer.log_files(folder, "warm", 50))
    return peer.timed(submit_and_wait, celery_tasks.run, peer.log_files(folder, "logs", count))


peer.main(measure)
