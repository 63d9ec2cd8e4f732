"""The conversation at a checkpoint, in a fork and in its own session; and what is known of sessions besides."""

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
from support.fake_client import Client
from support.picture import picture
from support.terminal import Session
from support.trees import plant


def texts(path):
    return [prompt.text for prompt in claude.prompts(Path(path).read_bytes())]


@contextlib.contextmanager
def running():
    """A process that stands for a client that is alive."""
    process = subprocess.Popen(["sleep", "600"])
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def session_of(client):
    return json.loads(client.transcript.read_bytes().splitlines()[0])["sessionId"]


def test_in_place_the_session_itself_is_cut_and_kept_beside(ended, root, casrewind):
    client, prompts, pictures = ended
    whole = client.transcript.read_bytes()
    found = casrewind.json("back", "2", "--both", "--in-place", "--yes")
    assert found["fork"]["mode"] == "in_place" and found["fork"]["session_id"] == session_of(client)
    assert found["fork"]["resume"].endswith(session_of(client))
    assert Path(found["fork"]["backup"]).read_bytes() == whole
    assert not found["fork"]["backup"].endswith(".jsonl"), "the client would show it as a session"
    assert texts(client.transcript) == [prompts[0].text] and found["prompts"] == [prompts[1].text, prompts[2].text]
    assert whole.startswith(client.transcript.read_bytes()[:1000])
    assert picture(root) == pictures[1]
    for path in (client.transcript, found["fork"]["backup"]):
        assert os.stat(path).st_mode & 0o777 == 0o600


def test_in_place_a_session_that_is_gone_comes_back_without_what_it_was_allowed(ended, casrewind):
    """Its bytes are from the store then: they may say what was true on another day."""
    client, prompts, _ = ended
    assert any("permissionMode" in json.loads(line) for line in client.transcript.read_text().splitlines())
    client.transcript.unlink()
    found = casrewind.json("back", "1", "--chat", "--in-place", "--yes")
    assert found["fork"]["mode"] == "in_place" and found["fork"]["backup"] is None
    assert texts(client.transcript) == [prompt.text for prompt in prompts[:2]]
    assert not any("permissionMode" in json.loads(line) for line in client.transcript.read_text().splitlines())


def test_nothing_is_rewritten_under_a_client_that_lives_or_may_live(told, root, casrewind):
    client, _, _ = told
    whole = client.transcript.read_bytes()
    with running() as process:
        client.send(client.payload("Stop.plain", session_id=session_of(client)), CLAUDE_PID=str(process.pid))
        for arguments in (("back", "1", "--in-place", "--yes", "--both"), ("rewrite-chat", "last")):
            refused = casrewind(*arguments, code=16)
            assert "still runs" in refused.err and str(process.pid) in refused.err
    shutil.rmtree(Path(casrewind.json("status")["store"]) / "sessions")
    assert "it is unknown whether" in casrewind("back", "1", "--chat", "--in-place", "--yes", code=16).err
    assert client.transcript.read_bytes() == whole
    assert (root / "f").read_bytes() == b"wrecked"


def test_in_place_before_the_first_prompt_is_a_new_session_and_changes_nothing(ended, casrewind):
    client, _, _ = ended
    whole = client.transcript.read_bytes()
    assert "start a new one" in casrewind("back", "3", "--chat", "--in-place", "--yes", code=16).err
    assert client.transcript.read_bytes() == whole


def rewrite(casrewind, reference, typed):
    return casrewind("rewrite-chat", reference, stdin=typed.encode())


@pytest.mark.parametrize("typed", ["", "rewrite\n", "y\n", "REWRITE it\n"])
def test_a_chat_is_rewritten_for_no_other_word(ended, casrewind, typed):
    client, _, _ = ended
    whole, there = client.transcript.read_bytes(), sorted(os.listdir(client.transcript.parent))
    done = rewrite(casrewind, "@2", typed)
    assert done.code == 64 and "nothing was changed" in done.err
    assert client.transcript.read_bytes() == whole and sorted(os.listdir(client.transcript.parent)) == there


def test_a_chat_is_rewritten_at_a_checkpoint_when_the_word_is_typed(ended, root, casrewind):
    client, prompts, _ = ended
    whole = client.transcript.read_bytes()
    turn = [point for point in client.points() if point["trigger"] == "turn_end"]
    done = rewrite(casrewind, prompt_point(client, prompts[1])["id"], "REWRITE\n")
    assert done.code == 0 and "rewritten: claude --resume" in done.out, done
    assert f"taken back: {prompts[2].text[:20]}" in done.err
    assert texts(client.transcript) == [prompts[0].text]
    assert (root / "f").read_bytes() == b"wrecked", "only the conversation was asked for"
    assert len(turn) == 3
    assert any(path.read_bytes() == whole for path in client.transcript.parent.iterdir() if "before-rewind" in path.name)


def prompt_point(client, prompt):
    return next(p for p in client.points() if p["trigger"] == "prompt" and p["prompt"] == prompt.text[:200])


def test_restore_chat_and_both_at_the_checkpoint_of_a_prompt(told, root, casrewind):
    client, prompts, pictures = told
    point = prompt_point(client, prompts[2])["id"]
    found = casrewind.json("restore", point, "--chat")
    assert texts(found["fork"]["path"]) == [prompt.text for prompt in prompts[:2]] and found["prompts"] == [prompts[2].text]
    assert (root / "f").read_bytes() == b"wrecked" and "restored" not in found
    for command in (("restore", point, "--both", "--yes"), ("jump", point, "--yes")):
        plant(root, {"f": b"wrecked"})
        found = casrewind.json(*command)
        assert texts(found["fork"]["path"]) == [prompt.text for prompt in prompts[:2]]
        assert picture(root) == pictures[2] and found["target"] == point


def test_restore_chat_at_the_end_of_a_turn_keeps_the_turn(told, casrewind):
    client, prompts, _ = told
    ends = [point for point in reversed(client.points()) if point["trigger"] == "turn_end"]
    # Their hooks said the prompt_id of a recorded turn of another session: the place is that of the last line
    found = casrewind.json("restore", ends[-1]["id"], "--chat")
    assert texts(found["fork"]["path"]) == [prompt.text for prompt in prompts] and found["prompts"] == []


def test_a_dry_run_of_both_says_what_would_be_and_does_nothing(told, root, casrewind):
    client, prompts, _ = told
    point = prompt_point(client, prompts[1])["id"]
    there = sorted(os.listdir(client.transcript.parent))
    found = casrewind.json("jump", point, "--dry-run")
    assert found["dry_run"] and found["fork"] is None and found["prompts"] == [prompt.text for prompt in prompts[1:]]
    assert {change["path"] for change in found["changes"]} >= {"f", "only2"}
    assert (root / "f").read_bytes() == b"wrecked" and sorted(os.listdir(client.transcript.parent)) == there
    assert "would take back 2 prompts" in casrewind("restore", point, "--chat", "--dry-run", code=0).out


def test_a_checkpoint_without_a_conversation_is_16(told, casrewind):
    casrewind("save", "-m", "by hand", code=0)
    for arguments in (("restore", "by hand", "--chat"), ("jump", "by hand", "--yes"), ("rewrite-chat", "by hand")):
        assert "no conversation" in casrewind(*arguments, code=16).err
    assert casrewind("restore", "by hand", "--chat", "--to", "x", code=64).out == ""
    assert casrewind("restore", "by hand", "--chat", "--", "f", code=64).out == ""


def test_a_conversation_of_which_no_transcript_was_named_says_so(root, casrewind):
    """As of a client that names none, or whose hook left out an unsafe name."""
    client = Client(casrewind, root)
    plant(root, {"f": b"1"})
    casrewind("save", code=0)
    client.send(client.payload("UserPromptSubmit.prompt", session_id="s", prompt_id="p1", transcript_path=None))
    plant(root, {"f": b"2"})
    client.send(client.payload("Stop.plain", session_id="s", prompt_id="p1", transcript_path=None))
    for words in (["back", "1", "--chat"], ["restore", "@1", "--chat", "-y"], ["back", "-y"]):
        said = casrewind(*words, code=16).err
        assert "the client named no transcript of this conversation, and none of its bytes were stored" in said, words
        assert "  " not in said
    assert (root / "f").read_bytes() == b"2"
    casrewind("back", "1", "--code", "-y", code=0)
    assert (root / "f").read_bytes() == b"1"


def test_a_transcript_that_was_written_anew_is_forked_from_the_stored_bytes(told, casrewind):
    client, prompts, _ = told
    other = b'{"type":"user","uuid":"1","parentUuid":null,"sessionId":"x","message":{"role":"user","content":"of another"}}\n'
    client.transcript.write_bytes(other)
    found = casrewind("back", "1", "--chat", code=0)
    assert "gone or was rewritten" in found.err
    assert texts(found.out.partition("forked: claude --resume ")[2].split()[0].join((f"{client.transcript.parent}/", ".jsonl"))) == [
        prompt.text for prompt in prompts[:2]
    ]
    found = casrewind.json("restore", prompt_point(client, prompts[1])["id"], "--chat")
    assert texts(found["fork"]["path"]) == [prompts[0].text]
    assert client.transcript.read_bytes() == other


def test_a_project_directory_of_the_client_that_is_gone_is_made_again(told, casrewind):
    client, prompts, _ = told
    shutil.rmtree(client.transcript.parent)
    found = casrewind.json("back", "1", "--chat")
    assert texts(found["fork"]["path"]) == [prompt.text for prompt in prompts[:2]]


def fork_and_go_on(told, casrewind, root):
    """Go back before the last prompt, and open the fork: (session of the fork, its transcript)."""
    client, prompts, _ = told
    fork = casrewind.json("back", "1", "--both", "--yes")["fork"]
    path = {"session_id": fork["session_id"], "transcript_path": fork["path"]}
    client.send(client.payload("SessionStart.resume", **path))
    return fork["session_id"], fork["path"]


def test_a_fork_goes_on_from_its_parents_checkpoints(told, root, casrewind):
    client, prompts, pictures = told
    session, path = fork_and_go_on(told, casrewind, root)
    newest = client.points()[0]
    assert newest["trigger"] == "session_start" and newest["session"] == session
    assert newest["label"].startswith("as restored from c"), "what a restore of ours changed is not somebody else's doing"
    plant(root, {"f": b"again wrong"})
    found = casrewind.json("back", "--both", "--yes", "--session", session)
    assert picture(root) == pictures[1] and texts(found["fork"]["path"]) == [prompts[0].text]
    listed = {point["id"] for point in casrewind.json("list", "--session", session)["checkpoints"]}
    assert newest["id"] in listed and prompt_point(client, prompts[0])["id"] in listed
    parents = casrewind.json("list", "--session", session_of(client))["checkpoints"]
    assert newest["id"] not in {point["id"] for point in parents}


def test_the_lineage_survives_gc_and_the_loss_of_the_index(told, root, casrewind):
    client, prompts, _ = told
    session, _ = fork_and_go_on(told, casrewind, root)
    store = Path(casrewind.json("status")["store"])
    before = casrewind.json("list", "--session", session)
    casrewind("gc", code=0)
    shutil.rmtree(store / "index")
    shutil.rmtree(store / "sessions")
    after = casrewind.json("list", "--session", session)
    assert after["checkpoints"] == before["checkpoints"] and len(before["checkpoints"]) > 3
    for turn in (*before["turns"], *after["turns"]):  # which sessions live is written down in the directory that is gone
        for name in ("running", "cut_short", "mixed", "ended_at", "after", "changes", "paths", "end_unseen"):
            del turn[name]
    assert after["turns"] == before["turns"]


def test_the_agents_shell_says_which_session_is_meant(told, root, casrewind):
    client, prompts, _ = told
    client.send(client.payload("Stop.plain", session_id="another", transcript_path="/nowhere.jsonl"))
    assert "nothing was asked in this conversation yet" in casrewind("back", "--chat", code=16).err
    assert f"--session {session_of(client)}" in casrewind("back", "1", "--chat", "--yes", code=64).err
    found = casrewind.json("back", "1", "--chat", CASREWIND_SESSION=session_of(client))
    assert found["prompts"] == [prompts[2].text]
    assert casrewind.json("back", "1", "--chat", "--session", session_of(client))["prompts"] == [prompts[2].text]
    assert "no session 'nobody'" in casrewind("back", "1", "--chat", "--session", "nobody", code=16).err


def test_paths_that_changed_while_another_session_ran_are_listed_apart(told, root, casrewind, settings):
    client, prompts, _ = told
    shown = []
    with running() as process:
        other = {"session_id": "other", "transcript_path": "/nowhere.jsonl"}
        client.send(client.payload("UserPromptSubmit.prompt", prompt="hm", **other), CLAUDE_PID=str(process.pid))
        plant(root, {"theirs": b"1"})
        client.send(client.payload("Stop.plain", **other), CLAUDE_PID=str(process.pid))
        plant(root, {"mine": b"1"})
        client.send(client.payload("Stop.plain", session_id=session_of(client)))
        client.send(client.payload("UserPromptSubmit.prompt", prompt="hm", **other), CLAUDE_PID=str(process.pid))
        plant(root, {"running": b"1"})
        with api.open(root, settings) as project, pytest.raises(errors.Declined):
            project.back(confirm=lambda plan: shown.append(plan) or False, session=session_of(client))
        found = casrewind.json("back", "--both", "--yes", "--session", session_of(client))
    assert [plan.foreign for plan in shown] == [(b"running", b"theirs")]
    assert found["foreign"] == ["running", "theirs"]
    assert not (root / "theirs").exists() and not (root / "mine").exists()
    casrewind("undo", "--yes", code=0)
    assert (root / "theirs").read_bytes() == b"1"


def test_a_rewind_from_outside_says_that_a_turn_is_running(told, root, casrewind):
    client, prompts, _ = told
    with running() as process:
        client.prompt(session_of(client), prompts[2], CLAUDE_PID=str(process.pid))
        assert "under way" in casrewind("back", "1", "--chat", code=0).err
        answer = client.typed("/casrewind back 1", session_id=session_of(client), variables={"CLAUDE_PID": str(process.pid)})
        assert "under way" not in answer and "to go on from there: /resume " in answer, "it was cut short with Esc"
        assert casrewind("back", "1", "--chat", code=0).err == ""


def test_on_a_terminal_the_nearest_checkpoint_is_asked_for(told, root, casrewind):
    client, prompts, pictures = told
    client.transcript.write_bytes(client.transcript.read_bytes().replace(prompts[2].text.encode(), b"never seen by a hook"))
    command = [sys.executable, "-m", "casrewind", "-C", str(root), "back", "1", "--both"]
    session = Session(command, casrewind.environment)
    session.read_until(b"Go on? [y/N]")
    assert b"no checkpoint was made for that prompt; the nearest before it is" in session.shown
    session.type("n\n")
    code, shown = session.end()
    assert code == 0 and b"nothing was changed" in shown and (root / "f").read_bytes() == b"wrecked"
    session = Session(command, casrewind.environment)
    session.read_until(b"Go on? [y/N]")
    session.type("y\n")
    session.read_until(b"kept for undo")
    session.type("y\n")
    code, shown = session.end()
    assert code == 0 and b"forked: claude --resume" in shown
    assert (root / "f").read_bytes() == b"before prompt 1", "the end of the turn before is the nearest"


def test_a_late_checkpoint_of_a_prompt_is_not_taken_unasked(told, root, casrewind):
    client, prompts, pictures = told
    whole = client.transcript.read_bytes()
    moment = os.stat(root / "f").st_mtime_ns - 10**10  # before the files got what they hold now
    session = session_of(client)
    line = b'{"type":"user","uuid":"late","parentUuid":"%s","promptSource":"typed","promptId":"p-late","sessionId":"%s",' % (
        prompts[2].uuid.encode(), session.encode())  # fmt: skip
    payload = client.payload("UserPromptSubmit.prompt", session_id=session, prompt="a late one", prompt_id="p-late")
    client.send(payload, "claude", "UserPromptSubmit", "--child", str(moment))
    late = client.points()[0]
    assert late["prompt"] == "a late one"
    client.transcript.write_bytes(whole + line + b'"message":{"role":"user","content":"a late one"}}\n')
    refused = casrewind("back", "1", "--both", "--yes", code=15)
    assert late["id"] in refused.err and "changed after it was sent" in refused.err and "--nearest" in refused.err
    assert (root / "f").read_bytes() == b"wrecked"
    found = casrewind("back", "1", "--both", "--yes", "--nearest", code=0)
    assert "the nearest before it" in found.err and (root / "f").read_bytes() != b"wrecked"


def test_what_was_taken_back_is_put_on_the_clipboard_where_there_is_one(told, casrewind, tmp_path):
    _, prompts, _ = told
    tools = tmp_path / "tools"
    tools.mkdir()
    (tools / "xclip").write_text(f'#!/bin/sh\necho "$@" > {tools}/arguments\ncat > {tools}/clipboard\n')
    (tools / "xclip").chmod(0o755)
    path = f"{tools}:/usr/bin:/bin"
    found = casrewind("back", "2", "--chat", "--copy", code=0, PATH=path, DISPLAY=":7")
    assert "copied to the clipboard (xclip)" in found.out
    assert (tools / "clipboard").read_text() == f"{prompts[1].text}\n\n{prompts[2].text}"
    assert (tools / "arguments").read_text() == "-selection clipboard\n"
    missing = casrewind("back", "2", "--chat", "--copy", code=0, PATH=path)  # no display: it could not be asked for
    assert "no clipboard tool" in missing.err and "continue the conversation: claude --resume" in missing.out
    assert casrewind.json("back", "1", "--chat", "--copy", PATH=path, DISPLAY=":7")["copied"] is True


@pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux is not installed")
def test_the_clipboard_of_a_real_tmux(told, casrewind, tmp_path):
    _, prompts, _ = told
    socket = str(tmp_path / "tmux")
    tmux = ["tmux", "-S", socket, "-f", "/dev/null"]
    subprocess.run([*tmux, "new-session", "-d", "sleep 600"], check=True, env={**casrewind.environment, "TERM": "xterm"})
    try:
        found = casrewind("back", "1", "--chat", "--copy", code=0, TMUX=f"{socket},1,0")
        assert "copied to the clipboard (tmux)" in found.out
        assert subprocess.run([*tmux, "show-buffer"], check=True, capture_output=True, text=True).stdout == prompts[2].text
    finally:
        subprocess.run([*tmux, "kill-server"], check=False)


def test_a_session_is_a_file_that_other_tools_can_read(told, casrewind, root):
    client, _, _ = told
    store = Path(casrewind.json("status")["store"])
    found = json.loads((store / "session.json").read_text())
    assert found["version"] == 1 and found["agent"] == "claude" and found["session_id"] == session_of(client)
    assert found["transcript_path"] == str(client.transcript) and found["project_root"] == str(root)
    assert found["updated_at"].endswith("Z") and "env_file" not in found
    assert (store / "session.json").stat().st_mode & 0o777 == 0o600
    assert json.loads(next((store / "sessions").iterdir()).read_text())["version"] == 1


def test_a_session_whose_transcript_is_gone_is_forgotten_after_the_retention_age_and_not_before(told, casrewind):
    client, _, _ = told
    store = Path(casrewind.json("status")["store"])

    def sessions():
        return {json.loads(path.read_text())["session_id"] for path in (store / "sessions").iterdir()}

    client.send(client.payload("Stop.plain", session_id="lost", transcript_path="/nowhere/lost.jsonl"))
    both = {session_of(client), "lost"}
    casrewind("gc", code=0)
    assert sessions() == both
    casrewind("gc", "--max-age", "0s", "--dry-run", code=0)
    assert sessions() == both
    casrewind("gc", "--max-age", "0s", code=0)
    assert sessions() == {session_of(client)}
    client.transcript.unlink()
    casrewind("gc", "--max-age", "0s", code=0)
    assert sessions() == set()


def test_the_agents_shell_is_told_by_the_clients_file(casrewind, root, tmp_path):
    plant(root, {"f": b"1"})
    client = Client(casrewind, root)
    file = tmp_path / "env"
    file.write_text("export THEIRS=1\n")
    for name in ("SessionStart.startup", "SessionStart.resume"):
        client.send(client.payload(name), CLAUDE_ENV_FILE=str(file))
    client.wait_for(2)
    text = file.read_text()
    assert text.startswith("export THEIRS=1\n") and text.count("CASREWIND_AGENT") == text.count("CASREWIND_SESSION=") <= 2
    told = subprocess.run(["sh", "-c", f'. {file}; echo "$THEIRS $CASREWIND_AGENT"; echo "$CASREWIND_PROJECT_ROOT"; echo "$CASREWIND_TRANSCRIPT_PATH"'],
                          capture_output=True, text=True, check=True).stdout  # fmt: skip
    assert told == f"1 claude\n{root}\n{client.transcript}\n"


def test_a_name_does_not_become_a_command_in_the_agents_shell(casrewind, tmp_path):
    from casrewind.agents import client_process

    nasty = 'a"; touch owned; $(touch owned) `touch owned` \\" $HOME'
    data = client_process.export_lines({"CASREWIND_SESSION": nasty, "CASREWIND_AGENT": "two\nlines"})
    (tmp_path / "env").write_bytes(data)
    found = subprocess.run(["sh", "-c", '. ./env; printf %s "$CASREWIND_SESSION"; printf %s "$CASREWIND_AGENT"'],
                           cwd=tmp_path, capture_output=True, text=True, check=True)  # fmt: skip
    assert found.stdout == nasty and os.listdir(tmp_path).count("owned") == 0


@pytest.mark.parametrize("kind", ["link", "directory", "fifo", "missing directory"])
def test_an_env_file_that_is_none_is_left_alone(casrewind, root, tmp_path, kind):
    plant(root, {"f": b"1"})
    client = Client(casrewind, root)
    place, victim = tmp_path / "env", tmp_path / "victim"
    victim.write_text("as it was\n")
    if kind == "link":
        place.symlink_to(victim)
    elif kind == "directory":
        place.mkdir()
    elif kind == "fifo":
        os.mkfifo(place)
    else:
        place = tmp_path / "none" / "env"
    client.send(client.payload("SessionStart.startup"), CLAUDE_ENV_FILE=str(place))
    client.wait_for(1)
    assert victim.read_text() == "as it was\n"
