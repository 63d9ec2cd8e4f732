"""What hooks and the commands of every day import: next to nothing where there is no work, else nothing that only others need.

The danger prevented here: a start that takes longer with each change. Every module costs each hook of every agent from 0.1 ms (one
of ours) to 14 ms (pyfastcdc). This is the one place that says what is not imported.
"""

import json
import os
import subprocess
import sys
import time

import pytest

from casrewind import agents, launch
from support.fake_client import Client
from support.scanner import settle
from support.trees import plant

HEAVY = set(
    "argcomplete argparse asyncio base64 bz2 cryptography ctypes datetime difflib enum gettext hashlib http locale logging lzma"
    " multiprocessing obstore pathlib pathspec platform pyfastcdc random re rich secrets shlex shutil socket subprocess tempfile textual"
    " threading tomllib traceback typing urllib casrewind.remote casrewind.cli.picker casrewind.cli.complete casrewind.workspace".split()
)
"""Modules that these commands have no use for, ours or not."""
STORE = {"blake3", "lmdb", "zstandard", "casrewind.store", "casrewind.worktree", "casrewind.history", "casrewind.change", "casrewind.upkeep"}
"""Modules without which nothing can be saved, or even looked at."""
SETTINGS_OF_CLIENTS = {"base64", "bz2", "enum", "hashlib", "lzma", "pathlib", "random", "re", "secrets", "shlex", "shutil", "typing", "urllib"}
"""What `status` imports to read the settings of clients."""
BUSY = 20
"""How often a hook may leave its work to a child, which it has to import more for, because the machine is so busy."""


@pytest.fixture
def client(casrewind, root):
    plant(root, {"f": b"1", "d/g": b"2", ".gitignore": b"*.o\nbuild/\n*.py[cod]\n!kept-?.pyc\n"})
    return Client(casrewind, root)


def run_and_see_imports(client, line, payload=b"", **variables):
    """(the names of all modules that a process imports, what it prints)."""
    python, *rest = line
    done = subprocess.run(
        [python, "-X", "importtime", *rest], input=payload, capture_output=True, cwd="/", timeout=60,
        env={**client.casrewind.environment, "CLAUDE_PROJECT_DIR": str(client.root), **variables},
    )  # fmt: skip
    lines = done.stderr.decode().splitlines()
    assert done.returncode == 0 and all(line.startswith("import time:") for line in lines), done.stderr
    found = {line.rpartition("|")[2].strip() for line in lines}
    assert "casrewind.errors" in found
    return found, done.stdout


def hook(client, payload, name="claude", **variables):
    found, printed = run_and_see_imports(client, [*launch.own_command(), "hook", name], payload, **variables)
    assert printed == b"" and "casrewind.hook.handler" in found and not any(module.startswith("casrewind.cli") for module in found)
    return found


@pytest.mark.parametrize("name", agents.NAMES)
def test_an_event_of_no_concern_does_not_come_near_the_store(client, name):
    found = hook(client, json.dumps({"hook_event_name": "NoSuchEvent", "session_id": "s", "cwd": str(client.root)}).encode(), name)
    assert found & (HEAVY | STORE) == set()
    others = {f"casrewind.agents.{other}" for other in agents.NAMES if other not in (name, "generic")}
    assert found & others == set(), "the code of other clients"
    assert not os.path.lexists(client.casrewind.environment["CASREWIND_HOME"])


def test_a_tool_that_the_tier_leaves_out_does_not_come_near_the_store(client):
    assert hook(client, client.payload("PreToolUse.Write"), CASREWIND_TIER="balanced") & (HEAVY | STORE) == set()
    assert not os.path.lexists(client.casrewind.environment["CASREWIND_HOME"])


def in_place(root, number):
    (root / "d" / "g").write_bytes(b"22%d" % number)


def by_renaming(root, number):
    (root / "d" / "g.new").write_bytes(b"22%d" % number)
    os.rename(root / "d" / "g.new", root / "d" / "g")


def with_a_new_file(root, number):
    in_place(root, number)
    (root / "d" / f"h{number}").write_bytes(b"3")


@pytest.mark.parametrize("name", ["UserPromptSubmit.prompt", "Stop.plain"])  # others have less time than a busy machine takes
@pytest.mark.parametrize("edit, dear", [(in_place, set()), (by_renaming, set()), (with_a_new_file, {"enum", "re"})])  # *.py[cod]
def test_a_hook_that_saves_imports_nothing_that_only_others_need(client, name, edit, dear):
    client.casrewind("save", code=0)
    client.send(client.payload("Stop.plain"))
    for number in range(BUSY):
        before = len(client.points())
        edit(client.root, number)
        found = hook(client, client.payload(name))
        if "subprocess" not in found:
            break
        while len(client.points()) == before:
            time.sleep(0.1)
    assert {"lmdb", "casrewind.store.packs"} <= found and found & HEAVY == dear
    assert any(point["agent"] == "claude" and point["changes"]["modified"] == 1 for point in client.points()[:-before])


@pytest.mark.parametrize(
    ("line", "says", "needed"),
    [
        ("save", "saved ", set()), ("list", "manual", set()), ("diff last", "d/g", set()), ("status", "checkpoint", SETTINGS_OF_CLIENTS),
        ("restore last --yes", "restored to ", {"ctypes"}),  # to rename, exchange and sync
    ],
)  # fmt: skip
def test_a_command_of_every_day_imports_nothing_that_only_others_need(client, line, says, needed):
    client.casrewind("save", "-m", "manual", code=0)
    settle()
    client.casrewind("save", code=0)
    in_place(client.root, 1)
    settle()
    found, printed = run_and_see_imports(client, [sys.executable, "-m", "casrewind", "-C", str(client.root), *line.split()])
    assert says in printed.decode() and {"lmdb", "casrewind.store", "casrewind.context"} <= found
    assert found & HEAVY <= needed
    place = "casrewind.cli.commands."
    assert {name for name in found if name.startswith(place)} <= {place + line.split()[0], place + "words"}


@pytest.mark.parametrize(("line", "says"), [("--version", b"casrewind "), ("--help", b"usage: "), ("help --all", b"Everyday:")])
def test_the_version_and_the_list_of_commands_import_no_command(client, line, says):
    found, printed = run_and_see_imports(client, [sys.executable, "-m", "casrewind", *line.split()])
    assert says in printed and not found & STORE and found & HEAVY <= {"enum", "re"}  # lines are wrapped
    place = "casrewind.cli.commands."
    assert {name for name in found if name.startswith(place)} <= {place + "help", place + "version"}


def test_the_version_of_the_package_costs_no_import(client):
    found, printed = run_and_see_imports(client, [sys.executable, "-c", "import casrewind.errors; print(casrewind.__version__)"])
    assert printed and {name for name in found if name.startswith("casrewind")} == {"casrewind", "casrewind.errors"}


def test_where_the_parts_lie_apart_the_usual_places_are_looked_at(casrewind, root, tmp_path):
    """The command's own script alone in a directory: what it needs is found as any program finds it."""
    plant(root, {"f": b"1"})
    python, *rest = launch.own_command()
    (tmp_path / "apart").mkdir()
    os.symlink(os.path.dirname(rest[-1]), tmp_path / "apart" / "casrewind")
    rest[-1] = str(tmp_path / "apart" / "casrewind" / "__main__.py")
    environment = {name: value for name, value in casrewind.environment.items() if not name.startswith("PYTHON")}
    done = subprocess.run([python, *rest, "-C", str(root), "save", "--json"], env=environment, capture_output=True, cwd="/", timeout=60)
    assert (done.returncode, done.stderr) == (0, b"")


def test_no_variable_and_no_module_of_the_project_decides_what_is_imported(client, tmp_path):
    bad = {name: b"raise SystemExit(2)" for name in ("json.py", "lmdb.py", "casrewind.py", "sitecustomize.py", "usercustomize.py")}
    plant(client.root, bad)
    client.casrewind("save", code=0)
    python, *rest = launch.own_command()
    done = subprocess.run(
        [python, *rest, "hook", "claude"], input=client.payload("Stop.plain"), capture_output=True, cwd=client.root, timeout=60,
        env={**client.casrewind.environment, "CLAUDE_PROJECT_DIR": str(client.root), "PYTHONPATH": str(client.root), "PYTHONHOME": "/nowhere"},
    )  # fmt: skip
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    assert client.points()[0]["trigger"] == "turn_end"
