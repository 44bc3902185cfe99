#!/usr/bin/env python3
"""tests/object_proxy.py HOST:PORT - a bad network in front of an S3 server.

Listens on a loopback port of its own for each fault and prints one line, "FAULT=http://127.0.0.1:PORT"
for each, then serves until it is killed. A request is read whole, so that a fault hits it at a
known point:
  reset        the connection is reset, and the server sees nothing
  lost         the server does it, then the connection is reset
  truncate     the answer ends in the middle of its body
  unavailable  503 SlowDown
  stall        nothing comes back
  damage       a byte of the request's body is changed
  etag         the answer has another etag
  random       one in ten requests gets one of the first four, by a fixed seed
"""
import random
import socket
import struct
import sys
import threading

FAULTS = ["reset", "lost", "truncate", "unavailable", "stall", "damage", "etag", "random"]
SLOW = b"<?xml version='1.0'?><Error><Code>SlowDown</Code><Message>Later, please.</Message></Error>"


def read_head(stream):
    """The lines of a head, as bytes with the empty line; b'' at the end of the stream."""
    head = b""
    while True:
        line = stream.readline(65536)
        if not line:
            return b""
        head += line
        if line in (b"\r\n", b"\n"):
            return head


def header(head, name):
    for line in head.split(b"\r\n")[1:]:
        key, _, value = line.partition(b":")
        if key.strip().lower() == name:
            return value.strip()
    return None


def read_chunks(stream):
    body = b""
    while True:
        size = stream.readline(100)
        chunk = stream.read(int(size, 16) + 2)
        body += size + chunk
        if int(size, 16) == 0:
            return body


def read_body(stream, head, is_empty):
    if is_empty:
        return b""
    if (header(head, b"transfer-encoding") or b"").lower() == b"chunked":
        return read_chunks(stream)
    return stream.read(int(header(head, b"content-length") or 0))


def reset(client):
    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def replace_etag(head):
    lines = head.split(b"\r\n")
    fake = b'ETag: "00000000000000000000000000000000"'
    return b"\r\n".join(fake if line.lower().startswith(b"etag:") else line for line in lines)


class Server:
    """One connection to the real server, made again when it is gone."""

    def __init__(self, address):
        self.socket = socket.create_connection(address)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.stream = self.socket.makefile("rb")

    def ask(self, head, body):
        self.socket.sendall(head + body)
        while True:
            answer = read_head(self.stream)
            if answer.split(b" ", 2)[1:2] != [b"100"]:
                break
        status = int(answer.split(b" ", 2)[1])
        is_empty = head.startswith(b"HEAD ") or status in (204, 304)
        return answer, read_body(self.stream, answer, is_empty)

    def close(self):
        self.stream.close()
        self.socket.close()


def serve_one(client, server, fault, head, body):
    """True if the connection can go on."""
    if fault == "reset":
        reset(client)
        return False
    if fault == "stall":
        client.recv(1)  # until the other side gives up
        return False
    if fault == "unavailable":
        client.sendall(b"HTTP/1.1 503 Slow Down\r\nContent-Length: %d\r\n\r\n" % len(SLOW))
        client.sendall(b"" if head.startswith(b"HEAD ") else SLOW)
        return True
    if fault == "damage" and body:
        body = bytes([body[0] ^ 1]) + body[1:]
    answer, content = server.ask(head, body)
    if fault == "lost":
        reset(client)
        return False
    if fault == "truncate" and content:
        client.sendall(answer + content[:len(content) // 2])
        return False
    if fault == "etag":
        answer = replace_etag(answer)
    client.sendall(answer + content)
    return True


def serve(client, address, fault, draw):
    client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    stream = client.makefile("rb")
    server = None
    try:
        server = Server(address)
        while True:
            head = read_head(stream)
            if not head:
                break
            body = read_body(stream, head, False)
            chosen = fault
            if fault == "random":
                chosen = draw.choice(FAULTS[:4]) if draw.random() < 0.1 else ""
            if not serve_one(client, server, chosen, head, body):
                break
    except (OSError, ValueError, IndexError):
        pass  # either side went away
    finally:
        if server:
            server.close()
        stream.close()
        client.close()


def accept(listener, address, fault):
    draw = random.Random(1)
    while True:
        client, _ = listener.accept()
        threading.Thread(target=serve, args=(client, address, fault, draw), daemon=True).start()


def main():
    host, _, port = sys.argv[1].rpartition(":")
    threads = []
    said = []
    for fault in FAULTS:
        listener = socket.create_server(("127.0.0.1", 0), backlog=128)
        said.append(f"{fault}=http://127.0.0.1:{listener.getsockname()[1]}")
        threads.append(threading.Thread(target=accept, args=(listener, (host, int(port)), fault),
                                        daemon=True))
    for thread in threads:
        thread.start()
    print(" ".join(said), flush=True)
    for thread in threads:
        thread.join()


if __name__ == "__main__":
    main()
