"""The plans that were shown in a client last, until their yes.

The danger prevented here: in a client, one process shows a plan and another gets the yes. If a log grows in between, the plan is another
one each time, and the person never gets through. A file that is gone or damaged is no plan: then the present one is shown.
"""

import os
import shutil
from contextlib import suppress

from .. import errors, fsio
from ..model import plan as plans
from ..model.plan import Actions

_OPEN_PLANS = 4
"""Plans that are kept for a worktree: each session in it may have one open."""
_PLAN_BYTES = 64 << 20
"""A longer plan is not read."""


class ShownPlans:
    """The plans that were shown for one worktree. `question`: a digest of all that a yes depends on but the paths."""

    def __init__(self, store: str, worktree: bytes) -> None:
        """`store` is its directory, `worktree` the key of the worktree."""
        self._store, self._place = store, os.path.join(_place_of(store), worktree.hex())

    def write(self, code: str, question: bytes, actions: Actions) -> None:
        """Keep a plan under its code, and forget the oldest. If it cannot be written, nothing is kept."""
        with suppress(OSError):
            for directory in (os.path.dirname(self._place), self._place):
                with suppress(FileExistsError):
                    fsio.make_directory(directory)
            fsio.replace_unsynced(os.path.join(self._place, code), question + plans.encode(actions), os.path.join(self._store, "tmp"))
            files = sorted(os.scandir(self._place), key=lambda entry: entry.stat().st_mtime_ns)
            for old in files[:-_OPEN_PLANS]:
                os.unlink(old.path)

    def read(self, code: str, question: bytes) -> Actions | None:
        """The actions that were shown under a code. None if it is not known, or was the answer to another question."""
        try:
            data = fsio.read_file(os.path.join(self._place, code), _PLAN_BYTES)
            return plans.decode(data[len(question) :]) if data.startswith(question) else None
        except (OSError, errors.CasrewindError):
            return None


def remove_shown_plans(store: str) -> None:
    """Forget all of them before a purge: they name paths."""
    shutil.rmtree(_place_of(store), ignore_errors=True)


def _place_of(store: str) -> str:
    return os.path.join(store, "shown")
