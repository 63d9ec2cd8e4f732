"""Writes the file of a new session, a fork.

The danger prevented here: a session that is there already is overwritten, or half of a session is left.
"""

import errno
import os
from collections.abc import Callable, Mapping
from contextlib import suppress

from .. import errors, fsio, locations
from ..messages import printable, write_error
from ..model.cursor import MOST
from .transcript import is_session_id


def write_fork(
    transcript: str, session: str, data: bytes, path: str, companions: Mapping[str, Callable[[bytes], bytes]] = {}
) -> str:
    """Write a new session's transcript at `path`. Returns the path. `transcript` is the path of its original session.

    The file has mode 0600 and is durable on return. The original's other files, by their suffixes in `companions`, are
    copied first, each as the function beside it changes it, so that the session is complete at once. Raises AgentError,
    StoreFull; then there is no new session.
    """
    place, name = os.path.split(transcript)
    directory = os.path.dirname(path)
    if not is_session_id(session) or os.path.lexists(path):
        raise errors.AgentError(f"cannot make the session {printable(path)}: it exists already, or its name is not an id")
    try:
        fsio.make_directories(directory)  # a client may delete it with a project's last session
        fsio.remove_orphans(directory)
        for ending, change in companions.items():
            with suppress(FileNotFoundError):
                kept = change(read_session_file(os.path.join(place, name.removesuffix(".jsonl") + ending)))
                fsio.replace_file(directory, session + ending, kept)
        fsio.replace_file(directory, os.path.basename(path), data)
    except OSError as error:
        for made in (*(os.path.join(directory, session + ending) for ending in companions), path):
            with suppress(OSError):
                os.unlink(made)
        raise write_error(error, f"the session {printable(path)}") from error
    return path


def directory_in_project(named: str, root: str) -> str:
    """The directory that a client runs a session in: the one that its transcript names if that is in the project, else the
    project's root."""
    is_inside = os.path.isdir(named) and locations.is_in(locations.real_path(named), locations.real_path(root))
    return named if is_inside or not root else root


def read_session_file(path: str) -> bytes:
    """A file of a session. Raises OSError, also for a file that is longer than a stored transcript."""
    if os.stat(path).st_size > MOST:
        raise OSError(errno.EFBIG, f"{printable(path)} has more than {MOST >> 20} MiB")
    return fsio.read_file(path, MOST)
