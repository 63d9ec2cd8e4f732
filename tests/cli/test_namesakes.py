"""Machines of one name: a plain name means the newest by the server's time, everywhere, and that is said; the others have names, too."""

import os
import re
from pathlib import Path

import pytest

from casrewind.remote import remote_config
from support.command_in_process import InProcess
from support.trees import plant

KEY = remote_config.key_as_text(b"k" * 32)


@pytest.fixture
def laptop(tmp_path):
    """A machine that has pulled from three machines of one name: the second pushed last, and the first one was pulled first."""
    url = f"file://{tmp_path}/bucket"

    def at(name, machine):
        root, home = tmp_path / name / "project", tmp_path / name / "home"
        for place in (root, home):
            place.mkdir(parents=True)
        made = InProcess(root, home, CASREWIND_REMOTE_KEY=KEY)
        made("remote", "add", url, "--machine", machine, code=0)
        return made

    made = at("laptop", "laptop")
    made.url = url
    machines = [at(f"sandbox{number}", "sandbox") for number in range(3)]
    for number, one in enumerate(machines):
        plant(one.root, {"who": b"%d" % number})
        one("push", code=0)
        if number == 0:
            made("pull", code=0)
    plant(machines[1].root, {"who": b"1 again"})
    machines[1]("push", code=0)
    for at, name in enumerate((0, 2, 1)):  # the server's clock is that of the files
        for piece in chains_of(machines[name], tmp_path).iterdir():
            os.utime(piece, (1_800_000_000 + at, 1_800_000_000 + at))
    made("pull", code=0)
    return made


def chains_of(machine, tmp_path):
    """The directory of a machine's chain: the one with the blobs of its state."""
    (state,) = Path(machine.home).rglob("remotes/*/state")
    data = state.read_bytes()
    (found,) = [place for place in (tmp_path / "bucket").iterdir() if place.is_dir() and place.name.encode() in data]
    return found


SAID = r"casrewind: note: sandbox: the newest of 3 machines of that name \(sandbox\.[0-9a-f]{4,8}\); casrewind list --remote names the others\n"


def test_a_plain_name_means_the_newest_everywhere_and_that_is_said(laptop):
    shown = laptop("cat", "sandbox:last:who", code=0)
    assert shown.out == "1 again" and re.fullmatch(SAID, shown.err)
    done = laptop("restore", "sandbox:last", "--yes", code=0)
    assert (Path(laptop.root) / "who").read_bytes() == b"1 again" and re.search(SAID, done.err)
    assert re.search(SAID, laptop("diff", "sandbox:prev", "sandbox:last", code=0).err)


def test_a_list_names_each_of_them_and_each_name_means_one(laptop):
    said = laptop("list", "--remote", "--all", code=0).out
    names = re.findall(r"^(sandbox\.[0-9a-f]+)( \(sandbox means this one\))?: ", said, re.MULTILINE)
    assert len(names) == 3 and [bool(means) for _, means in names] == [True, False, False]
    assert {laptop("cat", f"{name}:last:who", code=0).out for name, _ in names} == {"0", "1 again", "2"}
    assert laptop("cat", f"{names[0][0]}:last:who", code=0).err == ""


def test_clone_takes_the_newest_of_a_name_and_names_the_others(laptop):
    done = laptop("clone", laptop.url, "copy", "sandbox", code=0)
    assert (Path(laptop.root) / "copy" / "who").read_bytes() == b"1 again"
    found = re.search(r"note: sandbox: the newest of 3 machines of that name \((sandbox\.\w+)\); the others: (sandbox\.\w+), (sandbox\.\w+)\n", done.err)
    for number, name in enumerate(found.groups()):
        again = laptop("clone", laptop.url, f"copy{number}", name, code=0)
        assert "machines of that name" not in again.err
    assert [(Path(laptop.root) / f"copy{number}" / "who").read_bytes() for number in range(3)] == [b"1 again", b"2", b"0"]


def test_one_machine_of_a_name_is_named_plainly_and_nothing_is_said(tmp_path, laptop):
    other = InProcess(tmp_path / "sandbox0" / "project", tmp_path / "sandbox0" / "home", CASREWIND_REMOTE_KEY=KEY)
    other("pull", code=0)
    said = other("list", "--remote", "--all", code=0).out
    assert len(re.findall(r"^sandbox\.\w+.*: ", said, re.MULTILINE)) == 2
