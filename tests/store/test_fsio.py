"""The calls that everything durable rests on."""

import errno
import os

import pytest

from casrewind import fsio


def test_a_sync_that_fails_is_an_error():
    """A pipe cannot be synced: the kernel says so, and so does this."""
    reading, writing = os.pipe()
    try:
        with pytest.raises(OSError) as caught:
            fsio.sync_fd(writing)
        assert caught.value.errno == errno.EINVAL
    finally:
        os.close(reading)
        os.close(writing)


@pytest.mark.parametrize(
    ("path", "directory", "below", "inside"),
    [
        ("/a/b", "/a", True, True),
        ("/a/b/c", "/a/", True, True),
        ("/a", "/a", False, True),
        ("/ab", "/a", False, False),
        ("/a", "/a/b", False, False),
        ("/a", "/", True, True),
        (b"/a/\xff", "/a", True, True),
        ("/a/b", b"/a", True, True),
    ],
)
def test_a_path_lies_in_a_directory_by_whole_names(path, directory, below, inside):
    assert (fsio.is_below(path, directory), fsio.is_in(path, directory)) == (below, inside)
