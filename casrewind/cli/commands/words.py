"""Decides which words of a command line are checkpoints and which are paths.

The danger prevented here: an ambiguous word. A restore of a checkpoint changes the whole project, even if the person
meant one path.
"""

import os
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress

from ... import errors
from ..._typing import TYPE_CHECKING, NamedTuple
from ...history import lookup
from ...history.checkpoint_names import ReferencePlace
from ...messages import printable, shell_quoted
from ...model import paths
from ...model.checkpoint import Checkpoint
from ...typed_commands import as_typed
from ...worktree import root as roots
from ..terminal.lines import note
from ..terminal.questions import can_person_answer

if TYPE_CHECKING:
    from ...context import Context
    from ...history.turn_view import TurnView
    from ...history.worktree_timeline import WorktreeTimeline
    from ...model.diff import Change
    from ...model.turn_records import Turn
    from ..grammar.command_line import ParsedOptions

_MAGIC = (":(", ":!", ":/", ":^")
_PATTERN = frozenset("*?[")
_RECENT_NS = 60 * 1_000_000_000
_SEARCHED = 50
"""Turns that are searched for the change of a path."""


def take_restore_target(context: "Context", options: "ParsedOptions") -> Checkpoint:
    """The checkpoint of a restore. The paths are stored in `options.rest`.

    Raises UsageError for a word that is also a path, and CheckpointNotFound.
    """
    word, name = options.ref, options.command
    assert word is not None  # the command has asked for it
    if options.dashed and options.paths:
        raise errors.UsageError(f"{name}: put all paths after --")
    named = Words(context, options)
    point = _checkpoint_or_better_hint(context, word, lambda: f"casrewind {name} {named.before_change(word)}", options)
    if not options.dashed:
        if _is_existing_path(word, options):
            raise errors.UsageError(
                f"{printable(word)!r} is both a checkpoint and a path",
                f"casrewind {name} {point.id} means the checkpoint, casrewind {name} {named.before_change(word)} means the path"
            )
        options.rest, options.dashed = options.paths, bool(options.paths)
    return point


def paths_of(
    context: "Context", words: Sequence[str], points: Iterable[Checkpoint], options: "ParsedOptions", *, worktree: bool = True
) -> tuple[bytes, ...]:
    """The paths below the root that words of the command line mean (history/pathspecs.py)."""
    if not words:
        return ()  # most commands have none, and do without the module
    from ...history import pathspecs

    return pathspecs.resolve_words(context, points, words, options.directory, worktree=worktree)


class Side(NamedTuple):
    """A side of a diff. `point` None: the files as they are. `turn`: its turn, or None. `side`: before or after it.
    `number`: the turn as a person types it."""

    point: Checkpoint | None
    turn: "Turn | None" = None
    side: str = "checkpoint"
    number: str = ""


NOW = Side(None, None, "now")


class Words:
    """Resolves the words of one command. All words are resolved under one reading of the ledger."""

    def __init__(self, context: "Context", options: "ParsedOptions") -> None:
        """Nothing is read before a word needs it."""
        self._context, self._options = context, options
        self._timelines: dict[bytes, WorktreeTimeline] = {}
        self._place = ReferencePlace(context.root.key, "", "")

    @property
    def view(self) -> "TurnView":
        """The turns of the worktree, or of the machine that the word resolved last names."""
        return self._timeline.whole.view

    @property
    def _timeline(self) -> "WorktreeTimeline":
        """That of the worktree, or of the machine that the word resolved last names."""
        from ...history.worktree_timeline import WorktreeTimeline

        if self._place.worktree not in self._timelines:
            self._timelines[self._place.worktree] = WorktreeTimeline(self._context, place=self._place)
        return self._timelines[self._place.worktree]

    def view_with(self, turn: "Turn") -> "TurnView":
        """A view that has a turn. Older turns may be missing in it: `view` has all."""
        return self._timeline.with_turns(turn.n)

    def newest(self) -> "Turn | None":
        """The newest turn."""
        view = self._timeline.with_turns(1)
        return view.turns[0] if view.turns else None

    def turn_of(self, point: Checkpoint) -> "Turn | None":
        """The turn that a checkpoint belongs to."""
        return self._timeline.with_checkpoint(point.id).turn_of(point.id)

    def _switch_to_machine_of(self, word: str) -> str:
        """A word without its machine. Its machine is that of the view from now on."""
        self._place = lookup.machine_place(self._context, word)
        return self._place.reference

    def side_named(self, word: str) -> Side:
        """The state that a word names. Raises CheckpointNotFound, AmbiguousReference."""
        from ...history.checkpoint_names import turn_of

        there = self._switch_to_machine_of(word)
        reference = turn_of(there)
        if reference is not None and not self._is_number_of_machine(there):
            view = self._timeline.with_turns(reference[0])
            try:
                of, state = view.find_state(there)
            except errors.CheckpointError:
                of, state = self.view.find_state(there)  # the message names an older checkpoint
            return Side(state, view.with_marks(of), "after" if reference[1] else "before", view.typed_number(of))
        point: Checkpoint = lookup.checkpoint(self._context, word)
        if point.more.machine:
            self._place = ReferencePlace(point.worktree, lookup.name_of_machine(self._context, point), there)
        turn = self.view.turn_of(point.id) if point.id.startswith(there) else None
        if turn is None or turn.before != point.id:
            return Side(point)
        return Side(point, turn, "before", self.view.typed_number(turn))

    def _is_number_of_machine(self, there: str) -> bool:
        """True for a number without `@` behind a machine: turns there have none."""
        return bool(self._place.machine) and there.isdigit()

    def with_changes(self, turn: "Turn") -> "Turn":
        """A turn with its changes. A turn that has no end yet is compared with the files as they are."""
        view = self.view_with(turn)
        if turn.to_now and turn.before is not None:
            view.scan_worktree()
        return view.with_changes(turn)

    def known_states(self, turn: "Turn") -> list[Checkpoint]:
        """The checkpoints before and after a turn that are known."""
        points = self.view_with(turn).points
        return [points[identity] for identity in (turn.before, turn.after) if identity is not None]

    def turn_without_end(self, word: str) -> "Turn | None":
        """The turn without an end yet, if the word names the state after it: the files as they are. Else None."""
        found = self.side_named(word) if self._is_bare_number(word) else None
        return found.turn if found is not None and found.point is None else None

    def shown_object(self) -> "Turn | Checkpoint":
        """The object of `show`: a turn for `N`, `@N` and its first checkpoint, else a checkpoint. Default: newest turn."""
        from ...history.checkpoint_names import turn_of

        word = self._options.ref
        if word is None:
            return self.newest() or lookup.checkpoint(self._context, "last")
        there = self._switch_to_machine_of(word)
        reference = turn_of(there)
        if reference is not None and not reference[1] and not self._is_number_of_machine(there):
            return self._timeline.with_turns(reference[0]).find_turn(there)
        point = _checkpoint_or_better_hint(self._context, word, lambda: f"casrewind log {shell_quoted(word)}", self._options)
        found = self.side_named(word) if point.id.startswith(there) else Side(point)
        return found.turn if found.turn is not None and found.side == "before" else point

    def take_diff_sides(self) -> list[Side]:
        """The sides of a diff, two at most. The paths are stored in `options.rest`.

        As in git, the first word that is not a checkpoint is a path, and so are all later words. Raises UsageError for
        a word that is both, and CheckpointNotFound for a word that is neither.
        """
        options = self._options
        if options.dashed:
            if len(options.words) > 2:
                raise errors.UsageError("diff takes at most two checkpoints", "paths go after --")
            return [self._side_of_only_word(word) for word in options.words]
        found: list[Side] = []
        words = list(options.words)
        while words and len(found) < 2:
            word = words[0]
            if word.startswith(_MAGIC):
                break
            try:
                side = self.side_named(word)
            except errors.CheckpointError:
                points = [side.point for side in found if side.point is not None]
                if _is_existing_path(word, options) or _PATTERN & set(word) or _is_in_checkpoint(self._context, word, points, options):
                    break
                raise
            if _is_existing_path(word, options):
                before = "casrewind diff " + "".join(f"{_id_as_word(side)} " for side in found)
                raise errors.UsageError(
                    f"{printable(word)!r} is both a checkpoint and a path",
                    f"{before}{_id_as_word(side)} means the checkpoint, {before}-- {shell_quoted(word)} means the path",
                )
            found.append(side)
            words.pop(0)
        options.rest = words
        return found

    def _side_of_only_word(self, word: str) -> Side:
        if not self._is_bare_number(word):
            _checkpoint_or_better_hint(self._context, word, lambda: f"casrewind diff -- {shell_quoted(word)}", self._options)
        return self.side_named(word)

    def why_numbers_moved(self, word: str) -> str:
        """For a turn's number: that a prompt of the last minute moved the numbers, so that `--yes` may have been meant for
        another turn. "" if none did, or if no person at a terminal can be asked."""
        if not self._is_bare_number(word) or not can_person_answer():
            return ""
        newest, is_only = self.view.turns[0], len(self.view.turns) == 1
        if is_only or newest.started_ns is None or time.time_ns() - newest.started_ns > _RECENT_NS:
            return ""
        from ..show.restored import turn_name

        return f"the numbers changed in the last minute: @1 is now {turn_name(newest).removeprefix('@1 ')}"

    def before_change(self, word: str) -> str:
        """The words that restore a path to before the newest of the last turns that changed it, else as it was last saved."""
        with suppress(errors.CasrewindError):
            covered = paths.PathScope(roots.paths_below_root(self._context.root.path, [word], self._options.directory)).covers
            for turn in self.view.turns[:_SEARCHED]:
                if turn.before and any(covered(change.path) for change in self.view.with_changes(turn).changes or ()):
                    return f"@{turn.n} {shell_quoted(word)}"
        return f"last -- {shell_quoted(word)}"

    def first_other_turn(self, words: Sequence[str], changes: "Sequence[Change]") -> str | None:
        """The first word that reads as a turn and is no path: not in the worktree, nor among `changes`."""
        for word in words:
            if self._is_bare_number(word) and not _is_existing_path(word, self._options):
                covered = paths.PathScope(roots.paths_below_root(self._context.root.path, [word], self._options.directory)).covers
                if not any(covered(change.path) for change in changes):
                    return word
        return None

    def _is_bare_number(self, word: str) -> bool:
        from ...history.checkpoint_names import turn_of

        return turn_of(word) is not None


def _id_as_word(side: Side) -> str:
    """A side as a word: the id of its checkpoint."""
    return f"after:@{side.turn.n}" if side.point is None and side.turn is not None else side.point.id if side.point is not None else ""


def _is_existing_path(word: str, options: "ParsedOptions") -> bool:
    """True if a word is an existing path, relative to the start directory of the command."""
    try:
        return bool(word) and os.path.lexists(os.path.join(options.directory, word))
    except ValueError:  # a NUL
        return False


def _is_in_checkpoint(context: "Context", word: str, points: list[Checkpoint], options: "ParsedOptions") -> bool:
    """True if a compared checkpoint contains this path."""
    from ...history.compare import is_anywhere

    try:
        (path,) = roots.paths_below_root(context.root.path, [word], options.directory)
        return is_anywhere(context, points or [lookup.checkpoint(context, "last")], path)
    except errors.CasrewindError:
        return False


def _checkpoint_or_better_hint(context: "Context", word: str, instead: Callable[[], str], options: "ParsedOptions") -> Checkpoint:
    """The checkpoint that a word names. The error message for a path ends with `instead`, the correct command."""
    try:
        found: Checkpoint = lookup.checkpoint(context, word)
    except errors.CheckpointNotFound as error:
        if _is_existing_path(word, options):
            raise errors.CheckpointNotFound(f"no checkpoint {printable(word)!r}, but a path of that name", instead()) from error
        raise
    return found


def remark_on_namesakes(context: "Context", given: Sequence[str]) -> None:
    """Say which machine a plain name means, if several have it. `given`: words that may be references."""
    told = set()
    for word in given:
        name = word.partition(":")[0]
        with suppress(errors.CasrewindError):
            place = lookup.machine_place(context, word) if name not in told else None
            if place is not None and place.namesakes:
                told.add(name)
                number = f"the newest of {place.namesakes:,} machines of that name ({place.machine})"
                note(f"{printable(name)}: {number}; {as_typed('list --remote')} names the others")
