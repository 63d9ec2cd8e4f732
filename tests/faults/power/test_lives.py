"""A remembered stamp is believed in one life of a file system only: not under another boot, and not after a new mount.

The bytes of a file are changed in the image of its file system while that is not mounted: all stamps stay as they were.
"""

import os
import shutil
import subprocess
import sys
from contextlib import contextmanager

import pytest

from support import recorded_disk
from support.command import Command
from support.fake_client import Client
from support.power_cut import KINDS
from support.power_cut_edits import BOOT, OTHER_BOOT, bound, kernel_directory
from support.scanner import settle
from support.trees import plant

PATH = os.pathsep.join([os.environ["PATH"], "/usr/sbin", "/sbin"])
OLD, NEW = b"the old bytes of this file\n" * 20, b"the new bytes of this file\n" * 20
CACHED, TOLD = "believed", "read again"


class Disk:
    """A file system in a file. `project` is a directory on it, `command` the command there; home and store lie elsewhere."""

    def __init__(self, place, kind, home):
        self.kind, self._image, self._point, self._hidden = kind, str(place / "image"), str(place / "m"), str(place / "hidden")
        size, make = KINDS[kind]
        with open(self._image, "xb") as file:
            file.truncate(size << 20)
        subprocess.run([*make.split(), self._image], check=True, capture_output=True, env={"PATH": PATH})
        for path in (self._point, self._hidden):
            os.mkdir(path)
        self.project = os.path.join(self._point, "project")
        self.command = Command(self.project, home)

    @contextmanager
    def mounted(self, *, boot="", hide=False):
        """Mounted. `boot`: a file that stands for the boot's id. `hide`: what tells one mount from another is always the same."""
        try:
            mounting = recorded_disk.mounted(self._image, self.kind, self._point)
            mounting.__enter__()
        except recorded_disk.Impossible as error:
            pytest.skip(str(error))
        try:
            with bound(boot, BOOT, wanted=boot), bound(self._hidden, kernel_directory(self._point), wanted=hide):
                yield
        finally:
            mounting.__exit__(None, None, None)

    def exchange(self, old, new):
        """Change bytes on the disk while it is not mounted."""
        with open(self._image, "r+b") as file:
            data = file.read()
            assert len(old) == len(new) and data.count(old) == 1
            file.seek(data.index(old))
            file.write(new)


@pytest.fixture
def disk(tmp_path, home):
    def work(kind="ext4"):
        if recorded_disk.why_not() is not None:
            pytest.skip(recorded_disk.why_not())
        if shutil.which(KINDS[kind][1].split()[0], path=PATH) is None:
            pytest.skip(f"cannot make {kind} here")
        return Disk(tmp_path, kind, home)

    return work


@pytest.fixture
def boots(tmp_path):
    """Files that stand for the boot's id: "" is the real one."""
    contents = {"other": OTHER_BOOT + "\n", "unknown": ""}
    for name, text in contents.items():
        (tmp_path / name).write_text(text)
    return {"": "", **{name: str(tmp_path / name) for name in contents}}


@pytest.mark.turns(2)
@pytest.mark.parametrize(
    ("kind", "first", "second", "hide", "expected"),
    [
        ("ext4", "", "", True, CACHED),  # the limit: nothing shows that the disk is another one
        ("ext4", "", "other", True, TOLD),
        ("ext4", "unknown", "unknown", True, TOLD),
        ("ext4", "", "", False, TOLD),
        ("xfs", "", "", False, TOLD),
    ],
)
def test_stamps_of_another_life_are_not_believed(disk, boots, kind, first, second, hide, expected):
    disk = disk(kind)
    with disk.mounted(boot=boots[first], hide=hide):
        plant(disk.project, {"d/f": OLD, "g": b"1"})
        settle()
        saved = disk.command.json("save")["checkpoint"]
        assert not disk.command.json("save")["created"]
    disk.exchange(OLD, NEW)
    with disk.mounted(boot=boots[second], hide=hide):
        changed = disk.command.json("diff", saved)["changes"]
        if expected == CACHED:
            assert changed == []
            assert disk.command.json("save", "--rehash")["changes"]["modified"] == 1
            return
        assert [change["path"] for change in changed] == ["d/f"]
        disk.command("restore", saved, "--yes", code=0)
        with open(f"{disk.project}/d/f", "rb") as file:
            assert file.read() == OLD
        disk.command("undo", "--yes", code=0)
        assert disk.command.json("diff", saved)["changes"] == changed


def test_a_save_under_a_new_life_finds_what_differs_and_the_one_behind_it_believes_stamps_again(disk):
    disk = disk()
    with disk.mounted():
        plant(disk.project, {"d/f": OLD, **{f"{n}/f": b"%d" % n for n in range(50)}})
        settle()
        disk.command.json("save")
    disk.exchange(OLD, NEW)
    with disk.mounted():
        assert disk.command.json("save")["changes"]["modified"] == 1
        assert _reads(disk) == set()
        os.truncate(f"{disk.project}/7/f", 0)
        assert _reads(disk) == {"7/f"}


def test_what_is_remembered_of_an_earlier_life_does_not_come_back(disk):
    """A directory that is away at the first save of a new life, and there again at the next one."""
    disk = disk()
    with disk.mounted():
        plant(disk.project, {"d/f": OLD, "g": b"1"})
        settle()
        saved = disk.command.json("save")["checkpoint"]
    disk.exchange(OLD, NEW)
    with disk.mounted():
        os.rename(f"{disk.project}/d", f"{disk.project}/../d")
        disk.command.json("save")
        os.rename(f"{disk.project}/../d", f"{disk.project}/d")
        disk.command.json("save")
        assert [change["path"] for change in disk.command.json("diff", saved)["changes"]] == ["d/f"]


def _reads(disk):
    """The files of the project that a save opens."""
    if shutil.which("strace") is None:
        pytest.skip("needs strace")
    done = subprocess.run(
        ["strace", "-f", "-qq", "-y", "-e", "trace=openat", "-e", "signal=none", sys.executable, "-m", "casrewind", "-C", disk.project, "save"],
        env=disk.command.environment, capture_output=True, check=True,
    )  # fmt: skip
    opened = {line.rpartition(f"<{disk.project}/")[2].partition(">")[0] for line in done.stderr.decode().splitlines()}
    return {path for path in opened if path.endswith("/f")}


def test_a_hook_leaves_the_save_that_reads_everything_to_a_process_of_its_own(disk):
    if shutil.which("strace") is None:
        pytest.skip("needs strace")
    disk = disk()
    with disk.mounted():
        plant(disk.project, {"f": OLD})
        settle()
        disk.command("save", code=0)
        client = Client(disk.command, disk.project)
    disk.exchange(OLD, NEW)
    with disk.mounted():
        assert _leaves_it(client)
        assert client.points()[0]["changes"]["modified"] == 1


def _leaves_it(client):
    """Whether the hook at the end of a turn starts a child that makes the checkpoint; it has come to its end."""
    before = len(client.points())
    done = subprocess.run(
        ["strace", "-f", "-qq", "-s", "4000", "-e", "trace=execve", "-e", "signal=none", sys.executable, "-m", "casrewind", "hook", "claude"],
        input=client.payload("Stop.plain"), env={**client.casrewind.environment, "CLAUDE_PROJECT_DIR": str(client.root)},
        capture_output=True, cwd="/", check=True,
    )  # fmt: skip
    assert done.stdout == b""
    client.wait_for(before + 1)
    return b'"--child"' in done.stderr


def test_every_namespace_and_every_user_sees_the_same_life(tmp_path):
    """Else a command in a container would make the next one outside read everything, and the other way round."""
    if os.geteuid() != 0 or shutil.which("unshare") is None:
        pytest.skip("needs root and unshare")
    tmp_path.chmod(0o755)
    said = []
    for prefix in ((), ("unshare", "-m", "-p", "-f", "--mount-proc"), ("setpriv", "--reuid", "65534", "--clear-groups")):
        code = "import os, sys; from casrewind.worktree import root; print(root.life_of_file_system(os.open('/', os.O_RDONLY)))"
        done = subprocess.run([*prefix, sys.executable, "-c", code], capture_output=True, text=True, env={**os.environ}, cwd="/")
        if done.returncode and prefix:
            pytest.skip(done.stderr)
        said.append(done.stdout)
    assert len(set(said)) == 1 and len(said[0]) > 40
