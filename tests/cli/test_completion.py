"""Completion in real shells, set up by the very lines of the questions page: what is offered at a TAB, and that nothing else pays for it."""

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from casrewind.cli.grammar.command_table import ADVANCED, COMMANDS
from casrewind.upkeep.save import Moment
from casrewind.upkeep.save import save as save_moment
from casrewind.workspace import open as opened
from support.picture import picture
from support.terminal import Session
from support.trees import plant

HERE = Path(__file__).resolve().parent.parent.parent
SHELLS = ("bash", "zsh", "fish")


def needs(shell):
    return pytest.mark.skipif(shutil.which(shell) is None, reason=f"{shell} is not installed")


def readme_line(shell):
    """What the page says a user of this shell types."""
    (line,) = re.findall(rf"^(?:echo|mkdir) .*completion {shell}\b.*$", (HERE / "docs" / "faq.md").read_text(), re.MULTILINE)
    return line


@pytest.fixture
def told(root, home, settings, process):
    """A project with checkpoints of every name; `environment` has a `casrewind` on its PATH."""
    plant(root, {"src/till.py": b"1", "src/lost.py": b"2", "notes.txt": b"n", "a b": b"s", "odd$(x)": b"o"})
    process("save", "-m", "first one", code=0)
    with opened(root, settings) as workspace:
        save_moment(workspace._context, Moment(trigger="prompt", prompt="longer\x1b[31m\n please", agent="claude", session="5e551035-aa"))
    (root / "src/lost.py").unlink()
    program = home / "bin" / "casrewind"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m casrewind "$@"\n')
    program.chmod(0o755)
    process.environment["PATH"] = f"{program.parent}:{os.environ['PATH']}"
    process.environment.setdefault("PYTHONPATH", str(HERE))
    return process


def offered(told, line, shell="bash"):
    """What the program answers to a shell's function."""
    answer = Path(told.home) / "answer"
    answer.write_text("")
    variables = {
        "_ARGCOMPLETE": "1", "_ARGCOMPLETE_SHELL": shell, "_ARGCOMPLETE_IFS": "\n", "COMP_LINE": line, "COMP_POINT": str(len(line)),
        "_ARGCOMPLETE_COMP_WORDBREAKS": " \t\n\"'><=;|&(:", "_ARGCOMPLETE_STDOUT_FILENAME": str(answer), "_ARGCOMPLETE_SUPPRESS_SPACE": "1",
    }  # fmt: skip
    done = subprocess.run(["casrewind"], env={**told.environment, **variables}, cwd=told.root, capture_output=True, timeout=60)
    assert done.stdout == b"" and b"Traceback" not in done.stderr, done
    return answer.read_text().splitlines()


def test_a_command_that_few_people_type_is_not_offered_and_its_options_are(told):
    shown = {name for name, row in COMMANDS.items() if row.group != ADVANCED}
    assert {"jump", "rewrite-chat", "statusline"} & shown == set()
    aliases = {alias for name in shown for alias in COMMANDS[name].aliases}
    assert set(offered(told, "casrewind ")) - {"-h", "--help"} == shown | aliases
    assert set(offered(told, "casrewind help ")) == shown
    assert "--dry-run" in offered(told, "casrewind jump --")
    plant(told.root, {"version": b"1"})
    assert offered(told, "casrewind diff last -- ver") == ["version"]
    assert offered(told, "casrewind why ver") == ["version"]


@pytest.mark.turns(3)
def test_the_program_offers_commands_options_checkpoints_and_paths(told):
    ids = [row["id"] for row in told.json("list")["checkpoints"]]
    assert offered(told, "casrewind un") == ["undo", "uninstall", "unpin"]
    assert offered(told, "casrewind restore --d") == ["--dry-run"]
    assert offered(told, "casrewind install claude --tier ") == ["minimal", "balanced", "aggressive"]
    assert offered(told, "casrewind restore ") == ["last", "prev", "@1", "first\\ one", *ids]
    assert offered(told, "casrewind restore 1") == ["1"] and offered(told, "casrewind show 2") == []
    assert offered(told, f"casrewind pin {ids[0][:6]}") == [ids[0]]
    assert offered(told, "casrewind restore last -- sr") == ["src/"]
    assert offered(told, "casrewind diff last -- notes.txt src/t") == ["src/till.py"]
    assert offered(told, "casrewind list --session 5") == ["5e551035-aa"]
    assert offered(told, "casrewind cat last:src/") == ["src/lost.py", "src/till.py"]  # bash has cut at the colon
    assert set(offered(told, "casrewind log ")) == {"src/", "notes.txt", "a\\ b", "odd\\$\\(x\\)"}
    assert set(offered(told, "casrewind log src/")) == {"src/lost.py", "src/till.py"}  # what was deleted, too
    assert offered(told, "casrewind -C src log t") == ["till.py"]
    assert offered(told, "casrewind save -m ") == []
    assert offered(told, "casrewind config set retention.max_a") == ["retention.max_age"]


def test_machines_are_offered_with_their_turns(told, settings, machines):
    sandbox = machines()
    sandbox.turn("a", "make the till", {"till.py": b"1"})
    sandbox.workspace.save("theirs")
    with opened(told.root, settings) as workspace:
        sandbox.pull_into(workspace)
    found = set(offered(told, "casrewind restore "))
    assert {"sandbox-4:", "remote:", "last", "@1"} <= found and "theirs" not in found
    assert offered(told, "casrewind restore remote:") == ["last", "@1"] == offered(told, "casrewind back sandbox-4:")
    assert offered(told, "casrewind restore remote:after") == ["after:@1"]
    assert offered(told, "casrewind restore rem") == ["remote:"]
    assert offered(told, "casrewind cat remote:") == ["last:", "@1:"]
    assert offered(told, "casrewind cat remote:last:t") == ["till.py"]


def test_what_was_said_of_a_checkpoint_stands_beside_it_and_commands_no_terminal(told):
    found = offered(told, "casrewind restore las", "zsh")
    assert len(found) == 1 and re.fullmatch(r"last:\d+ \w+ ago, longer\[31m please", found[0].replace("\\", ""))


def test_it_offers_nothing_where_there_is_nothing_and_changes_nothing(told, tmp_path):
    before = picture(tmp_path)
    for line in ("casrewind restore nonesuch", "casrewind cat nope:", "casrewind cat last:nope/", "casrewind -C / restore l"):
        assert offered(told, line) == []
    told.environment["CASREWIND_HOME"] = str(tmp_path / "no store")
    assert offered(told, "casrewind restore ") == []
    assert set(picture(tmp_path)) - set(before) == {b"home/answer"}


def test_other_shells_are_64(process):
    process("completion", "tcsh", code=64)
    process("completion", code=64)


@pytest.mark.turns(3)
@pytest.mark.parametrize("shell", [pytest.param(shell, marks=needs(shell)) for shell in ("bash", "zsh")])
def test_a_person_at_a_shell_gets_it_completed(told, shell):
    """Typed on a terminal: a command, a label with a space in it, a path of a checkpoint."""
    environment = {**told.environment, "SHELL": shutil.which(shell), "TERM": "dumb", "PS1": "$ "}
    subprocess.run([shell, "-c", readme_line(shell)], env=environment, check=True)
    session = Session([shell, "-i"], environment, size=(24, 200))
    try:
        session.type(f"cd '{told.root}'; PS1='re''ady> '; unset PROMPT RPROMPT; PROMPT='re''ady> '\n")
        session.read_until(b"ready> ")
        for typed, completed in (
            ("casrewind sta", b"casrewind status"), ("casrewind show fir", rb"casrewind show first\ one"), ("casrewind cat last:src/t", b"last:src/till.py"),
        ):  # fmt: skip
            session.shown = b""
            session.type(f"{typed}\t")
            session.read_until(completed)
            session.type("\x15")
        session.shown = b""
        session.type("\x15casrewind cat last:src/t\t > ../shown && echo do''ne\n")
        session.read_until(b"done")
        assert (Path(told.root).parent / "shown").read_bytes() == b"1"
        session.type("exit\n")
        assert session.end()[0] == 0
    finally:
        session.process.kill()
        session.process.wait()


@needs("fish")
def test_fish_offers_the_same_with_descriptions(told):
    subprocess.run(["fish", "-c", readme_line("fish")], env=told.environment, check=True)

    def complete(line):
        done = subprocess.run(
            ["fish", "-i", "-c", f"complete -C {line!r}"], env={**told.environment, "TERM": "dumb"}, cwd=told.root, capture_output=True, text=True,
            stdin=subprocess.DEVNULL, timeout=60,
        )  # fmt: skip
        return dict(row.partition("\t")[::2] for row in done.stdout.splitlines())

    assert complete("casrewind sta")["status"].startswith("Check how the project is protected")
    found = complete("casrewind restore ")
    assert {"last", "prev", "first one"} <= set(found) and "ago, first one" in found["first one"]
    assert set(complete("casrewind cat last:src/")) == {"last:src/lost.py", "last:src/till.py"}
    assert set(complete("casrewind diff last -- no")) == {"notes.txt"}
    for line, wanted in (("restore @", "@1"), ("show @", "@1"), ("back @", "@1"), ("back ", "@1"), ("restore after", "after:@1")):
        assert set(complete(f"casrewind {line}")) == {wanted}, line


def test_why_nothing_is_offered_is_said(told, tmp_path):
    (tmp_path / "empty").mkdir()
    line = "casrewind restore @"
    variables = {"_ARGCOMPLETE": "1", "_ARGCOMPLETE_STDOUT_FILENAME": str(tmp_path / "answer"), "COMP_LINE": line, "COMP_POINT": str(len(line))}
    done = subprocess.run(["casrewind"], env={**told.environment, **variables}, cwd=tmp_path / "empty", capture_output=True, text=True, timeout=60)
    assert done.stderr.strip().startswith("casrewind: no checkpoints yet") and done.stderr.count("\n") == 2, done
