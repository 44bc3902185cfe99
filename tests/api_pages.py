"""tests/api_pages.py - lists of very many tasks: every page is quick, nothing is missing or twice."""
import os
import random
import time
import urllib.parse

from api_client import Server, equal, finish, sentence, wait_until

QUICK_S = 2.0  # a page of 1,000 on a machine that does much else; alone it takes a few milliseconds


def main():
    server = Server("s")
    try:
        api = server.start()
        server.join("one", "--slots", "4", "--price", "1")
        wait_until(20, lambda: api.get("/nodes").json["items"])
        check_whole(api)
        check_million(server, api)
    finally:
        server.stop()
    finish()


def read_pages(api, path, limit_pages=None):
    """(items, the slowest page in seconds, pages)."""
    items, slowest, pages, after = [], 0.0, 0, ""
    connection = api.connect()
    while after is not None and (limit_pages is None or pages < limit_pages):
        query = f"&after={urllib.parse.quote(after)}" if after else ""
        began = time.monotonic()
        answer = api.send("GET", "/api/v1" + path + query, connection=connection)
        slowest = max(slowest, time.monotonic() - began)
        page = answer.json
        items += page["items"]
        after = page["next"]
        pages += 1
    connection.close()
    return items, slowest, pages


def check_whole(api):
    """100,000 tasks, half of which never run; all are read while others run."""
    flow = api.submit("experiments:\n"
                      "  work: {parameters: {x: 1..50000}, workers: 2, command: 'exit 0'}\n"
                      "  wait: {parameters: {x: 1..50000}, hardware: {labels: [moon]}, command: 'exit 0'}\n",
                      "&file=many")
    tasks = f"/workflows/{flow}/tasks?limit=1000"
    items, slowest, pages = read_pages(api, tasks)
    equal("100,000 tasks are listed, each once and in order",
          [("work", i) for i in range(50000)] + [("wait", i) for i in range(50000)],
          [(t["experiment"], t["task"]) for t in items])
    sentence(f"in {pages} pages, the slowest in {slowest * 1000:.0f} ms", slowest < QUICK_S)
    rng = random.Random(1)
    params = {t["task"]: t["params"]["x"] for t in items if t["experiment"] == "wait"}
    chosen = [rng.randrange(50000) for _ in range(50)]
    equal("each with its own parameters", [i + 1 for i in chosen], [params[i] for i in chosen])
    items, slowest, pages = read_pages(api, tasks + "&experiment=wait&state=queued")
    equal("a filter finds all that it should", 50000, len(items))
    sentence(f"and its pages are quick: {slowest * 1000:.0f} ms", slowest < QUICK_S)
    items, slowest, pages = read_pages(api, tasks + "&failed=1")
    equal("one that finds nothing ends", 0, len(items))
    sentence(f"after some short pages: {pages}, {slowest * 1000:.0f} ms", pages < 20 and slowest < QUICK_S)
    api.post(f"/workflows/{flow}/cancel")


def check_million(server, api):
    began = time.monotonic()
    flow = api.submit("experiments:\n  sea: {parameters: {x: 1..1000000}, hardware: {labels: [moon]}, "
                      "command: 'true'}\n", "&file=sea")
    took = time.monotonic() - began
    sentence(f"a workflow of a million tasks is taken in {took:.2f} s", took < 5)
    tasks = f"/workflows/{flow}/tasks?limit=1000"
    items, first, _ = read_pages(api, tasks, 3)
    equal("its first pages", list(range(3000)), [t["task"] for t in items])
    sentence(f"are quick: {first * 1000:.0f} ms", first < QUICK_S)
    items, slowest, pages = read_pages(api, tasks)
    equal("the last page ends with the last task", (1000000, 999999), (len(items), items[-1]["task"]))
    sentence(f"no page of {pages} took longer than {slowest * 1000:.0f} ms", slowest < QUICK_S)
    began = time.monotonic()
    one = api.get(f"/workflows/{flow}/tasks/sea/876543").json
    equal("one of them is found", 876544, one["params"]["x"])
    status = api.get(f"/workflows/{flow}").json
    equal("all are counted", 1000000, status["experiments"][0]["queued"])
    sentence("what they wait for is told", "moon" in (status["waiting_for"] or ""), status["waiting_for"])
    took = time.monotonic() - began
    sentence(f"both at once: {took * 1000:.0f} ms", took < QUICK_S)
    items, slowest, pages = read_pages(api, tasks + "&state=succeeded")
    sentence(f"a filter that finds nothing takes {pages} short pages of {slowest * 1000:.0f} ms",
             not items and pages <= 60 and slowest < QUICK_S)
    with open(f"/proc/{server.process.pid}/status", encoding="utf-8") as file:
        rss = [int(line.split()[1]) // 1024 for line in file if line.startswith("VmRSS")][0]
    sentence(f"the server needs {rss} MB", rss < 300)
    began = time.monotonic()
    equal("it is cancelled", 1000000, api.post(f"/workflows/{flow}/cancel").json["tasks"])
    sentence(f"in {time.monotonic() - began:.1f} s", time.monotonic() - began < 20)
    sentence("and has ended", api.wait(flow, 20) is not None)
    size = sum(os.path.getsize(os.path.join(folder, name))
               for folder, _, names in os.walk(api.state) for name in names)
    sentence(f"the state takes {size >> 20} MB", size < 300 << 20)


if __name__ == "__main__":
    main()
