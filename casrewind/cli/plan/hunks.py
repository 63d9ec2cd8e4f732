"""The parts of a change that can be chosen alone, and the content that a choice of them gives."""

from collections.abc import Collection, Iterable

from ..._typing import TYPE_CHECKING
from ...change.chosen_edits import ChosenEdit
from ...model import digest as digests
from ...model.diff import Change
from ...model.line_diff import Block
from ...model.manifest import FILE, LARGE, Entry
from ..show import patch
from ..show.patch import Texts

if TYPE_CHECKING:
    from ...history.compare import Comparison


def has_hunks(change: Change) -> bool:
    """True if hunks of a file can be chosen: it is a file on both sides, and not a large one."""
    return all(entry is not None and entry.kind == FILE and entry.size < LARGE for entry in (change.old, change.new))


def edit_with_hunks(found: "Comparison", change: Change, numbers: Collection[int]) -> ChosenEdit | None:
    """The old side with these hunks of the new side. None if a side is no longer available."""
    texts = patch.lines_of_both_sides(found, change)
    if texts is None or change.old is None:
        return None
    return edit_with(change, texts, _blocks_of_hunks(texts, change.path, numbers), change.old.mode)


def edit_without_hunks(found: "Comparison", change: Change, numbers: Collection[int]) -> ChosenEdit | None:
    """The new side without these hunks of it. None if a side is no longer available."""
    texts = patch.lines_of_both_sides(found, change)
    if texts is None or change.new is None:
        return None
    chosen = (Block(one.new_start, one.new_end, one.old_start, one.old_end) for one in _blocks_of_hunks(texts, change.path, numbers))
    return edit_with(Change(change.path, change.new, change.old), Texts(texts.new, texts.old), chosen, change.new.mode)


def _blocks_of_hunks(texts: Texts, path: bytes, numbers: Collection[int]) -> list[Block]:
    """The blocks of the hunks with these numbers."""
    return [block for number, hunk in enumerate(patch.hunks(texts, path)) if number in numbers for block in hunk.blocks]


def edit_with(change: Change, texts: Texts, chosen: Iterable[Block], mode: int) -> ChosenEdit:
    """The old side with these blocks of the new side, and with this mode."""
    data = b"".join(_lines_with_blocks(texts, chosen))
    wanted = Entry(FILE, mode, len(data), 0, digests.of(data))
    if change.new is not None and change.new.digest == wanted.digest:
        return ChosenEdit(change, change.new._replace(mode=mode))
    return ChosenEdit(change, wanted, data)


def _lines_with_blocks(texts: Texts, chosen: Iterable[Block]) -> Iterable[bytes]:
    at = 0
    for block in sorted(chosen):
        yield from texts.old[at : block.old_start]
        yield from texts.new[block.new_start : block.new_end]
        at = block.old_end
    yield from texts.old[at:]
