"""Waiting for changes: which directories tell, and which stay silent."""

import os
import sys

import pytest

if sys.platform != "linux":
    pytest.skip("inotify is Linux's", allow_module_level=True)

from casrewind.worktree.directory_watch import DirectoryWatch, allowed_watches


@pytest.fixture
def place(tmp_path):
    root = tmp_path / "root"
    (root / "src/deep").mkdir(parents=True)
    (root / "src/a.py").write_text("a")
    return root


@pytest.fixture
def watch(place):
    made = DirectoryWatch(os.fsencode(place))
    yield made
    made.close()


def told(watch):
    """Whether something waits. Events of this process are in the queue when its call returns."""
    return watch.wait(0)


@pytest.mark.parametrize(
    "change",
    [
        lambda root: (root / "src/a.py").write_text("b"), lambda root: (root / "src/b.py").touch(), lambda root: (root / "src/a.py").unlink(),
        lambda root: (root / "src/a.py").rename(root / "src/c.py"), lambda root: (root / "src/a.py").chmod(0o755),
        lambda root: (root / "src/new").mkdir(), lambda root: os.symlink("a.py", root / "src/link"), lambda root: os.utime(root / "src/a.py", (1, 1)),
    ],
    ids="write make remove rename mode directory link times".split(),
)  # fmt: skip
def test_each_change_in_a_watched_directory_is_told_once(watch, place, change):
    assert watch.watch_only([b"src"]) and not told(watch)
    change(place)
    assert told(watch) and not told(watch)


def test_what_is_below_is_silent_until_it_is_watched(watch, place):
    watch.watch_only([b"", b"src"])
    (place / "src/deep/x").write_text("x")
    assert not told(watch) and len(watch) == 2
    assert watch.watch_only([b"", b"src", b"src/deep"]) and not watch.watch_only([b"", b"src", b"src/deep"])
    (place / "src/deep/x").write_text("y")
    assert told(watch)
    watch.watch_only([b""])
    told(watch)  # the end of a watch is an event, too
    (place / "src/deep/x").write_text("z")
    assert not told(watch) and len(watch) == 1


def test_no_link_is_followed(watch, place, tmp_path):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (place / "link").symlink_to(elsewhere)
    assert watch.watch_only([b"", b"link"]) and len(watch) == 1
    (elsewhere / "x").touch()
    assert not told(watch)


def test_a_directory_that_is_made_anew_under_its_name_is_watched_again(watch, place):
    watch.watch_only([b"", b"src/deep"])
    (place / "src/deep").rmdir()
    assert told(watch) and len(watch) == 1
    (place / "src/deep").mkdir()
    assert watch.watch_only([b"", b"src/deep"])
    (place / "src/deep/x").touch()
    assert told(watch)


def test_a_renamed_directory_and_another_one_under_its_old_name_are_both_watched(watch, place):
    watch.watch_only([b"", b"src"])
    (place / "src").rename(place / "lib")
    (place / "src").mkdir()
    while watch.watch_only([b"", b"lib", b"src"]):
        pass
    told(watch)
    for name in ("lib", "src"):
        (place / name / "x").touch()
        assert told(watch), name


@pytest.mark.linux_only("inotify's limit")
def test_the_limit_is_read_from_the_system():
    assert allowed_watches() > 0
