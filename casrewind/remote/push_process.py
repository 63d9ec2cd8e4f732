"""The process of a push in the background: `casrewind push --auto`, which a hook or `push --background` starts.

Three dangers are prevented here. A server that does not answer could keep the process for ever: so each request is tried
once, and the process has a time limit. A failure could stay unseen: so it is noted where `status` looks. A checkpoint
that is saved while a push ends could wait for ever: so the process looks once more after it has given up its claim.
"""

import os
import signal
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress

from .. import errors
from .._typing import NoReturn
from ..context import Context
from ..extras import are_libraries_installed
from ..messages import printable
from ..store import push_notes
from ..store.push_notes import PushClaim, PushNotes
from . import connect
from .objects import endpoint_of
from .push import push
from .pushed import count_unsent
from .remote_config import need, open_remote
from .seal import Unsealed

_NICER = 10
_SAME_KEY_AGAIN = 3600
"""Seconds until a key that did not open the remote is tried again."""
_LOOK_SECONDS = 0.2
"""Seconds between two looks whether the time has come: the end of a session may hurry this process."""
LIMIT = 30 * 60.0
"""Seconds after which a process ends. The next one goes on."""


class _TimeOver(BaseException):
    """The time limit is reached. It is no Exception, so that no `except Exception` catches it."""


def run_push_process(
    context: Context, interval: float, limit: float = LIMIT, environ: Mapping[str, str] | None = None, url: str = ""
) -> None:  # fmt: skip
    """Push what is not pushed, at most once in `interval` seconds, as long as there is something. Ends at once if another such
    process waits or runs. `environ`, where the user's file lets variables count, may have the remote's key and the address of its
    server. `url`: the remote that a store without one joins first. Raises nothing: a failure is noted."""
    remotes = context.store.remotes
    has_remote = bool(push_notes.remote_directory(remotes))
    if not has_remote and not url:
        return
    if has_remote and not are_libraries_installed():  # status says that
        return
    with suppress(OSError):
        os.nice(_NICER)
    attempt = connect.digest_of_try(url, environ or {})
    claim = joining = PushClaim(push_notes.noted_directory(remotes), inherited=0)
    try:
        with _limited_in_time(limit):
            if not has_remote:
                if not joining.take() or _was_just_refused(push_notes.read_push_notes(push_notes.noted_directory(remotes)), attempt):
                    return
                _wait_for_interval(joining, interval)
                joining.note_push_begins()
                connect.join_by_variables(context.store, url, environ or {}, patience=0)
                claim = PushClaim(push_notes.remote_directory(remotes))
            if environ is None:
                _refuse_other_server(context)
            while claim.take():
                _wait_for_interval(claim, interval)
                claim.note_push_begins()
                with suppress(errors.StoreBusy):  # a person pushes or pulls just now
                    push(context, open_remote(context.store, patience=0, environ=environ or {}))
                claim.release()
                left = count_unsent(context)  # only after the release: a hook that found the claim taken has saved before that
                if left is None or not left.number:
                    return
    except (Exception, _TimeOver) as error:
        is_known = isinstance(error, errors.CasrewindError | OSError | _TimeOver)
        problem = str(error) if is_known else f"{type(error).__name__}: {error}"
        directory = push_notes.noted_directory(remotes)
        refused = attempt if isinstance(error, Unsealed) and not has_remote else ""
        notes = push_notes.read_push_notes(directory)._replace(failed_ns=time.time_ns(), problem=problem, refused=refused)
        with suppress(OSError):
            push_notes.write_push_notes(context.store.path, directory, notes)
    finally:
        claim.close()
        if joining is not claim:  # kept till now: who waits for a push that joins waits for this process
            joining.close()


def _was_just_refused(notes: PushNotes, attempt: str) -> bool:
    """True if the same key did not open the same remote within an hour: it would be asked for at every turn."""
    return notes.refused == attempt and 0 <= time.time_ns() - notes.failed_ns < _SAME_KEY_AGAIN * 1_000_000_000


def _refuse_other_server(context: Context) -> None:
    """Raise RemoteError if a variable names another server than that where the remote was added: the settings of a project can. Then
    pushes would count that never came to the remote."""
    _, config = need(context.store)
    now = endpoint_of(config.url, config.options, os.environ)
    if now != config.endpoint:
        there, added = printable(now) or "the address of the cloud", config.endpoint or "that of the cloud"
        raise errors.RemoteError(
            f"hooks do not push to {there}: {config.url} was added at {added}",
            "casrewind push goes there; to let variables count, write from_environment = true below [remote] in your file"
        )


def _wait_for_interval(claim: PushClaim, interval: float) -> None:
    while left := claim.seconds_to_wait(interval):
        time.sleep(min(left, _LOOK_SECONDS))


@contextmanager
def _limited_in_time(seconds: float) -> Iterator[None]:
    """Raise _TimeOver after so many seconds."""

    def ring(_number: int, _frame: object) -> NoReturn:
        raise _TimeOver(f"it was not done within {seconds:g} seconds; the next push continues")

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
