"""Profiles of AWS: keys, regions and ways to sign in, as the SDKs read them."""

import json
import os
import stat

import pytest

from casrewind import errors
from casrewind.remote import aws_profile
from casrewind.remote.objects import Objects
from support.s3_server import S3Server

CREDENTIALS = """
[default]
aws_access_key_id = D
aws_secret_access_key = d%d
[work]
aws_access_key_id = W
aws_secret_access_key = w
aws_session_token = t
"""
CONFIG = """
[default]
region = eu-central-1
[profile work]
region = eu-west-3
endpoint_url = https://minio.example
[profile sso]
sso_session = corp
region = us-west-2
[profile empty]
output = json
"""


@pytest.fixture
def environ(tmp_path):
    (tmp_path / ".aws").mkdir()
    (tmp_path / ".aws/credentials").write_text(CREDENTIALS)
    (tmp_path / ".aws/config").write_text(CONFIG)
    return {"HOME": str(tmp_path), "PATH": str(tmp_path)}


def test_a_named_profile(environ):
    keys = {"access_key_id": "W", "secret_access_key": "w", "session_token": "t"}
    assert aws_profile.find("work", environ) == aws_profile.Profile(keys, "eu-west-3", "https://minio.example", None)
    assert aws_profile.find("", {**environ, "AWS_PROFILE": "work"}).keys == keys
    assert aws_profile.find("work", {**environ, "AWS_ACCESS_KEY_ID": "E"}).keys == keys


def test_the_default_profile(environ):
    found = aws_profile.find("", environ)
    assert found.keys == {"access_key_id": "D", "secret_access_key": "d%d"} and found.region == "eu-central-1"
    assert aws_profile.find("", {**environ, "AWS_ACCESS_KEY_ID": "E"}).keys == {}
    assert aws_profile.find("", {"HOME": "/nowhere"}) == aws_profile.NO_PROFILE


def test_files_elsewhere(environ, tmp_path):
    (tmp_path / "other").write_text("[work]\naws_access_key_id=X\naws_secret_access_key=y\n")
    found = aws_profile.find("work", {**environ, "AWS_SHARED_CREDENTIALS_FILE": str(tmp_path / "other")})
    assert found.keys == {"access_key_id": "X", "secret_access_key": "y"}


def test_a_profile_that_is_not_there(environ):
    with pytest.raises(errors.RemoteError, match="^there is no profile nobody in the files of AWS"):
        aws_profile.find("nobody", environ)


@pytest.mark.parametrize("text", ["no section = 1\n", "[default\n", "\xff"])
def test_a_file_that_cannot_be_read(environ, tmp_path, text):
    (tmp_path / ".aws/config").write_bytes(text.encode("latin-1"))
    with pytest.raises(errors.RemoteError, match="config cannot be read"):
        aws_profile.find("", environ)


def program(tmp_path, script):
    path = tmp_path / "aws"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


def test_single_sign_on_asks_the_program_of_aws(environ, tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    told = {"Version": 1, "AccessKeyId": "A", "SecretAccessKey": "S", "SessionToken": "T", "Expiration": "2030-01-02T03:04:05+00:00"}
    program(tmp_path, f"""[ "$*" = "configure export-credentials --profile sso --format process" ] && echo '{json.dumps(told)}'""")
    found = aws_profile.find("sso", environ)
    assert (found.keys, found.region) == ({}, "us-west-2")
    key = found.sign_in()
    assert (key["access_key_id"], key["secret_access_key"], key["token"], key["expires_at"].year) == ("A", "S", "T", 2030)


@pytest.mark.parametrize(
    "script, words",
    [
        ("echo 'Error loading SSO Token: Token for corp does not exist' >&2; exit 255", "Error loading SSO Token: Token for corp does not exist"),
        ("echo nonsense", "none in its answer"), ("echo '{}'", "none in its answer"), ("exit 0", "none in its answer"),
    ],
)  # fmt: skip
def test_a_sign_in_that_fails_says_why(environ, tmp_path, monkeypatch, script, words):
    for name, value in environ.items():
        monkeypatch.setenv(name, value if name == "HOME" else f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.delenv("AWS_ACCESS_KEY_ID", raising=False)
    program(tmp_path, script)
    objects = Objects("s3://team/shop", {"profile": "sso", "endpoint": "http://127.0.0.1:1"}, patience=0)
    with pytest.raises(errors.RemoteError) as found:
        objects.list()
    assert str(found.value) == f"aws gives no credentials for the profile sso: {words}; aws sso login --profile sso"


def test_without_the_program_of_aws(environ):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", environ["PATH"])
        with pytest.raises(errors.RemoteError, match="only the program aws can sign in with it; install the AWS CLI"):
            aws_profile.find("sso", environ).sign_in()


def test_keys_of_a_sign_in_are_used(environ, tmp_path, monkeypatch):
    with S3Server() as server:
        for name in list(os.environ):
            if name.startswith("AWS_"):
                monkeypatch.delenv(name)
        monkeypatch.setenv("HOME", str(tmp_path))
        monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
        told = {"Version": 1, "AccessKeyId": "A", "SecretAccessKey": "S", "SessionToken": "T", "Expiration": "2039-01-02T03:04:05+00:00"}
        program(tmp_path, f"echo x >> {tmp_path}/asked; echo '{json.dumps(told)}'")
        objects = Objects(server.bucket(), {"profile": "sso", "endpoint": server.endpoint})
        assert objects.put_new("a", b"x") and objects.get("a") == b"x"
        assert (tmp_path / "asked").read_text() == "x\n"
