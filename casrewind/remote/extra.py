"""The libraries of the extra `casrewind[remote]`, which only remote commands need."""

from collections.abc import Iterator
from contextlib import contextmanager

from .. import errors


@contextmanager
def needing_extra() -> Iterator[None]:
    """For the imports of these libraries. Raises RemoteError if one is missing."""
    try:
        yield
    except ModuleNotFoundError:
        raise errors.RemoteError("remote commands need casrewind[remote]", "uv tool install 'casrewind[remote]'") from None
