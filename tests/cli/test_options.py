"""Command lines are read by the table of commands, as argparse reads them where it can: its parser is made from the same table."""

import itertools
import random
import re
from pathlib import Path

import pytest

from casrewind import errors
from casrewind.cli import commands
from casrewind.cli.grammar import argparse_form, command_line
from casrewind.cli.grammar.command_line import CommandLine
from casrewind.cli.grammar.command_table import COMMANDS, PICK, load_command, load_function
from casrewind.cli.grammar.options import GLOBAL

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
    for name in COMMANDS:
        if name in WHOLE:
            continue
        names = [name for option in (*GLOBAL, *load_command(name).options) for name in option.names if name.startswith("-")]
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
        ("sav", ["'sav'", "did you mean save?"]), ("snapshot", ["did you mean save?"]), ("xyzzy", ["'xyzzy'", "casrewind help --all lists"]),
        ("list --jsn", ["--jsn", "did you mean --json?"]), ("list -x", ["-x", "casrewind list --help"]), ("-p diff", ["casrewind diff -p"]),
        ("--nonsense", ["--nonsense"]), ("list 3", ["'3'", "-n 3", "show @3"]), ("list -3", ["'-3'", "-n 3"]), ("list -n 0", ["-n", "1 or more"]),
        ("list -n", ["-n needs a value"]), ("save a b", ["'b'", "quotes"]), ("pin last it works", ["'works'", "quotes"]), ("unpin", ["missing REF"]),
        ("cat --json x:y", ["cat has no --json"]), ("--json", ["--json needs a command"]), ("save -- x y", ["'y'", "quotes"]), ("-- x", ["no command"]),
        ("list -- -n", ["'-n'"]), ("unpin --", ["missing REF"]), ("cat -- a:b c:d", ["'c:d'"]),
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


@pytest.mark.parametrize("word", sorted(command_line._ELSEWHERE))
def test_another_tool_s_name_of_a_command_gets_its_name_here(casrewind, word):
    meant = re.search(r"did you mean (\S+)\?", casrewind(word, "b", code=64).err)[1]
    assert meant in COMMANDS and word not in COMMANDS


@pytest.mark.parametrize(
    ("word", "line"),
    [
        ("init", "casrewind install"), ("init", "casrewind save"), ("tag", "casrewind pin last release-2"),
        ("stash", "casrewind save"), ("stash", "casrewind restore last"), ("annotate", "casrewind blame a.py"),
        ("branch", "casrewind restore @1 --to ../b"), ("worktree", "casrewind restore @1 --to ../b"),
    ],
)  # fmt: skip
def test_another_tool_s_word_gets_the_command_that_does_this_here(casrewind, word, line):
    """`line` is a command that the hint names, with words in place of its REF, LABEL, DIR and PATH. It is read."""
    said = casrewind(word, "b", code=64).err
    assert said == casrewind("help", word, code=64).err and len(said) < 160 and said.count("\n") == 1
    names = {"@1": "REF", "last": "(?:REF|last)", "release-2": "LABEL", "../b": "DIR", "a.py": "PATH", "b": "PATH"}
    assert re.search(" ".join(names.get(part, re.escape(part)) for part in line.split()), said), said
    assert CommandLine(line.split()[1:]).parse_line().command == line.split()[1]


def test_each_command_has_a_file_with_its_name():
    """But for three: the command without a name, an action of remote that is as long as a command, and what several commands share."""
    files = {path.stem for path in Path(commands.__path__[0]).glob("*.py")} - {"__init__"}
    assert files == {name.replace("-", "_") for name in COMMANDS if name != "import"} | {"import_", "pick", "remote_gc", "words"}
    assert all(load_command(name) and callable(load_function(name)) for name in (*COMMANDS, PICK))


def test_every_option_of_the_table_has_its_type_and_no_other_has_one():
    """A misspelt option of a command does not pass the type checker: only the attributes that are declared are there."""
    options = [option for name in (*COMMANDS, PICK) for option in load_command(name).options]
    named = {option.attribute for option in (*GLOBAL, *options)}
    by_reader, by_main = {"command", "rest", "dashed", "topic"}, {"relay", "budget", "configured_tier", "configured_keep_edits"}
    assert set(command_line.ParsedOptions.__annotations__) == named | by_reader | by_main


@pytest.mark.parametrize("command", ["why", "include", "exclude", "purge", "cat", "show", "pin"])
def test_what_stands_behind_dashes_is_a_word_whatever_it_looks_like(command):
    found = CommandLine([command, "--", "-n"]).parse_line()
    word = next(option for option in load_command(command).options if option.is_word)
    assert vars(found)[word.attribute] in ("-n", ["-n"]) and found.rest == []
