"""A prompt's checkpoint that is published while the end of its turn is being saved: the turn's work is nobody else's."""

import pytest

from casrewind.model import checkpoint as checkpoints
from casrewind.upkeep import agent_event
from casrewind.workspace import open as opened
from support.agent_turns import AgentTurns
from support.trees import plant


@pytest.fixture
def agent(root, settings):
    plant(root, {"f": b"0"})
    with opened(root, settings) as workspace:
        found = AgentTurns(workspace, root)
        found.prompt("one", "the first")
        plant(root, {"f": b"1"})
        found.stop("one")
        yield found


def late_prompt(agent, settings):
    """The prompt of the second turn, by another process whose disk was slow."""
    with opened(agent.root, settings) as workspace:
        AgentTurns(workspace, agent.root).prompt("two", "the second")


def test_while_the_end_is_scanned(agent, root, settings):
    def scanning(*_):
        if plain.context.progress is not None:
            plain.context = plain.context._replace(progress=None)
            late_prompt(agent, settings)
            plant(root, {"f": b"2"})

    plain = Told(agent.workspace, root)
    plain.context = agent.context._replace(progress=scanning)
    end = plain.stop("two")
    prompts = [point for point, _ in agent.workspace.checkpoints() if point.trigger == checkpoints.PROMPT]
    assert (end.label, end.parent, end.changes.modified) == ("", prompts[0].id, 1)


@pytest.mark.parametrize("before", [b"1", b"2"])
def test_while_the_end_is_published(agent, root, settings, monkeypatch, before):
    """`before`: the file as the prompt's checkpoint has it. b"2" is what the end has, too."""
    ask, answers = agent_event._why_files_changed, []

    def slowly(*arguments):
        answers.append(ask(*arguments))
        if len(answers) == 1:
            plant(root, {"f": before})
            late_prompt(agent, settings)
            plant(root, {"f": b"2"})
        return answers[-1]

    monkeypatch.setattr(agent_event, "_why_files_changed", slowly)
    plant(root, {"f": b"2"})
    end = agent.stop("two")
    assert "typed in the client" in answers[0], "before the prompt it is unknown what changed the file"
    assert (end.label, end.changes.modified) == ("", before != b"2")


class Told(AgentTurns):
    """With a context of its own."""

    context = None
