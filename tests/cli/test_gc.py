"""casrewind gc as it is typed: limits, answers, clocks that are wrong."""

import os

import pytest

from support.command import Command
from support.command_in_process import InProcess
from support.picture import differences, picture
from support.sample_start import by_turns
from support.trees import plant
from support.unchanged import store_picture

DAY = 86400


@pytest.fixture
def gc(root, home):
    """The command with five checkpoints, called in this process."""
    command = InProcess(root, home)
    for n in range(5):
        plant(root, {"a": b"%d" % n, f"only-{n}": os.urandom(9000)})
        command("save", code=0)
    return command


def store_of(command):
    return command.json("status")["store"]


AGES = {
    "30d": 30 * DAY, "12h": 12 * 3600, "1d12h": 1.5 * DAY, "2 weeks": 14 * DAY, "P30D": 30 * DAY, "PT36H": 1.5 * DAY,
    "p1w": 7 * DAY, "90 min": 5400, "1.5h": 5400, "0s": 0, "PT0S": 0, " 7 Days ": 7 * DAY, "1w 2d": 9 * DAY, "365d": 365 * DAY,
}  # fmt: skip


@pytest.mark.parametrize("text", AGES)
def test_ages_are_understood_as_people_and_as_iso_8601_write_them(gc, text):
    from casrewind.config import parse_age

    assert parse_age(text, "x") == AGES[text]
    found = gc.json("gc", "--max-age", text)
    assert found["dropped"] == (4 if AGES[text] == 0 else 0)


BAD_AGES = [
    "30x", "-1d", "", " ", "1e400d", "999999999999999999d", "P1M", "P1Y", "nan", "inf", "30", "d", "P", "PT", "1d-", "1..5d",
    "30 d d", "0x10d", "٣٠d", "30d; rm", "1d\n2x", "9" * 5000 + "d", "-P1D", "P-1D", "1,5d",
]  # fmt: skip


@pytest.mark.parametrize("text", BAD_AGES, ids=lambda text: repr(text[:20]))
def test_a_bad_age_is_refused_in_one_line_before_anything_is_done(gc, text):
    before = store_picture(store_of(gc))
    result = gc("gc", f"--max-age={text}", code=64)
    assert result.out == ""
    assert result.err.count("\n") == 1
    assert result.err.startswith("casrewind: --max-age")
    assert len(result.err) < 300
    assert store_picture(store_of(gc)) == before


@pytest.mark.parametrize("text", ["0", "-1", "x", "", "1.5", "1e3", "٣", "0x1", "nan", "00", "1 000", "+-1"])
def test_a_bad_count_is_refused_in_one_line_before_anything_is_done(gc, text):
    before = store_picture(store_of(gc))
    result = gc("gc", f"--max-count={text}", code=64)
    assert result.out == ""
    assert result.err.count("\n") == 1
    assert result.err.startswith("casrewind: --max-count")
    assert store_picture(store_of(gc)) == before


@pytest.mark.parametrize("text", [str(10**30), "9" * 5000, "5", "005", str(2**63)])
def test_a_count_that_is_large_enough_drops_nothing(gc, text):
    assert gc.json("gc", "--max-count", text)["dropped"] == 0


def test_a_refused_limit_names_what_to_write(gc):
    assert "write it like 30d, 12h" in gc("gc", "--max-age", "30x", code=64).err
    assert "thousand years" in gc("gc", "--max-age", "999999999999999999d", code=64).err
    assert "1 or more" in gc("gc", "--max-count", "0", code=64).err


def test_both_bad_and_good_limits_together_do_nothing(gc):
    gc("gc", "--max-count", "1", "--max-age", "30x", code=64)
    gc("gc", "--max-count", "0", "--max-age", "0s", code=64)
    assert len(gc.json("list")["checkpoints"]) == 5


@pytest.mark.parametrize("words", [["--dry-run"], []])
def test_the_answer_for_programs(gc, words):
    points = gc.json("list")["checkpoints"]
    found = gc.json("gc", "--max-count", "2", *words)
    assert set(found) == {"kept", "dropped", "bytes_before", "bytes_after", "dry_run", "checkpoints"}
    assert (found["kept"], found["dropped"], found["dry_run"]) == (2, 3, bool(words))
    assert found["bytes_before"] > found["bytes_after"] > 0
    assert found["checkpoints"] == [{"id": point["id"], "reason": "more than 2 newer ones"} for point in points[2:]]
    assert len(gc.json("list")["checkpoints"]) == (5 if words else 2)


def test_the_answer_for_people(gc):
    points = gc.json("list")["checkpoints"]
    result = gc("gc", "--max-count", "2", "--dry-run", code=0)
    assert result.out.startswith("would delete 3 checkpoints and keep 2; would free about ")
    assert [line.split()[0] for line in result.out.splitlines()[1:]] == [point["id"] for point in points[2:]]
    assert all("more than 2 newer ones" in line for line in result.out.splitlines()[1:])
    result = gc("gc", "--max-count", "2", code=0)
    assert result.out.startswith("deleted 3 checkpoints and kept 2; freed ")
    assert result.out.count("\n") == 1
    assert result.err == ""
    assert gc("gc", "--max-count", "1", code=0).out.startswith("deleted 1 checkpoint and kept 1; freed ")
    assert gc("gc", code=0).out.startswith("no checkpoint to delete, 1 kept; freed ")


def test_quiet_is_quiet(gc):
    assert gc("-q", "gc", "--max-count", "2", code=0)[1:] == ("", "")
    assert len(gc.json("list")["checkpoints"]) == 2


def test_without_limits_those_of_the_configuration_count(gc):
    assert gc.json("gc")["dropped"] == 0
    assert gc.json("gc", CASREWIND_MAX_COUNT="3")["dropped"] == 2
    assert gc.json("gc", CASREWIND_MAX_AGE="0s")["dropped"] == 0  # the newest ten are spared by a default
    assert gc.json("gc", "--max-age", "0s")["dropped"] == 2  # not by somebody who says it now


def test_a_project_cannot_shorten_anybodys_undo(gc, root):
    plant(root, {".casrewind.toml": b"[retention]\nmax_count = 1\n"})
    found = gc("gc", code=0)
    assert "is not a setting of a project" in found.err
    assert len(gc.json("list")["checkpoints"]) == 5


def test_gc_takes_no_reference(gc):
    assert gc("gc", "last", code=64).err.count("\n") <= 3


# -- clocks, with the real program

BY_HAND = {"CASREWIND_AUTO_GC": "false", "CASREWIND_THIN": "false"}


@pytest.fixture
def at(root, home, clock):
    """at("+1y", "gc", ...): the command, with a clock that is off."""
    command = Command(root, home)
    command.environment |= BY_HAND

    def work(when, *arguments, **more):
        return command(*arguments, **clock(when), **more)

    return work


@pytest.fixture
def aged(casrewind, at, root):
    """Twelve checkpoints: two of a year ago, ten of today."""
    casrewind.environment |= BY_HAND
    for n in range(12):
        plant(root, {"a": b"%d" % n})
        at("-1y", "save", code=0) if n < 2 else casrewind("save", code=0)
    points = casrewind.json("list")["checkpoints"]
    assert points[-1]["created_at"] < points[0]["created_at"]
    return points


WRONG = [(when, limit) for when in ("-1y", "-40d", "+1y", "+40d", "+20y") for limit in ("30d", "0s")]


@pytest.mark.parametrize(("when", "limit"), by_turns([*WRONG, ("-40d", None), ("+1y", None)], 5))
def test_a_wrong_clock_takes_nothing_away_and_is_said(casrewind, at, aged, root, when, limit):
    before = picture(root)
    words = ["--max-age", limit] if limit else []
    for more in (["--dry-run"], []):
        result = at(when, "gc", *words, *more, code=0)
        assert "no checkpoint to delete, 12 kept" in result.out
        assert result.err.count("\n") == 1
        expected = "in the future: is the clock right?" if when[0] == "-" else "old: either nothing was saved since"
        assert result.err.startswith("casrewind: note: ") and expected in result.err
    assert casrewind.json("list")["checkpoints"] == aged
    assert differences(picture(root), before) == {}
    assert casrewind.json("verify")["ok"]


def test_a_right_clock_drops_what_is_old(casrewind, aged):
    result = casrewind("gc", "--max-age", "30d", code=0)
    assert result.out.startswith("deleted 2 checkpoints and kept 10")
    assert result.err == ""
    assert casrewind.json("list")["checkpoints"] == aged[:10]


def test_a_clock_that_jumped_and_came_back_lets_age_count_again(casrewind, at, aged, root):
    plant(root, {"a": b"saved in the future"})
    at("+2d", "save", code=0)
    assert casrewind.json("gc", "--max-age", "30d")["dropped"] == 0
    assert at("+2d", "gc", "--max-age", "30d", "--json", code=0).json["dropped"] == 2
    assert at("+3d", "gc", "--max-age", "30d", "--json", code=0).json["dropped"] == 0
