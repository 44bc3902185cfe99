"""tests/api_client.py - what the tests of the HTTP API share: requests, sentences, event streams.

Only Python's own library. Sentences are the lines of tests/lib.sh; finish() ends with exit 1 if one
was not true.
"""
import http.client
import json
import os
import ssl
import subprocess
import sys
import time
import urllib.parse

BASE = "/api/v1"
_failed = 0


def sentence(said, true, *details):
    """Prints what is claimed, and what was seen if it is not so."""
    global _failed
    print(("ok - " if true else "not ok - ") + said)
    if not true:
        _failed += 1
        for detail in details:
            for line in str(detail)[:3000].splitlines():
                print("#   " + line)
    sys.stdout.flush()
    return true


def equal(said, wanted, seen):
    return sentence(said, wanted == seen, f"expected: {wanted!r}", f"was:      {seen!r}")


def finish():
    sys.exit(1 if _failed else 0)


def wait_until(seconds, true):
    """What true() gives as soon as it is something, or its last answer when the time is up."""
    deadline = time.monotonic() + seconds
    while True:
        seen = true()
        if seen or time.monotonic() > deadline:
            return seen
        time.sleep(0.05)


class Answer:
    def __init__(self, status, headers, body):
        self.status = status
        self.headers = headers  # names in lower case
        self.body = body

    @property
    def type(self):
        return self.headers.get("content-type", "")

    @property
    def json(self):
        return json.loads(self.body)

    def __repr__(self):
        return f"{self.status} {self.type} {self.body[:400]!r}"


class Api:
    """A server as its state folder knows it: api.url and admin.token."""

    def __init__(self, state, ca=None):
        self.state = state
        with open(os.path.join(state, "api.url"), encoding="utf-8") as file:
            self.url = urllib.parse.urlsplit(file.read().strip())
        with open(os.path.join(state, "admin.token"), encoding="utf-8") as file:
            self.admin = file.read().strip()
        self.context = ssl.create_default_context(cafile=ca) if self.url.scheme == "https" else None

    def connect(self, timeout=30):
        if self.context:
            return http.client.HTTPSConnection(self.url.hostname, self.url.port, timeout=timeout,
                                               context=self.context)
        return http.client.HTTPConnection(self.url.hostname, self.url.port, timeout=timeout)

    def send(self, method, path, body=None, token="", headers=None, connection=None):
        """A request, with the administrator's token unless another (or None: no token) is given."""
        headers = dict(headers or {})
        token = self.admin if token == "" else token
        if token is not None:
            headers["Authorization"] = "Bearer " + token
        own = connection is None
        connection = connection or self.connect()
        try:
            connection.request(method, path, body=body, headers=headers)
            answer = connection.getresponse()
            names = {name.lower(): value for name, value in answer.getheaders()}
            return Answer(answer.status, names, answer.read())
        finally:
            if own:
                connection.close()

    def get(self, path, **rest):
        return self.send("GET", BASE + path, **rest)

    def post(self, path, body=None, **rest):
        return self.send("POST", BASE + path, body=body, **rest)

    def submit(self, recipe, query="", **rest):
        """The id of a workflow; commands run in the current folder."""
        folder = urllib.parse.quote(os.getcwd())
        answer = self.post(f"/workflows?folder={folder}{query}", body=recipe, **rest)
        if answer.status != 201:
            raise RuntimeError(f"not submitted: {answer!r}")
        return answer.json["id"]

    def wait(self, workflow, seconds=60):
        """The workflow's object once it has ended."""
        return wait_until(seconds, lambda: self._ended(workflow))

    def _ended(self, workflow):
        flow = self.get(f"/workflows/{workflow}").json
        return None if flow["active"] else flow

    def pages(self, path, **rest):
        """Every item of a list, page by page."""
        after = ""
        while after is not None:
            query = ("&" if "?" in path else "?") + "after=" + urllib.parse.quote(after)
            page = self.get(path + (query if after else ""), **rest).json
            yield from page["items"]
            after = page["next"]


class Stream:
    """An event stream; next() gives (id, event, data), or None when it was closed."""

    def __init__(self, api, path, last=None, timeout=20, token=None):
        self.connection = api.connect(timeout)
        headers = {"Authorization": "Bearer " + (token or api.admin), "Accept": "text/event-stream"}
        if last is not None:
            headers["Last-Event-ID"] = last
        self.connection.request("GET", BASE + path, headers=headers)
        self.answer = self.connection.getresponse()
        self.last = last

    def next(self):
        name, data, ident = "message", [], None
        while True:
            try:
                line = self.answer.readline().decode().rstrip("\r\n")
            except (http.client.HTTPException, ConnectionError):
                return None
            if line == "" and data:
                self.last = ident if ident is not None else self.last
                return ident, name, json.loads("\n".join(data))
            if line == "" and self.answer.isclosed():
                return None
            field, _, value = line.partition(":")
            value = value.removeprefix(" ")
            if field == "event":
                name = value
            elif field == "data":
                data.append(value)
            elif field == "id":
                ident = value

    def close(self):
        self.connection.close()


class Server:
    """`drover serve` and nodes, as processes; for tests that restart them."""

    def __init__(self, state, *options):
        self.drover = os.environ["DROVER"]
        self.state = state
        self.options = options
        self.process = None
        self.nodes = {}

    def start(self):
        url = os.path.join(self.state, "api.url")
        before = os.stat(url).st_mtime_ns if os.path.exists(url) else 0
        with open(self.state + ".log", "ab") as log:
            self.process = subprocess.Popen(
                [self.drover, "serve", "--state", self.state, *self.options],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        wait_until(20, lambda: os.path.exists(url) and os.stat(url).st_mtime_ns != before)
        return Api(self.state)

    def join(self, name, *options):
        with open(f"{self.state}.{name}.log", "ab") as log:
            self.nodes[name] = subprocess.Popen(
                [self.drover, "node", "--join", f"@{self.state}/join.url", "--name", name, "--work",
                 f"{self.state}.{name}", *options], stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        return self.nodes[name]

    def kill(self):
        self.process.kill()
        self.process.wait()

    def stop(self):
        for process in self.nodes.values():
            process.kill()
            process.wait()
        if self.process:
            self.process.terminate()
            try:
                self.process.wait(20)
            except subprocess.TimeoutExpired:
                self.kill()
            with open(self.state + ".log", encoding="utf-8", errors="replace") as log:
                sentence("the server ends well", self.process.returncode == 0, log.read()[-3000:])
