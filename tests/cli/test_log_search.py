"""log -S and log -G: the rows that add or remove a text, beside what git finds in the same history."""

import json
import os
import random
import re
import subprocess
import sys
from pathlib import Path

import pytest

import casrewind as package
from casrewind.history.search import LARGEST
from casrewind.workspace import open as opened
from support.agent_turns import AgentTurns
from support.output_schema import schema_faults
from support.packfile import digest, flip_blob
from support.trees import Link, plant

EDITS = 80
WORDS = ["wool", "linen", "till", "total", "café", "wooool", "x"]


class Git:
    """A git repository beside the project, of the same files."""

    def __init__(self, root, place):
        self._environment = {
            **os.environ, "GIT_DIR": str(place), "GIT_WORK_TREE": str(root), "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1",
            **{f"GIT_{who}_{what}": "a@b" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")},
        }  # fmt: skip
        self._root = root
        self("init", "-q")

    def __call__(self, *words):
        return subprocess.run(["git", *words], cwd=self._root, env=self._environment, check=True, capture_output=True, timeout=60).stdout.decode()

    def found(self, *words):
        """[(message of a commit, the paths that it finds)], newest first."""
        out = self("-c", "core.quotePath=false", "log", "--format=%x00%s", "--name-only", "--text", *words)
        return [(message, paths.split()) for message, _, paths in (part.partition("\n") for part in out.split("\0")[1:])]


def edit(root, choose):
    """One random edit: a new file, other lines, a move, a removal, a mode, bytes that are no text, a link."""
    files = sorted(path for path in root.rglob("*") if path.is_file() and not path.is_symlink())
    text = "".join(" ".join(choose.choices(WORDS, k=choose.randint(0, 4))) + "\n" for _ in range(choose.randint(1, 12)))
    kind = choose.choice(["new", "lines", "lines", "lines", "end", "move", "gone", "mode", "bytes", "link"])
    if kind == "new" or len(files) < 5:
        plant(root, {f"d{choose.randint(0, 3)}/f{choose.randint(0, 99)}": text.encode()})
        return
    path = choose.choice(files)
    if kind == "lines":
        lines = path.read_bytes().splitlines(keepends=True)
        for _ in range(choose.randint(1, 3)):
            at = choose.randint(0, len(lines))
            lines[at : at + choose.randint(0, 2)] = choose.choice([[], [f"{choose.choice(WORDS)} {choose.choice(WORDS)}\n".encode()]])
        path.write_bytes(b"".join(lines))
    elif kind == "end":
        path.write_bytes(path.read_bytes() + choose.choice(WORDS).encode())
    elif kind == "move":
        path.rename(path.with_name(f"moved{choose.randint(0, 10**6)}"))
    elif kind == "gone":
        path.unlink()
    elif kind == "mode":
        path.chmod(choose.choice([0o600, 0o755]))
    elif kind == "bytes":
        path.write_bytes(b"\0" + text.encode())
    else:
        plant(root, {f"l{choose.randint(0, 10**6)}": Link(f"{choose.choice(WORDS)}{choose.randint(0, 10**6)}")})


@pytest.mark.turns(3)
def test_git_finds_the_same_commits_and_the_same_paths(root, settings, casrewind, tmp_path):
    git, choose = Git(root, tmp_path / "git"), random.Random(7)
    with opened(root, settings) as workspace:
        for number in range(EDITS):
            edit(root, choose)
            workspace.save(f"edit {number}")
            git("add", "-A")
            git("commit", "-q", "--allow-empty", "-m", f"edit {number}")
    count = 0
    for option, asked in [("-S", "wool"), ("-S", "total"), ("-S", "café"), ("-S", "l\n"), ("-S", "nowhere"), ("-G", "wo+l$"), ("-G", "^till|caf.$")]:
        expected = git.found(f"{option}{asked}")
        rows = casrewind.json("log", option, asked, ".")["changes"]
        assert [(row["checkpoint"]["label"], [change["path"] for change in row["change"]]) for row in rows] == expected, asked
        count += len(expected)
    assert count > EDITS
    with opened(root, settings) as workspace:
        found = workspace.search(b"wool")
        assert [(row.checkpoint.label, [os.fsdecode(change.path) for change in found.compare(row).changes]) for row in found.changes] == git.found("-Swool")


@pytest.fixture
def turns(root, settings, casrewind):
    """A turn adds a function, a person edits another line, a turn removes the function."""
    plant(root, {"till.py": b"1\n", "notes": b"n\n"})
    with opened(root, settings) as workspace:
        agent = AgentTurns(workspace, root)
        agent.tell("SessionStart", source="startup")
        agent.prompt("a", "make a total")
        plant(root, {"till.py": b"1\ndef total():\n", "notes": b"n\nm\n"})
        agent.stop("a")
        plant(root, {"till.py": b"2\ndef total():\n"})
        agent.prompt("b", "clean up")
        plant(root, {"till.py": b"2\n", "notes": b"n\n"})
        agent.stop("b")
    return casrewind


def test_the_turns_that_added_and_removed_a_line(turns):
    found = turns("log", "-S", "def total", code=0)
    heads = [line for line in found.out.splitlines() if not line.startswith("      ")]
    assert [line.split()[0] for line in heads] == ["@1", "@2"]
    assert found.out.count("till.py") == 2 and "notes" not in found.out and found.err == ""
    assert turns("log", "-G", "^2$", code=0).out.splitlines()[0].strip().startswith("edited outside of a turn")
    assert [[change["path"] for change in row["change"]] for row in turns.json("log", "-S", "def total")["rows"]] == [["till.py"], ["till.py"]]
    assert turns("log", "-S", "def total", "-n", "1", code=0).out.count("till.py") == 1
    patch = turns("log", "-S", "def total", "-p", code=0).out
    assert patch.count("def total():\n") == 2 and "notes" not in patch


def test_a_path_limits_it_and_there_may_be_several(turns):
    assert turns("log", "-S", "def total", "till.py", code=0).out.splitlines()[0] == "till.py: 2 changes"
    several = turns("log", "-S", "def total", "--", "notes", "till.py", code=0)
    assert several.out.splitlines()[0] == "till.py: 2 changes" and "notes" not in several.out
    assert turns("log", "-S", "def total", "notes", code=0).out == ""
    turns("log", "-S", "def total", "no such path", code=15)
    turns("log", "notes", "till.py", code=64)


def test_what_is_nowhere_is_no_row_and_a_line_on_standard_error(turns):
    for words in (("-S", "nowhere"), ("-G", "now+here"), ("-S", "nowhere", "."), ("-S", "nowhere", "till.py")):
        found = turns("log", *words, code=0)
        assert found.out == "" and found.err.startswith("casrewind: no change ") and found.err.rstrip().endswith(f'"{words[1]}"')
        assert turns.json("log", *words)["damaged"] == []
    assert turns.json("log", "-S", "nowhere")["rows"] == [] and turns.json("log", "-S", "nowhere", ".")["changes"] == []


@pytest.mark.parametrize("words", [("-S", ""), ("-G", ""), ("-G", "("), ("-S", "a", "-G", "b"), ("-S",), ("-G", "(?P<a>x)(?P<a>y)"), ("-G", "a{2,1}")])
def test_what_cannot_be_searched_for_is_64(turns, words):
    found = turns("log", *words, code=64)
    assert found.out == "" and found.err.count("\n") == 1 and "Traceback" not in found.err


def test_what_is_not_searched_is_counted_and_what_is_binary_is_named(casrewind, root, settings):
    plant(root, {"a": b"x\0wool", "large": b"wool" + bytes(LARGEST), "key": b"wool in a key"})
    casrewind("save", code=0)
    plant(root, {"a": b"x\0", "large": b"wool wool" + bytes(LARGEST), "also": b"w" * (LARGEST + 1)})
    casrewind("save", code=0)
    found = casrewind("log", "-S", "wool", ".", code=0)
    assert found.out.count(" a (6 B -> 2 B) (binary)") == 1 and found.out.count("+ a (binary)") == 1 and "large" not in found.out
    assert found.err == "casrewind: 2 files over 4 MiB were not searched\n"
    assert casrewind("log", "-S", "wool", "a", code=0).out.count("(binary)") == 2
    casrewind("purge", "key", "--yes", code=0)
    told = casrewind.json("log", "-S", "wool", ".")
    assert {row["path"]: row["reason"] for row in told["not_searched"]} == {"also": "too_large", "key": "purged", "large": "too_large"}
    assert told["binary"] == [{"path": "a"}]
    with opened(root, settings) as workspace:
        assert workspace.search(b"wool").not_searched == (b"also", b"key", b"large")
    assert "1 file whose bytes were purged was not searched" in casrewind("log", "-S", "wool", ".", code=0).err


def test_a_text_that_comes_or_goes_with_a_rule_is_not_called_added_or_removed(casrewind, root):
    plant(root, {"keep": b"1", "note.log": b"wool"})
    casrewind("save", code=0)
    plant(root, {".gitignore": b"*.log\n"})
    casrewind("save", code=0)
    (root / ".gitignore").unlink()
    plant(root, {"keep": b"2"})
    casrewind("save", code=0)
    found = casrewind("log", "-S", "wool", ".", code=0).out
    assert found.count("captured since: note.log") == 1 and found.count("no longer captured: note.log") == 1
    assert [len(row["change"]) for row in casrewind.json("log", "-S", "wool", ".")["changes"]] == [0, 0, 1]
    reasons = [row["reason"] for row in casrewind.json("log", "-S", "wool", "note.log")["changes"]]
    assert [(reason or "").partition(":")[0] for reason in reasons] == ["captured since", "no longer captured", ""]
    outside = casrewind("log", "-S", "wool", code=0).out
    assert "- note.log" not in outside and "+ note.log" not in outside


def test_damage_is_20_and_the_rest_is_found(casrewind, root, settings):
    for number in range(3):
        plant(root, {"f": b"wool" * number, "g": b"linen" * number})
        casrewind("save", code=0)
    with opened(root, settings) as workspace:
        flip_blob(workspace.store_path, digest(b"wool"))
    found = casrewind("log", "-S", "wool", "f", code=20)
    assert "damaged" in found.err and "Traceback" not in found.err
    assert casrewind("log", "-S", "linen", "g", code=0).out.startswith("g: 2 changes")


@pytest.mark.turns(3)
def test_a_pattern_that_takes_for_ever_ends_with_an_interrupt(casrewind, root):
    plant(root, {"f": b"a" * 64 + b"!\n"})
    casrewind("save", code=0)
    code = (
        "import os, signal, sys; signal.signal(signal.SIGVTALRM, lambda *_: os.kill(os.getpid(), signal.SIGINT)); "
        "signal.setitimer(signal.ITIMER_VIRTUAL, 2); from casrewind.__main__ import main; main()"
    )
    environment = {**casrewind.environment, "PYTHONPATH": str(Path(package.__file__).parent.parent)}
    line = [sys.executable, "-c", code, "-C", str(root), "log", "-G", "(a+)+$", "."]
    done = subprocess.run(line, env=environment, capture_output=True, timeout=120, check=False)
    assert done.returncode == 130 and done.stdout == b"" and b"Traceback" not in done.stderr


def test_the_json_is_that_of_the_schema(turns):
    for words in (("-S", "def total"), ("-S", "def total", "."), ("-G", "total", "till.py"), ("-S", "def total", "till.py", "notes")):
        told = json.loads(turns("log", "--json", *words, code=0).out)
        assert schema_faults(told, "log") == [], words


def test_odd_texts_do_not_command_the_terminal(turns):
    found = turns("log", "-S", "\x1b[31mno", code=0)
    assert "\x1b" not in found.err and re.search(r"\\x1b\[31mno", found.err)
