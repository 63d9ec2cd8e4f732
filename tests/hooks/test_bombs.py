"""A bomb refuses the file, not the save: a checkpoint is made of everything else, by `save` and by a hook, and names the file."""

import os
import shutil
import subprocess
import sys

import pytest

from support.command import CONFIG_FILE
from support.command_in_process import InProcess
from support.fake_client import Client
from support.hostile_files import BOMBS, RULES, limited
from support.sample_start import by_turns
from support.trees import plant

FAR_ABOVE = 60
"""Seconds; what is under test takes less than one."""


@pytest.fixture
def client(casrewind, root, home):
    plant(root, {"kept.txt": b"1", "sub/kept.txt": b"1"})
    return Client(casrewind, root)


def hook(client, payload):
    done = subprocess.run(
        [*limited(), sys.executable, "-m", "casrewind", "hook", "claude"], input=client.payload(payload), capture_output=True,
        env={**client.casrewind.environment, "CLAUDE_PROJECT_DIR": str(client.root)}, cwd="/", timeout=FAR_ABOVE,
    )  # fmt: skip
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


@pytest.mark.parametrize("name", by_turns(list(BOMBS), 13))
def test_a_save_and_a_hook_make_their_checkpoints_and_name_the_file(client, casrewind, root, home, name):
    bomb = BOMBS[name]
    bomb.plant(root)
    saved = casrewind("save", "--json", code=3 if bomb.path and bomb.word != "special" else 0, prefix=limited(), timeout=FAR_ABOVE).json
    said = {skip["path"]: skip["reason"] for skip in reversed(saved["skipped"])}
    if bomb.path:
        reasons = [skip["reason"] for skip in saved["skipped"] if skip["path"] == bomb.path]
        assert any(bomb.word in reason for reason in reasons), said
    plant(root, {"kept.txt": b"changed since"})
    hook(client, "UserPromptSubmit.prompt")
    inside = InProcess(root, home)
    newest = inside.json("list")["checkpoints"][0]
    assert newest["trigger"] == "prompt" and newest["id"] != saved["checkpoint"]
    assert inside("cat", f"{newest['id']}:kept.txt", code=0).out == "changed since"
    if bomb.path:
        assert bomb.path in {skip["path"] for skip in inside.json("show", newest["id"])["skipped"]}
        assert bomb.path in {skip["path"] for skip in inside.json("status")["skipped"]}


@pytest.mark.parametrize("name", ["dotted key", "unknown key", "settings that are a fifo", "sparse exclude"])
def test_every_command_works_and_names_the_file(client, root, home, name):
    bomb = BOMBS[name]
    inside = InProcess(root, home)
    inside.json("save")
    bomb.plant(root)
    for command in (["list"], ["diff"], ["restore", "last", "--dry-run"], ["status"], ["gc"], ["undo", "--yes"], ["doctor"], ["log", "kept.txt"]):
        found = inside(*command)
        assert found.code not in (64, 70), found
        assert bomb.path in found.out + found.err and bomb.word in found.out + found.err, (command, found)
    assert "[note" not in inside("list", "--json", code=0).out
    inside("config", code=0)


def test_hooks_of_a_project_that_breaks_its_settings_go_on(client, root, home):
    """An agent that breaks the file in the middle of a turn does not end the protection of that turn."""
    inside = InProcess(root, home)
    inside.json("save")
    hook(client, "UserPromptSubmit.prompt")
    plant(root, {".casrewind.toml": b"what is this", "kept.txt": b"wrecked"})
    hook(client, "Stop.plain")
    assert [point["trigger"] for point in inside.json("list")["checkpoints"]] == ["turn_end", "prompt", "manual"]
    plant(root, {"kept.txt": b"wrecked again"})
    inside("restore", "prev", "-y", code=0)
    assert (root / "kept.txt").read_bytes() == b"1"


def test_rules_that_cannot_be_read_any_more_go_on(client, root, home):
    """Else the next checkpoint would hold what the project ignores, and a restore of it would delete that."""
    inside = InProcess(root, home)
    plant(root, {".casrewind.toml": b'ignore = ["secret", "*.big"]\n', "secret": b"s", "a.big": b"b"})
    inside.json("save")
    (root / ".casrewind.toml").write_bytes(b"ignore = [")
    for _ in range(2):  # each goes on from the one before
        plant(root, {"kept.txt": os.urandom(8)})
        saved = inside("save", "--json", code=3).json
        held = {entry["path"] for entry in inside.json("show", saved["checkpoint"])["entries"]}
        assert held == {".casrewind.toml", "kept.txt", "sub", "sub/kept.txt"}
    plant(root, {"secret": b"newer", "b.big": b"made since", "new": b"made since"})
    (root / ".casrewind.toml").unlink()  # now nothing is ignored
    inside("restore", saved["checkpoint"], "-y", code=0)
    assert {path.name for path in root.iterdir()} == {".casrewind.toml", "kept.txt", "sub", "secret", "a.big", "b.big", "new"}
    assert (root / "secret").read_bytes() == b"newer"


def test_rules_of_a_wrong_type_go_on_and_the_limit_beside_them_counts(client, root, home):
    inside = InProcess(root, home)
    plant(root, {".casrewind.toml": b'ignore = ["secret"]\n', "secret": b"s"})
    inside.json("save")
    (root / ".casrewind.toml").write_bytes(b'ignore = "secret"\n[capture]\nmax_file_size = "1MiB"\n')
    with open(root / "large", "wb") as file:
        file.truncate((1 << 20) + 1)
    saved = inside("save", "--json", code=3).json
    assert {"path": "large", "reason": "too large"} in saved["skipped"]
    assert "secret" not in {entry["path"] for entry in inside.json("show", "last")["entries"]}


def test_nothing_below_rules_that_are_too_long_is_deleted(client, root, home):
    inside = InProcess(root, home)
    RULES["sparse own rules"].plant(root)
    saved = inside("save", "--json", code=3).json
    (root / "sub/.casrewindignore").write_bytes(b"")
    plant(root, {"sub/new": b"made since", "new": b"made since"})
    inside("restore", saved["checkpoint"], "-y")
    assert (root / "sub/new").exists() and not (root / "new").exists()


@pytest.mark.parametrize("data", [b"a." * 100_000 + b"a=1\n", b"a." * 30_000 + b"a=1\n", b"[" + b"a." * 30_000 + b"a]\n"])
def test_the_users_own_file_is_no_bomb_either(casrewind, root, home, data):
    plant(home, {CONFIG_FILE: data})
    said = casrewind("save", code=64, prefix=limited(), timeout=FAR_ABOVE).err
    assert "config.toml: " in said and "make it shorter" in said


def test_the_bombs_are_planted(root):
    """A bomb that is not there shows nothing."""
    for name, bomb in BOMBS.items():
        place = root / name
        place.mkdir()
        bomb.plant(place)
        assert any(place.iterdir()), name
        shutil.rmtree(place)
