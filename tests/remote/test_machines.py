"""Which machines pushed to a remote: looked at in a project, and before there is one."""

import re
from pathlib import Path

import pytest

from casrewind.remote import clone as clones
from casrewind.remote.machines import list_machines
from casrewind.remote.remote_config import RemoteConfig
from support.command_in_process import InProcess
from support.machines import KEY, Machine, objects_in

pytest.importorskip("obstore")


@pytest.fixture
def url(tmp_path):
    return f"file://{tmp_path}/bucket"


@pytest.fixture
def pushed(tmp_path, url):
    """Two sandboxes of one name, and a laptop, which pushed last."""
    made = []
    for place, name in (("one", "sandbox"), ("two", "sandbox"), ("three", "laptop")):
        machine = Machine.with_remote(tmp_path / place, url, name)
        machine.save({"f": place.encode()}, f"first of {place}")
        machine.save({"f": place.encode() * 2}, f"last of {place}")
        machine.push()
        made.append(machine)
    return made


def command_at(machine):
    found = InProcess(machine.root, machine.home)
    found.environment["CASREWIND_REMOTE_KEY"] = KEY
    return found


def test_each_has_its_newest_checkpoint_and_namesakes_are_told_apart(pushed):
    with pushed[2].open() as workspace:
        found = list_machines(pushed[2].remote(workspace))
    assert (found.rest, found.unreadable) == (0, 0)
    assert {one.newest.label: (one.checkpoints, one.is_own) for one in found.shown} == {
        "last of one": (2, False), "last of two": (2, False), "last of three": (2, True)
    }  # fmt: skip
    assert {one.name for one in found.shown} == {"laptop", *(f"sandbox.{machine.chain()[:8]}" for machine in pushed[:2])}
    sizes = {name.partition("/")[0]: 0 for name in objects_in(pushed[0].url)}
    for name, data in objects_in(pushed[0].url).items():
        sizes[name.partition("/")[0]] += len(data)
    assert {one.chain: one.size for one in found.shown} == {machine.chain(): sizes[machine.chain()] for machine in pushed}
    assert [one.pushed_ns for one in found.shown] == sorted((one.pushed_ns for one in found.shown), reverse=True)


def test_what_it_names_can_be_cloned(pushed, tmp_path):
    with pushed[2].open() as workspace:
        name = next(one.name for one in list_machines(pushed[2].remote(workspace)).shown if one.newest.label == "last of one")
    made = pushed[0].clone_to(tmp_path / "new", reference=name)
    assert (made.root / "f").read_bytes() == b"oneone"


def test_before_there_is_a_project_nothing_is_made(pushed, tmp_path, url):
    (tmp_path / "nowhere").mkdir()
    newcomer = InProcess(tmp_path / "nowhere", tmp_path / "home")
    newcomer.environment["CASREWIND_REMOTE_KEY"] = KEY
    said = newcomer("clone", url, "--list", code=0).out.splitlines()
    assert said[0] == f"3 machines on {url}, the newest push first"
    assert len([line for line in said if line.startswith("  sandbox.")]) == 2
    assert any(re.fullmatch(r"  laptop +\d+ s ago +last of three +2 checkpoints, [\d.]+ KiB", line) for line in said)
    assert newcomer("clone", url, "--list", "--grep", "lap", code=0).out.splitlines()[0].startswith("1 machine on ")
    told = newcomer.json("clone", url, "--list")
    assert (len(told["machines"]), [one["machine"] for one in told["machines"] if one["own"]]) == (3, [])
    assert "takes no DIR" in newcomer("clone", url, "there", "--list", code=64).err
    assert not list(Path(tmp_path / "nowhere").iterdir()) and not (tmp_path / "home" / ".local").exists()
    del newcomer.environment["CASREWIND_REMOTE_KEY"]
    assert "key" in newcomer("clone", url, "--list", code=17).err


def test_a_project_lists_twenty_and_all_on_demand(pushed, monkeypatch):
    monkeypatch.setattr("casrewind.remote.machines.NEWEST_SHOWN", 2)
    laptop = command_at(pushed[2])
    said = laptop("remote", "machines", code=0).out.splitlines()
    assert len(said) == 4 and said[-1] == "  1 chain more: --all, or --grep TEXT for a part of the name"
    assert said[0].endswith(" (*: this one)") and said[1].startswith("* laptop ") and all(len(line) <= 80 for line in said[1:])
    assert len(laptop("remote", "machines", "--all", code=0).out.splitlines()) == 4
    told = laptop.json("remote", "machines", "--grep", "sandbox")
    assert (told["rest"], told["unreadable"], [one["label"] for one in told["machines"]]) == (0, 0, ["last of two", "last of one"])
    assert "--grep goes with remote machines" in laptop("remote", "verify", "--grep", "x", code=64).err


def test_what_is_not_shown_costs_no_request(pushed, tmp_path, url):
    for number in range(20):
        machine = Machine.with_remote(tmp_path / f"more{number}", url, f"box-{number}")
        machine.save({"f": b"%d" % number})
        machine.push()
    with pushed[0].open() as workspace:
        remote = pushed[0].remote(workspace)
        found = list_machines(remote, 2)
        assert [one.name for one in found.shown] == ["box-19", "box-18"] and found.rest == 21
        asked = remote.objects.requests
        assert asked["LIST"] == 1 and asked["GET"] <= 20, asked


def test_what_cannot_be_read_is_counted_and_what_has_ended_is_not_there(pushed, url):
    for name, data in objects_in(url).items():
        if name.startswith(pushed[0].chain()):
            Path(url.removeprefix("file://"), name).write_bytes(data[:40] + bytes(len(data) - 40))
    pushed[1].save({"g": b"g"})
    pushed[1].push(anew=True)
    laptop = command_at(pushed[2])
    found = laptop("remote", "machines", code=3)
    assert found.out.splitlines()[0].startswith("2 machines on ")
    assert "1 chain cannot be read; casrewind remote verify says why" in found.err


def test_an_empty_remote_has_none(tmp_path, url):
    machine = Machine.with_remote(tmp_path / "one", url)
    assert command_at(machine)("remote", "machines", code=0).out == f"no machine has pushed to {url}\n"
    remote = clones.open_unjoined(RemoteConfig(url, "x"), machine.environ, "", None)[0]
    assert list_machines(remote) == ((), 0, 0)
