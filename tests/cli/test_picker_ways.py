"""What else the picker can do: an interrupted restore, an undo of everything, what is damaged in the store."""

import random
import shutil
import subprocess
import sys

import pytest

import casrewind as api
from casrewind.model import manifest
from casrewind.workspace import open as opened
from support.agent_turns import AgentTurns
from support.picker_screen import run_picker
from support.picture import picture
from support.terminal import Session
from support.trees import plant
from support.unchanged import unchanged


@pytest.fixture
def half_done(casrewind, root, home):
    """A restore that stopped in the middle: pictures of the checkpoint, and of before the restore."""
    plant(root, {f"f{number:02}": b"old" for number in range(20)})
    casrewind.json("save", "-m", "the aim")
    aim = picture(root)
    plant(root, {f"f{number:02}": b"new" for number in range(20)})
    before = picture(root)

    class Stopped(Exception):
        pass

    def stop(what, done, total):
        if what == "restoring" and done >= 5:
            raise Stopped

    settings = api.default_settings()._replace(data=str(home / "data"), home=str(home))
    with pytest.raises(Stopped), api.workspace.Workspace(str(root), settings, create=False, progress=stop) as workspace:
        workspace.restore("last")
    assert casrewind.json("status")["journal"] is not None
    return aim, before


@pytest.mark.parametrize("key, words", [("c", "restored"), ("a", "taken back: ")])
def test_an_interrupted_restore_is_said_first_and_finished_or_taken_back(half_done, casrewind, root, home, key, words):
    async def story(stage):
        await stage.shows("A restore was interrupted here.", "The restore of c", "c continue: finish it", "a abort: take it back", "n no")
        await stage.press("enter", "y", "escape")
        await stage.shows("a restore is half done: o to finish it or take it back", "1 checkpoint and 1 safety one")
        await stage.press("u")
        await stage.shows("A restore was interrupted here.")
        await stage.press("n", "o")
        await stage.shows("A restore was interrupted here.")
        await stage.press(key)
        await stage.shows("Done", words)
        await stage.press("enter")
        await stage.until(lambda text: "was interrupted" not in text and "half done" not in text and "checkpoint" in text)
        await stage.press("o")
        await stage.shows("no restore was interrupted here")

    app = run_picker(root, home, story)
    assert picture(root) == half_done[key == "a"] and casrewind.json("status")["journal"] is None
    assert app.state.outcome[0].startswith(words)


@pytest.mark.parametrize("answer, code", [("continue", 0), pytest.param("abort", 0, marks=pytest.mark.long)])
def test_an_interrupted_restore_on_the_plain_prompt(half_done, process, root, answer, code):
    session = Session([sys.executable, "-m", "casrewind", "-C", process.root], {**process.environment, "TERM": "dumb"})
    session.read_until(b"What now? [q] ")
    assert session.shown.index(b"A restore was interrupted here.") < session.shown.index(b"the aim")
    session.type(f"{answer}\nq\n")
    found, shown = session.end()
    assert found == code and shown.count(b"interrupted here") == 1
    assert picture(root) == half_done[answer == "abort"]


@pytest.fixture
def edited(casrewind, root):
    """A restore, and a file that was edited since; the picture of before the restore."""
    plant(root, {"a": b"1", "b": b"1"})
    casrewind.json("save")
    plant(root, {"a": b"2", "b": b"2"})
    before = picture(root)
    casrewind.json("restore", "last", "--yes")
    plant(root, {"a": b"edited since"})
    return before


def test_undo_keeps_what_was_edited_since_and_says_how_to_have_it_too(casrewind, root, home, edited):
    async def story(stage):
        await stage.shows("restored to")
        await stage.press("u")
        await stage.shows("Undo the restore to ", ": 1 written", "~ b", "left alone: a: edited since", "kept for redo")
        await stage.press("y")
        await stage.shows("Not all of it was done", "left alone: a: edited since")
        assert (root / "a").read_bytes() == b"edited since" and (root / "b").read_bytes() == b"2"

    app = run_picker(root, home, story)
    assert app.state.incomplete and (root / "b").read_bytes() == b"2"
    reference = "".join(app.state.outcome).partition("to put those back too: casrewind restore ")[2].split()[0]
    casrewind("restore", reference, "--yes", "--", "a", code=0)
    assert picture(root) == edited


def test_undo_all_takes_back_what_was_edited_since(root, home, edited):
    async def story(stage):
        await stage.shows("restored to")
        await stage.press("U")
        await stage.shows("Undo all: the restore to ", ": 2 written", "~ a", "~ b", "1 of these paths was edited since the restore. Those edits will be lost:")
        await stage.press("y")
        await stage.shows("Done", "undone: ", "r takes the undo back")

    run_picker(root, home, story)
    assert picture(root) == edited


def test_undo_and_redo_name_what_they_remove_and_change_nothing_before_the_answer(casrewind, root, home):
    plant(root, {"keep": b"1"})
    casrewind.json("save")
    plant(root, {f"src/{name}": b"work" for name in "abc"})
    casrewind.json("save", "-m", "work")
    shutil.rmtree(root / "src")
    casrewind.json("restore", "work", "--yes")
    restored = picture(root)

    async def story(stage):
        await stage.shows("restored to")
        await stage.press("u")
        await stage.shows("Undo the restore to 'work'", "3 REMOVED", "- src/", "Go on?")
        await stage.press("d")
        await stage.shows("-work")
        await stage.press("escape")
        await stage.shows("Go on?")
        assert picture(root) == restored
        await stage.press("n")
        await stage.shows("nothing was changed")
        await stage.press("u")
        await stage.shows("Go on?")
        await stage.press("y")
        await stage.shows("undone: the restore to 'work'", "r takes the undo back")
        assert not (root / "src").exists()
        await stage.press("escape", "r")
        await stage.shows("Redo the restore to 'work'", "3 written", "+ src/", "kept for undo")
        assert not (root / "src").exists()
        await stage.press("y")
        await stage.shows("redone: the restore to 'work'", "u takes the redo back")
        assert picture(root) == restored

    run_picker(root, home, story)


def test_without_a_restore_undo_and_redo_say_so(casrewind, root, home):
    plant(root, {"keep": b"1"})
    casrewind.json("save")

    async def story(stage):
        await stage.shows("saved")
        await stage.press("u")
        await stage.shows("nothing to undo")
        await stage.press("escape", "r")
        await stage.shows("nothing to redo")

    run_picker(root, home, story)


@pytest.fixture
def damaged(casrewind, root, home):
    """A checkpoint of two files, the bytes of one of which are damaged in the store; both were changed since."""
    plant(root, {"lost": random.Random(1).randbytes(100_000), "sound": b"1"})
    casrewind.json("save")
    (pack,) = (home / "data").glob("stores/*/packs/*")
    data = bytearray(pack.read_bytes())
    data[len(data) // 2] ^= 1
    pack.write_bytes(data)
    plant(root, {"lost": b"changed", "sound": b"changed"})


def test_what_is_damaged_is_left_alone_when_that_is_wanted(damaged, root, home):
    async def declining(stage):
        await stage.shows("edited since")
        await stage.press("c")
        await stage.shows("Damaged in the store.", "lost", "Go on?")
        await stage.press("n")
        await stage.shows("nothing was changed")

    async def agreeing(stage):
        await stage.shows("edited since")
        await stage.press("c")
        await stage.shows("Damaged in the store.")
        await stage.press("y")
        await stage.shows(": 1 written", "left alone: lost")
        await stage.press("y")
        await stage.shows("Not all of it was done", "left alone: lost")

    with unchanged(root, home / "data"):
        run_picker(root, home, declining)
    run_picker(root, home, agreeing)
    assert (root / "sound").read_bytes() == b"1" and (root / "lost").read_bytes() == b"changed"


@pytest.mark.long
def test_what_is_damaged_on_the_plain_prompt(damaged, process, root):
    session = Session([sys.executable, "-m", "casrewind", "-C", process.root], {**process.environment, "TERM": "dumb", "NO_COLOR": "1"})
    session.read_until(b"What now? [q] ")
    session.type("c last\n")
    session.read_until(b"Leave the damaged files alone, and plan everything else?\r\nGo on? [y/N] ")
    session.type("n")
    session.read_until(b"What now? [q] ", times=2)  # the error before the question says "nothing was changed", too
    assert b"nothing was changed" in session.shown and (root / "sound").read_bytes() == b"changed"
    session.shown = b""
    session.type("c last\n")
    session.read_until(b"plan everything else?\r\nGo on? [y/N] ")
    session.type("y")
    session.read_until(b"kept for undo. [y/N")
    session.type("y")
    session.read_until(b"1 path written")
    session.type("q\n")
    code, shown = session.end()
    assert code == 3 and (root / "sound").read_bytes() == b"1" and b"Traceback" not in shown


def test_where_standard_error_is_no_terminal_there_is_the_prompt(casrewind, process, root):
    plant(root, {"f": b"1"})
    casrewind.json("save")
    session = Session([sys.executable, "-m", "casrewind", "-C", process.root], process.environment, stderr=subprocess.DEVNULL)
    session.read_until(b"What now? [q] ")
    session.type("q\n")
    code, shown = session.end()
    assert code == 0 and b"\x1b[?1049h" not in shown


def test_every_kind_of_entry_has_a_size_or_none(casrewind):
    from casrewind.cli.picker import coloured_lines
    from casrewind.model.diff import Change

    link = manifest.link_entry(b"target")
    assert coloured_lines.change_details(Change(b"l", None, link)) == ""
    assert coloured_lines.change_details(Change(b"f", None, manifest.Entry(manifest.FILE, 0o644, 2048, 0, b"d" * 32))) == "  2.0 KiB"


def test_a_turn_that_was_reverted_has_its_row(casrewind, root, home, settings):
    plant(root, {"f": b"1"})
    with opened(root, settings) as workspace:
        agent = AgentTurns(workspace, root)
        agent.prompt("a", "make g")
        plant(root, {"g": b"1"})
        agent.stop("a")
    casrewind("revert", "@1", "-y", code=0)

    async def story(stage):
        await stage.shows("reverted @1", "make g (taken back)")

    run_picker(root, home, story)


def test_x_takes_back_the_turn_and_merges_what_was_edited_since(casrewind, root, home, settings):
    lines = [b"%d\n" % number for number in range(1, 10)]
    plant(root, {"f": b"".join(lines), "g": b"1\n"})
    with opened(root, settings) as workspace:
        agent = AgentTurns(workspace, root)
        agent.prompt("a", "change both")
        plant(root, {"f": b"".join([b"one\n", *lines[1:]]), "g": b"2\n", "h": b"new\n"})
        agent.stop("a")
    plant(root, {"f": b"".join([b"one\n", *lines[1:-1], b"mine\n"]), "g": b"mine\n"})

    async def story(stage):
        await stage.shows("change both")
        await stage.press("down", "x")
        await stage.shows('Take back @1 "change both"', ": 1 written (1 merged with later edits),", "1 REMOVED")
        await stage.shows("merged: 1 place taken back, 1 line of yours kept", "left alone: g: line 1 was edited since by you")
        await stage.press("d")
        await stage.shows("-one", "+1")
        await stage.press("escape")
        await stage.shows("Go on?")
        await stage.press("y")
        await stage.shows("Not all of it was done", "1 path written (1 merged with later edits)")
        await stage.press("enter")
        await stage.press("up", "x")
        await stage.shows("x takes back what a turn changed: go to a turn first")

    run_picker(root, home, story)
    assert (root / "f").read_bytes() == b"".join([*lines[:-1], b"mine\n"]) and (root / "g").read_bytes() == b"mine\n"
    assert not (root / "h").exists()


def test_what_was_undone_is_one_row_as_in_the_list(casrewind, root, home):
    plant(root, {"a": b"1"})
    casrewind.json("save", "-m", "the aim")
    plant(root, {"a": b"2"})
    for words in (("restore", "the aim"), ("undo",), ("redo",), ("undo",)):
        casrewind(*words, "--yes", code=0)
    listed = [line.partition("  ")[0] for line in (row.strip() for row in casrewind("list", code=0).out.splitlines()) if "'the aim'" in line]
    assert listed == ["redone: the restore to 'the aim' (undone)", "restored to 'the aim' (undone)"]

    async def story(stage):
        await stage.until(lambda text: [row.partition(")")[0].removeprefix("▶ ") + ")" for row in stage.rows() if "'the aim'" in row] == listed)

    run_picker(root, home, story)


def test_a_plan_of_the_picker_names_no_option(root, home):
    settings = api.default_settings()._replace(data=str(home / "data"), home=str(home))
    with opened(root, settings) as workspace:
        plant(root, {"f": b"0\n"})
        one, other = AgentTurns(workspace, root, "s1"), AgentTurns(workspace, root, "s2")
        one.prompt("a", "first")
        other.prompt("b", "second")
        plant(root, {"f": b"1\n"})
        one.stop("a")
        plant(root, {"g": b"1\n"})
        other.stop("b")

    async def story(stage):
        await stage.shows("@2 first")
        await stage.press("x")
        await stage.until(lambda text: "left alone" in text and "ran, too" in text and "--" not in text)

    run_picker(root, home, story)
