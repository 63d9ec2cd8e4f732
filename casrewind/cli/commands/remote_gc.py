"""casrewind remote gc: old chains, those that cannot be read, and forgotten checkpoints are removed from a remote, and small pieces put
together. What was read and is gone from the remote is forgotten."""

from ... import environment
from ..._typing import TYPE_CHECKING, NamedTuple
from ...messages import age_in_words, plural, printable
from ...remote import collect, old_chains
from ...remote import remote_config as configs
from ...remote.push import push
from ...store import push_notes
from ..show.shapes import time_of
from ..show.text import human_size
from ..terminal.lines import print_json, print_line, remark
from ..terminal.questions import agreed, must_ask_or_raise
from . import OK, REMARKS, Done

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ...context import Context
    from ...remote.old_chains import ForgottenPushes, OldChain
    from ...remote.remote_config import Remote
    from ..grammar.command_line import ParsedOptions


def remote_gc(context: "Context", options: "ParsedOptions", done: Done) -> int:
    """casrewind remote gc."""
    opened = configs.open_remote(context.store)
    keep = environment.configuration().remote_keep
    old = old_chains.find_old(opened, keep)
    taken_back, rest = [one for one in old if one.taken_back], [one for one in old if not one.taken_back]
    plan = _Plan(
        opened, [one for one in rest if not one.kept], [one for one in rest if one.kept], taken_back, keep,
        old_chains.find_forgotten(context, opened) if options.forgotten else None,
    )  # fmt: skip
    done()
    if options.dry_run:
        return _show_plan(plan, options)
    if plan.removes:
        asks = must_ask_or_raise(options, "removes checkpoints from the remote")
        if not options.json:
            _print_plan(plan, options)
        if asks and not agreed("This cannot be undone. Go on?"):
            print_line("nothing was removed")
            return OK
    pushed = push(context, opened, anew=True) if plan.renews else None
    with context.store.hold_lock(*push_notes.PUSH_OR_PULL):
        gone = old_chains.remove(opened, plan.going)
        old_chains.forget_taken_back(opened, plan.taken_back)
        notes = [*(pushed.notes if pushed else ()), *collect.roll_up(opened)]
    left = (*gone.left, *(pushed.left if pushed else ()))
    done()
    if options.json:
        _print_json(plan._replace(going=gone.chains, kept=(*plan.kept, *gone.spared)), options, left, notes)
    else:
        if not plan.removes:
            _print_plan(plan, options)
        _print_removed(gone.chains)
        if pushed and plan.mine:
            anew = f"{plural(pushed.checkpoints, 'checkpoint')} anew ({human_size(pushed.size)})"
            print_line(f"removed {_forgotten_in_words(plan.mine)}; pushed {anew}")
        _print_taken_back(plan, options)
        for note in notes:
            print_line(note)
    for one in gone.spared:
        remark(f"casrewind: not removed: {_name(one)}: {one.kept}")
    for name in left:
        remark(f"casrewind: not emptied: {opened.config.url}/{name}")
    return REMARKS if gone.spared or left else OK


class _Plan(NamedTuple):
    """The chains that go, those that stay, and those of which something is gone that this store has read; `remote.keep` in seconds
    (0 = forever), and what was found of forgotten checkpoints."""

    remote: "Remote"
    going: "Sequence[OldChain]"
    kept: "Sequence[OldChain]"
    taken_back: "Sequence[OldChain]"
    keep: float
    mine: "ForgottenPushes | None"

    @property
    def renews(self) -> bool:
        """True if this machine pushes anew."""
        return self.mine is not None and not self.mine.kept

    @property
    def removes(self) -> bool:
        return bool(self.going) or self.renews


def _show_plan(plan: _Plan, options: "ParsedOptions") -> int:
    """What remote gc would do."""
    if options.json:
        _print_json(plan, options, (), ())
        return OK
    _print_plan(plan, options)
    _print_taken_back(plan, options)
    pieces = 0 if plan.renews else collect.count_new_pieces(plan.remote)
    if pieces > 1:
        print_line(f"would merge {plural(pieces, 'piece')} of this machine, if they are small")
    return OK


def _forgotten_in_words(mine: "ForgottenPushes") -> str:
    return f"{plural(mine.forgotten, 'checkpoint')} of this machine that gc has forgotten"


def _print_removed(gone: "Sequence[OldChain]") -> None:
    if gone:
        checkpoints, freed = sum(one.checkpoints for one in gone), sum(one.size for one in gone)
        print_line(f"removed {plural(len(gone), 'chain')} with {plural(checkpoints, 'checkpoint')} ({human_size(freed)})")


def _name(one: "OldChain") -> str:
    return f"{printable(one.machine)} ({one.chain[:8]})"


def _print_plan(plan: _Plan, options: "ParsedOptions") -> None:
    """What goes first, then what stays."""
    url, mine = plan.remote.config.url, plan.mine
    if plan.removes:
        what = [plural(len(plan.going), "chain")] if plan.going else []
        what += ["forgotten checkpoints"] if plan.renews else []
        print_line(f"would remove {' and '.join(what)} from {url}" if options.dry_run else f"Remove {' and '.join(what)} from {url}:")
    else:
        why = "" if plan.keep or mine or plan.kept else "remote.keep is forever"
        if options.forgotten and not mine:
            why = "gc has forgotten nothing of it"
        print_line(f"nothing to remove from {url}" + (f": {why}" if why else ""))
    for one in plan.going:
        size = f"{plural(one.checkpoints, 'checkpoint')}, {human_size(one.size)}"
        print_line(f"  - {_name(one)}: {size}, {_last_push(one)}{_damage(one)}")
    if mine and not mine.kept:
        print_line(f"  - {_forgotten_in_words(mine)}, the newest from {age_in_words(mine.newest_ns)}")
        print_line(f"    first pushes the other {plural(mine.checkpoints, 'checkpoint')} anew, then removes {human_size(mine.size)}")
    elif mine:
        what_stays = _forgotten_in_words(mine) if mine.forgotten else "what this machine pushed"
        print_line(f"  kept: {what_stays}: {printable(mine.kept)}")
    for one in plan.kept:
        print_line(f"  kept: {_name(one)}, {_last_push(one)}{_damage(one)}: {printable(one.kept)}")


def _last_push(one: "OldChain") -> str:
    return f"last push {age_in_words(one.newest_ns)}" if one.newest_ns else "nothing left"


def _damage(one: "OldChain") -> str:
    """Why a chain cannot be read, and what its machine can do instead; "" if it can."""
    return f", cannot be read ({printable(one.damage)}; casrewind push --anew on its machine mends it)" if one.damage else ""


def _print_taken_back(plan: _Plan, options: "ParsedOptions") -> None:
    """One line for all that was read here and is gone."""
    if plan.taken_back:
        what = "; ".join(printable(one.taken_back) for one in plan.taken_back)
        verb = "would forget" if options.dry_run else "forgot"
        print_line(f"{verb} that these were read: {what} (what was pulled is here)")


def _print_json(plan: _Plan, options: "ParsedOptions", left: "Sequence[str]", notes: "Sequence[str]") -> None:
    mine, opened = plan.mine, plan.remote
    print_json({
        "url": opened.config.url, "machine": opened.config.machine, "dry_run": options.dry_run, "keep_seconds": plan.keep or None,
        "removed": [_chain_json(one) for one in plan.going], "kept": [{**_chain_json(one), "reason": one.kept} for one in plan.kept],
        "taken_back": [{"chain": one.chain, "problem": one.taken_back} for one in plan.taken_back],
        "forgotten": mine and {
            "checkpoints": mine.forgotten, "newest_at": time_of(mine.newest_ns), "pushed_anew": mine.checkpoints, "size": mine.size,
            "kept": mine.kept or None,
        },
        "left": list(left), "notes": list(notes), "requests": sum(opened.objects.requests.values()),
    })  # fmt: skip


def _chain_json(one: "OldChain") -> "dict[str, object]":
    shape = {"chain": one.chain, "machine": one.machine, "checkpoints": one.checkpoints, "size": one.size}
    return {**shape, "pushed_at": time_of(one.newest_ns) if one.newest_ns else None, "damage": one.damage or None}
