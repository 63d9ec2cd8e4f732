"""back --code takes the files back, also where no conversation can be had: the half that was not asked for refuses nothing."""

import pytest

from casrewind import errors
from casrewind.workspace import Workspace
from support.agent_turns import AgentTurns
from support.fake_client import Client
from support.trees import plant


def three_turns(workspace, root, agent):
    turns = AgentTurns(workspace, root, agent=agent)
    for number in (1, 2, 3):
        turns.prompt(f"p{number}", f"step {number}")
        plant(root, {f"made{number}": b"%d\n" % number})
        turns.stop(f"p{number}")


@pytest.fixture
def project(casrewind, root, settings):
    """Three turns of a client whose conversation nobody can read, or of one whose transcript is gone."""
    plant(root, {"a": b"1\n"})
    return lambda agent: _with_turns(root, settings, agent)


def _with_turns(root, settings, agent):
    with Workspace(str(root), settings, create=True) as workspace:
        three_turns(workspace, root, agent)


def names(root):
    return sorted(place.name for place in root.iterdir())


@pytest.mark.parametrize("agent", ["qwen", "claude"])
def test_a_turn_is_named_by_its_number_and_the_files_go_back(project, casrewind, root, agent):
    project(agent)
    plan = casrewind("back", "2", "--code", "-n", code=0).out
    assert "- made2" in plan and "- made3" in plan and names(root) == ["a", "made1", "made2", "made3"]
    done = casrewind("back", "2", "--code", "-y", code=0).out
    assert 'restored to before "step 2"' in done and "casrewind undo takes this back" in done and names(root) == ["a", "made1"]
    casrewind("undo", "-y", code=0)
    assert names(root) == ["a", "made1", "made2", "made3"]
    found = casrewind.json("back", "--code", "-y")
    assert found["fork"] is None and found["prompts"] == [] and found["turn"] == 1 and names(root) == ["a", "made1", "made2"]


def test_what_is_taken_back_already_is_skipped_and_a_number_means_no_other_turn(project, casrewind, root):
    project("qwen")
    casrewind("back", "1", "--code", "-y", code=0)
    done = casrewind("back", "--code", "-y", code=0)
    assert names(root) == ["a", "made1"] and "@1 is taken back already; the newest that is not is @2" in done.err
    assert "@1 is taken back already; nothing was changed" in casrewind("back", "1", "--code", "-y", code=16).err
    assert "nothing to do" in casrewind("back", "2", "--code", "-y", code=0).out and names(root) == ["a", "made1"]
    casrewind("back", "3", "--code", "-y", code=0)
    for words in (["--code"], ["--code", "-n"]):
        assert "are taken back already; nothing was changed" in casrewind("back", *words, "-y", code=16).err and names(root) == ["a"]


def test_with_the_conversation_asked_for_nothing_changes_and_the_hint_names_the_files_alone(project, casrewind, root):
    project("qwen")
    refused = casrewind("back", "2", "-y", code=16)
    assert "casrewind back 2 --code takes the files back" in refused.err and names(root) == ["a", "made1", "made2", "made3"]
    refused = casrewind("back", "-y", code=16)
    assert "casrewind back --code takes the files back" in refused.err
    assert "--code" not in casrewind("back", "2", "--chat", "-y", code=16).err


def test_a_session_that_has_not_this_turn_is_refused_as_before(project, casrewind, root):
    project("qwen")
    casrewind("back", "2", "--code", "--session", "another", "-y", code=16)
    assert names(root) == ["a", "made1", "made2", "made3"]


def test_without_a_turn_there_is_nothing_to_go_back_to(casrewind, root):
    plant(root, {"a": b"1\n"})
    casrewind("save", code=0)
    assert casrewind("back", "--code", "-y", code=16).err


def test_a_plan_in_a_terminal_is_asked_about_and_kept_edits_stay(project, casrewind, root):
    project("qwen")
    plant(root, {"made1": b"by hand\n", "mine": b"by hand\n"})
    done = casrewind("back", "3", "--code", "--keep-edits", "-y", code=3).out
    assert "made2" not in names(root) and (root / "mine").exists() and (root / "made1").exists() and "your edits" in done


def test_the_api_does_the_same(project, root, settings):
    project("qwen")
    with Workspace(str(root), settings, create=False) as workspace:
        done = workspace.back(2, chat=False)
        assert done.chat is None and done.restored.safety and names(root) == ["a", "made1"]
        with pytest.raises(errors.AgentError):
            workspace.back(2)


def test_in_a_client_it_is_planned_and_its_smallest_step_is_done_at_once(project, casrewind, root):
    """The client's transcript is gone; the person types in the session of the turns."""
    project("claude")
    client = Client(casrewind, root)
    plan = client.typed("/casrewind back 2 --code", agree=False, session_id="s1")
    assert "- made2" in plan and "nothing has changed yet" in plan and names(root) == ["a", "made1", "made2", "made3"]
    client.typed("/casrewind back 2 --code", session_id="s1")
    assert names(root) == ["a", "made1"]
    casrewind("undo", "-y", code=0)
    done = client.typed("/casrewind back --code", agree=False, session_id="s1")
    assert 'restored to before "step 3"' in done and names(root) == ["a", "made1", "made2"]
