"""casrewind gc."""


from ... import config
from ..._typing import TYPE_CHECKING
from ...hook import background_gc
from ...messages import age_in_words, plural, printable
from ...upkeep.gc import Collected, collect
from ..grammar.options import AUTO, DRY_RUN, JSON, Command, Option
from ..show.shapes import Shape
from ..show.text import human_size
from ..terminal.lines import note, print_json, print_line, remark
from . import OK, Done

if TYPE_CHECKING:
    from ...context import Context
    from ..grammar.command_line import ParsedOptions

COMMAND = Command(
    examples=("casrewind gc --max-age 14d --dry-run",),
    options=(
        Option(("--max-age",), "delete checkpoints older than AGE: 30d, 12h, 1d12h or P30D (default: as configured)", "AGE"),
        Option(("--max-count",), "keep the newest N checkpoints of each worktree (default: as configured)", "N"),
        Option(("--max-size",), "delete the oldest ones until the store has at most SIZE: 5GiB, 300MB (default: as configured)", "SIZE"),
        DRY_RUN._replace(help="show what gc would delete, and why"),
        AUTO, JSON,
    ),
    more=(
        "Never deletes the newest checkpoint, pinned or labelled checkpoints, those of live sessions, or what undo needs. casrewind runs "
        "gc automatically once a day, and when the store has reached its size limit."
    ),
    stays=True,
)


def run(context: "Context", options: "ParsedOptions", done: Done) -> int:
    """casrewind gc."""
    limits = context.limits
    if options.max_age is not None:  # an explicit age also deletes the newest ten checkpoints
        limits = limits._replace(max_age=config.parse_age(options.max_age, "--max-age"), keep_last=1)
    if options.max_count is not None:
        limits = limits._replace(max_count=config.parse_count(options.max_count, "--max-count"))
    if options.max_size is not None:
        limits = limits._replace(max_size=config.parse_size(options.max_size, "--max-size"))
    if options.auto:
        background_gc.run_gc(context, limits)
        return OK
    found = collect(context, limits, dry_run=options.dry_run)
    done()
    if options.json:
        print_json(_collected_json(found))
    elif not options.quiet:
        _print_collected(found)
    for line in found.notes:
        note(line)
    if found.damaged:
        remark(f"casrewind: {len(found.damaged)} damaged packs were left alone: run casrewind verify --repair")
    return OK


def _print_collected(found: Collected) -> None:
    freed = f"{human_size(max(found.bytes_before - found.bytes_after, 0))} of {human_size(found.bytes_before)}"
    dropped = plural(len(found.dropped), "checkpoint")
    if not found.dropped:
        print_line(f"no checkpoint to delete, {found.kept:,} kept; {'would free about' if found.dry_run else 'freed'} {freed}")
    elif found.dry_run:
        print_line(f"would delete {dropped} and keep {found.kept:,}; would free about {freed}")
    else:
        print_line(f"deleted {dropped} and kept {found.kept:,}; freed {freed}")
    if not found.dry_run:
        return
    for item in found.dropped:
        point = item.checkpoint
        what = point.label or point.prompt or point.trigger.replace("_", " ")
        print_line(f"  {point.id}  {age_in_words(point.created_ns):>12}  {item.reason}  {printable(what)}")


def _collected_json(found: Collected) -> Shape:
    return {
        "kept": found.kept,
        "dropped": len(found.dropped),
        "bytes_before": found.bytes_before,
        "bytes_after": found.bytes_after,
        "dry_run": found.dry_run,
        "checkpoints": [{"id": item.checkpoint.id, "reason": item.reason} for item in found.dropped],
    }
