"""When a remembered stat may be believed."""

import os

import pytest

from casrewind.model import stamp

START = 1_700_000_000_123_456_789
MS = 1_000_000
SECOND = 1000 * MS


def made(mtime_ns, ctime_ns):
    return stamp.Stamp(10, mtime_ns, ctime_ns, 5, 0o100644)


@pytest.mark.parametrize(
    ("mtime", "ctime", "racy"),
    [
        (START - SECOND, START - SECOND, False),
        (START - 21 * MS, START - 21 * MS, False),
        (START - 19 * MS, START - SECOND, True),
        (START - SECOND, START - 19 * MS, True),  # mtime put back, but ctime tells
        (START - SECOND, START + SECOND, True),
        (START + 3600 * SECOND, START - SECOND, True),  # an mtime in the future
        (0, START - SECOND, False),
    ],
)
def test_a_stamp_too_close_to_the_start_of_the_scan_is_racy(mtime, ctime, racy):
    assert stamp.is_racy(made(mtime, ctime), START) is racy


@pytest.mark.parametrize(("age", "racy"), [(0, True), (1, True), (2, False), (3, False)])
def test_whole_second_stamps_have_a_margin_of_two_seconds(age, racy):
    """A file system that keeps whole seconds: a change 1.9 s after the stamp can still leave the same stamp."""
    whole = START - START % SECOND - age * SECOND
    assert stamp.is_racy(made(whole, whole), START) is racy


def test_one_fraction_of_a_second_is_enough_to_know_a_fine_file_system():
    whole = START - START % SECOND - SECOND
    assert stamp.is_racy(made(whole, whole), START)
    assert not stamp.is_racy(made(whole, whole - 1), START)
    assert not stamp.is_racy(made(whole - 1, whole), START)


def test_the_margin_is_exact():
    edge = START - stamp.MARGIN_NS
    assert not stamp.is_racy(made(edge, edge), START)
    assert stamp.is_racy(made(edge + 1, edge), START)


def test_a_real_file_has_the_stamp_that_stat_tells_and_no_file_has_none(tmp_path):
    file = tmp_path / "f"
    file.write_bytes(b"abc")
    status = os.stat(file)
    found = stamp.of(status)
    assert found == (3, status.st_mtime_ns, status.st_ctime_ns, status.st_ino, status.st_mode)
    assert found != stamp.NONE
    os.utime(file, ns=(1, 1))
    assert stamp.of(os.stat(file)) != found
