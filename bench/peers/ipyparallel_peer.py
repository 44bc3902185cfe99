#!/usr/bin/python3
"""ipyparallel_peer.py COUNT FOLDER - ipyparallel, two engines behind a load-balanced view."""

import os

import peer

try:
    import ipyparallel
except ImportError as error:
    peer.leave_out(f"{error.name} is not installed")


def submit_and_wait(view, logs):
    view.map_sync(peer.run_logged, logs, chunksize=1)


def measure(count, folder):
    os.environ["IPYTHONDIR"] = os.path.join(folder, "ipython")
    cluster = ipyparallel.Cluster(n=2, profile_dir=os.path.join(folder, "profile"), log_level=50)
    with cluster as client:
        view = client.load_balanced_view()
        submit_and_wait(view, peer.log_files(folder, "warm", 50))
        return peer.timed(submit_and_wait, view, peer.log_files(folder, "logs", count))


peer.main(measure)
