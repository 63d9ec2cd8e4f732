"""Every file of a store damaged in every way: what is answered is right, or it is refused and nothing is changed.

Deleted, cut, flipped, zeroed, exchanged; packs, ledger, index, FORMAT, journal. The rule, and how each case is judged by
pictures that other code took, stands in support/damage_store.py. Each case is repaired, too: what repair does not name is there.
"""

import collections
import json
import os
import subprocess
import sys

import pytest

from support.sample_start import start_below

TESTS = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
VERBS = {"delete", "truncate", "flip", "zero"}


@pytest.fixture
def spoil(scratch):
    """spoil(...): the reports of support/damage_store.py, added up. `shares`: two of how many shares of the cases are taken: the first, which
    has each kind of damage, and another one after every change of the product. Two processes take all cases, and one takes a few: each
    makes the store first."""

    def work(*, shares=2, **specification):
        running, taken = [], [0, 1 + start_below(shares - 1)]
        for parts in [taken] if shares > 2 else [[part] for part in taken]:
            directory = scratch / f"part-{parts[0]}"
            directory.mkdir()
            asked = {**specification, "parts": parts, "of": shares}
            running.append(
                subprocess.Popen(
                    [sys.executable, "-m", "support.damage_store", str(directory), json.dumps(asked)],
                    env={
                        "PATH": os.environ["PATH"], "PYTHONDONTWRITEBYTECODE": "1", "PYTHONHASHSEED": "0", "LANG": "C.UTF-8",
                        "PYTHONPATH": os.pathsep.join([os.path.dirname(TESTS), TESTS]), "GIT_CONFIG_NOSYSTEM": "1",
                    },
                    stdout=subprocess.PIPE, cwd=directory,
                )
            )  # fmt: skip
        outputs = [process.communicate()[0] for process in running]
        assert {process.returncode for process in running} == {0}
        reports = [json.loads(output) for output in outputs]
        kinds = sum((collections.Counter(report["kinds"]) for report in reports), collections.Counter())
        counts = {key: sum(report[key] for report in reports) for key, value in reports[0].items() if isinstance(value, int)}
        return {**counts, "kinds": kinds, "wrong": sum((report["wrong"] for report in reports), [])}

    return work


def judge(report, what):
    kinds = report["kinds"]
    told = ", ".join(f"{report[key]} {key}" for key in ("detected", "harmless", "repaired whole", "repaired with named losses"))
    print(f"{what}: {report['cases']} cases: {told}")
    assert not report["wrong"], f"{len(report['wrong'])} wrong, the first: {report['wrong'][0]}"
    assert report["detected"] + report["harmless"] == report["cases"] == sum(kinds.values())
    assert report["detected"] > 0
    return {(kind.partition(" ")[0], kind.partition(" ")[2]) for kind in kinds}


def sampled(questions):
    """What takes a fifth of the cases and asks each so many of the questions, others after every change of the product; with None,
    all of both."""
    return {"shares": 10, "rotate": questions, "first": start_below(9)} if questions else {}


@pytest.mark.turns(3)
@pytest.mark.parametrize("questions", [1, pytest.param(None, marks=pytest.mark.long)])
def test_every_kind_of_damage_is_detected_or_harmless_and_repaired(spoil, questions):
    """In a push a fifth of the cases is asked one of the nine questions each: another one than its neighbours, and another after
    every change of the product. The long test asks all."""
    report = spoil(**sampled(questions))
    kinds = judge(report, "packs, ledger, index, FORMAT")
    assert kinds >= {(target, verb) for target in ("pack", "ledger", "index", "format", "note") for verb in (*VERBS, "replace")}
    whole, lossy = report["repaired whole"], report["repaired with named losses"]
    assert whole + lossy > 0 if questions else min(whole, lossy) > 20


@pytest.mark.turns(3)
@pytest.mark.parametrize("questions", [3, pytest.param(None, marks=pytest.mark.long)])
def test_a_damaged_journal_of_a_restore_that_was_killed_is_detected_or_harmless(spoil, questions):
    """In a push a fifth of the cases is asked three of the questions each."""
    report = spoil(journal=True, **sampled(questions))
    assert judge(report, "journal") == {("journal", verb) for verb in (*VERBS, "replace")}
    assert report["repaired whole"] > (0 if questions else 10)


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_every_pack_is_damaged_in_every_way(spoil):
    judge(spoil(thorough=True, seed=2), "thorough")


@pytest.mark.release
@pytest.mark.timeout(7200)
def test_thousands_of_flips(spoil):
    """Each asked some of the questions, other ones each time; the index with the time of its last change put back."""
    counts = {"pack": 1500, "ledger": 700, "index": 2400, "note": 90, "format": 150}
    report = spoil(flips=counts, rotate=3, seed=3)
    judge(report, "flips")
    assert report["cases"] >= 4500


@pytest.mark.release
@pytest.mark.timeout(7200)
def test_thousands_of_other_flips(spoil):
    """At other places than those of the test above: with them and those of the journal, more than 10,000."""
    counts = {"pack": 1800, "ledger": 900, "index": 2600, "note": 100, "format": 100}
    report = spoil(flips=counts, rotate=2, seed=5)
    judge(report, "other flips")
    assert report["cases"] >= 5000


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_hundreds_of_flips_in_a_journal(spoil):
    judge(spoil(journal=True, flips={"journal": 400}, rotate=3, seed=4), "flips of a journal")
