"""The stat index: it takes over what did not change and nothing else, and a scan with it finds what one without it finds."""

import os
import random
import shutil
import tracemalloc

import pytest

from casrewind.model import stamp as stamps
from casrewind.gitignore.rules import RuleFile
from casrewind.worktree.stat_index import DirRecord, StatIndex
from support.scanner import Scanner, settle
from support.trees import Dir, Fifo, Link, edit, plant

WIDE = {f"d{n}/e{m}/f{k}": b"%d" % (n * m * k) for n in range(4) for m in range(3) for k in range(3)}


def compared(scan, rules=(), **changes):
    """A stat index that was compared with the worktree: {directory: what is known of it, None where it has to be scanned}."""
    index = StatIndex(scan.index.value)
    root = os.open(scan.root, os.O_RDONLY)
    try:
        index.compare(root, changes.get("device", os.fstat(root).st_dev), changes.get("excluded", ()))
    finally:
        os.close(root)
    digest = scan.rules(*rules)
    return lambda path: index.unchanged_subtree(path, digest)


@pytest.fixture
def scan(root):
    return Scanner(root)


def test_directories_that_are_as_they_were_are_not_opened(scan, root, monkeypatch):
    plant(root, WIDE)
    settle()
    first = scan()
    opened = []
    usual = os.open
    monkeypatch.setattr(os, "open", lambda path, *rest, **more: opened.append(path) or usual(path, *rest, **more))
    second = scan()
    assert [path for path in opened if not str(path).startswith("/proc/")] == [str(root)] and (second.tree, second.domain, second.files, second.size, second.records) == (first.tree, first.domain, first.files, first.size, {})


def test_what_lies_beside_a_change_is_taken_and_what_lies_above_it_is_not(scan, root):
    plant(root, WIDE)
    settle()
    scan()
    (root / "d1" / "e2" / "f0").write_bytes(b"other")
    (root / "d2" / "e0" / "new").write_bytes(b"")
    (root / "d3" / "e1" / "f1").unlink()
    os.chmod(root / "d3" / "e2", 0o700)
    take = compared(scan)
    unclean = {b"d1", b"d1/e2", b"d2", b"d2/e0", b"d3", b"d3/e1", b"d3/e2"}
    for path in (f"d{n}{rest}".encode() for n in range(4) for rest in ("", "/e0", "/e1", "/e2")):
        assert (take(path) is None) == (path in unclean), path
    assert take(b"") is None and take(b"nowhere") is None and take(b"d0/e0/f0") is None


def test_a_part_adds_up_to_what_is_under_it(scan, root):
    plant(root, {"d/a": b"333", "d/e/b": b"22", "d/e/l": Link("a"), "d/e/empty": Dir(), "x": b""})
    os.chmod(root / "d", 0o750)
    settle()
    found = scan()
    part = compared(scan)(b"d")
    assert (part.files, part.size, part.ignored, part.skipped, part.entries) == (2, 5, 0, [], 3)
    assert part.entry == scan.entries(found)[b"d"] and part.entry.mode == 0o750


def test_directories_with_rule_files_are_taken_over_with_their_rules(scan, root):
    plant(root, {"d/e/.gitignore": b"x\n", "d/e/g/f": b"1", "d/e/x": b"1", "d/h/f": b"1", "i/f": b"1", "i/.casrewindignore": b""})
    settle()
    first = scan()
    take = compared(scan)
    assert all(take(path) is not None for path in (b"d", b"i", b"d/h"))
    assert take(b"d/e/g") is None, "other rules reach it than those of the root"
    assert [(rule.base, rule.source) for rule in take(b"d").rules] == [(b"d/e", "gitignore")]
    assert scan().domain == first.domain and scan.sink.read_files == []


@pytest.mark.parametrize("rules", [b"x\n", b"x\n.gitignore\n"], ids=["captured", "ignored itself"])
def test_a_rule_file_that_was_edited_in_place_is_obeyed(scan, root, rules):
    plant(root, {"d/e/.gitignore": rules, "d/e/g/x": b"1", "d/e/g/y": b"1", "d/f": b"1"})
    settle()
    assert b"d/e/g/y" in scan.entries(scan())
    settle()
    (root / "d/e/.gitignore").write_bytes(rules.replace(b"x", b"y"))
    settle()
    entries = scan.entries(scan())
    assert b"d/e/g/x" in entries and b"d/e/g/y" not in entries


def test_a_rule_file_as_young_as_its_scan_makes_its_directory_one_to_be_scanned(scan, root, monkeypatch):
    monkeypatch.setattr(stamps, "MARGIN_NS", 60 * 10**9)
    monkeypatch.setattr(stamps, "COARSE_MARGIN_NS", 60 * 10**9)
    plant(root, {"d/.gitignore": b"x\n.gitignore\n"})
    scan()
    assert compared(scan)(b"d") is None


def test_rules_that_cannot_be_read_make_their_directory_one_to_be_scanned(scan, root):
    plant(root, {"d/.gitignore": b"[" * (2 << 20), "d/f": b"1"})
    settle()
    first, second = scan(), scan()
    assert first.domain.skipped == second.domain.skipped != ()


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
    assert compared(scan, rules=rules)(b"d") is not None and compared(scan)(b"d") is None


def test_another_device_and_excluded_directories_are_never_taken(scan, root):
    plant(root, {"d/f": b"1", "e/f": b"1"})
    settle()
    scan()
    status = os.stat(root / "d")
    take = compared(scan, excluded=[(status.st_dev, status.st_ino)])
    assert take(b"d") is None and take(b"e") is not None
    assert compared(scan, device=status.st_dev + 1)(b"e") is None


def test_a_directory_that_became_a_link_to_a_copy_is_scanned(scan, root, tmp_path):
    plant(root, {"d/f": b"1", "d/e/f": b"1"})
    settle()
    scan()
    shutil.move(root / "d", tmp_path / "elsewhere")
    os.symlink(tmp_path / "elsewhere", root / "d")
    assert compared(scan)(b"d") is None
    assert scan.entries(scan())[b"d"].kind == "link"


def test_every_cut_and_other_versions_know_nothing(scan, root):
    plant(root, {"d/e/f": b"1", "d/pipe": Fifo()})
    settle()
    scan()
    data = scan.index.value
    rules = scan.rules()
    assert StatIndex(data).unchanged_subtree(b"d", rules) is not None
    for wrong in (*(data[:length] for length in range(len(data))), data + b"x", b"\xff" + data[1:]):
        assert StatIndex(wrong).unchanged_subtree(b"d", rules) is None and len(StatIndex(wrong)) == 0


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


@pytest.mark.parametrize("seed", range(8))
def test_edits_at_random_are_seen_as_without_an_index(root, seed):
    """One index, brought up to date from scan to scan, against a scan that remembers nothing."""
    chance = random.Random(seed)
    plant(root, {**WIDE, "d0/.gitignore": b"*.o\n", "d1/e1/.gitignore": b".gitignore\n*.x\n"})
    settle()
    scan = Scanner(root)
    scan()
    for _ in range(12):
        for _ in range(chance.randrange(4)):
            edit(root, chance)
        settle()
        found, plain = scan(), Scanner(root)()
        assert (found.tree, found.domain) == (plain.tree, plain.domain)
        assert (found.files, found.size, found.entries) == (plain.files, plain.size, plain.entries)
        whole = StatIndex()
        assert StatIndex(scan.index.value).record_of_directory(b"").tree == found.tree
        assert whole.updated_value(plain.records) == scan.index.value, "what was copied is what would have been made anew"


def test_the_record_of_one_directory_costs_no_more_in_a_large_index():
    """A save reads the records of a few directories. Splitting all names of a million files took 75 ms."""
    names = b"\0".join(b"name of file %d" % number for number in range(1000))
    directory = DirRecord(b"s" * 36, b"r" * 32, b"t" * 32, 0, 1000, 0, 0, names, b"f" * 36_000, b"")
    children = [b"d%03d" % number for number in range(100)]
    root = directory._replace(names=b"", stamps=b"", children=b"\0".join(children))
    index = StatIndex(StatIndex().updated_value({b"": root} | dict.fromkeys(children, directory)))
    tracemalloc.start()
    try:
        assert index.record_of_directory(b"d007") == directory
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < len(index.value) / 10, peak
