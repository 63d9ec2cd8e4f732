"""Command lines are read by the table of commands, as argparse reads them where it can: its parser is made from the same command_table."""

import itertools
import random
import subprocess
import sys

import pytest

from casrewind import errors
from casrewind.cli.grammar import argparse_form, command_line, command_table
from casrewind.cli.grammar.command_line import CommandLine
from casrewind.cli.grammar.command_table import COMMANDS
from support.scanner import settle
from support.trees import plant

WORDS = [
    "save", "restore", "list", "-q", "--quiet", "--force", "-C", "--store", ".", "..", "-m", "a message", "", "--pin", "--rehash",
    "--json", "-y", "--yes", "--dry-run", "--skip-damaged", "last", "-1", "1", "--both", "--to", "-mx", "--stor", "-C.", "-h",
]  # fmt: skip


def of_ours(argv):
    """The options as the table has them; None when it refuses."""
    try:
        found = vars(CommandLine(argv).parse_line())
    except errors.UsageError:
        return None
    return {name: value for name, value in found.items() if name not in ("rest", "dashed")}


@pytest.fixture(autouse=True)
def no_talk(capsys):
    yield
    capsys.readouterr()


VALUES = ["", "x", "1", "007", "1" * 30, "-", "-1", "٣", "30d", "claude", "user", "bash", "path", "minimal", "last:f", "a b", "-a b", "auto"]
WHOLE = {"run", "bisect", "help", "version"}
"""Commands that treat words in a way of their own."""


def test_every_line_that_argparse_understands_is_read_as_it_does():
    chance = random.Random(7)
    lines = [list(pair) for pair in itertools.product(["save", "restore", "list"], WORDS)]
    lines += [chance.choices(WORDS, k=chance.randint(1, 5)) for _ in range(150)]
    for name, command in COMMANDS.items():
        if name in WHOLE:
            continue
        names = [name for option in (*command_table.GLOBAL, *command.options) for name in option.names if name.startswith("-")]
        lines += [[name], *([name, word] for word in (*names, *VALUES))]
        lines += [[name, *chance.choices([*names, *VALUES], k=chance.randint(2, 4))] for _ in range(60)]
        lines += [[*chance.choices(["-q", "--force", "-C", "--store", "x"], k=2), name, *chance.choices(VALUES, k=2)] for _ in range(5)]
    understood = set()
    parser_of_all, read = argparse_form.build_parser(), 0
    for argv in lines:
        try:
            theirs = vars(parser_of_all.parse_args(argv))
        except SystemExit:
            continue
        ours = of_ours(argv)
        assert ours == {"json": False, **theirs}, argv
        understood.add(ours["command"])
        read += 1
    assert understood >= set(COMMANDS) - WHOLE and read > 300


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("save -q", {"command": "save", "quiet": True}), ("--json list", {"json": True}), ("list --json -C x", {"json": True, "directory": "x"}),
        ("-C a list -C b", {"directory": "b"}), ("list --color=never", {"color": "never"}), ("ls -n3", {"command": "list", "number": 3}),
        ("diff last -p src", {"words": ["last", "src"], "form": "patch"}), ("restore -yn last", {"yes": True, "dry_run": True}),
        ("restore last -- a -b", {"rest": ["a", "-b"], "dashed": True}), ("restore last src -n", {"ref": "last", "paths": ["src"]}),
        ("save --message=x", {"message": "x"}), ("run make -n -- x", {"words": ["make", "-n"], "rest": ["x"], "dashed": True}),
        ("run -m l make -m x", {"message": "l", "words": ["make", "-m", "x"]}), ("undo -n", {"dry_run": True}),
        ("restore --help", {"command": "help", "topic": "restore"}),
        ("-h", {"command": "help", "topic": None}), ("-V", {"command": "version"}), ("--version", {"command": "version"}),
        ("help diff", {"command": "help", "topic": "diff"}), ("back --code 2", {"what": "code", "prompt": 2}), ("back", {"what": "both"}),
        ("stores --force", {"force": True}), ("show", {"ref": None}), ("", {"command": None}),
    ],
)  # fmt: skip
def test_options_are_taken_before_and_after_the_command_and_between_words(line, expected):
    found = vars(CommandLine(line.split()).parse_line())
    assert {name: found[name] for name in expected} == expected


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("sav", ["'sav'", "did you mean save?"]), ("snapshot", ["did you mean save?"]), ("xyzzy", ["'xyzzy'", "--help"]),
        ("list --jsn", ["--jsn", "did you mean --json?"]), ("list -x", ["-x", "casrewind list --help"]), ("-p diff", ["casrewind diff -p"]),
        ("--nonsense", ["--nonsense"]), ("list 3", ["'3'", "-n 3", "show @3"]), ("list -3", ["'-3'", "-n 3"]), ("list -n 0", ["-n", "1 or more"]),
        ("list -n", ["-n needs a value"]), ("save a b", ["'b'", "quotes"]), ("pin last it works", ["'works'", "quotes"]), ("unpin", ["missing REF"]),
        ("cat --json x:y", ["cat has no --json"]), ("--json", ["--json needs a command"]), ("save -- x", ["after --"]), ("-- x", ["no command"]),
        ("diff -p --stat", ["-p and --stat exclude each other"]), ("list --json=1", ["--json takes no value"]), ("save --mesage x", ["--message"]),
        ("du --by size", ["'size'", "session"]), ("restore a --to", ["--to needs a value"]), ("install claude --tier maximal", ["minimal"]),
        ("restore last -yx", ["-x"]), ("save -m --pin", ["-m needs a value"]),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said_in_one_line_with_what_may_have_been_meant(line, words):
    with pytest.raises(errors.UsageError) as caught:
        CommandLine(line.split()).parse_line()
    said = str(caught.value)
    assert all(word in said for word in words), said
    assert "\n" not in said and len(said) < 160


def test_no_line_is_read_with_argparse():
    code = "import sys; from casrewind.cli.grammar.command_line import CommandLine; CommandLine(['save']).parse_line(); print('argparse' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "False\n"


NEVER = {"argparse", "asyncio", "base64", "bz2", "ctypes", "datetime", "difflib", "gettext", "hashlib", "json", "locale", "logging"}
NEVER |= {"lzma", "multiprocessing", "pathlib", "pathspec", "pyfastcdc", "random", "rich", "secrets", "shlex", "shutil", "socket"}
NEVER |= {"enum", "platform", "re", "typing", "subprocess", "tempfile", "textual", "threading", "tomllib", "traceback", "urllib"}
"""Modules that a save in which nothing changed has no use for."""
SAVE = """
casrewind casrewind.__main__ casrewind.errors casrewind.fsio casrewind.locations casrewind.locks casrewind.messages casrewind.config casrewind.settings
casrewind._typing casrewind.fastjson
casrewind.cli casrewind.cli.main casrewind.cli.grammar casrewind.cli.grammar.command_line casrewind.cli.grammar.command_table casrewind.environment
casrewind.cli.show casrewind.cli.show.text casrewind.cli.terminal casrewind.cli.terminal.lines
casrewind.cli.commands casrewind.cli.commands.save_run_pin_cat
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


RESTORE = "capture_before_restore checkpoint_names context execute lookup preflight restorable restore save"
"""Our modules in ops that a restore needs."""
MOST_OF_A_RESTORE = 72
"""Our modules that a restore imports, those of packages not counted; `manifest_edits` and the optional C module are the newest."""


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


def test_every_option_of_the_table_has_its_type_and_no_other_has_one():
    """A misspelt option of a command does not pass the type checker: only the attributes that are declared are there."""
    rows = [*command_table.COMMANDS.values(), command_table.PICKER]
    named = {option.attribute for row in rows for option in (*command_table.GLOBAL, *row.options)}
    by_reader, by_main = {"command", "rest", "dashed", "topic"}, {"relay", "budget", "configured_tier", "configured_keep_edits"}
    assert set(command_line.ParsedOptions.__annotations__) == named | by_reader | by_main
