"""A small S3 server on loopback that breaks one rule or several, by switches that may change while it runs.

    with OddS3Server(ignores_conditions=True) as server:
        Objects(server.url, {"endpoint": server.endpoint})       # with server.variables in the environment
        server.objects                                             # {key: bytes}, of all buckets
        server.asked                                               # [(method, key, status)] as it was answered

It has any bucket that is asked for. It believes every signature.
"""

import hashlib
import re
import threading
import time
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count, islice
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape

_PAGE = 1000
_MORE = bytes(1 << 20)
_TIME = "2026-11-24T10:00:00.000Z"


class OddS3Server:
    """The switches are attributes:

    `ignores_conditions`: a put replaces, whatever If-None-Match says. `refuses_conditions`: such a put is answered with 501.
    `look_then_put`: an object is looked for, and written a moment later: two puts at the same time both say that they made it.
    `stores_half`: of each object. `ranges`: "" as it is; a range is answered "whole" (200 and all bytes),
    as "another" (206 and all bytes), "unsaid" (206, and nobody says which), or "cut" as rclone does (200, and the right bytes).
    `cut_bodies`: so many bodies of objects end in the middle. `cut_lists`: so many lists do.
    `lists`: "" as it is, "nothing"; and without end: "pieces" of one chain, "chains" of a piece each, "again" the same page.
    `claims`: the length that an object is said to have in the answer to a GET, 0 = its own. `more`: so many bytes come behind a body, and
    belong to it by its length.
    """

    def __init__(self, **switches):
        self.ignores_conditions = self.refuses_conditions = self.look_then_put = self.stores_half = False
        self.cut_bodies = self.cut_lists = self.claims = self.more = 0
        self.lists = self.ranges = ""
        for name, value in switches.items():
            assert hasattr(self, name), name
            setattr(self, name, value)
        self.objects, self.asked, self.lock = {}, [], threading.Lock()
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (_Handler,), {"odd": self}))
        self.server.daemon_threads = True
        self.server.handle_error = lambda *_: None  # whoever asked has gone
        self.endpoint = f"http://127.0.0.1:{self.server.server_address[1]}"
        self.url = "s3://team/shop"
        self.variables = {
            "AWS_ACCESS_KEY_ID": "testing", "AWS_SECRET_ACCESS_KEY": "testing", "AWS_REGION": "us-east-1",
            "AWS_ENDPOINT_URL": self.endpoint, "AWS_METADATA_ENDPOINT": "http://127.0.0.1:1",
        }  # fmt: skip
        threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()

    def put(self, key, data, *, is_conditional):
        """The status of a put."""
        if is_conditional and self.refuses_conditions:
            return 501
        data = data[: len(data) // 2] if self.stores_half else data
        if self.look_then_put:
            is_there = key in self.objects
            time.sleep(0.1)
            if is_there and is_conditional:
                return 412
        with self.lock:
            if is_conditional and key in self.objects and not self.ignores_conditions and not self.look_then_put:
                return 412
            self.objects[key] = data
        return 200

    def named(self, bucket, prefix, after):
        """(key, size) of what a list has to have, in order."""
        if self.lists == "nothing":
            return []
        if self.lists:
            at = re.search(r"f0+([0-9]+)/" if self.lists == "chains" else r"-([0-9]{10})$", after)
            numbers = count(int(at[1]) + 1 if at and self.lists != "again" else 1)
            if self.lists == "chains":
                return ((f"shop/f{number:031}/0000000001-0000000001", 300) for number in numbers)
            below = prefix if prefix.count("/") > 1 else f"shop/{'f' * 32}/"
            return ((f"{below}{number:010}-{number:010}", 300) for number in numbers)
        with self.lock:
            found = {key.removeprefix(f"{bucket}/"): len(data) for key, data in self.objects.items() if key.startswith(f"{bucket}/{prefix}")}
        return sorted((key, size) for key, size in found.items() if key > after)


class _Handler(BaseHTTPRequestHandler):
    odd: OddS3Server
    protocol_version = "HTTP/1.1"
    wbufsize, disable_nagle_algorithm = -1, True  # an answer is one write, and none waits for the one before it

    def do_PUT(self):
        data = self.rfile.read(int(self.headers.get("content-length") or 0))
        status = self.odd.put(self._key(), data, is_conditional="if-none-match" in self.headers)
        self._answer(status, headers=[("etag", _etag(data))] if status == 200 else [])

    def do_HEAD(self):
        self.do_GET()

    def do_GET(self):
        bucket, _, key = self._key().partition("/")
        if not key:
            self._list(bucket)
            return
        data = self.odd.objects.get(self._key())
        if data is None:
            self._answer(404, b"<Error><Code>NoSuchKey</Code></Error>")
            return
        headers = [("etag", _etag(data)), ("last-modified", formatdate(usegmt=True)), ("accept-ranges", "bytes")]
        wanted = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("range") or "")
        if wanted is None or self.odd.ranges == "whole":
            self._answer(200, data, headers)
            return
        start, end = int(wanted[1]), min(int(wanted[2] or len(data)), len(data) - 1) + 1
        if start >= len(data):
            self._answer(416, b"<Error><Code>InvalidRange</Code></Error>")
            return
        if self.odd.ranges == "another":
            start, end = 0, len(data)
        told = [] if self.odd.ranges == "unsaid" else [("content-range", f"bytes {start}-{end - 1}/{self.odd.claims or len(data)}")]
        self._answer(200 if self.odd.ranges == "cut" else 206, data[start:end], [*headers, *told])

    def _list(self, bucket):
        asked = {name: values[0] for name, values in parse_qs(urlsplit(self.path).query, keep_blank_values=True).items()}
        after = asked.get("continuation-token") or asked.get("start-after", "")
        page = list(islice(self.odd.named(bucket, asked.get("prefix", ""), after), _PAGE + 1))
        is_cut, page = len(page) > _PAGE, page[:_PAGE]
        rows = "".join(
            f"<Contents><Key>{escape(key)}</Key><LastModified>{_TIME}</LastModified><ETag>&quot;{key[-8:]}&quot;</ETag><Size>{size}</Size></Contents>"
            for key, size in page
        )
        token = f"<NextContinuationToken>{escape(page[-1][0])}</NextContinuationToken>" if is_cut else ""
        self._answer(200, (
            '<?xml version="1.0" encoding="UTF-8"?><ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/">'
            f"<Name>{bucket}</Name><IsTruncated>{'true' if is_cut else 'false'}</IsTruncated>{token}{rows}</ListBucketResult>"
        ).encode(), is_list=True)  # fmt: skip

    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("content-length") or 0)).decode()
        for key in re.findall("<Key>(.*?)</Key>", body):
            self.odd.objects.pop(f"{self._key().partition('/')[0]}/{key}", None)
        self._answer(200, b'<DeleteResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/"></DeleteResult>')

    def _key(self):
        return unquote(urlsplit(self.path).path).strip("/")

    def _answer(self, status, body=b"", headers=(), *, is_list=False):
        odd, is_object = self.odd, self.command == "GET" and not is_list and status < 300
        is_cut = (is_object and odd.cut_bodies > 0) or (is_list and odd.cut_lists > 0)
        if is_cut:
            odd.cut_bodies, odd.cut_lists = odd.cut_bodies - is_object, odd.cut_lists - is_list
        odd.asked.append(("LIST" if is_list else self.command, self._key(), status))
        self.send_response(status)
        for header in headers:
            self.send_header(*header)
        self.send_header("content-length", str((odd.claims or len(body) + odd.more) if is_object else len(body)))
        self.end_headers()
        if self.command == "HEAD":
            return
        try:
            self.wfile.write(body[: len(body) // 2] if is_cut else body)
            for _ in range(odd.more >> 20 if is_object else 0):
                self.wfile.write(_MORE)
        except OSError:
            self.close_connection = True
        if is_cut or (is_object and (odd.claims or odd.more)):
            self.close_connection = True

    def log_message(self, *_):
        pass


def _etag(data):
    return f'"{hashlib.md5(data, usedforsecurity=False).hexdigest()}"'
