"""Many agents at once, and somebody who kills: nothing that was acknowledged is lost, and nobody waits for the dead.

Eight savers (five save, three are hooks), two who restore and undo, and gc in a loop share a store; twenty times a second
one of those who are at work is killed, and now and then one is stopped for a moment. What a saver was told is there is
compared in the end with what stood there when it asked. The programs are in support/killed_programs.py.
"""

import collections
import contextlib
import fcntl
import json
import os
import random
import struct
import subprocess
import sys
import termios
import time

import pytest

from casrewind.workspace import open as opened
from support.command import Command
from support.killed_programs import KEPT, KILLED, STUCK, change, contents, settings
from support.sample_start import start_below
from support.trees import plant

TESTS = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
LONG = [] if start_below(2) else [pytest.mark.long]
"""A push runs this race or that of tests/faults/stress/test_gc_race.py, by turns: both keep both cores busy."""
KILLS_A_SECOND = 22.0
STOPS_A_SECOND = 1.5
AT_LEAST = {KILLED: 9, "saves": 16, "hooks": 3, "gcs": 2}
"""What has to be done before it is over: a busy machine takes longer for it."""
PATIENCE = 20
"""It is over after so many times its seconds, whatever was done."""
ROLES = [*["saver"] * 5, *["hooker"] * 3, *["restorer"] * 2, "collector", "looker"]


def link(root, places):
    """Make `root` a repository and the places linked worktrees of it: all of them share its store."""
    plant(root, {".git/HEAD": b"", ".git/objects/keep": b""})
    for number, place in enumerate(places):
        git = f".git/worktrees/w{number}"
        plant(root, {f"{git}/commondir": b"../..\n", f"{git}/gitdir": os.fsencode(f"{place}/.git\n")})
        plant(place, {".git": os.fsencode(f"gitdir: {root}/{git}\n")})


def is_enough(place):
    """Whether all of AT_LEAST was done, as the roles say."""
    counts = collections.Counter()
    for path in place.glob("acknowledged-*.counts"):
        with contextlib.suppress(ValueError):  # it is being written
            counts.update(json.loads(path.read_text()))
    return all(counts[what] >= number for what, number in AT_LEAST.items())


def order_kills(descriptor, seconds, is_over, is_enough):
    """Write a byte for each process that is to be killed or stopped; no more than are taken."""
    chance, began, ordered = random.Random(1), time.monotonic(), 0
    rate, asked = KILLS_A_SECOND + STOPS_A_SECOND, began + seconds
    while time.monotonic() < began + PATIENCE * seconds and not is_over():
        if time.monotonic() >= asked:
            if is_enough():
                return
            asked += 0.5
        time.sleep(0.02)
        waiting = struct.unpack("i", fcntl.ioctl(descriptor, termios.FIONREAD, b"0000"))[0]
        due = int((time.monotonic() - began) * rate)
        ordered = max(ordered, due - 40)  # what could not be done in time is not made up for in a burst
        if waiting < 12:
            number = min(due - ordered, 3)
            os.write(descriptor, b"".join(b"s" if chance.random() < STOPS_A_SECOND / rate else b"k" for _ in range(number)))
            ordered += number


def run(place, roots, journals, home, seconds):
    """Let them all run; what each said in the end, what was acknowledged, and how many seconds it took."""
    taken, given = os.pipe()
    over = place / "over"
    os.set_blocking(taken, False)
    environment = {
        "PATH": os.environ["PATH"], "HOME": home, "LANG": "C.UTF-8", "PYTHONDONTWRITEBYTECODE": "1", "GIT_CONFIG_NOSYSTEM": "1",
        "CASREWIND_HOME": f"{home}/data", "PYTHONPATH": os.pathsep.join([os.path.dirname(TESTS), TESTS]),
    }  # fmt: skip
    running, began = [], time.monotonic()
    try:
        for number, role in enumerate(ROLES):
            order = {
                "role": role, "root": roots[number % len(roots)], "home": home, "data": f"{home}/data", "seed": number,
                "over": str(over), "tokens": taken, "acknowledged": str(place / f"acknowledged-{number}"),
                "journal": journals[number % len(roots)],
            }  # fmt: skip
            running.append(
                subprocess.Popen(
                    [sys.executable, "-m", "support.killed_programs", json.dumps(order)], env=environment, cwd="/",
                    stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, pass_fds=[taken],
                )
            )  # fmt: skip
        is_over = lambda: any(process.poll() is not None for process in running)
        order_kills(given, seconds, is_over, lambda: is_enough(place))
        took = time.monotonic() - began
        over.touch()
        ended = [process.communicate(timeout=3 * STUCK) for process in running]
    finally:
        for process in running:
            if process.poll() is None:
                process.kill()
        os.close(taken)
        os.close(given)
    for process, (_, err) in zip(running, ended, strict=True):
        assert process.returncode == 0, err.decode()[-2000:]
    reports = [json.loads(out) for out, _ in ended]
    acknowledged = [json.loads(line) for path in place.glob("acknowledged-*[0-9]") for line in path.read_text().splitlines()]
    return reports, acknowledged, took


def judge(place, home, acknowledged):
    """What was acknowledged and must be there is there, as it was; the store is sound."""
    compared, pins = 0, 0
    with opened(acknowledged[0][0], settings(home, f"{home}/data")) as workspace:
        found = [point for point, _ in workspace.checkpoints(every_worktree=True)]
        listed = {point.id: point for point in found}
        sequence = collections.defaultdict(list)
        for point in found:
            sequence[os.fsdecode(point.root)].append(point.seq)
        verified = workspace.verify()
        assert not verified.problems, verified.problems[:3]
        lost = []
        for root, identity, seq, held, pinned in acknowledged:
            if identity not in listed:
                newer = sum(other > seq for other in sequence[root])
                if pinned or newer < KEPT:
                    lost.append((root, identity, seq, pinned, newer))
                continue
            target = str(place / "out" / identity)
            assert not workspace.materialise(listed[identity], target).kept
            assert contents(target) == held, identity
            compared += 1
            pins += pinned
    assert not lost, lost
    return compared, pins, verified


def told(counts, *beginnings):
    return ", ".join(f"{what} {number}" for what, number in sorted(counts.items()) if what.startswith(beginnings))


@pytest.mark.turns(3)
@pytest.mark.parametrize("seconds", [pytest.param(3, marks=LONG), pytest.param(600, marks=pytest.mark.release)])
def test_eight_savers_two_restorers_and_gc_under_random_kills(scratch, seconds):
    home, roots = str(scratch / "home"), [str(scratch / f"project{number}") for number in range(10)]
    for directory in (home, *roots):
        os.mkdir(directory)
    link(roots[0], roots[1:])
    journals = []
    for root in roots:
        change(root, random.Random(root))
        with opened(root, settings(home, f"{home}/data")) as workspace:
            workspace.save()
            journals.append(f"{workspace.store_path}/journals/{workspace.root.key.hex()}")
    assert len(os.listdir(f"{home}/data/stores")) == 1
    reports, acknowledged, took = run(scratch, roots, journals, home, seconds)
    counts, kills, longest = collections.Counter(), collections.Counter(), collections.Counter()
    for report in reports:
        assert not report["wrong"], report["wrong"][:3]
        counts.update(report["counts"])
        kills.update(report["kills"])
        longest |= collections.Counter(report["longest"])
    for root in roots[8:10]:
        with opened(root, settings(home, f"{home}/data")) as workspace:
            if workspace.is_interrupted():
                workspace.finish_restore(forward=True)
    compared, pins, verified = judge(scratch, home, acknowledged)
    whens = collections.Counter()
    for what, number in kills.items():
        whens[what.partition(": ")[2]] += number
    total = sum(kills.values())
    print(
        f"{took:.0f} s: {total} kills ({total / took:.1f} a second; {told(whens, '')}), {counts['stops']} stops; "
        f"{len(acknowledged)} checkpoints acknowledged ({counts['saves']} saves, {counts['saves by commands']} by commands, "
        f"{counts['hooks']} hooks), 0 lost, {counts['compared a moment later']} compared a moment later and "
        f"{compared} in the end, {pins} of them pinned; {counts['restores']} restores, "
        f"{counts['undos']} undos, {counts['taken up again']} taken up again, {counts['taken back']} taken back; "
        f"{counts['gcs']} gcs ({counts['gcs'] / took:.1f} a second), {counts['gcs that dropped']} that dropped; "
        f"{counts['verifies'] + 1} verifies clean, the last of {verified.checkpoints} checkpoints and {verified.blobs} blobs"
    )
    print(f"{took:.0f} s: killed: {told(kills, '')}")
    print(f"{took:.0f} s: longest wait: " + ", ".join(f"{what} {wait:.2f} s" for what, wait in sorted(longest.items())))
    print(f"{took:.0f} s: others: {told(counts, 'busy', 'hooks ', 'forgotten')}")
    assert total >= AT_LEAST[KILLED]
    assert whens["in the middle"] > total / 4
    assert compared >= 8
    done = ("saves", "hooks", "gcs", "gcs that dropped", "restores", "undos", "taken up again", "taken back", "compared a moment later")
    for what in done[: 3 if seconds < 60 else None]:  # a few seconds are too few for everything
        assert counts[what], what
    for root in roots:  # nobody has to clean up: the next command of everybody works
        Command(root, home)("save", code=0)
