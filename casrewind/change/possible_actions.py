"""What of some wanted actions is possible now: undo, redo, revert, take and --keep-edits ask it, each with its own answer for a path.

The danger prevented here: a plan touches what it must not, or what it did not read. So what is at each path is read afresh. A path at
which something is that cannot be stored, one on another file system, and one in another worktree or store are left alone and named.
"""

from collections.abc import Callable, Container, Iterable, Iterator, Mapping

from ..context import Context
from ..history import present_scan
from ..model import manifest, paths
from ..model import plan as plans
from ..model.manifest import DIR, Entry
from ..model.plan import Action, Actions, Kept, Plan
from ..store.dry_run_writer import DryRunWriter
from ..store.writer import StoreWriter
from ..worktree.protected_places import ProtectedPlaces
from ..worktree.scan import Scan
from . import preflight, safety_capture
from .result import Restored
from .safety_capture import CapturedState, Stranger, obstacles_error

Resolve = Callable[[Action, Entry | None], Entry | Kept | None]
"""Returns what a path becomes, given the wanted action and the present entry, or why it is kept."""


def prepare_actions(
    context: Context, writer: StoreWriter | DryRunWriter, actions_of: Callable[[Scan], Actions], op: str, aim: str, hint: str,
    resolve: Resolve, *, made: Container[bytes] = (), everything: bool = False, skip_damaged: bool = False,
) -> tuple[Restored, CapturedState]:  # fmt: skip
    """Returns (what these actions would do and keep, the current state). `actions_of` is given the scan. `made`: digests
    that `resolve` stores itself. With `everything`, a path that cannot be stored is an obstacle, else it is kept."""
    scan = present_scan.scan_now(context, writer)
    wanted = actions_of(scan)  # after the scan, to limit memory
    wanted, protected = ProtectedPlaces(context.tree, context.policy.excluded).split_off_protected(wanted)
    strangers: dict[bytes, Stranger] = {}
    load = writer.load_tree
    read = scan.read
    unread = (path for path in _touched_paths(wanted) if path not in read)
    respelled: dict[bytes, bytes] = {}
    tree = safety_capture.add_present_paths(context, writer, scan.tree, unread, respelled, strangers)
    now = CapturedState(tree, scan, load, respelled=respelled)
    if everything and strangers:
        touched = frozenset(_touched_paths(wanted))
        if obstacles := [stranger.what for path, stranger in strangers.items() if path in touched]:
            raise obstacles_error(obstacles)
    kept = list(protected)
    finder, points = manifest.Finder(load, tree), context.tree.mounts.points
    actions = plans.sort_and_pack(possible_actions(wanted, finder, strangers, points, kept, resolve))
    plan = plans.keep_paths(Plan(actions, ()), kept)
    plan = preflight.checked_plan(context, now, plan, hint=hint, made=made, skip_damaged=skip_damaged, benign=False)
    left = {item.path for item in plan.kept}
    unchanged = sum(plans.is_of_file(action) for action in wanted if action.path not in left) - sum(map(plans.is_of_file, plan.actions))
    return Restored(op, aim, "", plan.actions, plan.kept, unchanged, dry_run=False), now


def _touched_paths(wanted: Actions) -> Iterable[bytes]:
    if any(action.source != action.path for action in wanted):
        return sorted({path for action in wanted for path in (action.path, action.source)})
    return (action.path for action in wanted)


def possible_actions(
    wanted: Actions,
    finder: manifest.Finder,
    strangers: Mapping[bytes, Stranger],
    mounts: frozenset[bytes],
    kept: list[Kept],
    resolve: Resolve,
) -> Iterator[Action]:
    """Yield the possible actions of a plan, and add the paths that are kept to `kept`. `strangers` are paths that cannot be
    stored, `mounts` are mount points. Parents come first; a path without a directory to go into is kept absent."""
    will_be: dict[bytes, Entry | None] = {}
    for action in wanted:
        there = finder.find(action.source)
        stranger = _stranger_above(action.source, strangers) if strangers else None
        if stranger is not None and (stranger in mounts or stranger == action.source or action.after is not None):
            kept.append(Kept(action.path, strangers[stranger].why_left, benign=False))
            continue
        after = resolve(action, there)
        if isinstance(after, Kept):
            kept.append(after)
        elif manifest.same_for_restore(there, after) and action.source == action.path:
            continue
        elif after is not None and not _will_have_all_parents(action.path, finder, will_be):
            kept.append(Kept(action.path, "its directory was replaced or removed since", benign=False))
        else:
            if DIR in (there and there.kind, after and after.kind):
                will_be[action.path] = after  # only directories affect other paths
            yield Action(action.path, there, after, action.source)


def _stranger_above(path: bytes, strangers: Mapping[bytes, Stranger]) -> bytes | None:
    """The path at or above `path` that cannot be stored, or None."""
    return next((above for above in (*paths.parents(path), path) if above in strangers), None)


def _will_have_all_parents(path: bytes, finder: manifest.Finder, will_be: Mapping[bytes, Entry | None]) -> bool:
    """True if every parent of a path is, or will be, a directory."""
    above = (will_be[parent] if parent in will_be else finder.find(parent) for parent in paths.parents(path))
    return all(entry is not None and entry.kind == DIR for entry in above)
