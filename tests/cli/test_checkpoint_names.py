"""How a checkpoint is named on the command line, and in which order the ways are tried."""

import os

import pytest

from support.agent_turns import AgentTurns
from support.trees import plant


def saved(casrewind, root, content, *arguments):
    plant(root, {"f": content})
    return casrewind.json("save", *arguments)["checkpoint"]


def named(casrewind, reference):
    return casrewind.json("show", reference)["checkpoint"]["id"]


def test_last_and_prev_skip_safety_checkpoints_and_numbers_are_turns(casrewind, root):
    one, two, three = (saved(casrewind, root, b"%d" % n) for n in range(3))
    safety = casrewind.json("restore", casrewind.row(3), "--yes")["safety"]
    assert named(casrewind, "last") == three
    assert named(casrewind, "prev") == two
    assert named(casrewind, safety) == safety  # a safety checkpoint's id is a reference like any other
    assert named(casrewind, safety[:8]) == safety
    for number in ("0", "4", "99999999999999999999999999"):
        found = casrewind("show", number, code=15)
        assert f"no turn {number!r}: this worktree has none; give last, prev, a label or an id: casrewind list --all" in found.err
    for number, point in (("1", three), ("2", two), ("3", one)):  # scripts of an older version counted checkpoints
        found = casrewind("restore", number, "-y", code=15)
        assert f"no turn {number!r}: this worktree has none; counted from the newest, checkpoint {number} is {point}; give last" in found.err
    assert casrewind.json("restore", safety, "--yes")["target"] == safety
    assert (root / "f").read_bytes() == b"2"


def test_a_mistyped_name_is_answered_with_the_near_one(casrewind, root):
    saved(casrewind, root, b"1", "-m", "before the clean-up")
    for word, near in (("lastt", "last"), ("lasT", "last"), ("before the cleanup", "before the clean-up")):
        assert f"did you mean {near}? casrewind list --all shows what there is" in casrewind("restore", word, "-y", code=15).err
    assert "at least 4 characters of one; casrewind list --all shows what there is" in casrewind("show", "c0ffee", code=15).err


def test_after_a_revert_last_is_still_the_state_with_the_reverted_change(casrewind, root, workspace):
    told = AgentTurns(workspace, root)
    plant(root, {"f": b"1"})
    told.prompt("p", "change f")
    plant(root, {"f": b"2"})
    told.stop("p")
    workspace.close()
    newest = named(casrewind, "last")
    casrewind("revert", "@1", "-y", code=0)
    assert named(casrewind, "last") == newest and casrewind("cat", "last:f", code=0).out == "2"
    casrewind("restore", "last", "-y", code=0)
    assert (root / "f").read_bytes() == b"2"


def test_ids_start_with_a_letter_and_a_prefix_of_four_is_enough(casrewind, root):
    points = [saved(casrewind, root, b"%d" % n) for n in range(4)]
    for point in points:
        assert point[0].isalpha() and point.isalnum() and point.isascii()
        assert named(casrewind, point) == point
        shortest = next(n for n in range(4, len(point)) if sum(p.startswith(point[:n]) for p in points) == 1)
        assert named(casrewind, point[:shortest]) == point
        assert "at least 4" in casrewind("show", point[:3], code=15).err
    assert len(set(points)) == 4


def labelled(workspace, root, label):
    """A checkpoint with a label that `save` refuses: older versions made some."""
    from casrewind.upkeep import save

    plant(root, {"f": label.encode()})
    return save.save(workspace._context, save.Moment(label=label)).checkpoint.id


def test_the_order_is_turn_then_label_then_id_then_prefix(casrewind, root, workspace):
    one = saved(casrewind, root, b"1")
    two, three, four, five = (labelled(workspace, root, label) for label in ("last", "3", one, one[:6]))
    assert named(casrewind, "last") == five  # not the one labelled last
    assert three in casrewind("show", "3", code=15).err  # a number is a turn, and there is none; this is the third newest
    assert named(casrewind, "prev") == four and two != five
    assert named(casrewind, one) == four  # a label goes before an id
    assert named(casrewind, one[:6]) == five  # and before a prefix
    assert named(casrewind, one[:7]) == one


def test_a_label_may_hold_anything_that_fits_in_an_argument(casrewind, root):
    for label in ("before the big change", "ä/ö", "a\nb", "x" * 300, "-dash"):
        arguments = ["-m" + label]
        point = saved(casrewind, root, label.encode(), *arguments)
        if not label.startswith("-"):
            assert named(casrewind, label) == point
        assert casrewind.json("list", "-n", "1")["checkpoints"][0]["label"] == label


def test_of_equal_labels_the_newest_of_this_worktree_is_meant(casrewind, root, tmp_path, home):
    store = home / "one-for-both"

    def run(where, *words, **more):
        return casrewind("--store", store, "-C", where, *words, **more)

    other = tmp_path / "elsewhere"
    for where, content in ((root, b"1"), (root, b"2"), (other, b"3")):
        plant(where, {"f": content})
        run(where, "save", "-m", "twice", code=0)
    assert run(root, "restore", "twice", "--yes", code=0)
    assert (root / "f").read_bytes() == b"2"
    plant(other, {"f": b"4"})
    run(other, "save", "-m", "there", code=0)
    assert "elsewhere" in run(root, "restore", "there", "--yes", code=14).err
    plant(tmp_path / "third", {"f": b"5"})
    found = run(tmp_path / "third", "show", "twice", code=15)  # two worktrees have it, and this one has not
    assert "'twice'" in found.err and "3 checkpoints" in found.err


@pytest.fixture
def dated(casrewind, root):
    """Checkpoints made 3 days, 2 hours and 5 minutes ago, and a safety checkpoint made now."""
    from casrewind.upkeep import save

    points = {}
    real = save.time.time_ns
    for name, seconds in (("old", 3 * 86400), ("mid", 7200), ("new", 300)):
        save.time.time_ns = lambda seconds=seconds: real() - seconds * 10**9
        try:
            points[name] = saved(casrewind, root, name.encode())
        finally:
            save.time.time_ns = real
    plant(root, {"f": b"x"})
    casrewind.json("restore", "last", "--yes")
    return points


@pytest.mark.parametrize(
    ("reference", "name"),
    [("1m", "new"), ("10m", "mid"), ("1h30m", "mid"), ("2 hours 1 min ago", "old"), ("3h", "old"), ("2d", "old"), ("1 minute ago", "new"), ("0s", "new")],
)
def test_a_time_is_the_newest_checkpoint_that_is_not_later(casrewind, dated, reference, name):
    assert named(casrewind, reference) == dated[name]


def test_a_time_before_all_checkpoints_is_15_and_says_which_is_the_oldest(casrewind, dated):
    for reference in ("1w", "2001-01-01", "2001-01-01 18:00"):
        found = casrewind("show", reference, code=15)
        assert repr(reference) in found.err and dated["old"] in found.err


def test_a_label_that_looks_like_a_time_stays_a_label(casrewind, root, dated, workspace):
    point = labelled(workspace, root, "10m")
    assert named(casrewind, "10m") == point


def test_what_looks_like_a_time_and_is_none(casrewind, dated):
    for reference in ("25:00", "2026-02-31", "10x", "14:3", "yesterday 25:00"):
        assert "no checkpoint" in casrewind("show", reference, code=15).err


def test_a_time_in_front_of_a_path(casrewind, root, dated):
    assert casrewind("cat", "10m:f", code=0).out == "mid"


@pytest.mark.parametrize(
    ("text", "now", "expected"),
    [
        ("14:30", "2026-11-22 15:00", "2026-11-22 14:30"), ("14:30", "2026-11-22 14:00", "2026-11-21 14:30"),
        ("yesterday", "2026-11-22 15:00", "2026-11-21 23:59"), ("yesterday 18:00", "2026-11-22 15:00", "2026-11-21 18:00"),
        ("2026-11-20", "2026-11-22 15:00", "2026-11-20 23:59"), ("2026-11-20T18:00:07", "2026-11-22 15:00", "2026-11-20 18:00"),
        ("2h", "2026-11-22 15:00", "2026-11-22 13:00"), ("1w", "2026-11-22 15:00", "2026-11-15 15:00"),
    ],
)  # fmt: skip
def test_moments(text, now, expected):
    from datetime import datetime

    from casrewind.messages import format_moment
    from casrewind.history import typed_times

    clock = int(datetime.fromisoformat(now).timestamp()) * 10**9
    assert format_moment(typed_times.parse_moment(text, clock)) == expected


def test_a_word_that_is_a_checkpoint_and_a_path_is_refused_with_both_spellings(casrewind, root):
    plant(root, {"src/a": b"1", "other": b"1"})
    point = saved(casrewind, root, b"1", "-m", "src")
    plant(root, {"src/a": b"2", "other": b"2"})
    for words, path in ((["restore", "src", "-y"], "casrewind restore last -- src"), (["diff", "src"], "casrewind diff -- src")):
        found = casrewind(*words, code=64)
        assert point in found.err and path in found.err, found
    casrewind("diff", point, code=0)
    casrewind("restore", "last", "-y", "--", "src", code=0)
    assert (root / "src/a").read_bytes() == b"1" and (root / "other").read_bytes() == b"2"


def test_paths_need_no_dashes(casrewind, root):
    plant(root, {"src/a": b"1", "other": b"1", "gone": b"1"})
    saved(casrewind, root, b"1")
    plant(root, {"src/a": b"2", "other": b"2"})
    (root / "gone").unlink()

    def changed(*words):
        return [change["path"] for change in casrewind.json("diff", *words)["changes"]]

    assert changed("src/") == changed("last", "src") == changed("src/a") == changed("*/a") == ["src/a"]
    assert changed("gone") == changed("last", "gone") == ["gone"] and changed(":!src", ":!gone") == ["other"]
    assert changed("src", "other") == ["other", "src/a"]
    assert "no checkpoint 'nope'" in casrewind("diff", "nope", code=15).err
    casrewind("restore", "last", "src/a", "gone", "-y", code=0)
    assert changed() == ["other"]


def test_a_path_in_the_place_of_a_reference_gets_a_hint(casrewind, root):
    plant(root, {"src/a b": b"1"})
    saved(casrewind, root, b"1")
    found = casrewind("restore", "src/a b", "-y", code=15)
    assert "casrewind restore last -- 'src/a b'" in found.err
    assert "casrewind log" in casrewind("show", "src", code=15).err


def test_an_ambiguous_prefix_names_the_candidates(workspace, root, casrewind, monkeypatch):
    tokens, usual = iter(["aaaa1111111111", "aaaa2222222222", "bbbb3333333333"]), os.urandom
    monkeypatch.setattr(os, "urandom", lambda size: bytes.fromhex(next(tokens)) if size == 7 else usual(size))
    plant(root, {"f": b"1"})
    points = []
    for n in range(3):
        points.append(workspace.save(f"n{n}").checkpoint.id)
    monkeypatch.undo()
    assert [point[1:] for point in points] == ["aaaa1111111111", "aaaa2222222222", "bbbb3333333333"]
    found = casrewind("show", points[0][:5], code=15)
    assert points[0] in found.err and points[1] in found.err and points[2] not in found.err
    assert named(casrewind, points[0][:6]) == points[0]
    assert named(casrewind, points[2][:4]) == points[2]


def test_what_names_nothing_is_15_and_says_what_would(casrewind, root):
    saved(casrewind, root, b"1")  # without a label: an empty reference must not name it
    for reference in ("nope", "c000000000000000000", "", " ", "1.0", "１", "\x1b[31m", "a" * 5000):
        found = casrewind("show", reference, code=15)
        assert "\x1b" not in found.err
        for word in ("turn", "last", "prev", "label", "id", "casrewind list"):
            assert word in found.err
    plant(root, {"f": b"2"})
    casrewind("restore", "", "--yes", code=15)
    assert (root / "f").read_bytes() == b"2"


def test_numbers_are_those_of_this_worktree(casrewind, root, home):
    """A linked worktree shares the store and has numbers of its own."""
    import subprocess

    from support.command_in_process import InProcess

    environment = {**os.environ, "HOME": str(home), "GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@b", "GIT_COMMITTER_NAME": "a", "GIT_COMMITTER_EMAIL": "a@b"}
    other = root.parent / "linked"
    for command in (["init", "-q"], ["commit", "-q", "--allow-empty", "-m", "x"], ["worktree", "add", "-q", str(other)]):
        subprocess.run(["git", *command], cwd=root, env=environment, check=True, capture_output=True)
    here = saved(casrewind, root, b"here")
    there = InProcess(other, home)
    assert there.json("status")["store"] == casrewind.json("status")["store"]
    assert there("show", "last", code=15)
    linked = saved(there, other, b"there")
    assert named(casrewind, "last") == here
    assert named(there, "last") == linked
    assert named(there, here) == here  # an id is everybody's
    assert here in [p["id"] for p in there.json("list", "--all")["checkpoints"]]
    assert [p["id"] for p in there.json("list")["checkpoints"]] == [linked]
    refused = there("restore", here, "--yes", code=14)
    assert here in refused.err and str(root) in refused.err and "--to" in refused.err
    assert (other / "f").read_bytes() == b"there"
