"""gc in a loop while many processes save, restore and read in the same store: nothing is lost, and nobody is lied to."""

import collections
import json
import os
import subprocess
import sys

import pytest

from casrewind.workspace import Settings
from casrewind.workspace import open as opened
from support.race_programs import KEPT, contents
from support.sample_start import start_below

TESTS = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

LONG = [pytest.mark.long] if start_below(2) else []
"""A push runs this race or that of tests/faults/stress/test_killed_savers.py, by turns: both keep both cores busy."""
ROLES = [
    ("saver", "one", "."),
    ("saver", "two", "."),
    ("saver", "three", "."),
    ("saver", "four", ".+command"),
    ("saver", "shared", "mine"),
    ("saver", "shared", "yours"),
    ("saver", "shared", "theirs+command"),
    ("saver", "five", "."),
    ("collector", "one", ""),
    ("reader", "two", ""),
    ("looker", "three", ""),
]


def race(place, seconds):
    """Let them all run; (settings, what was acknowledged, counts)."""
    store, home = place / "store", place / "home"
    home.mkdir()
    running = []
    for number, (role, name, part) in enumerate(ROLES):
        root = place / name
        if not root.exists():
            root.mkdir()
            (root / "start").write_text(name)
        with opened(str(root), Settings(home=str(home), data=str(home / "data"), store=str(store))) as workspace:
            workspace.save()
        (root / part.partition("+")[0]).mkdir(exist_ok=True)
        environment = {
            "PATH": os.environ["PATH"], "HOME": str(home), "LANG": "C.UTF-8", "PYTHONDONTWRITEBYTECODE": "1",
            "PYTHONPATH": os.pathsep.join([os.path.dirname(TESTS), TESTS]), "GIT_CONFIG_NOSYSTEM": "1",
        }  # fmt: skip
        running.append(
            subprocess.Popen(
                [sys.executable, "-m", "support.race_programs", role, str(root), str(store), str(seconds), str(number), part],
                env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            )
        )  # fmt: skip
    counts, wrong = collections.Counter(), []
    for process, role in zip(running, ROLES, strict=True):
        out, err = process.communicate()
        assert process.returncode == 0, f"{role}: {err.decode()[-3000:]}"
        found = json.loads(out)
        wrong += found.pop("wrong")
        counts.update(found)
    records = [
        json.loads(line)
        for path in place.iterdir()
        if path.name.startswith("store.records.")
        for line in path.read_text().splitlines()
    ]
    assert not wrong, wrong[:5]
    return records, counts


def judge(place, records, counts):
    """Everything that is listed holds what was noted when it was saved; everything that must be listed is."""
    by_id = collections.defaultdict(list)
    for record in records:
        by_id[record["id"]].append(record)
    settings = Settings(home=str(place / "home"), data=str(place / "home/data"), store=str(place / "store"))
    with opened(str(place / "one"), settings, create=False) as workspace:
        listed = {point.id: point for point, _ in workspace.checkpoints(every_worktree=True)}
        verified = workspace.verify()
        assert not verified.problems, verified.problems[:3]
        for identity, point in listed.items():
            if identity not in by_id:
                continue  # a safety checkpoint, or a first one
            target = place / "restored" / identity
            assert not workspace.materialise(point, str(target)).kept
            for record in by_id[identity]:
                found = contents(target / record["part"])
                found.pop("start", None)
                expected = {path: digest for path, digest in record["files"].items() if path != "start"}
                assert found == expected, (identity, record["root"], record["part"])
                counts["checkpoints held to their record"] += 1
    lost = [record["id"] for record in records if record["pinned"] and record["id"] not in listed]
    assert not lost, f"pinned, and gone: {lost}"
    counts["pinned"] = sum(record["pinned"] for record in records)
    for root in {record["root"] for record in records}:
        own = [record for record in records if record["root"] == root]
        if all(record["seq"] for record in own):
            last = sorted({record["seq"]: record["id"] for record in own}.items())[-KEPT:]
        else:
            last = [(0, own[-1]["id"])] if len({record["part"] for record in own}) == 1 else []
        for _, identity in last:
            assert identity in listed, f"{root}: {identity} was one of the newest {KEPT}"
    counts["listed"], counts["blobs"] = len(listed), verified.blobs


@pytest.mark.parametrize("seconds", [pytest.param(4, marks=LONG), pytest.param(120, marks=pytest.mark.long)])
def test_gc_against_concurrent_savers(tmp_path, seconds):
    records, counts = race(tmp_path, seconds)
    judge(tmp_path, records, counts)
    print(f"{seconds} s:", ", ".join(f"{what} {count}" for what, count in sorted(counts.items())))
    assert counts["saves"] > seconds and counts["gcs that dropped"] > 0, "too slow to have met each other"
    assert counts["restores"] > 0
    assert counts["checkpoints held to their record"] > 5
