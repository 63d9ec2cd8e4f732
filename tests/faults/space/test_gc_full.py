"""gc when the disk is full: it frees what it can, or says how many bytes it needs; the other commands lose nothing meanwhile."""

import json
import os
import random
import re
import shutil
import subprocess

import pytest

from casrewind.workspace import Workspace
from support.fake_client import Client
from support.picture import differences, picture
from support.secret_search import secret
from support.store_checks import leftovers, read_everything
from support.trees import plant

KiB, MiB = 1 << 10, 1 << 20
BALLAST = 1 * MiB
LEAVES = (0, *(pytest.param(kilobytes, marks=pytest.mark.long) for kilobytes in (4, 60, 200, 500, 1000)))
"""KiB that are free on the disk of the store."""
STEPS = [pytest.param("tmpfs", 0), pytest.param("ext4", 0)]
STEPS += [pytest.param(kind, kilobytes, marks=pytest.mark.long) for kind in ("tmpfs", "ext4") for kilobytes in (4, 60, 200, 500, 1000)]


@pytest.fixture
def disk(mount, home, tmp_path, request):
    """The data directory is a file system of 7 MiB: tmpfs, or ext4 with request.param."""
    kind = getattr(request, "param", "tmpfs")
    if kind == "tmpfs":
        return mount("home/data", "-t", "tmpfs", "-o", "size=7m,nr_inodes=200", "none")
    if shutil.which("mkfs.ext4") is None:
        pytest.skip("no mkfs.ext4")
    image = tmp_path / "image"
    with open(image, "wb") as file:
        file.truncate(7 * MiB)
    subprocess.run(["mkfs.ext4", "-q", "-F", "-m", "0", "-O", "^has_journal", "-N", "200", image], check=True)
    place = mount("home/data", "-o", "loop", str(image))
    shutil.rmtree(place / "lost+found")
    return place


def room(disk):
    status = os.statvfs(disk)
    return status.f_bavail * status.f_frsize


def fill(disk, leave):
    """Another program takes the space of the disk, but for `leave` bytes at most."""
    with open(disk / "filler", "ab") as file:
        step = 1 << 16
        while step >= 512:
            try:
                if room(disk) - step < leave:
                    raise OSError
                file.write(b"x" * step)
                file.flush()
            except OSError:
                step //= 2
    assert leave - 8 * KiB <= room(disk) <= leave + 8 * KiB, room(disk)


def unfill(disk, count):
    """The other program gives bytes back."""
    size = max(os.stat(disk / "filler").st_size - count, 0)
    os.truncate(disk / "filler", size)


def turns(casrewind, root, number, *, live=3000, dead=60_000, first=0):
    """Turns of an agent, told by its hooks: each checkpoint has a pack with a file that stays and a file that the next one replaces."""
    client, chance = Client(casrewind, root), random.Random(first)
    for turn in range(first, first + number):
        for name, event in ((f"a{turn}", "UserPromptSubmit.prompt"), (f"b{turn}", "Stop.plain")):
            plant(root, {"changes": chance.randbytes(dead), **({name: chance.randbytes(live)} if live else {})})
            client.send(client.payload(event, session_id="s", prompt=f"turn {turn}"))
    return client


def store_of(home):
    [store] = (home / "data/stores").iterdir()
    return store


def whole(casrewind, root, settings, acknowledged=()):
    """The store verifies and everything in it can be read; the checkpoints that were acknowledged are there."""
    casrewind("verify", code=0)
    listed = {point["id"] for point in casrewind.json("list", "--all")["checkpoints"]}
    assert listed >= set(acknowledged)
    with Workspace(str(root), settings, create=False) as workspace:
        read_everything(workspace)
        assert workspace.status().journal is None
    assert not leftovers(root)


@pytest.mark.parametrize(("disk", "leave"), STEPS, indirect=["disk"])
def test_gc_frees_packs_of_which_a_part_is_needed(disk, casrewind, root, home, settings, leave):
    turns(casrewind, root, 9)
    here = picture(root)
    assert (store_of(home) / "ballast").stat().st_blocks * 512 >= BALLAST
    fill(disk, leave * KiB)
    before = room(disk)
    found = casrewind.json("gc", "--max-count", "2")
    print(f"{leave} KiB free: {found['dropped']} forgotten, {found['bytes_before'] - found['bytes_after']:,} bytes freed")
    assert found["dropped"] == 14
    freed = found["bytes_before"] - found["bytes_after"]
    assert freed > 600_000
    assert abs(room(disk) - before - freed) <= 8 * KiB, "the ballast does not count as freed"
    assert (store_of(home) / "ballast").stat().st_blocks * 512 >= BALLAST, "made again"
    assert picture(root) == here
    whole(casrewind, root, settings)


@pytest.mark.parametrize("leave", LEAVES)
def test_gc_frees_wholly_dead_packs_first(disk, casrewind, root, home, settings, leave):
    turns(casrewind, root, 2, live=900_000, dead=100)
    turns(casrewind, root, 4, live=0, first=2)
    fill(disk, leave * KiB)
    before = room(disk)
    result = casrewind("gc", "--max-count", "1", "--max-age", "1s")
    assert result.code in (0, 13), result
    assert room(disk) - before > 200_000, result
    if result.code:
        assert re.search(r"deleted 11 checkpoints and freed [23]\d\d,\d\d\d bytes", result.err), result
    whole(casrewind, root, settings)


@pytest.mark.parametrize("disk", ["tmpfs", "ext4"], indirect=True)
def test_gc_says_how_many_bytes_it_needs_and_needs_no_more(disk, casrewind, root, home, settings):
    """Each pack needs more room than there is, with the ballast."""
    turns(casrewind, root, 1, live=1_400_000, dead=300_000)
    turns(casrewind, root, 1, live=0, dead=100, first=1)
    newest = casrewind.json("list", "--all")["checkpoints"][0]["id"]
    fill(disk, 0)
    failed = casrewind("gc", "--max-count", "1", "--max-age", "1s", code=13)
    assert failed.err.count("\n") == 1
    [needed] = re.findall(r"needs ([\d,]+) bytes of free space", failed.err)
    needed = int(needed.replace(",", ""))
    assert 1_400_000 <= needed <= 2_000_000
    assert (store_of(home) / "ballast").exists()
    whole(casrewind, root, settings, [newest])
    again = casrewind("gc", "--max-count", "1", "--max-age", "1s", code=13)
    assert "deleted 0 checkpoints and freed 0 bytes" in again.err and f"needs {needed:,} bytes" in again.err
    unfill(disk, needed - room(disk))
    before = room(disk)
    casrewind("gc", "--max-count", "1", "--max-age", "1s", code=0)
    assert room(disk) - before > 250_000
    whole(casrewind, root, settings, [newest])


def test_a_store_without_ballast(disk, casrewind, root, home, settings):
    """As earlier versions made it. gc says what it needs for its first step, then it works and makes the file."""
    turns(casrewind, root, 9)
    os.unlink(store_of(home) / "ballast")
    fill(disk, 0)
    result = casrewind("gc", "--max-count", "2", "--max-age", "1s")
    assert result.code in (0, 13), result
    if result.code:
        [needed] = re.findall(r"needs ([\d,]+) bytes of free space", result.err)
        unfill(disk, int(needed.replace(",", "")))
        before = room(disk)
        casrewind("gc", "--max-count", "2", "--max-age", "1s", code=0)
        assert room(disk) > before
    whole(casrewind, root, settings)
    os.unlink(disk / "filler")
    plant(root, {"more": b"x"})
    casrewind("save", code=0)
    assert (store_of(home) / "ballast").stat().st_size == BALLAST


def test_an_index_that_is_gone_is_made_in_the_room_of_the_ballast(disk, casrewind, root, home, settings):
    turns(casrewind, root, 9)
    shutil.rmtree(store_of(home) / "index")
    fill(disk, 0)
    found = casrewind.json("gc", "--max-count", "2", "--max-age", "1s")
    assert found["bytes_before"] - found["bytes_after"] > 600_000
    whole(casrewind, root, settings)


def test_gc_without_inodes(disk, casrewind, root, home, settings):
    turns(casrewind, root, 5)
    casrewind("gc", code=0)  # its lock is a file
    made = []
    for number in range(300):
        try:
            (disk / f"n{number}").touch()
        except OSError:
            break
        made.append(disk / f"n{number}")
    assert len(made) < 300
    before = room(disk)
    casrewind("gc", "--max-count", "2", "--max-age", "1s", code=0)
    assert room(disk) - before > 200_000
    for path in made:
        path.unlink()
    whole(casrewind, root, settings)


def test_a_small_budget_has_no_ballast_and_a_full_disk_gets_none(disk, casrewind, root, home, settings):
    plant(root, {"f": b"1"})
    casrewind("save", code=0, CASREWIND_MAX_SIZE="20MiB")
    assert not (store_of(home) / "ballast").exists()
    fill(disk, 3 * MiB)
    plant(root, {"f": b"2"})
    casrewind("save", code=0)
    assert not (store_of(home) / "ballast").exists()
    os.unlink(disk / "filler")
    plant(root, {"f": b"3"})
    casrewind("save", code=0)
    assert (store_of(home) / "ballast").exists()


WORD = secret("full disk")


@pytest.mark.parametrize(("disk", "leave"), STEPS, indirect=["disk"])
def test_every_command_on_a_full_disk(disk, casrewind, root, home, settings, leave):
    """Each command does its work or says in one line that space is missing. Afterwards nothing is lost."""
    client = turns(casrewind, root, 4)
    plant(root, {"secret": WORD.encode()})
    casrewind("save", "-m", WORD, code=0)
    shutil.rmtree(root / "secret", ignore_errors=True)
    os.unlink(root / "secret")
    casrewind("save", code=0)
    acknowledged = [point["id"] for point in casrewind.json("list", "--all")["checkpoints"]]
    target, then = acknowledged[0], picture(root)
    plant(root, {"changes": b"by hand", "new": random.Random(9).randbytes(30_000)})
    now = picture(root)
    fill(disk, leave * KiB)
    codes = {}

    def tried(*words, ok=(0, 13)):
        result = casrewind(*words)
        codes[words[0]] = result.code
        assert result.code in ok, (words, result)
        complaints = [line for line in result.err.splitlines() if not line.startswith(("casrewind: note: ", "casrewind: hook"))]
        assert len(complaints) == (result.code != 0), (words, result)
        assert result.code == 0 or "space" in complaints[0], (words, result)
        return result

    saved = tried("save", "--json")
    if saved.code == 0:
        acknowledged.append(saved.json["checkpoint"])
    assert picture(root) == now
    client.send(client.payload("UserPromptSubmit.prompt", session_id="s", prompt="while it is full"))
    tried("restore", target, "--yes")
    if casrewind.json("status")["journal"] is None:
        assert picture(root) in (now, then)
    tried("purge", "secret", "--yes")
    tried("gc")
    for words in (["list", "--all"], ["status"]):
        casrewind(*words, code=0)
    casrewind("verify", code=0)
    print(f"{leave} KiB free: {codes}")
    os.unlink(disk / "filler")
    if casrewind.json("status")["journal"] is not None:
        casrewind("restore", "--continue", code=0)
        assert picture(root) == then
    elif codes["restore"]:
        assert picture(root) == now
    tried("gc", ok=(0,))
    whole(casrewind, root, settings, acknowledged)
    casrewind("restore", target, "--yes", code=0)
    assert differences(picture(root), then) == {}
    plant(root, {"changes": b"again"})
    casrewind("save", code=0)
    whole(casrewind, root, settings, acknowledged)
