"""A push in the background, started after a hook's save if the setting remote.push wants it.

Four dangers are prevented here. A prompt could wait for the network: so a hook starts a process and does not wait for
it. Only at the end of a session it waits, within the budget of that event. The client could wait for the push, because
the push inherits a pipe of the client's: so it inherits nothing. Pushes could queue: at most one process waits for its
time, and pushes what all hooks saved until then. And a project could bring a store with a remote and a key of its own, and
name it in the variables that its settings give to hooks: so a hook pushes from no store, and by no configuration, that lies
in the project, nor with credentials there.
"""

import os
import time
from contextlib import suppress

from .. import environment, errors, fsio, launch, locations
from .._typing import TYPE_CHECKING
from ..messages import printable
from ..store import push_notes
from ..store.push_notes import PushClaim

if TYPE_CHECKING:
    from ..settings import Settings

SESSION_END = "session_end"
_WITHOUT = frozenset({"session_start", "prompt"})
"""Triggers after which no push starts: a person waits for the client then."""
_PAUSE = 0.02
_FILES = (
    "AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE", "AWS_WEB_IDENTITY_TOKEN_FILE", "GOOGLE_APPLICATION_CREDENTIALS", "SSL_CERT_FILE",
    "SSL_CERT_DIR",
)  # fmt: skip
"""Variables that name what a push trusts. The first one can name a program that is run."""


def is_wanted(setting: str, trigger: str) -> bool:
    """True if a push follows a checkpoint of this trigger. `setting` is that of remote.push."""
    return trigger == SESSION_END if setting == SESSION_END else setting == "turns" and trigger not in _WITHOUT


def start_push_after_save(root: str, remotes: str, settings: "Settings", wait: float | None, record: int, *, joins: bool) -> None:
    """As start_push, for a hook, if store, configuration and credentials are the user's own. Else a note says why not, which
    `status` shows. Raises nothing."""
    if not (joins or push_notes.remote_directory(remotes)):
        return
    inside = locations.real_path(root)
    named = (os.path.expanduser(os.environ.get(name, "")) for name in _FILES)
    for place in (remotes, environment.configuration_path(), *filter(None, named)):
        if locations.is_in(locations.real_path(place), inside):
            directory = push_notes.noted_directory(remotes)
            problem = f"hooks do not push: {printable(place)} lies in the project, which could have brought it; casrewind push pushes"
            with suppress(OSError):
                fsio.make_directories(directory)
                notes = push_notes.read_push_notes(directory)._replace(failed_ns=time.time_ns(), problem=problem)
                push_notes.write_push_notes(os.path.dirname(remotes), directory, notes)
            return
    start_push(root, remotes, settings, wait=wait, record=record, joins=joins)


def start_push(
    root: str, remotes: str, settings: "Settings", *, wait: float | None = None, record: int = 0, joins: bool = False
) -> bool:  # fmt: skip
    """Start a push of the store of `root`, unless one waits or runs already. `remotes` is the store's directory of remotes. Without a
    remote nothing is started, unless the push joins one first (`joins`).
    With `wait` the push begins at once, and this process waits, at most so many seconds, until the remote has the ledger up to number
    `record`, or until the push that it started ends. Returns True if that came. Raises nothing."""
    end = time.monotonic() + (wait or 0.0)
    if not (joins or push_notes.remote_directory(remotes)):
        return False
    directory = push_notes.noted_directory(remotes)
    with suppress(OSError, errors.CasrewindError):
        fsio.make_directories(directory)
        claim = PushClaim(directory)
        try:
            if wait is None:
                if claim.take():
                    _spawn_push_process(root, settings, claim)
                return False
            while not _is_pushed(directory, record):
                claim.hurry_next_push()  # a process that has pushed looks once more: it need not wait, either
                if claim.take():  # the push that ran may have begun before that record
                    return _wait_for_process(_spawn_push_process(root, settings, claim), end)
                if time.monotonic() >= end:
                    return False
                time.sleep(_PAUSE)
            return True
        finally:
            claim.close()
    return False


def _is_pushed(directory: str, record: int) -> bool:
    return 0 < record <= push_notes.read_push_notes(directory).seq


def _spawn_push_process(root: str, settings: "Settings", claim: PushClaim) -> int:
    """Start the process. Its standard input is the claim, which is taken until the process ends. Returns its id. Raises
    OSError."""
    store = [] if settings.store is None else ["--store", os.path.abspath(settings.store)]
    force = ["--force"] if settings.force else []
    return launch.spawn_in_background([*launch.own_command(), "-C", root, *store, *force, "push", "--auto"], claim.fd)


def _wait_for_process(process: int, end: float) -> bool:
    """Wait for the end of a process. False if `end` comes first."""
    while True:
        with suppress(ChildProcessError):
            if os.waitpid(process, os.WNOHANG)[0]:
                return True
        if time.monotonic() >= end:
            return False
        time.sleep(_PAUSE)
