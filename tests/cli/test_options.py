"""Usual command lines are read without argparse exactly as argparse reads them: both are made from one table."""

import itertools
import random
import subprocess
import sys

import pytest

from casrewind import errors
from casrewind.cli import options, parser
from support.scanner import settle
from support.trees import plant

WORDS = [
    "save", "restore", "list", "-q", "--quiet", "--force", "-C", "--store", ".", "..", "-m", "a message", "", "--pin", "--rehash",
    "--json", "-y", "--yes", "--dry-run", "--skip-damaged", "last", "-1", "1", "--both", "--to", "-mx", "--stor", "-C.", "-h",
]  # fmt: skip


def of_the_grammar(argv):
    """The options as the grammar has them; None when it refuses."""
    try:
        return vars(parser.parse(argv))
    except (SystemExit, errors.UsageError):
        return None


@pytest.fixture(autouse=True)
def no_talk(capsys):
    yield
    capsys.readouterr()


@pytest.mark.parametrize(
    "argv",
    [
        ["save"], ["-q", "save"], ["-C", "x", "save", "--json"], ["--store", "s", "--force", "save", "-m", "one two", "--pin"],
        ["save", "--rehash", "--force"], ["save", "-m", ""], ["restore", "last"], ["restore", "--yes", "last"],
        ["restore", "3", "-y", "--json", "--dry-run", "--skip-damaged"], ["restore"], ["-C", "a", "-C", "b", "restore", ""],
        ["list"], ["list", "-n", "12", "--json"], ["-q", "list", "--all", "--session", "s", "-n", "1"],
    ],
)  # fmt: skip
def test_a_plain_line_is_understood_without_the_grammar_and_as_by_it(argv):
    found = options.read_plain(argv)
    assert found is not None and vars(found) == of_the_grammar(argv)


VALUES = ["", "x", "1", "007", "1" * 30, "-", "-1", "٣", "30d", "claude", "user", "bash", "path", "minimal", "last:f", "--"]


def test_every_line_is_read_as_by_argparse():
    chance = random.Random(7)
    lines = [list(pair) for pair in itertools.product(["save", "restore", "list"], WORDS)]
    lines += [chance.choices(WORDS, k=chance.randint(1, 5)) for _ in range(150)]
    for name, command in options.COMMANDS.items():
        names = [name for option in (*options.GLOBAL, *command.options) for name in option.names if name.startswith("-")]
        lines += [[name], *([name, word] for word in (*names, *VALUES))]
        lines += [[name, *chance.choices([*names, *VALUES], k=chance.randint(2, 4))] for _ in range(60)]
        lines += [[*chance.choices(["-q", "--force", "-C", "--store", "x"], k=2), name, *chance.choices(VALUES, k=2)] for _ in range(5)]
    plainly = set()
    for argv in lines:
        found = options.read_plain(argv)
        assert found is None or vars(found) == of_the_grammar(argv), argv
        plainly |= set() if found is None else {found.command}
    assert plainly == set(options.COMMANDS)


@pytest.mark.parametrize("argv", [["save", "--what"], ["save", "x"], ["restore", "a", "b"], ["-m", "save"], ["list", "x"], ["list", "-n", "0"], []])
def test_what_is_wrong_or_unusual_goes_to_the_grammar(argv):
    assert options.read_plain(argv) is None


def test_the_plain_lines_import_no_argparse():
    code = "import sys; from casrewind.cli import options; options.read_plain(['save']); print('argparse' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "False\n"


NEVER = {"argparse", "asyncio", "base64", "bz2", "ctypes", "datetime", "difflib", "gettext", "hashlib", "json", "locale", "logging"}
NEVER |= {"lzma", "multiprocessing", "pathlib", "pathspec", "pyfastcdc", "random", "rich", "secrets", "shlex", "shutil", "socket"}
NEVER |= {"enum", "platform", "re", "typing", "subprocess", "tempfile", "textual", "threading", "tomllib", "traceback", "urllib"}
"""Modules that a save in which nothing changed has no use for."""
SAVE = """
casrewind casrewind.__main__ casrewind.errors casrewind.fsio casrewind.config casrewind.settings
casrewind.workspace casrewind._typing casrewind.fastjson
casrewind.cli casrewind.cli.main casrewind.cli.options casrewind.cli.environment
casrewind.cli.output casrewind.cli.commands casrewind.cli.commands.checkpoints
"""
"""Our modules outside of the rooms that do the work, in such a save."""


def imported(casrewind, root, *words):
    """The names of all modules that a command imports."""
    python = [sys.executable, "-X", "importtime", "-m", "casrewind"]
    done = subprocess.run([*python, *words], env=casrewind.environment, cwd=root, capture_output=True, text=True, timeout=60, check=True)
    return {line.rpartition("|")[2].strip() for line in done.stderr.splitlines() if line.startswith("import time:")}


def ours_among(found):
    """(our modules outside of those that do the work, those that do it)."""
    ours = {name for name in found if name.partition(".")[0] == "casrewind"}
    working = {name for name in ours if name.split(".")[1:2] and name.split(".")[1] in ("gitignore", "model", "ops", "store", "worktree")}
    return ours - working, working


def test_a_save_of_what_is_saved_imports_nothing_that_only_others_need(casrewind, root):
    plant(root, {"f": b"1", "d/g": b"2", ".gitignore": b"*.o\n"})
    casrewind("save", code=0)
    settle()
    casrewind("save", code=0)
    found = imported(casrewind, root, "save")
    assert {"blake3", "lmdb", "casrewind.store.packs", "casrewind.ops.save"} <= found
    assert found & NEVER == set()
    others, rooms = ours_among(found)
    assert others <= set(SAVE.split())
    verbs = {name for name in rooms if name.startswith("casrewind.ops.")}
    assert verbs == {f"casrewind.ops.{name}" for name in ("save", "context")}


RESTORE = "capture context execute preflight prefetch references restorable restore save"
"""Our modules in ops that a restore needs."""
MOST_OF_A_RESTORE = 56
"""Our modules that a restore imports, those of packages not counted."""


def test_a_restore_imports_nothing_that_only_others_need(casrewind, root):
    """But ctypes, which renames, exchanges and syncs."""
    plant(root, {"f": b"1", "d/g": b"2", ".gitignore": b"*.o\n"})
    casrewind("save", code=0)
    plant(root, {"f": b"3", "d/g": b"4"})
    found = imported(casrewind, root, "restore", "last", "--yes")
    assert (root / "f").read_bytes() == b"1"
    assert found & (NEVER - {"ctypes"}) == set()
    others, working = ours_among(found)
    assert {name for name in working if name.startswith("casrewind.ops.")} == {f"casrewind.ops.{name}" for name in RESTORE.split()}
    packages = {name.rpartition(".")[0] for name in found}
    assert len((others | working) - packages) <= MOST_OF_A_RESTORE
