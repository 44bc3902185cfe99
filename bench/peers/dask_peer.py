#!/usr/bin/python3
"""dask_peer.py COUNT FOLDER - Dask distributed, two worker processes of one thread each."""

import logging

import peer

try:
    from distributed import Client, LocalCluster
except ImportError as error:
    peer.leave_out(f"{error.name} is not installed")


def submit_and_wait(client, logs):
    client.gather(client.map(peer.run_logged, logs, pure=False))


def measure(count, folder):
    cluster = LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None,
                           local_directory=folder, silence_logs=logging.ERROR)
    with cluster, Client(cluster) as client:
        client.wait_for_workers(2)
        submit_and_wait(client, peer.log_files(folder, "warm", 50))
        return peer.timed(submit_and_wait, client, peer.log_files(folder, "logs", count))


if __name__ == "__main__":  # its workers import this file again
    peer.main(measure)
