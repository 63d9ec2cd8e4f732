"""A file that was made a gigabyte long: zeros behind its end, without space on the disk. No command reads it whole.

The danger prevented here: a store that cannot be used or repaired, because a command needs more memory than there is.
"""

import glob
import json
import os
import sys
from pathlib import Path

import pytest

from casrewind.agents.claude import CLIENT as claude
from support.command import Command
from support.fake_client import Client
from support.picture import picture
from support.sample_start import by_turns
from support.trees import plant

GiB = 1 << 30
MOST = 400 << 20
"""Bytes of address space for each command."""
INSIDE = [
    "log", "journals/*", "index/stat-*", "FORMAT", "log.old", "log.seen", "gc", "purging", "ballast", "session.json", "sessions/*.json",
    "index/data.mdb", "index/written", "packs/*.pack", "locks/publish",
]  # fmt: skip
OUTSIDE = ["transcript", "settings", ".gitignore", ".casrewind.toml", "config", ".git/HEAD", ".git/config", ".git/packed-refs"]


@pytest.fixture
def command(root, home):
    """The command under a limit of memory; a store with turns, a log, and a restore that was interrupted long ago."""
    if not sys.platform.startswith("linux"):
        pytest.skip("a limit of address space is Linux's")
    made = Command(root, home)
    (root / ".git").mkdir()
    plant(root, {"a": b"1", "d/b": b"2", ".gitignore": b"*.o\n", ".git/HEAD": b"ref: refs/heads/main\n", ".git/config": b"[core]\n",
                 ".git/packed-refs": b"", ".casrewind.toml": b""})  # fmt: skip
    made("save", code=0)
    client = Client(made, root)
    session = json.loads(client.transcript.read_bytes().splitlines()[0])["sessionId"]
    for number, prompt in enumerate(claude.prompts(client.transcript.read_bytes())):
        plant(root, {"a": b"%d" % number})
        client.prompt(session, prompt)
        client.send(client.payload("Stop.plain", session_id=session))
    made("gc", code=0)
    return made


def bounded(command, *words, code=None):
    """Run it with little memory. It ends, and never says that memory was missing."""
    result = command(*words, code=code, address_space=MOST, timeout=100)
    assert "memory" not in result.err, result
    assert result.code in (0, 1, 3, 10, 11, 12, 14, 15, 16, 20, 64), result
    assert len([line for line in result.err.splitlines() if not line.startswith("casrewind: note")]) <= 12, result
    return result


def grow(path, size=GiB):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "ab") as file:
        file.truncate(size)


def find(command, name):
    store = command.json("status")["store"]
    for kind in ("log", "log.old"):
        with open(os.path.join(store, kind), "w") as file:
            file.write("2026-01-01T00:00:00Z hook claude Stop: a failure\n")
    if name == "journals/*":
        return os.path.join(store, "journals", os.path.basename(glob.glob(f"{store}/index/stat-*")[0]).partition("-")[2])
    return (glob.glob(os.path.join(store, name)) or [os.path.join(store, name)])[0]


@pytest.mark.parametrize("name", ["ledger", *by_turns(INSIDE, 1)])
def test_a_file_of_the_store_that_has_grown(command, root, name):
    before = [point["id"] for point in command.json("list", "--all")["checkpoints"]]
    here = picture(root)
    grow(find(command, name))
    told = [bounded(command, *words) for words in (("list",), ("status",), ("save",), ("verify",))]
    assert picture(root) == here
    if name == "ledger":
        assert {result.code for result in told} == {20}
        assert all("verify --repair" in result.err + result.out for result in told), told
    bounded(command, "purge", "--text", "-", "-y")
    repaired = bounded(command, "verify", "--repair", code=0)
    if name == "ledger":
        assert "the ledger was damaged" in repaired.out
    assert set(before) <= {point["id"] for point in command.json("list", "--all")["checkpoints"]}
    plant(root, {"a": b"later"})
    bounded(command, "save", code=0)
    bounded(command, "gc", code=0)
    bounded(command, "restore", before[-1], "--yes", code=0)
    bounded(command, "undo", "--yes", code=0)
    command("verify", code=0)


@pytest.mark.parametrize("name", by_turns(OUTSIDE, 1))
def test_a_file_outside_of_the_store_that_has_grown(command, root, home, name):
    places = {
        "transcript": glob.glob(f"{home}/.claude/projects/*/*.jsonl")[0], "settings": home / ".claude" / "settings.json",
        "config": home / ".config" / "casrewind" / "config.toml",
    }  # fmt: skip
    path = str(places.get(name, root / name))
    old = Path(path).read_bytes() if os.path.exists(path) else b""
    grow(path)
    for words in (("list",), ("status",), ("save",), ("back", "1", "-y"), ("doctor",), ("install", "claude", "-y"), ("verify",)):
        bounded(command, *words)
    Path(path).write_bytes(old)
    plant(root, {"a": b"later"})
    bounded(command, "save")
    command("verify", code=0)
