"""The words about a remote that several commands use: what waits for a push, and how the last push and verify went."""

import time
from collections.abc import Sequence

from ..._typing import TYPE_CHECKING
from ...messages import age_in_words, plural
from .shapes import Shape, time_of
from .text import human_size

if TYPE_CHECKING:
    from ...remote.unsent import Unsent
    from ...remote.verify_chains import VerifiedRemote

_DAY = 86400
_PUSHES = {
    "off": "nothing is pushed by itself (remote.push = off)",
    "turns": "pushed by itself after turns",
    "session_end": "pushed by itself at the end of a session",
}


def not_pushed(found: "Unsent") -> str:
    """What waits for a push."""
    if not found.number:
        return "all checkpoints are pushed"
    made = found.oldest_ns // 1_000_000_000
    form = "%H:%M" if time.time() - made < _DAY else "%Y-%m-%d"
    return f"{plural(found.number, 'checkpoint')} not pushed (since {time.strftime(form, time.localtime(made))})"


def remote_lines(found: "Unsent", setting: str, without_effect: Sequence[str] = ()) -> list[str]:
    """When the last push and verify were, why the last push by itself failed, and what is pushed by itself (`setting`).
    `without_effect`: sentences about variables that do not count."""
    notes = found.notes
    last = [f"last push {age_in_words(notes.pushed_ns)}"] if notes.pushed_ns else []
    if notes.verified_ns:
        found_damage = f" found {plural(notes.damage, 'problem')}" if notes.damage else ""
        last.append(f"last verify {age_in_words(notes.verified_ns)}{found_damage}")
    lines = ["; ".join((*last, _PUSHES[setting])), *(f"! {sentence}" for sentence in without_effect)]
    if notes.problem:
        lines.append(f"! the push by itself failed {age_in_words(notes.failed_ns)}: {notes.problem}")
    if notes.damage:
        lines.append("! casrewind remote verify names what is damaged")
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
