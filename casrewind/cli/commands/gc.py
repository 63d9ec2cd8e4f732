"""casrewind gc."""

from ... import config, fsio
from ...ops.gc import Collected
from ...typed import Any
from ..output import age, as_json, note, plural, remark, say, size
from . import OK, Done


def gc(workspace: Any, options: Any, done: Done) -> int:
    """casrewind gc."""
    limits = options.limits
    if options.max_age is not None:  # who says it now means it: the newest ten are not spared for their age
        limits = limits._replace(max_age=config.parse_age(options.max_age, "--max-age"), keep_last=1)
    if options.max_count is not None:
        limits = limits._replace(max_count=config.parse_count(options.max_count, "--max-count"))
    if options.max_size is not None:
        limits = limits._replace(max_size=config.parse_size(options.max_size, "--max-size"))
    if options.auto:
        from .. import background

        background.run(workspace, limits)
        return OK
    found = workspace.gc(limits, dry_run=options.dry_run)
    done()
    if options.json:
        as_json(_shape(found))
    elif not options.quiet:
        _show(found)
    for line in found.notes:
        note(line)
    if found.damaged:
        remark(f"casrewind: {len(found.damaged)} damaged packs were left alone: run casrewind verify --repair")
    return OK


def _show(found: Collected) -> None:
    freed = found.bytes_before - found.bytes_after
    would = "would forget" if found.dry_run else "forgot"
    free = "would free about" if found.dry_run else "freed"
    say(
        f"{would} {plural(len(found.dropped), 'checkpoint')} and keep {found.kept:,}; {free} {size(max(freed, 0))} of "
        f"{size(found.bytes_before)}"
    )
    if not found.dry_run:
        return
    for item in found.dropped:
        point = item.checkpoint
        what = point.label or point.prompt or point.trigger.replace("_", " ")
        say(f"  {point.id}  {age(point.created_ns):>12}  {item.reason}  {fsio.show(what)}")


def _shape(found: Collected) -> dict[str, Any]:
    return {
        "kept": found.kept,
        "dropped": len(found.dropped),
        "bytes_before": found.bytes_before,
        "bytes_after": found.bytes_after,
        "dry_run": found.dry_run,
        "checkpoints": [{"id": item.checkpoint.id, "reason": item.reason} for item in found.dropped],
    }
