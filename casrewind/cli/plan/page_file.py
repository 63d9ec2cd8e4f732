"""Writes rows as one page for a browser (show/page.py).

Two dangers are prevented here: a secret in a difference goes to other people, and a page takes the place of a person's file.
"""

import os
from collections.abc import Iterable, Iterator, Sequence

from ... import errors, fsio
from ..._typing import TYPE_CHECKING
from ...messages import enumerated, plural, printable, reason_of
from ...model.turn_records import Forgotten, Row, Turn
from ..show.page import FIRST_LINE, LineMakers, PageMaker, PagePart
from ..show.rows import is_shown
from ..show.text import human_size
from ..terminal.lines import note, print_line
from ..terminal.questions import agreed, must_ask_or_raise
from .facts import whole_prompt

if TYPE_CHECKING:
    from collections.abc import Callable

    from ...context import Context
    from ...history.turn_view import TurnView
    from ..grammar.command_line import ParsedOptions

_NAMES_IN_MESSAGE = 8
"""Names in a message."""


def parts_of(context: "Context", view: "TurnView", rows: Iterable[Row], scope: Sequence[bytes] = ()) -> Iterator[PagePart]:
    """What a page has of rows, limited to `scope`: then of those that changed something in it."""
    for row in rows:
        if isinstance(row, Forgotten) or not is_shown(row):
            continue
        found = view.comparison_of_row(row, scope)
        if not scope or (found is not None and found.changes):
            yield PagePart(row, found, whole_prompt(context, view, row) if isinstance(row, Turn) else "")


def write_page(
    context: "Context", options: "ParsedOptions", view: "TurnView", about: str, parts: Iterable[PagePart], done: "Callable[[], None]",
    makers: LineMakers | None = None,
) -> None:  # fmt: skip
    """Write the page that --html asks for. `about`: its title, behind the name of the project. A person is asked about secrets first."""
    place = os.path.join(options.directory, options.html or "")
    _refuse_to_replace(place)
    maker = PageMaker(view, has_prompts=not options.no_prompts, makers=makers or {})
    with context.store.hold_shared_lock():  # gc waits until all of it is read
        page = maker.make(f"{os.path.basename(context.root.path)}: {about}", parts)
    done()
    if page.secrets:
        names = _first(page.secrets)
        asks = must_ask_or_raise(options, f"writes what looks like a secret ({names})")
        note(f"this looks like a secret: {names}")
        if asks and not agreed(f"Write it into {printable(place)}?"):
            print_line("nothing was written")
            return
    try:
        fsio.replace_file(os.path.dirname(place) or ".", os.path.basename(place), page.data)
    except OSError as error:
        raise errors.WorkspaceError(f"cannot write {printable(place)}: {reason_of(error)}", "give another FILE") from error
    print_line(f"wrote {printable(place)} ({human_size(len(page.data))})")
    if page.left_out:
        note(f"left out, because it is too large: {_first(page.left_out)}")


def _refuse_to_replace(place: str) -> None:
    """Raise ContentInTheWay if something else than a page is there."""
    try:
        if fsio.read_file(place, len(FIRST_LINE)) == FIRST_LINE.encode():
            return
    except FileNotFoundError:
        return
    except OSError as error:
        raise errors.WorkspaceError(f"cannot look at {printable(place)}: {reason_of(error)}", "give another FILE") from error
    raise errors.ContentInTheWay(f"{printable(place)} already exists, and is not a page of casrewind", "remove it, or give another FILE")


def _first(names: Sequence[str]) -> str:
    more = len(names) - _NAMES_IN_MESSAGE
    return enumerated([*names[:_NAMES_IN_MESSAGE], *([plural(more, "other")] if more > 0 else [])])
