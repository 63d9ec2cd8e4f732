"""The notices of a hook to the person: a line at the start of a session, a warning if a turn begins on half-restored files, and
one if a turn removed many.

The danger prevented here: words that reach the model. So a notice has two conditions. The client shows a
member of the answer to the person alone. The event names the client's process: a script that calls a hook gets nothing.
"""

import json

from .. import errors
from ..agents.client import Client
from ..agents.event import Event
from ..config import Config
from ..context import Context
from ..messages import printable, shell_quoted, shell_quoted_path
from ..model import diff as diffs
from ..model.checkpoint import Checkpoint
from ..model.manifest import DIR
from ..upkeep.save import Saved

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..upkeep.adopt import Moved

_LOST_NAMED = 2  # paths that a warning names
_NAMED_IN_LINE = 3  # unprotected paths that the first line names
_BEGINS = "casrewind: from now on this project is saved at every prompt"
_HALF_RESTORED = (
    "casrewind: a restore was interrupted here, and this turn works on half-restored files; "
    "/casrewind restore --continue finishes it, /casrewind restore --abort takes it back"
)


def answer_for_person(
    client: Client, event: Event, config: Config, context: Context, saved: Saved | None, moved: "Moved | None"
) -> bytes:
    """What the hook prints at an event, b"" for nothing. `saved`: the event's checkpoint, None before it is made. `moved`: what was
    found of a project that may have been moved here."""
    try:
        text = _notice_text(event, config, context, saved, moved)
    except (errors.CasrewindError, OSError):
        text = ""  # a notice is not worth a failure
    return _as_answer_for_person(client, text) if text else b""


def answer_after_error(client: Client, error: Exception, store: str) -> bytes:
    """What the hook prints at the start of a session if an error stopped it. `store`: its directory, "" if unknown."""
    from .state_line import line_of_unusable_store

    return _as_answer_for_person(client, line_of_unusable_store(error, store))


def _as_answer_for_person(client: Client, text: str) -> bytes:
    return json.dumps(client.person_answer(text)).encode() + b"\n"


def _notice_text(event: Event, config: Config, context: Context, saved: Saved | None, moved: "Moved | None") -> str:
    if saved is None and event.trigger == "session_start" and config.session_line:
        from .state_line import NO_CHECKPOINT, state_line

        line = state_line(context)
        return (_BEGINS if line == NO_CHECKPOINT else line) + _words_of_former_root(moved) + _words_of_unprotected(context)
    if saved is None and event.trigger == "prompt":
        return _HALF_RESTORED if context.store.is_interrupted(context.root.key) else ""
    if saved is None or event.trigger != "turn_end" or event.subagent or not config.warn_removed:
        return ""
    return _warning_of_removed_files(_removed_paths(context, saved.checkpoint), config.warn_removed)


def _words_of_former_root(moved: "Moved | None") -> str:
    """Says where the project was before, or which other project's checkpoints may be its own; "" if nothing was found."""
    if moved is None:
        return ""
    if moved.adopted is not None and moved.adopted.old != moved.adopted.root:
        return f"; the project was moved here from {printable(moved.adopted.old)}"
    return "".join(f"; if it was at {printable(old)} before: casrewind adopt {shell_quoted(old)}" for old in moved.candidates[:1])


def _words_of_unprotected(context: Context) -> str:
    """Names the files that git ignores and a person may want back, those that were not named before."""
    from ..upkeep import unprotected

    try:
        new = unprotected.name_new(context)
    except (errors.CasrewindError, OSError):
        return ""
    names = [entry.path + b"/" * entry.is_dir for entry in new]
    if not names:
        return ""
    more = f" and {len(names) - _NAMED_IN_LINE:,} more" if len(names) > _NAMED_IN_LINE else ""
    shown = ", ".join(map(printable, names[:_NAMED_IN_LINE]))
    them, one = ("it", "it") if len(names) == 1 else ("them", "the first")
    protects = f"casrewind include {shell_quoted_path(names[0])} protects {one}"
    return f"; left out, because git ignores {them}: {shown}{more} (in a terminal, {protects})"


def _removed_paths(context: Context, end: Checkpoint) -> list[bytes]:
    """The paths of the files that are gone at a turn's end, except files that moved to another path, or that are no
    longer captured."""
    start = context.store.checkpoint(end.more.turn) if end.more.turn else None
    if start is None:
        return []
    changes = list(diffs.diff(diffs.loader_with_damaged_trees_empty(context.store.load_tree), start.tree, end.tree))
    moved = {change.new.digest for change in changes if change.old is None and change.new is not None}
    if start.domain != end.domain and any(change.new is None for change in changes):
        there = context.tree.may_exist  # the turn did not remove it, but it is no longer captured
        known, _ = diffs.split_unclear(changes, lambda *_: None, lambda path, _: "not captured" if there(path) else None)
        changes = list(known)
    return [
        change.path for change in changes if change.new is None and change.old is not None
        if change.old.kind != DIR and change.old.digest not in moved
    ]  # fmt: skip


def _warning_of_removed_files(lost: list[bytes], most: int) -> str:
    if len(lost) <= most:
        return ""
    named = ", ".join(printable(path) for path in lost[:_LOST_NAMED])
    return (
        f"casrewind: this turn removed {len(lost):,} files ({named} and {len(lost) - _LOST_NAMED:,} more); /casrewind show @1 lists them, "
        f"/casrewind back 1 restores the state before it"
    )
