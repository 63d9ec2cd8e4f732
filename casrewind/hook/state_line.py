"""One line about a project: what a client shows at the start of a session, and in its status line."""

import os

from ..context import Context
from ..messages import age_in_words, plural, printable
from ..model import checkpoint as checkpoints
from ..model.checkpoint import Checkpoint
from ..store import writability

NO_CHECKPOINT = "casrewind: no checkpoint yet"
_UNPROTECTED = "casrewind: NOT PROTECTED: "
_REASON = 80  # characters of a reason
_SEARCHED = 200  # newest checkpoints among which that of a prompt is looked for


def state_line(context: Context) -> str:
    """One line about a project: its protection, its checkpoints, the age of the newest turn. Reads only the store."""
    if why := writability.why_unwritable(context.store.path):
        return f"{_UNPROTECTED}nothing can be saved: {why}"
    key = context.root.key
    number = context.store.count_listed_checkpoints(key)
    last = context.store.head(key, listed=True)
    if context.store.is_interrupted(key):
        return "casrewind: a restore was interrupted; casrewind restore --continue finishes it, --abort takes it back"
    if last is None:
        return NO_CHECKPOINT
    if last.files == 0:
        return f"{_UNPROTECTED}the newest checkpoint holds no file; casrewind status shows more"
    prompt = _newest_prompt(context)
    what = f"newest {age_in_words(last.created_ns)}" if prompt is None else f"newest turn {age_in_words(prompt.created_ns)}"
    behind = _words_if_behind_remote(context) if os.path.lexists(context.store.remotes) else ""
    return f"casrewind: {plural(number, 'checkpoint')}, {what}{behind}"


def line_of_unusable_store(error: Exception, store: str = "") -> str:
    """One line about a project whose store cannot be used. `store`: its directory if it is known."""
    why = writability.why_unwritable(store) if store else ""
    return f"{_UNPROTECTED}nothing can be saved: {why or str(error).splitlines()[0]}"


def _words_if_behind_remote(context: Context) -> str:
    """How far the remote is behind, in few characters; "" if it is not, or if there is none."""
    from ..store import push_notes

    if unjoined := push_notes.read_failed_join(context.store.remotes):
        return f", remote not joined: {printable(unjoined.problem[:_REASON])}"
    directory = push_notes.remote_directory(context.store.remotes)
    notes = push_notes.read_push_notes(directory)
    if not directory:
        return ""
    if not notes.pushed_ns:
        said = "not pushed yet"
    else:
        number = sum(not point.more.machine for point in context.store.checkpoints_after(notes.seq))
        said = f"{number:,} not pushed" if number else ""
    failed = "push failed" if notes.problem else ""
    return "".join(f", {part}" for part in (said, failed) if part)


def _newest_prompt(context: Context) -> Checkpoint | None:
    def is_prompt(point: Checkpoint) -> bool:
        return point.worktree == context.root.key and point.trigger == checkpoints.PROMPT

    return next((point for point, _ in context.store.checkpoints(1, is_prompt, _SEARCHED) if is_prompt(point)), None)
