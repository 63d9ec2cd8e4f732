"""The power is cut at any moment: what was acknowledged is there, the store is whole, no file is lost to half a restore.

Every write and flush that a real file system sends to its disk while casrewind works is written down. For each cut the
disk is made anew as it may have been left (all that was flushed; of the rest everything, nothing or any part), mounted,
so that the file system replays its journal, and looked at by the command itself. See support/power_cut.py for the cuts,
support/power_cut_stories.py for the work and for what has to be true.
"""

import collections
import json
import os
import shutil
import subprocess
import sys
import tempfile

import pytest

from support import recorded_disk
from support.power_cut import KINDS
from support.real_trees import roomy
from support.sample_start import by_turns

TESTS = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PATH = os.pathsep.join([os.environ["PATH"], "/usr/sbin", "/sbin"])
FEW = 16
"""So many cuts are made by one process, more of them by two: each imports casrewind and reads the whole recording."""
ALONE = ("btrfs",)
"""Before Linux 6.7 btrfs took two images of one file system for one: one process makes all cuts."""


@pytest.fixture
def power():
    """power(kind, story, cuts): the work recorded on a file system of that kind, the cuts judged, the reports of
    those who judge added up."""
    reason = recorded_disk.why_not()
    if reason is not None:
        pytest.skip(reason)
    place = tempfile.mkdtemp(prefix="casrewind-power-", dir=roomy())
    running = []

    def work(kind, story, cuts, seed=1):
        maker = KINDS[kind][1].split()[0]
        if shutil.which(maker, path=PATH) is None:
            pytest.skip(f"no {maker} here")
        directory = tempfile.mkdtemp(dir=place)
        running.append(_started(directory, kind=kind, story=story))
        recorded = _answer(running[-1])
        if "impossible" in recorded:
            pytest.skip(recorded["impossible"])
        parts = 1 if cuts <= FEW or kind in ALONE else 2
        shares = [
            _started(directory, kind=kind, story=story, count=cuts, seed=seed, part=part, parts=parts) for part in range(parts)
        ]
        running.extend(shares)
        reports = [_answer(share) for share in shares]
        shutil.rmtree(directory)
        seen = collections.Counter()
        for report in reports:
            seen.update(report["seen"])
        problems = [problem for report in reports for problem in report["problems"]]
        done = sum(report["cuts"] for report in reports)
        print(f"{story} on {kind}: {done} power cuts, {len(problems)} with a loss, in a recording of {recorded['steps']} commands "
              f"({recorded['killed']} killed), {recorded['writes']} block writes, {recorded['flushes']} flushes; "
              + (", ".join(f"{what} {count}" for what, count in sorted(seen.items())) or "nothing else"))  # fmt: skip
        seen["killed"] = recorded["killed"]
        return done, problems, seen

    yield work
    for process in running:
        if process.poll() is None:
            process.kill()
            process.communicate()
    shutil.rmtree(place, ignore_errors=True)


def _started(directory, **specification):
    return subprocess.Popen(
        ["unshare", "--mount", "--propagation", "private", sys.executable, "-m", "support.power_cut", directory,
         json.dumps(specification)],
        env={
            "PATH": PATH, "PYTHONDONTWRITEBYTECODE": "1", "GIT_CONFIG_NOSYSTEM": "1", "LANG": "C.UTF-8",
            "PYTHONPATH": os.pathsep.join([os.path.dirname(TESTS), TESTS]),
        },
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=directory,
    )  # fmt: skip


def _answer(process):
    out, err = process.communicate()
    text = err.decode(errors="replace")
    if process.returncode and "unshare" in text:
        pytest.skip(f"no mount namespace of one's own here: {text.strip()}")
    assert process.returncode == 0, text[-3000:]
    return json.loads(out)


def judge(done, problems, seen, expected):
    assert not problems, f"{len(problems)} problems, the first: {problems[0]}"
    assert done == expected
    assert seen["unacknowledged checkpoint there"] > 0 and seen["worktree known"] > 0
    if expected >= 100:
        assert seen["restore continued"] + seen["restore taken back"] > expected // 50, "hardly any cut was inside of a restore"


@pytest.mark.turns(3)
def test_no_power_cut_loses_what_was_acknowledged(power):
    judge(*power("ext4", "casrewind", 10), 10)


def test_a_writer_that_does_not_sync_is_caught_and_one_that_does_is_not(power):
    """The simulator's own test: it loses what may be lost, and nothing else."""
    _, problems, _ = power("ext4", "lines", 10)
    assert not problems, problems[0]
    done, problems, _ = power("ext4", "lines without syncs", 10)
    assert len(problems) > done / 2
    assert all("lost: " in problem for problem in problems), problems[0]


@pytest.mark.turns(3)
def test_casrewind_without_its_syncs_is_caught(power):
    done, problems, _ = power("ext4", "casrewind without its syncs", 8)
    assert len(problems) > done / 2


@pytest.mark.turns(3)
def test_what_a_killed_command_had_not_synced_is_not_built_upon(power):
    if shutil.which("strace") is None:
        pytest.skip("needs strace, to kill a command right before a sync")
    judge_after_kills(*power("ext4", "casrewind killed before", 8), 8)


def judge_purges(done, problems, seen, expected):
    assert not problems, f"{len(problems)} problems, the first: {problems[0]}"
    assert done == expected
    if expected >= 100:
        assert seen["purged"] > 0, "no cut fell between the moment when the purge counts and its end"


@pytest.mark.turns(3)
@pytest.mark.parametrize("kind", by_turns(["ext4", "btrfs"], 1))  # btrfs forgets what other file systems happen to make durable
def test_a_purge_is_all_or_nothing_and_durable_when_it_was_said(power, kind):
    judge_purges(*power(kind, "purge", 8), 8)


@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("kind", ["ext4", "xfs", "btrfs"])
def test_a_purge_of_many_cuts_is_all_or_nothing(power, kind):
    judge_purges(*power(kind, "purge", 200), 200)


def judge_after_kills(done, problems, seen, expected):
    assert not problems, f"{len(problems)} problems, the first: {problems[0]}"
    assert done == expected
    assert seen["killed"] >= 17, "too few of the commands were killed"
    assert seen["worktree known"] > 0


@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("kind", ["ext4", "xfs", "btrfs"])
def test_what_killed_commands_had_not_synced_is_not_built_upon(power, kind):
    judge_after_kills(*power(kind, "casrewind killed before", 100), 100)


@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.parametrize(("kind", "seed"), [*(("ext4", seed) for seed in range(4)), ("xfs", 4), ("btrfs", 5)])
def test_no_power_cut_of_many_loses_what_was_acknowledged(power, kind, seed):
    judge(*power(kind, "casrewind", 250, seed), 250)


def judge_edits(done, problems, seen, expected):
    assert not problems, f"{len(problems)} problems, the first: {problems[0]}"
    assert done == expected
    if expected >= 100:  # of few cuts, on a slow machine, each may come after the system has written the files
        assert seen["the cut had changed files"] > 0, "no cut took any bytes of the user's"


@pytest.mark.turns(3)
@pytest.mark.parametrize(("kind", "since"), by_turns([("ext4", "boot"), ("xfs", "mount"), ("btrfs", "mount")], 1))
def test_a_restore_after_a_power_cut_believes_no_stamp_of_before(power, kind, since):
    judge_edits(*power(kind, f"edits before a new {since}", 6), 6)


@pytest.mark.long
def test_a_disk_that_goes_back_unnoticed_is_the_limit(power):
    """The same cuts as above, in a system that shows no sign of them: restores leave wrong bytes, and the judge sees it."""
    _, problems, _ = power("ext4", "edits before a hidden cut", 100)
    assert any("paths are not as in" in problem for problem in problems)


@pytest.mark.long
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("since", ["boot", "mount"])
@pytest.mark.parametrize(("kind", "cuts"), [("ext4", 500), ("xfs", 100), ("btrfs", 100)])
def test_a_restore_after_many_power_cuts_believes_no_stamp_of_before(power, kind, cuts, since):
    judge_edits(*power(kind, f"edits before a new {since}", cuts), cuts)
