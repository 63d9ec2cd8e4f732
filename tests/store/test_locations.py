"""Where a path lies."""

import pytest

from casrewind import locations


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
    assert (locations.is_below(path, directory), locations.is_in(path, directory)) == (below, inside)
