"""casrewind save."""

from ...ops.save import Saved
from ...typed import Any
from ..output import age, as_json, plural, remark, say, signed, size, skipped
from . import OK, REMARKS, Done


def save(workspace: Any, options: Any, done: Done) -> int:
    """casrewind save."""
    report = workspace.save(options.message, pin=options.pin, rehash=options.rehash)
    done()
    if options.json:
        as_json(_shape(report, workspace.root.path))
    elif not options.quiet:
        _show(report)
    return REMARKS if report.faults else OK


def _show(report: Saved) -> None:
    point = report.checkpoint
    if report.created:
        say(
            f"saved {point.id}: {plural(point.files, 'file')}, {size(point.size)} ({signed(report.changes)}) "
            f"in {report.elapsed_ms / 1000:.2f} s"
        )
    else:
        say(f"nothing changed since {point.id}, saved {age(point.created_ns)}")
    if point.files == 0:
        remark(f"WARNING: nothing was captured: no file here, or all are ignored ({report.ignored} ignored entries)")
    skipped(report.skipped)


def _shape(report: Saved, root: str) -> dict[str, Any]:
    from .. import json_output

    point = report.checkpoint
    return {
        "checkpoint": point.id,
        "created": report.created,
        "root": root,
        "files": point.files,
        "bytes": point.size,
        "changes": dict(report.changes._asdict()),
        "skipped": json_output.skips(report.skipped),
        "elapsed_ms": report.elapsed_ms,
    }
