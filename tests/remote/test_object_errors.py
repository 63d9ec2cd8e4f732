"""What a person reads when a remote refuses or is not there: words, with the URL as it was typed, and exit code 17."""

import itertools
import json
import os
import re
import socket
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from casrewind import errors
from casrewind.remote.objects import Objects
from support import unprivileged

XML = '<?xml version="1.0" encoding="UTF-8"?>\n<Error><Code>{}</Code><Message>{}</Message><RequestId>4442587FB7D0A2F9</RequestId></Error>'
CALLS = {
    "PutObject": lambda objects: objects.put_new("a/1", b"x"),
    "GetObject": lambda objects: objects.get("a/1"),
    "ListBucket": lambda objects: objects.list(),
    "DeleteObject": lambda objects: objects.delete(["a/1"]),
}
every_call = pytest.mark.parametrize("right", CALLS)


@pytest.fixture(autouse=True)
def credentials(monkeypatch):
    for name in list(os.environ):
        if name.startswith("AWS_"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "testing")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "testing")
    monkeypatch.setenv("AWS_METADATA_ENDPOINT", "http://127.0.0.1:1")


class Recorded:
    """A server that gives one answer to everything, as S3 gave it: status and XML."""

    def __init__(self, status, code, message, headers=()):
        body = XML.format(code, message).encode() if code else b""

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def answer(self):
                self.rfile.read(int(self.headers.get("content-length") or 0))
                self.send_response(status)
                self.send_header("content-type", "application/xml")
                for header in headers:
                    self.send_header(*header)
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(body)

            do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = answer

            def log_message(self, *_):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.endpoint = f"http://127.0.0.1:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()


def failure(call, url, options, patience=0.0):
    """The text of the error, which is a RemoteError with one line and no Rust in it."""
    with pytest.raises(errors.RemoteError) as found:
        call(Objects(url, options, patience=patience))
    error = found.value
    assert type(error) is errors.RemoteError and error.exit_code == 17
    assert "\n" not in str(error) and "Error {" not in str(error) and "Generic" not in str(error), error
    return str(error)


@every_call
@pytest.mark.parametrize(
    "status, code, message, words",
    [
        (403, "InvalidAccessKeyId", "The AWS Access Key Id you provided does not exist in our records.",
         "s3://team/shop does not know these credentials; check AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or the profile"),
        (403, "SignatureDoesNotMatch", "The request signature we calculated does not match the signature you provided.",
         "s3://team/shop does not know these credentials; check AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or the profile"),
        (400, "ExpiredToken", "The provided token has expired.", "the credentials for s3://team/shop have expired; get new ones, then try again"),
        (404, "NoSuchBucket", "The specified bucket does not exist", "the bucket of s3://team/shop is gone, or its name is misspelt"),
        (301, "PermanentRedirect", "The bucket you are attempting to access must be addressed using the specified endpoint.",
         "s3://team/shop is in another region; name its region: AWS_REGION, or the option region"),
        (503, "SlowDown", "Please reduce your request rate.", "s3://team/shop cannot be reached: the server answers 503 Service Unavailable"),
        (500, "InternalError", "We encountered an internal error. Please try again.",
         "s3://team/shop cannot be reached: the server answers 500 Internal Server Error"),
    ],
)
def test_an_answer_of_s3_in_words(right, status, code, message, words):
    with Recorded(status, code, message) as server:
        assert failure(CALLS[right], "s3://team/shop", {"endpoint": server.endpoint}) == words


@every_call
def test_the_right_that_is_missing_is_named(right):
    with Recorded(403, "AccessDenied", "Access Denied") as server:
        said = failure(CALLS[right], "s3://team/shop", {"endpoint": server.endpoint})
    assert said == f"s3://team/shop does not allow {right} to the present credentials; nothing was changed"


@every_call
def test_a_clock_that_is_wrong(right):
    with Recorded(403, "RequestTimeTooSkewed", "The difference between the request time and the current time is too large.") as server:
        said = failure(CALLS[right], "s3://team/shop", {"endpoint": server.endpoint})
    assert re.fullmatch(r"s3://team/shop refuses this machine's clock \(\d{4}-\d\d-\d\d \d\d:\d\dZ\); set it, then try again", said)


@every_call
def test_an_answer_that_nobody_knows_is_cut_to_a_line(right):
    with Recorded(418, "Teapot", "x" * 5000) as server:
        said = failure(CALLS[right], "s3://team/shop", {"endpoint": server.endpoint})
    assert said.startswith(f"s3://team/shop: {right} failed: the server answers 418 I'm a teapot (xxx") and len(said) < 300


@every_call
def test_a_page_that_is_no_answer_of_s3(right):
    """A hotel's network answers everything with its own page: nothing of it counts as done, or as an empty remote."""
    with Recorded(200, "", "") as server:
        if right == "GetObject":  # its bytes are judged by their MAC
            assert Objects("s3://team/shop", {"endpoint": server.endpoint}).get("a/1") == b""
        else:
            assert failure(CALLS[right], "s3://team/shop", {"endpoint": server.endpoint}).startswith(f"s3://team/shop: {right} failed: ")


@every_call
@pytest.mark.parametrize("patience", [0.0, 0.3])
def test_nothing_listens(right, patience):
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))  # not listening: the port is nobody else's either
        said = failure(CALLS[right], "s3://team/shop", {"endpoint": f"http://127.0.0.1:{held.getsockname()[1]}"}, patience)
    assert said == "s3://team/shop cannot be reached: connection refused"


def test_a_name_that_nobody_has():
    said = failure(CALLS["PutObject"], "s3://team/shop", {"endpoint": "http://nowhere.invalid:9000"})
    assert said == "s3://team/shop cannot be reached: no machine of that name is known"


@every_call
def test_a_server_that_is_silent(right):
    with socket.socket() as deaf:
        deaf.bind(("127.0.0.1", 0))
        deaf.listen()
        before = time.monotonic()
        said = failure(CALLS[right], "s3://team/shop", {"endpoint": f"http://127.0.0.1:{deaf.getsockname()[1]}"}, 0.4)
    assert said == "s3://team/shop cannot be reached: no answer in 1 seconds"
    assert time.monotonic() - before < 60



@every_call
def test_a_bucket_that_is_not_there(s3, right):
    assert failure(CALLS[right], "s3://nobody-has-it/shop", {"endpoint": s3.endpoint}) == (
        "the bucket of s3://nobody-has-it/shop is gone, or its name is misspelt"
    )
