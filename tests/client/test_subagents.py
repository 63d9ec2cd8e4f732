"""Real Claude Code with subagents: two in a row, three at once, one of them with a worktree of its own, and one that works on behind Esc.
Each has its row, and is taken back alone."""

import threading
from types import SimpleNamespace

import pytest

from support import real_clients
from support.claude_client import wait
from support.claude_model import bash, call
from support.git_repository import make_repository
from support.model_server import Held
from support.trees import plant

pytestmark = [pytest.mark.xdist_group("client-subagents"), *real_clients.at_times("subagents")]


class OneByOne:
    """Answers in the order of the requests. The news of a subagent's end is no prompt of the script, so their steps cannot be counted."""

    def __init__(self, *answers):
        self.answers = iter(answers)

    def __len__(self):
        return 99

    def __getitem__(self, step):
        return next(self.answers, ["OK."])


def helper(name, **more):
    return call("Agent", description=f"the {name} job", prompt=f"subtask: {name}", subagent_type="general-purpose", **more)


@pytest.fixture(scope="module")
def worked(start):
    client = start()
    plant(client.project, {"app.py": b"one\n\n\n\nfive\n"})
    make_repository(client.project)
    client.casrewind("install", "claude", code=0)
    gates = {name: threading.Event() for name in ("first", "second", "three", "ends", "cut")}
    end = client.project.parent / "end"

    def write(path):
        return call("Write", file_path=str(client.project / path), content=f"{path}\n")

    client.model.script = {
        "do both": OneByOne([helper("first")], ["Started."], [helper("second")], ["Started."], ["Heard."]),
        "subtask: first": [Held(gates["first"], (bash("echo 1 > first; sed -i s/one/ONE/ app.py"),)), ["Done."]],
        "subtask: second": [Held(gates["second"], (bash("echo 2 > second; sed -i s/five/FIVE/ app.py"),)), ["Done."]],
        "do three": OneByOne([helper("red"), helper("green"), helper("blue", isolation="worktree")], ["Started."]),
        "subtask: red": [Held(gates["three"], (write("red"), bash("echo x > by-shell"))), Held(gates["ends"], ("Done.",))],
        "subtask: green": [Held(gates["three"], (write("green"),)), Held(gates["ends"], ("Done.",))],
        "subtask: blue": [Held(gates["three"], (bash("echo b > blue"),)), Held(gates["ends"], ("Done.",))],
        "do it slowly": OneByOne([helper("cut")], [bash(f"until [ -e before ]; do sleep 0.1; done; echo half > half; timeout 60 sh -c 'while [ ! -e {end} ]; do sleep 0.1; done'")]),
        "subtask: cut": [[write("before")], Held(gates["cut"], (write("behind"),)), ["Done."]],
    }
    found = SimpleNamespace(client=client)
    terminal = client.terminal()

    def let(*names, turns):
        """Let subagents go on. The client says that a turn is done when nothing of it runs any more, and the agent has heard of that."""
        for name in names:
            gates[name].set()
        terminal.wait_for("· done", times=turns)
        terminal.wait_until_idle()

    terminal.say("do both")
    gates["first"].set()
    ends = 4  # of the turn, of the first one; the news of it, and the answer, in which the second one begins
    wait(client.points, lambda points: [point["trigger"] for point in points].count("turn_end") >= ends)
    let("second", turns=1)
    terminal.say("do three")
    gates["three"].set()
    terminal.until(lambda: all((client.project / name).exists() for name in ("red", "green", "by-shell")))
    let("ends", turns=2)
    terminal.type("do it slowly")
    terminal.until(lambda: (client.project / "half").exists() and (client.project / "before").exists())
    terminal.wait_for("esc to interrupt")
    terminal.keys("Escape")
    terminal.wait_for("Interrupted")
    found.cut = wait(lambda: client.casrewind.json("show", "@1")["turn"], lambda turn: turn["cut_short"])
    terminal.say("thanks")
    let("cut", turns=3)
    terminal.say("the end")
    end.touch()
    found.turns = {turn["prompt"]: turn for turn in client.casrewind.json("list")["turns"]}
    return found


def rows(turn):
    """{name: (changes of files, {path: the others that may have made it})} of the subagents of a turn."""
    return {
        one["name"]: ([path for path in one["paths"] if path != ".claude"], {each["path"]: each["names"] for each in one["among"]})
        for one in turn["subagents"]
    }


def test_two_in_a_row_have_a_row_each_and_their_own_changes(worked):
    turn = worked.turns["do both"]
    assert [(one["prompt"], one["subagent_type"], one["cut_short"], one["worktree"]) for one in turn["subagents"]] == [
        (f"the {name} job", "general-purpose", False, None) for name in ("first", "second")
    ]
    assert rows(turn) == {"@5.1": (["app.py", "first"], {}), "@5.2": (["app.py", "second"], {})}
    assert turn["changes"] == {"added": 2, "modified": 1, "removed": 0}
    assert "do both (2 subagents)" in worked.client.casrewind("list", code=0).out
    assert "@5.2  the second job" in worked.client.casrewind("show", "@5", code=0).out


def test_of_three_at_once_a_tool_proves_a_path_and_what_a_shell_wrote_is_unknown_among_them(worked):
    turn = worked.turns["do three"]
    found = rows(turn)
    by_file = {path: name for name, (paths, _) in found.items() for path in paths if path in ("red", "green")}
    assert len(set(by_file.values())) == 2 and len(found) == 3
    for path, name in by_file.items():
        assert path not in found[name][1], "its own tool named it"
    both = sorted(by_file.values())
    assert {name: among["by-shell"] for name, (_, among) in found.items() if name in both} == {both[0]: [both[1]], both[1]: [both[0]]}
    (blue,) = [one for one in turn["subagents"] if one["worktree"]]
    assert blue["worktree"].startswith(".claude/worktrees/agent-") and blue["paths"] == []
    assert f"it works in {blue['worktree']}" in worked.client.casrewind("show", blue["name"], code=0).out


def test_one_that_works_on_behind_esc_has_what_its_tools_named(worked):
    (one,) = worked.cut["subagents"]
    assert (one["cut_short"], one["paths"]) == (True, ["before", "half"]), "nobody saw its end yet"
    assert {each["path"] for each in one["among"]} == {"before", "half"}
    assert rows(worked.turns["do it slowly"]) == {"@3.1": (["before", "behind", "half"], {"half": ["@3"]})}
    assert worked.turns["do it slowly"]["subagents"][0]["cut_short"] is False
    assert worked.turns["thanks"]["subagents"] == []


def test_one_is_taken_back_alone(worked):
    client = worked.client
    client.casrewind("revert", "@5.1", "-y", code=0)
    assert (client.project / "app.py").read_text() == "one\n\n\n\nFIVE\n"
    assert not (client.project / "first").exists() and (client.project / "second").exists()
    assert "reverted @5.1" in client.casrewind("list", code=0).out
    client.casrewind("undo", "-y", code=0)
    red = next(one for one in worked.turns["do three"]["subagents"] if "red" in one["paths"])
    client.casrewind("revert", red["name"], "-y", code=3)
    assert [(client.project / name).exists() for name in ("red", "green", "by-shell")] == [False, True, True]
    client.casrewind("undo", "-y", code=0)
    client.casrewind("revert", "@3.1", "-y", code=3)
    assert [(client.project / name).exists() for name in ("before", "behind", "half")] == [False, False, True]
    client.casrewind("undo", "-y", code=0)
