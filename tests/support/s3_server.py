"""An S3 server on loopback: moto, in a process of its own that counts by itself what it is asked.

    with S3Server() as server:
        Objects(server.bucket(), {"endpoint": server.endpoint})      # with server.variables in the environment
        server.counts()                                            # Counts(requests={"PUT": 1}, received=10, sent=200)

The process ends with the test, however that ends: it reads a pipe that nobody writes to.
"""

import io
import itertools
import json
import os
import subprocess
import sys
import threading
import time
from contextlib import nullcontext
from http.client import HTTPConnection
from typing import NamedTuple

PATIENCE = 120
_CONTROL = "/-/"


class Counts(NamedTuple):
    """What was asked since the last `reset`: requests by method, where a GET of a bucket is a LIST; bytes of the bodies."""

    requests: dict
    received: int
    sent: int


class S3Server:
    def __init__(self, **variables):
        """`variables` are the server's own, as INITIAL_NO_AUTH_ACTION_COUNT="0". SECONDS_OF_A_REQUEST: it has its effect so late."""
        environment = {**os.environ, "MOTO_S3_DEFAULT_KEY_BUFFER_SIZE": str(1 << 30), **variables}
        self._process = subprocess.Popen([sys.executable, __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment)
        line = self._process.stdout.readline()
        assert line.strip().isdigit(), "the server did not start"
        self._port = int(line)
        self._numbers = itertools.count(1)
        self.endpoint = f"http://127.0.0.1:{self._port}"
        self.variables = {
            "AWS_ACCESS_KEY_ID": "testing", "AWS_SECRET_ACCESS_KEY": "testing", "AWS_REGION": "us-east-1",
            "AWS_ENDPOINT_URL": self.endpoint, "AWS_METADATA_ENDPOINT": "http://127.0.0.1:1",
        }  # fmt: skip
        """What a client's environment needs to use this server."""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()

    def stop(self):
        self._process.stdin.close()
        self._process.wait(PATIENCE)
        self._process.stdout.close()

    def bucket(self, path="shop"):
        """The URL of a place in a new bucket."""
        name = f"bucket-{next(self._numbers)}"
        self.ask("PUT", f"/{name}")
        return f"s3://{name}/{path}".rstrip("/")

    def counts(self):
        return Counts(**json.loads(self.ask("GET", f"{_CONTROL}counts")))

    def reset(self):
        self.ask("POST", f"{_CONTROL}reset")

    def objects(self, url):
        """{key in the bucket: bytes} of all objects of the bucket of a URL, without the help of casrewind."""
        import re
        from xml.sax.saxutils import unescape

        bucket = url.removeprefix("s3://").partition("/")[0]
        found, start = {}, ""
        while True:
            page = self.ask("GET", f"/{bucket}?list-type=2&start-after={start}").decode()
            keys = [unescape(key) for key in re.findall("<Key>(.*?)</Key>", page)]
            found |= {key: self.ask("GET", f"/{bucket}/{key}") for key in keys}
            if "<IsTruncated>true" not in page:
                return found
            start = keys[-1]

    def put(self, url, name, data):
        """Write an object, in place of the one that is there."""
        self.ask("PUT", f"/{url.removeprefix('s3://')}/{name}", data)

    def ask(self, method, path, body=None):
        """The body of an answer; an error fails the test. Not counted: neither the request nor its bytes."""
        connection = HTTPConnection("127.0.0.1", self._port, timeout=PATIENCE)
        try:
            connection.request(method, path, body, {"x-uncounted": "1", "authorization": "AWS4-HMAC-SHA256 Credential=testing/x/us-east-1/s3/aws4_request"})
            answer = connection.getresponse()
            data = answer.read()
            assert answer.status < 300, (method, path, answer.status, data)
            return data
        finally:
            connection.close()


def _counting(app):
    lock, putting, counts = threading.Lock(), threading.Lock(), Counts({}, 0, 0)
    late = float(os.environ.get("SECONDS_OF_A_REQUEST", "0"))

    def answer(environ, start_response):
        nonlocal counts
        path = environ["PATH_INFO"]
        if path.startswith(_CONTROL):
            with lock:
                told = json.dumps(counts._asdict()).encode()
                if path.endswith("reset"):
                    counts = Counts({}, 0, 0)
            start_response("200 OK", [("content-length", str(len(told)))])
            return [told]
        if "HTTP_X_UNCOUNTED" in environ:
            return app(environ, start_response)
        method = environ["REQUEST_METHOD"]
        if method == "GET" and "/" not in path.strip("/"):
            method = "LIST"
        elif method == "POST" and "delete" in environ["QUERY_STRING"]:
            method = "DELETE"
        received = int(environ.get("CONTENT_LENGTH") or 0)
        if method == "PUT" and "CONTENT_LENGTH" in environ:  # read before the lock: a slow writer stops nobody else
            environ = {**environ, "wsgi.input": io.BytesIO(environ["wsgi.input"].read(received))}
        time.sleep(late)  # also if its client is gone by then
        with putting if method == "PUT" else nullcontext():  # moto looks for the name and writes later, a bucket does both at once
            answered = app(environ, start_response)
            body = b"".join(answered)
        getattr(answered, "close", lambda: None)()
        with lock:
            requests = {**counts.requests, method: counts.requests.get(method, 0) + 1}
            counts = Counts(requests, counts.received + received, counts.sent + len(body))
        return [body]

    return answer


def main():
    import logging

    from moto.server import DomainDispatcherApplication, create_backend_app
    from werkzeug.serving import WSGIRequestHandler, make_server

    class Handler(WSGIRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_request(self, *_):
            pass

    logging.disable()
    app = DomainDispatcherApplication(create_backend_app)
    server = make_server("127.0.0.1", 0, _counting(app), threaded=True, request_handler=Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    print(server.port, flush=True)
    sys.stdin.buffer.read()
    os._exit(0)


if __name__ == "__main__":
    main()
