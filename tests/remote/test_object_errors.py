"""What a person reads when a remote refuses or is not there: words, with the URL as it was typed, and exit code 17."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time

import pytest

from casrewind import errors
from casrewind.remote.objects import Objects
from support import unprivileged
from support.recorded_server import Recorded
from support.s3_server import S3Server

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


def test_a_server_that_does_not_speak_https(s3):
    said = failure(CALLS["ListBucket"], "s3://team/shop", {"endpoint": s3.endpoint.replace("http:", "https:")})
    assert said == "s3://team/shop cannot be reached: it does not speak https: write its endpoint with http://"


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


@pytest.fixture(scope="module")
def guarded():
    """(the URL of a bucket on a server that asks everybody for their rights, {right: the keys of who has all but that one})."""
    import boto3

    with S3Server(INITIAL_NO_AUTH_ACTION_COUNT="1000") as server:
        url, keys = server.bucket(), {}
        bucket = f"arn:aws:s3:::{url.split('/')[2]}"
        iam = boto3.client("iam", endpoint_url=server.endpoint, region_name="us-east-1", aws_access_key_id="x", aws_secret_access_key="x")
        for right in CALLS:
            allowed = [f"s3:{other}" for other in CALLS if other != right]
            policy = {"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": allowed, "Resource": [bucket, f"{bucket}/*"]}]}
            iam.create_user(UserName=right)
            iam.put_user_policy(UserName=right, PolicyName="p", PolicyDocument=json.dumps(policy))
            keys[right] = iam.create_access_key(UserName=right)["AccessKey"]
        server.put(url, "a/1", b"x")
        server.ask("POST", "/moto-api/reset-auth", b"0")
        yield url, server.endpoint, keys


@pytest.mark.turns(3)
@every_call
def test_a_server_with_rights_refuses_what_is_not_allowed_and_nothing_else(guarded, monkeypatch, right):
    url, endpoint, keys = guarded
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", keys[right]["AccessKeyId"])
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", keys[right]["SecretAccessKey"])
    for name in CALLS.keys() - {right, "DeleteObject"}:
        CALLS[name](Objects(url, {"endpoint": endpoint}))
    assert failure(CALLS[right], url, {"endpoint": endpoint}) == f"{url} does not allow {right} to the present credentials; nothing was changed"


@every_call
@pytest.mark.parametrize("key", ["an unknown one", "a known one with another secret"])
def test_a_server_with_rights_does_not_know_who_asks(guarded, monkeypatch, right, key):
    url, endpoint, keys = guarded
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", keys["PutObject"]["AccessKeyId"] if key.startswith("a known") else "NOBODY")
    said = failure(CALLS[right], url, {"endpoint": endpoint})
    assert said == f"{url} does not know these credentials; check AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or the profile"


def test_a_delete_that_is_refused_inside_an_answer():
    """S3 answers 200 to a list of deletions, and says for each what became of it."""
    told = (
        '<?xml version="1.0" encoding="UTF-8"?><DeleteResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/">'
        "<Error><Key>shop/a/1</Key><Code>AccessDenied</Code><Message>Access Denied</Message></Error></DeleteResult>"
    )
    with Recorded(200, told) as server:
        said = failure(CALLS["DeleteObject"], "s3://team/shop", {"endpoint": server.endpoint})
    assert said == "s3://team/shop does not allow DeleteObject to the present credentials; nothing was changed"


@every_call
def test_no_credentials_at_all(monkeypatch, right):
    """A laptop: no keys, no profile, and no machine of AWS around it."""
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    said = failure(CALLS[right], "s3://team/shop", {"endpoint": "http://127.0.0.1:1"})
    assert said == "there are no credentials for s3://team/shop; check AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or the profile"


def test_where_keys_are_asked_for_nobody_may_answer(monkeypatch):
    """The same laptop in a network that swallows what is sent to a machine of AWS."""
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    with socket.socket() as deaf:
        deaf.bind(("127.0.0.1", 0))
        deaf.listen()
        monkeypatch.setenv("AWS_METADATA_ENDPOINT", f"http://127.0.0.1:{deaf.getsockname()[1]}")
        said = failure(CALLS["ListBucket"], "s3://team/shop", {"endpoint": "http://127.0.0.1:1"}, 0.8)
    assert said == (
        "s3://team/shop cannot be reached: no answer in 1 seconds; check AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or the profile"
    )


AZURE = {
    "AuthenticationFailed": (403, "az://team/shop does not know these credentials; check AZURE_STORAGE_ACCOUNT_NAME and AZURE_STORAGE_ACCOUNT_KEY"),
    "AuthorizationPermissionMismatch": (403, "az://team/shop does not allow blobs/write to the present credentials; nothing was changed"),
    "ContainerNotFound": (404, "the bucket of az://team/shop is gone, or its name is misspelt"),
}


@pytest.mark.parametrize("code", AZURE)
def test_an_answer_of_azure_in_words(monkeypatch, code):
    status, words = AZURE[code]
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_KEY", "c2VjcmV0")
    with Recorded(status, code, "This request is not authorized.") as server:
        assert failure(CALLS["PutObject"], "az://team/shop", {"account": "people", "endpoint": server.endpoint}) == words


@pytest.mark.parametrize("status, reason, words", [
    (403, "does not have storage.objects.create access", "gs://team/shop does not allow storage.objects.create to the present credentials; nothing was changed"),
    (401, "Invalid Credentials",
     "gs://team/shop does not know these credentials; check GOOGLE_APPLICATION_CREDENTIALS, or sign in: gcloud auth application-default login"),
    (404, "The specified bucket does not exist.", "the bucket of gs://team/shop is gone, or its name is misspelt"),
])  # fmt: skip
def test_an_answer_of_google_in_words(monkeypatch, tmp_path, status, reason, words):
    with Recorded(status, "Code", reason) as server:
        key = {"disable_oauth": True, "client_email": "", "private_key": "", "private_key_id": ""}
        (tmp_path / "key.json").write_text(json.dumps(key))
        monkeypatch.setenv("GOOGLE_SERVICE_ACCOUNT", str(tmp_path / "key.json"))
        assert failure(CALLS["PutObject"], "gs://team/shop", {"endpoint": server.endpoint}) == words


def test_ctrl_c_ends_a_wait(tmp_path):
    """A silent server does not make a command deaf."""
    code = (
        "from casrewind.remote.objects import Objects\nobjects = Objects('s3://team/shop', {'endpoint': 'http://127.0.0.1:%d'}, patience=200)\n"
        "import os\nprint('asks', flush=True)\ntry:\n    objects.%s\nexcept KeyboardInterrupt:\n    os._exit(130)"
    )
    for call in ("list()", "get('a')", "put_new('a', b'x')", "delete(['a'])"):
        with socket.socket() as deaf:
            deaf.bind(("127.0.0.1", 0))
            deaf.listen()
            child = subprocess.Popen(
                [sys.executable, "-c", code % (deaf.getsockname()[1], call)], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
            )  # fmt: skip
            child.stdout.readline()
            asked, _ = deaf.accept()
            with asked:
                asked.recv(1)
                child.send_signal(signal.SIGINT)
                _, err = child.communicate(timeout=60)
        assert (child.returncode, err) == (130, b""), call


def test_a_disk_that_is_not_mounted_is_not_written_to(tmp_path):
    """A push to the empty place where a disk is mounted at other times: nothing is made there."""
    url = f"file://{tmp_path}/shop"
    words = f"the directory of {url} is gone, or its disk is not mounted"
    assert failure(lambda objects: objects.put_new("chain/1", b"x"), url, {}) == words
    assert failure(lambda objects: objects.list(), url, {}) == words
    assert os.listdir(tmp_path) == []
    assert Objects(url).put_new("keys/1", b"key") and Objects(url).put_new("casrewind", b"head") and Objects(url).put_new("chain/1", b"x")
    url = f"file://{tmp_path}/misspelt/shop"
    assert failure(lambda objects: objects.put_new("casrewind", b"x"), url, {}) == f"the directory of {url} is gone, or its disk is not mounted"


def test_a_directory_of_somebody_else(tmp_path):
    unprivileged.require()
    with unprivileged.open_directory() as place:
        code = (
            "import sys\nfrom casrewind import errors\nfrom casrewind.remote.objects import Objects\nobjects = Objects('file://' + sys.argv[1])\n"
            "for call in (lambda: objects.put_new('casrewind', b''), lambda: objects.delete(['a']), lambda: objects.get('b'), objects.list):\n"
            "    try:\n        call()\n    except errors.RemoteError as error:\n        print(error)"
        )
        (place / "a").write_bytes(b"x")
        (place / "b").write_bytes(b"x")
        (place / "b").chmod(0)
        (place / "closed").mkdir(mode=0)
        said = unprivileged.run(sys.executable, "-c", code, str(place)).stdout.decode().splitlines()
        (place / "closed").chmod(0o700)
    assert said == [
        f"file://{place} does not allow {doing}: Permission denied; nothing was changed" for doing in ("writing", "deleting", "reading", "listing")
    ]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root makes a small disk")
def test_a_full_disk(tmp_path):
    place = tmp_path / "disk"
    place.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=100k", "none", str(place)], check=True)
    try:
        url = f"file://{place}"
        assert Objects(url).put_new("chain/1", b"x" * 1000)
        said = failure(lambda objects: objects.put_new("chain/2", b"x" * 200_000), url, {})
        assert said == f"no space left in {url}; free some space there, then try again"
        assert os.listdir(place / "chain") == ["1"]
    finally:
        subprocess.run(["umount", str(place)], check=True)
