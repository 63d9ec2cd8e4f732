"""What the picker shows and what is chosen, without a screen: the keys change it, and the view draws it.

The danger prevented here: one row's changes shown beside another row's name. A preview that is not of the row at the
cursor is dropped.
"""

from collections.abc import Callable, Sequence

from ..._typing import TypeVar
from ...agents import session_files
from ...change import preflight, revert, rewind
from ...errors import CasrewindError, problem_with_hint
from ...history import conversation
from ...messages import age_in_words, plural
from ...model.checkpoint import SAFETY
from ...model.diff import Change, counted_changes
from ...model.manifest import same_for_restore
from ...model.turn_records import SavedRow, Turn
from ..show.changes import counts_by_kind
from ..show.rows import checkpoints_in_words
from ..show.text import cut_to
from . import picker_rows
from .file_tree import FileTreeModel, TreeLine
from .patch_lines import PatchLine
from .picker_rows import PickerRow, PickerTimeline
from .timeline import HERE, TURN, RowPreview

_Item = TypeVar("_Item")
_HINTS = {
    conversation.FILES_ALONE: "c restores the files alone",
    session_files.FORK_INSTEAD: "t makes a fork",
    rewind.END_OR_FORK: "end it first; or t makes a fork",
    revert.ADD_RUNNING: "wait until it has ended",
    rewind.CHAT_ALONE: "t forks the conversation alone",
    rewind.NEAREST: "t forks the conversation alone",
    preflight.STOP_IT: "stop it first",
    preflight.FINISH_FIRST: "o finishes it, or takes it back",
    preflight.OTHER_PATHS: "choose other files",
    preflight.SKIP_DAMAGED: "choose other files",
    "  casrewind undo takes this back": "  u takes this back",
    "  casrewind undo takes the redo back": "  u takes the redo back",
    "  casrewind redo takes the undo back": "  r takes the undo back",
    "  to put those back too: casrewind undo --all": "  to put those back too: U",
    "  (e keeps them; casrewind undo brings everything back)": "  (e keeps them; u brings everything back)",
}
"""What a person does, by what a command line says of it: there it is an option, here a key."""
_DROPPED = "what was chosen is no longer shown: choose again"


def hint_with_keys(hint: str) -> str:
    """The hint of an error, or a line of a result, with a key in place of a command or an option."""
    return _HINTS.get(hint, hint)


def error_in_words(error: Exception) -> str:
    """What the picker says of an error."""
    return problem_with_hint(error.problem, hint_with_keys(error.hint)) if isinstance(error, CasrewindError) else str(error)


class PickerState:
    """The state of one picker."""

    def __init__(self, name: str) -> None:
        """Nothing is read yet. `name` is the name of the project."""
        self.name = name
        self.timeline: PickerTimeline | None = None
        self.rows: list[PickerRow] = []
        """The rows of the current view, as they are listed."""
        self.known: dict[str, PickerRow] = {}
        """Turns that were filled before their place was reached, by key."""
        self.unfolded: set[str] = set()
        self.everything = False
        """Checkpoints inside of turns and of other worktrees are listed, too."""
        self.words = ""
        """The words of the filter."""
        self.is_placed = False
        """The cursor is where it belongs: at the newest turn that changed something, or where a person moved it."""
        self.base: PickerRow | None = None
        """The row that others are compared with."""
        self.what = TURN
        """What is shown of a row: TURN or HERE."""
        self.is_opened = False
        """The files of a row are shown."""
        self.preview: RowPreview | None = None
        self.wanted: bytes | None = None
        """The file to select when the files are shown."""
        self.tree = FileTreeModel(())
        self.lines_of: dict[bytes, str] = {}
        """Counts of changed lines by file."""
        self.checked: set[bytes] = set()
        self.parts: dict[bytes, set[int]] = {}
        """The chosen hunks by file."""
        self.dropped = ""
        """The key of the row that lost its choice, because the shown change is another one now; or ""."""
        self._lost: tuple[RowPreview | None, frozenset[bytes], dict[bytes, set[int]]] = None, frozenset(), {}
        """The preview that is read again, and the files and hunks that were chosen in it."""
        self.patch: list[PatchLine] = []
        self.is_blamed = False
        """In place of the patch, the file is shown with its authors."""
        self.busy, self.said = "reading the timeline", ""
        """The text about the running job, or "", and the text about the last key."""
        self.asked = 0
        """The number of the newest question for a preview."""
        self.stale = True
        """The worktree must be scanned before a comparison."""
        self.unfinished: list[str] = []
        """Details of an interrupted restore."""
        self.acting = self.writing = False
        """A job that changes something runs, so only jobs that read may start; and it changes what the person agreed to."""
        self.outcome: list[str] = []
        """Lines to print after the screen closes."""
        self.incomplete = False
        """Some work was not done."""

    # -- the timeline

    def row_at(self, index: int) -> PickerRow | None:
        """The row at a place of the list."""
        return self.rows[index] if index < len(self.rows) else None

    def is_unfolded(self, row: PickerRow) -> bool:
        """True if the checkpoints of a turn are listed."""
        return isinstance(row.item, Turn) and (self.everything or row.key in self.unfolded)

    def put_filled_turns(self, found: dict[str, PickerRow]) -> None:
        """Take turns with their changes, by key."""
        self.known.update(found)
        self.rows = [self.known.get(row.key, row) for row in self.rows]

    def list_rows(self, chosen: PickerRow | None) -> int:
        """List the rows of the current view. Returns the place of the chosen row, or where the cursor starts."""
        found = self.timeline
        assert found is not None
        rows = list(picker_rows.visible_rows(found, self.unfolded, everything=self.everything))
        rows = [row if row.is_final else self.known.get(row.key, row) for row in rows]
        self.rows = picker_rows.rows_with_words(found, rows, self.words) if self.words else rows
        if not self.rows and not self.words:
            self.said = "no checkpoint yet: casrewind save makes one"
        if not self.is_placed:
            newest = next((index for index, row in enumerate(self.rows) if isinstance(row.item, Turn) and row.item.changes), None)
            self.is_placed = newest is not None or (found.is_complete and not self.stale)
            return newest or 0
        return next((index for index, row in enumerate(self.rows) if chosen is not None and row.key == chosen.key), 0)

    def other_session(self, index: int, by: int) -> int | None:
        """The place of the next turn of another session, in one direction."""
        row = self.row_at(index)
        own = ("", picker_rows.session_of(row) if row is not None else "")
        return _next_place(self.rows, index, by, lambda row: picker_rows.session_of(row) not in own)

    def other_turn(self, index: int, by: int) -> int | None:
        """The place of the next turn in one direction."""
        return _next_place(self.rows, index, by, lambda row: isinstance(row.item, Turn))

    def turn_around(self, index: int) -> int:
        """The place of the turn that a checkpoint is listed below, or the place itself."""
        return next((at for at in range(index, -1, -1) if isinstance(self.rows[at].item, Turn)), index)

    def totals_in_words(self) -> str:
        """What the timeline has: turns, sessions and checkpoints, or the rows that the filter finds."""
        found = self.timeline
        if found is None:
            return ""
        if self.words:
            return f"{plural(len(self.rows), 'row')} with {self.words!r}"
        if found.total is not None:
            return plural(found.total, "checkpoint")
        safety = sum(point.trigger == SAFETY for point in found.points.values())
        shown = plural(found.turns, "turn") if found.turns else "no turns yet"
        sessions = f" of {plural(len(found.sessions), 'session')}" if len(found.sessions) > 1 else ""
        more = ", other worktrees' too" if self.everything and found.elsewhere else ""
        return f"{shown}{sessions}, {checkpoints_in_words(len(found.points) - safety, safety)}{more}"

    def status_line(self) -> str:
        """The line below the panes."""
        if self.busy:
            return f"{self.busy} ..."
        if self.unfinished:
            return "a restore is half done: o to finish it or take it back"
        return self.said or (self.timeline.unsaved if self.timeline is not None else "")

    # -- what is shown of a row

    def preview_kind(self, row: PickerRow) -> str:
        """What is shown of a row: a save is a state, so there is only what a restore of it would change."""
        return HERE if isinstance(row.item, SavedRow) else self.what

    def switch_preview(self) -> None:
        """Show what a turn did, or what a restore of its start would change now."""
        self.what = HERE if self.what == TURN else TURN
        self.base = None

    def toggle_base(self, row: PickerRow) -> bool:
        """Compare other rows with this one; a second time ends it. Returns True if it begins."""
        self.base = None if self.base is not None and self.base.key == row.key else row
        return self.base is not None

    def forget_preview_and_choice(self, row: PickerRow | None, line: TreeLine | None) -> None:
        """Drop what is shown, before another preview of the row is asked for. The file of the same row is selected again."""
        is_same = self.preview is not None and row is not None and self.preview.key == row.key
        if self.wanted is None and is_same and line is not None and line.change is not None:
            self.wanted = line.change.path
        if is_same and row is not None and (self.checked or self.parts):
            self.dropped, self.said = row.key, _DROPPED
            self._lost = self.preview, frozenset(self.checked), dict(self.parts)
        self.preview, self.tree, self.patch, self.lines_of = None, FileTreeModel(()), [], {}
        self.checked.clear()
        self.parts.clear()

    def forget_choice(self) -> None:
        """Choose nothing, as a person asked for."""
        self.dropped, self._lost = "", (None, frozenset(), {})
        self.checked.clear()
        self.parts.clear()

    def why_not_all(self, row: PickerRow, pane: str) -> str:
        """Why a key that restores files must wait until something is chosen: it would restore more than what is marked.
        "" if it may go on."""
        if self.checked or self.parts:
            return ""
        if pane == "patch":
            return "no hunk is chosen: space chooses one, escape leaves the file"
        if self.tree.words and pane == "files":
            return "the filter hides files: press a to choose those shown, escape to end it"
        return _DROPPED if self.dropped == row.key else ""

    def set_preview(self, found: RowPreview, row: PickerRow | None, words: str) -> bool:
        """Show a preview, with the files that have all `words`. False if it is not of the row at the cursor."""
        if row is None or (found.key, found.what, found.base) != (row.key, self.preview_kind(row), self.base.key if self.base else ""):
            return False
        self.preview, self.tree = found, FileTreeModel(counted_changes(found.found.changes))
        self.tree.filter_by_path(words)
        self._choose_again(found)
        return True

    def _choose_again(self, now: RowPreview) -> None:
        """Choose again what was chosen in this preview before it was read again, if its change is the same."""
        before, checked, parts = self._lost
        self._lost = None, frozenset(), {}
        if before is None or (before.key, before.what, before.base) != (now.key, now.what, now.base):
            return
        old = {change.path: change for change in before.found.changes}
        same = {change.path for change in now.found.changes if change.path in old and _is_same(change, old[change.path])}
        self.checked = {path for path in checked if path in same}
        self.parts = {path: chosen for path, chosen in parts.items() if path in same}
        if same.issuperset((*checked, *parts)):
            self.dropped, self.said = "", self.choice_in_words()

    def preview_heading(self, row: PickerRow, found: RowPreview, width: int) -> str:
        """The title of a preview: what it shows, its numbers and its row. A name longer than a line is cut."""
        assert self.timeline is not None
        when = picker_rows.time_of(self.timeline, row)
        ago = f", {age_in_words(when)}" if when is not None else ""
        numbers = counts_by_kind(found.found, is_to_here=found.what == HERE)
        if found.base and self.base is not None:
            return f"from {cut_to(picker_rows.row_title(self.timeline, self.base), width)} to here: {numbers}"
        what = found.what if isinstance(row.item, Turn) or found.what == HERE else "what changed"
        name = picker_rows.number_of_turn(row) or picker_rows.row_title(self.timeline, row)
        return f"{what}: {numbers} · {cut_to(name, width - len(ago) - 4)}{ago}"

    # -- files and hunks

    def line_at(self, index: int) -> TreeLine | None:
        """The line at a place of the tree."""
        return self.tree.lines[index] if index < len(self.tree) else None

    def take_start_line(self) -> int:
        """The place where the cursor starts in the files."""
        place = self.tree.line_of_file(self.wanted) if self.wanted is not None else None
        self.wanted = None
        return next((at for at, line in enumerate(self.tree.lines) if line.change is not None), 0) if place is None else place

    def has_choice(self) -> bool:
        """True if parts of the patch can be chosen: it is that of a restore, or that of a turn."""
        return self.preview is not None and not self.preview.base and (self.preview.what == HERE or self.preview.is_turn)

    def is_of_turn(self) -> bool:
        """True if the chosen hunks are those of a turn, and not of a restore."""
        return self.preview is not None and self.preview.is_turn and self.preview.what == TURN and not self.preview.base

    def toggle_choice(self, paths: set[bytes], *, only_add: bool = False) -> None:
        """Choose files, or take them out of the choice if all are chosen. A file is chosen whole, or in parts."""
        self.dropped = ""
        self.checked = self.checked - paths if paths <= self.checked and not only_add else self.checked | paths
        for path in paths:
            self.parts.pop(path, None)

    def choose_parts(self, path: bytes, parts: set[int]) -> None:
        """Choose these hunks of a file, and no others."""
        self.dropped = ""
        self.checked.discard(path)
        self.parts[path] = parts
        if not parts:
            del self.parts[path]

    def choice_in_words(self) -> str:
        """What is chosen, in words."""
        hunks = sum(map(len, self.parts.values()))
        words = [f"{len(self.checked):,} chosen"] if self.checked else []
        words += [plural(hunks, "hunk") + " chosen"] if hunks else []
        does = "x takes back only these" if self.is_of_turn() and self.parts else "only these are restored"
        return f"{', '.join(words)}: {does}" if words else ""

    def other_hunk(self, index: int, by: int) -> int:
        """The place of the next hunk in one direction, or the place itself."""
        found = _next_place(self.patch, index, by, lambda line: line.sign == "@")
        return index if found is None else found


def _is_same(one: Change, other: Change) -> bool:
    return same_for_restore(one.old, other.old) and same_for_restore(one.new, other.new)


def _next_place(found: Sequence[_Item], index: int, by: int, is_wanted: Callable[[_Item], bool]) -> int | None:
    """The next place in one direction that has a wanted item."""
    return next((at for at in range(index + by, len(found) if by > 0 else -1, by) if is_wanted(found[at])), None)
