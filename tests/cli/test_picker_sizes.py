"""The questions of the picker at every size that a terminal has: what is about to happen and the keys that answer are always seen."""

import asyncio
import importlib.util
import re
import shutil
import subprocess
from pathlib import Path

import pytest

import casrewind as api
from support.command import Command
from support.picker_screen import PickerScreen, run_picker
from support.picker_window import Window
from support.sample_start import by_turns
from support.trees import plant
from support.unchanged import unchanged

DOCS = Path(__file__).parent.parent.parent / "docs"
MANY = {f"old/{n:02}.txt": b"1\n" for n in range(70)}
TITLES = {"one line": "ok", "two lines": "refactor the errors when the database is locked so that nobody waits", "three lines": "錠" * 70}
SIZES = [(40, 20), (80, 24), (100, 30), (160, 50)]
EXTREMES = [size if size in (SIZES[0], SIZES[-1]) else pytest.param(size, marks=pytest.mark.long) for size in SIZES]
"""In a push the narrowest and the widest: for tests that take seconds at each size."""
SOME = by_turns([(size,) for size in SIZES], 2)
"""In a push two of them by turns."""
LONG = {"one line": "Go", "two lines": "Restore what was there when the database was locked. " * 2, "three lines": "錠" * 120}


def size_name(size):
    return "x".join(map(str, size))


def words_of(shown):
    """The text on the screen without the frame of a dialog, with single spaces."""
    return re.sub(r"\s+", " ", "".join(re.sub(r"[│╭╮╰╯─▁▂▃▄▅▆▇█▔]", " ", line) for line in shown.split("\n")))


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
    words = words_of(shown)
    assert "70 written" in words and "5 REMOVED" in words, shown
    assert re.search(r"Go on\? The state before is kept for undo\. +y yes d patch n no", words), shown
    assert "- zz/" in words and words.index("- zz/") < (words.find("~ old") if "~ old" in words else len(words)), shown
    if len(title) > 60:
        assert "…" in words[: words.index(" ago")], shown


@pytest.mark.parametrize("size", SOME, ids=size_name)
def test_the_question_and_its_keys_are_on_the_screen(crowded, root, home, size):
    async def story(stage):
        await stage.shows("edited since")
        await stage.press("c")
        await stage.shows("y yes", "n no")
        is_whole(stage.text(), crowded)
        await stage.press("d")
        await stage.shows("deleted file mode", "enter or escape")
        await stage.press("enter")
        await stage.shows("y yes", "n no")
        await stage.pilot.resize_terminal(40, 12)
        await stage.until(lambda text: len(text.split("\n")) == 12 and "n no" in text)
        await stage.press("escape")

    with unchanged(root, home / "data"):
        run_picker(root, home, story, size=size)


@pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux is not installed")
@pytest.mark.parametrize("size", by_turns([(size,) for size in SIZES], 1), ids=size_name)
def test_the_question_and_its_keys_are_on_a_real_terminal(crowded, casrewind, root, home, tmp_path, size):
    window = Window(casrewind, tmp_path / "tmux", size)
    try:
        window.shows("edited since")
        window.press("c")
        is_whole(window.shows("n no"), crowded)
        window.press("y")
        window.shows("Done", "70 paths written", "enter or escape")
    finally:
        window.end()
    assert (root / "old/00.txt").read_bytes() == b"1\n" and not (root / "zz").exists()


def dialogs(title):
    """{name: (a dialog with a title, what has to be seen of it)}: each question that the picker asks, with as many lines as fit nowhere."""
    from casrewind.cli.picker import widgets

    lines = [f"- a/path/of/some/length/{number:03}.txt" for number in range(200)]
    undo = ("Go on?", "y yes", "n no")
    return {
        "plan": (widgets.Dialog(title, lines, (*widgets.YES, ("d", "patch")), "The state before is kept for undo."),
                 ("Go on? The state before is kept for undo.", "y yes", "d patch", "n no", "- a/path")),
        "chat": (widgets.Dialog(title, lines, widgets.YES, "The conversation itself stays as it is."), (*undo, "stays as it is.")),
        "rewrite": (widgets.Dialog(title, lines, widgets.YES, "A copy of it as it is now is kept beside it."), (*undo, "kept beside it.")),
        "damaged": (widgets.Dialog(title, lines, widgets.YES), undo),
        "undo": (widgets.Dialog(title, ["What was edited since is kept, and named."], widgets.YES), undo),
        "interrupted": (widgets.Dialog(title, lines, (("c", "continue: finish it"), ("a", "abort: take it back"))),
                        ("c continue: finish it", "a abort: take it back", "n no")),
        "copy": (widgets.Dialog(title, ["p a/path", "i c123", f"t {title}"], [("p", "path"), ("i", "id"), ("t", "text of the prompt")]),
                 ("p path", "i id", "t text of the prompt", "n no")),
        "label": (widgets.Question(title, "given"), ("given", "enter: go on", "escape: leave it")),
        "message": (widgets.Dialog(title, lines), ("enter or escape: close", "- a/path")),
        "patch": (widgets.PatchDialog(title, lines), ("enter or escape: back", "- a/path")),
        "help": (widgets.HelpDialog(), ("enter or escape: close", "j k")),
    }  # fmt: skip


@pytest.mark.parametrize("title", LONG)
@pytest.mark.parametrize("size", EXTREMES, ids=size_name)
def test_every_dialog_shows_its_keys(title, size):
    pytest.importorskip("textual")
    from textual.app import App

    async def run():
        app = App(ansi_color=True)
        app.ENABLE_COMMAND_PALETTE = False
        async with app.run_test(size=size) as pilot:
            stage = PickerScreen(app, pilot)
            for name, (dialog, wanted) in dialogs(LONG[title]).items():
                await app.push_screen(dialog)
                await stage.until(lambda text: "╰" in text)
                await pilot.pause(0.05)
                words = words_of(stage.text())
                assert all(each in words for each in wanted), (name, stage.text())
                start = "Keys" if name == "help" else LONG[title][:2]
                assert start in words, (name, stage.text())
                await stage.press("escape")

    asyncio.run(run())


@pytest.mark.parametrize("size", [(40, 20), (80, 24)], ids=size_name)
def test_no_key_of_a_question_stands_on_another_line_than_its_words(size):
    pytest.importorskip("textual")
    from textual.app import App

    from casrewind.cli.picker import widgets

    async def run():
        app = App(ansi_color=True)
        async with app.run_test(size=size) as pilot:
            stage = PickerScreen(app, pilot)
            answers = (("e", "keep my edits"), *widgets.YES, ("d", "patch"))
            await app.push_screen(widgets.Dialog("Restore", ["- a/path"], answers, "The state before is kept for undo."))
            await stage.shows("Go on?", "e keep my edits", "y yes", "d patch", "n no")

    asyncio.run(run())


@pytest.mark.parametrize("size", EXTREMES, ids=size_name)
def test_every_key_of_the_picker_is_in_its_help(size):
    """Whatever the size, the help can be scrolled to each of its lines."""
    pytest.importorskip("textual")
    from textual.app import App

    from casrewind.cli.picker import app as actions
    from casrewind.cli.picker.widgets import HELP, HelpDialog

    async def run():
        app, seen = App(ansi_color=True), ""
        async with app.run_test(size=size) as pilot:
            stage = PickerScreen(app, pilot)
            await app.push_screen(HelpDialog())
            await stage.until(lambda text: "j k" in text)
            for _ in range(40):
                seen += words_of(stage.text())
                await stage.press("pagedown")
        assert all(keys in seen and what.split(":")[0][:12] in seen for keys, what in HELP), seen

    asyncio.run(run())
    told = " ".join(keys for keys, _ in HELP)
    names = {"left_square_bracket": "[", "right_square_bracket": "]", "slash": "/", "question_mark": "?", "ctrl+c": "q"}
    for keys, _ in actions.KEYS:
        key = keys.partition(",")[0]
        assert names.get(key, key) in f"{told} ?", key


@pytest.fixture(scope="module")
def pictures():
    """The script that draws the picker for the documents."""
    specification = importlib.util.spec_from_file_location("generate_pictures", DOCS / "generate_pictures.py")
    found = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(found)
    return found


@pytest.fixture(scope="module")
def week(tmp_path_factory, pictures):
    """A command in a project with 241 checkpoints of nine sessions: the one that the pictures in the documents show."""
    place = tmp_path_factory.mktemp("week")
    (place / "shop").mkdir()
    pictures.prepare(place / "shop", api.default_settings()._replace(home=str(place), data=str(place / "data")))
    return Command(place / "shop", place)


@pytest.mark.long
@pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux is not installed")
@pytest.mark.parametrize("size", SOME, ids=size_name)
def test_a_week_of_nine_sessions_on_a_real_terminal(week, tmp_path, size):
    window = Window(week, tmp_path / "tmux", size)
    columns, rows = size
    try:
        shown = window.shows("115 turns of 9 sess", "edited since", "▶", "~2 -27", "(cut short)", "q quit")
        assert len([line for line in shown.split("\n") if "@" in line or "edited" in line or "saved" in line]) > rows - 7, "full height"
        assert all(len(line) <= columns for line in shown.split("\n"))
        window.press("End")
        window.shows("@115")
        window.press("g", "j", "j", "Enter")
        shown = window.shows("this turn: 27 removed, 2 changed", "clean up: remove what is", "legacy/ (27 files)", "? help", "esc back")
        assert ("@1 " in shown) == (columns >= 110), "side by side where there is room"
        window.press("c")
        shown = words_of(window.shows("n no"))
        assert "29 written, 1 REMOVED" in shown and "y yes d patch n no" in shown and "- notes.md" in shown
        window.press("n")
        window.shows("nothing was changed")
        window.press("?")
        window.shows("Keys", "enter or escape")
        window.press("Enter")
        window.shows("esc back", "q quit")
        window.press("q")
        window.shows("ended with 0")
    finally:
        window.end()


@pytest.mark.long
def test_the_pictures_in_the_documents_can_be_drawn(week, pictures, tmp_path, monkeypatch):
    """5 seconds, and 12 for the project."""
    pytest.importorskip("textual")
    (tmp_path / "images").mkdir()
    for name, value in {"HERE": tmp_path, "SCENES": {"turn": pictures.SCENES["turn"]}, "SIZES": ()}.items():
        monkeypatch.setattr(pictures, name, value)
    asyncio.run(pictures.draw(week.root, api.default_settings()._replace(home=week.home, data=week.environment["CASREWIND_HOME"])))
    assert "legacy/" in (tmp_path / "picker.svg").read_text()


@pytest.mark.parametrize("size", SOME, ids=size_name)
def test_what_is_open_and_its_keys_fit(crowded, root, home, size):
    async def story(stage):
        await stage.shows("edited since", "q quit", "? help", "enter open")
        await stage.press("end", "enter")
        await stage.shows("to here: 5 go, 70 change", "saved:", "zz/", "a all", "space choose", "esc back", "? help", "q quit")
        await stage.press("enter")
        await stage.shows("[ ] @@ -1 +0,0 @@", "space choose hunk", "esc back", "? help", "q quit")

    with unchanged(root, home / "data"):
        run_picker(root, home, story, size=size)


@pytest.mark.parametrize("size", SOME, ids=size_name)
def test_a_plan_names_the_rules_that_it_takes_back_and_both_branches(casrewind, root, home, size):
    subprocess.run(["git", "init", "-q", "-b", "main", str(root)], check=True)
    plant(root, {".gitignore": b".env\n", ".env": b"SECRET=1", **MANY})
    casrewind("save", "-m", TITLES["two lines"], code=0)
    plant(root, {name: b"2\n" for name in MANY} | {f"zz/new{n}": b"n\n" for n in range(5)} | {".casrewindignore": b"!/.env\n"})
    subprocess.run(["git", "-C", str(root), "symbolic-ref", "HEAD", "refs/heads/other"], check=True)

    async def story(stage):
        await stage.shows("edited since")
        await stage.press("c")
        await stage.shows("y yes", "n no")
        words = words_of(stage.text())
        assert "70 written" in words and "REMOVED" in words and "NOTE: .env would no longer be protected" in words, stage.text()
        assert "NOTE: saved on branch main, while git stays on other" in words and "- zz/" in words, stage.text()
        await stage.press("escape")

    with unchanged(root, home / "data"):
        run_picker(root, home, story, size=size)
