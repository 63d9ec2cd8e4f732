"""casrewind show: a turn with what it changed, or a checkpoint with what it holds."""

from collections.abc import Iterator, Sequence

from ... import errors
from ..._typing import TYPE_CHECKING
from ...history import lookup, restorable
from ...messages import age_in_words, format_moment, plural, printable
from ...model import checkpoint as checkpoints
from ...model import domain as domains
from ...model.checkpoint import Checkpoint
from ...model.domain import Skip
from ...model.manifest import DIR, FILE, Entry
from ...model.turn_records import Turn
from ...store.catalog import Marked
from ...typed_commands import as_typed
from ..grammar.options import ASSUME_YES, FORMS, HTML, JSON, NO_PROMPTS, REF, Command, choice
from ..show import comparison, shapes
from ..show.changes import first_names, unclear_lines
from ..show.comparison import ENTRIES, STAT, form_of
from ..show.rows import RowWriter, elsewhere_in_words, end_in_words, why_unknown
from ..show.text import human_size, signed_counts, skipped_lines
from ..terminal.lines import print_json, print_line, print_lines, remark
from ..terminal.pager import pager
from ..terminal.table import terminal_width
from . import OK, Done, words

if TYPE_CHECKING:
    from ...context import Context
    from ..grammar.command_line import ParsedOptions
    from ..show.shapes import Shape

COMMAND = Command(
    examples=("casrewind show", "casrewind show @2 -p"),
    options=(
        REF._replace(help="a turn (@2), a subagent of one (@2.1) or a checkpoint (default: the newest turn)", nargs="?"),
        *FORMS,
        choice("form", "entries", "--files", "show every path in the checkpoint, with its mode and size"),
        HTML, NO_PROMPTS, ASSUME_YES, JSON,
    ),
    usage=(
        "[-p | --stat | --name-status | --name-only | --files] [-U N] [--word-diff] [--json] [REF]",
        "--html FILE [--no-prompts] [-y] [@N]",
    ),
    defaults={"form": ""},
    more="By default, show uses --stat for a turn, and --files for a checkpoint.",
)


def run(context: "Context", options: "ParsedOptions", done: Done) -> int:
    """casrewind show."""
    named = words.Words(context, options)
    found = named.shown_object()
    if options.html is not None:
        return _write_page(context, options, named, found, done)
    is_patch = options.context is not None or options.word_diff
    options.form = options.form or (STAT if isinstance(found, Turn) or is_patch else ENTRIES)
    if is_patch and options.form == STAT:
        options.form = "patch"
    if isinstance(found, Turn):
        return _show_turn(context, options, named, found, done)
    if not options.json and (options.form != ENTRIES or is_patch):
        return _show_change(context, options, named, found, done)
    entries = sorted(restorable.walk_with_checkpoint_id(context.store, found.tree))
    domain = context.store.domain(found.domain)
    marked = lookup.marks(context, found)
    done()
    if options.json:
        print_json(
            {
                "checkpoint": shapes.checkpoint(found, marked, lookup.current_id(context), named.turn_of(found)),
                "entries": [_entry_json(where, entry) for where, entry in entries],
                "skipped": shapes.skips(domain.skipped),
                "turn": None,
                "changes": None,
            }
        )
    else:
        with pager(options):
            _print_checkpoint(found, marked, named)
            _print_entries(entries, domain.skipped)
    return OK


def _write_page(context: "Context", options: "ParsedOptions", named: words.Words, found: Turn | Checkpoint, done: Done) -> int:
    """Write a turn as a page."""
    from ..plan.page_file import parts_of, write_page

    if options.json or not isinstance(found, Turn):
        raise errors.UsageError("show: --html shows a turn, for a browser", "casrewind show @1 --html FILE")
    view, turn = named.view_with(found), named.with_changes(found)
    write_page(context, options, view, f"turn {view.typed_number(turn)}", parts_of(context, view, [turn]), done)
    return errors.StoreDamaged.exit_code if turn.damaged else OK


def _show_turn(context: "Context", options: "ParsedOptions", named: words.Words, turn: Turn, done: Done) -> int:
    """Show a turn: its prompt, where and when it ran, and what it changed."""
    view, turn = named.view_with(turn), named.with_changes(turn)
    turn = view.with_changes_of_subagents(turn)
    code = errors.StoreDamaged.exit_code if turn.damaged else OK
    before = None if turn.before is None else view.points[turn.before]
    wants_entries = before is not None and (options.json or options.form == ENTRIES)
    entries = sorted(restorable.walk_with_checkpoint_id(context.store, before.tree)) if before is not None and wants_entries else []
    left_out = () if before is None else context.store.domain(before.domain).skipped
    done()
    if options.json:
        shown = None if before is None else shapes.checkpoint(before, view.marks[before.id], lookup.current_id(context), turn)
        changes = None if turn.changes is None else shapes.changes(turn.changes)
        print_json(
            {
                "turn": shapes.turn(turn),
                "changes": changes,
                "checkpoint": shown,
                "entries": [_entry_json(where, entry) for where, entry in entries],
                "skipped": shapes.skips(left_out),
            }
        )
        return code
    with pager(options):
        for line in _turn_lines(turn, view.typed_number(turn), left_out):
            print_line(line)
        writer = RowWriter(view, terminal_width(), f"{turn.n}.{len(turn.subagents)}", names_sessions=False, turns=turn.subagents)
        for one in turn.subagents:
            print_lines(writer.lines(one))
        if options.form == ENTRIES:
            print_line()
            _print_entries(entries, left_out)
        elif turn.changes is not None:
            print_line()
            if turn.changes:
                print_lines(comparison.comparison_lines(view.comparison(turn), form_of(options), terminal_width(), turn.unsure))
            else:
                print_line("nothing changed")
                print_lines(unclear_lines(view.comparison(turn).unclear))
            _print_shared_paths(turn)
    if turn.damaged:
        remark(
            f"casrewind: a part of what {view.typed_number(turn)} changed is damaged; {as_typed('verify')} shows what is affected"
        )
    return code


def _turn_lines(turn: Turn, number: str, left_out: Sequence[Skip]) -> Iterator[str]:
    """The lines above a turn's change. `number`: the turn as a person types it."""
    yield f"{'subagent' if turn.subagent else 'turn'} {number}{' of ' + printable(turn.agent) if turn.agent else ''}"
    texts = (("task", turn.prompt), ("type", turn.kind)) if turn.subagent else (("prompt", turn.prompt or "(no prompt)"),)
    for name, text in (*((name, text) for name, text in texts if text), *(("also", text) for text in turn.also)):
        first, *rest = text.splitlines() or [""]
        yield f"  {name:<8}  {printable(first)}"
        yield from (f"{'':12}{printable(line)}".rstrip() for line in rest)
    if turn.session:
        yield f"  session   {printable(turn.session)}"
    if turn.branch:
        yield f"  branch    {printable(turn.branch)}"
    start = "unknown" if turn.started_ns is None else format_moment(turn.started_ns)
    end = "now" if turn.to_now else "" if turn.ended_ns is None else format_moment(turn.ended_ns)[11:]
    end = f" to {end}" if end and not start.endswith(end) else ""
    yield f"  time      {start}{end}{f', {age_in_words(turn.at_ns)}' if turn.at_ns is not None else ''}"
    yield f"  states    {turn.before or 'forgotten'} -> {turn.after or ('the files now' if turn.to_now else 'forgotten')}"
    for told in filter(None, (end_in_words(turn), elsewhere_in_words(turn))):
        yield f"  {told}"
    late = [skip.path for skip in left_out if skip.reason == domains.LATE]
    if late:
        yield f"  changed while the checkpoint was made: {first_names(late)}"
    if turn.purged:
        yield f"  purged, and not compared: {first_names(turn.purged)}"
    if turn.changes is None:
        yield f"  {'what it changed is damaged in the store' if turn.damaged else f'{why_unknown(turn)}: what it changed is not known'}"


def _print_shared_paths(turn: Turn) -> None:
    by_names: dict[tuple[str, ...], list[bytes]] = {}
    for path, names in turn.others.items():
        by_names.setdefault(names, []).append(path)
    for names, found in by_names.items():
        print_line(f" ? changed while {' and '.join(names)} ran, too: {first_names(found)}")


def _show_change(context: "Context", options: "ParsedOptions", named: words.Words, point: Checkpoint, done: Done) -> int:
    """Print the changes of a checkpoint against its parent, in the requested form."""
    from ...history import compare

    found = compare.compare_with_parent(context, point)
    done()
    with pager(options):
        _print_checkpoint(point, lookup.marks(context, point), named)
        print_line()
        print_lines(comparison.comparison_lines(found, form_of(options), terminal_width()))
    return OK


def _print_checkpoint(point: Checkpoint, marked: Marked, named: words.Words) -> None:
    from ...history.checkpoint_names import label_of
    from ..show.shapes import time_of

    print_line(f"checkpoint {point.id} (number {point.seq} of its store)")
    print_line(f"  made      {time_of(point.created_ns)}, {age_in_words(point.created_ns)}, {point.trigger.replace('_', ' ')}")
    turn = named.turn_of(point)
    if point.trigger == checkpoints.SAFETY and (what := RowWriter(named.view).safety_title(point)):
        print_line(f"  what      {printable(what)}")
    label = label_of(point, marked)
    if label:
        print_line(f"  label     {printable(label)}")
    prompt = point.prompt or ("" if turn is None else turn.prompt)
    machine = printable(point.more.machine)
    if prompt:
        of = "" if turn is None else f" (turn {machine}:@{turn.n})" if machine else f" (turn @{turn.n})"
        print_line(f"  prompt    {printable(' '.join(prompt.split()))}{of}")
    for key, value in point.more.meta:
        print_line(f"  meta      {printable(key)}={printable(value)}")
    if marked.pinned:
        print_line("  pinned")
    print_line(f"  root      {printable(point.root)}{machine and f' on {machine}'}")
    print_line(f"  holds     {plural(point.files, 'file')}, {human_size(point.size)}; against its parent {signed_counts(point.changes)}")
    if point.flags & checkpoints.DURING_RESTORE:
        print_line("  made while a restore was unfinished")


def _print_entries(entries: Sequence[tuple[bytes, Entry]], left_out: Sequence[Skip]) -> None:
    for where, entry in entries:
        target = f" -> {printable(entry.target)}" if entry.target else ""
        tail = "/" if entry.kind == DIR else target
        length = "" if entry.kind == DIR else f"{entry.size}"
        print_line(f"{entry.kind:<5} {entry.mode & 0o7777:04o} {length:>12} {printable(where)}{tail}")
    print_lines(skipped_lines(left_out))


def _entry_json(where: bytes, found: Entry) -> "Shape":
    """One entry as in show --json."""
    return {
        **shapes.path(where),
        "kind": found.kind,
        "mode": shapes.mode_of(found),
        "size": shapes.size_of(found),
        "mtime_ns": found.mtime_ns if found.kind == FILE else None,
        "digest": found.digest.hex() if found.kind == FILE else None,
        **({"target": None} if not found.target else shapes.path(found.target, "target")),
    }
