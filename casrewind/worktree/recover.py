"""Recovery after an interruption: identifies a plan's temporary files and moves or removes them.

The danger prevented here: deleting the user's bytes as an unfinished draft. Only our drafts and content that the store
has are removed. Everything else is put back or gets a visible name.
"""

import os
import stat
from collections.abc import Sequence

from ..model import plan as plans
from ..model.manifest import DIR, FILE, PERMISSIONS, Entry, same_for_restore
from ..model.plan import Action, Actions, Kept, content_differs
from . import safe_rename
from .displaced import MOVED_ASIDE, STRANGERS, DisplacedFiles, name_path_in_errors

_DRAFT_MODE = stat.S_IRUSR | stat.S_IWUSR


def with_modes_that_took(displaced: DisplacedFiles, actions: Actions) -> tuple[Actions, list[Kept]]:
    """The actions of an interrupted plan with the modes that its new files have, and the files that have others than planned: fewer people
    may use them (see DisplacedFiles.set_owner_group_and_acl), or the mount keeps its own. Raises OSError."""
    modes: dict[bytes, int] = {}
    named: list[Kept] = []
    for action in actions:
        after = action.after
        if after is None or after.kind != FILE or not content_differs(action):
            continue
        status = displaced.status_if_regular_file(action.path)
        if status is None:
            continue
        mode, wanted = status.st_mode & PERMISSIONS, after.mode & PERMISSIONS
        strangers = displaced.still_holds_file_of_another_user(action)
        if (strangers or mode != wanted) and same_for_restore(displaced.hash_entry(action.path), after._replace(mode=mode)):
            why = STRANGERS.format(mode) if strangers else f"restored with mode {mode:04o} instead of {wanted:04o}"
            named.append(Kept(action.path, why, benign=False))
            modes[action.path] = mode
    return (plans.with_modes(actions, modes) if modes else actions), named


def move_or_remove_temporary_files(displaced: DisplacedFiles, actions: Sequence[Action]) -> None:
    """Handle every temporary file that an interrupted run of this plan left. Raises OSError."""
    for action in actions:
        if action.path in displaced.spared:
            continue
        for suffix in (b"", MOVED_ASIDE):
            try:
                with name_path_in_errors(action.path), displaced.open_parent(action.source) as (fd, own):
                    _finish_or_remove_temporary_file(displaced, fd, own, displaced.temporary_name(action, suffix), action, suffix)
            except (FileNotFoundError, NotADirectoryError):
                continue


def _finish_or_remove_temporary_file(displaced: DisplacedFiles, fd: int, own: bytes, name: bytes, action: Action, suffix: bytes) -> None:
    status = os.stat(name, dir_fd=fd, follow_symlinks=False)
    if stat.S_ISDIR(status.st_mode):
        displaced.aside[action.source] = name
        return
    present = displaced.hash_entry(action.path)
    if suffix == MOVED_ASIDE and present is None and action.after is not None and not content_differs(action):
        safe_rename.rename_without_replacing(fd, name, own)  # its copy with the new mode is not named yet
        return
    if suffix == MOVED_ASIDE or same_for_restore(present, action.after):
        displaced.remove_or_put_back(fd, own, name, action)
        return
    held = displaced.hash_entry_beside(action.source, name)
    stored = same_for_restore(held, action.before) or same_for_restore(held, action.after)
    if stored or (_may_be_our_draft(held, action) and _is_without_effect_yet(displaced.hash_entry(action.source), action)):
        os.unlink(name, dir_fd=fd)  # content that the store has, or an unfinished draft
    else:
        displaced.rename_to_visible_name(fd, own, name, action.path)


def _may_be_our_draft(held: Entry | None, action: Action) -> bool:
    """True for a possible unfinished draft of ours: its mode is narrow until all its bytes are written."""
    after = action.after
    if held is None or after is None or not held.kind == after.kind == FILE:
        return False
    return held.size <= after.size and not held.mode & PERMISSIONS & ~_DRAFT_MODE


def _is_without_effect_yet(present: Entry | None, action: Action) -> bool:
    """True if an action has had no visible effect yet. A directory that we created may lack its final mode."""
    if present is not None and action.before is not None and present.kind == action.before.kind == DIR:
        return True
    return same_for_restore(present, action.before)


def put_replaced_directories_back(displaced: DisplacedFiles, actions: Sequence[Action]) -> None:
    """Rename directories that a file replaced back to their names, after `move_or_remove_temporary_files` in a rollback. A directory
    that cannot be put back is kept under a visible name. Raises OSError."""
    by_source = {action.source: action for action in actions if action.source in displaced.aside}
    for path, aside in list(displaced.aside.items()):
        del displaced.aside[path]
        action = by_source[path]
        with name_path_in_errors(path), displaced.open_parent(path) as (fd, name):
            present = displaced.hash_entry(path)
            if present is None:
                safe_rename.rename_without_replacing(fd, aside, name)
            elif not same_for_restore(present, action.after):
                displaced.rename_to_visible_name(fd, name, aside, path)
            elif action.path == path and safe_rename.exchange_names(fd, aside, name):
                if same_for_restore(displaced.hash_entry_beside(path, aside), action.after):
                    os.unlink(aside, dir_fd=fd)
                else:  # edited between the check and the exchange
                    displaced.rename_to_visible_name(fd, name, aside, path)
            else:
                os.unlink(name, dir_fd=fd)
                safe_rename.rename_without_replacing(fd, aside, name)
