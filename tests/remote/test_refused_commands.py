"""What a command says when a server refuses or is not there, by real servers; nothing is lost, and the next push is complete."""

import json
import signal
import socket
import subprocess
import sys
import time
from urllib.parse import parse_qs, urlsplit

import pytest

from casrewind import errors
from casrewind.remote import remote_config
from casrewind.remote.objects import Objects
from support import guide_page
from support.command_in_process import InProcess
from support.recorded_server import Recorded
from support.s3_server import S3Server
from support.trees import plant

KEY = remote_config.key_as_text(b"k" * 32)


class At(InProcess):
    """The command on a machine of its own, with the variables of a server."""

    def __init__(self, place, name, variables):
        root, home = place / name / "project", place / name / "home"
        for path in (root, home):
            path.mkdir(parents=True)
        super().__init__(root, home)
        self.environment |= {**variables, "CASREWIND_REMOTE_KEY": KEY}
        self.project = root

    def work(self, number):
        plant(self.project, {"f": b"%d" % number})
        return self.json("save")["checkpoint"]


@pytest.fixture(scope="module")
def server():
    with S3Server() as started:
        yield started


@pytest.fixture
def url(server):
    return server.bucket()


@pytest.fixture
def machine(tmp_path, server, url):
    made = At(tmp_path, "one", server.variables)
    made.work(1)
    made("remote", "add", url, "--machine", "sandbox-4", code=0)
    made("push", code=0)
    return made


def assert_next_push_is_complete(machine, tmp_path, server, url, number):
    """After the trouble: a push sends what waited, and another machine reads all of it."""
    assert machine("push", code=0).out.startswith("pushed ")
    reader = At(tmp_path, "reader", server.variables)
    said = reader("clone", url, "copy", "--all", code=0).out
    assert f"{number} checkpoints came along" in said
    assert reader("-C", str(reader.project / "copy"), "verify", code=0).out.startswith(f"sound: {number} checkpoints")


def test_no_network(machine, tmp_path, server, url):
    machine.work(2)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        nowhere = f"http://127.0.0.1:{free.getsockname()[1]}"
    for command in ("push", "pull"):
        found = machine(command, AWS_ENDPOINT_URL=nowhere, code=17)
        assert found.err.startswith(f"casrewind: {url} cannot be reached: connection refused"), found
    assert machine("push", AWS_ENDPOINT_URL=nowhere, code=17).err.endswith("; 1 checkpoint waits for the next push\n")
    assert "1 checkpoint not pushed" in machine("status", code=0).out
    assert_next_push_is_complete(machine, tmp_path, server, url, 2)


def test_the_bucket_is_gone(machine, tmp_path, server, url):
    machine.work(2)
    with Recorded(404, "NoSuchBucket", "The specified bucket does not exist") as gone:
        for command in ("push", "pull"):
            assert machine(command, AWS_ENDPOINT_URL=gone.endpoint, code=17).err.startswith(
                f"casrewind: the bucket of {url} is gone, or its name is misspelt"
            )
    assert_next_push_is_complete(machine, tmp_path, server, url, 2)
    stranger = At(tmp_path, "stranger", server.variables)
    assert "is gone, or its name is misspelt" in stranger("clone", "s3://no-such-bucket-here/shop", "x", code=17).err
    assert not (stranger.project / "x").exists()


def test_the_clock_of_this_machine_is_wrong(machine, tmp_path, server, url):
    machine.work(2)
    with Recorded(403, "RequestTimeTooSkewed", "The difference between the request time and the current time is too large.") as late:
        for command in ("push", "pull"):
            assert f"{url} refuses this machine's clock (" in machine(command, AWS_ENDPOINT_URL=late.endpoint, code=17).err
    assert_next_push_is_complete(machine, tmp_path, server, url, 2)


def policy_of_the_page(bucket):
    """The policy in the guide, for a bucket and its directory `shop`."""
    (found,) = [text for text in guide_page.blocks("json") if "Statement" in text]
    return json.loads(found.replace("team", bucket))


def test_what_is_listed_has_the_prefix_that_the_policy_allows(monkeypatch, server, url):
    """The server of the next test knows no conditions on a prefix."""
    listing = '<?xml version="1.0" encoding="UTF-8"?><ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/"></ListBucketResult>'
    (condition,) = [rule["Condition"] for rule in policy_of_the_page("bucket")["Statement"] if "Condition" in rule]
    assert condition == {"StringLike": {"s3:prefix": "shop/*"}}
    for variable, value in server.variables.items():
        monkeypatch.setenv(variable, value)
    with Recorded(200, listing) as recorded:
        for prefix, after in (("", ""), ("keys/", ""), ("0" * 32, f"{'0' * 32}/0000000001-0000000001")):
            Objects(url, {"endpoint": recorded.endpoint}).list(prefix, after)
        prefixes = [parse_qs(urlsplit(path).query)["prefix"][0] for _, path in recorded.asked]
    assert len(prefixes) == 3 and all(one.startswith("shop/") for one in prefixes), prefixes


@pytest.mark.turns(3)
def test_no_permission(tmp_path, monkeypatch):
    import boto3

    with S3Server(INITIAL_NO_AUTH_ACTION_COUNT="1000") as guarded:
        url = guarded.bucket()
        machine = At(tmp_path, "one", guarded.variables)
        machine.work(1)
        machine("remote", "add", url, "--machine", "sandbox-4", code=0)
        machine("push", code=0)
        bucket = f"arn:aws:s3:::{url.split('/')[2]}"
        iam = boto3.client("iam", endpoint_url=guarded.endpoint, region_name="us-east-1", aws_access_key_id="x", aws_secret_access_key="x")
        keys = {}
        reading = {"Effect": "Allow", "Action": ["s3:GetObject", "s3:ListBucket"], "Resource": [bucket, f"{bucket}/*"]}
        adding = policy_of_the_page(url.split("/")[2])
        for rule in adding["Statement"]:
            rule.pop("Condition", None)
        for name, policy in (("reader", {"Version": "2012-10-17", "Statement": [reading]}), ("sandbox", adding)):
            iam.create_user(UserName=name)
            iam.put_user_policy(UserName=name, PolicyName="p", PolicyDocument=json.dumps(policy))
            key = iam.create_access_key(UserName=name)["AccessKey"]
            keys[name] = {"AWS_ACCESS_KEY_ID": key["AccessKeyId"], "AWS_SECRET_ACCESS_KEY": key["SecretAccessKey"]}
        guarded.ask("POST", "/moto-api/reset-auth", b"0")
        machine.work(2)
        found = machine("push", **keys["reader"], code=17)
        assert found.err.startswith(f"casrewind: {url} does not allow PutObject to the present credentials; nothing was changed")
        assert "does not know these credentials" in machine("push", AWS_ACCESS_KEY_ID="NOBODY", code=17).err
        assert machine("pull", **keys["reader"], code=0).out == f"nothing new on {url}\n"
        assert machine("push", **keys["sandbox"], code=0).out.startswith("pushed 1 checkpoint")
        assert machine("pull", **keys["sandbox"], code=0).out == f"nothing new on {url}\n"
        again = At(tmp_path, "again", {**guarded.variables, **keys["sandbox"]})
        assert "2 checkpoints came along" in again("clone", url, "copy", "--all", code=0).out
        elsewhere = At(tmp_path, "elsewhere", {**guarded.variables, **keys["sandbox"]})
        assert "does not allow GetObject" in elsewhere("remote", "add", url.replace("/shop", "/other"), code=17).err
        for variable, value in {**guarded.variables, **keys["sandbox"]}.items():
            monkeypatch.setenv(variable, value)
        there = Objects(url).list()
        with pytest.raises(errors.RemoteError) as refused:
            Objects(url).delete([there[0].name])
        assert str(refused.value) == f"{url} does not allow DeleteObject to the present credentials; nothing was changed"
        found = machine("remote", "gc", **keys["sandbox"], code=17)
        assert found.err == f"casrewind: {url} does not allow DeleteObject to the present credentials; nothing was changed\n"
        assert Objects(url).list() == there
        plant(machine.project, {"secret": b"hunter2"})
        machine("save", code=0)
        machine("push", **keys["sandbox"], code=0)
        machine("purge", "secret", "-y", code=0)
        guarded.ask("POST", "/moto-api/reset-auth", b"1000")
        s3 = boto3.client("s3", endpoint_url=guarded.endpoint, region_name="us-east-1", aws_access_key_id="x", aws_secret_access_key="x")
        pieces = [row["Key"] for row in s3.list_objects_v2(Bucket=url.split("/")[2])["Contents"] if "-" in row["Key"]]
        kept = {"Effect": "Deny", "Action": "s3:PutObject", "Resource": [f"{bucket}/{name}" for name in pieces]}
        iam.put_user_policy(UserName="sandbox", PolicyName="kept", PolicyDocument=json.dumps({"Version": "2012-10-17", "Statement": [kept]}))
        guarded.ask("POST", "/moto-api/reset-auth", b"0")
        found = machine("push", **keys["sandbox"], code=3)
        assert "pushed 3 checkpoints" in found.out
        lines = [line for line in found.err.splitlines() if line.startswith("casrewind: not emptied, it may hold purged content: ")]
        assert len(lines) >= 3 and all(f"{url}/" in line for line in lines)


def test_another_key_and_no_remote(machine, tmp_path, server, url):
    stranger = At(tmp_path, "stranger", server.variables)
    stranger.environment["CASREWIND_REMOTE_KEY"] = remote_config.key_as_text(b"x" * 32)
    for line in (("clone", url, "x"), ("remote", "add", url)):
        assert f"this is not the key of {url}; " in stranger(*line, code=17).err
    assert "there is no casrewind remote at" in stranger("clone", server.bucket(), "x", code=17).err


def test_a_push_that_is_interrupted_says_so_and_goes_on(machine, tmp_path, server, url):
    """The server is stopped in the middle: the command waits for it, and Ctrl-C ends it in words."""
    machine.work(2)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        line = [sys.executable, "-m", "casrewind", "-C", machine.root, "push"]
        environment = {**machine.environment, "AWS_ENDPOINT_URL": f"http://127.0.0.1:{silent.getsockname()[1]}"}
        process = subprocess.Popen(line, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        connection, _ = silent.accept()
        time.sleep(0.1)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
        connection.close()
    assert process.returncode == 130 and out == ""
    assert err.startswith("casrewind: the push was stopped: what it sent stays on the remote, and the next push sends the rest\n")
    assert "Traceback" not in err
    assert_next_push_is_complete(machine, tmp_path, server, url, 2)
