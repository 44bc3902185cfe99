"""tests/api_events.py - the event stream: whole, in order, resumed without loss or repetition, also
by many readers and over a restart of the server; and the webhook at the end of a workflow."""
import hashlib
import hmac
import http.server
import json
import random
import sys
import threading
import time

from api_client import Server, Stream, equal, finish, sentence, wait_until

TASKS = 300
RECIPE = "experiments:\n  a: {parameters: {x: 1..%d}, command: 'echo {{x}}'}\n" % TASKS


def main():
    server = Server("s")
    try:
        api = server.start()
        server.join("one", "--slots", "4")
        server.join("two", "--slots", "4")
        wait_until(20, lambda: len(api.get("/nodes").json["items"]) == 2)
        check_resume(api)
        check_filter(api)
        check_slow_reader(api)
        check_webhook(api)
        check_restart(server, api)
        check_told_after_death(server, api)
    finally:
        server.stop()
    finish()


def read_until_end(stream, flow, seen):
    """True once the workflow's end was seen; False if the stream was closed before."""
    for event in iter(stream.next, None):
        seen.append(event)
        if event[1] == "workflow" and event[2]["workflow"] == flow and event[2]["state"] != "running":
            return True
    return False


def numbers(events):
    return [int(ident) for ident, kind, _ in events if kind != "reset"]


def check_resume(api):
    """One reads in one go, one is cut off again and again; both see the same."""
    seed = int(time.time()) % 100000
    rng = random.Random(seed)
    start = api.get("/server").json["last_event_id"]
    whole, cut = Stream(api, "/events", last=start), []
    flow = api.submit(RECIPE, "&file=resume")

    def read_cut():
        last, done = start, False
        while not done:
            stream = Stream(api, "/events", last=last)
            for _ in range(rng.randrange(1, 60)):
                event = stream.next()
                if event is None:
                    break
                cut.append(event)
                done = event[1] == "workflow" and event[2]["state"] == "succeeded"
                if done:
                    break
            last = stream.last or last
            stream.close()

    thread = threading.Thread(target=read_cut)
    thread.start()
    seen = []
    sentence("the end of a workflow is told", read_until_end(whole, flow, seen))
    whole.close()
    thread.join(60)
    equal("ids grow by one", list(range(int(start) + 1, int(start) + 1 + len(seen))), numbers(seen))
    done = [d["task"] for _, kind, d in seen if kind == "task" and d["state"] == "succeeded"]
    equal("each success is told once", list(range(TASKS)), sorted(done))
    equal(f"who is cut off and comes back sees the same (seed {seed})", seen, cut)
    stream = Stream(api, f"/events?last_event_id={seen[9][0]}")
    equal("the id may be in the query", seen[10], stream.next())
    stream.close()
    for last in ("nonsense", "-1", "9" * 40):
        stream = Stream(api, "/events", last=last)
        sentence(f"an id like '{last[:8]}' harms nothing", stream.answer.status in (200, 400),
                 stream.answer.status)
        stream.close()


def check_filter(api):
    start = api.get("/server").json["last_event_id"]
    flows = [api.submit(RECIPE.replace(str(TASKS), "5"), "&file=f") for _ in range(3)]
    for flow in flows:
        api.wait(flow)
    stream, seen = Stream(api, f"/events?workflow={flows[1]}", last=start), []
    read_until_end(stream, flows[1], seen)
    stream.close()
    equal("?workflow= leaves out the others", {flows[1]},
          {d["workflow"] for _, kind, d in seen if kind in ("task", "workflow", "experiment")})


def check_slow_reader(api):
    """A reader that does not read: the server neither waits nor keeps everything for it."""
    start = api.get("/server").json["last_event_id"]
    lazy = Stream(api, "/events", last=start)
    flow = api.submit(RECIPE.replace(str(TASKS), "4000"), "&file=lazy")
    ended = api.wait(flow, 90)
    sentence("a reader that does not read holds nothing up", ended and ended["state"] == "succeeded", ended)
    seen, last = [], start
    while not read_until_end(lazy, flow, seen):  # cut off for being slow: it goes on where it was
        last = lazy.last or last
        lazy.close()
        lazy = Stream(api, "/events", last=last)
    lazy.close()
    done = [d["task"] for _, kind, d in seen if kind == "task" and d["state"] == "succeeded"]
    equal("it can read all of it later", 4000, len(set(done)))
    equal("without repetition", len(numbers(seen)), len(set(numbers(seen))))


def check_restart(server, api):
    flow = api.submit("experiments:\n  a: {parameters: {x: 1..8}, command: 'for i in 1 2 3 4 5 6; do echo "
                      "$i; sleep 0.5; done'}\n", "&file=restart")
    stream = Stream(api, "/events", last=api.get("/server").json["last_event_id"])
    log = Stream(api, f"/workflows/{flow}/tasks/a/0/log")
    first = log.next()
    equal("a log is followed", "log", first and first[1])
    begun = set()
    for _, kind, data in iter(stream.next, None):
        begun |= {data["task"]} if kind == "task" and data["state"] == "running" else set()
        if len(begun) == 8:
            break
    equal("tasks that run for a while are told when they begin", set(range(8)), begun)
    server.kill()
    while stream.next() is not None:
        pass  # what was told before the end
    last_log = log.last
    text = first[2]
    for event in iter(log.next, None):
        text += event[2] if event[1] == "log" else ""
        last_log = log.last
    api = server.start()
    again, seen = Stream(api, "/events", last=stream.last), []
    sentence("who comes back sees the end", read_until_end(again, flow, seen), seen[-3:])
    again.close()
    equal("and is told first that events were missed", "reset", seen[0][1])
    equal("then ids grow by one again", True,
          numbers(seen) == list(range(numbers(seen)[0], numbers(seen)[0] + len(numbers(seen)))))
    log = Stream(api, f"/workflows/{flow}/tasks/a/0/log", last=last_log)
    text += "".join(data for _, kind, data in iter(log.next, None) if kind == "log")
    equal("a log that is followed goes on over the restart, without loss or repetition",
          "1\n2\n3\n4\n5\n6\n", text)
    tasks = list(api.pages(f"/workflows/{flow}/tasks"))
    equal("no task was run again", {1}, {task["attempt"] for task in tasks})


# ---- the webhook -----------------------------------------------------------------------------


def check_webhook(api):
    calls = []

    class Receiver(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            body = self.rfile.read(int(self.headers["Content-Length"]))
            calls.append((self.path, self.headers, body))
            self.send_response(500 if len(calls) == 1 else 204)
            self.end_headers()

        def log_message(self, *_):
            pass

    receiver = http.server.HTTPServer(("127.0.0.1", 0), Receiver)
    threading.Thread(target=receiver.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{receiver.server_port}"
    with open("hook.key", "w", encoding="utf-8") as file:
        file.write("a secret\n")
    flow = api.submit(f"webhook: [{{url: '{url}/done', secret: hook.key}}, {{url: '{url}/failed', on: failed}}]\n"
                      "experiments:\n  a: {parameters: {x: 1..3}, command: echo hook}\n", "&file=hook")
    api.wait(flow)
    wait_until(15, lambda: len(calls) >= 2)
    time.sleep(0.3)
    receiver.shutdown()
    receiver.server_close()
    equal("the end of a workflow is told to its webhook, again if it was not taken", ["/done"] * 2,
          [path for path, _, _ in calls])
    if calls:
        _, headers, body = calls[-1]
        signature = "sha256=" + hmac.new(b"a secret", body, hashlib.sha256).hexdigest()
        equal("its signature is right", signature, headers["X-Drover-Signature"])
        said = json.loads(body)
        equal("it says how it ended", (flow, "succeeded", 3, 3, 0),
              (said["id"], said["state"], said["tasks"], said["succeeded"], said["failed"]))
    with open(api.state + ".log", encoding="utf-8") as file:
        sentence("the secret is nowhere printed", "a secret" not in file.read())


def check_told_after_death(server, api):
    """Nobody hears the call, the server is killed, and the next one makes it; the one after that does not."""
    calls = []

    class Receiver(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            calls.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_):
            pass

    receiver = http.server.HTTPServer(("127.0.0.1", 0), Receiver)
    address = receiver.server_address
    receiver.server_close()
    flow = api.submit(f"webhook: 'http://127.0.0.1:{address[1]}/late'\n"
                      "experiments:\n  a: {command: echo late}\n", "&file=late")
    api.wait(flow)
    finished = api.get("/workflows/" + flow).json["finished_at"]
    server.kill()
    receiver = http.server.HTTPServer(address, Receiver)
    threading.Thread(target=receiver.serve_forever, daemon=True).start()
    api = server.start()
    wait_until(15, lambda: len(calls) >= 1)
    equal("a server that was killed tells of an end when it runs again", [(flow, "succeeded")],
          [(call["id"], call["state"]) for call in calls])
    equal("and still knows when that was", finished, api.get("/workflows/" + flow).json["finished_at"])
    server.process.terminate()
    server.process.wait(20)
    server.start()
    time.sleep(1.5)
    equal("but does not tell again what it has told", 1, len(calls))
    receiver.shutdown()
    receiver.server_close()


if __name__ == "__main__":
    sys.setswitchinterval(0.001)
    main()
