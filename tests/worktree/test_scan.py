"""The scan with its memory: what did not change is not read, what may have changed is, and every skip is told again."""

import os
import re
import shutil
import time

import pytest

from casrewind.model import domain as domains
from casrewind.store.dry_run_writer import DryRunWriter
from casrewind.worktree import scan as scans
from casrewind.worktree.reader import Worktree
from support import unprivileged
from casrewind.worktree.stat_index import StatIndex
from support.command import Command
from support.picture import picture
from support.scanner import Scanner, Sink, settle
from support.trees import Dir, Fifo, Link, plant


@pytest.fixture
def scan(root):
    return Scanner(root)


def test_everything_is_found(scan, root):
    plant(root, {"a": b"1", "d/b": b"22", "d/e/c": b"333", "l": Link("a"), "empty": Dir(), b"\xff\n": b"4444"})
    found = scan()
    entries = scan.entries(found)
    there = picture(root)
    assert entries.keys() == there.keys()
    assert {path: entry.kind for path, entry in entries.items()} == {path: entry[0] for path, entry in there.items()}
    assert (found.files, found.size) == (4, 10)
    assert found.read == {b"a", b"d/b", b"d/e/c", b"\xff\n"}


def test_an_unchanged_tree_is_not_read_again(scan, root):
    plant(root, {"a": b"1", "d/b": b"2", "d/e/c": b"3" * (2 << 20), "l": Link("a"), "empty": Dir()})
    settle()
    first = scan()
    second = scan()
    assert scan.sink.read_files == []
    assert scan.sink.trees_made == 0
    assert second.records == {}
    assert (second.tree, second.files, second.size, second.read) == (first.tree, first.files, first.size, frozenset())


def test_an_unchanged_save_opens_no_file_of_the_project(casrewind, root, tmp_path):
    """The same from outside: not one file opened, no directory listed."""
    if shutil.which("strace") is None:
        pytest.skip("needs strace")
    plant(root, {f"d{number % 7}/f{number}": b"x%d" % number for number in range(60)})
    settle()
    casrewind("save", code=0)
    traced = (
        "strace",
        "-f",
        "-qq",
        "-y",
        "-e",
        "signal=none",
        "-e",
        "trace=openat,getdents64,read",
        "-o",
        str(tmp_path / "trace"),
    )
    casrewind("save", code=0, prefix=traced)
    calls = (tmp_path / "trace").read_text().splitlines()
    inside = [line for line in calls if f"<{root}" in line]
    assert any("O_DIRECTORY" in line for line in inside), "the scan was not seen at all"
    assert [line for line in inside if re.search(r'openat\(\d+<[^>]*>, "f\d+"', line)] == []
    assert [line for line in inside if "getdents64" in line or "read(" in line] == []


@pytest.mark.parametrize(
    "change",
    [
        lambda root: plant(root, {"d/b": b"other"}),
        lambda root: os.chmod(root / "d/b", 0o600),
        lambda root: os.utime(root / "d/b", ns=(0, 1)),
        lambda root: os.replace(shutil.copy2(root / "d/b", root / "t"), root / "d/b"),
    ],
    ids=["bytes", "mode", "mtime", "inode"],
)
def test_one_change_reads_one_file(scan, root, change):
    plant(root, {"a": b"1", "d/b": b"2", "d/c": b"3", "e/f": b"4"})
    settle()
    scan()
    change(root)
    found = scan()
    assert len(set(scan.sink.read_files)) == 1  # twice, when it is too young to be believed
    assert found.read == {b"d/b"}
    assert scan.entries(found).keys() == picture(root).keys()
    fresh = Scanner(root)
    assert fresh().tree == found.tree


def test_an_edit_with_its_size_and_mtime_put_back_is_seen(scan, root):
    plant(root, {"f": b"one"})
    settle()
    scan()
    status = os.stat(root / "f")
    with open(root / "f", "r+b") as file:
        file.write(b"two")
    os.utime(root / "f", ns=(status.st_atime_ns, status.st_mtime_ns))
    found = scan()
    assert set(scan.sink.read_files) == {b"two"}
    assert found.read == {b"f"}


def test_a_file_as_young_as_the_scan_is_read_again(scan, root):
    """The racy rule: an edit in the same tick would leave the very same stamp."""
    plant(root, {"f": b"one"})
    future = time.time_ns() + 3_600_000_000_000
    os.utime(root / "f", ns=(future, future))
    settle()
    scan()
    scan()
    assert set(scan.sink.read_files) == {b"one"}


@pytest.mark.parametrize("number", range(40))
def test_an_edit_right_after_the_scan_is_seen(scan, root, number):
    plant(root, {"f": b"%06d" % number})
    scan()
    with open(root / "f", "r+b") as file:
        file.write(b"%06d" % (number + 1))
    found = scan()
    assert scan.entries(found)[b"f"].digest == DryRunWriter(lambda _: b"").put_file(b"%06d" % (number + 1))


def test_names_that_come_and_go(scan, root):
    plant(root, {"d/a": b"1", "d/b": b"2", "gone/x/y": b"3", "to file/x": b"4", "to dir": b"5"})
    settle()
    scan()
    os.unlink(root / "d/a")
    shutil.rmtree(root / "gone")
    shutil.rmtree(root / "to file")
    os.unlink(root / "to dir")
    plant(root, {"d/new": b"n", "to file": b"f", "to dir/x": b"x"})
    found = scan()
    assert scan.entries(found).keys() == picture(root).keys()
    assert (found.files, found.size) == (4, 4)
    assert Scanner(root)().tree == found.tree


def test_skips_are_told_again_from_memory(scan, root):
    plant(root, {"d/fifo": Fifo(), "d/a": b"1", "node_modules/x": b"2", "d/e/pipe": Fifo(), ".casrewind-tmp-x": b"t"})
    plant(
        root,
        {"cache/CACHEDIR.TAG": b"Signature: 8a477f597d28d172789f06886806bc55\n", "cache/x": b"c", "sub/.GIT/x": b"g"},
    )
    settle()
    first = scan()
    assert set(first.domain.skipped) == {
        domains.Skip(b"d/fifo", domains.SPECIAL),
        domains.Skip(b"d/e/pipe", domains.SPECIAL),
        domains.Skip(b"node_modules", domains.BUILT_IN),
        domains.Skip(b"cache", domains.CACHE),
        domains.Skip(b".casrewind-tmp-x", domains.TEMPORARY),
        domains.Skip(b"sub/.GIT", domains.PROTECTED),
    }
    for _ in range(2):
        again = scan()
        assert sorted(again.domain.skipped) == sorted(first.domain.skipped)
        assert scan.sink.read_files == []
        assert again.tree == first.tree


def test_what_was_ignored_is_counted_again_from_memory(scan, root):
    plant(root, {".gitignore": b"*.log\nout/\n", "a.log": b"", "b.log": b"", "out/x": b"", "d/c.log": b"", "a": b"1"})
    settle()
    first = scan()
    assert first.domain.ignored == 4
    assert scan().domain.ignored == 4


def test_an_edited_rule_file_is_obeyed_at_once(scan, root):
    plant(root, {".gitignore": b"*.log\n", "a.log": b"", "d/b.log": b"", "d/c.tmp": b""})
    settle()
    assert scan.entries(scan()).keys() == {b".gitignore", b"d", b"d/c.tmp"}
    with open(root / ".gitignore", "r+b") as file:
        file.write(b"*.tmp\n")  # in place, same size: no directory changes
    assert scan.entries(scan()).keys() == {b".gitignore", b"a.log", b"d", b"d/b.log"}


def test_a_file_too_large_is_looked_at_again(scan, root):
    plant(root, {"f": b"x" * 100})
    settle()
    assert [skip.reason for skip in scan(max_file_size=50).domain.skipped] == [domains.TOO_LARGE]
    assert scan(max_file_size=100).domain.skipped == ()
    assert scan(max_file_size=99).domain.skipped == (domains.Skip(b"f", domains.TOO_LARGE),)
    assert scan(max_file_size=100).files == 1


def test_a_store_in_the_project_is_known_by_its_identity_under_any_name(scan, root):
    plant(root, {"store/x": b"1", "a": b"2"})
    status = os.stat(root / "store")
    excluded = frozenset({(status.st_dev, status.st_ino)})
    assert [skip.reason for skip in scan(excluded=excluded).domain.skipped] == [domains.STORE]
    os.rename(root / "store", root / "another name")
    found = scan(excluded=excluded)
    assert [(skip.path, skip.reason) for skip in found.domain.skipped] == [(b"another name", domains.STORE)]
    assert scan.entries(found).keys() == {b"a"}


def test_garbage_in_memory_is_no_memory(scan, root):
    plant(root, {"d/a": b"1", "b": b"2"})
    settle()
    first = scan()
    scan.index = StatIndex(b"\x01garbage" + scan.index.value)
    assert scan().tree == first.tree
    assert len(scan.sink.read_files) == 2


# -- things that happen while the scan runs


class Meddling(Sink):
    """Does something to the tree when the first file has been read."""

    def __init__(self, deed):
        super().__init__()
        self._deed = deed

    def put_file(self, data):
        deed, self._deed = self._deed, None
        if deed is not None:
            deed()
        return super().put_file(data)


def meddled(root, deed):
    scanner = Scanner(root)
    scanner.sink = Meddling(deed)
    return scanner, scanner()


def test_files_and_directories_that_vanish_meanwhile(root):
    plant(root, {f"f{number}": b"%d" % number for number in range(20)} | {f"d{number}/x": b"x" for number in range(20)})

    def deed():
        for number in range(20):
            shutil.rmtree(root / f"d{number}")
        for number in range(1, 20):
            os.unlink(root / f"f{number}")

    scanner, found = meddled(root, deed)
    assert found.domain.skipped == ()
    scanner()  # and the next one believes nothing that the first one saw of them
    assert scanner.entries(scanner()).keys() == picture(root).keys()


def test_a_directory_that_becomes_a_link_to_outside_meanwhile_is_not_entered(root, tmp_path):
    plant(tmp_path, {"outside/secret": b"s"})
    plant(root, {"a": b"1", "z/x": b"2"})

    def deed():
        shutil.rmtree(root / "z")
        os.symlink("../outside", root / "z")

    scanner, found = meddled(root, deed)
    assert all(b"secret" not in path for path in scanner.entries(found))
    assert b"s" not in scanner.sink.read_files
    assert scanner.entries(scanner())[b"z"].kind == "link"


def test_a_file_that_becomes_a_fifo_meanwhile_hangs_nobody(root):
    plant(root, {name: b"1" for name in "abcdefgh"})

    def deed():
        for name in "abcdefgh":
            os.unlink(root / name)
            os.mkfifo(root / name)

    scanner, _ = meddled(root, deed)
    assert len(scanner().domain.skipped) == 8


def test_a_file_written_to_after_it_was_read_is_read_again_at_the_end(root):
    plant(root, {"a": b"old", "d/b": b"x"})
    scanner = Scanner(root)

    class Late(Sink):
        def put_file(self, data):
            if data == b"x":  # read after a
                (root / "a").write_bytes(b"newer")
            return super().put_file(data)

    scanner.sink = Late()
    found = scanner()
    assert scanner.entries(found)[b"a"].digest == scanner.sink.put_file(b"newer")
    assert found.domain.unstable == ()
    assert found.size == 6


def test_a_file_that_moves_on_and_on_is_named_unstable(root, monkeypatch):
    plant(root, {"a": b"x", "still": b"y"})
    real = os.read

    def read(fd, size):
        data = real(fd, size)
        if data.startswith(b"x"):
            with open(root / "a", "ab") as file:
                file.write(b"x")
        return data

    monkeypatch.setattr(os, "read", read)
    scanner = Scanner(root)
    assert scanner().domain.unstable == (b"a",)
    monkeypatch.undo()
    settle()
    again = scanner()  # and nothing of it was remembered
    assert again.domain.unstable == ()
    assert scanner.entries(again)[b"a"].size == os.stat(root / "a").st_size


# -- permissions, as nobody


@pytest.fixture
def user():
    unprivileged.require()
    with unprivileged.open_directory() as place:
        (place / "project").mkdir()
        (place / "home").mkdir()
        command = Command(place / "project", place / "home")

        def save(code):
            unprivileged.give(place)
            found = command("save", "--json", prefix=unprivileged.PREFIX, code=code).json
            return [(skip["path"], skip["reason"]) for skip in found["skipped"]], found["files"]

        yield place / "project", save


@pytest.mark.parametrize("path", ["f", "d/f"])
def test_a_permission_that_goes_and_comes_back(user, path):
    """Nothing of the directory changes when a permission does: the skip must not be believed from memory."""
    root, save = user
    plant(root, {"f": b"1", "d/f": b"2", "d/g": b"3"})
    settle()
    assert save(0) == ([], 3)
    (root / path).chmod(0)
    assert save(3) == ([(path, "unreadable")], 2)
    assert save(3) == ([(path, "unreadable")], 2)
    (root / path).chmod(0o644)
    assert save(0) == ([], 3)


@pytest.mark.parametrize("mode", [0o000, 0o444, 0o111])
def test_a_directory_that_is_closed_and_opened_again(user, mode):
    root, save = user
    plant(root, {"f": b"1", "d/e/f": b"2", "d/g": b"3"})
    settle()
    assert save(0) == ([], 3)
    (root / "d").chmod(mode)
    skips, _ = save(3)
    assert {path.partition("/")[0] for path, _ in skips} == {"d"}
    assert {reason for _, reason in skips} == {"unreadable"}
    (root / "d").chmod(0o755)
    assert save(0) == ([], 3)


def test_rules_that_cannot_be_read_are_named(user):
    root, save = user
    plant(root, {".gitignore": b"*.log\n", "a.log": b"1", "d/.gitignore": b"x\n", "d/x": b"2"})
    (root / "d/.gitignore").chmod(0)
    skips, _ = save(3)
    assert ("d/.gitignore", "unreadable ignore rules") in skips


def test_a_file_that_changes_behind_its_reading_counts_with_its_last_size_in_the_next_scan_too(scan, root, monkeypatch):
    """The size that a directory is remembered with is that of the tree that it is remembered with."""
    plant(root, {"d/f": b"1", "d/g": b"22"})
    settle()
    real = type(scan.sink).put_file

    def grows_behind(self, data):
        digest = real(self, data)
        if data == b"1":
            (root / "d/f").write_bytes(b"4444")
        return digest

    monkeypatch.setattr(type(scan.sink), "put_file", grows_behind)
    assert scan().size == 6
    monkeypatch.undo()
    settle()
    (root / "d/g").write_bytes(b"333")
    assert scan().size == 7
    plant(root, {"top": b"1"})
    assert scan().size == 8
