"""Workspace.revert: programs can do what the command does."""

import pytest

from casrewind import CheckpointError, StoreBusy, UsageError
from casrewind.agents import client_process
from casrewind.store.agent_sessions import AgentSession
from casrewind.workspace import open as opened
from support.agent_turns import AgentTurns
from support.trees import plant


@pytest.fixture
def agent(root, settings):
    plant(root, {"a": b"1\n2\n3\n4\n5\n"})
    with opened(root, settings) as workspace:
        found = AgentTurns(workspace, root)
        for name, text in (("first", b"one\n2\n3\n4\n5\n"), ("second", b"one\n2\nthree\n4\n5\n")):
            found.prompt(name, name)
            plant(root, {"a": text})
            found.stop(name)
        yield found


def test_turns_are_numbers_words_or_values_in_any_order(agent):
    turns = agent.workspace.turns()
    for some in ([1, 2], ["@2", 1], [turns[1], turns[0]], [turns[0].id, turns[1].id, 2]):
        plan = agent.workspace.plan_revert(some)
        assert plan.dry_run and [(action.path, action.after.size) for action in plan.actions] == [(b"a", 10)]
    assert [item.data for item in agent.workspace.revert([2]).merged] == [b"1\n2\nthree\n4\n5\n"]
    for wrong in ([], [1, 1.5], ["last"], [7]):
        with pytest.raises((UsageError, CheckpointError)):
            agent.workspace.revert(wrong)
    with pytest.raises(UsageError):
        agent.workspace.revert([1], conflicts="mine")


def test_a_turn_that_runs_is_refused_unless_that_is_said(agent, root):
    agent.prompt("third", "third")
    plant(root, {"a": b"half\n"})
    import os

    start, key = client_process.client_process(os.getpid()).start, agent.context.root.key.hex()
    alive = AgentSession("claude", "s1", "", agent.context.root.path, key, 1, "UserPromptSubmit", True, os.getpid(), start, "", "")
    agent.context.store.sessions.record(alive)
    with pytest.raises(StoreBusy, match="@1 has not ended"):
        agent.workspace.revert([1])
    agent.workspace.revert([1], running=True)
    assert (root / "a").read_bytes() == b"one\n2\nthree\n4\n5\n"
