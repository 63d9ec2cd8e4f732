"""casrewind gc, verify and du: what a store holds, and what of it can go."""

from collections.abc import Sequence

from ... import config, errors
from ..._typing import TYPE_CHECKING
from ...messages import age_in_words, plural, printable
from ...ops import lookup, verify_and_repair
from ...ops.gc import Collected, collect
from ...ops.usage import CheckpointUsage, PathUsage, SessionUsage, Usage, usage
from ...ops.verify_and_repair import STORE, Problem, Verified
from ..show import shapes
from ..show.shapes import Shape
from ..show.text import description, human_size
from ..terminal.lines import note, print_json, print_line, remark
from ..terminal.table import print_table
from . import OK, Done

if TYPE_CHECKING:
    from ...ops.context import Context
    from ..grammar.command_line import ParsedOptions

_TABLES = ("checkpoint", "path", "session")
_SHOWN = 10
"""Rows of each table in text output without -n."""


def gc(context: "Context", options: "ParsedOptions", done: Done) -> int:
    """casrewind gc."""
    limits = context.limits
    if options.max_age is not None:  # an explicit age also deletes the newest ten checkpoints
        limits = limits._replace(max_age=config.parse_age(options.max_age, "--max-age"), keep_last=1)
    if options.max_count is not None:
        limits = limits._replace(max_count=config.parse_count(options.max_count, "--max-count"))
    if options.max_size is not None:
        limits = limits._replace(max_size=config.parse_size(options.max_size, "--max-size"))
    if options.auto:
        from ...hook import background_gc

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
        print_line(f"no checkpoint to forget, {found.kept:,} kept; {'would free about' if found.dry_run else 'freed'} {freed}")
    elif found.dry_run:
        print_line(f"would forget {dropped} and keep {found.kept:,}; would free about {freed}")
    else:
        print_line(f"forgot {dropped} and kept {found.kept:,}; freed {freed}")
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


def verify(context: "Context", options: "ParsedOptions", done: Done) -> int:
    """casrewind verify."""
    found = verify_and_repair.repair(context) if options.repair else verify_and_repair.verify(context, quick=options.quick)
    done()
    return _print_verified_for_exit_code(found, options)


def verify_unopenable(error: errors.StoreDamaged, options: "ParsedOptions") -> int:
    """casrewind verify of a store with too much damage to open."""
    return _print_verified_for_exit_code(Verified((Problem(STORE, "FORMAT", str(error)),), 0, 0), options)


def _print_verified_for_exit_code(found: Verified, options: "ParsedOptions") -> int:
    if options.json:
        print_json(_verified_json(found))
    else:
        _print_verified(found, quick=options.quick)
    for line in found.notes:
        note(line)
    return errors.StoreDamaged.exit_code if found.problems else OK


def _print_verified(found: Verified, *, quick: bool) -> None:
    for line in found.repaired:
        print_line(f"repaired: {printable(line)}")
    if not found.problems:
        how = "found in place" if quick else "read and checked"
        print_line(f"sound: {plural(found.checkpoints, 'checkpoint')}, {plural(found.blobs, 'blob')} {how}")
        return
    print_line(f"DAMAGED: {plural(len(found.problems), 'problem')} in {plural(found.checkpoints, 'checkpoint')}")
    for problem in found.problems:
        print_line(f"  {problem.kind} {problem.id[:16]}: {printable(problem.detail)}")
    if any(problem.affects for problem in found.problems):
        print_line("  --json names every checkpoint and path that is affected")
    print_line("  what is not named here can still be restored: casrewind restore REF --skip-damaged, or restore REF -- PATH")
    if not found.repaired:
        print_line("  casrewind verify --repair mends what can be mended")
    print_line("  casrewind save stores again what the project still holds, and so mends older checkpoints that miss it")


def _verified_json(found: Verified) -> Shape:
    return {
        "ok": not found.problems,
        "problems": [
            {
                "kind": problem.kind,
                "id": problem.id,
                "detail": problem.detail,
                "affects": [{"checkpoint": place.checkpoint, **shapes.path(place.path)} for place in problem.affects],
            }
            for problem in found.problems
        ],
        "blobs": found.blobs,
        "checkpoints": found.checkpoints,
        "repaired": list(found.repaired),
    }

# -- what uses the space


def du(context: "Context", options: "ParsedOptions", done: Done) -> int:
    """casrewind du."""
    tables = _TABLES if options.by is None else (options.by,)
    if options.depth is not None and "path" not in tables:
        raise errors.UsageError("--depth is about paths", f"leave it or --by {options.by} out")
    found = usage(context, options.depth)
    done()
    if options.json:
        print_json(_usage_json(found, options.budget, lookup.current_id(context), tables, options.number))
    else:
        _print_usage(found, options.budget, tables, options.number or _SHOWN)
    for problem in found.problems[:_SHOWN]:
        remark(f"casrewind: damaged: {problem.detail}")
    if found.problems:
        more = f"{len(found.problems):,} in all; " if len(found.problems) > _SHOWN else ""
        remark(f"casrewind: {more}what is damaged is not counted: casrewind verify says whom it affects")
    return errors.StoreDamaged.exit_code if found.problems else OK


def _print_usage(found: Usage, budget: int, tables: Sequence[str], most: int) -> None:
    """Print the totals, the distribution of bytes, then the requested tables."""
    frees = "nothing" if found.gc_frees == 0 else f"about {human_size(found.gc_frees or 0)}"
    gives = "what gc would give back cannot be told" if found.gc_frees is None else f"gc would give back {frees}"
    print_line(
        f"{human_size(found.store_size)} on disk of a budget of {human_size(budget)}: {human_size(found.reachable)} reachable; {gives}"
    )
    parts = {
        "needed by one checkpoint alone": found.unique,
        "shared by several checkpoints": found.shared,
        "needed only by undo or an open restore": found.other,
        "garbage": found.garbage,
        "kept free for gc, which uses it when the disk is full": found.ballast,
        "index, ledger and the rest": max(found.store_size - found.packs_size - found.ballast, 0),
    }
    for what, number in parts.items():
        if number:
            print_line(f"  {human_size(number):>10}  {what}")
    if not found.checkpoints:
        print_line("  no checkpoints; casrewind save makes one")
        return
    if "checkpoint" in tables:
        _print_checkpoints(found.checkpoints, most)
    if "path" in tables:
        _print_paths(found.paths, most, found.trees)
    if "session" in tables:
        _print_sessions(found.sessions, most)
    print_line()
    print_line("casrewind gc forgets old checkpoints; casrewind purge PATH removes a path from all")


def _print_checkpoints(found: Sequence[CheckpointUsage], most: int) -> None:
    _print_heading(found, most, "checkpoint", "unique = freed if it alone is forgotten, * = pinned")
    rows = []
    for row in found[:most]:
        point = row.checkpoint
        machine = f"{point.more.machine}: " if point.more.machine else ""
        told = printable(("* " if row.marked.pinned else "") + machine + description(point, row.marked))
        rows.append(
            (
                human_size(row.unique),
                human_size(row.shared),
                point.id,
                age_in_words(point.created_ns),
                point.trigger.replace("_", " "),
                told,
            )
        )
    print_table(("unique", "shared", "id", "when", "trigger", "what"), rows, right=("unique", "shared"), last="what", cut=True)


def _print_paths(found: Sequence[PathUsage], most: int, trees: int) -> None:
    beside = "" if any(row.is_directory for row in found) else f"; lists of directories: {human_size(trees)}"
    _print_heading(found, most, "path", f"stored = all versions together{beside}")
    rows = [
        (human_size(row.size), f"{row.versions:,}", printable(row.path) + ("/" if row.is_directory else "")) for row in found[:most]
    ]
    print_table(("stored", "versions", "path"), rows, right=("stored", "versions"), last="path")


def _print_sessions(found: Sequence[SessionUsage], most: int) -> None:
    _print_heading(found, most, "session", "unique = what no other session needs")
    rows = [
        (
            human_size(row.unique), human_size(row.shared), human_size(row.transcripts), f"{row.checkpoints:,}",
            age_in_words(row.newest_ns),
            printable(f"{row.agent} {row.session}") if row.session else "(no agent)",
        )
        for row in found[:most]
    ]  # fmt: skip
    names = ("unique", "shared", "transcript", "checkpoints", "newest", "session")
    print_table(names, rows, right=names[:4], last="session")


def _print_heading(found: Sequence[object], most: int, word: str, legend: str) -> None:
    of = f"the largest {most:,} of {plural(len(found), word)}, -n N for more" if len(found) > most else plural(len(found), word)
    print_line()
    print_line(f"{of}; {legend}")


def _usage_json(found: Usage, budget: int, current: str, tables: tuple[str, ...], most: int | None) -> Shape:
    """The report as JSON. A table that was not requested is null; other tables have at most `most`
    rows (None = all).
    """
    return {
        "store_bytes": found.store_size,
        "budget_bytes": budget,
        "gc_bytes": found.gc_frees,
        "ballast_bytes": found.ballast,
        "packs": found.packs,
        "packs_bytes": found.packs_size,
        "reachable_bytes": found.reachable,
        "unique_bytes": found.unique,
        "shared_bytes": found.shared,
        "other_bytes": found.other,
        "garbage_bytes": found.garbage,
        "tree_bytes": found.trees,
        "checkpoints": [_checkpoint_shape(row, current) for row in found.checkpoints[:most]] if "checkpoint" in tables else None,
        "paths": [_path_shape(row) for row in found.paths[:most]] if "path" in tables else None,
        "sessions": [_session_shape(row) for row in found.sessions[:most]] if "session" in tables else None,
        "problems": [{"kind": one.kind, "id": one.id, "detail": one.detail} for one in found.problems],
    }


def _checkpoint_shape(row: CheckpointUsage, current: str) -> Shape:
    return {**shapes.checkpoint(row.checkpoint, row.marked, current), "unique_bytes": row.unique, "shared_bytes": row.shared}


def _path_shape(row: PathUsage) -> Shape:
    return {**shapes.path(row.path), "kind": "dir" if row.is_directory else "file", "stored_bytes": row.size, "versions": row.versions}


def _session_shape(row: SessionUsage) -> Shape:
    return {
        "agent": row.agent or None,
        "session": row.session or None,
        "checkpoints": row.checkpoints,
        "newest_at": shapes.time_of(row.newest_ns),
        "unique_bytes": row.unique,
        "shared_bytes": row.shared,
        "transcript_bytes": row.transcripts,
    }
