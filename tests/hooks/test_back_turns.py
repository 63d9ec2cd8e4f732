"""`casrewind back N`: the turns of the list, with several sessions; and a conversation of which no hook told."""

import contextlib
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import casrewind as api
from casrewind import errors
from casrewind.agents.claude import CLIENT as claude
from casrewind.cli.picker.timeline import TimelineModel
from casrewind.cli.show.text import IN_CLIENT
from support.fake_client import DATA, Client
from support.picker_screen import run_picker
from support.picture import picture
from support.terminal import Session
from support.terminal_in_process import on_terminal
from support.trees import plant


def texts(path):
    return [prompt.text for prompt in claude.prompts(Path(path).read_bytes())]


def line(session, number, prompt, parent):
    shape = {
        "type": "user", "uuid": f"{session}-{number}", "parentUuid": parent, "sessionId": session, "promptId": f"{session}-p{number}",
        "promptSource": "typed", "message": {"role": "user", "content": prompt},
    }  # fmt: skip
    return json.dumps(shape).encode() + b"\n"


class Conversation:
    """A session of a client, and the transcript that grows with its turns."""

    def __init__(self, client, session, pid=None):
        self.client, self.session, self.number = client, session, 0
        self.path = client.transcript.parent / f"{session}.jsonl"
        self.path.touch()
        self.variables = {} if pid is None else {"CLAUDE_PID": str(pid)}

    def turn(self, prompt, *, ends=True, **files):
        """One turn that writes `files`, and ends, or is stopped or still runs; the picture of the project before it."""
        before = picture(self.client.root)
        self.number += 1
        told = {"session_id": self.session, "transcript_path": str(self.path), "prompt_id": f"{self.session}-p{self.number}"}
        self.client.send(self.client.payload("UserPromptSubmit.prompt", prompt=prompt, **told), **self.variables)
        parent = f"{self.session}-{self.number - 1}" if self.number > 1 else None
        with self.path.open("ab") as file:
            file.write(line(self.session, self.number, prompt, parent))
        plant(self.client.root, {name: text.encode() for name, text in files.items()})
        if ends:
            self.client.send(self.client.payload("Stop.plain", **told), **self.variables)
        return before


@pytest.fixture
def processes():
    """Processes that stand for clients that are alive."""
    with contextlib.ExitStack() as stack:
        found = [stack.enter_context(subprocess.Popen(["sleep", "600"])) for _ in range(2)]
        stack.callback(lambda: [process.kill() for process in found])
        yield found


@pytest.fixture
def two(casrewind, root, processes):
    """Two live sessions: @3 and @1 are of "aaaa", @2 is of "bbbb"; (first, second, pictures before @1, @2, @3)."""
    plant(root, {"f": b"0"})
    casrewind("save", code=0)
    client = Client(casrewind, root)
    first, second = (Conversation(client, name, process.pid) for name, process in zip(("aaaa-1", "bbbb-2"), processes, strict=True))
    pictures = [first.turn("make one", one="1"), second.turn("make two", two="2"), first.turn("make three", three="3")]
    return first, second, pictures[::-1]


@pytest.mark.parametrize("sign", ["", "@"])
def test_a_number_is_a_turn_of_the_list(two, root, casrewind, sign):
    first, second, pictures = two
    found = casrewind.json("back", f"{sign}3", "--yes")
    assert picture(root) == pictures[2] and found["prompts"] == ["make one", "make three"]
    assert (found["turn"], found["number"], found["session"], found["agent"]) == (3, 2, "aaaa-1", "claude")
    casrewind("undo", "--yes", code=0)
    found = casrewind.json("back", f"{sign}2", "--yes", "--session", "bbbb-2")
    assert picture(root) == pictures[1] and found["prompts"] == ["make two"] and (found["turn"], found["number"]) == (2, 1)
    assert found["fork"] is None, "nothing was said before that prompt"


def test_the_plan_says_which_of_its_turns_were_cut_short_or_still_run(two, root, casrewind):
    first, second, _ = two
    assert "taking back" not in on_terminal(casrewind, ["back", "2", "--session", "bbbb-2"], typed="n\n").out
    first.turn("make four", ends=False, four="4")
    first.turn("make five", ends=False, five="5")
    asked = " ".join(on_terminal(casrewind, ["back", "2"], columns=200, typed="n\n").out.split())
    assert ", taking back @1 (running) and @2 (cut short):" in asked


def test_a_number_means_the_same_state_in_every_command(two, root, casrewind):
    first, second, pictures = two
    points = {n: casrewind.json("list")["turns"][n - 1]["before"] for n in (1, 2, 3)}
    for n, point in points.items():
        for word in (f"{n}", f"@{n}"):
            assert casrewind.json("restore", word, "--dry-run")["target"] == point
            assert casrewind.json("restore", word, "--to", f"{root}-{word}")["target"] == point
            assert picture(Path(f"{root}-{word}")) == pictures[n - 1]
            assert casrewind.json("pin", word)["checkpoint"]["id"] == casrewind.json("unpin", word)["checkpoint"]["id"] == point
            assert casrewind.json("show", word)["turn"]["n"] == n
            assert casrewind.json("diff", word) == casrewind.json("diff", f"@{n}")
            assert casrewind.json("diff", word, "last") == casrewind.json("diff", point, "last")
            assert casrewind.json("diff", f"after:{word}", "last") == casrewind.json("diff", f"after:@{n}", "last")
            assert casrewind("cat", f"{word}:f", code=0).out == "0"
            assert casrewind.json("revert", word, "--dry-run")["target"] == point
            assert casrewind.json("jump", word, "--dry-run")["target"] == point
    for word in ("show", "restore", "diff", "pin"):
        refused = casrewind(word, "7", code=15).err
        assert "no turn '7': this worktree has 3; counted from the newest, checkpoint 7 is " in refused
        assert casrewind.row(7) in refused and "casrewind list" in refused
        assert "counted" not in casrewind(word, "@7", code=15).err


def test_all_checkpoints_are_listed_without_numbers(two, casrewind):
    for words in (["list", "--all"], ["list", "--all", "--oneline"]):
        lines = casrewind(*words, code=0).out.splitlines()
        ids = [point["id"] for point in casrewind.json("list", "--all")["checkpoints"]]
        assert [line.split()[0] for line in lines[-len(ids) :]] == ids


def test_yes_does_not_go_back_in_the_conversation_of_another_session(two, root, casrewind):
    before = picture(root)
    refused = casrewind("back", "2", "--yes", code=64)
    assert "@2 is a turn of another session, claude bbbb-2" in refused.err and "--session bbbb-2" in refused.err
    assert casrewind("back", "2", "--yes", "--chat", code=64).err == refused.err
    assert picture(root) == before
    refused = casrewind("back", "3", "--yes", code=64, CASREWIND_SESSION="bbbb-2")
    assert "@3 is a turn of another session, claude aaaa-1" in refused.err, "the agent's own shell names its session"
    assert casrewind.json("back", "2", "--yes", CASREWIND_SESSION="bbbb-2")["turn"] == 2


def test_without_a_number_it_is_the_newest_prompt_of_the_session(two, root, casrewind):
    assert casrewind.json("back", "--yes")["turn"] == 1
    casrewind("undo", "--yes", code=0)
    assert casrewind.json("back", "--yes", CASREWIND_SESSION="bbbb-2")["turn"] == 2
    casrewind("undo", "--yes", code=0)
    assert casrewind.json("back", "--yes", "--session", "bbbb-2")["turn"] == 2


@pytest.mark.parametrize("more", [[], ["--chat"]])
def test_on_a_terminal_another_session_is_asked_about_with_yes_too(two, root, casrewind, more):
    command = [sys.executable, "-m", "casrewind", "-C", str(root), "back", "2", "--yes", *more]
    session = Session(command, casrewind.environment)
    session.read_until(b"Go on?")
    assert b'back to before "make two" (@2 of claude bbbb-2, another session, ' in session.shown
    session.type("n\n")
    code, shown = session.end()
    assert code == 0 and b"nothing was changed" in shown and (root / "three").exists()


def test_the_first_characters_of_a_session_are_enough(two, root, casrewind):
    """`list` and plans print no more of it."""
    first, second, pictures = two
    assert "bbbb" in casrewind("list", code=0).out
    assert [turn["n"] for turn in casrewind.json("list", "--session", "bbbb")["turns"]] == [2]
    found = casrewind.json("back", "2", "--yes", "--session", "bbbb")
    assert found["session"] == "bbbb-2" and picture(root) == pictures[1]
    casrewind("undo", "--yes", code=0)
    Conversation(first.client, "aaaa-9").turn("make four", four="4")
    before = picture(root)
    for words in (("list",), ("back", "1", "--yes"), ("back", "--yes")):
        refused = casrewind(*words, "--session", "aaaa", code=15).err
        assert "session 'aaaa' names 2 sessions: aaaa-1, aaaa-9; give more characters of one" in refused
    assert casrewind.json("back", "1", "--yes", "--session", "aaaa-9")["prompts"] == ["make four"] and picture(root) != before
    refused = casrewind("back", "--yes", "--session", "bbb", code=16).err
    assert "no session 'bbb' is known here; give its id, or at least its first 4 characters" in refused, "as of an id"
    assert "no session 'cccc' is known here; known are aaaa-1, aaaa-9, bbbb-2\n" in casrewind("back", "--yes", "--session", "cccc", code=16).err


def test_a_turn_before_a_fork_goes_back_in_the_fork(two, root, casrewind):
    """The newest session is the fork. It has the turn, so that no other session goes back."""
    first, _, pictures = two
    fork = casrewind.json("back", "1", "--chat", "--yes")["fork"]
    forked = Conversation(first.client, fork["session_id"])
    forked.path, forked.number = Path(fork["path"]), 5
    forked.turn("make four", four="4")
    found = casrewind.json("back", "4", "--yes")
    assert (found["session"], found["prompts"]) == (fork["session_id"], ["make one", "make four"]) and picture(root) == pictures[2]
    casrewind("undo", "--yes", code=0)
    refused = casrewind("back", "2", "--yes", "--session", fork["session_id"], code=16)
    assert '@2 "make three" is a turn of claude aaaa-1' in refused.err and "its turns are @1, @4" in refused.err


def test_a_turn_of_another_session_is_refused_by_name(two, root, casrewind):
    before = picture(root)
    refused = casrewind("back", "@2", "--yes", "--session", "aaaa-1", code=16)
    assert '@2 "make two" is a turn of claude bbbb-2' in refused.err
    assert "This conversation is claude aaaa-1, its turns are @1, @3" in refused.err
    assert picture(root) == before
    assert "no turn '@7': this worktree has 3" in casrewind("back", "@7", "--yes", code=15).err
    assert "not a number" in casrewind("back", "@x", "--yes", code=64).err


def test_a_prompt_that_the_client_no_longer_has_is_named(two, root, casrewind):
    first, _, _ = two
    first.path.write_bytes(line("aaaa-1", 1, "make one", None))
    refused = casrewind("back", "@1", "--yes", code=16)
    assert 'the prompt of @1 "make three" is no longer in the conversation claude aaaa-1' in refused.err and "back 1 --code" in refused.err


def typed(client, session, command):
    """What a person sees who types a command in the client."""
    return client.typed(command, session_id=session)


def test_in_the_client_turns_of_other_sessions_are_not_listed_and_are_refused(two, root):
    first, _, pictures = two
    before = picture(root)
    lines = typed(first.client, "aaaa-1", "/casrewind").splitlines()
    assert [line[:4] for line in lines if "make" in line] == ["  @1", "  @3"], "the numbers are the worktree's"
    assert lines[-1] == "1 turn of other sessions: a terminal lists them" and not any("aaaa" in line for line in lines)
    assert max(map(len, lines)) <= IN_CLIENT, "80 columns hold a row and the client's indent"
    assert "make two" in typed(first.client, "aaaa-1", "/casrewind list --session bbbb-2")
    for word in ("2", "@2"):
        refused = typed(first.client, "aaaa-1", f"/casrewind back {word}")
        assert '@2 "make two" is a turn of claude bbbb-2' in refused and "its turns are @1, @3" in refused and picture(root) == before
    done = typed(first.client, "aaaa-1", "/casrewind back 3")
    assert "make one" in done and picture(root) == pictures[2]


def test_in_the_client_the_newest_eight_turns_are_shown(two):
    first, _, _ = two
    for number in range(8):
        first.turn(f"ask {number}")
    shown = typed(first.client, "aaaa-1", "/casrewind")
    assert [f"@{number} " in shown for number in (1, 8, 9)] == [True, True, False]


def test_in_the_client_a_row_fits_its_columns_and_says_how_much_would_change(two, root):
    first, _, _ = two
    first.turn("write the notes of each of the last seven weeks, and a page for every month\nof this year", **{f"n{number}.md": "n" for number in range(7)})
    shown = typed(first.client, "aaaa-1", "/casrewind")
    assert "+7         would change 7\n" in shown, shown
    for words in ("", " list", " list --all", " list --oneline"):
        lines = typed(first.client, "aaaa-1", "/casrewind" + words).splitlines()
        assert max(map(len, lines)) <= IN_CLIENT and any("write the notes" in line for line in lines), lines


def test_in_the_client_each_command_means_what_it_means_in_a_terminal(two, root):
    first, _, _ = two
    assert "two" in typed(first.client, "aaaa-1", "/casrewind show @2") and "make two" in typed(first.client, "aaaa-1", "/casrewind show @2")
    assert "make one" in typed(first.client, "aaaa-1", "/casrewind log one")
    plant(root, {"three": b"edited"})
    assert "three" in typed(first.client, "aaaa-1", "/casrewind diff")
    typed(first.client, "aaaa-1", "/casrewind restore @1")
    assert not (root / "three").exists()
    assert "undone" in typed(first.client, "aaaa-1", "/casrewind undo") and (root / "three").read_bytes() == b"edited"


def test_in_the_client_a_person_reviews_and_says_that_they_looked(two):
    first, _, _ = two
    assert "make two" in typed(first.client, "aaaa-1", "/casrewind review") and "+++ b/two" in typed(first.client, "aaaa-1", "/casrewind review -p")
    assert "marked as reviewed" in typed(first.client, "aaaa-1", "/casrewind review --done @2")
    assert "-- reviewed up to here" in typed(first.client, "aaaa-1", "/casrewind")
    shown = typed(first.client, "aaaa-1", "/casrewind review")
    assert "make three" in shown and "make two" not in shown and max(map(len, shown.splitlines())) <= IN_CLIENT
    assert "does not take --html in a prompt" in typed(first.client, "aaaa-1", "/casrewind review --html x")


# -- undo after a back


def test_undo_after_a_back_that_moved_no_file_names_what_it_would_take_back(two, root, casrewind):
    casrewind("restore", "@1", "--yes", code=0)
    restored = picture(root)
    casrewind("back", "@1", "--yes", code=0)  # the files are there already: only the conversation goes back
    for words in ([], ["--yes"], ["-n"], ["--yes", "--json"]):
        refused = casrewind("undo", *words, code=15)
        assert "claude aaaa-1) changed no file" in refused.err and 'the restore to before "make three"' in refused.err, words
        assert "casrewind undo --older does that" in refused.err and picture(root) == restored
    assert "--older" in typed(two[0].client, "aaaa-1", "/casrewind undo") and picture(root) == restored
    casrewind("undo", "--older", "--yes", code=0)
    assert (root / "three").exists()
    casrewind("redo", "--yes", code=0)
    assert picture(root) == restored


def test_the_api_and_the_picker_refuse_it_too(two, root, home, casrewind):
    casrewind("restore", "@1", "--yes", code=0)
    restored = picture(root)
    casrewind("back", "@1", "--yes", code=0)
    settings = api.default_settings()._replace(data=str(home / "data"), home=str(home))
    with api.open(root, settings) as workspace:
        def undo_in_picker():
            TimelineModel(workspace._context).undo(lambda _: pytest.fail("nothing is asked"))

        for undo in (workspace.undo, lambda: workspace.undo(dry_run=True), undo_in_picker):
            with pytest.raises(errors.NothingToUndo, match="the newest back .*claude aaaa-1. changed no file") as refused:
                undo()
            assert "--older" in refused.value.hint and picture(root) == restored
        assert workspace.undo(older=True).actions and (root / "three").exists()
        assert workspace.redo().actions and picture(root) == restored


def test_the_picker_names_what_its_undo_would_take_back(two, root, home, casrewind):
    casrewind("restore", "@1", "--yes", code=0)
    casrewind("back", "@1", "--yes", code=0)

    async def story(stage):
        await stage.shows("restored to @1")
        await stage.press("u")
        await stage.shows("That could not be done", "nothing was undone")
        words = " ".join(stage.text().replace("│", " ").split())
        assert 'undo would take back the restore to before "make three"' in words and "casrewind undo --older" in words, words

    run_picker(root, home, story)


def test_undo_after_a_chat_alone_is_the_same_also_when_gc_compacts_the_ledger(two, root, casrewind):
    casrewind("back", "@1", "--yes", code=0)
    casrewind("undo", "--yes", code=0)  # this back moved files
    casrewind("back", "@1", "--chat", "--yes", code=0)
    casrewind("gc", code=0)
    assert "nothing to undo: the newest back" in casrewind("undo", "--yes", code=15).err
    casrewind("restore", "@1", "--yes", code=0)
    casrewind("undo", "--yes", code=0)  # newer than that


def test_a_back_of_an_older_version_counts_as_the_restore_that_was_done_with_it(two, root, casrewind, monkeypatch):
    from casrewind.model import rewind_record

    write = rewind_record.encode
    monkeypatch.setattr(rewind_record, "encode", lambda one: write(one._replace(safety="")))
    casrewind("back", "@1", "--yes", code=0)
    casrewind("undo", "--yes", code=0)
    casrewind("redo", "--yes", code=0)
    casrewind("back", "@1", "--chat", "--yes", code=0)
    assert "--older" in casrewind("undo", "--yes", code=15).err


def test_an_agent_does_not_undo_what_another_session_restored(two, root, casrewind):
    casrewind("restore", "@1", "--yes", code=0, CASREWIND_SESSION="bbbb-2", CASREWIND_AGENT="claude")
    restored = picture(root)
    refused = casrewind("undo", "--yes", code=15, CASREWIND_SESSION="aaaa-1", CASREWIND_AGENT="claude")
    assert "by claude bbbb-2) belongs to another session" in refused.err and picture(root) == restored
    casrewind("undo", "--yes", code=0, CASREWIND_SESSION="bbbb-2", CASREWIND_AGENT="claude")
    casrewind("redo", "--yes", code=0)  # a person may


# -- a conversation of which no hook told


@pytest.fixture
def unseen(casrewind, root):
    """A project that casrewind does not know, and the transcript of a client that has no hooks."""
    plant(root, {"f": b"1"})
    directory = Path(casrewind.home) / ".claude" / "projects" / ("".join(c if c.isalnum() else "-" for c in str(root)))
    directory.mkdir(parents=True)
    recorded = (DATA / "claude" / "interactive_3turn.jsonl").read_bytes().replace(b"/home/dev/proj", os.fsencode(root))
    session = json.loads(recorded.splitlines()[0])["sessionId"]
    path = directory / f"{session}.jsonl"
    path.write_bytes(recorded)
    return path


@pytest.mark.parametrize("saved", [False, True])
def test_without_hooks_the_conversation_goes_back_and_it_is_said_that_the_files_stay(unseen, root, casrewind, saved):
    if saved:
        casrewind("save", code=0)
    before, prompts = picture(root), texts(unseen)
    found = casrewind("back", "2", code=0)
    assert "only the conversation claude" in found.err and "the files stay" in found.err and "casrewind install" in found.err
    session = found.out.partition("forked: claude --resume ")[2].split()[0]
    assert texts(unseen.parent / f"{session}.jsonl") == prompts[:-2] and picture(root) == before
    refused = casrewind("back", "1", "--code", "--yes", code=16)
    assert "its files cannot go back" in refused.err


def test_without_hooks_a_session_can_be_named(unseen, root, casrewind):
    other = unseen.parent / "other.jsonl"
    shutil.copy(unseen, other)
    os.utime(unseen, (0, 0))
    assert casrewind.json("back", "1")["session"] == "other"
    assert casrewind.json("back", "1", "--session", unseen.stem)["session"] == unseen.stem
    assert casrewind.json("back", "1", "--session", unseen.stem[:4])["session"] == unseen.stem
    shutil.copy(unseen, unseen.with_stem(unseen.stem[:6] + "ffff"))
    assert "names 2 sessions" in casrewind("back", "1", "--session", unseen.stem[:4], code=15).err


def test_a_conversation_of_another_project_is_not_taken(unseen, root, casrewind):
    recorded = unseen.read_bytes()
    code = casrewind("list").code  # that of a project without a store
    for other in (Path(f"{root}-two"), root / "inner"):
        plant(other, {".git/HEAD": b"ref: refs/heads/main\n", "g": b"1"})
        unseen.write_bytes(recorded.replace(os.fsencode(root), os.fsencode(other)))
        casrewind("back", "1", code=code)
    casrewind("save", code=0)
    assert "no agent's conversation is known here" in casrewind("back", "1", code=16).err
    unseen.write_bytes(recorded.replace(os.fsencode(root), os.fsencode(root / "src")))
    plant(root, {"src/h": b"1"})
    assert casrewind.json("back", "1")["session"] == unseen.stem, "the client was started in a directory of the project"
