"""The plan of a restore and its result, as lines and as JSON."""

import os
from collections.abc import Iterable, Iterator, Sequence

from ..._typing import TYPE_CHECKING, NamedTuple
from ...messages import age_in_words, enumerated, first_line, plural, printable, shell_quoted_path
from ...model.at_risk import OnlyCopy, OutsideEdits
from ...model.checkpoint import Checkpoint
from ...model.diff import Change, count, counted_changes
from ...model.manifest import FILE
from ...model.plan import EDITED, OUTSIDE, UNSEEN_END, Action, Kept, Merged, Plan
from ...model.undo_history import ABORT, REDO, RESTORE, REVERT, TAKE, UNDO
from ...store.catalog import Marked
from ...typed_commands import as_typed, in_terminal
from .text import RED_BOLD, SCREEN, SHOWN, Line, Part, column_width, cut_to, human_size, styled

if TYPE_CHECKING:
    from ...change.result import Materialised, Restored
    from ...history.inner_projects import InnerTurns
    from ...model.at_risk import OpenFile
    from ...model.turn_records import Turn
    from .changes import Row
    from .shapes import Shape

_TITLE = 40
"""Characters of a label or prompt in the title of a plan."""
_OUTSIDE = 3  # paths that were edited outside of a turn, by name
_NAMED = 10
"""Paths that a result names in a client, and ignored files that came along."""
_COMMIT = 12  # characters of a commit's hash


class RestoreTarget(NamedTuple):
    """What a restore goes to. `name`: in words, with its turn, age and id. `turn`: the number of its turn, or None.
    `made_ns`: when the checkpoint was made, in nanoseconds since 1970, or None. `state`: in one word, as in @3."""

    name: str
    turn: int | None
    made_ns: int | None
    state: str = ""


OPTION = "--keep-edits"
"""The option that keeps the edits that a plan would take back."""
CHANGES_SINCE = "  takes over only what changed there since {}; edits here stay"
UNDO_KEEPS = "The state before is kept for undo."
REDO_KEEPS = "The state before is kept for redo."
NO_TARGET = RestoreTarget("", None, None)
_DONE = {"restore": "restored", "revert": "reverted", "take": "taken", "undo": "undone", "redo": "redone", "abort": "taken back"}
_UNCUT = "  the disk is full: the half-restored state is not kept, and a turn that runs is shown with these changes"
_SAYS_WAY_BACK = frozenset({RESTORE, REVERT, TAKE})
"""The operations whose result names the state before. The name of what they did needs no colon."""


def restored_lines(
    report: "Restored", name: str = "", *, state: str = "", is_inside: bool = False, has_way_back: bool = True,
) -> Iterator[Line]:  # fmt: skip
    """The result of a restore, undo or redo, or of a dry run. `name`: what it was, behind "restored". `state`: its target in one
    word. `is_inside`: a person reads it in a client, or at the end of an interrupted restore, and may not have seen the plan.
    `has_way_back`: it ends with `way_back_lines`."""
    wrote, removed = written_and_removed(report.actions)
    actions = wrote + removed
    if report.dry_run:
        would = "take" if report.op == TAKE else "restore"
        stays = f"; {plural(report.unchanged, 'path')} would stay" if report.unchanged or not (actions or report.kept) else ""
        yield Line(f"would {would} {plural(wrote, 'path')} and remove {removed}{stays}")
        plan = Plan(report.actions, report.kept, report.merged, report.only_copies, report.open_files)
        yield from plan_lines(plan, names_sizes=report.op == TAKE)
        yield from _inexact_note(report, state)
        return
    verb = _DONE[report.op]
    if not actions and (report.edited or report.incomplete or (report.kept and not report.unchanged)):
        yield Line(f"nothing was {verb}")
    elif not actions:
        yield Line("taken back: no path had changed yet" if report.op == ABORT else f"nothing to do: {_why_nothing(report)}")
    else:
        counts = f"{plural(wrote, 'path')} written{_merged_count(report.merged)}, {removed} removed, {report.unchanged} unchanged"
        if name:
            yield Line(f"{verb}{'' if report.op in _SAYS_WAY_BACK else ':'} {name}")
        yield Line(f"  {counts}" if name else f"{verb}: {counts}")
        if is_inside:
            yield from first_changes(report.actions, _NAMED, f"; {as_typed('list')} names the restore")
    if name and not actions:
        yield Line(f"  asked for: {report.op} {name}")
    yield from _kept_lines(report.kept, report.actions)
    yield from _open_file_lines(report.open_files, ": it may write over this")
    yield from _marked_lines(report.merged)
    yield from _inexact_note(report, state)
    if report.tells_agent:
        yield Line("  the agent will be told (hooks.tell_agent)")
    if has_way_back:
        yield from way_back_lines(report)


def way_back_lines(report: "Restored") -> Iterator[Line]:
    """How to go back to the state before. It needs no id: --json has that."""
    has_changes = any(written_and_removed(report.actions))
    if report.op in _SAYS_WAY_BACK and report.safety:
        yield Line(f"  {as_typed('undo')} takes this back")
    if report.only_copies and report.safety:
        names = first_names([item.path for item in report.only_copies])
        yield Line(f"  the state before is pinned: it may have the only copy of {names}")
    if report.op == REDO and report.actions:
        yield Line(f"  {as_typed('undo')} takes the redo back")
    if report.op == ABORT and report.actions:
        half = f"  {as_typed(f'restore {report.safety}')} goes back to the half-restored state"
        yield Line(half if report.safety else _UNCUT)
    if report.op == UNDO and any(item.reason == EDITED for item in report.kept):
        more = f"restore {report.target} -- PATH ..." if has_changes else "undo --all"
        yield Line(f"  to put those back too: {as_typed(more)}")
    elif report.op == UNDO and has_changes:
        yield Line(f"  {as_typed('redo')} takes the undo back")


def _why_nothing(report: "Restored") -> str:
    if report.op == TAKE and not report.unchanged:
        return "nothing changed there since it was made"
    has_it = "already taken back" if report.op == REVERT else "the worktree has it already"
    return f"{has_it} ({plural(report.unchanged, 'path')} unchanged)"


def materialised_lines(report: "Materialised", name: str, given: Sequence[str]) -> Iterator[Line]:
    """The directories that a checkpoint was written into, and the ignored files that came along. `name`: the checkpoint's, behind
    "restored". `given`: the directories, as a person names them."""
    commit = f"; made at commit {report.commit[:_COMMIT]}" if report.commit else ""
    for each, directory in zip(report.written, given, strict=True):
        if report.dry_run:
            yield Line(f"would write {plural(each.files, 'file')} to {printable(directory)}{commit}")
            continue
        own = f" ({each.from_worktree:,} from the worktree)" if each.from_worktree else ""
        yield Line(f"wrote {plural(each.files, 'file')} to {printable(directory)}{own} in {each.seconds:.1f} s{commit}")
        if each.origin_problem:
            yield Line(f"  casrewind could not note its origin ({each.origin_problem}): casrewind take needs --base {report.target} for it")
    if report.carried:
        named = [f"{printable(path)} ({human_size(number)})" for path, number in report.carried[:_NAMED]]
        rest = report.carried[_NAMED:]
        more = [f"{len(rest):,} more ({human_size(sum(number for _, number in rest))})"] if rest else []
        yield Line(f"  and {plural(len(report.carried), 'ignored file')}, as now (.worktreeinclude): {enumerated([*named, *more])}")
    yield Line(f"  {'would be ' if report.dry_run else ''}restored {name}")
    yield from _kept_lines(report.kept, report.actions)


def first_changes(actions: Sequence[Action], most: int, hint: str = "") -> Iterator[Line]:
    """The first `most` changes, removals first, and how many more there are with `hint`."""
    found = [row for side in _removals_and_rest(actions) for row in side]
    for row in found[:most]:
        yield row.line().with_around("  ")
    if len(found) > most:
        yield Line(f"  ... and {len(found) - most:,} more{hint}")


def _removals_and_rest(actions: Sequence[Action]) -> "tuple[list[Row], list[Row]]":
    """The rows of these actions: removals, and the rest. A new or removed directory is one row."""
    from .changes import change_rows

    found = change_rows([Change(action.path, action.before, action.after) for action in really_changes(actions)])
    return [row for row in found if row.sign == "-"], [row for row in found if row.sign != "-"]


def headline(title: str, plan: Plan) -> Line:
    """A plan's title with the numbers of written and removed paths: 2 written, 39 REMOVED."""
    written, removed = written_and_removed(plan.actions)
    parts: list[Part] = [f"{title}: "]
    if written or not removed:
        parts.append(f"{written:,} written{_merged_count(plan.merged)}{', ' if removed else ''}")
    if removed:
        parts.append((f"{removed:,} REMOVED", RED_BOLD))
    return styled(*parts)


def plan_lines(plan: Plan, *, names_sizes: bool = False) -> Iterator[Line]:
    """The changes of a plan, removals first, and only some of many. `names_sizes`: of what comes from elsewhere, too."""
    from .changes import rows_by_directory

    yield from _open_file_lines(plan.open_files, "; stop it first")
    merged = {item.path: item for item in plan.merged}
    for side in (rows_by_directory(side, SHOWN, merged) for side in _removals_and_rest(plan.actions)):
        for row in side[:SHOWN]:
            row = _with_size(row, plan.actions) if names_sizes and row.sign == "+" else row
            if row.path in merged:
                yield from _merged_lines(row if names_sizes else row._replace(more=""), merged[row.path])
            else:
                yield row.line().with_around("  ")
        if len(side) > SHOWN:
            yield Line(f"  ... and {sum(row.files for row in side[SHOWN:]):,} more; {in_terminal('--dry-run --json lists all of them')}")
    yield from _kept_lines(plan.kept)
    yield from _only_copy_lines(plan.only_copies)


def _with_size(row: "Row", actions: Iterable[Action]) -> "Row":
    """The row of a new file or directory, with the size of what comes."""
    below = (action.after.size for action in actions if action.after is not None and action.after.kind == FILE and _is_of_row(action, row))
    return row._replace(more=", ".join(filter(None, (row.more, human_size(sum(below))))))


def _is_of_row(action: Action, row: "Row") -> bool:
    return action.path == row.path or (row.path.endswith(b"/") and action.path.startswith(row.path))


def _only_copy_lines(found: Sequence[OnlyCopy]) -> Iterator[Line]:
    """The removed files that may be ignored ones, which no checkpoint had."""
    for item in found[:_OUTSIDE]:
        path, source = printable(item.path), printable(item.source)
        if source:
            yield Line(f"  {path} may be your {source}; casrewind include {shell_quoted_path(item.source)} protects it")
        else:
            yield Line(f"  {path} may be a file of yours that was ignored; no older checkpoint has it")
    if len(found) > _OUTSIDE:
        yield Line(f"  ... and {len(found) - _OUTSIDE:,} more files that may be ignored ones; {in_terminal('--json lists them')}")


def _open_file_lines(found: "Sequence[OpenFile]", what_to_do: str) -> Iterator[Line]:
    """The databases that programs have open for writing, and the other files of a plan beside them."""
    programs: dict[tuple[bool, bytes], list[str]] = {}
    for item in found:
        programs.setdefault((item.is_database, item.path), []).append(f"{printable(item.program)} (pid {item.pid})")
    for is_database, path in list(programs)[:SHOWN]:
        names = enumerated(programs[is_database, path])
        if is_database:
            yield styled((f"  {printable(path)} is open for writing in {names}{what_to_do}", RED_BOLD))
        else:
            yield Line(f"  also open for writing: {printable(path)} in {names}")
    if len(programs) > SHOWN:
        yield Line(f"  ... and {plural(len(programs) - SHOWN, 'more open file')}; {in_terminal('--dry-run --json lists all of them')}")


def _merged_lines(row: "Row", item: Merged) -> Iterator[Line]:
    """A file that becomes a merge: in one line if it has room."""
    line, words = row.line().with_around("  "), _merge_in_words(item)
    if column_width(line.text) + 2 + column_width(words) <= SCREEN:
        yield line.with_around("", f"  {words}")
    else:
        yield from (line, Line(f"      {words}"))


def _merge_in_words(item: Merged) -> str:
    """What a merge takes back, and which lines it keeps: those of other turns, and yours."""
    whose = enumerated([*(f"@{number}" for number in item.by), *(["yours"] if item.is_yours else [])])
    taken = f"{f'of {item.machine} ' if item.machine else ''}taken {'over' if item.is_taken_over else 'back'}"
    parts = [f"{plural(item.taken, 'place')} {taken}"] if item.taken or not item.conflicts else []
    parts += [f"{plural(item.kept, 'line' if whose else 'later line')}{f' of {whose}' if whose else ''} kept"] if item.kept else []
    return "merged: " + ", ".join([*parts, *([f"markers at {plural(item.conflicts, 'place')}"] if item.conflicts else [])])


def _marked_lines(merged: Sequence[Merged]) -> Iterator[Line]:
    """The files that have markers now."""
    marked = [item.path for item in merged if item.conflicts]
    if marked:
        yield Line(f"  conflicts to resolve, between markers: {first_names(marked)}", is_remark=True)


def _merged_count(merged: Sequence[Merged]) -> str:
    return f" ({len(merged):,} merged with later edits)" if merged else ""


def what_stays_lines(machine: str, turns: "Sequence[Turn]") -> Iterator[Line]:
    """Says what a restore with --keep-edits changes, and what stays. `machine`: the machine of the checkpoint, "" = this one.
    `turns`: the turns that it takes back, newest first."""
    if machine:
        yield Line(f"  takes over only what {printable(machine)} changed since both were equal; edits here stay")
        return
    yield Line("  takes back what turns changed since then; edits made outside of turns stay")
    if turns:
        name, whose = f"@{turns[-1].n}..@{turns[0].n}", "theirs"
        if len(turns) == 1:
            name, whose = f"@{turns[0].n}", f"@{turns[0].n}'s"
        yield Line(f"  what changed while {name} ran counts as {whose}, even if you did it")
    for turn in turns:
        if turn.running:
            yield Line(f"  @{turn.n} still runs, or was stopped with Esc")


def unknown_lines(turns: "Sequence[Turn]") -> Iterator[Line]:
    """The turns that a revert leaves out."""
    if turns:
        yield Line(f"NOTE: not taken back, because casrewind does not know what they changed: {', '.join(f'@{turn.n}' for turn in turns)}")


def _inexact_note(report: "Restored", state: str) -> Iterator[Line]:
    """That a restore kept edits, so that the files are not as in the checkpoint."""
    if report.edited:
        keep = f"{plural(len(report.edited), 'path')} {'keeps' if len(report.edited) == 1 else 'keep'} your edits"
        yield Line(f"  not the exact state of {state or report.target}: {keep}")


def _untouched_path_lines(left: Sequence[Kept]) -> Iterator[Line]:
    """The paths that no turn changed, which a restore leaves to the person. A directory stands for what is in it."""
    found: list[bytes] = []
    for item in left:
        if not (found and item.path.startswith(found[-1] + b"/")):
            found.append(item.path)
    return _titled_path_lines("kept, yours", found, f"{len(found) - SHOWN:,} more; {in_terminal('--json lists all of them')}")


def _kept_lines(left: Sequence[Kept], done: Sequence[Action] = ()) -> Iterator[Line]:
    """The paths that were left alone, and those of `done` that were not restored as planned. What a person did not ask for
    is a remark."""
    yield from _untouched_path_lines([item for item in left if item.why == OUTSIDE])
    for reason in dict.fromkeys(item.explanation for item in left if item.why == UNSEEN_END):
        found = [item.path for item in left if item.explanation == reason]
        more = f"{len(found) - SHOWN:,} more; {in_terminal('--json lists all of them')}"
        lines = _titled_path_lines(f"left alone, {reason}", found, more)
        yield from (line._replace(is_remark=True) for line in lines)
    left = [item for item in left if item.why not in (OUTSIDE, UNSEEN_END)]
    named = {item.path for item in left[:SHOWN]}
    restored = {action.path for action in done if action.path in named} if named else set()
    for item in left[:SHOWN]:
        what = "note" if item.path in restored else "left alone"
        yield Line(f"  {what}: {printable(item.path)}: {printable(item.explanation)}", is_remark=not item.benign)
    if len(left) > SHOWN:
        yield Line(f"  ... and {len(left) - SHOWN} more paths, left alone or noted; {in_terminal('--json lists all of them')}")


def outside_lines(found: OutsideEdits, option_that_keeps: str = OPTION) -> Iterator[Line]:
    """The paths of a plan with edits that were made outside of a turn, or may have been. `option_that_keeps`: what keeps them, if
    it can be had."""
    if found.proved:
        were = "was" if len(found.proved) == 1 else "were"
        since = f"{'here' if found.is_of_machine else 'since then'}, outside of a turn" if not found.is_of_undo else "since the restore"
        yield Line(f"  {len(found.proved):,} of these paths {were} edited {since}. Those edits will be lost:")
        yield Line(f"    {first_names(found.proved)}")
        if found.is_of_undo:
            yield Line(f"  (undo without --all keeps them; {as_typed('redo')} brings them back)")
        if option_that_keeps and found.can_stay:
            yield Line(f"  ({option_that_keeps} keeps them; {as_typed('undo')} brings everything back)")
    if found.possible:
        yield Line(f"  {len(found.possible):,} of these paths may contain your edits (casrewind did not see their turn end, as after Esc):")
        yield Line(f"    {first_names(found.possible)}")


def first_names(paths: Sequence[bytes]) -> str:
    """The first paths, and how many more there are."""
    more = f" and {len(paths) - _OUTSIDE:,} more" if len(paths) > _OUTSIDE else ""
    return f"{', '.join(map(printable, paths[:_OUTSIDE]))}{more}"


def foreign_lines(paths: Sequence[bytes]) -> Iterator[Line]:
    """The paths that another session may have changed."""
    return _titled_path_lines("changed while another session ran", paths, f"{len(paths) - SHOWN} more")


def inner_lines(found: "Sequence[InnerTurns]") -> Iterator[Line]:
    """The directories with turns of their own that a plan changes paths in."""
    for each in found[:SHOWN]:
        lie = f"{plural(each.paths, 'path')} {'lies' if each.paths == 1 else 'lie'} in {printable(each.path)}, which"
        if each.turns is None:
            yield Line(f"  {lie} has a store of its own that cannot be read")
        else:
            yield Line(f"  {lie} has had {plural(each.turns, 'turn')} of its own since then")
    if len(found) > SHOWN:
        yield Line(f"  ... and {len(found) - SHOWN} more directories with turns of their own")


def inner_json(found: "Sequence[InnerTurns]") -> "list[Shape]":
    """The same as JSON."""
    from . import shapes

    return [{**shapes.path(each.path), "turns": each.turns, "paths": each.paths} for each in found]


def _titled_path_lines(title: str, paths: Sequence[bytes], more: str) -> Iterator[Line]:
    """Paths below their title, and `more` in place of those that are too many. Nothing without a path."""
    if paths:
        yield Line(f"  {title} ({plural(len(paths), 'path')}):")
    for path in paths[:SHOWN]:
        yield Line(f"    {printable(path)}")
    if len(paths) > SHOWN:
        yield Line(f"    ... and {more}")


def name_of(point: Checkpoint, marked: Marked, turn: "Turn | None" = None) -> str:
    """A checkpoint's name in a plan: its label or prompt, else its id and trigger, and the other machine that it is of. `turn`: the
    one that it is the state before or after of."""
    return _label_prompt_or_id(point, marked, turn) + (f" of {printable(point.more.machine)}" if point.more.machine else "")


def _label_prompt_or_id(point: Checkpoint, marked: Marked, turn: "Turn | None") -> str:
    from ...history.checkpoint_names import is_labelled, label_of
    from ...model.checkpoint import MANUAL, PROMPT, WATCH

    label = label_of(point, marked)
    if label and is_labelled(point, marked):
        return f"'{first_words(label)}'"
    if turn is not None:
        return f"{'before' if turn.before == point.id else 'after'} {quoted_title(turn)}"
    if point.prompt:
        return f'{"before" if point.trigger == PROMPT else "after"} "{first_words(point.prompt)}"'
    if label:
        return f"'{first_words(label)}'"
    return point.id if point.trigger in (MANUAL, WATCH) else f"the {point.trigger.replace('_', ' ')} {point.id}"


def first_words(text: str) -> str:
    """The first words of a prompt or label: of its first line, as a list has it."""
    return cut_to(first_line(text), _TITLE)


def quoted_title(turn: "Turn") -> str:
    """The name of a turn where its number stands beside it: "make it work"."""
    return f'"{cut_to(turn.title, _TITLE)}"'


def turn_name(turn: "Turn") -> str:
    """A turn in words: @3 "make it work" (cut short, 5 min ago)."""
    details = ", ".join(turn_details(turn))
    return f"{turn.name} {quoted_title(turn)}{details and f' ({details})'}"


def turn_details(turn: "Turn") -> list[str]:
    """What is said of a turn behind its name: its marks, and its age if that is known."""
    return [*turn.marks, *([] if turn.at_ns is None else [age_in_words(turn.at_ns)])]


def marks_in_brackets(turn: "Turn") -> str:
    """The marks of a turn, to be put behind its name: " (cut short, taken back)", or ""."""
    return f" ({', '.join(turn.marks)})" if turn.marks else ""


def really_changes(actions: Iterable[Action]) -> Iterator[Action]:
    """The actions that change content. An action that only opens a directory for other actions is excluded."""
    return (found for found in actions if found.before != found.after or found.source != found.path)


def written_and_removed(actions: Iterable[Action]) -> tuple[int, int]:
    """Returns (number of paths written, number of paths removed), as every list counts them (model/diff.py)."""
    counts = count(Change(found.path, found.before, found.after) for found in really_changes(actions))
    return counts.added + counts.modified, counts.removed


def restored_json(
    report: "Restored", outside: Sequence[bytes] = (), target: RestoreTarget = NO_TARGET, inner: "Sequence[InnerTurns]" = (),
) -> "Shape":  # fmt: skip
    """The result of a restore, undo or redo, as JSON. `outside`: the paths that were edited outside of a turn. `inner`: the
    directories with turns of their own."""
    from . import shapes

    written, removed = written_and_removed(report.actions)
    merged = {item.path: item for item in report.merged}
    changes = (Change(found.path, found.before, found.after) for found in really_changes(report.actions))
    exact = {"exact": report.exact} if report.op == "restore" else {}
    made_at = None if target.made_ns is None else shapes.time_of(target.made_ns)
    return {
        "restored": written,
        "removed": removed,
        "unchanged": report.unchanged,
        "skipped": [_kept_shape(item) for item in report.kept],
        "foreign": [path.decode("utf-8", "replace") for path in report.foreign],
        "inner_projects": inner_json(inner),
        **exact,
        "edited_outside": [path.decode("utf-8", "replace") for path in report.edited or outside],
        "open_files": [
            {**shapes.path(item.path), "program": item.program, "pid": item.pid, "database": item.is_database} for item in report.open_files
        ],
        "safety": report.safety or None,
        "target": report.target or None,
        "turn": target.turn,
        "target_made_at": made_at,
        "dry_run": report.dry_run,
        "only_copies": [
            {**shapes.path(item.path), "source": item.source.decode("utf-8", "replace") or None} for item in report.only_copies
        ],
        "changes": [_change_shape(found, merged.get(found.path)) for found in counted_changes(changes)],
    }


def materialised_json(report: "Materialised", target: RestoreTarget, forks: "Sequence[Shape | None]") -> "Shape":
    """The result of restore --to, as JSON: that of a restore, and the directories. `forks`: their conversations; () = none was asked
    for."""
    from ...change.result import Restored
    from . import shapes

    written = [
        {
            **shapes.path(os.fsencode(os.path.abspath(item.directory)), "directory"), "files": item.files,
            "from_worktree": item.from_worktree, "seconds": round(item.seconds, 3), "fork": fork,
            "origin_problem": item.origin_problem or None,
        }
        for item, fork in zip(report.written, forks or [None] * len(report.written), strict=True)
    ]  # fmt: skip
    carried = [{**shapes.path(path), "size": number} for path, number in report.carried]
    restored = Restored("materialise", report.target, "", report.actions, report.kept, 0, dry_run=report.dry_run)
    return {**restored_json(restored, (), target), "written": written, "carried": carried, "commit": report.commit or None}


def _kept_shape(item: Kept) -> "Shape":
    from . import shapes

    lines = [list(places) for places in item.lines]
    return {**shapes.path(item.path), "reason": item.explanation, "why": item.why or None, "lines": lines, "by": list(item.by)}


def _change_shape(found: Change, merged: Merged | None) -> "Shape":
    from . import shapes

    how = "removed" if found.new is None else "written" if merged is None else "merged"
    counts = None if merged is None else {"taken": merged.taken, "kept": merged.kept, "conflicts": merged.conflicts}
    return {**shapes.change(found), "how": how, "merged": counts}
