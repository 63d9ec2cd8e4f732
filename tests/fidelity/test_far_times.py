"""Times that do not fit into 64 bits of nanoseconds: one such file costs no other file its protection."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from support import recorded_disk
from support.command import Command
from support.fake_client import Client
from support.power_cut import KINDS
from support.scanner import settle
from support.trees import plant

EARLIEST, LATEST = -(1 << 63), (1 << 63) - 1
YEARS = {
    "1600": -11_676_096_000, "1677-09-21": -9_223_372_037, "1969": -10_000, "2262-04-11": 9_223_372_036, "2262-04-12": 9_223_400_000,
    "2446": 15_032_385_000, "2600": 19_880_899_200,
}  # fmt: skip
"""Seconds since 1970."""
PATH = os.pathsep.join([os.environ["PATH"], "/usr/sbin", "/sbin"])


@pytest.fixture(params=["here", "tmpfs", *(pytest.param(kind, marks=pytest.mark.long) for kind in ("ext4", "xfs", "btrfs"))])
def command(request, tmp_path, home):
    """The command in a project on a file system of each kind."""
    kind, point = request.param, tmp_path / "m"
    point.mkdir()
    project = point / "project"
    if kind == "here":
        project.mkdir()
        yield Command(project, home)
        return
    if os.geteuid() != 0:
        pytest.skip("only root may mount")
    if kind == "tmpfs":
        if subprocess.run(["mount", "-t", "tmpfs", "tmpfs", str(point)], capture_output=True).returncode:
            pytest.skip("cannot mount here")
        project.mkdir()
        yield Command(project, home)
        subprocess.run(["umount", "--lazy", str(point)], check=True)
        return
    size, make = KINDS[kind]
    if recorded_disk.why_not() is not None or shutil.which(make.split()[0], path=PATH) is None:
        pytest.skip(f"no {kind} here")
    image = tmp_path / "image"
    image.touch()
    os.truncate(image, size << 20)
    subprocess.run([*make.split(), str(image)], check=True, capture_output=True, env={"PATH": PATH})
    with recorded_disk.mounted(str(image), kind, str(point)):
        project.mkdir()
        yield Command(project, home)


def set_time(path, seconds):
    """What the file system keeps of it, in nanoseconds."""
    os.utime(path, ns=(seconds * 10**9, seconds * 10**9), follow_symlinks=False)
    return os.lstat(path).st_mtime_ns


def files(command):
    return {name: Path(command.root, name).read_bytes() for name in YEARS}


def test_saves_restores_and_comparisons_do_with_any_time(command):
    root = command.root
    plant(root, {**{name: name.encode() for name in YEARS}, "d/f": b"f"})
    os.symlink("f", f"{root}/d/link")
    kept = {name: set_time(f"{root}/{name}", seconds) for name, seconds in YEARS.items()}
    set_time(f"{root}/d/link", YEARS["2600"])
    set_time(f"{root}/d", YEARS["2446"])
    settle()
    then = command.json("save")["checkpoint"]
    assert not command.json("save")["created"]
    assert command.json("diff", then)["changes"] == []
    for name in YEARS:  # in place, of the same length, with the same time
        with open(f"{root}/{name}", "r+b") as file:
            file.write(b"!")
        os.utime(f"{root}/{name}", ns=(0, kept[name]))
    settle()
    assert {change["path"] for change in command.json("diff", then)["changes"]} == set(YEARS)
    assert command.json("save")["changes"]["modified"] == len(YEARS)
    command("restore", then, "--yes", code=0)
    assert files(command) == {name: name.encode() for name in YEARS}
    for name in YEARS:
        assert os.lstat(f"{root}/{name}").st_mtime_ns == min(max(kept[name], EARLIEST), LATEST), name
    assert "nothing to do" in command("restore", then, "--yes", code=0).out
    assert command.json("diff", then)["changes"] == []
    command("save", "--rehash", code=0)
    assert command.json("diff", then)["changes"] == []
    command("undo", "--yes", code=0)  # as the saves above changed no file
    assert all(data.startswith(b"!") for data in files(command).values())
    assert command("run", "--", "true").code == 0
    assert command.json("verify")["ok"]


def test_hooks_make_their_checkpoints(command):
    plant(command.root, {"far": b"1", "near": b"2"})
    set_time(f"{command.root}/far", YEARS["2262-04-12"])
    client = Client(command, command.root)
    client.send(client.payload("Stop.plain"))
    client.wait_for(1)
    plant(command.root, {"near": b"3"})
    client.send(client.payload("Stop.plain"))
    assert client.wait_for(2)[0]["changes"]["modified"] == 1
    with open(f"{command.root}/far", "r+b") as file:
        file.write(b"!")
    set_time(f"{command.root}/far", YEARS["2262-04-12"])
    client.send(client.payload("Stop.plain"))
    assert client.wait_for(3)[0]["changes"]["modified"] == 1
