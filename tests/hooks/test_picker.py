"""The picker on a real terminal, one that tmux gives it, in a project with a recorded conversation behind it."""

import re
import shutil
from pathlib import Path

import pytest

from casrewind.agents.claude import CLIENT as claude
from support.picker_window import Window
from support.picture import picture

pytestmark = pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux is not installed")


@pytest.fixture
def picker(casrewind, tmp_path):
    started = []

    def start(size=(120, 36), **variables):
        started.append(Window(casrewind, tmp_path / f"t{len(started)}", size, **variables))
        return started[-1]

    yield start
    for terminal in started:
        terminal.end()


def texts(path):
    return [prompt.text for prompt in claude.prompts(Path(path).read_bytes())]


def test_wreck_pick_restore_and_resume(told, picker, root):
    """The way of somebody whose agent has wrecked the project: files and conversation back at the second prompt."""
    client, prompts, pictures = told
    original, wrecked = client.transcript.read_bytes(), picture(root)
    terminal = picker()
    words = " ".join(prompts[1].text.split()[:2])
    shown = terminal.shows("3 turns, 6 checkpoints", *(prompt.text[:20] for prompt in prompts[:3]), "claude ", "(running)", "~1")
    assert "turn end" not in shown and "▶" in next(line for line in shown.split("\n") if "@1" in line)
    terminal.press("/", *words, "q")  # as fast as nobody types: none of it is taken for the timeline's keys
    terminal.shows(f"0 rows with '{words}q'")
    terminal.press("Escape")
    terminal.shows("3 turns")
    terminal.press("/", *words, "Enter")
    terminal.shows(f"1 row with '{words}'")
    terminal.press("Enter", "v")
    terminal.shows("to here: 1 go, 1 change", "only2")
    terminal.press("b")
    shown = terminal.shows("Restore chat and files", "Go on?", "taken back: ")
    assert "- only2" in " ".join(shown.split()) and picture(root) == wrecked
    terminal.press("Escape")
    terminal.shows("nothing was changed")
    assert picture(root) == wrecked
    terminal.press("Escape")
    terminal.shows("enter open")
    terminal.press("Escape")
    terminal.shows("3 turns")
    terminal.press("/", *"alpha", "Enter")
    terminal.shows("2 rows with 'alpha'", prompts[1].text)
    terminal.press("Home", "b")
    terminal.shows("Restore chat and files", f'before "{prompts[1].text[:20]}', "taken back: ")
    terminal.press("y")
    terminal.shows("Done", "u takes this back", "forked: claude")
    assert picture(root) == pictures[1] and client.transcript.read_bytes() == original
    terminal.press("Enter")
    terminal.shows("2 rows with 'alpha'", "restored to before")  # the message has closed: q is for the timeline
    terminal.press("q")
    shown = terminal.shows("ended with 0", "restored to ", "casrewind undo takes this back", "forked: ")
    fork = re.search(r"--resume (\S+)", shown)[1]
    path = client.transcript.with_name(fork + ".jsonl")
    assert texts(path) == [prompts[0].text]


@pytest.mark.long
def test_forty_columns_no_colour_and_ctrl_c_on_a_real_terminal(told, picker, root):
    before = picture(root)
    terminal = picker(size=(40, 30), NO_COLOR="1")
    shown = terminal.shows("3 turns, 6", "(running)", "~1", "quit")
    assert all(len(line) <= 40 for line in shown.split("\n"))
    coloured = terminal.screen("-e")
    assert not re.search(r"\x1b\[(?:[0-9;]*;)?(?:3[1-6]|9[1-6])(?:;[0-9;]*)?m|[34]8;", coloured), ascii(coloured)
    terminal.press("c")
    terminal.shows("Go on?")
    terminal.press("C-c")
    terminal.shows("nothing was changed")
    terminal.press("C-c")
    terminal.shows("casrewind: interrupted", "ended with 130")
    assert picture(root) == before


@pytest.mark.long
def test_a_narrower_one_has_the_plain_prompt(told, picker):
    terminal = picker(size=(39, 40))
    terminal.shows("What now? [q]")
    terminal.press("u", "Enter")
    terminal.shows("nothing to undo")
    terminal.press("Enter")
    terminal.shows("ended with 0")
