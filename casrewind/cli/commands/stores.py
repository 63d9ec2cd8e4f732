"""casrewind stores: all stores of a user. It needs no open project."""

import os
from collections.abc import Sequence

from ... import config, errors, projects
from ..._typing import TYPE_CHECKING
from ...errors import Declined
from ...messages import age_in_words, plural, printable, shell_quoted
from ...upkeep.all_stores import Found, Pruned
from ..grammar.options import ASSUME_YES, DRY_RUN, JSON, Command, Option, flag
from ..show import shapes
from ..show.text import human_size
from ..terminal.lines import print_json, print_line
from ..terminal.questions import agreed_for_good, must_ask_or_raise
from . import OK, REMARKS

if TYPE_CHECKING:
    from ...settings import Settings
    from ..grammar.command_line import ParsedOptions

COMMAND = Command(
    examples=("casrewind stores --prune-missing 30d --dry-run",),
    options=(
        Option(
            ("--prune-missing",),
            "delete stores unused for AGE if their projects are gone (keeps pinned ones, and ones that may only be unmounted)",
            "AGE",
        ),
        flag("--force", "also delete stores with pins or interrupted restores", inherits=True),
        DRY_RUN._replace(help="show what stores would delete, and what it would keep and why"),
        ASSUME_YES, JSON,
    ),
    is_alone=True,
)


def run(settings: "Settings", options: "ParsedOptions") -> int:
    """casrewind stores."""
    if settings.store is not None:
        raise errors.UsageError("stores lists every store in the data directory, not a single one", "leave --store out")
    if options.prune_missing is not None:
        return _prune_stores(settings, options)
    if options.dry_run or options.yes:
        raise errors.UsageError("stores only lists", "--dry-run and --yes go with --prune-missing AGE")
    found = projects.stores(settings)
    if options.json:
        print_json({"stores": [_store_json(store) for store in found]})
    else:
        _print_stores(found, settings.data)
    return OK


def _prune_stores(settings: "Settings", options: "ParsedOptions") -> int:
    age = config.parse_age(options.prune_missing or "", "--prune-missing")
    confirm = None
    if not options.dry_run and must_ask_or_raise(options, "removes stores"):
        confirm = _agree_to_prune
    try:
        found = projects.prune_missing(age, settings, confirm, dry_run=options.dry_run)
    except Declined:
        print_line("nothing was removed")
        return OK
    if options.json:
        print_json(_shape_of_pruned(found))
    else:
        _print_pruned(found)
    return REMARKS if any(item.fault for item in found.kept) else OK


def _print_stores(found: Sequence[Found], data: str) -> None:
    if not found:
        print_line(f"no stores under {printable(data)}; casrewind save makes one")
        return
    for store in found:
        _print_store(store)
        if store.problem is not None:
            print_line(f"  CANNOT BE USED: {printable(store.problem)}")
    moved = next((store.root for store in found if store.root and not store.exists), None)
    if moved is not None:
        print_line(
            f"stores --prune-missing 30d removes those of projects that are gone; a moved project keeps its checkpoints: "
            f"casrewind adopt {shell_quoted(moved)}, where it is now"
        )


def _print_store(store: Found) -> None:
    print_line(_name_of_project(store) + ("" if store.exists or not store.root else "  (GONE)"))
    used = f", used {age_in_words(store.used_ns)}" if store.used_ns else ""
    print_line(f"  {plural(store.checkpoints, 'checkpoint')}, {human_size(store.size)}{used}; {printable(os.path.basename(store.path))}")
    for line in store.worktrees:
        if line.root != store.root:
            gone = "" if line.exists else "  (GONE)"
            print_line(f"  {plural(line.checkpoints, 'checkpoint')} of them of {printable(line.root)}{gone}")


def _name_of_project(store: Found) -> str:
    return printable(store.root if store.root is not None else store.path)


def _print_pruned(found: Pruned) -> None:
    _print_what_is_pruned(found)
    would = "would remove" if found.dry_run else "removed"
    free = "free" if found.dry_run else "freed"
    print_line(
        f"{would} {plural(len(found.removed), 'store')} and {free} {human_size(found.freed)}" if found.removed else "nothing to remove"
    )


def _print_what_is_pruned(found: Pruned) -> None:
    for store in found.removed:
        _print_store(store)
    for item in found.kept:
        print_line(f"kept {_name_of_project(item.store)}: {printable(item.reason)}")


def _agree_to_prune(found: Pruned) -> bool:
    """Show the stores to delete, and ask. Any answer but yes is no."""
    _print_what_is_pruned(found)
    count, freed = plural(len(found.removed), "store"), human_size(found.freed)
    print_line(f"removing {count}, {freed}; if a project was moved, run casrewind adopt there first")
    return agreed_for_good()


def _store_json(found: Found) -> shapes.Shape:
    return {
        **shapes.path_or_none(found.root, "root"),
        "exists": found.exists,
        **shapes.path(os.fsencode(found.path), "store"),
        "checkpoints": found.checkpoints,
        "bytes": found.size,
        "used_at": shapes.time_of(found.used_ns) if found.used_ns else None,
        "worktrees": [
            {**shapes.path(os.fsencode(line.root), "root"), "exists": line.exists, "checkpoints": line.checkpoints}
            for line in found.worktrees
        ],
        "problem": found.problem,
    }


def _shape_of_pruned(found: Pruned) -> shapes.Shape:
    return {
        "removed": [_store_json(item) for item in found.removed],
        "kept": [{**_store_json(item.store), "reason": item.reason} for item in found.kept],
        "bytes_freed": found.freed,
        "dry_run": found.dry_run,
    }
