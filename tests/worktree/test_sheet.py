"""The sheet: what it says is what the records say, of what did not change and of nothing else."""

import os
import random
import shutil

import pytest

from casrewind.worktree import sheet as sheets
from casrewind.worktree import sheetmaker
from casrewind.worktree.ignore import RuleFile
from support.scanner import Scanner, settle
from support.trees import Dir, Fifo, Link, edit, plant

WIDE = {f"d{n}/e{m}/f{k}": b"%d" % (n * m * k) for n in range(4) for m in range(3) for k in range(3)}


def sheet_of(scan, stale=()):
    return sheets.Sheet(sheetmaker.build(scan.memory.get), stale)


def looked(scan, stale=(), rules=(), **changes):
    """A sheet that was compared with the worktree: {directory: whether it may be taken}."""
    found = sheet_of(scan, stale)
    root = os.open(scan.root, os.O_RDONLY)
    try:
        found.look(root, changes.get("device", os.fstat(root).st_dev), changes.get("excluded", ()), processes=changes.get("processes", 1))
    finally:
        os.close(root)
    digest = scan.rules(*rules)
    return lambda path: found.take(path, digest)


@pytest.fixture
def scan(root):
    return Scanner(root, paged=True)


def test_directories_that_are_as_they_were_are_not_opened(scan, root, monkeypatch):
    plant(root, WIDE)
    settle()
    first = scan()
    opened = []
    usual = os.open
    monkeypatch.setattr(os, "open", lambda path, *rest, **more: opened.append(path) or usual(path, *rest, **more))
    second = scan()
    assert [path for path in opened if not str(path).startswith("/proc/")] == [str(root)] and second == first._replace(stamps={}, trees={}, read=frozenset())


def test_what_lies_beside_a_change_is_taken_and_what_lies_above_it_is_not(scan, root):
    plant(root, WIDE)
    settle()
    scan()
    (root / "d1" / "e2" / "f0").write_bytes(b"other")
    (root / "d2" / "e0" / "new").write_bytes(b"")
    (root / "d3" / "e1" / "f1").unlink()
    os.chmod(root / "d3" / "e2", 0o700)
    take = looked(scan)
    unclean = {b"d1", b"d1/e2", b"d2", b"d2/e0", b"d3", b"d3/e1", b"d3/e2"}
    for path in (f"d{n}{rest}".encode() for n in range(4) for rest in ("", "/e0", "/e1", "/e2")):
        assert (take(path) is None) == (path in unclean), path
    assert take(b"") is None and take(b"nowhere") is None and take(b"d0/e0/f0") is None


def test_a_part_adds_up_to_what_is_under_it(scan, root):
    plant(root, {"d/a": b"333", "d/e/b": b"22", "d/e/l": Link("a"), "d/e/empty": Dir(), "x": b""})
    os.chmod(root / "d", 0o750)
    settle()
    found = scan()
    part = looked(scan)(b"d")
    assert (part.files, part.size, part.ignored, part.skipped, part.seen) == (2, 5, 0, [], 5)
    assert part.entry == scan.entries(found)[b"d"] and part.entry.mode == 0o750


def test_directories_with_rule_files_and_those_above_them_are_on_no_sheet(scan, root):
    plant(root, {"d/e/.gitignore": b"x\n", "d/e/g/f": b"1", "d/h/f": b"1", "i/f": b"1", "i/.casrewindignore": b""})
    settle()
    scan()
    take = looked(scan)
    assert [take(path) is None for path in (b"d", b"d/e", b"i", b"d/h")] == [True, True, True, False]


def test_other_rules_above_it_make_a_directory_one_to_be_scanned(scan, root):
    plant(root, {"d/keep": b"1", "d/drop.o": b"1"})
    settle()
    assert scan().files == 2
    plant(root, {".gitignore": b"*.o\n"})
    settle()
    found = scan()
    assert (found.files, found.domain.ignored) == (2, 1) and b"d/drop.o" not in scan.entries(found)


def test_what_was_skipped_and_ignored_is_told_and_counted_from_the_sheet(scan, root):
    plant(root, {".gitignore": b"*.o\n", "d/e/pipe": Fifo(), "d/e/x.o": b"1", "d/f": b"1"})
    settle()
    first = scan()
    second = scan()
    assert [(skip.path, skip.reason) for skip in second.domain.skipped] == [(b"d/e/pipe", "special file")]
    assert second.domain == first.domain and second.domain.ignored == 1
    rules = [RuleFile(b"", "gitignore", b"*.o\n")]
    assert looked(scan, rules=rules)(b"d") is not None and looked(scan)(b"d") is None


def test_stale_directories_and_those_above_them_are_scanned(scan, root):
    plant(root, WIDE)
    settle()
    scan()
    take = looked(scan, stale=[b"d1/e1", b"gone", b""])
    assert [take(path) is None for path in (b"d1/e1", b"d1", b"d1/e0", b"d0")] == [True, True, False, False]


def test_another_device_and_excluded_directories_are_never_taken(scan, root):
    plant(root, {"d/f": b"1", "e/f": b"1"})
    settle()
    scan()
    status = os.stat(root / "d")
    take = looked(scan, excluded=[(status.st_dev, status.st_ino)])
    assert take(b"d") is None and take(b"e") is not None
    assert looked(scan, device=status.st_dev + 1)(b"e") is None


def test_a_directory_that_became_a_link_to_a_copy_is_scanned(scan, root, tmp_path):
    plant(root, {"d/f": b"1", "d/e/f": b"1"})
    settle()
    scan()
    shutil.move(root / "d", tmp_path / "elsewhere")
    os.symlink(tmp_path / "elsewhere", root / "d")
    assert looked(scan)(b"d") is None
    assert scan.entries(scan())[b"d"].kind == "link"


def test_records_that_contradict_each_other_are_on_no_sheet(scan, root):
    plant(root, {"d/e/f": b"1", "d/g": b"1"})
    settle()
    scan()
    old = scan.memory[b"d"]
    (root / "d" / "e" / "f").write_bytes(b"22")
    settle()
    scan()
    scan.memory[b"d"] = old  # as a slower scan at the same time would leave it
    take = looked(scan)
    assert take(b"d") is None and take(b"d/e") is not None
    assert scan.entries(scan())[b"d/e/f"].size == 2


@pytest.mark.parametrize("missing", [b"", b"d", b"d/e"])
def test_a_record_that_is_missing_leaves_what_is_above_it_to_be_scanned(scan, root, missing):
    plant(root, {"d/e/f": b"1", "x/f": b"1"})
    settle()
    first = scan()
    scan.memory[missing] = None
    assert scan().tree == first.tree


def test_every_cut_and_other_versions_know_nothing(scan, root):
    plant(root, {"d/e/f": b"1", "d/pipe": Fifo()})
    settle()
    scan()
    data = sheetmaker.build(scan.memory.get)
    rules = scan.rules()
    assert sheets.Sheet(data, ()).take(b"d", rules) is not None
    for wrong in (*(data[:length] for length in range(len(data))), data + b"x", b"\xff" + data[1:]):
        assert sheets.Sheet(wrong, ()).take(b"d", rules) is None


def test_a_path_too_long_for_the_system_is_scanned_as_before(scan, root):
    place, name = str(root), "n" * 200
    here = os.open(place, os.O_RDONLY)
    for _ in range(25):
        os.mkdir(name, dir_fd=here)
        below = os.open(name, os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = below
    with open(os.open("f", os.O_WRONLY | os.O_CREAT, dir_fd=here), "wb") as file:
        file.write(b"1")
    os.close(here)
    settle()
    first = scan()
    assert first.files == 1 and scan().tree == first.tree


@pytest.mark.parametrize("processes", [1, 2])
def test_two_processes_see_what_one_sees(scan, root, monkeypatch, processes):
    monkeypatch.setattr(sheets, "_WORTH_A_FORK", 1)
    plant(root, {f"d{n}/f{m}": b"1" for n in range(6) for m in range(9)})
    settle()
    scan()
    for path in ("d0/f0", "d2/f3", "d2/f8", "d5/f8"):
        (root / path).write_bytes(b"22")
    (root / "d4" / "f4").unlink()
    take = looked(scan, processes=processes)
    assert [take(b"d%d" % n) is None for n in range(6)] == [True, False, True, False, True, True]


@pytest.mark.parametrize("dies", ["at once", "with a share", "at the end"])
def test_what_a_fork_has_taken_and_never_told_of_is_looked_at(scan, root, monkeypatch, dies):
    monkeypatch.setattr(sheets, "_WORTH_A_FORK", 1)
    monkeypatch.setattr(sheets, "SHARE", 2)
    plant(root, {f"d{n}/f{m}": b"1" for n in range(6) for m in range(9)})
    settle()
    scan()
    for path in ("d0/f0", "d2/f3", "d2/f8", "d5/f8"):
        (root / path).write_bytes(b"22")
    here, real, shared = os.getpid(), sheets.Sheet._moved, sheets.Sheet._take_shares

    def moved(self, fd, start, end):
        if os.getpid() != here and dies == "with a share":
            os._exit(0)
        return real(self, fd, start, end)

    def take_shares(self, fd, shares):
        if os.getpid() == here:
            settle()  # it is the fork that takes them all
        elif dies == "at once":
            os._exit(0)
        found = shared(self, fd, shares)
        if os.getpid() != here:
            os._exit(0)
        return found

    monkeypatch.setattr(sheets.Sheet, "_moved", moved)
    monkeypatch.setattr(sheets.Sheet, "_take_shares", take_shares)
    take = looked(scan, processes=2)
    assert [take(b"d%d" % n) is None for n in range(6)] == [True, False, True, False, False, True]


def test_it_serves_until_too_much_is_stale(scan, root):
    plant(root, WIDE)
    settle()
    scan()
    assert sheet_of(scan).serves(65) and not sheet_of(scan).serves(66)  # 64 and a sixteenth of its 16
    assert not sheet_of(scan, stale=[b"%d" % n for n in range(60)]).serves(6)


@pytest.mark.parametrize("seed", range(8))
def test_edits_at_random_are_seen_as_without_a_sheet(root, seed):
    """One sheet, getting staler from scan to scan, against a scan that remembers nothing."""
    chance = random.Random(seed)
    plant(root, {**WIDE, "d0/.gitignore": b"*.o\n"})
    settle()
    paged = Scanner(root, paged=True)
    paged()
    page, stale = sheetmaker.build(paged.memory.get), set()
    for _ in range(12):
        for _ in range(chance.randrange(4)):
            edit(root, chance)
        settle()
        paged.page = sheets.Sheet(page, stale)
        found = paged()
        stale |= set(found.stamps)
        fresh = Scanner(root)
        plain = fresh()
        assert found.tree == plain.tree and found.domain == plain.domain
        assert (found.files, found.size) == (plain.files, plain.size)
