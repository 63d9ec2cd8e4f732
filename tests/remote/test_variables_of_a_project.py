"""Clients give hooks the variables of a project's own settings. They push nothing, and nothing that the project brings is run."""

import os
import shutil
import subprocess
import time
from pathlib import Path

import pytest

from casrewind.remote import remote_config
from casrewind.store import push_notes
from support.command_in_process import InProcess
from support.fake_client import Client
from support.held_proxy import HeldProxy
from support.trees import plant

KEY, OTHER = (remote_config.key_as_text(letter * 32) for letter in (b"k", b"x"))
MINE = ".config/casrewind/config.toml"
TURNS = b'[remote]\npush = "turns"\ninterval = "0s"\n'
ALLOWED = TURNS + b"from_environment = true\n"


class Person:
    """A project with a remote, and the hooks of a client in it. `work` is a turn; what it pushes is there when it returns."""

    def __init__(self, root, home, tmp_path):
        self.root, self.home, self.number = root, home, 0
        self.bucket = tmp_path / "bucket"
        self.casrewind = InProcess(root, home)
        self.configure(b"")
        plant(root, {"f": b"0"})
        self.casrewind("save", code=0)
        key = tmp_path / "key"
        key.write_text(KEY)
        key.chmod(0o600)
        self.casrewind("remote", "add", f"file://{self.bucket}", "--key-file", str(key), code=0)
        self.casrewind("push", code=0)
        self.client = Client(self.casrewind, root)

    def configure(self, text):
        plant(self.home, {MINE: text})

    def work(self, **variables):
        """Whether the turn was pushed."""
        before = self.objects()
        self.number += 1
        plant(self.root, {"f": b"%d" % self.number})
        self.client.send(self.client.payload("Stop.plain", session_id=self.client.transcript.stem), **variables)
        self.wait()
        return self.objects() != before

    def wait(self):
        while subprocess.run(["pgrep", "-f", "--", f"-C {self.root} push --auto"], capture_output=True, check=False).stdout:
            time.sleep(0.02)

    def objects(self):
        return {path.name for path in self.bucket.rglob("*") if path.is_file()}

    def remote(self):
        return self.casrewind.json("status")["remote"]


@pytest.fixture
def person(root, home, tmp_path):
    return Person(root, home, tmp_path)


def test_a_variable_starts_no_push_and_stops_none(person):
    assert not person.work(CASREWIND_REMOTE_PUSH="turns", CASREWIND_REMOTE_INTERVAL="0s")
    person.configure(TURNS)
    assert person.work(CASREWIND_REMOTE_PUSH="off", CASREWIND_REMOTE_INTERVAL="1h")
    assert person.work(CASREWIND_REMOTE_PUSH="no word of these")
    person.configure(ALLOWED)
    assert not person.work(CASREWIND_REMOTE_PUSH="off")
    person.configure(ALLOWED.replace(b"turns", b"off"))
    assert person.work(CASREWIND_REMOTE_PUSH="turns")


def test_a_variable_does_not_allow_variables(person):
    assert not person.work(CASREWIND_REMOTE_FROM_ENVIRONMENT="true", CASREWIND_REMOTE_PUSH="turns")
    assert person.casrewind.json("config", CASREWIND_REMOTE_FROM_ENVIRONMENT="true")["settings"] == person.casrewind.json("config")["settings"]


def test_a_variable_that_does_not_count_is_named(person):
    why = f"CASREWIND_REMOTE_PUSH does not count: {person.home}/{MINE} does not say from_environment = true in [remote]"
    for command, stream in (("status", "out"), ("remote", "out"), ("config", "err")):
        assert why in getattr(person.casrewind(command, code=0, CASREWIND_REMOTE_PUSH="turns"), stream), command
        assert "does not count" not in "".join(map(str, person.casrewind(command, code=0)[1:]))
    person.configure(ALLOWED)
    assert "does not count" not in person.casrewind("status", code=0, CASREWIND_REMOTE_PUSH="turns").out


def test_the_key_of_another_remote_in_a_variable_changes_no_push_of_a_hook(person, tmp_path):
    person.configure(ALLOWED)
    assert person.work(CASREWIND_REMOTE_KEY=OTHER) and person.remote()["problem"] is None
    reader = InProcess(tmp_path, tmp_path / "reader's home")
    assert reader.json("clone", f"file://{person.bucket}", "copy", "--all", CASREWIND_REMOTE_KEY=KEY)["problems"] == []


def test_where_the_store_keeps_no_key_a_hook_reads_the_variable_if_the_users_file_allows_it(person):
    (key,) = person.home.rglob("remotes/*/key")
    key.unlink()
    person.configure(TURNS)
    assert not person.work(CASREWIND_REMOTE_KEY=KEY) and "the key of" in person.remote()["problem"]
    person.configure(ALLOWED)
    assert not person.work(CASREWIND_REMOTE_KEY=OTHER) and "this is not the key of" in person.remote()["problem"]
    assert not person.work() and "cannot be read" in person.remote()["problem"]
    assert person.work(CASREWIND_REMOTE_KEY=KEY) and person.remote()["problem"] is None


@pytest.fixture
def trap(person, tmp_path):
    """A store in the project, with a remote of the attacker whose key a command prints: it was made elsewhere, with a project of the same place."""
    there = tmp_path / "attacker"
    key = there / "key"
    plant(there, {"key": OTHER.encode()})
    key.chmod(0o600)
    shutil.move(person.root, there / "aside")
    person.root.mkdir()
    plant(person.root, {"f": b"bait"})
    attacker = InProcess(person.root, person.home, CASREWIND_HOME=str(there / "stores"))
    attacker("save", code=0)
    ran = there / "ran"
    attacker("remote", "add", f"file://{there}/bucket", "--key-command", f"touch '{ran}' && cat '{key}'", code=0)
    ran.unlink()
    shutil.rmtree(person.root)
    shutil.move(there / "aside", person.root)
    shutil.copytree(there / "stores", person.root / "stores")
    plant(person.root, {"config/casrewind/config.toml": ALLOWED})
    return there


@pytest.mark.parametrize("own", [TURNS, ALLOWED, b""])
def test_a_store_that_the_project_brings_pushes_nothing_and_runs_no_command(person, trap, own):
    person.configure(own)
    before = sorted(trap.rglob("*"))
    person.work(CASREWIND_HOME=str(person.root / "stores"), CASREWIND_REMOTE_PUSH="turns", CASREWIND_REMOTE_KEY=OTHER)
    person.work(CASREWIND_HOME="/proc/self/cwd/stores", CASREWIND_REMOTE_PUSH="turns")
    assert sorted(trap.rglob("*")) == before and not (trap / "ran").exists()
    if own:
        directory = push_notes.remote_directory(next(str(path) for path in (person.root / "stores").rglob("remotes")))
        assert "lies in the project, which could have brought it" in push_notes.read_push_notes(directory).problem


def test_a_store_that_came_by_git_is_not_opened(person, trap):
    (store,) = (person.root / "stores" / "stores").iterdir()
    store.chmod(0o755)
    before = {path: path.read_bytes() for path in store.rglob("*") if path.is_file()}
    refused = person.casrewind("list", code=14, CASREWIND_HOME=str(person.root / "stores"))
    assert "it may have come with the project; if it is yours, chmod 700 it" in refused.err
    person.work(CASREWIND_HOME=str(person.root / "stores"), CASREWIND_REMOTE_PUSH="turns")
    assert {path: path.read_bytes() for path in store.rglob("*") if path.is_file() and path.name not in ("log", "log.seen")} == before
    store.chmod(0o700)
    person.casrewind("list", code=0, CASREWIND_HOME=str(person.root / "stores"))


@pytest.mark.parametrize("variable, path", [("XDG_CONFIG_HOME", "config"), ("HOME", "home")])
def test_a_configuration_that_the_project_brings_pushes_nothing(person, trap, variable, path):
    if variable == "HOME":
        plant(person.root, {f"home/{MINE}": ALLOWED})
    stores = {"CASREWIND_HOME": person.casrewind.environment["CASREWIND_HOME"]}
    assert not person.work(**stores, **{variable: str(person.root / path)}, CASREWIND_REMOTE_PUSH="turns")
    if variable != "HOME":  # with a home in the project nothing is saved at all
        assert "lies in the project" in person.remote()["problem"]
    assert not (trap / "ran").exists()
    person.configure(TURNS)
    assert person.work() and person.remote()["problem"] is None


def test_a_person_who_types_it_pushes_from_a_store_inside_the_project(root, home, tmp_path):
    casrewind = InProcess(root, home, CASREWIND_HOME=str(root / "stores"), CASREWIND_REMOTE_KEY=KEY)
    plant(root, {"f": b"1"})
    casrewind("save", code=0)
    casrewind("remote", "add", f"file://{tmp_path}/bucket", code=0)
    assert casrewind("push", code=0).out.startswith("pushed 1 checkpoint")
    assert Path(tmp_path, "bucket", "casrewind").exists() and os.path.isdir(root / "stores")


@pytest.mark.turns(3)
def test_a_hook_pushes_to_no_other_server_than_that_where_the_remote_was_added(root, home, s3):
    """The variables with the credentials are those of the person's shell."""
    casrewind = InProcess(root, home, CASREWIND_REMOTE_KEY=KEY, **s3.variables)
    plant(root, {"f": b"1"})
    casrewind("save", code=0)
    casrewind("remote", "add", s3.bucket(), code=0)
    client = Client(casrewind, root)

    def turn(text, **variables):
        plant(root, {"f": text})
        client.send(client.payload("Stop.plain", session_id="s"), **variables)
        while subprocess.run(["pgrep", "-f", "--", f"-C {root} push --auto"], capture_output=True, check=False).stdout:
            time.sleep(0.02)
        return casrewind.json("status")["remote"]

    with HeldProxy(s3.endpoint) as attacker:
        attacker.open()
        plant(home, {MINE: TURNS})
        s3.reset()
        found = turn(b"2", AWS_ENDPOINT_URL=attacker.endpoint)
        assert found["not_pushed"] == 2 and f"hooks do not push to {attacker.endpoint}: " in found["problem"] and s3.counts().requests == {}
        plant(root, {"aws": b"[default]\ncredential_process = touch ran\nendpoint_url = " + attacker.endpoint.encode() + b"\n"})
        found = turn(b"3", AWS_ENDPOINT_URL="", AWS_ACCESS_KEY_ID="", AWS_CONFIG_FILE=str(root / "aws"))
        assert f"{root}/aws lies in the project" in found["problem"] and s3.counts().requests == {}
        assert turn(b"4")["not_pushed"] == 0
        plant(home, {MINE: ALLOWED})
        assert turn(b"5", AWS_ENDPOINT_URL=attacker.endpoint)["not_pushed"] == 0
