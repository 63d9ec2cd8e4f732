"""On a terminal: questions, colours and progress. Off it: none of them. Never a control byte from a file's name."""

import os
import signal
import subprocess

import pytest

from support.agent_turns import AgentTurns
from support.fake_client import Client
from support.picture import picture
from support.terminal import Session, with_patience
from support.trees import plant
from support.unchanged import unchanged

HOSTILE = "evil\x1b[2J\x1b]0;title\x07\r\n\x9b31m\u202ename"
COLOUR = b"\x1b["


@pytest.fixture
def edited(casrewind, root):
    plant(root, {"f": b"old\n", "gone": b"g", "same": b"s"})
    casrewind.json("save")
    plant(root, {"f": b"edited\n", "new": b"n"})
    (root / "gone").unlink()


@pytest.mark.parametrize("answer", ["n", "n\n", "\n", "no\n", "yesterday\n", "\x04", "\x1b", "\x1b[A", "e", "\xe9"])
def test_anything_but_yes_changes_nothing(terminal, edited, root, home, answer):
    with unchanged(root, home / "data"):
        session = terminal("restore", "last")
        session.read_until(b"[y/N")
        session.type(answer)
        code, shown = session.end()
    assert code == 0 and b"nothing was changed" in shown


@pytest.mark.parametrize("answer", ["y", "Y", "y\n", "YES\n", " yes \n"])
def test_the_plan_is_shown_and_yes_goes_on(terminal, edited, root, answer):
    session = terminal("restore", "last", environment={"NO_COLOR": "1"})
    session.read_until(b"[y/N")
    plan = session.shown
    assert plan.startswith(b"restore to c") and b"2 written, 1 REMOVED" in plan.splitlines()[0] and b"kept for undo" in plan
    for line in (b"  ~ f (7 B -> 4 B)\r\n", b"  + gone\r\n", b"  - new\r\n"):
        assert line in plan
    assert b"same" not in plan
    assert (root / "f").read_bytes() == b"edited\n"
    session.type(answer)
    code, shown = session.end()
    assert code == 0 and b"restored to c" in shown and b"  2 paths written, 1 removed, 1 unchanged" in shown and b"casrewind undo" in shown
    assert (root / "f").read_bytes() == b"old\n" and not (root / "new").exists()


def test_an_interrupt_at_the_question_is_130_and_changes_nothing(terminal, edited, root, home):
    with unchanged(root, home / "data"):
        session = terminal("restore", "last")
        session.read_until(b"[y/N")
        session.sleep_until_it_reads()
        session.process.send_signal(signal.SIGINT)
        code, shown = session.end()
    assert code == 130 and b"interrupted" in shown and b"Traceback" not in shown


def test_no_question_is_asked_where_none_is_needed(terminal, edited, casrewind):
    assert terminal("restore", "last", "--yes").end()[0] == 0
    code, shown = terminal("restore", "last").end()
    assert code == 0 and b"nothing to do" in shown and b"[y/N]" not in shown
    assert terminal("undo", "-y").end()[0] == 0


def test_nobody_is_asked_who_cannot_answer(terminal, edited, root, home):
    with unchanged(root, home / "data"):
        code, shown = terminal("restore", "last", stdin=subprocess.DEVNULL).end()
    assert code == 64 and b"no terminal" in shown and b"--yes" in shown


def test_a_person_is_asked_on_standard_error_if_the_output_goes_elsewhere(terminal, edited, root, home):
    with unchanged(root, home / "data"):
        session = terminal("restore", "last", stdout=subprocess.DEVNULL)
        session.read_until(b"[y/N/d] ")
        assert b"restore to c" in session.shown
        session.type("n\n")
        assert session.end()[0] == 0


def test_colours_are_for_terminals_that_have_them_and_people_who_want_them(terminal, process, edited):
    for command in (["diff"], ["diff", "--patch"], ["list"], ["restore", "last", "--dry-run"]):
        assert COLOUR in terminal(*command).end()[1], command
        for environment in ({"NO_COLOR": "1"}, {"TERM": "dumb"}):
            code, shown = terminal(*command, environment=environment).end()
            assert code == 0 and b"\x1b" not in shown, (command, shown)
        found = process(*command, code=0, TERM="xterm-256color")
        assert "\x1b" not in found.out + found.err
        found = process(*command, code=0, FORCE_COLOR="1")  # a patch is for programs: there it does not count
        assert ("\x1b" in found.out) == (command != ["diff", "--patch"])
        assert "\x1b" not in process(*command, code=0, FORCE_COLOR="1", NO_COLOR="1").out


def control_bytes(shown):
    """What is left of a terminal's output that a name could have put there, colours of our own taken out."""
    import re

    text = re.sub(rb"\x1b\[[0-9;]*m", b"", shown).replace(b"\r\n", b"").decode()
    return [c for c in text if not c.isprintable()]


def test_no_control_byte_of_a_name_reaches_a_terminal(terminal, casrewind, root):
    plant(root, {HOSTILE: b"1\n", b"latin\xe9\x1b[H": b"x", "content": b"ok\n", "d-" + HOSTILE + "/in": b"x"})
    (root / ("l-" + HOSTILE)).symlink_to(HOSTILE)
    os.mkfifo(root / ("p-" + HOSTILE))
    casrewind.json("save", "-m", "label " + HOSTILE)
    plant(root, {HOSTILE: b"2 longer\n", "content": b"\x1b[2Jcleared\x07\r\n\x9b\xff\ttab\n"})
    (root / b"latin\xe9\x1b[H".decode("utf-8", "surrogateescape")).unlink()
    commands = (
        ["save", "-m", HOSTILE], ["list"], ["status"], ["show", "last"], ["show", "--json", "prev"], ["diff", "prev"], ["diff", "prev", "--patch"],
        ["diff", "prev", "--json"], ["restore", "prev", "--dry-run"], ["restore", HOSTILE, "-y", "--", "../" + HOSTILE], ["show", HOSTILE + "?"],
        ["restore", "prev", "--yes"], ["list", "--all"], ["undo", "-y"], ["run", "--", HOSTILE], ["-C", HOSTILE, "list"], ["save", HOSTILE], [HOSTILE],
    )  # fmt: skip
    for command in commands:
        code, shown = terminal(*command).end()
        assert code in (0, 10, 14, 15, 64, 127), (command, shown)
        assert shown and control_bytes(shown) == [], (command, shown)


def test_progress_is_shown_on_a_terminal_and_taken_away_again(process, root):
    plant(root, {f"d{n % 30}/f{n}": b"%d" % n for n in range(3000)})
    session = Session(with_patience(process, 0.0, "save"), process.environment)
    code, shown = session.end()
    assert code == 0 and b"scanning" in shown and b"saved c" in shown
    assert shown.rindex(b"saved c") > shown.rindex(b"scanning") and shown.rindex(b"\x1b[2K") > shown.rindex(b"scanning")
    assert b"\x1b[?25h" in shown  # the cursor is back


def test_progress_needs_a_terminal_patience_and_somebody_who_wants_it(process, root):
    plant(root, {f"d{n % 30}/f{n}": b"%d" % n for n in range(1500)})
    for seconds, arguments, stderr in ((0.0, ["save"], subprocess.PIPE), (3600, ["save", "--rehash"], None), (0.0, ["-q", "save", "--rehash"], None)):
        session = Session(with_patience(process, seconds, *arguments), process.environment, stderr=stderr)
        code, shown = session.end()
        assert code == 0 and b"scanning" not in shown and b"\x1b" not in shown, arguments
        if stderr is not None:
            with session.process.stderr as errors:
                assert errors.read() == b""


def test_progress_leaves_standard_output_alone(process, root):
    plant(root, {f"f{n}": b"%d" % n for n in range(1500)})
    session = Session(with_patience(process, 0.0, "save", "--json"), process.environment, stdout=subprocess.PIPE)
    with session.process.stdout as out:
        data = out.read()
    code, shown = session.end()
    assert code == 0 and b"scanning" in shown
    assert data.startswith(b'{"format": 1, "checkpoint"') and data.count(b"\n") == 1 and b"\x1b" not in data


def test_patience_is_half_a_second():
    from casrewind.cli.terminal import progress

    assert progress._PATIENCE == 0.5


@pytest.mark.parametrize("width", [40, 200])
def test_a_list_fits_the_terminal(terminal, casrewind, root, width):
    plant(root, {"f": b"x"})
    casrewind.json("save", "-m", "a label with quite a few words in it")
    code, shown = terminal("list", "--all", size=(24, width), environment={"NO_COLOR": "1"}).end()
    lines = shown.decode().split("\r\n")
    assert code == 0 and all(len(line) <= width for line in lines)
    point = casrewind.json("list")["checkpoints"][0]["id"]
    assert point in shown.decode(), "an id that is cut cannot be copied"


def test_a_prompt_names_the_checkpoint_and_long_plans_are_cut(terminal, casrewind, root):
    plant(root, {f"f{n:03}": b"1" for n in range(50)})
    casrewind.json("save")
    plant(root, {f"f{n:03}": b"2" for n in range(50)})
    session = terminal("restore", "last", environment={"NO_COLOR": "1"})
    session.read_until(b"[y/N")
    assert b": 50 written\r\n" in session.shown
    assert b"... and 30 more; --dry-run --json lists all of them" in session.shown and b"f020" not in session.shown
    session.type("n\n")
    assert session.end()[0] == 0


def test_d_shows_the_patch_and_the_question_is_asked_again(terminal, edited, root):
    session = terminal("restore", "last", environment={"NO_COLOR": "1"})
    session.read_until(b"[y/N/d] ")
    session.shown = b""
    session.type("d")
    session.read_until(b"[y/N/d] ")
    assert b"+old" in session.shown and b"-edited" in session.shown and (root / "f").read_bytes() == b"edited\n"
    session.type("y")
    assert session.end()[0] == 0 and (root / "f").read_bytes() == b"old\n"


def test_a_plan_folds_directories_and_shows_removals_first(terminal, casrewind, root):
    plant(root, {"f": b"1", "back/a": b"1", "back/deep/b": b"1"})
    casrewind("save", "-m", "it works", code=0)
    plant(root, {"f": b"2", **{f"apps/tests/t{n}": b"t" for n in range(37)}, "one/only": b"o"})
    casrewind("restore", "last", "--yes", "--", "f", code=0)
    plant(root, {"f": b"2"})
    for name in ("back/a", "back/deep/b"):
        (root / name).unlink()
    (root / "back/deep").rmdir()
    (root / "back").rmdir()
    session = terminal("restore", "it works", environment={"NO_COLOR": "1"})
    session.read_until(b"[y/N/d] ")
    lines = session.shown.decode().splitlines()
    assert lines[0].startswith("restore to 'it works' (") and lines[0].endswith(" 3 written, 38 REMOVED")
    assert lines[1:5] == ["  - apps/ (37 files)", "  - one/only", "  + back/ (2 files)", "  ~ f"]
    session.type("n\n")
    assert session.end()[0] == 0


def test_undo_asks_a_person_and_nobody_else(terminal, process, edited, root):
    process("restore", "last", "-y", code=0)
    session = terminal("undo", environment={"NO_COLOR": "1"})
    session.read_until(b"[y/N/d] ")
    first = session.shown.decode().splitlines()[0]
    assert first.startswith("undo the restore to c") and "REMOVED" in first and "ago)" in first
    session.type("n\n")
    code, shown = session.end()
    assert code == 0 and b"nothing was changed" in shown and (root / "f").read_bytes() == b"old\n"
    for environment in ({"CLAUDECODE": "1"}, {"CASREWIND_INSIDE": "1"}):
        code, shown = terminal("undo", environment=environment).end()
        assert code == 64 and b"an agent runs it" in shown and b"--yes" in shown and b"[y/N" not in shown
    process("undo", "--yes", code=0)
    assert (root / "f").read_bytes() == b"edited\n"


CHANGING = (
    "restore @1", "restore last", "jump @1", "back", "back --code", "revert @1", "undo", "undo --all", "undo --json", "redo", "purge f",
    "stores --prune-missing 1d",
)  # fmt: skip
HARMLESS = ("restore last -n", "revert @1 -n", "undo -n", "undo --list", "redo -n", "redo --list", "purge f -n", "stores --prune-missing 1d -n")


def test_without_a_terminal_every_command_that_changes_files_needs_yes(process, root):
    client = Client(process, root)
    session = {"session_id": client.transcript.stem, "prompt_id": "p1"}
    plant(root, {"f": b"old"})
    client.send(client.payload("UserPromptSubmit.prompt", prompt="go", **session))
    plant(root, {"f": b"new"})
    client.send(client.payload("Stop.plain", **session))
    for _ in range(2):  # each of undo and redo has a step
        process("restore", "@1", "-y", code=0)
        process("undo", "-y", code=0)
        process("restore", "@1", "-y", code=0)
    plant(root, {"f": b"new"})
    process("restore", "@1", "-y", code=0)
    process("restore", "after:@1", "-y", code=0)
    process("undo", "-y", code=0)
    before = picture(root)
    for line in CHANGING:
        refused = process(*line.split(), code=64)
        assert "there is no terminal" in refused.err and "--yes" in refused.err and picture(root) == before, line
    for line in HARMLESS:
        process(*line.split(), code=0)
    assert picture(root) == before
    process("redo", "-y", code=0)
    assert (root / "f").read_bytes() == b"new"


def test_undo_lists_and_plans(process, edited, root):
    assert process("undo", "--list", code=0).out == "nothing to undo\n"
    process("restore", "last", "-y", code=0)
    assert process("undo", "--list", code=0).out.startswith("  1  undo the restore to c")
    planned = process("undo", "-n", code=0).out
    assert planned.startswith("undo the restore to c") and "would restore" in planned and (root / "f").read_bytes() == b"old\n"
    process("undo", "--yes", code=0)
    assert process("redo", "--list", code=0).out.startswith("  1  redo the restore to c")
    process("redo", "-n", code=0)
    assert (root / "f").read_bytes() == b"edited\n"


def test_a_restore_without_a_checkpoint_and_a_new_project_on_a_terminal(terminal, process, root):
    plant(root, {"f": b"1"})
    session = terminal(environment={"NO_COLOR": "1", "TERM": "dumb"})
    session.read_until(b"[s/i/q] ")
    session.type("s\n")
    code, shown = session.end()
    assert code == 0 and b"saved c" in shown and b"not protected yet" not in shown
    session = terminal("restore", environment={"TERM": "dumb"})
    session.read_until(b"What now? [q] ")
    session.type("q\n")
    assert session.end()[0] == 0


def test_e_keeps_edits_and_shows_that_plan_first(terminal, root, workspace):
    told = AgentTurns(workspace, root)
    plant(root, {"f": b"1\n2\n3\n4\n5\n", "mine": b"old\n"})
    told.prompt("one", "change f")
    plant(root, {"f": b"1\nagent\n3\n4\n5\n"})
    told.stop("one")
    plant(root, {"f": b"1\nagent\n3\n4\n5\nme\n", "mine": b"new\n"})
    workspace.close()
    session = terminal("restore", "@1", environment={"NO_COLOR": "1"})
    session.read_until(b"[y/N/e/d] ")
    lines = session.shown.decode().splitlines()
    assert lines[-4:-1] == [
        "  2 of these paths were edited since then, outside of a turn. Those edits will be lost:", "    f, mine",
        "  (e keeps them; casrewind undo brings everything back)",
    ]  # fmt: skip
    session.type("e")
    session.read_until(b"[y/N/d] ")
    second = session.shown.decode().splitlines()[len(lines) :]
    assert second[0].startswith('restore to before "change f" (@1, ') and second[0].endswith(": 1 written (1 merged with later edits)")
    assert second[1:-1] == [
        "  takes back what turns changed since then; edits made outside of turns stay",
        "  what changed while @1 ran counts as @1's, even if you did it",
        "  ~ f  merged: 1 place taken back, 1 line of yours kept", "  kept, yours (1 path):", "    mine",
    ]  # fmt: skip
    assert (root / "f").read_bytes() == b"1\nagent\n3\n4\n5\nme\n", "nothing is changed before the second answer"
    session.type("y\n")
    code, shown = session.end()
    assert code == 0 and b"  not the exact state of @1: 2 paths keep your edits" in shown
    assert (root / "f").read_bytes() == b"1\n2\n3\n4\n5\nme\n" and (root / "mine").read_bytes() == b"new\n"
