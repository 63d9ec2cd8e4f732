"""The words about what leaves this machine: what a push saved first, and the new files that it takes along."""

from collections.abc import Sequence

from ..._typing import TYPE_CHECKING
from ...messages import plural, printable
from .shapes import Shape, path
from .text import cut_to, signed_counts

if TYPE_CHECKING:
    from ...remote.outgoing import SavedFirst

_SHOWN = 8
_WIDTH = 60


def saved_first_line(found: "SavedFirst") -> str:
    """What was saved first, or why nothing was; "" if there is nothing to say. A failure is a remark of its own."""
    if found.saved is None or not found.saved.created:
        return found.why_not
    return f"saved {found.saved.checkpoint.id} first ({signed_counts(found.saved.changes)})"


def new_files_line(names: Sequence[bytes]) -> str:
    """The new files by name, "" for none. A long name loses its end."""
    shown = ", ".join(cut_to(printable(name), _WIDTH) for name in names[:_SHOWN])
    more = len(names) - _SHOWN
    return f"  {plural(len(names), 'new file')}: {shown}{f' and {more:,} more' if more > 0 else ''}" if names else ""


def outgoing_shape(found: "SavedFirst", names: Sequence[bytes]) -> Shape:
    """The same for a program."""
    saved = found.saved.checkpoint.id if found.saved is not None and found.saved.created else None
    return {"saved": saved, "not_saved": found.why_not or found.problem or None, "new_files": [path(name) for name in names]}
