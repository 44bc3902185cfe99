#!/usr/bin/env python3
"""tests/object_metadata.py - metadata servers of an instance (IMDSv2) and of a container.

Listens on a loopback port, prints its URL and serves until it is killed. The keys it gives are
those of its own environment (AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY), but for the first time,
when the secret is a wrong one that lasts 400 s: whoever gets on has renewed it. At /container the
keys are right at once, for those who send the token "open sesame".
"""
import datetime
import http.server
import json
import os

ROLE = "/latest/meta-data/iam/security-credentials/"
given = 0


def keys(seconds, secret):
    end = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(seconds=seconds)
    return json.dumps({"Code": "Success", "Type": "AWS-HMAC",
                       "AccessKeyId": os.environ["AWS_ACCESS_KEY_ID"], "SecretAccessKey": secret,
                       "Expiration": end.strftime("%Y-%m-%dT%H:%M:%SZ")})


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_args):
        pass

    def answer(self, status, text):
        self.send_response(status)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text.encode())

    def do_PUT(self):
        good = self.path == "/latest/api/token" and \
            self.headers.get("x-aws-ec2-metadata-token-ttl-seconds") == "21600"
        self.answer(200 if good else 400, "a-token==" if good else "")

    def do_GET(self):
        global given
        secret = os.environ["AWS_SECRET_ACCESS_KEY"]
        if self.path == "/container":
            good = self.headers.get("authorization") == "open sesame"
            self.answer(200 if good else 401, keys(3600, secret) if good else "")
        elif self.headers.get("x-aws-ec2-metadata-token") != "a-token==":
            self.answer(401, "")
        elif self.path == ROLE:
            self.answer(200, "a-role")
        elif self.path == ROLE + "a-role":
            given += 1
            self.answer(200, keys(400, "wrong") if given == 1 else keys(3600, secret))
        else:
            self.answer(404, "")


def main():
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    print(f"http://127.0.0.1:{server.server_address[1]}", flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
