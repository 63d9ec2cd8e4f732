"""One line about a project: whether it is protected, its checkpoints, and the age of the newest turn."""

from ..model import checkpoint as checkpoints
from ..model.checkpoint import Checkpoint
from ..ops.context import Context
from .output import age, plural

_SEARCHED = 200  # newest checkpoints among which that of a prompt is looked for


def state_line(context: Context) -> str:
    """The line. Reads only the store."""
    key = context.root.key
    number = context.store.count(key)
    last = context.store.head(key, listed=True)
    if context.store.is_restore_open(key) and not context.store.is_restoring(key):
        return "casrewind: a restore was interrupted; casrewind restore --continue finishes it, --abort takes it back"
    if last is None:
        return "casrewind: no checkpoint yet"
    if last.files == 0:
        return "casrewind: NOT PROTECTED: the newest checkpoint holds no file; casrewind status shows more"
    prompt = _newest_prompt(context)
    what = f"newest {age(last.created_ns)}" if prompt is None else f"newest turn {age(prompt.created_ns)}"
    return f"casrewind: {plural(number, 'checkpoint')}, {what}"


def _newest_prompt(context: Context) -> Checkpoint | None:
    left = _SEARCHED

    def ends_the_search(point: Checkpoint) -> bool:
        nonlocal left
        left -= 1
        return left <= 0 or is_prompt(point)

    def is_prompt(point: Checkpoint) -> bool:
        return point.worktree == context.root.key and point.trigger == checkpoints.PROMPT

    return next((point for point, _ in context.store.checkpoints(1, ends_the_search) if is_prompt(point)), None)
