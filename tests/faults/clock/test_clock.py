"""A clock that is wrong by ten years, goes backwards, or is set while a hook runs: order is that of sequence numbers.

A preloaded library (clockshim.c) changes what a process sees of the clock; the file system's stamps stay true. The monotonic
clock is left alone, as it is by whoever sets a real clock.
"""

import json
import os
import subprocess
import sys
import time

import pytest

from casrewind.agents.claude import CLIENT as claude
from casrewind.workspace import Workspace
from support.fake_client import Client
from support.picture import differences, picture
from support.sample_start import by_turns, some
from support.shim import seconds
from support.stores import LockHolder
from support.trees import plant

CLOCKS = ["+10y", "-10y", "+0", "-1d", "+10y", "-10y", "-1h", "+0", "+5y", "-5y", "+0", "-2d"]


@pytest.fixture
def history(casrewind, root, clock):
    """A checkpoint under each of the clocks: (ids, pictures), oldest first."""
    ids, states = [], []
    for number, when in enumerate(CLOCKS):
        plant(root, {"changing": b"%d" % number, f"only-{number}": b"%d" % number * 500})
        (root / f"only-{number - 1}").unlink(missing_ok=True)
        ids.append(casrewind.json("save", "-m", f"n{number}", **clock(when))["checkpoint"])
        states.append(picture(root))
    return ids, states


def test_order_is_that_of_the_saves_and_restores_undos_and_redos_go_by_it(casrewind, root, history, clock):
    ids, states = history
    times = [point["created_at"] for point in casrewind.json("list")["checkpoints"]]
    assert times != sorted(times, reverse=True)
    moves = 0
    for when in some(("+0", "+10y", "-10y"), 1):
        then = clock(when)
        points = casrewind.json("list", **then)["checkpoints"]
        assert [point["id"] for point in points] == ids[::-1]
        assert casrewind.json("show", "last", **then)["checkpoint"]["id"] == ids[-1]
        assert casrewind.json("show", "prev", **then)["checkpoint"]["id"] == ids[-2]
        for number in (2, 7, 12):
            casrewind("restore", ids[-number], "-y", code=0, **then)
            assert not differences(picture(root), states[-number])
            casrewind("undo", "--yes", code=0, **clock("-10y"))
            assert not differences(picture(root), states[-1])
            casrewind("redo", "--yes", code=0, **clock("+10y"))
            assert not differences(picture(root), states[-number])
            casrewind("undo", "--yes", code=0, **then)
            assert not differences(picture(root), states[-1])
            moves += 4
    casrewind("verify", code=0)
    print(f"{len(CLOCKS)} saves under clocks of -10 to +10 years: listed in their order; {moves} restores, undos, redos exact")


@pytest.mark.parametrize("when", by_turns(["+10y", "-10y", "+0"], 1))
def test_gc_never_drops_the_newest(casrewind, root, history, clock, when):
    ids, states = history
    assert casrewind.json("gc", "--dry-run", **clock(when))["dropped"] == 0  # they all have labels
    for identity in ids:
        casrewind("unpin", identity, code=0)
    casrewind("gc", code=0, **clock(when))  # the limit of the configuration: 30 days
    left = [point["id"] for point in casrewind.json("list")["checkpoints"]]
    assert left[:10] == ids[::-1][:10]
    casrewind("gc", "--max-count", "4", code=0, **clock(when))
    assert [point["id"] for point in casrewind.json("list")["checkpoints"]] == ids[::-1][:4]
    for number in range(2, 5):  # the newest is what is there
        casrewind("restore", ids[-number], "-y", code=0)
        assert not differences(picture(root), states[-number])
        casrewind("undo", "--yes", code=0)
    casrewind("gc", "--max-age", "1h", code=0, **clock(when))  # asked for: all but the newest may go
    assert casrewind.json("list")["checkpoints"][0]["id"] == ids[-1]
    casrewind("verify", code=0)


@pytest.fixture
def client(casrewind, root):
    plant(root, {f"d/{n}": b"%d" % n for n in range(20)})
    client = Client(casrewind, root)
    client.send(client.payload("SessionStart.startup"))
    client.wait_for(1)
    return client


def late(casrewind):
    """The files that the newest checkpoint names as changed after its event."""
    return [skip["path"] for skip in casrewind.json("show", "last")["skipped"] if skip["reason"] == "changed after the event"]


def test_a_session_in_which_the_clock_goes_backwards(client, casrewind, root, clock):
    """Each event's checkpoint is there, in order, and no file is late that was there before the event."""
    states = [picture(root)]
    clocks = ["+0", "+10y", "+1h", "+0", "-1h", "-10y"]
    for number, when in enumerate(clocks):
        plant(root, {"d/3": b"round %d" % number, f"new-{number}": b"new"})
        client.send(client.payload("Stop.plain"), **clock(when))
        client.wait_for(number + 2)
        assert late(casrewind) == [], when
        states.append(picture(root))
    points = casrewind.json("list")["checkpoints"]
    assert [point["trigger"] for point in points] == ["turn_end"] * 6 + ["session_start"]
    for number in range(1, 8):
        casrewind("restore", points[number - 1]["id"], "-y", code=0)
        assert not differences(picture(root), states[-number])
    print(f"a session of {len(points)} events under clocks that go back by up to 20 years: in order, 0 files wrongly late")


@pytest.mark.parametrize("jump", ["-10y", "-1h", "+10y"])
def test_a_clock_that_is_set_between_an_event_and_its_save(client, casrewind, root, clock, tmp_path, jump):
    """The hook has noted when it was called and waits for the rest of what its client has to say."""
    setting = tmp_path / "clock"
    setting.write_text("0")
    variables = clock(file=setting)
    plant(root, {"d/3": b"changed before the event", "came": b"before the event"})
    state = picture(root)
    hook = subprocess.Popen(
        [sys.executable, "-m", "casrewind", "hook", "claude"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        env={**casrewind.environment, "CLAUDE_PROJECT_DIR": str(root), **variables},
    )
    payload = client.payload("Stop.plain")
    hook.stdin.write(payload[:50])
    hook.stdin.flush()
    time.sleep(0.6)
    draft = tmp_path / "draft"
    draft.write_text(str(seconds(jump)))
    draft.rename(setting)
    out, _ = hook.communicate(payload[50:], timeout=60)
    assert (hook.returncode, out) == (0, b"")
    client.wait_for(2)
    if jump.startswith("-"):  # else a file is later than nothing that this clock has ever said
        assert late(casrewind) == []
    casrewind("restore", "last", "--to", str(tmp_path / "out"), code=0)
    assert not differences(picture(tmp_path / "out"), state)


def conversation(casrewind, root, clocks):
    """Three prompts, each of them and the end of its turn under a clock of its own: (client, prompts, pictures)."""
    client = Client(casrewind, root)
    whole = client.transcript.read_bytes()
    prompts, pictures = claude.prompts(whole), []
    session = json.loads(whole.splitlines()[0]).get("sessionId") or "s"
    for number, prompt in enumerate(prompts):
        plant(root, {"f": b"before prompt %d" % number, f"only{number}": b"x"})
        pictures.append(picture(root))
        client.transcript.write_bytes(whole[: prompt.start])  # as the hook finds it: the prompt is not written yet
        client.prompt(session, prompt, **clocks[number])
        client.wait_for(2 * number + 1)
        client.transcript.write_bytes(whole)
        client.send(client.payload("Stop.plain", session_id=session, prompt_id=prompt.prompt_id), **clocks[number])
        client.wait_for(2 * number + 2)
    plant(root, {"f": b"wrecked"})
    return client, prompts, pictures


@pytest.mark.parametrize(
    "clocks",
    [
        ("+0", "+10y", "-10y"),
        pytest.param(("-10y", "-1h", "+10y"), marks=pytest.mark.long),
        pytest.param(("+10y", "+0", "-1d"), marks=pytest.mark.long),
    ],
    ids="/".join,
)
def test_back_goes_to_the_prompt_whatever_the_clocks_said(casrewind, root, clock, clocks):
    client, prompts, pictures = conversation(casrewind, root, [clock(when) for when in clocks])
    original = client.transcript.read_bytes()
    now = picture(root)
    for number, when in ((1, "+10y"), (3, "-10y"), (2, "+0")):
        found = casrewind.json("back", str(number), "--both", "--yes", **clock(when))
        assert not differences(picture(root), pictures[-number]), (number, when)
        assert found["prompts"][0] == prompts[-number].text
        if number < len(prompts):
            with open(found["fork"]["path"], "rb") as file:
                assert [prompt.text for prompt in claude.prompts(file.read())] == [prompt.text for prompt in prompts[:-number]]
        casrewind("undo", "--yes", code=0, **clock("-10y"))
        assert not differences(picture(root), now), (number, when)
    assert client.transcript.read_bytes() == original
    casrewind("verify", code=0)
    print(f"back --both by 1, 2 and 3 prompts of a conversation under clocks {'/'.join(clocks)}: files and forks exact, undone exactly")


@pytest.mark.parametrize(
    ("clocks", "number"),
    [
        (("+10y", "+0", "-10y"), 2),
        pytest.param(("+0", "+10y", "+0"), 1, marks=pytest.mark.long),
        pytest.param(("+0", "+0", "-10y"), 2, marks=pytest.mark.long),
    ],
)
def test_the_nearest_checkpoint_before_a_prompt_is_never_one_of_a_later_prompt(casrewind, root, clock, clocks, number):
    """Its own was never made, or is forgotten. What was made for a prompt after it was made later, and if its clock said
    ten years ago."""
    client, prompts, pictures = conversation(casrewind, root, [clock(when) for when in clocks])
    if number == 1:
        client.transcript.write_bytes(client.transcript.read_bytes().replace(prompts[-1].text.encode(), b"never seen by a hook"))
    else:
        points = casrewind.json("list", "--all")["checkpoints"]
        forgotten = [point["id"] for point in points if point["trigger"] == "prompt"][number - 1]
        for point in points:
            if point["id"] != forgotten:
                casrewind("pin", point["id"], code=0)
        casrewind("gc", "--max-count", "1", code=0)
        assert forgotten not in {point["id"] for point in casrewind.json("list", "--all")["checkpoints"]}
    reference = [str(number)] if number > 1 else []
    for when in ("-10y", "+10y"):
        refused = casrewind("back", *reference, "--both", "--yes", code=15, **clock(when))
        assert "--nearest" in refused.err
        casrewind("back", *reference, "--both", "--yes", "--nearest", code=0, **clock(when))
        assert not differences(picture(root), pictures[-number - 1])
        casrewind("undo", "--yes", code=0)


SET_BACK = """
import sys, time
real, calls = time.time_ns, []
def set_back():
    calls.append(1)
    return real() - (len(calls) > 1) * 10 * 365 * 86400 * 10**9
time.time_ns = set_back
from casrewind.hook import handler
handler.handle_and_exit(sys.argv[1:])
"""


def test_a_hook_waits_no_longer_when_the_clock_is_set_back_meanwhile(casrewind, root, settings):
    """Without the library: a process that is told of another time from its start on sees no clock being set."""
    plant(root, {"f": b"f"})
    client = Client(casrewind, root)
    with Workspace(str(root), settings, create=True) as workspace:  # no checkpoint yet: the hook leaves the first to a child
        store = workspace.store_path
    with LockHolder(os.path.join(store, "locks", "gate"), stopped=True):
        began = time.monotonic()
        done = subprocess.run(
            [sys.executable, "-c", SET_BACK, "claude"], input=client.payload("SessionEnd.other"), capture_output=True, timeout=50,
            env={**casrewind.environment, "CLAUDE_PROJECT_DIR": str(root)},
        )
        took = time.monotonic() - began
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    print(f"clock set back by 10 years while a hook with a budget of 1 s waits: it came back after {took:.1f} s")
    assert took < 30  # ten years, if it went by that clock
    client.wait_for(1)
