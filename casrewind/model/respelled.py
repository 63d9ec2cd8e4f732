"""Names that are one file to a file system that folds case or Unicode forms.

The danger prevented here: a plan that writes `Readme` and removes `README`, which are one file on most Macs, removes what it wrote, and
says that it is done. So each plan passes here, whatever made it: a removed path and a new one that are the same file become a rename.
"""

from collections.abc import Callable, Iterable, Mapping

from .. import errors
from . import paths
from . import plan as plans
from .manifest import DIR, Entry, same_for_restore
from .plan import Action, Kept, Plan


def refuse_paths_with_one_name(found: Iterable[bytes]) -> None:
    """Raise UnsafePath if two paths are one name to a file system that folds case and normalisation, and so cannot both exist."""
    seen: dict[str, bytes] = {}
    for path in found:
        other = seen.setdefault(paths.case_folded_key(path), path)
        if other != path:
            raise errors.UnsafePath(
                f"{paths.lossy_text(other)} and {paths.lossy_text(path)} are the same name on this file system",
                "restore them elsewhere with --to DIR, or one of them by its path"
            )


def join_respelled(plan: Plan, respelled: Mapping[bytes, bytes], present: Callable[[bytes], Entry | None]) -> Plan:
    """The same plan for a file system that folds names. A path that is made there, and the file that it already is under the name
    `respelled[path]`, become a rename if that name goes. If it stays, a directory is used as it is spelled, and any other path is kept
    as it is. Of two paths that are one file, as the turns of a revert may make them, one is made, and the other kept, or left out if
    it becomes the same. `present` gives what is at a path now."""
    if not respelled:
        return plan
    removals = {action.path: action for action in plan.actions if action.after is None}
    made = {action.path: action for action in plan.actions if action.after is not None}
    actions, kept, merged, used = list[Action](), list[Kept](), dict[bytes, Action](), dict[bytes, bytes]()
    for action in plan.actions:
        is_made = action.before is None and action.after is not None
        spelled = respelled.get(action.path, b"") if is_made else b""
        twin = removals.get(spelled)
        if spelled and twin is None:
            if DIR == (action.after and action.after.kind) == ((there := present(spelled)) and there.kind):
                used[action.path] = spelled
            else:
                kept.append(Kept(action.path, f"{paths.lossy_text(spelled)} stays, and is the same file on this disk", benign=False))
            continue
        path = _path_in_used_directory(action.path, used) if is_made and used else action.path
        first = made.setdefault(path, action) if twin is None else merged.setdefault(twin.path, action)
        if first is not action:
            if not same_for_restore(first.after, action.after):
                kept.append(Kept(action.path, f"{paths.lossy_text(first.path)} is the same file on this disk", benign=False))
        elif twin is not None:
            actions.append(Action(path, twin.before, action.after, twin.path))
        else:
            actions.append(action if path == action.path else Action(path, None, action.after, path))
    return plans.keep_paths(Plan([action for action in actions if action.path not in merged or action.after is not None], plan.kept), kept)


def _path_in_used_directory(path: bytes, used: Mapping[bytes, bytes]) -> bytes:
    """The path below the directory that is used in place of one above it."""
    above = next((parent for parent in reversed(paths.parents(path)) if parent in used), None)
    return path if above is None else used[above] + path[len(above) :]
