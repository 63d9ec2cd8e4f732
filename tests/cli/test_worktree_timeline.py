"""What is asked of the newest turns is answered from the newest checkpoints, and as if all had been read."""

import os
import time
import types

import pytest

from casrewind.agents import client_process
from casrewind.upkeep import agent_event
from casrewind.history import turn_checkpoints, worktree_timeline
from casrewind.model import checkpoint
from casrewind.store.agent_sessions import AgentSession
from support.agent_turns import AgentTurns
from casrewind.workspace import open as opened
from support import sample_start
from support.function_calls import count_calls
from support.trees import plant

WINDOWS, TURNS = (worktree_timeline.WINDOWS, 130) if sample_start.takes_all else ((128, 512), 65)
"""How many checkpoints are read at first and then: a push reads half, of histories half as long. So many turns are more than those."""
MOST = WINDOWS[0]
WORDS = [
    ("list", "-n", "1"), ("list", "-n", "20"), ("list", "-n", "20", "--oneline"), ("list", "-n", "20", "--reverse"), ("list", "-n", "60"),
    ("show",), ("show", "last"), ("show", "prev"), ("show", "@1"), ("show", "7"), ("show", "after:@3"), ("show", "@2", "--json"),
    ("diff",), ("diff", "@2"), ("diff", "@5", "@2"), ("diff", "after:@4", "@1"), ("restore", "-n", "@2"), ("restore", "-n", "after:@30"),
]  # fmt: skip
WHOLE = [("list",), ("list", "-n", "10000"), ("list", "-n", "20", "--json"), ("list", "-n", "3", "--all"), ("show", "@250"), ("show", "@0"),
         ("show", "@99999"), ("diff", "@2", "@250"), ("restore", "-n", "@99999")]  # fmt: skip
"""What the newest checkpoints are not enough for."""


class Agent(AgentTurns):
    """A client whose hooks report the ends of turns."""

    def tell(self, name, prompt_id="", **more):
        event = self.event(name, prompt_id, **more)
        return agent_event.record_event(self.context, event, 0, (), transcripts=False, tells_ends=True).checkpoint


@pytest.fixture(autouse=True)
def windows(monkeypatch):
    monkeypatch.setattr(worktree_timeline, "WINDOWS", WINDOWS)


@pytest.fixture
def agent(root, settings):
    plant(root, {"f": b"0"})
    with opened(root, settings) as workspace:
        yield Agent(workspace, root, "5e55104e-0000-4000-8000-000000000001")


def work(agent, turns, first=0):
    """So many turns of two sessions, each with an edit; now and then a save or an edit between two of them."""
    other = Agent(agent.workspace, agent.root, "5e55104e-0000-4000-8000-000000000002")
    for number in range(first, first + turns):
        by = other if number % 10 >= 7 else agent
        if number % 10 in (0, 7):
            by.tell("SessionStart", source="resume")
        by.prompt(f"p{number}", f"prompt {number}")
        plant(agent.root, {"f": b"%d" % number, f"d/{number % 5}": b"%d" % number})
        by.stop(f"p{number}")
        if number % 5 == 3:
            plant(agent.root, {"by hand": b"%d" % number})
            agent.workspace.save(f"step {number}" if number % 2 else None)


@pytest.fixture
def run(casrewind, monkeypatch):
    """run(words): the result of a command. The clock stands."""
    clock = {**vars(time), "time_ns": lambda now=time.time_ns() + 3600 * 10**9: now}
    monkeypatch.setattr("casrewind.messages.time", types.SimpleNamespace(**clock))
    return lambda words: casrewind(*words)


def both(run, monkeypatch, words):
    """The result of a command with the newest checkpoints, and with all of them."""
    part = run(words)
    with monkeypatch.context() as patch:
        patch.setattr(worktree_timeline, "WINDOWS", ())
        return part, run(words)


def works(run):
    """How many functions are called by each command that has to be as quick in a long timeline as in a short one. Each begins as a
    process of its own does, which remembers no record."""

    def run_anew(words):
        checkpoint.decode.cache_clear()
        turn_checkpoints._as_point.cache_clear()
        run(words)

    lines = (("list", "-n", "20"), ("show", "last"), ("show", "@1"), ("diff", "@1"), ("restore", "-n", "@1"))
    return [count_calls(lambda words=words: run_anew(words)) for words in lines]


@pytest.mark.turns(3)
def test_a_part_says_what_all_of_them_say(agent, run, monkeypatch):
    work(agent, TURNS)
    works(run)  # what only the first command of a process does
    short = works(run)
    work(agent, TURNS, TURNS)
    assert all(long < 1.2 * before for long, before in zip(works(run), short, strict=True)), "as much work in a timeline twice as long"
    assert len(agent.workspace.checkpoints()) > 2 * MOST
    for words in (*WORDS, *WHOLE):
        part, whole = both(run, monkeypatch, words)
        assert part == whole and (part.out or words in WHOLE), words


def test_a_restore_among_them_has_all_read(agent, run, monkeypatch, casrewind):
    work(agent, TURNS)
    casrewind("restore", "--yes", "@3", code=0)
    work(agent, 1, TURNS)
    for words in WORDS:
        part, whole = both(run, monkeypatch, words)
        assert part == whole, words
    assert "restored to" in run(("list", "-n", "3")).out


def test_a_client_at_work_on_an_old_turn(agent, run, monkeypatch):
    old = Agent(agent.workspace, agent.root, "5e55104e-0000-4000-8000-000000000003")
    old.prompt("old", "slow job")
    key, start = old.context.root.key.hex(), client_process.client_process(os.getpid()).start
    running = AgentSession("claude", old.session, "", str(old.root), key, 1, "UserPromptSubmit", True, os.getpid(), start, "", "")
    old.context.store.sessions.record(running)
    work(agent, TURNS)
    for words in WORDS[:4]:
        part, whole = both(run, monkeypatch, words)
        assert part == whole, words
    assert "shared" in run(("list", "-n", "5")).out, "two turns ran"


def test_no_number_moves_while_more_is_read_and_the_project_goes_on(agent, run):
    work(agent, 130)
    read = worktree_timeline.WorktreeTimeline(agent.context)
    newest, oldest = read.with_turns(1), agent.workspace.checkpoints()[-1][0]
    work(agent, 2, 130)
    whole = read.with_checkpoint(oldest.id)
    assert len(newest.turns) < len(whole.turns) == 130 and newest.turns[:9] == whole.turns[:9]
    assert [turn.prompt for turn in worktree_timeline.WorktreeTimeline(agent.context).with_turns(3).turns[:3]] == ["prompt 131", "prompt 130", "prompt 129"]


def test_a_project_without_turns(agent, run, monkeypatch):
    for number in range(MOST + 30):
        plant(agent.root, {"f": b"%d" % number})
        agent.workspace.save(f"step {number}")
    for words in (("list", "-n", "20"), ("list", "-n", "20", "--reverse"), ("show", "last")):
        part, whole = both(run, monkeypatch, words)
        assert part == whole and part.out, words


@pytest.mark.long
def test_10_000_checkpoints_are_as_much_work_as_1_000(agent, run):
    found = []
    for first, last in ((0, 420), (420, 4200)):
        work(agent, last - first, first)
        works(run)
        found.append((len(agent.workspace.checkpoints()), works(run)))
    assert found[0][0] > 1000 and found[1][0] > 10_000
    assert all(long < 1.2 * before for long, before in zip(found[1][1], found[0][1], strict=True))
