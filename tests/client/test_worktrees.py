"""Real Claude Code in worktrees of a project: `claude -w NAME`, and a subagent with a worktree of its own, while the client works
in the checkout around them. What one takes back is nothing of the others."""

import shutil
import threading
from types import SimpleNamespace

import pytest

from support import real_clients
from support.claude_client import wait
from support.claude_model import bash, call
from support.command_in_process import InProcess
from support.git_repository import git, make_repository
from support.model_server import PATIENCE, Held
from support.picture import differences, picture
from support.trees import plant

pytestmark = [pytest.mark.xdist_group("client-worktrees"), *real_clients.at_times("worktrees")]

W2 = ".claude/worktrees/w2"


def ended(running):
    out, err = running.communicate(timeout=PATIENCE)
    assert running.returncode == 0, (out, err)


def connected(start):
    """A client in a repository with one file."""
    client = start()
    plant(client.project, {"app.py": b"one\n"})
    make_repository(client.project)
    client.casrewind("install", "claude", code=0)
    return client


@pytest.fixture(scope="module")
def beside(start):
    """A turn in the checkout and one in a worktree at the same time, each begun before the other ends; then the subagent."""
    client = connected(start)
    gates = {name: threading.Event() for name in ("main", "other")}
    agent = call("Agent", description="sub job", prompt="subtask: draft", subagent_type="general-purpose", isolation="worktree")
    client.model.script = {
        "main work": [[bash("echo two > app.py; echo x > main1")], Held(gates["main"], (bash("echo y > main2"),)), ["Done."]],
        "other work": [[bash("echo other > app.py; echo x > w2")], Held(gates["other"], (bash("echo z > late"),)), ["Done."]],
        "delegate": [[agent], ["Delegated."], ["Heard of it."]],
        "subtask: draft": [[bash("echo draft > draft.py")], ["Drafted."]],
    }
    main, other = client.start("main work"), None
    wait(lambda: (client.project / "main1").exists())
    other = client.start("other work", "-w", "w2")
    place = client.project / W2
    wait(lambda: (place / "w2").exists())
    gates["main"].set()
    ended(main)  # in the middle of the other turn
    middle = wait(lambda: newest_of(client, W2))
    gates["other"].set()
    ended(other)
    client.say("delegate")
    (agents,) = [found for found in place.parent.iterdir() if found.name != "w2"]
    wait(lambda: newest_of(client, f".claude/worktrees/{agents.name}"))
    return SimpleNamespace(client=client, place=place, agent=agents, middle=middle, inner=InProcess(place, client.home))


def newest_of(client, path):
    """The newest checkpoint of a worktree, as status in the checkout tells it."""
    found = client.casrewind.json("status")["worktrees"]
    return next((each["last_checkpoint"] for each in found if each["path"].endswith(path)), None)


def others(tree, path):
    """A picture without what lies at a path."""
    return {name: entry for name, entry in picture(tree).items() if not (name + b"/").startswith(path + b"/")}


def test_each_has_its_own_turn_with_what_it_did(beside):
    (turn,) = [turn for turn in beside.inner.json("list")["turns"] if turn["prompt"] == "other work"]
    assert (turn["changes"]["added"], turn["changes"]["modified"], turn["cut_short"]) == (2, 1, False)
    (turn,) = [turn for turn in beside.client.casrewind.json("list")["turns"] if turn["prompt"] == "main work"]
    assert (turn["changes"]["modified"], turn["cut_short"]) == (1, False)
    shown = beside.client.casrewind("show", f"@{turn['n']}", code=0).out
    assert "main1" in shown and "main2" in shown and "w2" not in shown and "late" not in shown


def test_verbs_in_the_checkout_touch_no_path_of_the_worktrees(beside):
    client, before = beside.client, picture(beside.place.parent)
    turn = next(turn for turn in client.casrewind.json("list")["turns"] if turn["prompt"] == "main work")
    back = ("back", str(turn["n"]), "--session", turn["session"], "--code", "-y")
    for words in (back, ("undo", "-y"), ("restore", "@2", "-y"), ("undo", "-y"), ("gc",), ("status",)):
        client.casrewind(*words, code=0)
        assert differences(before, picture(beside.place.parent)) == {}, words
    client.casrewind(*back, code=0)
    assert (client.project / "app.py").read_text() == "one\n"
    assert not (client.project / "main1").exists()
    assert differences(before, picture(beside.place.parent)) == {}
    client.casrewind("undo", "-y", code=0)


def test_verbs_in_a_worktree_touch_no_path_of_the_checkout(beside):
    before = others(beside.client.project, W2.encode())
    for words in (("back", "1", "--code", "-y"), ("undo", "-y"), ("restore", "@1", "-y"), ("gc",), ("status",)):
        beside.inner(*words, code=0)
        assert differences(before, others(beside.client.project, W2.encode())) == {}, words
    assert (beside.place / "app.py").read_text() == "one\n"
    assert not (beside.place / "late").exists()
    beside.inner("undo", "-y", code=0)


def test_a_take_in_the_checkout_touches_no_path_of_the_worktrees(beside, tmp_path):
    client, before = beside.client, picture(beside.place.parent)
    client.casrewind("save", "-m", "to take")
    client.casrewind("restore", "to take", "--to", str(tmp_path / "try"), code=0)
    plant(tmp_path / "try", {"tried.py": b"x\n"})
    client.casrewind("take", str(tmp_path / "try"), "-y", code=0)
    assert (client.project / "tried.py").exists()
    assert differences(before, picture(beside.place.parent)) == {}


def test_what_a_subagent_never_committed_comes_back_after_its_worktree_was_removed_by_force(beside):
    client, path = beside.client, f".claude/worktrees/{beside.agent.name}"
    wait(lambda: client.casrewind("cat", f"{newest_of(client, path)}:draft.py").code == 0)
    git(client.project, "worktree", "remove", "--force", "--force", path)
    assert not beside.agent.exists()
    (line,) = [line.strip() for line in client.casrewind("status", code=0).out.splitlines() if " --to " in line]
    client.casrewind(*line.split()[1:], code=0)
    assert (beside.agent / "draft.py").read_text() == "draft\n"
    shutil.rmtree(beside.agent)


# -- one conversation in a worktree and in the checkout around it


@pytest.fixture(scope="module")
def resumed(start):
    """A turn in a worktree, and a second one after the session was resumed from the checkout: the client goes back into the worktree."""
    client = connected(start)
    client.casrewind("save", code=0)
    into = [call("EnterWorktree", name="w4"), bash("echo in > entered")]
    client.model.script = {
        "first": [[bash("echo 1 > first")], ["Done."]], "second": [[bash("echo 2 > second")], ["Done."]],
        "enter one": [into[:1], into[1:], ["Done."]], "and then": [[bash("echo 3 > then")], ["Done."]],
        "go inside": [[bash("mkdir lib; git -C lib init -q; cd lib; echo 4 > lib.py")], ["Done."]], "still there": [[bash("echo 5 > more")], ["Done."]],
    }  # fmt: skip
    session = client.say("first", "-w", "w3")["session_id"]
    wait(lambda: newest_of(client, ".claude/worktrees/w3"))
    client.say("second", "--resume", session)
    place = client.project / ".claude/worktrees/w3"
    return SimpleNamespace(client=client, place=place, session=session, inner=InProcess(place, client.home))


def prompts_of(casrewind):
    return [turn["prompt"] for turn in casrewind.json("list")["turns"]]


def test_a_session_that_is_resumed_from_the_checkout_has_its_turns_where_the_client_works(resumed):
    assert (resumed.place / "second").exists()
    assert prompts_of(resumed.inner) == ["second", "first"]
    assert prompts_of(resumed.client.casrewind) == []
    (turn, _) = resumed.inner.json("list")["turns"]
    assert (turn["changes"]["added"], turn["cut_short"]) == (1, False)
    for words in (("back", "-y"), ("back", "1", "-y")):
        said = resumed.client.casrewind(*words, code=15).err
        assert f"is in {resumed.place}: nothing was changed" in said and f"casrewind -C {resumed.place} back" in said
    report = resumed.inner.json("back", "1", "-y")
    assert report["prompts"] == ["second"]
    assert not (resumed.place / "second").exists() and (resumed.place / "first").exists()
    resumed.inner("undo", "-y", code=0)


def test_a_turn_in_which_the_agent_enters_a_worktree_is_of_the_checkout_and_the_next_one_of_the_worktree(resumed):
    client, place = resumed.client, resumed.place.parent / "w4"
    session = client.say("enter one", "--allowedTools", "EnterWorktree,Bash")["session_id"]
    assert (place / "entered").exists()
    assert prompts_of(client.casrewind) == ["enter one"]
    assert client.casrewind.json("list")["turns"][0]["cut_short"] is False
    client.say("and then", "--resume", session)
    assert prompts_of(client.casrewind) == ["enter one"]
    assert prompts_of(InProcess(place, client.home)) == ["and then"]


def test_a_nested_repository_that_the_agent_enters_by_cd_takes_no_turn(resumed):
    client = resumed.client
    before = prompts_of(client.casrewind)
    session = client.say("go inside")["session_id"]
    client.say("still there", "--resume", session)
    assert prompts_of(client.casrewind) == ["still there", "go inside", *before]
    assert InProcess(client.project / "lib", client.home)("list").code == 10
