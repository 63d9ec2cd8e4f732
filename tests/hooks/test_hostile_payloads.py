"""Every recorded payload of every client, cut at any byte, and each of its fields with any of forty values: the hook ends with 0, says
nothing, and leaves one line in the log when it refuses an event.

By default a cut or a value of each payload is drawn, others after every change of the product; the test that is marked long takes all of them.
"""

import json
import random
import re
import shutil
from pathlib import Path

import pytest

from casrewind import agents
from support import forked_command
from support.fake_client import DATA
from support.sample_start import start_below
from support.trees import plant

DEEP = [[]]
for _ in range(200):
    DEEP = [DEEP]
HOSTILE = [
    None, True, False, 0, -7, 1, 10**400, -(10**40), float("nan"), float("inf"), 1e308, -1e-300,
    "", " ", "x", "\0", "/a\0b", "\ud800", "/\udfff", "/" * 5000, "/" + "x" * 70000, "x" * 1_000_000, "../x", "../../../../etc", "/",
    "/etc/passwd", "/dev/null", "/proc/self/mem", "~", "$HOME", "`id`", "\x1b[2J\r\n", "\u202e",
    [], [None], [[]], {}, {"a": {}}, [{"tool_name": None}], DEEP,
]  # fmt: skip
RECORDED = {name: sorted((DATA / f"{name}_hooks").glob("*.json")) for name in agents.NAMES}
BORROWED = ("qwen", "generic")
"""They have no recordings: theirs have the shape of Claude Code's."""
RECORDED |= dict.fromkeys(BORROWED, RECORDED["claude"])


class Hostile:
    """A project with a checkpoint, and the hook of one client."""

    def __init__(self, agent, casrewind, root):
        self.agent, self.casrewind, self.root = agent, casrewind, root
        self.client = agents.load_client(agent)
        plant(root, {"a": b"1", "d/b": b"2"})
        self.begin()
        self.calls = self.refused = 0

    def begin(self):
        shutil.rmtree(self.casrewind.environment["CASREWIND_HOME"], ignore_errors=True)
        self.casrewind("save", code=0)

    def recorded(self, path):
        """(the payload, the hook's words, its variables), with the places of this test."""
        text = re.sub(r"/home/dev/proj6?", str(self.root), path.read_text()).replace("/home/dev", self.casrewind.home)
        found = json.loads(text)
        if str(found["stdin"].get("prompt")).startswith("/casrewind"):  # that has an answer, and no test here
            found["stdin"]["prompt"] = "hello"
        words = [word for word in (self.agent, self.client.event_argument(found.get("event", ""))) if word]
        left_out = {"HOME", "PATH", *self.client.events.pid_variables}  # notices are for a client whose process is known
        return found["stdin"], words, {name: value for name, value in found.get("env", {}).items() if name not in left_out}

    def is_prompt(self, payload, words, _):
        return self.client.events.triggers.get(payload.get("hook_event_name", words[-1])) == "prompt"

    def call(self, words, data, variables):
        self.calls += 1
        if self.calls % 1000 == 0:
            self.begin()
        done = forked_command.run(["hook", *words], {**self.casrewind.environment, **variables}, stdin=data, cwd="/")
        assert done == (0, b"", b""), (done, words, data[:300])
        lines = self.logged()
        assert len(lines) <= 1, (lines, words, data[:300])
        self.refused += len(lines)
        return lines

    def logged(self):
        """The lines of the logs of the data directory and its stores, which are gone then."""
        data, lines = Path(self.casrewind.environment["CASREWIND_HOME"]), []
        for path in [data / "log", *data.glob("stores/*/log")]:
            if path.exists():
                lines += path.read_text("utf-8", "replace").splitlines()
                path.unlink()
        return lines

    def cut(self, path, ends):
        payload, words, variables = self.recorded(path)
        data = json.dumps(payload, ensure_ascii=False).encode()
        for end in ends(len(data)):
            lines = self.call(words, data[:end], variables)
            assert len(lines) == 1 and "MalformedEvent" in lines[0], (lines, data[:end])

    def changed(self, path, pairs):
        payload, words, variables = self.recorded(path)
        for field, value in pairs([(field, value) for field in payload for value in HOSTILE]):
            self.call(words, json.dumps({**payload, field: value}).encode(), variables)

    def whole(self):
        """The next event is taken, and the store is sound."""
        everything = [self.recorded(path) for path in RECORDED[self.agent]]
        payload, words, variables = next(found for found in everything if self.is_prompt(*found))
        before = len(self.casrewind.json("list")["checkpoints"])
        plant(self.root, {"new": b"x"})
        assert self.call(words, json.dumps(payload).encode(), variables) == []
        assert len(self.casrewind.json("list")["checkpoints"]) == before + 1
        assert self.casrewind.json("verify")["ok"]


@pytest.fixture
def hostile(request, casrewind, root):
    return Hostile(request.param, casrewind, root)


@pytest.mark.parametrize("hostile", agents.NAMES, indirect=True)
def test_a_cut_or_a_value_of_every_payload(hostile):
    chance = random.Random(start_below(1 << 30))
    for number, path in enumerate(RECORDED[hostile.agent], start_below(2)):
        if number % 2:
            hostile.cut(path, lambda size: [chance.randrange(1, size)])
        else:
            hostile.changed(path, lambda pairs: chance.sample(pairs, 1))
    assert len(HOSTILE) == 40 and hostile.refused >= len(RECORDED[hostile.agent]) // 2
    hostile.whole()


@pytest.mark.long
@pytest.mark.parametrize("hostile", agents.NAMES, indirect=True)
def test_every_cut_and_every_value_of_every_payload(hostile):
    step = 25 if hostile.agent in BORROWED else 1
    for path in RECORDED[hostile.agent]:
        hostile.cut(path, lambda size: range(0, size, step))
        hostile.changed(path, lambda pairs: pairs[::step])
    print(f"{hostile.agent}: {hostile.calls} calls, {hostile.refused} of them with a line in the log")
    hostile.whole()
