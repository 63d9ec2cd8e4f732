"""The picker, driven by textual's pilot with the real workspace behind it, and as a plain prompt on a terminal."""

import contextlib
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import threading
import time

import pytest

import casrewind as api
from casrewind.cli.commands.pick import has_screen
from casrewind.cli.picker import worker
from casrewind.cli.picker.progress_relay import ProgressRelay
from casrewind.cli.picker.worker import Worker
from support.agent_turns import AgentTurns
from support.picker_screen import run_picker
from support.picker_window import Window
from support.picture import picture
from support.trees import plant
from support.unchanged import unchanged

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


@pytest.fixture
def turned(root, home):
    """Three turns of two sessions, with an edit by a person between them; since then a file was edited. Pictures before the last turn
    that changed something, and of now."""
    settings = api.default_settings()._replace(data=str(home / "data"), home=str(home))
    plant(root, {"till.py": b"def total():\n    return 1\n", "old/a.py": b"a\n", "old/b.py": b"b\n"})
    with api.open(root, settings) as workspace:
        first, second = AgentTurns(workspace, root, "aaaa-1"), AgentTurns(workspace, root, "bbbb-2")
        first.tell("SessionStart")
        first.prompt("p1", "write a till")
        plant(root, {"till.py": b"def total():\n    return 2\n"})
        first.stop("p1")
        plant(root, {"shelf.txt": b"by a person\n"})
        first.prompt("p2", "clean up:\nremove what is old\n\n* and say so")
        before = picture(root)
        (root / "old/a.py").unlink()
        (root / "old/b.py").unlink()
        plant(root, {"till.py": b"def total():\n    return 3\n"})
        first.stop("p2")
        second.prompt("p3", "what is here?")
        second.stop("p3")
    plant(root, {"notes.md": b"n\n"})
    return before, picture(root)


def test_the_timeline_and_the_change_of_the_chosen_one(turned, root, home):
    async def story(stage):
        await stage.shows("3 turns of 2 sessions, 7 checkpoints", "edited since", "+1")
        rows = stage.rows()
        wanted = ["edited since", "@1 what is here?", "@2 clean up: …", "edited outside of a turn", "@3 write a till"]
        assert len(rows) == len(wanted) and all(words in row for words, row in zip(wanted, rows, strict=True)), rows
        assert "no change" in rows[1] and "~1 -2" in rows[2] and "+1" in rows[3] and "~1" in rows[4]
        assert "▶" in rows[2], "it opens on the newest turn that changed something"
        assert "claude aaaa" in rows[2] and "claude bbbb" in rows[1]
        await stage.press("enter")
        await stage.shows("@2", "this turn: 2 removed, 1 changed", "clean up:", "remove what is old", "* and say so", "till.py  +1 -1", "deleted file mode")
        text = stage.text()
        assert text.index("* and say so") < text.index("old/") < text.index("~  till.py"), "the prompt first, then removals"
        await stage.press("G")
        await stage.shows("-    return 2", "+    return 3")
        await stage.press("v")
        await stage.shows("to here: 1 go, 1 change, 2 come back", "-  notes.md", "+  ▾ old/ (2 files)", "-    return 3", "+    return 2")
        await stage.press("v")
        await stage.shows("this turn: 2 removed, 1 changed")
        await stage.press("right_square_bracket")
        await stage.shows("what changed: 1 added · edited outside of a turn", "+by a person")
        await stage.press("escape")
        for key in ("enter open", "c restore", "t chat", "b both", "m looked at", "u undo", "r redo", "v to here", "/ filter", "a all", "? help", "q quit"):
            assert key in stage.text()

    with unchanged(root, home / "data"):
        run_picker(root, home, story)


def test_it_says_whether_the_files_of_now_are_saved_and_counts_as_list_does(wrecked, root, home):
    async def story(stage):
        await stage.shows("no turns yet, 3 checkpoints", "2 files differ from the newest checkpoint")
        await stage.press("escape")
        await stage.shows("q quits")
        await stage.press("j", "c")
        await stage.shows("Go on?")
        await stage.press("y")
        await stage.shows("Done")
        await stage.press("enter")
        await stage.shows("3 checkpoints and 1 safety one")
        await stage.press("escape", "j")
        await stage.press("v", "v")
        await stage.shows("all files are saved")

    run_picker(root, home, story)


def test_a_restore_goes_to_before_the_prompt_and_names_it(turned, root, home):
    before, now = turned

    async def story(stage):
        await stage.shows("edited since")
        await stage.press("c")
        await stage.shows('Restore files to before "clean up:"', " written, 1 REMOVED", "d patch")
        text = stage.text()
        assert text.index("- notes.md") < text.index("+ old/")
        await stage.press("d")
        await stage.shows("deleted file mode", "back to the question")
        await stage.press("G")
        await stage.shows("-    return 3", "+    return 2")
        await stage.press("enter")
        await stage.shows("d patch", "Go on?")
        assert picture(root) == now
        await stage.press("y")
        await stage.shows("Done", "u takes this back")
        await stage.press("enter")
        await stage.shows('restored to before "clean up')

    run_picker(root, home, story)
    assert picture(root) == before


def test_a_question_has_no_colours_of_a_terminal_in_its_text(turned, root, home, monkeypatch):
    """Nor has the report, where the environment wants colours of every command."""
    monkeypatch.setenv("FORCE_COLOR", "1")

    async def story(stage):
        await stage.shows("edited since")
        await stage.press("c")
        await stage.shows("1 REMOVED", "- notes.md", "~ till.py", "+ old/")
        assert "\x1b" not in stage.text() and "[31m" not in stage.text()
        await stage.press("y")
        await stage.shows("u takes this back")
        assert "\x1b" not in stage.text()

    assert "\x1b" not in "".join(run_picker(root, home, story).state.outcome)


def test_right_unfolds_a_turn_and_escape_never_leaves(turned, root, home):
    async def story(stage):
        await stage.shows("edited since", "@2")
        await stage.press("right")
        await stage.shows("· turn end", "· prompt clean up:")
        await stage.press("down", "down", "left")
        assert "▶" in next(row for row in stage.rows() if "@2" in row), "left goes to the turn"
        await stage.press("left")
        await stage.until(lambda text: "· turn end" not in text)
        await stage.press("a")
        await stage.shows("· session start", "· prompt what is here?", "· prompt write a till")
        await stage.press("a", "enter", "enter")
        await stage.shows("space choose hunk", "[ ] hunks")
        for shown in ("space choose  a all", "t chat"):
            await stage.press("escape")
            await stage.shows(shown)
        await stage.press("escape", "escape")
        await stage.shows("q quits")
        assert stage.app.return_value is None
        await stage.press("q")
        assert stage.app.return_value == 0

    with unchanged(root, home / "data"):
        run_picker(root, home, story)


def test_the_keys_of_lists(turned, root, home):
    async def story(stage):
        async def on(*words):
            await stage.until(lambda _: any("▶" in row and all(word in row for word in words) for row in stage.rows()))

        await stage.shows("edited since")
        for key, words in (("G", "@3"), ("k", "outside"), ("g", "since"), ("j", "@1"), ("ctrl+d", "@3"), ("ctrl+u", "since"), ("end", "@3")):
            await stage.press(key)
            await on(words)
        for key, words in (("left_square_bracket", "@1"), ("right_square_bracket", "@2"), ("left_square_bracket", "@1")):
            await stage.press(key)
            await on(words)
        await stage.press("left_square_bracket")
        await stage.shows("no other session in this direction")
        await stage.press("question_mark")
        await stage.shows("Keys", "one step back")
        await stage.press("G")
        await stage.shows("quit")
        await stage.press("question_mark")
        await stage.until(lambda text: "Keys" not in text)

    with unchanged(root, home / "data"):
        run_picker(root, home, story)


def test_a_restore_shows_its_plan_asks_once_and_says_what_it_did(wrecked, root, home):
    first, _, now = wrecked

    async def story(stage):
        await stage.shows("edited since")
        await stage.press("end", "c")
        await stage.shows("Restore files to 'the beginning'", "2 written, 2 REMOVED", "- new.txt", "~ till.py", "kept for undo")
        assert picture(root) == now
        await stage.press("enter", "x")
        assert "Go on?" in stage.text() and picture(root) == now, "only y is yes"
        await stage.press("y")
        await stage.shows("Done", "restored to ", "2 paths written, 2 removed", "u takes this back")
        assert picture(root) == first
        await stage.press("escape")
        await stage.shows("restored to 'the beginning'")
        await stage.press("u")
        await stage.shows("Undo the restore to ", "Go on?")
        await stage.press("n")
        await stage.shows("nothing was changed")
        await stage.press("u")
        await stage.shows("Undo the restore to ", "+ new.txt", "Go on?")
        assert picture(root) == first
        await stage.press("y")
        await stage.shows("undone: ", "r takes the undo back")
        assert picture(root) == now
        await stage.press("escape")
        await stage.shows("undone: the restore to 'the beginning'")
        await stage.press("r")
        await stage.shows("Redo the restore to ", "- new.txt", "Go on?")
        await stage.press("y")
        await stage.shows("redone: ")
        assert picture(root) == first

    app = run_picker(root, home, story)
    assert app.state.outcome[0].startswith("restored to ") and app.state.outcome[1].startswith("  2 paths") and not app.state.incomplete
    assert any(line.startswith("redone: ") for line in app.state.outcome)


@pytest.mark.parametrize("key", ["escape", "q", *(pytest.param(key, marks=pytest.mark.long) for key in ("n", "ctrl+c"))])
def test_no_at_the_plan_changes_nothing(wrecked, root, home, key):
    async def story(stage):
        await stage.shows("edited since")
        await stage.press("b" if key == "q" else "c")
        await stage.shows("Go on?" if key != "q" else "belongs to no conversation")
        await stage.press(key)
        await stage.shows("nothing was changed" if key != "q" else "3 checkpoints")

    with unchanged(root, home / "data"):
        assert run_picker(root, home, story).state.outcome == []


def test_an_error_names_a_key_and_leaves_what_was_chosen(wrecked, root, home):
    async def story(stage):
        await stage.shows("edited since")
        await stage.press("slash")
        await stage.type("step")
        await stage.press("enter", "enter")
        await stage.shows("to here: ", "[ ] ~  till.py")
        await stage.press("G", "space")
        await stage.shows("1 chosen", "[x] ~  till.py")
        await stage.press("b")
        await stage.shows("belongs to no conversation", "c restores the files")
        assert "--" not in stage.text()
        await stage.press("enter")
        await stage.shows("[x] ~  till.py", "second step", "1 row with 'step'")
        await stage.press("c")
        await stage.shows("1 written")
        await stage.press("n")

    with unchanged(root, home / "data"):
        run_picker(root, home, story)


def test_leaving_while_the_plan_is_asked_is_no(wrecked, root, home):
    async def story(stage):
        await stage.shows("edited since")
        await stage.press("c")
        await stage.shows("Go on?")

    with unchanged(root, home / "data"):
        run_picker(root, home, story)


@pytest.mark.long
def test_ctrl_c_in_the_middle_of_a_restore_leaves_one_that_can_be_taken_back(casrewind, root, home):
    plant(root, {f"f{number:03}": b"old" for number in range(300)})
    casrewind.json("save")
    plant(root, {f"f{number:03}": b"new" for number in range(300)})
    now = picture(root)

    async def story(stage):
        await stage.shows("edited since")
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

    run_picker(root, home, story)
    assert casrewind.json("status")["journal"] is not None
    casrewind("restore", "--abort", code=0)
    assert picture(root) == now


def test_only_chosen_files_are_restored(wrecked, root, home):
    async def story(stage):
        await stage.shows("edited since")
        await stage.press("end", "enter")
        await stage.shows("to here: 2 go, 2 change")
        await stage.press("space", "down", "space")
        await stage.shows("2 chosen", "[x] -  new.txt", "[x] ~  logo.bin")
        await stage.press("k", "space")
        await stage.shows("1 chosen", "[x] -  new.txt", "[ ] ~  logo.bin")
        await stage.press("c")
        await stage.shows(": 1 REMOVED")
        await stage.press("y")
        await stage.shows("Done")

    run_picker(root, home, story)
    assert not (root / "new.txt").exists() and (root / "till.py").read_bytes() == b"wrecked\n" and (root / "src/b.py").exists()


@pytest.fixture
def removed_by_hand(root, home):
    """A turn, then a person removes a file that it made and one that was there before; then another turn."""
    settings = api.default_settings()._replace(data=str(home / "data"), home=str(home))
    plant(root, {"till.py": b"1\n", "notes.md": b"n\n"})
    with api.open(root, settings) as workspace:
        agent = AgentTurns(workspace, root, "aaaa-1")
        agent.prompt("p1", "write a till")
        plant(root, {"till.py": b"2\n", "made.py": b"m\n"})
        agent.stop("p1")
        (root / "notes.md").unlink()
        (root / "made.py").unlink()
        agent.prompt("p2", "look around")
        plant(root, {"till.py": b"3\n"})
        agent.stop("p2")


def test_a_file_that_a_person_removed_comes_back_at_the_row_of_that_edit(removed_by_hand, root, home):
    async def story(stage):
        await stage.shows("edited outside of a turn", "-2")
        await stage.press("down", "enter")
        await stage.shows("what changed: 2 removed", "-  notes.md")
        await stage.press("G", "space")
        await stage.shows("[x] -  notes.md")
        await stage.press("c")
        await stage.shows('Restore files to after "write a till"', "+ notes.md", "Go on?")
        await stage.press("y")
        await stage.shows("Done")

    run_picker(root, home, story)
    assert (root / "notes.md").read_bytes() == b"n\n" and not (root / "made.py").exists() and (root / "till.py").read_bytes() == b"3\n"


def test_a_file_that_a_restore_removed_comes_back_at_the_row_of_that_restore(casrewind, root, home):
    plant(root, {"a": b"1"})
    casrewind.json("save", "-m", "the beginning")
    plant(root, {"a": b"2", "b": b"b"})
    casrewind("restore", "last", "-y", code=0)

    async def story(stage):
        await stage.shows("restored to 'the beginning'")
        await stage.press("enter")
        await stage.shows("what changed: 1 removed, 1 changed", "-  b")
        await stage.press("space", "c")
        await stage.shows("+ b", "Go on?")
        await stage.press("y")
        await stage.shows("Done")

    run_picker(root, home, story)
    assert (root / "b").read_bytes() == b"b" and (root / "a").read_bytes() == b"1"


def test_a_file_that_is_nowhere_has_nothing_to_restore(removed_by_hand, root, home):
    async def story(stage):
        await stage.shows("edited outside of a turn", "-2")
        await stage.press("down", "down", "enter")
        await stage.shows("this turn: 1 changed, 1 added", "+  made.py")
        await stage.press("g", "space", "c")
        await stage.shows("nothing to restore: the chosen files were not there before this", "shows what c would change")

    with unchanged(root, home / "data"):
        run_picker(root, home, story)


def test_files_are_chosen_by_directories_ranges_and_words(casrewind, root, home):
    plant(root, {f"many/f{number:02}": b"1\n" for number in range(30)} | {f"few/g{number}": b"1\n" for number in range(4)} | {"x": b"1\n"})
    casrewind.json("save", "-m", "all of it")
    plant(root, {f"many/f{number:02}": b"2\n" for number in range(30)} | {f"few/g{number}": b"2\n" for number in range(4)} | {"x": b"2\n"})

    async def story(stage):
        await stage.shows("edited since")
        await stage.press("end", "enter")
        await stage.shows("35 change", "[ ] ~  ▾ few/ (4 files)", "▸ many/ (30 files)", "~    g3")
        await stage.press("a")
        await stage.shows("35 chosen", "[x] ~  ▸ many/")
        await stage.press("a")
        await stage.until(lambda text: "chosen" not in text and "[x]" not in text)
        await stage.press("g", "space")
        await stage.shows("4 chosen", "[x] ~  ▾ few/", "[x] ~    g0")
        await stage.press("g", "left")
        await stage.until(lambda text: "g3" not in text)
        await stage.press("j", "right")
        await stage.shows("▾ many/ (30 files)", "f05")
        await stage.press("j", "J", "J")
        await stage.shows("7 chosen", "[~] ~  ▾ many/", "[x] ~    f02", "[ ] ~    f03")
        await stage.press("slash")
        await stage.type("f2")
        await stage.press("enter")
        await stage.until(lambda text: "f20" in text and "f26" in text and "f11" not in text and "few/" not in text)
        await stage.press("escape")
        await stage.shows("▾ many/ (30 files)", "7 chosen")
        await stage.press("c")
        await stage.shows("7 written")
        await stage.press("y")
        await stage.shows("Done")

    run_picker(root, home, story)
    restored = {str(path.relative_to(root)) for path in root.rglob("*") if path.is_file() and path.read_bytes() == b"1\n"}
    assert restored == {"few/g0", "few/g1", "few/g2", "few/g3", "many/f00", "many/f01", "many/f02"}


@pytest.fixture
def hunky(casrewind, root):
    """A checkpoint of two files; now both differ in three places each. The lines of both sides."""
    old = [b"line %d\n" % number for number in range(60)]
    new = [*old]
    new[5], new[30] = b"changed 5\n", b"changed 30\n"
    new[55:57] = []
    plant(root, {"a.py": b"".join(old), "b.py": b"".join(old)})
    casrewind.json("save", "-m", "before")
    plant(root, {"a.py": b"".join(new), "b.py": b"".join(new)})
    return old, new


def test_chosen_hunks_are_restored_and_undone(hunky, casrewind, root, home):
    old, new = hunky
    wanted = [*new]
    wanted[30] = old[30]

    async def story(stage):
        await stage.shows("edited since")
        await stage.press("end", "enter", "enter")
        await stage.shows("[ ] @@ -", "-changed 5")
        await stage.press("right_square_bracket", "space")
        await stage.shows("1 hunk chosen", "[x] @@ -2")
        await stage.press("b")
        await stage.shows("parts of files are restored with c")
        await stage.press("c")
        await stage.shows("Restore files to 'before'", "parts of 1 file only: 1 written", "~ a.py")
        await stage.press("d")
        await stage.shows("-changed 30", "+line 30")
        assert "line 5" not in stage.text().replace("line 55", "")
        await stage.press("enter")
        await stage.shows("Go on?")
        await stage.press("y")
        await stage.shows("Done", "restored to ", "1 path written")
        assert (root / "a.py").read_bytes() == b"".join(wanted) and (root / "b.py").read_bytes() == b"".join(new)
        await stage.press("enter", "u")
        await stage.shows("Undo the restore to ")
        await stage.press("y")
        await stage.shows("undone: ")
        assert (root / "a.py").read_bytes() == b"".join(new)

    run_picker(root, home, story, size=(120, 40))
    casrewind("gc", code=0)
    casrewind("verify", code=0)
    casrewind("redo", "--yes", code=0)
    assert (root / "a.py").read_bytes() == b"".join(wanted)


def test_all_hunks_are_the_other_side_and_none_are_this_one():
    from casrewind.cli.show import patch
    from casrewind.cli.picker import patch_lines
    from casrewind.cli.plan import hunks
    from casrewind.model import digest
    from casrewind.model.diff import Change
    from casrewind.model.manifest import FILE, Entry
    from casrewind.history.compare import Comparison

    chance = random.Random(5)
    for _ in range(300):
        old = [b"%d\n" % chance.randrange(30) for _ in range(chance.randrange(60))]
        new = [line for line in old if chance.random() < 0.95]
        for _ in range(chance.randrange(4)):
            new.insert(chance.randrange(len(new) + 1), chance.choice((b"new\n", b"\r\n", b"\xff\n")))
        sides = [b"".join(side).removesuffix(chance.choice((b"\n", b""))) for side in (old, new)]
        change = Change(b"f", *(Entry(FILE, 0o644, len(side), 0, digest.of(side)) for side in sides))
        found = Comparison((change,), (), lambda *_, sides=sides: sides[0], lambda *_, sides=sides: sides[1])
        texts = patch.lines_of_both_sides(found, change)
        count = len(list(patch.hunks(texts, change.path)))
        assert hunks.edit_with_hunks(found, change, range(count)).wanted == change.new
        assert hunks.edit_with_hunks(found, change, ()).wanted.digest == change.old.digest
        shown = max((line.part for line in patch_lines.change_as_lines(found, change)), default=-1) + 1
        assert shown == count, "the hunks that are shown are those that are applied"


def test_hunks_of_a_file_that_was_edited_meanwhile_change_nothing(hunky, root, home):
    async def story(stage):
        await stage.shows("edited since")
        await stage.press("end", "enter", "enter")
        await stage.shows("[ ] @@ -")
        await stage.press("a")
        await stage.shows("3 hunks chosen")
        plant(root, {"a.py": b"edited meanwhile\n"})
        await stage.press("c")
        await stage.shows("That could not be done", "has changed since its parts were chosen")
        await stage.press("enter")
        await stage.shows("what was chosen is no longer shown: choose again")
        await stage.press("escape", "c")
        await stage.shows("what was chosen is no longer shown: choose again")

    run_picker(root, home, story)
    assert (root / "a.py").read_bytes() == b"edited meanwhile\n"


def test_chosen_hunks_of_a_turn_are_taken_back(turned, root, home):
    async def story(stage):
        await stage.shows("edited since")
        await stage.press("enter", "G", "enter")
        await stage.shows("this turn: ", "space choose hunk", "[ ] @@ -")
        await stage.press("space")
        await stage.shows("1 hunk chosen: x takes back only these", "[x] @@ -")
        await stage.press("c")
        await stage.shows("hunks of this turn are taken back with x; v shows what c restores")
        await stage.press("x")
        await stage.shows("Take back @2", "only: 1 written", "~ till.py")
        await stage.press("d")
        await stage.shows("-    return 3", "+    return 2")
        await stage.press("enter")
        await stage.shows("Go on?")
        await stage.press("y")
        await stage.shows("Done", "reverted @2")

    run_picker(root, home, story)
    assert (root / "till.py").read_bytes() == b"def total():\n    return 2\n" and not list((root / "old").iterdir())
    assert (root / "notes.md").read_bytes() == b"n\n"


def test_x_takes_back_a_turn_or_chosen_files_of_it(turned, root, home):
    async def story(stage):
        await stage.shows("edited since")
        await stage.press("enter")
        await stage.shows("this turn: 2 removed, 1 changed")
        await stage.press("v", "G", "enter")
        await stage.shows("to here: ", "[ ] @@ -")
        await stage.press("space")
        await stage.shows("1 hunk chosen")
        await stage.press("x")
        await stage.shows("the chosen hunks are parts of a restore: c restores them, escape chooses none")
        await stage.press("v", "escape")
        await stage.shows("this turn: 2 removed, 1 changed")
        await stage.press("g", "space", "x")
        await stage.shows("Take back @2", ": 2 written", "+ old/")
        await stage.press("y")
        await stage.shows("Done")
        assert (root / "old/b.py").exists() and (root / "till.py").read_bytes() == b"def total():\n    return 3\n"
        await stage.press("enter", "escape")
        await stage.shows("reverted @2")
        await stage.press("g", "x")
        await stage.shows("x takes back what a turn changed: go to a turn first")

    run_picker(root, home, story)


def test_after_a_switch_nothing_is_restored_that_is_not_marked(turned, root, home):
    async def story(stage):
        await stage.shows("edited since")
        await stage.press("enter", "G", "enter")
        await stage.shows("this turn: ", "space choose hunk")
        await stage.press("c", "b")
        await stage.shows("no hunk is chosen: space chooses one, escape leaves the file")
        assert len(stage.app.screen_stack) == 1 and not stage.app.state.acting
        await stage.press("space")
        await stage.shows("1 hunk chosen", "[x] @@ -")
        await stage.press("v")
        await stage.shows("to here: ", "what was chosen is no longer shown: choose again")
        await stage.press("escape", "c")
        await stage.shows("what was chosen is no longer shown")
        await stage.press("space")
        await stage.shows("1 chosen")
        await stage.press("escape")
        await stage.until(lambda text: "chosen" not in text)
        await stage.press("c")
        await stage.shows("Go on?", " written")
        await stage.press("n")

    with unchanged(root, home / "data"):
        run_picker(root, home, story)


def test_space_says_why_it_shows_what_a_restore_changes(turned, root, home):
    """What a person changed outside of a turn cannot be taken back by hunks."""

    async def story(stage):
        await stage.shows("edited since")
        await stage.press("down", "enter", "enter")
        await stage.shows("what changed: ")
        await stage.press("space")
        await stage.shows("to here: ", "hunks are parts of a restore: this is what a restore to here changes")
        await stage.press("c")
        await stage.shows("no hunk is chosen")

    with unchanged(root, home / "data"):
        run_picker(root, home, story)


def test_a_choice_ends_with_its_view(wrecked, root, home):
    async def story(stage):
        await stage.shows("edited since")
        await stage.press("end", "enter")
        await stage.shows("to here: 2 go, 2 change")
        await stage.press("G", "enter")
        await stage.shows("[ ] @@ -")
        await stage.press("space")
        await stage.shows("1 hunk chosen")
        stage.app.view.show_and_focus("#timeline")
        await stage.press("escape")
        await stage.until(lambda text: "to here: " not in text)
        assert not stage.app.state.parts and not stage.app.state.checked
        await stage.press("c")
        await stage.shows("Restore files to", "2 REMOVED")
        await stage.press("n")

    with unchanged(root, home / "data"):
        run_picker(root, home, story, size=(120, 40))


def test_files_that_a_filter_hides_are_not_restored(wrecked, root, home):
    async def story(stage):
        await stage.shows("edited since")
        await stage.press("end", "enter")
        await stage.shows("to here: 2 go, 2 change")
        await stage.press("slash")
        await stage.type("till")
        await stage.press("enter")
        await stage.until(lambda text: "logo.bin" not in text)
        await stage.press("c")
        await stage.shows("the filter hides files: press a to choose those shown, escape to end it")
        await stage.press("a")
        await stage.shows("1 chosen")
        await stage.press("c")
        await stage.shows("1 written", "~ till.py")
        await stage.press("y")
        await stage.shows("Done")

    run_picker(root, home, story)
    assert (root / "new.txt").exists() and (root / "till.py").read_bytes() != b"wrecked\n"


def test_copying_goes_to_the_clipboard_of_the_terminal(turned, root, home):
    async def story(stage):
        await stage.shows("edited since")
        await stage.press("y")
        await stage.shows("Copy to the clipboard", "i id", "t text of the prompt", "n no")
        await stage.press("n", "y", "t")
        await stage.shows("copied the text of the prompt")
        assert stage.app.clipboard == "clean up:\nremove what is old\n\n* and say so"
        await stage.press("enter", "G")
        await stage.shows("till.py")
        await stage.press("y")
        await stage.shows("p path   i id   t text")
        await stage.press("p")
        await stage.shows("copied the path")
        assert stage.app.clipboard == "till.py"
        await stage.press("y", "i")
        await stage.until(lambda _: stage.app.clipboard.startswith("c") and len(stage.app.clipboard) == 15)

    with unchanged(root, home / "data"):
        run_picker(root, home, story)


@pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux is not installed")
def test_no_editor_of_the_project_is_started(turned, casrewind, root, tmp_path):
    plant(root, {"edit-it": b"#!/bin/sh\ntouch ran\n"})
    (root / "edit-it").chmod(0o755)
    window = Window(casrewind, tmp_path / "tmux", (100, 30), VISUAL="edit-it", PATH=f".:{os.environ['PATH']}")
    try:
        window.shows("edited since", "+2")
        window.press("Enter")
        window.shows("this turn: ", "till.py")
        window.press("G", "e")
        window.shows("cannot start the editor 'edit-it'")
    finally:
        window.end()
    assert not (root / "ran").exists()


@pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux is not installed")
def test_the_editor_opens_the_file_and_its_edit_is_seen(turned, casrewind, root, tmp_path):
    editor = tmp_path / "an editor"
    editor.write_text('#!/bin/sh\necho edited >> "$2"; echo "in the editor: $1"; sleep 1\n')
    editor.chmod(0o755)
    window = Window(casrewind, tmp_path / "tmux", (100, 30), VISUAL=f"'{editor}' --wait", EDITOR="false")
    try:
        window.shows("edited since", "+1")
        window.press("Enter")
        window.shows("this turn: ", "till.py")
        window.press("e")
        window.shows("old/a.py is not there now")
        window.press("G")
        window.shows("+    return 3")
        window.press("e")
        window.shows("in the editor: --wait")
        window.press("v")
        window.shows("to here: ", "-edited", "▶[ ] ~  till.py")
        window.press("q")
        window.shows("ended with 0")
    finally:
        window.end()
    assert (root / "till.py").read_bytes().endswith(b"edited\n")


def test_b_shows_who_wrote_each_line_of_a_file_as_it_is_now(turned, root, home):
    async def story(stage):
        await stage.shows("@2 clean up")
        await stage.press("B")
        await stage.shows("go to a file first: B shows who wrote its lines")
        await stage.press("enter")
        await stage.shows("this turn: ", "till.py  +1 -1", "B blame")
        await stage.press("B")
        await stage.shows("old/a.py is not there now: B shows files as they are now")
        await stage.press("G", "B")
        await stage.shows("who wrote till.py, as it is now", "older", "1  def total():", "2      return 3")
        (written,) = [line for line in stage.text().splitlines() if "2      return 3" in line]
        assert "@2     clean up" in written
        assert "B patch" in stage.text() and "hunk" not in stage.text() and "c restore" not in stage.text()
        await stage.press("space")
        await stage.shows("no hunks here: B shows the patch again")
        await stage.press("right_square_bracket")
        await stage.shows("no hunks here: B shows the patch again")
        await stage.press("B")
        await stage.shows("-    return 2", "+    return 3", "space choose hunk")
        await stage.press("B")
        await stage.shows("who wrote till.py, as it is now")
        await stage.press("escape")
        await stage.shows("-    return 2", "+    return 3", "space choose")

    with unchanged(root, home / "data"):
        run_picker(root, home, story)


def test_the_whole_prompt_is_shown_even_where_the_checkpoint_has_its_start(root, home, monkeypatch):
    text = "\n".join(f"line {number} of a long prompt" for number in range(30))
    settings = api.default_settings()._replace(data=str(home / "data"), home=str(home))
    with api.open(root, settings) as workspace:
        agent = AgentTurns(workspace, root)
        agent.prompt("p1", text)
        plant(root, {"f": b"1\n"})
        agent.stop("p1")
    monkeypatch.setattr("casrewind.history.conversation.full_prompt", lambda *_: text)

    async def story(stage):
        await stage.shows("line 0 of a long prompt …")
        await stage.press("enter")
        await stage.shows("line 0", "line 5 of a long prompt", "this turn: 1 added")
        await stage.press("shift+tab")
        await stage.press("G")
        await stage.shows("line 29 of a long prompt")

    run_picker(root, home, story)


def test_code_is_coloured_by_its_syntax():
    from casrewind.cli.picker import patch_lines
    from casrewind.model.diff import Change
    from casrewind.model.manifest import FILE, Entry
    from casrewind.history.compare import Comparison

    old, new = b"# a\tcomment\n'kept'\nx = 1\n", b"# a\tcomment\n'kept'\ndef x():\n    return 'text'\n"
    change = Change(b"a.py", Entry(FILE, 0o644, len(old), 0, b"o" * 32), Entry(FILE, 0o644, len(new), 0, b"n" * 32))
    lines = patch_lines.change_as_lines(Comparison((change,), (), lambda *_: old, lambda *_: new), change)
    found = {(line.text[start:end], style) for line in lines for start, end, style in line.spans}
    assert {("# a        comment", "italic bright_black"), ("def", "magenta"), ("return", "magenta"), ("1", "cyan"), ("kept", "yellow")} <= found
    plain = patch_lines.change_as_lines(Comparison((change,), (), lambda *_: old, lambda *_: new), change._replace(path=b"a.unknown"))
    assert not any(line.spans for line in plain) and [line.text for line in plain][4:] == [line.text for line in lines][4:]


def test_pin_label_and_compare(wrecked, root, home, casrewind):
    async def story(stage):
        await stage.shows("edited since")
        await stage.press("j", "p")
        await stage.shows("* saved ")
        await stage.press("p")
        await stage.until(lambda text: "* saved " not in text and "unpinned" in text)
        await stage.press("l")
        await stage.shows("Label for")
        await stage.type("good")
        await stage.shows("│ good ")
        await stage.press("escape")
        await stage.shows("3 checkpoints")
        await stage.press("l")
        await stage.shows("Label for")
        await stage.type("good one")
        await stage.press("enter")
        await stage.shows("saved: good one")
        await stage.press("end", "d")
        await stage.shows("comparing with saved: the beginning", "◆saved: the beginning")
        await stage.press("home", "j", "enter")
        await stage.shows("from saved: the beginning to here: ", "1 change, 2 come back", "+n")
        await stage.press("escape", "escape", "enter")
        await stage.shows("to here: 2 change")

    with unchanged(root):
        run_picker(root, home, story)
    assert [point["label"] for point in casrewind.json("list")["checkpoints"]] == ["good one", "second step", "the beginning"]


def test_a_filter_finds_words_and_paths(wrecked, turned, root, home):
    async def story(stage):
        await stage.shows("edited since", "3 turns")
        await stage.press("slash")
        await stage.type("beginning")
        await stage.shows("1 row with 'beginning'", "the beginning")
        assert "second step" not in stage.text()
        await stage.press("escape")
        await stage.shows("3 turns")
        await stage.press("slash")
        await stage.type("new.txt")
        await stage.shows("1 row with", "edited outside of a turn")
        await stage.press("enter", "escape", "slash")
        await stage.type("and say so")
        await stage.shows("1 row with", "@2")
        await stage.press("enter", "c")
        await stage.shows("Restore files to")
        await stage.press("n", "escape")
        await stage.shows("3 turns", "the beginning")

    with unchanged(root, home / "data"):
        run_picker(root, home, story)


def test_escape_ends_the_filter_that_is_typed_before_anything_else(turned, root, home):
    async def story(stage):
        await stage.shows("edited since", "3 turns of 2 sessions")
        await stage.press("d")
        await stage.shows("comparing with")
        await stage.press("slash")
        await stage.type("till")
        await stage.shows("with 'till'")
        await stage.press("escape")
        await stage.shows("3 turns of 2 sessions", "◆")
        await stage.press("j", "escape")
        await stage.until(lambda text: "◆" not in text)
        await stage.press("enter")
        await stage.shows("esc back")
        stage.app.query_one("#timeline").focus()
        await stage.shows("enter open")
        await stage.press("slash")
        await stage.type("till")
        await stage.shows("with 'till'")
        await stage.press("escape")
        await stage.shows("3 turns of 2 sessions", "[ ]")
        await stage.press("escape")
        await stage.until(lambda text: "[ ]" not in text)

    with unchanged(root, home / "data"):
        run_picker(root, home, story, size=(140, 40))


def test_n_goes_to_the_next_turn_from_every_pane(turned, root, home):
    async def story(stage):
        async def on(words):
            await stage.until(lambda _: any("▶" in row and words in row for row in stage.rows()))

        await stage.shows("edited since", "n next turn")
        await stage.press("a")
        await stage.shows("· session start")
        for key, words in (("N", "@1"), ("n", "@2"), ("n", "@3"), ("j", "turn end"), ("N", "@3"), ("N", "@2")):
            await stage.press(key)
            await on(words)
        await stage.press("enter")
        await stage.shows("this turn: 2 removed, 1 changed", "n next turn")
        await stage.press("n")
        await stage.shows("this turn: 1 changed · @3", "esc back")
        await stage.press("enter")
        await stage.shows("space choose hunk", "+    return 2")
        await stage.press("N")
        await stage.shows("this turn: 2 removed, 1 changed · @2", "space choose hunk", "deleted file mode")
        await stage.press("N", "N")
        await stage.shows("no newer turn")
        await stage.press("n", "n", "n")
        await stage.shows("no older turn", "· @3")

    with unchanged(root, home / "data"):
        run_picker(root, home, story, size=(140, 40))


def test_checkpoints_of_other_worktrees_are_told_apart(casrewind, root, home, tmp_path):
    plant(root, {"f": b"1"})
    store = home / "one-for-both"
    casrewind("--store", store, "save", "-m", "here", code=0)
    other = tmp_path / "elsewhere"
    plant(other, {"f": b"2"})
    casrewind("-C", other, "--store", store, "save", "-m", "there", code=0)

    async def story(stage):
        await stage.shows("1 checkpoint", "saved: here")
        assert "there" not in stage.text()
        await stage.press("a")
        await stage.shows("other worktrees' too", "saved [there]", "of another worktree")
        await stage.press("home", "enter", "v")
        await stage.shows("it belongs to the worktree")
        await stage.until(lambda text: "elsewhererestoreitthere" in re.sub("[^a-z]", "", text))  # a long path is cut anywhere

    with unchanged(root, home / "data"):
        run_picker(root, home, story, store=store)


def test_forty_columns_are_enough(wrecked, root, home):
    async def story(stage):
        await stage.shows("edited since", "saved", "q quit")
        await stage.press("enter")
        await stage.shows("what changed: 2 changed", "logo.bin", "10 B")
        await stage.press("c")
        await stage.shows("Go on?", "y yes")
        await stage.press("escape")
        await stage.shows("nothing was changed")

    with unchanged(root, home / "data"):
        run_picker(root, home, story, size=(40, 30))


def test_an_error_is_told_and_nothing_is_lost(wrecked, root, home):
    async def story(stage):
        await stage.shows("edited since")
        await stage.press("u", "y")
        await stage.shows("That could not be done", "nothing to undo")
        await stage.press("enter", "t")
        await stage.shows("belongs to no conversation")

    with unchanged(root, home / "data"):
        run_picker(root, home, story)


def test_names_cannot_command_the_terminal(casrewind, root, home):
    plant(root, {"evil\x1b[2J\x07": b"one\n"})
    casrewind.json("save", "-m", "label \x1b[2J\x9b31m")
    plant(root, {"evil\x1b[2J\x07": b"\x1b[2Jtwo\x9b\n"})

    async def story(stage):
        await stage.shows("edited since", "[2J")
        await stage.press("enter")
        await stage.shows("1 changed", "+\\x1b[2Jtwo")
        assert all(c.isprintable() for c in stage.text().replace("\n", "")), ascii(stage.text())

    run_picker(root, home, story)


@pytest.mark.long
def test_a_long_timeline_is_there_before_all_of_it_is_compared(casrewind, root, home, monkeypatch):
    settings = api.default_settings()._replace(data=str(home / "data"), home=str(home))
    monkeypatch.setattr(os, "fsync", lambda _: None)
    monkeypatch.setattr(os, "fdatasync", lambda _: None)
    with api.open(root, settings) as workspace:
        agent = AgentTurns(workspace, root)
        for number in range(300):
            agent.prompt(f"p{number}", f"prompt {number}")
            plant(root, {"f": b"%d" % number})
            agent.stop(f"p{number}")

    async def story(stage):
        await stage.shows("300 turns, 600 checkpoints", "prompt 299", "~1")
        await stage.press("end")
        await stage.shows("prompt 0 ")
        await stage.until(lambda text: "..." not in text.partition("prompt 0")[0].rpartition("@299")[2])
        await stage.press("up", "pageup")
        await stage.press("slash")
        await stage.type("prompt 123")
        await stage.shows("rows with", "prompt 123 ")

    with unchanged(root, home / "data"):
        run_picker(root, home, story)


def test_a_job_replaces_the_one_of_its_kind_that_waits_and_the_urgent_goes_first():
    clerk = Worker()
    done, answers, started, go = [], [], threading.Event(), threading.Event()
    try:
        clerk.start(lambda call: call())
        clerk.put_job(worker.FILL, lambda: (started.set(), go.wait(PATIENCE)), answers.append)
        assert started.wait(PATIENCE)
        finished = threading.Event()
        for kind, name in ((worker.FILL, "count 1"), (worker.SHOW, "show 1"), (worker.FILL, "count 2"), (worker.SHOW, "show 2")):
            clerk.put_job(kind, lambda name=name: done.append(name) or name, lambda name: name == "count 2" and finished.set())
        go.set()
        assert finished.wait(PATIENCE) and done == ["show 2", "count 2"]
        clerk.put_job(worker.ACT, lambda: 1 / 0, lambda found: answers.append(type(found)) or finished.clear())
        end = time.monotonic() + PATIENCE
        while finished.is_set() and time.monotonic() < end:
            time.sleep(0.01)
        assert answers[-1] is ZeroDivisionError, "an error is an answer, too"
    finally:
        go.set()
        clerk.close()


def test_closing_stops_what_is_going_on():
    relay = ProgressRelay()
    clerk = Worker()
    relay.listener = lambda *_: clerk.raise_if_closing()
    started, rounds = threading.Event(), []

    def endless():
        started.set()
        while True:
            relay("scanning", 1, 0)
            rounds.append(True)
            time.sleep(0.001)

    clerk.put_job(worker.LOOK, endless, lambda _: None)
    assert started.wait(PATIENCE)
    clerk.close()
    done = len(rounds)
    time.sleep(0.05)
    assert len(rounds) == done


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
    assert b"second step" in session.shown, "what `casrewind list` prints"
    session.type("d 'second step'\nc 'second step'\n")
    session.read_until(b"[y/N")
    assert b"~ till.py" in session.shown and b"- src/b.py" in session.shown
    session.type("y\n")
    session.read_until(b"casrewind undo takes this back")
    session.type("nonsense\nc 9\nq\n")
    code, shown = session.end()
    assert b"not one of the answers" in shown and b"no turn '9'" in shown and b"\x1b" not in shown
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
    *(pytest.param(*way, marks=pytest.mark.long) for way in (("q", 0), ("\x1b|q", 0), ("\x03", 130), (signal.SIGINT, 130))),
])  # fmt: skip
def test_every_way_out_of_the_screen_gives_the_terminal_back(wrecked, terminal, root, home, key, expected):
    pytest.importorskip("textual")
    with unchanged(root, home / "data"):
        session = terminal(environment={"NO_COLOR": "1"})
        session.read_until(b"edited since")
        for part in key.split("|") if isinstance(key, str) else ():
            session.type(part)
            session.read_until({"c": b"Go on?", "\x1b": b"q quits", "\x03": b"nothing was changed" if "|" in key else b""}.get(part, b""))
        if not isinstance(key, str):
            session.process.send_signal(key)
        code, shown = session.end()
        assert code == expected, (key, shown[-2000:])
        assert b"Traceback" not in shown and shown.rindex(b"\x1b[?1049l") > shown.rindex(b"\x1b[?1049h")
        assert not re.search(rb"\x1b\[[0-9;]*[34]8;[25];|\x1b\[(?:[0-9;]*;)?(?:3[1-6]|9[1-6])(?:;[0-9;]*)?m", shown), "NO_COLOR"


def test_off_a_terminal_it_is_the_help(wrecked, process, terminal):
    found = process(code=0)
    assert found.out.startswith("casrewind: ") and "\nusage: casrewind" in found.out and found.err == ""
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run([sys.executable, "-m", "casrewind"], env=process.environment, stdout=writer, stderr=subprocess.PIPE, timeout=60)
    os.close(writer)
    assert done.returncode == 0 and b"Traceback" not in done.stderr


@pytest.mark.parametrize("answer, expected", [("q\n", 10), ("\n", 10), ("\x04", 10), ("s\n", 0), ("i\n", 0)])
def test_where_there_is_no_checkpoint_the_first_steps_are_offered(terminal, process, root, home, answer, expected):
    plant(root, {"f": b"1"})
    session = terminal()
    session.read_until(b"What now? [s/i/q] ")
    assert b"casrewind save" in session.shown and b"casrewind install claude" in session.shown
    session.type(answer)
    code, shown = session.end()
    assert code == expected and b"Traceback" not in shown
    assert process("list").code == (0 if answer == "s\n" else 10)
    assert (home / ".claude" / "settings.json").exists() == (answer == "i\n")


def test_a_terminal_that_is_gone_ends_the_first_steps_as_the_end_of_input_does(terminal, root):
    plant(root, {"f": b"1"})
    session = terminal()
    session.read_until(b"What now? [s/i/q] ")
    session.hang_up()
    assert session.process.wait(PATIENCE) == 10


@pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux is not installed")
@pytest.mark.parametrize("key, expected", [("C-d", 10), ("q", 10), ("s", 0)])
def test_the_first_steps_fit_a_usual_terminal(casrewind, root, tmp_path, key, expected):
    plant(root, {"f": b"1"})
    window = Window(casrewind, tmp_path / "tmux", (80, 24))
    try:
        shown = window.shows("No checkpoints of this project yet.", "s   save one now", "i   save before every prompt", "q   quit", "What now? [s/i/q]")
        assert len(shown.rstrip().split("\n")) <= 10
        window.press(key, *(["Enter"] if key != "C-d" else []))
        window.shows(f"ended with {expected}")
    finally:
        window.end()


def test_a_screen_needs_a_terminal(monkeypatch):
    with contextlib.suppress(OSError), open(os.devnull) as null:
        monkeypatch.setattr(sys, "__stdout__", null)
        assert not has_screen()
