"""A sheet that is brought up to date says what one that is made anew says, or is too old for what it does not."""

import os
import random
import shutil
import subprocess

import pytest

from casrewind.model import stamp as stamps
from casrewind.worktree import renewal, sheetmaker, statcache
from casrewind.worktree import sheet as sheets
from support.scanner import Scanner, settle
from support.trees import Dir, Fifo, Link, edit, plant

WIDE = {f"d{n}/e{m}/f{k}": b"%d" % (n * m * k) for n in range(4) for m in range(3) for k in range(3)}


@pytest.fixture
def scan(root):
    plant(root, {**WIDE, "d0/x": b"1", "d1/l": Link("x"), "top": b"1"})
    settle()
    found = Scanner(root, paged=True)
    found()
    return found


def renewed(scan, deed):
    """(the sheet brought up to date, of which directories, the stale ones, the one made anew) after a deed."""
    page = sheetmaker.build(scan.memory.get)
    deed()
    settle()
    scan.page = sheets.Sheet(page, ())
    stale = set(scan().stamps)
    found = renewal.renew(sheets.Sheet(page, ()), scan.memory.get, stale)
    data, fresh = found or (page, frozenset())
    return data, fresh, stale, sheetmaker.build(scan.memory.get)


def test_edited_files_are_written_over_what_the_sheet_has(scan, root):
    def deed():
        (root / "d0" / "e1" / "f0").write_bytes(b"more than there was")
        (root / "d0" / "e2" / "f2").write_bytes(b"")
        (root / "d3" / "e0" / "f1").write_bytes(b"other")
        os.chmod(root / "d0" / "x", 0o755)

    data, fresh, stale, anew = renewed(scan, deed)
    assert data == anew and fresh == stale - {b""} == {b"d0", b"d0/e1", b"d0/e2", b"d3", b"d3/e0"}


def test_files_that_came_went_or_were_renamed_are_too(scan, root):
    def deed():
        plant(root, {"d0/e1/a": b"new", "d0/e1/z": Link("new"), "d2/y": b"new", "d1/e0/f1": b"exchanged"})
        (root / "d0" / "e2" / "f1").unlink()
        for name in range(3):
            (root / "d3" / "e1" / f"f{name}").unlink()
        os.rename(root / "d0" / "x", root / "d0" / "a")

    data, fresh, stale, anew = renewed(scan, deed)
    assert data == anew and fresh == stale - {b""} and len(fresh) == 8


def test_other_names_of_files_and_what_was_skipped_are_told_as_they_are_now(scan, root):
    plant(root, {"d2/e1/pipe": Fifo(), "d3/a": b"1"})
    os.link(root / "d3" / "a", root / "d3" / "e2" / "b")
    settle()
    scan()

    def deed():
        plant(root, {"d0/e0/pipe": Fifo(), "d1/q": b"1"})
        os.link(root / "d1" / "q", root / "d3" / "e2" / "a")
        (root / "d2" / "e1" / "pipe").unlink()
        (root / "d3" / "a").unlink()

    data, fresh, stale, anew = renewed(scan, deed)
    assert data == anew and fresh == stale - {b""}


def test_where_directories_came_or_went_it_stays_too_old_for_all_above_them(scan, root):
    def deed():
        plant(root, {"d0/e1/g/f": b"1", "d0/e2/f0": b"other", "d2/e1/f0": b"other"})
        shutil.rmtree(root / "d1" / "e2")

    data, fresh, stale, anew = renewed(scan, deed)
    assert fresh == {b"d0/e2", b"d2", b"d2/e1"} and stale >= {b"d0", b"d0/e1", b"d1"} and data != anew
    scan.page = sheets.Sheet(data, stale - fresh)
    assert scan().tree == Scanner(root)().tree


@pytest.mark.parametrize("names", [{"d0/e1/.gitignore": b"*.o\n"}, {".gitignore": b"*.o\n"}])
def test_of_rule_files_and_of_what_is_under_other_rules_it_knows_nothing(scan, root, names):
    _, fresh, stale, _ = renewed(scan, lambda: plant(root, {**names, "d0/e1/f0": b"other"}))
    assert not fresh and b"d0/e1" in stale


def test_what_is_to_be_looked_at_again_is_not_taken_over_nor_what_is_above_it(scan, root):
    page = sheetmaker.build(scan.memory.get)
    for path in (b"d0/e1", b"d2"):
        record = statcache.decode(scan.memory[path])
        several = [stamps.NONE, *record.stamps[1:]]
        scan.memory[path] = statcache.encode(record._replace(stamp=stamps.NONE) if path == b"d2" else record._replace(stamps=several))
    found = renewal.renew(sheets.Sheet(page, ()), scan.memory.get, [b"d0", b"d0/e1", b"d2", b"d2/e0", b"d3"])
    assert found is not None and found[1] == {b"d2/e0", b"d3"}


@pytest.mark.parametrize("change", ["tree", "mode"])
def test_a_directory_whose_tree_has_another_child_than_the_sheet_is_not_taken_over(scan, root, change):
    page = sheetmaker.build(scan.memory.get)
    record = statcache.decode(scan.memory[b"d0/e1"])
    other = record._replace(tree=bytes(32)) if change == "tree" else record._replace(stamp=record.stamp._replace(mode=0o40700))
    scan.memory[b"d0/e1"] = statcache.encode(other)
    places = [b"d0", b"d0/e1", b"d1"]
    found = renewal.renew(sheets.Sheet(page, ()), scan.memory.get, places)
    assert found is not None and found[1] == {b"d0/e1", b"d1"}
    assert sheets.Sheet(found[0], set(places) - found[1]).take(b"d0", record.rules) is None


def test_forgotten_and_unknown_directories_and_bytes_that_are_no_sheet_are_left(scan):
    page = sheetmaker.build(scan.memory.get)
    assert renewal.renew(sheets.Sheet(page, ()), lambda _: None, [b"d0", b"d1/e1"]) is None
    assert renewal.renew(sheets.Sheet(page, ()), scan.memory.get, [b"", b"nowhere"]) is None
    assert renewal.renew(sheets.Sheet(b"no sheet", ()), scan.memory.get, [b"d0"]) is None


@pytest.mark.long  # 4 s of walking down
def test_a_deep_tree_is_no_matter(root):
    deep = "/".join(["d"] * 1200)
    for depth in range(300, 1300, 300):
        plant(root, {"/".join(["d"] * depth): Dir()})
    plant(root, {f"{deep}/f": b"1", "e/f": b"1"})
    settle()
    scan = Scanner(root, paged=True)
    scan()

    def deed():
        (root / "e" / "f").write_bytes(b"other")
        (root / deep / "f").write_bytes(b"other")

    data, fresh, _, anew = renewed(scan, deed)
    subprocess.run(["rm", "-r", root / "d"], check=True)  # nothing in Python takes that many levels away
    assert data == anew and len(fresh) == 1201


@pytest.mark.parametrize("seed", range(8))
def test_edits_at_random_are_seen_as_without_a_sheet(root, seed):
    """One sheet, brought up to date after each scan, against a scan that remembers nothing, and against a sheet made anew."""
    chance = random.Random(seed)
    plant(root, {**WIDE, "d0/.gitignore": b"*.o\n", "d2/empty": Dir()})
    settle()
    paged = Scanner(root, paged=True)
    paged()
    page, stale, taken = sheetmaker.build(paged.memory.get), set(), 0
    for _ in range(12):
        for _ in range(chance.randrange(4)):
            edit(root, chance)
        settle()
        paged.page = sheets.Sheet(page, stale)
        found = paged()
        stale |= set(found.stamps)
        plain = Scanner(root)()
        assert found.tree == plain.tree and found.domain == plain.domain
        assert (found.files, found.size) == (plain.files, plain.size)
        result = renewal.renew(paged.page, paged.memory.get, stale)
        if result is not None:
            page, stale, taken = result[0], stale - result[1], taken + len(result[1])
            known = sheets.Sheet(page, stale)
            for path in known._places:
                number = known._numbers[path]
                if number in known._unclean:
                    continue
                record = statcache.decode(paged.memory[path])
                assert known.take(path, record.rules).entry.digest == record.tree, path
    assert taken
