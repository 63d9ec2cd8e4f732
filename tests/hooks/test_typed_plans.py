"""`/casrewind ...` in a client: what changes files is shown first, and done when it is typed again with the plan's code."""

import datetime
import json
import os
import pathlib
import re
import shutil

import pytest

from casrewind.cli.show.text import IN_CLIENT
from support.fake_client import Client, line_to_type, unfolded
from support.picture import picture
from support.sample_start import by_turns, some
from support.trees import plant

from .test_back_turns import Conversation, line, processes  # noqa: F401 - a fixture


@pytest.fixture
def shop(casrewind, root, processes):  # noqa: F811 - the fixture
    """Three turns of one session; behind the second one a person edits README.md. (conversation, pictures before @1, @2, @3)."""
    plant(root, {"till.py": b"0", "README.md": b"read me"})
    casrewind("save", code=0)
    first = Conversation(Client(casrewind, root), "aaaa-1", processes[0].pid)
    pictures = [first.turn("round to cents", **{"till.py": "1", "notes.txt": "n"}), first.turn("clean up", **{"till.py": "2"})]
    plant(root, {"README.md": b"mine", "plan.md": b"mine"})
    pictures.append(first.turn("give change", **{"till.py": "3", "change.py": "c"}))
    return first, pictures[::-1]


ESC = [{"type": "text", "text": "[Request interrupted by user for tool use]"}]


def typed(conversation, command):
    """What a person sees who types a command in the client."""
    told = {"session_id": conversation.session, "transcript_path": str(conversation.path)}
    return unfolded(conversation.client.typed(command, agree=False, **told))


def line_of(answer):
    """The line that an answer says to type."""
    assert "nothing has changed yet. To go ahead, type:" in answer, answer
    assert line_to_type(answer) == answer.splitlines()[-1].strip()
    return line_to_type(answer)


def test_what_changes_files_is_planned_and_done_with_the_line_that_the_plan_says(shop, root, casrewind):
    first, pictures = shop
    before = picture(root)
    plan = typed(first, "/casrewind back 3")
    assert picture(root) == before
    lines = plan.splitlines()
    assert lines[0].startswith('back to before "round to cents" (') and lines[0].endswith("2 written, 3 REMOVED"), plan
    assert lines[1:4] == ["  - change.py", "  - notes.txt", "  - plan.md"] and "  ~ till.py" in lines[4:]
    assert "  2 of these paths were edited since then, outside of a turn. Those edits will be lost:\n    README.md, plan.md\n" in plan
    line = line_of(plan)
    assert line == "/casrewind yes"
    done = typed(first, line)
    assert picture(root) == pictures[2]
    assert 'restored to before "round to cents"' in done and "2 paths written, 3 removed" in done and "  - plan.md" in done and "  ~ README.md" in done
    assert "/casrewind undo takes this back" in done and "taken back: give change" in done
    done = typed(first, "/casrewind undo")  # one line: it is small, and what it takes back was done just now
    assert picture(root) == before and 'undone: the restore to before "round to cents"' in done and "  + plan.md" in done
    redo = line_of(typed(first, "/casrewind redo"))
    assert "  - plan.md" in typed(first, redo) and picture(root) == pictures[2]


COMMANDS = (
    "restore @3", "restore @3 till.py README.md", "restore @3 -- till.py", "restore @3 -y", "jump @3", "restore @3 --both", "back 3 --code",
    "back 2", "back 3 --yes", "revert @1", "restore @3 yes", "back 3 yes", "revert @1 yes",
)  # fmt: skip


def test_each_command_plans_first_also_with_yes_and_is_done_then(shop, root, casrewind):
    first, pictures = shop
    before = picture(root)
    for command in some(COMMANDS, 5):
        line = line_of(typed(first, f"/casrewind {command}"))
        assert picture(root) == before, command
        assert line == "/casrewind yes"
        assert "nothing has changed yet" not in typed(first, line) and picture(root) != before, command
        casrewind("undo", "--yes", code=0)
        assert picture(root) == before


NOW = "nothing has changed. The plan now:"
BETWEEN = f"a prompt, a restore or an open database came in between; {NOW}"
TYPED, OTHER = f"another command was typed since; {NOW}", f"that line means something else now; {NOW}"


@pytest.mark.turns(3)
@pytest.mark.parametrize("change, says", [
    ("a turn", OTHER), ("a prompt that moved no number", BETWEEN), ("a restore", BETWEEN), ("another plan", TYPED), ("another plan, that was refused", TYPED),
])  # fmt: skip
def test_a_yes_after_something_else_shows_the_plan_again(shop, root, casrewind, change, says):
    first, pictures = shop
    by_id = casrewind.json("list")["turns"][2]["before"]
    typed(first, f"/casrewind restore {by_id}" if change == "a prompt that moved no number" else "/casrewind back 3")
    if change == "a turn" or change.startswith("a prompt"):
        first.turn("ask something")
    elif change == "a restore":
        casrewind("restore", "@2", "README.md", "-y", code=0)
        casrewind("restore", "@3", "till.py", "-y", code=0)
    elif change == "another plan":
        assert "would restore" in typed(first, "/casrewind restore @2 -n")
    else:
        assert "this worktree has 3" in typed(first, "/casrewind restore @7")
    before = picture(root)
    again = typed(first, "/casrewind yes")
    assert again.startswith(says) and picture(root) == before
    assert "nothing has changed yet" not in typed(first, line_of(again)) and picture(root) != before


def test_a_no_drops_the_plan_and_changes_nothing(shop, root):
    first, _ = shop
    before = picture(root)
    none = "no plan waits here; nothing has changed"
    assert typed(first, "/casrewind no") == none
    line_of(typed(first, "/casrewind back 3"))
    assert typed(first, "/casrewind NO") == "the plan of back 3 is dropped; nothing has changed" and typed(first, "/casrewind no") == none
    assert typed(first, "/casrewind yes").startswith("no plan waits for a yes here") and picture(root) == before


@pytest.mark.parametrize("command", ["restore @3 --yes", "back 3 -y", "revert @1 yes", "redo --yes"])
def test_a_yes_with_the_command_itself_shows_the_plan_and_says_so(shop, root, command):
    first, _ = shop
    if command.startswith("redo"):
        typed(first, "/casrewind back")
        typed(first, "/casrewind undo")
    before = picture(root)
    answer = typed(first, f"/casrewind {command}")
    assert answer.startswith("a plan is shown before a yes counts here:\n") and line_of(answer) and picture(root) == before
    assert not typed(first, "/casrewind restore @9 --yes").startswith("a plan is shown"), "there is none"


def test_only_our_own_words_name_a_command_as_it_is_typed_here(shop, root):
    first, _ = shop
    first.turn("casrewind review", **{"casrewind undo.txt": "casrewind undo\n"})
    told = [typed(first, f"/casrewind {command}") for command in ("list", "show @1", "diff -p", "log", "restore @1", "yes", "restore @9")]
    shown = "\n".join(told)
    assert shown.count("casrewind review") >= 4 and "+casrewind undo\n" in shown
    assert "/casrewind review" not in shown and " /casrewind undo.txt" not in shown
    assert "; /casrewind status says what changed\n" in told[0] and "\n  /casrewind undo takes this back" in told[5] and "; /casrewind list shows them" in told[6]


def test_every_command_can_be_read_in_the_width_of_a_client(shop, root):
    first, _ = shop
    typed(first, "/casrewind restore @2")
    typed(first, "/casrewind yes")
    said = {"session_id": first.session, "transcript_path": str(first.path)}
    for command in ("", "list", "help", "nonsense", "status", "back 2", "restore @1", "diff", "show @1"):
        answer = first.client.typed(f"/casrewind {command}", agree=False, **said)
        assert [line for line in answer.splitlines() if len(line) > IN_CLIENT and " " in line.strip()] == [], command  # a path is one word


def test_a_row_of_what_is_no_turn_has_the_columns_of_the_others(shop, root):
    first, _ = shop
    for command in ("restore @2 till.py", "yes", "undo", "restore @3 --keep-edits", "yes"):
        typed(first, f"/casrewind {command}")
    rows = typed(first, "/casrewind list").splitlines()[1:]
    starts = [match.start() for row in rows if (match := re.search(r"\d+ (?:s|min) ago", row))]
    assert len(starts) >= 5 and len(set(starts)) == 1 and any("restored to" in row for row in rows), rows


def test_the_result_is_first_then_how_to_go_on_then_how_to_undo(shop):
    first, _ = shop
    done = typed(first, "/casrewind back").splitlines()
    assert done[0].startswith('restored to before "give change"') and done[-3] == "  taken back: give change"
    assert re.fullmatch("  to go on from there: /resume (\\w+ ){1,5}[0-9a-f]{4}", done[-2]) and done[-1] == "  /casrewind undo takes this back"


def test_a_turn_that_changed_nothing_is_taken_back_without_a_word_of_files(shop, root):
    first, _ = shop
    first.turn("a question")
    before = picture(root)
    done = typed(first, "/casrewind back").splitlines()
    assert done[0].startswith('back to before "a question" (@1, ') and done[0].endswith("): no file changed")
    assert done[1] == "  taken back: a question" and done[2].startswith("  to go on from there: /resume ") and len(done) == 3
    assert picture(root) == before


def test_a_yes_is_one_to_the_last_plan_of_this_session(shop, root, casrewind, processes, home):  # noqa: F811 - the fixture
    first, pictures = shop
    second = Conversation(first.client, "bbbb-2", processes[1].pid)
    before = picture(root)
    none = "no plan waits for a yes here; nothing was done. /casrewind back shows one"
    assert typed(first, "/casrewind yes") == none
    line_of(typed(first, "/casrewind back 3"))
    assert typed(second, "/casrewind yes") == none and picture(root) == before
    line_of(typed(second, "/casrewind restore @1 till.py"))
    line_of(typed(first, "/casrewind restore @2 till.py"))
    for read_only in ("", " list", " diff", " show @1", " help"):
        typed(first, f"/casrewind{read_only}")
    done = typed(first, "/casrewind YES")
    assert "restored to before" in done and (root / "till.py").read_bytes() == b"1" and (root / "change.py").exists()
    assert typed(first, "/casrewind yes") == none, "it was one to that plan, once"
    line_of(typed(first, "/casrewind back 3"))
    for (place, _, files) in os.walk(next(home.rglob("shown"))):
        for name in files:
            with open(os.path.join(place, name), "r+b") as file:
                file.write(b"\0")
    assert typed(first, "/casrewind yes") == none
    shutil.rmtree(next(home.rglob("shown")))
    assert typed(first, "/casrewind yes") == none and (root / "change.py").exists()


def test_where_the_session_is_unknown_the_line_is_typed_again_with_the_code(shop, root):
    first, pictures = shop
    before = picture(root)
    plan = first.client.typed("/casrewind restore @3", agree=False, session_id="")
    line = line_of(plan)
    assert re.fullmatch(r"/casrewind restore @3 yes c[0-9a-f]{3}-[0-9a-f]{4}", line)
    other = line[:-4] + ("0000" if line[-4:] != "0000" else "1111")
    assert unfolded(first.client.typed(other, agree=False, session_id="")).startswith(f"that is not the code of the plan that was shown last; {NOW}") and picture(root) == before
    assert "restored to" in first.client.typed(line, agree=False, session_id="") and picture(root) == pictures[2]


@pytest.mark.turns(3)
@pytest.mark.parametrize("why", ["a second undo", "a turn since", "many paths", "an edit since", "--all"])
def test_an_undo_that_is_not_small_or_not_of_just_now_is_planned(shop, root, casrewind, why):
    first, _ = shop
    if why == "many paths":
        plant(root, {f"many{number}": b"1" for number in range(11)})
    typed(first, "/casrewind restore @1 till.py")
    typed(first, "/casrewind yes")
    typed(first, "/casrewind restore @3")
    typed(first, "/casrewind yes")
    if why == "a second undo":
        assert "undone" in typed(first, "/casrewind undo")
    elif why == "a turn since":
        first.number += 1
        told = {"session_id": first.session, "transcript_path": str(first.path), "prompt_id": f"{first.session}-p{first.number}"}
        first.client.call(first.client.payload("UserPromptSubmit.prompt", prompt="ask", **told), **first.variables)
        first.client.call(first.client.payload("Stop.plain", **told), **first.variables)
    elif why == "an edit since":
        plant(root, {"change.py": b"mine"})
    before = picture(root)
    plan = typed(first, "/casrewind undo --all" if why == "--all" else "/casrewind undo")
    assert picture(root) == before and line_of(plan), plan
    assert "undone" in typed(first, line_of(plan))


def edit_path(root):
    plant(root, {"till.py": b"4"})
    return {"till.py": "till.py: it changed just now"}


def make_path(root):
    plant(root, {"later.md": b"4"})
    return {"later.md": "later.md: it appeared just now"}


def change_mode(root):
    (root / "till.py").chmod(0o755)
    return {"till.py": "till.py: it changed just now"}


def edit_kept_path(root):
    plant(root, {"change.py": b"4"})
    return {"change.py": "change.py: "}


@pytest.mark.parametrize("change", [edit_path, make_path, change_mode, edit_kept_path])
def test_a_yes_is_one_to_what_was_shown_and_what_moved_since_stays_by_name(shop, root, casrewind, change):
    first, pictures = shop
    line = line_of(typed(first, "/casrewind revert @1" if change is edit_kept_path else "/casrewind back 3"))
    moved = change(root)
    before = picture(root)
    done = typed(first, line)
    assert "no longer the same" not in done and picture(root) != before
    for path, said in moved.items():
        assert picture(root)[path.encode()] == before[path.encode()] and said in done, done
    casrewind("undo", "-y", code=0)
    assert picture(root) == before


def test_the_smallest_step_is_done_at_once_and_names_its_paths(shop, root):
    first, pictures = shop
    done = typed(first, "/casrewind back")
    assert picture(root) == pictures[0]
    assert 'restored to before "give change"' in done and "  - change.py" in done and "  ~ till.py" in done and "/casrewind undo takes this back" in done


@pytest.mark.parametrize("why", ["a person's edit", "a person's file", "more than ten paths", "an older turn", "a turn that still runs"])
def test_else_the_smallest_step_is_planned_too(shop, root, why):
    first, pictures = shop
    if why == "a person's edit":
        plant(root, {"till.py": b"4"})
    elif why == "a person's file":
        plant(root, {"mine": b"4"})
    elif why == "more than ten paths":
        first.turn("write many", **{f"many{number}": "1" for number in range(11)})
    elif why == "a turn that still runs":
        told = {"session_id": first.session, "transcript_path": str(first.path), "prompt_id": "aaaa-1-p4"}
        first.client.send(first.client.payload("UserPromptSubmit.prompt", prompt="go on", **told), **first.variables)
        plant(root, {"till.py": b"5"})
    before = picture(root)
    plan = typed(first, "/casrewind back 2" if why == "an older turn" else "/casrewind back --code")
    assert line_of(plan) and picture(root) == before
    for name in ("till.py", "mine"):
        if why in (f"a person's {'edit' if name == 'till.py' else 'file'}",):
            assert f"since then, outside of a turn. Those edits will be lost:\n    {name}\n" in plan
    assert ("outside of a turn" in plan) == (why.startswith("a person's") or why == "an older turn")


def test_a_turn_that_moved_an_ignored_file_is_no_smallest_step(shop, root):
    first, _ = shop
    plant(root, {".gitignore": b".env\n", ".env": b"TOKEN=1\n"})
    first.turn("ask something")
    first.number += 1
    told = {"session_id": first.session, "transcript_path": str(first.path), "prompt_id": f"{first.session}-p{first.number}"}
    first.client.send(first.client.payload("UserPromptSubmit.prompt", prompt="tidy up", **told), **first.variables)
    with first.path.open("ab") as file:
        file.write(line(first.session, first.number, "tidy up", f"{first.session}-{first.number - 1}"))
    os.rename(root / ".env", root / "env.txt")
    first.client.send(first.client.payload("Stop.plain", **told), **first.variables)
    plan = typed(first, "/casrewind back")
    assert "  - env.txt" in plan and "  env.txt may be your .env; casrewind include .env protects it\n" in plan and (root / "env.txt").exists()
    done = typed(first, line_of(plan))
    assert not (root / "env.txt").exists() and "is pinned: it may have the only copy of env.txt" in done


def test_only_the_conversation_goes_back_at_once(shop, root):
    first, _ = shop
    before = picture(root)
    assert "\n  to go on from there: /resume " in typed(first, "/casrewind back 2 --chat") and picture(root) == before
    assert "would restore" in typed(first, "/casrewind restore @2 -n") and picture(root) == before


def test_another_sessions_work_is_never_part_of_a_step_without_a_plan(shop, root, processes):  # noqa: F811
    first, _ = shop
    second = Conversation(first.client, "bbbb-2", processes[1].pid)
    second.turn("beside it", **{"till.py": "b", "beside.py": "b"})
    before = picture(root)
    assert "  - beside.py" in (plan := typed(first, "/casrewind back --code")) and line_of(plan) and picture(root) == before


def test_back_keeps_edits_if_it_is_typed_so(shop, root, casrewind):
    first, pictures = shop
    before = picture(root)
    assert "\n  (--keep-edits keeps them; /casrewind undo brings everything back)\n" in typed(first, "/casrewind back 3")
    plan = typed(first, "/casrewind back 3 --keep-edits")
    assert picture(root) == before
    assert "\n  what changed while @3..@1 ran counts as theirs, even if you did it\n" in plan and "edits made outside of turns stay\n" in plan
    assert "that no turn" not in plan and "lose" not in plan
    assert "\n  kept, yours (2 paths):\n    README.md\n    plan.md\n" in plan
    done = typed(first, line_of(plan))
    assert (root / "till.py").read_bytes() == b"0" and (root / "README.md").read_bytes() == (root / "plan.md").read_bytes() == b"mine"
    assert not (root / "change.py").exists() and "  not the exact state of @3: 2 paths keep your edits" in done and "taken back: give change" in done
    casrewind("undo", "-y", code=0)
    assert picture(root) == before
    report = casrewind.json("back", "3", "--session", first.session, "-n", "--keep-edits", "--code")
    assert report["exact"] is False and report["edited_outside"] == ["README.md", "plan.md"]
    assert "it does not accept --keep-edits" in casrewind("back", "2", "--session", first.session, "--chat", "--keep-edits", "-y", code=64).err


def test_what_a_person_edits_behind_esc_stays_and_is_named(shop, root):
    first, _ = shop
    told = {"session_id": first.session, "transcript_path": str(first.path), "prompt_id": "aaaa-1-p4"}
    first.client.send(first.client.payload("UserPromptSubmit.prompt", prompt="go on", **told), **first.variables)
    plant(root, {"half.py": b"agent\n"})  # Esc: no hook is called
    plant(root, {"repair.txt": b"mine\n", "till.py": b"3\nmine\n"})
    before = picture(root)
    plan = typed(first, "/casrewind restore @1 --keep-edits")
    named = "(3 paths):\n    half.py\n    repair.txt\n    till.py"
    assert f"left alone, may be yours: casrewind did not see @1 end; --exact takes it back {named}" in plan and "your edits stay" not in plan
    plan = typed(first, "/casrewind revert @1")
    assert f"left alone, may be yours: casrewind did not see @1 end; --shared takes it back {named}" in plan
    assert picture(root) == before
    plan = typed(first, "/casrewind restore @4 --keep-edits")
    assert f"{named}" in plan and "edits made outside of turns stay" in plan
    typed(first, line_of(plan))
    assert (root / "repair.txt").read_bytes() == b"mine\n" and (root / "till.py").read_bytes() == b"3\nmine\n" and not (root / "change.py").exists()


def stopped(conversation, at_ns, file_ns=None):
    """Esc at this time, as the client notes it; the transcript was last written at `file_ns`."""
    at = datetime.datetime.fromtimestamp(at_ns // 10**6 / 1000, datetime.UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    note = {"type": "user", "uuid": f"{conversation.session}-esc-{at_ns}", "timestamp": at, "message": {"role": "user", "content": ESC}}
    with conversation.path.open("a") as file:
        file.write(json.dumps(note) + "\n")
    os.utime(conversation.path, ns=(at_ns, at_ns if file_ns is None else file_ns))


def plant_later(root, files, at_ns):
    """Write these files, with times that are later."""
    for name in files:
        (root / name).parent.mkdir(exist_ok=True)
        while not (root / name).is_file() or (root / name).stat().st_ctime_ns <= at_ns:
            (root / name).write_bytes(files[name])


def write_until_esc(first, root, files):
    """A prompt, and what its turn writes; the time of Esc, which no hook tells: the next millisecond of a clock of the files."""
    told = {"session_id": first.session, "transcript_path": str(first.path), "prompt_id": "aaaa-1-p4"}
    first.client.send(first.client.payload("UserPromptSubmit.prompt", prompt="go on", **told), **first.variables)
    plant(root, files)
    return (max((root / name).stat().st_ctime_ns for name in files) // 10**6 + 1) * 10**6


TURN = {"half.py": b"agent\n", "new/more.py": b"agent\n", "till.py": b"3\nagent\n", "both.py": b"agent\n"}
PERSON = {"repair.txt": b"mine\n", "README.md": b"mine\nagain\n", "both.py": b"agent\nmine\n", "new-too/mine.py": b"mine\n"}


@pytest.fixture
def esc(shop, root):
    """A turn that Esc stopped, and what a person did behind it. (conversation, time of Esc)."""
    first, _ = shop
    at_ns = write_until_esc(first, root, TURN)
    (root / "change.py").unlink()
    (root / "way").symlink_to("half.py")
    plant_later(root, PERSON, at_ns)
    return first, at_ns


def holds(root, files):
    return [name for name in files if (root / name).is_file() and (root / name).read_bytes() == files[name]]


def left_by_person(root):
    """True if all that a person wrote is there, and what nobody can tell is as it was: a deletion, and a link."""
    return holds(root, PERSON) == list(PERSON) and not (root / "change.py").exists() and (root / "way").is_symlink()


@pytest.mark.parametrize("command", ["revert @1", "restore @1 --keep-edits", "back 1 --code --keep-edits"])
def test_what_a_turn_wrote_before_esc_is_taken_back_and_what_came_after_stays(esc, root, command, casrewind):
    first, at_ns = esc
    stopped(first, at_ns)
    before = picture(root)
    plan = typed(first, f"/casrewind {command}")
    assert picture(root) == before and "left alone, may be yours: casrewind did not see @1 end" in plan
    for name in ("README.md", "both.py", "change.py", "repair.txt", "new-too/mine.py", "way"):
        assert f"\n    {name}\n" in plan, plan
    for name in ("- half.py", "- new/more.py", "~ till.py"):
        assert f"  {name}" in plan, plan
    typed(first, line_of(plan))
    assert left_by_person(root) and (root / "till.py").read_bytes() == b"3"
    assert not (root / "half.py").exists() and not (root / "new").exists()
    casrewind("undo", "-y", code=0)
    assert picture(root) == before


@pytest.mark.parametrize("event", ["UserPromptSubmit.prompt", "SessionEnd.prompt_input_exit", "restore", "save"])
def test_the_moment_of_esc_is_kept_with_the_next_look_and_needs_no_transcript_later(esc, root, event, casrewind, processes):  # noqa: F811 - the fixture
    first, at_ns = esc
    stopped(first, at_ns)
    if event == "save":
        casrewind("save", "-m", "after Esc", code=0)
    elif event == "restore":
        casrewind("restore", "@4", "-y", "--", "notes.txt", code=0)
    else:
        told = {"session_id": first.session, "transcript_path": str(first.path), "prompt_id": "aaaa-1-p5"}
        first.client.send(first.client.payload(event, prompt="another", **told), **first.variables)
    first.path.unlink()
    processes[0].kill()
    processes[0].wait()
    number = next(turn["n"] for turn in casrewind.json("list")["turns"] if turn["prompt"] == "go on")
    casrewind("revert", f"@{number}", "-y", code=3)
    assert left_by_person(root) and (root / "till.py").read_bytes() == b"3" and holds(root, ["half.py", "new/more.py"]) == []


def lying_clock(first, at_ns):
    stopped(first, at_ns, at_ns + 3600 * 10**9)


def lying_lines(first, at_ns):
    stopped(first, at_ns + 3600 * 10**9, at_ns)


def before_the_prompt(first, at_ns):
    stopped(first, at_ns - 3600 * 10**9)


def in_the_future(first, at_ns):
    stopped(first, at_ns + 3600 * 10**9)


def gone(first, at_ns):
    stopped(first, at_ns)
    first.path.unlink()


def a_pipe(first, at_ns):
    first.path.unlink()
    os.mkfifo(first.path)


def nothing_said(first, at_ns):
    """The client was killed."""


def agent_went_on(first, at_ns):
    stopped(first, at_ns)
    with first.path.open("a") as file:
        file.write(json.dumps({"type": "assistant", "uuid": "on", "message": {"role": "assistant", "content": "I go on."}}) + "\n")
    os.utime(first.path, ns=(at_ns, at_ns))


def of_another_machine(first, at_ns):
    """A store that came from there has no record of who works now."""
    stopped(first, at_ns)
    (record,) = pathlib.Path(first.client.casrewind.environment["HOME"]).rglob("sessions/*.json")
    record.unlink()


LIES = [lying_clock, lying_lines, before_the_prompt, in_the_future, gone, a_pipe, nothing_said, agent_went_on, of_another_machine]


@pytest.mark.parametrize("tell", LIES)
def test_what_a_transcript_cannot_tell_of_esc_stays_and_is_named(esc, root, tell, casrewind, processes):  # noqa: F811 - the fixture
    first, at_ns = esc
    tell(first, at_ns)
    processes[0].kill()
    processes[0].wait()
    before = picture(root)
    done = casrewind("revert", "@1", "-y", code=3)
    for name in (*TURN, *PERSON, "change.py"):
        assert f"    {name}\n" in done.out + done.err, name
    assert picture(root) == before
