#!/usr/bin/python3
"""s3_put.py ENDPOINT BUCKET < LINES - puts objects whose keys no driver of ours would make.

Each line is a JSON array: a key and its content. Without any, the bucket is made. Keys of the account
are AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY.
"""
import datetime
import hashlib
import hmac
import http.client
import json
import os
import sys
import urllib.parse


def sign(key, text):
    return hmac.new(key, text.encode(), hashlib.sha256).digest()


def put(host, path, content):
    path = urllib.parse.quote(path, safe="/")
    stamp = datetime.datetime.utcnow().strftime("%Y%m%dT%H%M%SZ")
    scope = f"{stamp[:8]}/us-east-1/s3/aws4_request"
    body = hashlib.sha256(content).hexdigest()
    headers = {"host": host, "x-amz-content-sha256": body, "x-amz-date": stamp}
    names = ";".join(headers)
    lines = "".join(f"{name}:{value}\n" for name, value in headers.items())
    request = hashlib.sha256(f"PUT\n{path}\n\n{lines}\n{names}\n{body}".encode()).hexdigest()
    key = ("AWS4" + os.environ["AWS_SECRET_ACCESS_KEY"]).encode()
    for part in scope.split("/"):
        key = sign(key, part)
    signature = sign(key, f"AWS4-HMAC-SHA256\n{stamp}\n{scope}\n{request}").hex()
    headers["authorization"] = (f"AWS4-HMAC-SHA256 Credential={os.environ['AWS_ACCESS_KEY_ID']}/{scope}, "
                                f"SignedHeaders={names}, Signature={signature}")
    connection = http.client.HTTPConnection(host)
    connection.putrequest("PUT", path, skip_host=True, skip_accept_encoding=True)
    for name, value in headers.items():
        connection.putheader(name, value)
    connection.putheader("content-length", str(len(content)))
    connection.endheaders(content)
    reply = connection.getresponse()
    if reply.status != 200:
        sys.exit(f"{path}: {reply.status} {reply.read()[:200]}")
    connection.close()


def main():
    host = sys.argv[1].removeprefix("http://")
    lines = sys.stdin.read().splitlines()
    if not lines:
        put(host, f"/{sys.argv[2]}", b"")
    for line in lines:
        key, content = json.loads(line)
        put(host, f"/{sys.argv[2]}/{key}", content.encode())


if __name__ == "__main__":
    main()
