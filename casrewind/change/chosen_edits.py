"""The chosen part of a plan: some of its paths, some hunks of a file.

The danger prevented here: a file that changed after a person saw it. Its change is then another one than that which the
person chose from, so nothing is changed at all.
"""

import io
import time
from collections.abc import Mapping

from .. import errors
from .._typing import NamedTuple
from ..model import paths
from ..model import plan as plans
from ..model.diff import Change
from ..model.manifest import LARGE, Entry, is_directory, same_for_restore
from ..model.plan import Action, Actions
from ..store.dry_run_writer import DryRunWriter
from ..store.writer import StoreWriter


class ChosenEdit(NamedTuple):
    """The chosen part of the change of one path. `shown`: the change as they saw it. `wanted`: what the path becomes;
    `data`: its bytes, if chosen hunks made them."""

    shown: Change
    wanted: Entry | None
    data: bytes | None = None


ChosenEdits = Mapping[bytes, ChosenEdit | None]
"""The chosen paths. None: the whole change, whatever it is when it is made."""


def chosen_actions(actions: Actions, edits: ChosenEdits, writer: StoreWriter | DryRunWriter) -> Actions:
    """The actions on the chosen paths, with the chosen hunks only; new bytes go into `writer`. A chosen path has its new
    directories made, and an emptied directory goes with the last chosen path in it. Raises ContentInTheWay if a change is
    not the one that was shown."""
    above = {parent for path in edits for parent in paths.parents(path)}
    replaced: set[bytes] = set()  # chosen directories that something else replaces: what is in them goes
    holding: set[bytes] = set()  # directories with something that stays
    seen: set[bytes] = set()
    found: list[Action] = []
    for action in actions:
        path, before, after = action.path, action.before, action.after
        seen.add(path)
        if path in edits:
            found.append(_with_chosen_hunks_stored(action, edits[path], writer))
            if is_directory(before) and after is not None and not is_directory(after):
                replaced.add(path)
        elif (path in above and (before is None or after is None)) or (replaced and not replaced.isdisjoint(paths.parents(path))):
            found.append(action)
        elif path in above and not is_directory(before):
            raise errors.ContentInTheWay(f"{paths.lossy_text(path)} is in the way of a chosen path, and is not chosen", "choose it too")
        else:
            holding.update(paths.parents(path))
    for path, edit in edits.items():
        if edit is not None and path not in seen:
            raise changed_error(path)
    return plans.sort_and_pack(action for action in found if action.after is not None or action.path not in holding)


def _with_chosen_hunks_stored(action: Action, edit: ChosenEdit | None, writer: StoreWriter | DryRunWriter) -> Action:
    if edit is None:
        return action
    if not (same_for_restore(action.before, edit.shown.old) and same_for_restore(action.after, edit.shown.new)):
        raise changed_error(action.path)
    wanted, data = edit.wanted, edit.data
    if wanted is not None and data is not None:
        wanted = entry_of_stored_bytes(wanted._replace(mtime_ns=time.time_ns()), data, writer)  # no state ever had these bytes
    return action._replace(after=wanted)


def entry_of_stored_bytes(entry: Entry, data: bytes, writer: StoreWriter | DryRunWriter) -> Entry:
    """The entry of a file whose bytes are stored now."""
    if len(data) < LARGE:
        writer.put_file(data)
        return entry
    return entry._replace(chunks=writer.put_stream(io.BytesIO(data), len(data))[2])


def changed_error(path: bytes) -> errors.ContentInTheWay:
    """The error for a path that has changed since a person chose from its change."""
    return errors.ContentInTheWay(f"{paths.lossy_text(path)} has changed since its parts were chosen: nothing was changed", "choose again")
