"""tests/api_hostile.py - clients that mean no good, against a server that has others to serve: slow
ones, huge ones, many, half requests, nonsense. A normal client must not notice."""
import os
import random
import socket
import threading
import time

from api_client import BASE, Server, equal, finish, sentence, wait_until

GOOD = "experiments:\n  a: {command: echo fine}\n"


def main():
    server = Server("s")
    try:
        api = server.start()
        server.join("one", "--slots", "2")
        wait_until(20, lambda: api.get("/nodes").json["items"])
        normal = Normal(api)
        normal.start()
        check_limits(api)
        check_head(api)
        check_slow(api)
        check_nonsense(api)
        check_crowd(api)
        normal.stop()
        check_after(server, api, normal)
    finally:
        server.stop()
    finish()


class Normal(threading.Thread):
    """Works all the while; `slowest` is the longest it had to wait for an answer."""

    def __init__(self, api):
        super().__init__(daemon=True)
        self.api, self.slowest, self.failures, self.flows = api, 0.0, [], []
        self.going = True

    def run(self):
        while self.going:
            began = time.monotonic()
            try:
                self.flows.append(self.api.submit(GOOD, "&file=normal"))
                self.api.get("/nodes").json["items"][0]["name"].encode()
            except (OSError, RuntimeError, KeyError, ValueError) as trouble:
                self.failures.append(repr(trouble))
            self.slowest = max(self.slowest, time.monotonic() - began)
            time.sleep(0.1)

    def stop(self):
        self.going = False
        self.join()


def plug(api, timeout=5):
    return socket.create_connection((api.url.hostname, api.url.port), timeout)


def read_all(connection):
    """What comes until the other side closes, or has nothing more to say."""
    got = b""
    try:
        while True:
            piece = connection.recv(65536)
            if not piece:
                return got, True
            got += piece
    except TimeoutError:
        return got, False
    except OSError:
        return got, True


def refused(api):
    return api.get("/server").json["counts"]["http_refused"]


def check_limits(api):
    before = refused(api)
    large = b"x" * (9 << 20)
    connection = plug(api)
    try:
        connection.sendall(f"POST {BASE}/workflows HTTP/1.1\r\nHost: x\r\nContent-Length: {len(large)}\r\n"
                           f"Authorization: Bearer {api.admin}\r\n\r\n".encode() + large)
    except OSError:
        pass  # it hung up in the middle; the answer may still be there
    got, closed = read_all(connection)
    sentence("a body of 9 MB is too large", b" 413 " in got[:20] or (closed and not got), got[:200])
    connection.close()
    connection = plug(api)
    connection.sendall(f"POST {BASE}/workflows HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {api.admin}\r\n"
                       f"Content-Length: {1 << 40}\r\n\r\n".encode())
    got, _ = read_all(connection)
    sentence("one of a terabyte is refused before it is sent", b" 413 " in got[:20], got[:200])
    sentence("as a problem", b"application/problem+json" in got, got[:400])
    connection.close()
    connection = plug(api)
    connection.sendall(f"GET {BASE}/server HTTP/1.1\r\nHost: x\r\nX-Long: {'y' * 40000}\r\n\r\n".encode())
    got, _ = read_all(connection)
    sentence("a header of 40 KB is too large", b" 431 " in got[:20], got[:200])
    connection.close()
    connection = plug(api)
    connection.sendall(f"GET {BASE}/server?{'q' * 40000} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
    got, _ = read_all(connection)
    sentence("so is a URL of 40 KB", b" 414 " in got[:20] or b" 431 " in got[:20], got[:200])
    connection.close()
    connection = plug(api)
    chunk = b"10000\r\n" + b"z" * 0x10000 + b"\r\n"
    try:
        connection.sendall(f"POST {BASE}/workflows HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {api.admin}\r\n"
                           "Transfer-Encoding: chunked\r\n\r\n".encode())
        for _ in range(400):
            connection.sendall(chunk)
    except OSError:
        pass
    got, closed = read_all(connection)
    sentence("a body without end is cut off", b" 413 " in got[:20] or closed, got[:200])
    connection.close()
    sentence("all that is counted", refused(api) >= before + 3, before, refused(api))


def memory_mb(api):
    for line in api.send("GET", "/metrics").body.decode().splitlines():
        if line.startswith("process_resident_memory_bytes"):
            return int(float(line.split()[1])) >> 20
    return 0


def check_head(api):
    """Up to a gigabyte of headers."""
    before = memory_mb(api)
    connection = plug(api)
    sent, line = 0, b"X-Fill: " + b"f" * 8000 + b"\r\n"
    piece = line * 128
    try:
        connection.sendall(f"GET {BASE}/server HTTP/1.1\r\nHost: x\r\n".encode())
        while sent < 1 << 30:
            connection.sendall(piece)
            sent += len(piece)
    except OSError:
        pass
    connection.close()
    sentence(f"a gigabyte of headers is cut off (after {sent >> 20} MB)", sent < 64 << 20)
    after = memory_mb(api)
    sentence(f"and costs no memory ({before} MB before, {after} MB then)", after < before + 16)


def check_slow(api):
    """100 connections that say a byte now and then, or nothing."""
    slow = []
    began = time.monotonic()
    for i in range(100):
        connection = plug(api)
        connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\nX-Slow: "[:20 + i % 20])
        slow.append(connection)
    gone = 0
    while time.monotonic() - began < 40 and slow:
        for connection in list(slow):
            try:
                connection.sendall(b"a")
                connection.setblocking(False)
                if connection.recv(1000) == b"":
                    raise ConnectionResetError
            except BlockingIOError:
                connection.setblocking(True)
                continue
            except OSError:
                connection.close()
                slow.remove(connection)
                gone += 1
                continue
            connection.setblocking(True)
        time.sleep(0.5)
    took = time.monotonic() - began
    equal(f"100 slow ones are sent away, after {took:.0f} s", 100, gone)


def check_nonsense(api):
    seed = int(time.time()) % 100000
    rng = random.Random(seed)
    starts = [b"", b"GET ", b"POST /api/v1/workflows HTTP/1.1\r\n", b"\x16\x03\x01\x02\x00\x01",
              b"GET / HTTP/9.9\r\n\r\n", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
              b"POST /api/v1/workflows HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n",
              b"POST /api/v1/workflows HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nab",
              b"POST /api/v1/workflows HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n"]
    wrong = []
    for i in range(200):
        connection = plug(api, 0.2)
        try:
            connection.sendall(rng.choice(starts) + rng.randbytes(rng.randrange(200)))
            connection.shutdown(socket.SHUT_WR)
            got, _ = read_all(connection)
            if got and b" 4" not in got[:16] and b" 5" not in got[:16]:
                wrong.append(got[:100])
        except OSError:
            pass
        connection.close()
    equal(f"nonsense is refused or hung up on (seed {seed})", [], wrong)


def check_crowd(api):
    """More connections than the server keeps, and more streams."""
    crowd = []
    for _ in range(1500):
        try:
            connection = plug(api, 2)
            connection.sendall(f"GET {BASE}/events HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer "
                               f"{api.admin}\r\n\r\n".encode())
            crowd.append(connection)
        except OSError:
            break
    got = wait_until(10, lambda: some_answer(crowd, b" 503 "))
    sentence("one stream too many is told to come back later", got and b"Retry-After" in got, got)
    for connection in crowd:
        connection.close()
    sentence("when they have gone, there is room again", wait_until(
        30, lambda: api.get("/server").json["counts"]["http_streams"] < 5))


def some_answer(crowd, wanted):
    for connection in crowd:
        try:
            connection.setblocking(False)
            got = connection.recv(2000, socket.MSG_PEEK)
        except OSError:
            continue
        if wanted in got[:20]:
            return got
    return None


def check_after(server, api, normal):
    equal("a normal client had no trouble all the while", [], normal.failures[:5])
    sentence(f"it made {len(normal.flows)} workflows, and waited {normal.slowest:.2f} s at most",
             len(normal.flows) > 20 and normal.slowest < 5)
    equal("all of them are there", len(normal.flows), sum(1 for _ in api.pages("/workflows?limit=1000")))
    wait_until(30, lambda: not api.get("/workflows?state=running").json["items"])
    equal("and have succeeded", {"succeeded"}, {f["state"] for f in api.pages("/workflows")})
    equal("no descriptor is left open", True, wait_until(
        20, lambda: len(os.listdir(f"/proc/{server.process.pid}/fd")) < 80))
    with open(api.state + ".log", encoding="utf-8") as file:
        lines = file.read().splitlines()
    sentence(f"the server said little about it ({len(lines)} lines)", len(lines) < 20, *lines[:20])


if __name__ == "__main__":
    main()
