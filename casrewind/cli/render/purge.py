"""What a person reads of a purge."""

import shlex
from collections.abc import Sequence

from ... import fsio
from ...model import domain as domains
from ...ops.purge import Gone, Purged
from ...ops.purge_text import TextPurged
from ...worktree.ignore import RULE_FILE_NAMES
from .text import SHOWN, confirmed, plural, remark, say, size


def path(found: Purged) -> None:
    """purge PATH."""
    if not found.purged and not found.blobs:
        say("nothing to do: it is purged already")
    else:
        say(f"{'would purge' if found.dry_run else 'purged'} {_sum(found)}")
        _paths(found)
    for name in found.still_there[:SHOWN]:
        remedy = "put it into .casrewindignore first, if it should not"
        if _is_rules(name):  # these are stored whatever is ignored
            remedy = "take out of it what should not be stored"
        remark(f"casrewind: note: {fsio.show(name)} is there still, and the next save stores it again: {remedy}")
    if len(found.still_there) > SHOWN:
        remark(f"casrewind: note: and so are {len(found.still_there) - SHOWN} more of these paths")
    if not found.dry_run:
        remark("casrewind: note: what an agent was shown of it may be in conversations: casrewind purge --text -")


def ask_path(found: Purged, *, whole: bool) -> bool:
    """Show what will go, with `whole` every path of it, and ask. Anything but yes is no."""
    say(f"purging {_sum(found)}:")
    _paths(found, whole=whole)
    return confirmed()


def _sum(found: Purged) -> str:
    conversations = f", {plural(found.transcripts, 'stored conversation')}" if found.transcripts else ""
    return f"{plural(len(found.purged) + len(found.equal), 'path')}{conversations}: {plural(found.blobs, 'blob')}, {size(found.size)}"


def _paths(found: Purged, *, whole: bool = False) -> None:
    _list(found.purged, "", whole=whole)
    _list(found.equal, ", which has equal bytes", whole=whole)


def _list(items: Sequence[Gone], why: str, *, whole: bool) -> None:
    shown = len(items) if whole else SHOWN
    for item in items[:shown]:
        safety = f" ({item.safety} of them made for safety, listed by --all alone)" if item.safety else ""
        say(f"  {fsio.show(item.path)} in {plural(item.checkpoints, 'checkpoint')}{safety}{why}")
    if len(items) > shown:
        say(f"  ... and {len(items) - shown} more{why.replace('has', 'have')}; --json lists all of them")


def words(found: TextPurged) -> None:
    """purge --text."""
    say(f"{'would drop' if found.dry_run else 'dropped'} {_places(found)}")
    if found.places.transcripts:
        say("  at those checkpoints, conversations can be taken from the client's own files alone")
    for item in found.files[:SHOWN]:
        shown = fsio.show(item.path)
        where, rest = "PATH", ""
        if _is_rules(item.path):
            where, rest = shlex.quote(shown), ", and restores of those checkpoints delete nothing below it then"
        say(f"  {shown} holds it still, in {item.checkpoint}: casrewind purge {where} removes the file's bytes{rest}")
    if len(found.files) > SHOWN:
        say(f"  ... and {len(found.files) - SHOWN} more files hold it; --json lists all of them")
    if found.records:
        say(
            f"  {plural(found.records, 'record')} of checkpoints and sessions hold it still, in a session's id or a path: these are not "
            f"edited; gc forgets a record with its checkpoint"
        )
    say("not looked at: names of files, and what links point to; a text that stands there stays")
    for name in found.still_there:
        remark(f"casrewind: note: {fsio.show(name)}, which is not casrewind's, holds it still; the next checkpoint stores that again")


def ask_text(found: TextPurged) -> bool:
    """Say where the text is, and ask. Anything but yes is no."""
    say(f"dropping {_places(found)}")
    return confirmed()


def _is_rules(path: bytes) -> bool:
    return path in (domains.EXCLUDE_NAME, domains.GLOBAL_NAME) or path.rpartition(b"/")[2] in RULE_FILE_NAMES


def _places(found: TextPurged) -> str:
    where = found.places
    return (
        f"{plural(where.transcripts, 'stored conversation')}, {plural(where.prompts, 'prompt')}, {plural(where.labels, 'label')} "
        f"and {plural(where.log, 'line')} of the log that hold the text"
    )
