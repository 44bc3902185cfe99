"""tests/api_rest.py - how the HTTP API behaves: who may what, submitting once, bodies, lists, logs."""
import json
import os
import threading

from api_client import BASE, Server, Stream, equal, finish, sentence, wait_until

GOOD = "experiments:\n  a: {command: echo once}\n"
SLOW = "experiments:\n  s: {parameters: {x: 0..3}, command: sleep 60}\n"


def main():
    server = Server("s")
    try:
        api = server.start()
        server.join("one", "--slots", "2")
        server.join("two", "--slots", "2", "--no-share")
        wait_until(20, lambda: len(api.get("/nodes").json["items"]) == 2)
        check_roles(api)
        check_tokens(api)
        check_keys(api)
        check_bodies(api)
        check_problems(api)
        check_lists(api)
        check_logs(api)
        check_headers(api)
    finally:
        server.stop()
    finish()


# ---- who may what ----------------------------------------------------------------------------


def make_token(api, name, role):
    return api.post("/tokens", json.dumps({"name": name, "role": role})).json["token"]


def check_roles(api):
    slow = api.submit(SLOW, "&file=roles")
    tokens = {role: make_token(api, "t-" + role, role) for role in ("reader", "user", "admin")}
    may = {  # the least role that gets something else than 403
        ("GET", "/server"): "reader", ("GET", "/workflows"): "reader",
        ("GET", f"/workflows/{slow}/tasks"): "reader", ("GET", "/nodes"): "reader",
        ("GET", f"/workflows/{slow}/recipe"): "reader", ("GET", "/usage?node=one"): "reader",
        ("POST", "/workflows"): "user", ("POST", "/nodes/nobody/drain"): "user",
        ("POST", f"/workflows/{slow}/tasks/s/3/cancel"): "user",
        ("POST", f"/workflows/{slow}/cancel"): "user", ("POST", f"/workflows/{slow}/retry"): "user",
        ("POST", "/code/missing"): "user", ("PUT", "/code/objects/x"): "user",
        ("GET", "/tokens"): "admin", ("POST", "/tokens"): "admin",
        ("DELETE", "/tokens/nobody"): "admin", ("POST", "/nodes/nobody/revoke"): "admin",
        ("POST", "/join/rotate"): "admin",
    }
    order = ["reader", "user", "admin"]
    wrong = []
    for (method, path), least in may.items():
        for role in order:
            status = api.send(method, BASE + path, token=tokens[role]).status
            if (status == 403) != (order.index(role) < order.index(least)) or status == 401:
                wrong.append(f"{role} {method} {path}: {status}")
        for token in (None, "", "drv_" + "x" * 43, tokens["reader"][:-1], tokens["reader"] + "x"):
            answer = api.send(method, BASE + path, token=token or None,
                              headers={"Authorization": "Bearer "} if token == "" else {})
            if answer.status != 401 or answer.headers.get("www-authenticate") is None:
                wrong.append(f"{token} {method} {path}: {answer.status} {answer.headers}")
    equal("each role may what it may, and nobody without a token may anything", [], wrong)
    other = {"Authorization": "Basic " + "YWRtaW46YWRtaW4="}
    equal("another scheme is no token", 401, api.get("/server", token=None, headers=other).status)
    equal("a token in the URL is none", 401,
          api.get("/server?token=" + api.admin, token=None).status)
    api.post(f"/workflows/{slow}/cancel")


def check_tokens(api):
    token = make_token(api, "brief", "user")
    equal("a new token works", 200, api.get("/server", token=token).status)
    stream = Stream(api, "/events", token=token)
    equal("it opens a stream", 200, stream.answer.status)
    equal("it is removed", 200, api.send("DELETE", BASE + "/tokens/brief").status)
    equal("and is worth nothing at once", 401, api.get("/server", token=token).status)
    stream.close()
    answer = api.send("DELETE", BASE + "/tokens/t-admin")
    answer = api.send("DELETE", BASE + "/tokens/admin")
    sentence("the last administrator cannot be removed", answer.status == 409, answer)
    listed = api.get("/tokens").body.decode()
    sentence("the list shows no token", api.admin not in listed and "drv_" not in listed, listed)
    for name in ("drover.db", "drover.db-wal"):
        path = os.path.join(api.state, name)
        with open(path, "rb") as file:
            sentence(f"no token is in {name}", api.admin.encode() not in file.read())
    with open(api.state + ".log", encoding="utf-8") as file:
        sentence("nor in what the server prints", api.admin not in file.read())


# ---- submitting ------------------------------------------------------------------------------


def count_flows(api):
    return sum(1 for _ in api.pages("/workflows"))


def check_keys(api):
    before = count_flows(api)
    key = {"Idempotency-Key": "key 1"}
    first = api.post("/workflows?folder=/", GOOD, headers=key)
    again = api.post("/workflows?folder=/", GOOD, headers=key)
    equal("with the same key the same workflow is given", (201, first.json["id"], before + 1),
          (first.status, again.json["id"], count_flows(api)))
    equal("its place is told", f"{BASE}/workflows/{first.json['id']}", first.headers.get("location"))
    other = api.post("/workflows?folder=/", SLOW, headers=key)
    equal("with another recipe it is refused", (409, before + 1), (other.status, count_flows(api)))
    other = api.post("/workflows?folder=/&seed=5", GOOD, headers=key)
    equal("so it is with another seed", (409, before + 1), (other.status, count_flows(api)))
    seen = []
    threads = [threading.Thread(target=lambda: seen.append(
        api.post("/workflows?folder=/", GOOD, headers={"Idempotency-Key": "key 2"}).json["id"]))
        for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    equal("eight at a time make one workflow", (1, before + 2), (len(set(seen)), count_flows(api)))
    long = api.post("/workflows?folder=/", GOOD, headers={"Idempotency-Key": "k" * 256})
    equal("a key has a limit", 400, long.status)


def check_bodies(api):
    as_json = json.dumps({"experiments": {"a": {"command": "echo json", "parameters": {"x": [1, 2]}}}})
    for kind, body in (("application/yaml", GOOD), ("text/yaml; charset=utf-8", GOOD),
                       ("application/json", as_json), ("text/plain", GOOD), (None, GOOD),
                       ("application/x-www-form-urlencoded", GOOD),
                       ("application/x-www-form-urlencoded", as_json)):
        headers = {"Content-Type": kind} if kind else {}
        answer = api.post("/workflows?folder=/", body, headers=headers)
        equal(f"a recipe may be {kind or 'of no kind'}{' in JSON' if body == as_json else ''}", 201,
              answer.status)
    equal("it can be read again as it was", as_json, api.get("/workflows/newest/recipe").body.decode())
    before = count_flows(api)
    wrong = []
    for body in ("\0", "a: b: c", "[" * 5000, "experiments: {}", "&a [*a]", '{"experiments": 7}', "\xff",
                 "experiments: {a: {command: x, parameters: {x: 1..9999999999999999999999}}}"):
        answer = api.post("/workflows?folder=/", body.encode("latin-1"))
        if answer.status != 422 or answer.type != "application/problem+json":
            wrong.append(f"{body[:20]!r}: {answer!r}")
    equal("what is no recipe is refused, and nothing is made", ([], before), (wrong, count_flows(api)))


def check_problems(api):
    answer = api.post("/workflows?folder=/&file=wrong.yaml",
                      "experiments:\n  a: {comand: echo}\n  b: {command: echo, retires: 2}\n")
    equal("a wrong recipe is a problem", (422, "application/problem+json"), (answer.status, answer.type))
    errors = answer.json["errors"]
    places = {(e["file"], e["line"]) for e in errors}
    sentence("every mistake is told with its place", {("wrong.yaml", 2), ("wrong.yaml", 3)} <= places,
             errors)
    sentence("and with what was meant", any("did you mean 'retries'" in e["message"] for e in errors),
             errors)
    answer = api.get("/nothing")
    equal("what is not there is a problem", (404, "application/problem+json"), (answer.status, answer.type))
    equal("which says so twice", 404, answer.json["status"])
    answer = api.send("DELETE", BASE + "/workflows")
    equal("a method that is not there", 405, answer.status)
    sentence("names those that are", {"GET", "POST"} == set(answer.headers.get("allow", "").split(", ")),
             answer.headers)
    equal("an unknown parameter is told", 400, api.get("/nodes?colour=red").status)


# ---- lists and logs --------------------------------------------------------------------------


def check_lists(api):
    flow = api.submit("experiments:\n  a: {parameters: {x: 0..24}, command: 'test {{x}} -ne 7'}\n"
                      "  b: {depends_on: a, command: echo never}\n", "&file=lists")
    api.wait(flow)
    tasks = f"/workflows/{flow}/tasks"
    whole = list(api.pages(tasks))
    equal("all tasks are listed in order", [("a", i) for i in range(25)] + [("b", 0)],
          [(t["experiment"], t["task"]) for t in whole])
    for limit in (1, 7, 1000):
        equal(f"the same in pages of {limit}", whole,
              list(api.pages(f"{tasks}?limit={limit}")))
    for query, wanted in (("failed=1", [("a", 7)]), ("state=skipped", [("b", 0)]),
                          ("experiment=b", [("b", 0)]), ("state=failed&experiment=b", []),
                          ("state=queued", [])):
        equal(f"?{query} finds what it should", wanted,
              [(t["experiment"], t["task"]) for t in api.pages(f"{tasks}?{query}&limit=3")])
    task = api.get(f"{tasks}/a/7").json
    equal("one task is as in the list", whole[7], task)
    equal("it says why it failed", (1, "failed", {"x": 7}),
          (task["exit_code"], task["state"], task["params"]))
    sentence("and where it ran", task["node"] in ("one", "two"), task)
    flows = [f["id"] for f in api.pages("/workflows?limit=2")]
    equal("workflows come newest first", flow, flows[0])
    equal("each once", len(flows), len(set(flows)))
    equal("by state too", {"failed"}, {f["state"] for f in api.pages("/workflows?state=failed&limit=1")})


def check_logs(api):
    flow = api.submit("experiments:\n"
                      "  a: {parameters: {x: 0..1}, hardware: {labels: [node=one]}, command: \"for i in 1 2 3 4 5; do echo line $i of "
                      "{{x}}; sleep 0.3; done; printf 'no end \\\\377'\"}\n", "&file=logs")
    seen, ids, offset = "", [], None
    stream = Stream(api, f"/workflows/{flow}/tasks/a/0/log")
    for ident, kind, data in iter(stream.next, None):
        ids.append((kind, ident))
        if kind == "log":
            seen += data
            if offset is None:
                offset = ident
    wanted = "".join(f"line {i} of 0\n" for i in range(1, 6)) + "no end \ufffd"
    equal("a log is followed from its beginning to its end", wanted, seen)
    sentence("piece by piece, while it is written", len(ids) > 3 and ids[-1][0] == "end", ids)
    stream = Stream(api, f"/workflows/{flow}/tasks/a/0/log", last=offset)
    rest = "".join(data for _, kind, data in iter(stream.next, None) if kind == "log")
    sentence("it goes on after the last piece", wanted.endswith(rest) and len(rest) < len(wanted), rest)
    sentence("without a gap", seen[:len(wanted) - len(rest)] + rest == wanted)
    api.wait(flow)
    plain = f"/workflows/{flow}/tasks/a/1/log"
    whole = api.get(plain)
    equal("the plain log is as it was printed", b"line 1 of 1\n", whole.body[:12])
    sentence("byte by byte", whole.body.endswith(b"no end \xff"), whole)
    equal("a part of it", whole.body[5:12], api.get(plain + "?offset=5&size=7").body)
    equal("beyond its end there is nothing", (200, b""),
          (lambda a: (a.status, a.body))(api.get(plain + "?offset=99999")))
    system = api.get(plain + "?stream=system").body.decode()
    sentence("the system's log says what became of it", "one" in system or "two" in system, system)
    found = api.get(f"/workflows/{flow}/logs/search?text=line%203").json
    equal("logs are searched", [(0, 3), (1, 3)], sorted((f["task"], f["line"]) for f in found["items"]))
    equal("to the end", (True, None), (found["complete"], found["next"]))


def check_headers(api):
    answer = api.get("/server", headers={"Origin": "https://evil.example"})
    cross = [name for name in answer.headers if name.startswith("access-control")]
    equal("nothing is said to pages of other sites", [], cross)
    answer = api.send("OPTIONS", BASE + "/workflows", token=None,
                      headers={"Origin": "https://evil.example",
                               "Access-Control-Request-Method": "POST"})
    cross = [name for name in answer.headers if name.startswith("access-control")]
    sentence("not when they ask before either", not cross, answer)
    equal("nothing is kept by caches", "no-store", api.get("/server").headers.get("cache-control"))
    connection = api.connect()
    for _ in range(3):
        api.send("GET", BASE + "/server", connection=connection)
    sentence("a connection is used again", connection.sock is not None)
    connection.close()
    equal("a query may be escaped", 200, api.get("/nodes?limi%74=%31").status)
    equal("a path may not climb", 400, api.get("/workflows/..%2f..%2fetc%2fpasswd/recipe").status)


if __name__ == "__main__":
    main()
