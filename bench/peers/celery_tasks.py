"""celery_tasks.py - the task that bench/peers/celery_peer.py submits and its worker runs."""

import os

import celery
import peer

url = os.environ["BENCH_REDIS"]
app = celery.Celery("bench", broker=url, backend=url)


@app.task
def run(log):
    return peer.run_logged(log)
