"""A question that waits for an answer: other commands name who waits, earlier keys are no answer, signals give the terminal back."""

import shlex
import shutil
import signal
import sys

import pytest

from support.terminal import Session
from support.trees import plant


@pytest.fixture
def edited(root, process):
    """One file, edited since its checkpoint."""
    plant(root, {"a": b"1"})
    process("save", code=0)
    plant(root, {"a": b"2"})


def test_nobody_waits_for_an_answer_and_after_another_restore_the_question_is_asked_again(edited, root, process, terminal):
    first = process.json("list")["checkpoints"][0]["id"]
    asking = terminal("restore", first)
    asking.read_until(b"/d] ")
    plant(root, {"b": b"1"})
    process("save", code=0)
    process("gc", code=0)
    process("restore", first, "-y", code=0)
    plant(root, {"a": b"3"})
    asking.type("y")
    asking.read_until(b"another restore, undo or redo was made here since that plan was shown")
    asking.read_until(b"/d] ", 2)  # the first is that of the first question
    assert (root / "a").read_bytes() == b"3"
    asking.type("y")
    asking.read_until(b"undo takes this back")
    assert asking.end()[0] == 0 and (root / "a").read_bytes() == b"1"


@pytest.mark.parametrize("line", [("restore", "last"), ("purge", "a")])
def test_a_key_that_was_typed_before_the_question_answers_nothing(edited, root, terminal, line):
    asking = terminal(*line)
    asking.type("y\ny\n")
    asking.read_until(b"[y/N")
    asking.sleep_until_it_reads()
    assert asking.process.poll() is None
    asking.type("n\n")
    code, shown = asking.end()
    assert code == 0 and b"nothing was " in shown and (root / "a").read_bytes() == b"2"


def test_a_permanent_removal_waits_for_enter(edited, terminal):
    asking = terminal("purge", "a")
    asking.read_until(b"cannot be undone. [y/N] ")
    asking.type("y")
    asking.sleep_until_it_reads()
    assert asking.process.poll() is None
    asking.type("\n")
    assert b"purged" in asking.end()[1]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT])
def test_a_signal_at_the_question_gives_the_terminal_back(edited, root, terminal, number):
    asking = terminal("restore", "last")
    before = asking.settings_at_start  # on a busy machine the command asks before this test goes on
    asking.read_until(b"/d] ")
    asking.sleep_until_it_reads()
    assert asking.settings() != before, "keys come one by one"
    asking.process.send_signal(number)
    code = asking.process.wait(30)
    assert code == (130 if number == signal.SIGINT else -number) and asking.settings() == before
    assert (root / "a").read_bytes() == b"2"


@pytest.mark.skipif(shutil.which("dash") is None, reason="the shell that leaves the terminal as a stopped command left it")
def test_a_question_that_was_stopped_gives_the_terminal_back_and_is_asked_again(edited, root, process):
    own_terminal = "import fcntl, os, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); os.execvp('dash', ['dash', '-i'])"
    shell = Session([sys.executable, "-c", own_terminal], {**process.environment, "PS1": "ready> "})
    shell.read_until(b"ready> ")
    before = shell.settings()
    shell.type(shlex.join([sys.executable, "-m", "casrewind", "-C", process.root, "restore", "last"]) + "\n")
    shell.read_until(b"kept for undo. [y/N/d] ")
    shell.type("\x1a")
    shell.read_until(b"Stopped")
    assert shell.settings() == before
    shell.shown = b""
    shell.type("fg\n")
    shell.read_until(b"kept for undo. [y/N/d] ")
    shell.type("y")
    shell.read_until(b"undo takes this back")
    shell.read_until(b"ready> ")
    assert (root / "a").read_bytes() == b"1" and shell.settings() == before
    shell.type("exit\n")
    shell.end()
