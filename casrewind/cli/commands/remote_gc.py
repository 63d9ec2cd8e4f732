"""casrewind remote gc: old chains of a remote are removed, and small pieces put together."""

from ... import environment
from ..._typing import TYPE_CHECKING
from ...messages import age_in_words, plural, printable
from ...remote import collect, old_chains
from ...remote import remote_config as configs
from ..show.shapes import time_of
from ..show.text import human_size
from ..terminal.lines import print_json, print_line, remark
from ..terminal.questions import agreed, must_ask
from . import OK, REMARKS, Done

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ...ops.context import Context
    from ...remote.old_chains import OldChain
    from ...remote.remote_config import Remote
    from ..grammar.command_line import ParsedOptions


def remote_gc(context: "Context", options: "ParsedOptions", done: Done) -> int:
    """casrewind remote gc."""
    opened = configs.open_remote(context.store, context.environ)
    keep = environment.configuration().remote_keep
    old = old_chains.find_old(opened, keep) if keep else []
    going, kept = [one for one in old if not one.kept], [one for one in old if one.kept]
    done()
    if options.dry_run:
        return _show_plan(opened, options, keep, going, kept)
    if going:
        asks = must_ask(options, "removes chains from the remote")
        if not options.json:
            _print_plan(f"Remove {plural(len(going), 'chain')} from {opened.config.url}:", going, kept)
        if asks and not agreed("This cannot be undone. Go on?"):
            print_line("nothing was removed")
            return OK
    with context.store.pushing():
        gone = old_chains.remove(opened, going)
        notes = collect.roll_up(opened)
    done()
    if options.json:
        _print_json(opened, options, keep, gone.chains, (*kept, *gone.spared), gone.left, notes)
    else:
        if not going:
            _print_plan(_nothing(opened, keep), (), kept)
        _print_removed(gone.chains)
        for note in notes:
            print_line(note)
    for one in gone.spared:
        remark(f"casrewind: not removed: {_name(one)}: {one.kept}")
    for name in gone.left:
        remark(f"casrewind: not emptied: {opened.config.url}/{name}")
    return REMARKS if gone.spared or gone.left else OK


def _show_plan(opened: "Remote", options: "ParsedOptions", keep: float, going: "Sequence[OldChain]", kept: "Sequence[OldChain]") -> int:
    """What remote gc would do."""
    if options.json:
        _print_json(opened, options, keep, going, kept, (), ())
        return OK
    headline = f"would remove {plural(len(going), 'chain')} from {opened.config.url}" if going else _nothing(opened, keep)
    _print_plan(headline, going, kept)
    pieces = collect.count_new_pieces(opened)
    if pieces > 1:
        print_line(f"would put {plural(pieces, 'piece')} of this machine together, if they are small")
    return OK


def _print_removed(gone: "Sequence[OldChain]") -> None:
    if gone:
        checkpoints, freed = sum(one.checkpoints for one in gone), sum(one.size for one in gone)
        print_line(f"removed {plural(len(gone), 'chain')} with {plural(checkpoints, 'checkpoint')} ({human_size(freed)})")


def _nothing(opened: "Remote", keep: float) -> str:
    return f"nothing to remove from {opened.config.url}" + ("" if keep else ": remote.keep is forever")


def _name(one: "OldChain") -> str:
    return f"{printable(one.machine)} ({one.chain[:8]})"


def _print_plan(headline: str, going: "Sequence[OldChain]", kept: "Sequence[OldChain]") -> None:
    """What goes first, then what stays."""
    print_line(headline)
    for one in going:
        what = f"{plural(one.checkpoints, 'checkpoint')}, {human_size(one.size)}"
        print_line(f"  - {_name(one)}: {what}, last push {age_in_words(one.newest_ns)}")
    for one in kept:
        print_line(f"  kept: {_name(one)}, last push {age_in_words(one.newest_ns)}: {printable(one.kept)}")


def _print_json(
    opened: "Remote", options: "ParsedOptions", keep: float, gone: "Sequence[OldChain]", kept: "Sequence[OldChain]", left: "Sequence[str]",
    notes: "Sequence[str]",
) -> None:  # fmt: skip
    print_json({
        "url": opened.config.url, "machine": opened.config.machine, "dry_run": options.dry_run, "keep_seconds": keep or None,
        "removed": [_shape(one) for one in gone], "kept": [{**_shape(one), "reason": one.kept} for one in kept], "left": list(left),
        "notes": list(notes), "requests": sum(opened.objects.requests.values()),
    })  # fmt: skip


def _shape(one: "OldChain") -> "dict[str, object]":
    shape = {"chain": one.chain, "machine": one.machine, "checkpoints": one.checkpoints, "size": one.size}
    return {**shape, "pushed_at": time_of(one.newest_ns)}
