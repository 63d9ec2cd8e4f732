"""The picker, driven by textual's pilot with the real workspace behind it, and as a plain prompt on a terminal."""

import contextlib
import os
import re
import signal
import subprocess
import sys
import threading
import time

import pytest

import casrewind as api
from casrewind.cli.picker import ProgressRelay, has_screen, worker, timeline
from casrewind.cli.picker.timeline import TimelineModel
from casrewind.cli.picker.worker import Worker
from support.picture import picture
from support.pictures import unchanged
from support.stage import play
from support.trees import plant

PATIENCE = 30


@pytest.fixture
def wrecked(casrewind, root):
    """Three checkpoints, and what an agent made of it then; the pictures of the first two and of now."""
    plant(root, {"till.py": b"def total():\n    return 1\n", "logo.bin": b"\0" * 3000, "src/a.py": b"a\n"})
    casrewind.json("save", "-m", "the beginning")
    first = picture(root)
    plant(root, {"till.py": b"def total():\n    return 2\n", "new.txt": b"n\n"})
    casrewind.json("save", "-m", "second step")
    second = picture(root)
    plant(root, {"src/b.py": b"b\n"})
    casrewind.json("save")
    plant(root, {"till.py": b"wrecked\n", "logo.bin": b"\1" * 10})
    return first, second, picture(root)


def test_the_timeline_and_the_change_of_the_chosen_one(wrecked, root, home):
    async def story(stage):
        await stage.shows("3 checkpoints", "saved by hand", "2 files · current", "second step", "3 files", "4 files", "0 come back, 2 change, 0 go", "10 B -> 2.9 KiB", "till.py  +2 -1  (8 -> 26 bytes)")
        text = stage.text()
        assert text.index("saved by hand") < text.index("second step") < text.index("the beginning")
        assert "logo.bin  (10 -> 3000 bytes)" in text, "a binary file is shown as sizes"
        await stage.press("down")
        await stage.shows("0 come back, 2 change, 1 go", "-  src/b.py")
        await stage.press("tab", "down", "down")
        await stage.shows("-wrecked", "+def total():", "+    return 2")
        for key in ("c code", "t chat", "b both", "space choose files", "u undo", "r redo", "p pin", "l label", "d compare", "/ filter", "q quit"):
            assert key in stage.text()

    with unchanged(root, home / "data"):
        play(root, home, story)


def test_a_restore_shows_its_plan_asks_once_and_says_what_it_did(wrecked, root, home):
    first, _, now = wrecked

    async def story(stage):
        await stage.shows("current")
        await stage.press("end", "c")
        await stage.shows("Restore files of", "2 paths written, 2 removed", "- new.txt", "~ till.py", "kept for undo")
        assert picture(root) == now
        await stage.press("enter", "x")
        assert "Go on?" in stage.text() and picture(root) == now, "only y is yes"
        await stage.press("y")
        await stage.shows("Done", "restored: 2 paths written, 2 removed", "casrewind undo goes back to it")
        assert picture(root) == first
        await stage.press("escape")
        await stage.shows("as now")
        await stage.press("u", "n", "u")
        await stage.shows("Undo: ", "Go on?")
        assert picture(root) == first
        await stage.press("y")
        await stage.shows("undone: ", "casrewind redo takes the undo back")
        assert picture(root) == now
        await stage.press("escape")
        await stage.shows("4 files")
        await stage.press("r", "y")
        await stage.shows("redone: ")
        assert picture(root) == first

    app = play(root, home, story)
    assert app.outcome[0].startswith("restored: 2 paths") and not app.incomplete
    assert any(line.startswith("redone: ") for line in app.outcome)


@pytest.mark.parametrize("key", ["escape", "q", *(pytest.param(key, marks=pytest.mark.long) for key in ("n", "ctrl+c"))])
def test_no_at_the_plan_changes_nothing(wrecked, root, home, key):
    async def story(stage):
        await stage.shows("current", "2 change")
        await stage.press("b" if key == "q" else "c")
        await stage.shows("Go on?" if key != "q" else "belongs to no conversation")
        await stage.press(key)
        await stage.shows("nothing was changed" if key != "q" else "3 checkpoints")

    with unchanged(root, home / "data"):
        assert play(root, home, story).outcome == []


def test_leaving_while_the_plan_is_asked_is_no(wrecked, root, home):
    async def story(stage):
        await stage.shows("current", "2 change")
        await stage.press("c")
        await stage.shows("Go on?")

    with unchanged(root, home / "data"):
        play(root, home, story)


@pytest.mark.long
def test_ctrl_c_in_the_middle_of_a_restore_leaves_one_that_can_be_taken_back(casrewind, root, home):
    plant(root, {f"f{number:03}": b"old" for number in range(300)})
    casrewind.json("save")
    plant(root, {f"f{number:03}": b"new" for number in range(300)})
    now = picture(root)

    async def story(stage):
        await stage.shows("300 change")
        listener, seen = stage.app._relay.listener, threading.Event()

        def slowly(what, done, total):
            if what == "restoring" and done:
                seen.set()
                time.sleep(0.02)
            listener(what, done, total)

        stage.app._relay.listener = slowly
        await stage.press("c")
        await stage.shows("Go on?")
        await stage.press("y")
        await stage.until(lambda _: seen.is_set())
        await stage.press("q")
        assert stage.app.return_value is None, "a letter does not leave it half done"
        await stage.press("ctrl+c")
        assert stage.app.return_value == 130

    play(root, home, story)
    assert casrewind.json("status")["journal"] is not None
    casrewind("restore", "--abort", code=0)
    assert picture(root) == now


def test_only_chosen_files_are_restored(wrecked, root, home):
    async def story(stage):
        await stage.shows("current", "2 change")
        await stage.press("end")
        await stage.shows("2 change, 2 go")
        await stage.press("space", "down", "space")
        await stage.shows("1 chosen", "[x] -  new.txt")
        await stage.press("c")
        await stage.shows("0 paths written, 1 removed")
        await stage.press("y")
        await stage.shows("Done")

    play(root, home, story)
    assert not (root / "new.txt").exists() and (root / "till.py").read_bytes() == b"wrecked\n" and (root / "src/b.py").exists()


def test_pin_label_and_compare(wrecked, root, home, casrewind):
    async def story(stage):
        await stage.shows("current", "2 change")
        await stage.press("p")
        await stage.shows("pinned · current")
        await stage.press("p")
        await stage.until(lambda text: "pinned ·" not in text and "unpinned" in text)
        await stage.press("l")
        await stage.shows("Label for")
        await stage.type("good")
        await stage.press("escape")
        await stage.shows("3 checkpoints")
        await stage.press("l")
        await stage.shows("Label for")
        await stage.type("good one")
        await stage.press("enter")
        await stage.shows(" good one", "pinned · current")
        await stage.press("end", "d", "home")
        await stage.shows("from c", "◆the beginning", "2 come back, 1 change, 0 go", "+n")
        await stage.press("escape")
        await stage.shows("0 come back, 2 change, 0 go")

    with unchanged(root):
        play(root, home, story)
    assert [point["label"] for point in casrewind.json("list")["checkpoints"]] == ["good one", "second step", "the beginning"]


def test_a_filter_finds_words_and_paths(wrecked, root, home):
    async def story(stage):
        await stage.shows("current", "2 change")
        await stage.press("slash")
        await stage.type("beginning")
        await stage.shows("1 checkpoint with 'beginning'", "the beginning")
        assert "second step" not in stage.text()
        await stage.press("escape")
        await stage.shows("3 checkpoints")
        await stage.press("slash")
        await stage.type("new.txt")
        await stage.shows("1 checkpoint with", "second step")
        await stage.press("enter", "c")
        await stage.shows("Restore files of")
        await stage.press("n", "escape")
        await stage.shows("3 checkpoints", "the beginning")

    with unchanged(root, home / "data"):
        play(root, home, story)


def test_safety_checkpoints_and_other_worktrees_are_told_apart(casrewind, root, home, tmp_path):
    plant(root, {"f": b"1"})
    store = home / "one-for-both"
    casrewind("--store", store, "save", "-m", "here", code=0)
    other = tmp_path / "elsewhere"
    plant(other, {"f": b"2"})
    casrewind("-C", other, "--store", store, "save", "-m", "there", code=0)
    screen = pytest.importorskip("casrewind.cli.picker.app")
    assert screen
    settings = api.default_settings()._replace(store=str(store), home=str(home))
    with api.workspace.Workspace(str(root), settings, create=False) as workspace:
        found = TimelineModel(workspace).timeline()
    assert [(row.title, row.elsewhere, row.number) for row in found.rows] == [("there", "elsewhere", None), ("here", "", 1)]
    assert [row.title for row in timeline.choose(found.rows, "", {}, everything=False)] == ["here"]
    assert "worktree elsewhere" in timeline.about(found.rows[0], None, found.current)


def test_forty_columns_are_enough(wrecked, root, home):
    async def story(stage):
        await stage.shows("saved by hand", "2 change", "q quit", "logo.bin")
        await stage.press("c")
        await stage.shows("Go on?", "y yes")
        await stage.press("escape")
        await stage.shows("nothing was changed")

    with unchanged(root, home / "data"):
        play(root, home, story, size=(40, 30))


def test_an_error_is_told_and_nothing_is_lost(wrecked, root, home):
    async def story(stage):
        await stage.shows("current", "2 change")
        await stage.press("u", "y")
        await stage.shows("That could not be done", "nothing to undo")
        await stage.press("enter", "t")
        await stage.shows("belongs to no conversation")

    with unchanged(root, home / "data"):
        play(root, home, story)


def test_names_cannot_command_the_terminal(casrewind, root, home):
    plant(root, {"evil\x1b[2J\x07": b"one\n"})
    casrewind.json("save", "-m", "label \x1b[2J\x9b31m")
    plant(root, {"evil\x1b[2J\x07": b"\x1b[2Jtwo\x9b\n"})

    async def story(stage):
        await stage.shows("1 change", "[2J", "-\\x1b[2Jtwo")
        assert all(c.isprintable() for c in stage.text().replace("\n", "")), ascii(stage.text())

    play(root, home, story)


@pytest.mark.long
def test_a_long_timeline_is_painted_as_far_as_it_is_seen(casrewind, root, home, monkeypatch):
    plant(root, {"f": b"1\n"})
    casrewind.json("save", "-m", "the only one")
    found = []
    make = timeline.make

    def many(points, here):
        (row,) = make(points, here)
        return [row._replace(point=row.point._replace(id=f"c{n:015}", seq=n, tree=row.point.tree), title=f"row {n}") for n in range(5000, 0, -1)]

    monkeypatch.setattr(timeline, "make", many)

    async def story(stage):
        paint = stage.app._paint_row
        stage.app._lines("#timeline")._paint = lambda index, part: found.append(index) or paint(index, part)
        await stage.shows("5,000 checkpoints", "row 5000", "as now")
        await stage.press("end")
        await stage.shows("row 1 ")
        await stage.press("up", "pageup")
        await stage.press("slash")
        await stage.type("4321")
        await stage.shows("1 checkpoint with", "row 4321")

    with unchanged(root, home / "data"):
        app = play(root, home, story)
    assert len(set(found)) < 200 and 1 < len(app._counts) < 200, "what is not seen is not counted"


def test_what_changed_with_a_checkpoint_is_against_the_one_before_it_in_its_worktree(casrewind, root, home, tmp_path):
    store = home / "one-for-both"
    for number in range(3):
        for place in (root, tmp_path / "elsewhere"):
            plant(place, {f"{place.name}{number}": b"x"})
            casrewind("-C", place, "--store", store, "save", "-m", f"{place.name} {number}", code=0)
    settings = api.default_settings()._replace(store=str(store), home=str(home))
    with api.workspace.Workspace(str(root), settings, create=False) as workspace:
        board = TimelineModel(workspace)
        everything = board.timeline().rows
        paths, jobs = {}, 0
        while wanted := timeline.unread(everything, paths, 2):
            paths.update(board.paths(wanted))
            jobs += 1
        assert jobs == 3 and timeline.unread(everything, paths, 2) == []
        assert {row.title: paths[row.point.id] for row in everything} == {
            f"{name} {number}": [f"{name}{number}"] for name in ("project", "elsewhere") for number in range(3)
        }


def test_a_job_replaces_the_one_of_its_kind_that_waits_and_the_urgent_goes_first():
    clerk = Worker(ProgressRelay())
    done, answers, started, go = [], [], threading.Event(), threading.Event()
    try:
        clerk.start(lambda call: call())
        clerk.put(worker.COUNT, lambda: (started.set(), go.wait(PATIENCE)), answers.append)
        assert started.wait(PATIENCE)
        finished = threading.Event()
        for kind, name in ((worker.COUNT, "count 1"), (worker.SHOW, "show 1"), (worker.COUNT, "count 2"), (worker.SHOW, "show 2")):
            clerk.put(kind, lambda name=name: done.append(name) or name, lambda name: name == "count 2" and finished.set())
        go.set()
        assert finished.wait(PATIENCE) and done == ["show 2", "count 2"]
        clerk.put(worker.ACT, lambda: 1 / 0, lambda found: answers.append(type(found)) or finished.clear())
        end = time.monotonic() + PATIENCE
        while finished.is_set() and time.monotonic() < end:
            time.sleep(0.01)
        assert answers[-1] is ZeroDivisionError, "an error is an answer, too"
    finally:
        go.set()
        clerk.close()


def test_closing_stops_what_is_going_on():
    relay = ProgressRelay()
    clerk = Worker(relay)
    relay.listener = lambda *_: clerk.check()
    started = threading.Event()

    def endless():
        started.set()
        while True:
            relay("scanning", 1, 0)
            time.sleep(0.001)

    clerk.put(worker.LOOK, endless, lambda _: None)
    assert started.wait(PATIENCE)
    clerk.close()
    assert not clerk._thread.is_alive()


# -- without a screen, on a terminal of its own


@pytest.mark.parametrize("how", ["dumb", pytest.param("narrow", marks=pytest.mark.long), "without textual"])
def test_a_plain_prompt_where_there_is_no_screen(wrecked, terminal, root, home, tmp_path, how):
    if how == "without textual":
        (tmp_path / "broken" / "textual").mkdir(parents=True)
        (tmp_path / "broken" / "textual" / "__init__.py").write_text("raise ImportError('not here')\n")
        path = os.pathsep.join([str(tmp_path / "broken"), *filter(None, [os.environ.get("PYTHONPATH")])])
        session = terminal(environment={"PYTHONPATH": path, "NO_COLOR": "1"})
    else:
        session = terminal(environment={"NO_COLOR": "1", **({"TERM": "dumb"} if how == "dumb" else {})}, size=(24, 39) if how == "narrow" else (24, 100))
    session.read_until(b"What now? [q] ")
    assert (b"a plain prompt instead" in session.shown) == (how == "without textual")
    assert b"second step" in session.shown and b"changes" in session.shown, "what `casrewind list` prints"
    session.type("d 'second step'\nc 'second step'\n")
    session.read_until(b"[y/N")
    assert b"M  till.py" in session.shown and b"D  src/b.py" in session.shown
    session.type("y\n")
    session.read_until(b"casrewind undo goes back to it")
    session.type("nonsense\nc 9\nq\n")
    code, shown = session.end()
    assert b"none of the answers" in shown and b"no checkpoint '9'" in shown and b"\x1b" not in shown
    assert code == 0 and picture(root) == wrecked[1]


@pytest.mark.parametrize("answer, expected", [
    ("\x04", 0),
    ("c 3\n^C", 130),
    *(pytest.param(*way, marks=pytest.mark.long) for way in (("q\n", 0), ("\n", 0), ("\x1b\n", 0), ("^C", 130), ("c 3\n\x1b\n\n", 0))),
])  # fmt: skip
def test_every_way_out_of_the_plain_prompt(wrecked, terminal, root, home, answer, expected):
    with unchanged(root, home / "data"):
        session = terminal(environment={"TERM": "dumb"})
        session.read_until(b"What now? [q] ")
        for part in re.findall(r"[^\n]*\n|[^\n]+", answer):
            session.sleep_until_it_reads()
            session.type(part) if part != "^C" else session.process.send_signal(signal.SIGINT)
        code, shown = session.end()
    assert code == expected and b"Traceback" not in shown


@pytest.mark.parametrize("key, expected", [
    ("c|\x03|q", 0),
    (signal.SIGTERM, 130),
    *(pytest.param(*way, marks=pytest.mark.long) for way in (("q", 0), ("\x1b", 0), ("\x03", 130), (signal.SIGINT, 130))),
])  # fmt: skip
def test_every_way_out_of_the_screen_gives_the_terminal_back(wrecked, terminal, root, home, key, expected):
    pytest.importorskip("textual")
    with unchanged(root, home / "data"):
        session = terminal(environment={"NO_COLOR": "1"})
        session.read_until(b"2 change")
        for part in key.split("|") if isinstance(key, str) else ():
            session.type(part)
            session.read_until({"c": b"Go on?", "\x03": b"nothing was changed" if "|" in key else b""}.get(part, b""))
        if not isinstance(key, str):
            session.process.send_signal(key)
        code, shown = session.end()
        assert code == expected, (key, shown[-2000:])
        assert b"Traceback" not in shown and shown.rindex(b"\x1b[?1049l") > shown.rindex(b"\x1b[?1049h")
        assert not re.search(rb"\x1b\[[0-9;]*[34]8;[25];|\x1b\[(?:[0-9;]*;)?(?:3[1-6]|9[1-6])(?:;[0-9;]*)?m", shown), "NO_COLOR"


def test_off_a_terminal_it_is_the_help(wrecked, process, terminal):
    found = process(code=0)
    assert found.out.startswith("usage: casrewind") and found.err == ""
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run([sys.executable, "-m", "casrewind"], env=process.environment, stdout=writer, stderr=subprocess.PIPE, timeout=60)
    os.close(writer)
    assert done.returncode == 0 and b"Traceback" not in done.stderr


def test_where_there_is_no_checkpoint_it_is_the_help_and_what_to_do(terminal, root):
    code, shown = terminal().end()
    assert code == 10 and b"usage: casrewind" in shown and b"casrewind save" in shown


def test_nothing_but_the_picker_imports_textual(casrewind, process, root):
    plant(root, {"f": b"1"})
    code = "import sys; from casrewind.cli.main import main; main(sys.argv[1:]); assert 'textual' not in sys.modules"
    for line in (["save"], ["list"], []):
        subprocess.run([sys.executable, "-c", code, "-C", process.root, *line], env=process.environment, check=True, capture_output=True)


def test_a_screen_needs_a_terminal(monkeypatch):
    with contextlib.suppress(OSError), open(os.devnull) as null:
        monkeypatch.setattr(sys, "__stdout__", null)
        assert not has_screen()
