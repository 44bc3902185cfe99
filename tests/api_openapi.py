"""tests/api_openapi.py - the OpenAPI document against what the server really answers.

For each path and method of /api/v1/openapi.json of a server with nodes and workflows, good and bad
requests are made. The status must be documented, the content type the one that is named, and the
body must fit its schema exactly: a field that is missing, one more than is named, or one of another
type is a mistake. A path that this test has no request for is one, too.
"""
import hashlib
import json
import re

from api_client import Answer, BASE, Server, Stream, equal, finish, sentence, wait_until

TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")
TYPES = {
    "object": lambda v: isinstance(v, dict),
    "array": lambda v: isinstance(v, list),
    "string": lambda v: isinstance(v, str),
    "boolean": lambda v: isinstance(v, bool),
    "null": lambda v: v is None,
    "integer": lambda v: isinstance(v, int) and not isinstance(v, bool),
    "number": lambda v: isinstance(v, (int, float)) and not isinstance(v, bool),
}
KNOWN = {"type", "description", "properties", "required", "items", "enum", "format", "minimum",
         "maximum", "oneOf", "$ref"}


class Document:
    def __init__(self, document):
        self.document = document

    def resolve(self, node):
        while "$ref" in node:
            found = self.document
            for part in node["$ref"].removeprefix("#/").split("/"):
                found = found[part]
            node = found
        return node

    def mistakes(self, value, schema, where="body"):
        """What is wrong with a value, a line each. Part of JSON Schema: as much as is used here."""
        schema = self.resolve(schema)
        if set(schema) - KNOWN:
            return [f"{where}: this test does not know {set(schema) - KNOWN} of its schema"]
        if "oneOf" in schema:
            tried = [self.mistakes(value, one, where) for one in schema["oneOf"]]
            return [] if [] in tried else min(tried, key=len)
        types = schema.get("type", [])
        types = [types] if isinstance(types, str) else types
        if types and not any(TYPES[t](value) for t in types):
            return [f"{where}: {value!r} is not {' or '.join(types)}"]
        if value is None:
            return []
        found = []
        if "enum" in schema and value not in schema["enum"]:
            found.append(f"{where}: {value!r} is none of {schema['enum']}")
        if schema.get("format") == "date-time" and not TIME.fullmatch(value):
            found.append(f"{where}: {value!r} is no time in UTC")
        if "minimum" in schema and value < schema["minimum"]:
            found.append(f"{where}: {value!r} is too small")
        if isinstance(value, dict):
            found += self.object_mistakes(value, schema, where)
        if isinstance(value, list) and "items" in schema:
            for i, item in enumerate(value):
                found += self.mistakes(item, schema["items"], f"{where}[{i}]")
        return found

    def object_mistakes(self, value, schema, where):
        properties = schema.get("properties")
        if properties is None:
            return []  # an object of any kind
        found = [f"{where}: {key} is missing" for key in schema.get("required", [])
                 if key not in value]
        for key, item in value.items():
            if key in properties:
                found += self.mistakes(item, properties[key], f"{where}.{key}")
            else:
                found.append(f"{where}: {key} is not documented")
        return found

    def answer_mistakes(self, method, pattern, answer):
        operation = self.document["paths"][pattern][method.lower()]
        responses = operation["responses"]
        if answer.status >= 400:
            response = self.resolve(responses["default"])
        elif str(answer.status) in responses:
            response = responses[str(answer.status)]
        else:
            return [f"{answer.status} is not documented"]
        content = response.get("content", {})
        if not content:
            return [] if not answer.body else [f"there should be no body: {answer!r}"]
        if answer.type not in content:
            return [f"{answer.type!r} is none of {list(content)}"]
        if answer.type.endswith("json"):
            return self.mistakes(answer.json, content[answer.type]["schema"])
        return []


def main():
    server = Server("s")
    try:
        check(server, server.start())
    finally:
        server.stop()
    finish()


RECIPE = """
name: shapes
seed: 7
priority: 3
experiments:
  first:
    parameters: {x: 0..5, word: [a, b]}
    command: echo task {{x}} {{word}}; test {{x}} -ne 3
    max_failures: 100
    allow_failure: true
  second: {depends_on: first, command: echo second}
  hunt:
    parameters: {lr: {range: 0-1}, n: 1..9, word: [a, b], size: [1, 2, 4], deep: {range: 1-2, when: word == a}}
    search: {metric: loss, goal: minimize, trials: 6, parallel: 2}
    command: test {{trial}} -ne 2 && echo loss={{lr}}
  never: {hardware: {labels: [moon]}, command: "true"}
"""


def check(server, api):
    server.join("one", "--slots", "2", "--label", "zone=a", "--price", "0.5")
    server.join("two", "--slots", "2")
    document = Document(api.get("/openapi.json", token=None).json)
    paths = document.document["paths"]
    wait_until(20, lambda: len(api.get("/nodes").json["items"]) == 2)
    flow = api.submit(RECIPE)
    wait_until(30, lambda: api.get(f"/workflows/{flow}/tasks/second/0").json["state"] == "succeeded")
    wait_until(30, lambda: sum(t["value"] is not None for t in
                               api.get(f"/workflows/{flow}/trials").json["trials"]) == 5)
    slow = api.submit("experiments:\n  s: {parameters: {x: 0..9}, command: sleep 60}\n", "&file=slow")
    wait_until(10, lambda: api.get("/nodes/one").json["usage"])
    said = requests(api, flow, slow)
    for method, pattern, path, wanted, rest in said:
        answer = api.send(method, path, **rest)
        found = document.answer_mistakes(method, pattern, answer)
        if answer.status != wanted:
            found.insert(0, f"the answer is {answer.status}, not {wanted}")
        short = re.sub(r"[0-9a-f]{64}", "HASH", path.removeprefix(BASE))[:90]
        note = "" if rest.get("token", "") == "" else " as a reader" if rest["token"] else " as nobody"
        sentence(f"{method} {short}{note}: {wanted} as documented", not found, *found, repr(answer))
    api.post(f"/workflows/{slow}/cancel")
    check_events(api, document, flow)
    well = {(method, pattern) for method, pattern, _, status, _ in said if status < 300}
    well.add(("GET", BASE + "/events"))
    there = {(method.upper(), path) for path, methods in paths.items() for method in methods}
    equal("every path and method of the document was asked, and has done its work", [],
          sorted(there - well))
    check_form(document)


def requests(api, flow, slow):
    """(method, pattern, path, status, more) of every request to be made, in this order."""
    reader = api.post("/tokens", json.dumps({"name": "ro", "role": "reader"})).json["token"]
    content = b"the bytes of an object"
    name = hashlib.sha256(content).hexdigest()
    other = b"another"
    other_name = hashlib.sha256(other).hexdigest()
    manifest = f"drover-code 1\n644 {len(content)} {name} run.sh\n".encode()
    version = api.send("PUT", f"{BASE}/code/objects/{name}", body=content) and api.post(
        "/code/versions", manifest).json["version"]
    w, t = "/workflows/{workflow}", "/workflows/{workflow}/tasks/{experiment}/{task}"
    out = []

    def ask(method, pattern, path=None, status=200, **rest):
        root = "" if pattern in ("/healthz", "/metrics") else BASE
        out.append((method, root + pattern, root + (path or pattern), status, rest))

    def get(pattern, path=None, status=200, **rest):
        ask("GET", pattern, path, status, **rest)

    def post(pattern, path=None, status=200, **rest):
        ask("POST", pattern, path, status, **rest)

    get("/healthz", token=None)
    get("/metrics", token=reader)
    get("/metrics", status=401, token=None)
    get("/openapi.json", token=None)
    get("/server", token=reader)
    get("/server", "/server?verbose=1", 400)

    good = "experiments: {a: {command: echo once}}"
    post("/workflows", "/workflows?folder=/", 201, body=good)
    post("/workflows", "/workflows?folder=/&set=a.retries%3D2&set=seed%3D4&seed=9&file=f.yaml"
         "&ignore_hardware=1&no_containers=0", 201, body=good)
    post("/workflows", "/workflows?code=" + version, 201, body=good)
    post("/workflows", "/workflows?code=" + "0" * 64, 422, body=good)
    post("/workflows", "/workflows?folder=relative", 400, body=good)
    post("/workflows", status=422, body="experiments: {a: {comand: echo, retries: -1}}")
    post("/workflows", status=422, body="")
    post("/workflows", status=415, body=good, headers={"Content-Type": "image/png"})
    post("/workflows", status=403, body=good, token=reader)
    get("/workflows")
    get("/workflows", "/workflows?state=running&limit=1")
    get("/workflows", "/workflows?state=walking", 400)
    get("/workflows", "/workflows?limit=0", 400)
    get("/workflows", "/workflows?limit=1001", 400)
    get("/workflows", "/workflows?after=nonsense", 400)
    for name_of_it in (flow, "1", "newest", slow):
        get(w, "/workflows/" + name_of_it)
    get(w, "/workflows/nobody-7", 404)
    get(w + "/recipe", f"/workflows/{flow}/recipe")
    get(w + "/recipe", "/workflows/nobody-7/recipe", 404)
    for query, status in (("", 200), ("?experiment=hunt", 200), ("?experiment=first", 200),
                          ("?experiment=nowhere", 404), ("?limit=3", 400)):
        get(w + "/trials", f"/workflows/{flow}/trials{query}", status)
    get(w + "/trials", f"/workflows/{slow}/trials")
    get(w + "/trials", "/workflows/nobody-7/trials", 404)

    for query in ("", "?failed=1", "?experiment=first&state=succeeded&limit=2", "?state=queued"):
        get(w + "/tasks", f"/workflows/{flow}/tasks{query}")
    get(w + "/tasks", f"/workflows/{slow}/tasks")
    get(w + "/tasks", f"/workflows/{flow}/tasks?experiment=nowhere", 404)
    get(w + "/tasks", f"/workflows/{flow}/tasks?failed=maybe", 400)
    get(t, f"/workflows/{flow}/tasks/first/3")
    get(t, f"/workflows/{flow}/tasks/never/0")
    get(t, f"/workflows/{flow}/tasks/first/999", 404)
    get(t + "/plan", f"/workflows/{flow}/tasks/first/3/plan")
    get(t + "/plan", f"/workflows/{flow}/tasks/hunt/3/plan")
    get(t + "/plan", f"/workflows/{flow}/tasks/hunt/99/plan", 404)
    get(t, f"/workflows/{flow}/tasks/first/-1", 404)
    get(t, f"/workflows/{flow}/tasks/nowhere/0", 404)
    for query, status in (("", 200), ("?offset=2&size=3", 200), ("?stream=system", 200),
                          ("?attempt=1", 200), ("?attempt=7", 404), ("?older=1", 200),
                          ("?size=99999999999", 400), ("?offset=-1", 400)):
        get(t + "/log", f"/workflows/{flow}/tasks/first/3/log{query}", status)
    get(t + "/log", f"/workflows/{flow}/tasks/never/0/log", 404)
    get(w + "/logs/search", f"/workflows/{flow}/logs/search?text=task")
    get(w + "/logs/search", f"/workflows/{flow}/logs/search?text=task.1&regex=1&limit=1")
    get(w + "/logs/search", f"/workflows/{flow}/logs/search?text=(&regex=1", 400)
    get(w + "/logs/search", f"/workflows/{flow}/logs/search", 400)

    get("/nodes")
    get("/nodes", "/nodes?limit=1")
    get("/nodes/{node}", "/nodes/one")
    get("/nodes/{node}", "/nodes/2")
    get("/nodes/{node}", "/nodes/nobody", 404)
    for mode in ("soft", "off", "hard", "off"):
        post("/nodes/{node}/drain", "/nodes/one/drain?mode=" + mode)
    post("/nodes/{node}/drain", "/nodes/one/drain?mode=gently", 400)
    post("/nodes/{node}/drain", "/nodes/nobody/drain", 404)
    get("/usage", "/usage?node=one")
    get("/usage", f"/usage?task={slow}/s/0&step=60")
    get("/usage", "/usage", 400)
    get("/usage", "/usage?node=one&from=yesterday", 400)
    get("/usage", "/usage?node=nobody", 404)
    get("/events", "/events?workflow=nobody-7", 404)

    post("/tokens", status=201, body='{"name": "two", "role": "user"}')
    post("/tokens", status=201, body="name: three\nrole: admin\n",
         headers={"Content-Type": "application/yaml"})
    post("/tokens", status=409, body='{"name": "two", "role": "user"}')
    post("/tokens", status=422, body='{"name": "four"}')
    post("/tokens", status=422, body='{"name": "a b", "role": "user"}')
    post("/tokens", status=422, body="[[[")
    get("/tokens")
    get("/tokens", "/tokens?limit=1")
    get("/tokens", status=403, token=reader)
    ask("DELETE", "/tokens/{token}", "/tokens/two")
    ask("DELETE", "/tokens/{token}", "/tokens/two", 404)

    post("/join/rotate")
    post("/join/rotate", "/join/rotate?revoke=1")
    post("/join/rotate", status=403, token=reader)

    post("/code/missing", body=json.dumps([name, other_name]))
    post("/code/missing", status=400, body="{}")
    ask("PUT", "/code/objects/{hash}", "/code/objects/" + other_name, 204, body=other)
    ask("PUT", "/code/objects/{hash}", "/code/objects/" + name, 400, body=b"other bytes")
    ask("PUT", "/code/objects/{hash}", "/code/objects/short", 400, body=b"")
    ask("PUT", "/code/pack", status=200, body=f"{name} {len(content)}\n".encode() + content)
    ask("PUT", "/code/pack", status=400, body=b"nonsense")
    post("/code/versions", status=201, body=manifest)
    post("/code/versions", status=400, body=b"nonsense")
    post("/code/versions", status=409,
         body=f"drover-code 1\n644 3 {hashlib.sha256(b'xyz').hexdigest()} f\n".encode())
    get("/code/versions/{version}", "/code/versions/" + version)
    get("/code/versions/{version}", "/code/versions/" + "0" * 64, 404)

    for verb, status in (("cancel", 200), ("cancel", 409), ("retry", 200)):
        post(t + "/" + verb, f"/workflows/{slow}/tasks/s/9/{verb}", status)
    post(t + "/retry", f"/workflows/{flow}/tasks/nowhere/0/retry", 404)
    post(w + "/cancel", f"/workflows/{slow}/cancel")
    post(w + "/cancel", f"/workflows/{slow}/cancel")  # nothing is left to be cancelled
    post(w + "/retry", f"/workflows/{slow}/retry")
    post(w + "/cancel", "/workflows/nobody-7/cancel", 404)
    post(w + "/cancel", f"/workflows/{slow}/cancel", 403, token=reader)
    post("/nodes/{node}/revoke", "/nodes/two/revoke")
    post("/nodes/{node}/revoke", "/nodes/two/revoke")
    post("/nodes/{node}/revoke", "/nodes/one/revoke", 403, token=reader)
    return out


# The fields of each event, as docs/api.md has them.
EVENTS = {
    "task": {"workflow", "experiment", "task", "state", "attempt", "node", "outcome", "exit_code",
             "reason", "at"},
    "experiment": {"workflow", "experiment", "ended", "tasks", "succeeded", "failed", "cancelled",
                   "skipped", "running", "queued", "waiting", "retrying", "attempts", "at"},
    "workflow": {"workflow", "state", "at"},
    "node": {"node", "number", "state", "at"},
    "note": {"workflow", "text", "at"},
}


def check_events(api, document, flow):
    stream = Stream(api, "/events", last="0")
    equal("events are what they are said to be", [],
          document.answer_mistakes("GET", BASE + "/events", _head(stream)))
    api.post("/nodes/one/drain")
    api.post("/nodes/one/drain?mode=off")
    last = api.submit("experiments: {last: {command: echo end}}", "&file=last")
    wrong, kinds = [], set()
    for ident, kind, data in iter(stream.next, None):
        kinds.add(kind)
        if kind != "reset" and set(data) != EVENTS.get(kind):
            wrong.append(f"{ident} {kind} {sorted(set(data) ^ EVENTS.get(kind, set()))}")
        if kind == "workflow" and data["workflow"] == last and data["state"] == "succeeded":
            break
    stream.close()
    equal("and have exactly the fields that are documented", [], wrong)
    sentence("every kind was seen", {"task", "experiment", "workflow", "node"} <= kinds, kinds)
    stream = Stream(api, f"/workflows/{flow}/tasks/first/3/log")
    equal("so is a log that is followed", [], document.answer_mistakes(
        "GET", BASE + "/workflows/{workflow}/tasks/{experiment}/{task}/log", _head(stream)))
    equal("it comes to its end", ["log", "end"], [kind for _, kind, _ in iter(stream.next, None)])
    stream.close()


def _head(stream):
    return Answer(stream.answer.status, {"content-type": stream.answer.getheader("Content-Type")}, b"")


def check_form(document):
    """What tools that read OpenAPI rely on."""
    whole = document.document
    equal("the document is OpenAPI 3.1", "3.1.0", whole["openapi"])
    names, wrong = [], []
    for path, methods in whole["paths"].items():
        holes = re.findall(r"\{(\w+)\}", path)
        for method, operation in methods.items():
            names.append(operation["operationId"])
            given = [p["name"] for p in operation["parameters"] if p["in"] == "path"]
            if given != holes or not operation.get("summary") or "default" not in operation["responses"]:
                wrong.append(f"{method} {path}")
            if any(p["in"] == "path" and not p.get("required") for p in operation["parameters"]):
                wrong.append(f"{method} {path}: a part of the path must be required")
    equal("each operation has a name of its own", len(names), len(set(names)))
    equal("and names the parts of its path", [], wrong)
    used = set(re.findall(r'"#/components/(\w+/\w+)"', json.dumps(whole)))
    there = {f"{kind}/{name}" for kind in ("schemas", "responses")
             for name in whole["components"][kind]}
    equal("every reference leads somewhere", [], sorted(used - there))
    equal("and every schema is used", [], sorted(there - used))


if __name__ == "__main__":
    main()
