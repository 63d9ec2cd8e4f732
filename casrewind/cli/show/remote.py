"""The words about a remote that several commands use."""

import time

from ..._typing import TYPE_CHECKING
from ...messages import plural

if TYPE_CHECKING:
    from ...remote.push import Unsent

_DAY = 86400


def not_pushed(found: "Unsent") -> str:
    """What waits for a push."""
    if not found.number:
        return "all checkpoints are pushed"
    made = found.oldest_ns // 1_000_000_000
    form = "%H:%M" if time.time() - made < _DAY else "%Y-%m-%d"
    return f"{plural(found.number, 'checkpoint')} not pushed (since {time.strftime(form, time.localtime(made))})"
