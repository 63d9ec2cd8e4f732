"""How a checkpoint is named on the command line, and in which order the ways are tried."""

import os

import pytest

from casrewind import errors
from support.trees import plant


def saved(casrewind, root, content, *arguments):
    plant(root, {"f": content})
    return casrewind.json("save", *arguments)["checkpoint"]


def named(casrewind, reference):
    return casrewind.json("show", reference)["checkpoint"]["id"]


def test_last_prev_and_numbers_skip_safety_checkpoints(casrewind, root):
    one, two, three = (saved(casrewind, root, b"%d" % n) for n in range(3))
    safety = casrewind.json("restore", "3", "--yes")["safety"]
    assert named(casrewind, "last") == named(casrewind, "1") == three
    assert named(casrewind, "prev") == named(casrewind, "2") == two
    assert named(casrewind, "3") == one
    assert named(casrewind, safety) == safety  # a safety checkpoint's id is a reference like any other
    assert named(casrewind, safety[:8]) == safety
    for number in ("0", "4", "99999999999999999999999999"):
        found = casrewind("show", number, code=15)
        assert repr(number) in found.err and "has 3" in found.err and "casrewind list" in found.err
    assert casrewind.json("restore", safety, "--yes")["target"] == safety
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


def test_the_order_is_number_then_label_then_id_then_prefix(casrewind, root):
    one = saved(casrewind, root, b"1")
    two = saved(casrewind, root, b"2", "-m", "last")
    three = saved(casrewind, root, b"3", "-m", "3")
    four = saved(casrewind, root, b"4", "-m", one)
    five = saved(casrewind, root, b"5", "-m", one[:6])
    assert named(casrewind, "last") == five  # not the one labelled last
    assert named(casrewind, "3") == three  # the third newest, which happens to be the one labelled so
    assert named(casrewind, "4") == two
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


def test_an_ambiguous_label_names_the_candidates(casrewind, root):
    points = [saved(casrewind, root, b"%d" % n, "-m", "twice") for n in range(2)]
    found = casrewind("restore", "twice", "--yes", code=15)
    assert "'twice'" in found.err and "2 checkpoints" in found.err
    assert all(point in found.err for point in points)
    assert (root / "f").read_bytes() == b"1"


def test_an_ambiguous_prefix_names_the_candidates(workspace, root, casrewind, monkeypatch):
    from casrewind import fsio

    tokens, usual = iter(["aaaa1111111111", "aaaa2222222222", "bbbb3333333333"]), fsio.token
    monkeypatch.setattr(fsio, "token", lambda size: next(tokens) if size == 7 else usual(size))
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
    for reference in ("nope", "c000000000000000000", "", " ", "lasT", "1.0", "１", "\x1b[31m", "a" * 5000):
        found = casrewind("show", reference, code=15)
        assert "\x1b" not in found.err
        for word in ("number", "last", "prev", "label", "id", "casrewind list"):
            assert word in found.err
    plant(root, {"f": b"2"})
    casrewind("restore", "", "--yes", code=15)
    assert (root / "f").read_bytes() == b"2"


def test_numbers_are_those_of_this_worktree(casrewind, root, home):
    """A linked worktree shares the store and has numbers of its own."""
    import subprocess

    from support.inside import Inside

    environment = {**os.environ, "HOME": str(home), "GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@b", "GIT_COMMITTER_NAME": "a", "GIT_COMMITTER_EMAIL": "a@b"}
    other = root.parent / "linked"
    for command in (["init", "-q"], ["commit", "-q", "--allow-empty", "-m", "x"], ["worktree", "add", "-q", str(other)]):
        subprocess.run(["git", *command], cwd=root, env=environment, check=True, capture_output=True)
    here = saved(casrewind, root, b"here")
    there = Inside(other, home)
    assert there.json("status")["store"] == casrewind.json("status")["store"]
    assert there("show", "last", code=15)
    linked = saved(there, other, b"there")
    assert named(casrewind, "last") == named(casrewind, "1") == here
    assert named(there, "last") == linked
    assert named(there, here) == here  # an id is everybody's
    assert here in [p["id"] for p in there.json("list", "--all")["checkpoints"]]
    assert [p["id"] for p in there.json("list")["checkpoints"]] == [linked]
    refused = there("restore", here, "--yes", code=14)
    assert here in refused.err and str(root) in refused.err and "--to" in refused.err
    assert (other / "f").read_bytes() == b"there"


def test_the_newest_checkpoints_are_found_without_a_look_at_the_others(workspace, root, monkeypatch):
    from casrewind.store import catalog

    for number in range(30):
        (root / "f").write_text(str(number))
        workspace.save(f"label {number}")
    read = []
    real = catalog.checkpoints.decode
    monkeypatch.setattr(catalog.checkpoints, "decode", lambda *given: read.append(given) or real(*given))
    assert [workspace.checkpoint(word).label for word in ("last", "prev", "3")] == ["label 29", "label 28", "label 27"]
    assert len(read) == 1 + 2 + 3
    with pytest.raises(errors.CheckpointNotFound, match="this worktree has 30"):
        workspace.checkpoint("31")
