"""The question of the picker at every size that a terminal has: what is about to happen and the keys that answer are always seen."""

import re
import shutil

import pytest

from support.pictures import unchanged
from support.stage import play
from support.trees import plant
from support.window import Window

MANY = {f"old/{n:02}.txt": b"1\n" for n in range(70)}
TITLES = {"one line": "ok", "two lines": "refactor the errors when the database is locked so that nobody waits", "three lines": "錠" * 70}
SIZES = [(80, 24), (40, 20), (100, 30)]


@pytest.fixture(params=TITLES)
def crowded(request, casrewind, root):
    """A checkpoint with a title of so many lines; since then many files were changed and some were made. Its title."""
    title = TITLES[request.param]
    plant(root, MANY)
    casrewind("save", "-m", title, code=0)
    plant(root, {name: b"2\n" for name in MANY} | {f"zz/new{n}": b"n\n" for n in range(5)})
    return title


def is_whole(shown, title):
    """The question says how much is written and removed, shows removals first, and ends with its keys."""
    text = "".join(re.sub(r"[│╭╮╰╯─▁▂▃▄▅▆▇█▔]", " ", line) for line in shown.split("\n"))
    words = re.sub(r"\s+", " ", text)
    assert "70 paths written" in words and "6 removed" in words, shown
    assert re.search(r"Go on\? The state before is kept for undo\. +y yes n no", words), shown
    assert "- zz/" in words and words.index("- zz/") < (words.find("~ old") if "~ old" in words else len(words)), shown
    if len(title) > 60:
        assert "…" in words[: words.index(" ago")], shown


@pytest.mark.parametrize("size", SIZES, ids=lambda size: "x".join(map(str, size)))
def test_the_question_and_its_keys_are_on_the_screen(crowded, root, home, size):
    async def story(stage):
        await stage.shows("1 checkpoint", "·")
        await stage.press("c")
        await stage.shows("y yes", "n no")
        is_whole(stage.text(), crowded)
        await stage.pilot.resize_terminal(40, 12)
        await stage.until(lambda text: len(text.split("\n")) == 12 and "n no" in text)
        await stage.press("escape")

    with unchanged(root, home / "data"):
        play(root, home, story, size=size)


@pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux is not installed")
@pytest.mark.parametrize("size", SIZES, ids=lambda size: "x".join(map(str, size)))
def test_the_question_and_its_keys_are_on_a_real_terminal(crowded, casrewind, root, home, tmp_path, size):
    window = Window(casrewind, tmp_path / "tmux", size)
    try:
        window.shows("1 checkpoint", "come back")
        window.press("c")
        is_whole(window.shows("n no"), crowded)
        window.press("y")
        window.shows("Done", "restored: 70", "enter or escape")
    finally:
        window.end()
    assert (root / "old/00.txt").read_bytes() == b"1\n" and not (root / "zz").exists()
