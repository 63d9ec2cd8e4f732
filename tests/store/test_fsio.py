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
