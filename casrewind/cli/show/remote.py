"""The words about a remote: what waits for a push, how the last push and verify went, what a push saved first and takes along."""

import time
from collections.abc import Sequence

from ..._typing import TYPE_CHECKING
from ...config import URL_VARIABLE
from ...messages import age_in_words, first_line, plural, printable
from ...store.push_notes import PushNotes
from .shapes import Shape, path, time_of
from .text import cut_to, human_size, signed_counts

if TYPE_CHECKING:
    from ...remote.machines import PushedMachine, PushedMachines
    from ...remote.outgoing import SavedFirst
    from ...remote.pushed import Unsent
    from ...remote.verify_chains import VerifiedRemote

_MACHINE, _NEWEST = 18, 18
"""Columns of a machine's name, and of its newest prompt."""
_PLACES, _NAME_WIDTH = 8, 60
"""New files that are named, and the columns of a name."""
_DAY = 86400
_PUSHES = {
    "off": "nothing is pushed automatically (remote.push = off)",
    "turns": "pushed automatically after turns",
    "session_end": "pushed automatically at the end of a session",
}


def not_pushed(found: "Unsent") -> str:
    """What waits for a push."""
    if not found.number:
        return "all checkpoints are pushed"
    made = found.oldest_ns // 1_000_000_000
    form = "%H:%M" if time.time() - made < _DAY else "%Y-%m-%d"
    return f"{plural(found.number, 'checkpoint')} not pushed (since {time.strftime(form, time.localtime(made))})"


def remote_lines(found: "Unsent", setting: str, without_effect: Sequence[str] = ()) -> list[str]:
    """When the last push and verify were, why the last automatic push failed, and what is pushed automatically (`setting`).
    `without_effect`: sentences about variables that do not count."""
    notes = found.notes
    last = [f"last push {age_in_words(notes.pushed_ns)}"] if notes.pushed_ns else []
    if notes.verified_ns:
        found_damage = f" found {plural(notes.damage, 'problem')}" if notes.damage else ""
        last.append(f"last verify {age_in_words(notes.verified_ns)}{found_damage}")
    lines = ["; ".join((*last, _PUSHES[setting])), *(f"! {sentence}" for sentence in without_effect)]
    if notes.problem:
        lines.append(f"! the automatic push failed {age_in_words(notes.failed_ns)}: {notes.problem}")
    if notes.damage:
        lines.append("! casrewind remote verify names what is damaged")
    return lines


def lines_without_remote(failed: PushNotes | None, without_effect: Sequence[str]) -> list[str]:
    """Of a project without a remote: why none was joined, and if a variable names one, which variables do not count."""
    names_remote = any(sentence.startswith(f"{URL_VARIABLE} ") for sentence in without_effect)
    lines = [f"! {sentence}" for sentence in without_effect] if names_remote else []
    if failed is not None:
        lines.append(f"! none was joined, {age_in_words(failed.failed_ns)}: {failed.problem}")
    return lines


def remote_shape(found: "Unsent", setting: str) -> Shape:
    """The same for a program."""
    notes = found.notes
    return {
        "url": found.config.url,
        "not_pushed": found.number,
        "since": time_of(found.oldest_ns) if found.number else None,
        "pushed_at": time_of(notes.pushed_ns) if notes.pushed_ns else None,
        "pushes": setting,
        "failed_at": time_of(notes.failed_ns) if notes.problem else None,
        "problem": notes.problem or None,
        "verified_at": time_of(notes.verified_ns) if notes.verified_ns else None,
        "damage": notes.damage,
    }


def machines_lines(found: "PushedMachines", url: str) -> list[str]:
    """The machines that pushed to a remote, the newest first: name, time, newest checkpoint, how many, and bytes."""
    if not found.shown and not found.rest:
        return [f"no machine has pushed to {url}"]
    own = " (*: this one)" if any(one.is_own for one in found.shown) else ""
    lines = [f"{plural(len(found.shown), 'machine')} on {url}, the newest push first{own}"]
    names = [cut_to(one.name, _MACHINE) for one in found.shown]
    for name, one in zip(names, found.shown, strict=True):
        newest = one.newest
        said = "nothing that can be read" if newest is None else newest.label or first_line(newest.prompt) or newest.id
        much = f"{plural(one.checkpoints, 'checkpoint')}, {human_size(one.size)}"
        mark, age, said = "*" if one.is_own else " ", age_in_words(one.pushed_ns), cut_to(said, _NEWEST)
        lines.append(f"{mark} {name:{max(map(len, names))}}  {age:11}  {said:{_NEWEST}}  {much}")
    if found.rest:
        lines.append(f"  {plural(found.rest, 'chain')} more: --all, or --grep TEXT for a part of the name")
    return lines


def machines_shape(found: "PushedMachines", url: str) -> Shape:
    """The same for a program."""
    return {
        "url": url, "machines": [_machine_shape(one) for one in found.shown], "rest": found.rest, "unreadable": found.unreadable,
    }  # fmt: skip


def _machine_shape(one: "PushedMachine") -> Shape:
    newest = one.newest
    return {
        "machine": one.name,
        "chain": one.chain,
        "own": one.is_own,
        "checkpoint": newest and newest.id,
        "label": (newest and newest.label) or None,
        "prompt": (newest and newest.prompt) or None,
        "created_at": newest and time_of(newest.created_ns),
        "pushed_at": time_of(one.pushed_ns),
        "checkpoints": one.checkpoints,
        "size": one.size,
        "problems": list(one.problems),
    }


def verified_lines(found: "VerifiedRemote", url: str, *, everything: bool) -> list[str]:
    """What `remote verify` found: the verdict, then each machine."""
    what = "each blob read" if everything else "tables and records read; --all reads each blob"
    bad = sum(bool(chain.problems) for chain in found.chains)
    number = plural(len(found.chains), "machine")
    verdict = f"DAMAGED: {bad} of {number}" if found.damage else f"sound: {number}"
    lines = [f"{verdict} on {url} ({what}, {human_size(found.size)} in {plural(found.requests, 'request')})"]
    for chain in sorted(found.chains, key=lambda chain: -chain.newest_ns):
        name = f"{chain.machine or chain.chain[:8]}{' (this machine)' if chain.is_own else ''}"
        held = f"{plural(chain.checkpoints, 'checkpoint')}, {plural(chain.blobs, 'blob')} in {plural(chain.pieces, 'piece')}"
        when = f"pushed {age_in_words(chain.newest_ns)}" if chain.newest_ns else "all gone"
        lines.append(f"  {name}: {held}, {human_size(chain.size)}, {when}{'; DAMAGED' if chain.problems else ''}")
    return lines


def verified_shape(found: "VerifiedRemote", url: str, *, everything: bool) -> Shape:
    """The same for a program."""
    return {
        "url": url,
        "ok": not found.damage,
        "everything": everything,
        "chains": [
            {
                "chain": chain.chain,
                "machine": chain.machine or None,
                "own": chain.is_own,
                "pieces": chain.pieces,
                "checkpoints": chain.checkpoints,
                "blobs": chain.blobs,
                "size": chain.size,
                "pushed_at": time_of(chain.newest_ns),
                "problems": list(chain.problems),
            }
            for chain in found.chains
        ],
        "problems": list(found.problems),
        "strangers": list(found.strangers),
        "size": found.size,
        "requests": found.requests,
    }


def saved_first_line(found: "SavedFirst") -> str:
    """What was saved first, or why nothing was; "" if there is nothing to say. A failure is a remark of its own."""
    if found.saved is None or not found.saved.created:
        return found.why_not
    return f"saved {found.saved.checkpoint.id} first ({signed_counts(found.saved.changes)})"


def new_files_line(names: Sequence[bytes]) -> str:
    """Names the files whose content is new to the remote, "" for none. A moved file is not new. A long name loses its end."""
    shown = ", ".join(cut_to(printable(name), _NAME_WIDTH) for name in names[:_PLACES])
    more = len(names) - _PLACES
    return f"  {plural(len(names), 'file')} new to the remote: {shown}{f' and {more:,} more' if more > 0 else ''}" if names else ""


def outgoing_shape(found: "SavedFirst", names: Sequence[bytes]) -> Shape:
    """The same for a program."""
    saved = found.saved.checkpoint.id if found.saved is not None and found.saved.created else None
    return {"saved": saved, "not_saved": found.why_not or found.problem or None, "new_files": [path(name) for name in names]}
