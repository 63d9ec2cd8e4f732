"""Nothing is sent to a remote, or emptied there, under a key that is not the remote's, wherever the key comes from."""

import os
from pathlib import Path

import pytest

from casrewind.remote import remote_config
from support.command_in_process import InProcess
from support.trees import plant

OWN, OTHER = (remote_config.key_as_text(letter * 32) for letter in (b"k", b"x"))
VARIABLE = "CASREWIND_REMOTE_KEY"


class At(InProcess):
    """The command on a machine of its own, without a key."""

    def __init__(self, place, name):
        self.place = place / name
        root, home = self.place / "project", self.place / "home"
        for path in (root, home):
            path.mkdir(parents=True)
        super().__init__(root, home)

    def work(self):
        plant(self.root, {"f": os.urandom(8)})
        self("save", code=0)

    def key_file(self, text):
        path = self.place / "the key"
        path.write_text(text + "\n")
        path.chmod(0o600)
        return path


class Shared:
    """A remote on a disk, with the pushes of one machine under the key OWN."""

    def __init__(self, place):
        self.place = place
        self.bucket = place / "bucket"
        self.url = f"file://{self.bucket}"
        self.machine = At(place, "one")
        self.machine.work()
        self.machine("remote", "add", self.url, "--key-file", str(self.machine.key_file(OWN)), code=0)
        self.machine("push", code=0)

    def objects(self):
        """{name: bytes} of all that is on the remote."""
        return {str(path.relative_to(self.bucket)): path.read_bytes() for path in self.bucket.rglob("*") if path.is_file()}

    def key_in_store(self):
        (found,) = Path(self.machine.place / "home").rglob("remotes/*/key")
        return found


@pytest.fixture
def shared(tmp_path):
    return Shared(tmp_path)


def test_the_variable_of_another_project_in_the_shell_changes_no_push(shared, tmp_path):
    shared.machine.work()
    assert shared.machine("push", code=0, **{VARIABLE: OTHER}).out.startswith("pushed 1 checkpoint")
    reader = At(tmp_path, "reader")
    assert reader.json("clone", shared.url, "x", "--all", **{VARIABLE: OWN})["checkpoints"] == 2
    refused = reader("clone", shared.url, "y", code=17, **{VARIABLE: OTHER})
    assert refused.err.startswith(f"casrewind: this is not the key of {shared.url}; casrewind remote key --show prints its key")
    assert not (Path(reader.root) / "y").exists()


@pytest.mark.parametrize("line", ["push", "push -n", "pull", "remote verify", "remote gc -y", "remote gc --forgotten -y", "export last"])
@pytest.mark.parametrize("place", ["file", "command"])
def test_another_key_ends_a_command_before_its_first_request(shared, line, place):
    machine = shared.machine
    if place == "command":
        key = machine.key_file(OWN)
        machine("remote", "remove", "-y", code=0)
        machine("remote", "add", shared.url, "--key-command", f"cat '{key}'", code=0)
        machine("push", code=0)
        key.write_text(OTHER)
    else:
        shared.key_in_store().write_text(OTHER)
    machine.work()
    before = shared.objects()
    refused = machine(*line.split(), code=17)
    assert refused.out == "" and refused.err.startswith(f"casrewind: this is not the key of {shared.url}; nothing was sent; ")
    assert ("run it" if place == "command" else "--key-file FILE") in refused.err
    assert shared.objects() == before


def test_a_machine_that_keeps_no_key_reads_the_variable_at_each_push(shared, tmp_path):
    machine = At(tmp_path, "two")
    machine.work()
    machine("remote", "add", shared.url, "--key-command", f"printenv {VARIABLE}", code=0, **{VARIABLE: OWN})
    machine("push", code=0, **{VARIABLE: OWN})
    machine.work()
    before = shared.objects()
    assert "failed with exit code 1" in machine("push", code=17).err
    assert "this is not the key of" in machine("push", code=17, **{VARIABLE: OTHER}).err
    assert shared.objects() == before
    machine("push", code=0, **{VARIABLE: OWN})
    kept = [path for path in (machine.place / "home").rglob("*") if path.is_file()]
    assert kept and not [path for path in kept if OWN.encode() in path.read_bytes() or bytes.fromhex(OWN[5:]) in path.read_bytes()]


def test_after_a_purge_a_push_under_another_key_empties_nothing(shared, tmp_path):
    machine = shared.machine
    plant(machine.root, {"secret": b"hunter2"})
    machine("save", code=0)
    machine("push", code=0)
    machine("purge", "secret", "-y")
    before = shared.objects()
    shared.key_in_store().write_text(OTHER)
    machine("push", code=17, **{VARIABLE: OTHER})
    assert shared.objects() == before
    shared.key_in_store().write_text(OWN)
    machine("push", code=0)
    assert shared.objects() != before
    assert At(tmp_path, "reader").json("clone", shared.url, "x", **{VARIABLE: OWN})["files"] == 1


def test_what_the_store_keeps_of_its_remote_is_needed_and_a_new_add_writes_it(shared):
    machine = shared.machine
    machine.work()
    before = shared.objects()
    head = shared.key_in_store().with_name(remote_config.HEAD)
    assert head.read_bytes() == before["casrewind"] and len(before["casrewind"]) == 67
    for damage in (head.unlink, lambda: head.write_bytes(b"x" * 67), lambda: head.write_bytes(before["casrewind"][:-1])):
        damage()
        refused = machine("push", code=20)
        assert "casrewind remote remove, then casrewind remote add URL --key-file FILE" in refused.err
        assert shared.objects() == before
    machine("remote", "remove", "-y", code=0)
    machine("remote", "add", shared.url, "--key-file", str(machine.key_file(OWN)), code=0)
    machine("push", code=0)
