"""The plan that was shown last in each session of a client, until its yes.

The danger prevented here: in a client, one process shows a plan and another gets the yes. If a log grows in between, the plan is another
one each time, and the person never gets through. Or a yes is taken for one to a plan that another session was shown. A file that is gone
or damaged is no plan: then the present one is shown.
"""

import json
import os
import shutil
from contextlib import suppress

from .. import errors, fsio
from .._typing import NamedTuple
from ..model import digest as digests
from ..model import plan as plans
from ..model.plan import Actions

_OPEN_PLANS = 8
"""Plans that are kept for a worktree: each session in it may have one open."""
_PLAN_BYTES = 64 << 20
"""A longer plan is not read."""


class WaitingPlan(NamedTuple):
    """A plan that waits for its yes: the `words` that were typed for it, and its `code`. Not `is_newest`: something else was planned
    since."""

    words: tuple[str, ...]
    code: str
    is_newest: bool = True


class ShownPlans:
    """The plan that one session was shown last for one worktree. `question`: a digest of all that a yes depends on but the paths."""

    def __init__(self, store: str, worktree: bytes, session: str) -> None:
        """`store` is its directory, `worktree` the key of the worktree, `session` the id of the client's session."""
        name = digests.of(session.encode("utf-8", "surrogateescape")).hex()[:32]
        self._store, self._place = store, os.path.join(_place_of(store), worktree.hex(), name)

    def write(self, waiting: WaitingPlan, question: bytes, actions: Actions) -> None:
        """Keep a plan in place of the session's last one, and forget the oldest of other sessions. If it cannot be written, nothing
        is kept."""
        with suppress(OSError):
            directory = os.path.dirname(self._place)
            for each in (os.path.dirname(directory), directory):
                with suppress(FileExistsError):
                    fsio.make_directory(each)
            self._replace(waiting, question + plans.encode(actions))
            files = sorted(os.scandir(directory), key=lambda entry: entry.stat().st_mtime_ns)
            for old in files[:-_OPEN_PLANS]:
                os.unlink(old.path)

    def read(self, code: str, question: bytes) -> Actions | None:
        """The actions that were shown under a code. None if it is not the last one, or was the answer to another question."""
        found = self._read()
        if found is None or found[0].code != code or not found[1].startswith(question):
            return None
        try:
            return plans.decode(found[1][len(question) :])
        except errors.CasrewindError:
            return None

    def waiting(self) -> WaitingPlan | None:
        """The plan that waits for a yes, or None."""
        found = self._read()
        return None if found is None else found[0]

    def outdate(self) -> None:
        """Something else is planned: a yes shows the plan again."""
        found = self._read()
        if found is not None:
            with suppress(OSError):
                self._replace(found[0]._replace(is_newest=False), b"")

    def forget(self) -> None:
        """The plan has its yes."""
        with suppress(OSError):
            os.unlink(self._place)

    def _replace(self, waiting: WaitingPlan, rest: bytes) -> None:
        head = json.dumps(waiting).encode()
        fsio.replace_unsynced(self._place, head + b"\n" + rest, os.path.join(self._store, "tmp"))

    def _read(self) -> tuple[WaitingPlan, bytes] | None:
        try:
            head, _, rest = fsio.read_file(self._place, _PLAN_BYTES).partition(b"\n")
            words, code, is_newest = json.loads(head)
            is_sound = isinstance(code, str) and bool(words) and all(isinstance(word, str) for word in words)
        except (OSError, errors.CasrewindError, ValueError, TypeError):
            return None
        return (WaitingPlan(tuple(words), code, is_newest is True), rest) if is_sound else None


def remove_shown_plans(store: str) -> None:
    """Forget all of them before a purge: they name paths."""
    shutil.rmtree(_place_of(store), ignore_errors=True)


def _place_of(store: str) -> str:
    return os.path.join(store, "shown")
