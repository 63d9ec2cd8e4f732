"""The libraries of the extras `casrewind[remote]`, which only remote commands need, and `casrewind[page]`, of --html."""

from collections.abc import Iterator
from contextlib import contextmanager

from . import errors

_LIBRARIES = ("obstore", "cryptography")
MISSING = "remote commands need casrewind[remote]"
INSTALL = "uv tool install 'casrewind[remote]'"


@contextmanager
def needing_extra() -> Iterator[None]:
    """For the imports of these libraries. Raises RemoteError if one is missing, or cannot be loaded."""
    try:
        yield
    except ModuleNotFoundError:
        raise errors.RemoteError(MISSING, INSTALL) from None
    except ImportError as error:  # made for another system
        raise errors.RemoteError(f"a library of casrewind[remote] cannot be loaded: {error}", f"{INSTALL} --reinstall") from error


def refuse_without_libraries() -> None:
    """Raise RemoteError if a library is not there: before a person is asked for anything. Imports none of them."""
    if not are_libraries_installed():
        raise errors.RemoteError(MISSING, INSTALL)


def are_libraries_installed() -> bool:
    """True if the libraries are there. Imports none of them."""
    from importlib.util import find_spec

    return all(find_spec(name) is not None for name in _LIBRARIES)


@contextmanager
def needing_page() -> Iterator[None]:
    """For the imports of the libraries of a page. Raises CasrewindError if one is missing."""
    try:
        yield
    except ModuleNotFoundError:
        raise errors.CasrewindError("--html needs casrewind[page]", "uv tool install 'casrewind[page]'") from None
