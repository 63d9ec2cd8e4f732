"""Finds checkpoints: those of a worktree, and the one that a reference or an entry of a conversation names; and a file in one."""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import chain

from .. import errors
from .._typing import TYPE_CHECKING, NamedTuple
from ..context import Context
from ..messages import did_you_mean, format_moment, printable
from ..model import checkpoint as checkpoints
from ..model import manifest, paths
from ..model.checkpoint import Checkpoint
from ..model.domain import Skip, all_skips
from ..model.manifest import DIR, LINK, PURGED, Entry
from ..store.catalog import Marked
from . import checkpoint_names as names
from .checkpoint_names import LEAST_PREFIX, NEWEST, REMOTE, ReferencePlace, is_labelled, is_listed, label_of, turn_of

if TYPE_CHECKING:
    from ..model.turn_records import Turn

_CANDIDATES = 8
_Found = tuple[Checkpoint, Marked]
_ENTRY_ORDER = ("turn_end", "tool_batch", "compact", "session_end", "session_start")
"""Triggers by how well the files of their checkpoints belong to the entry at which the conversation stood."""


def checkpoints_of(context: Context) -> list[_Found]:
    """This worktree's checkpoints with their marks, newest first."""
    return [pair for pair in context.store.checkpoints() if pair[0].worktree == context.root.key]


def current_id(context: Context) -> str:
    """The id of the checkpoint that was last saved or restored here, or ""."""
    return context.store.history(context.root.key).current


def marks(context: Context, point: Checkpoint) -> Marked:
    """The current pin and label of a checkpoint. Raises CheckpointNotFound if gc has deleted it."""
    if context.store.checkpoint(point.id) is None:
        raise errors.CheckpointNotFound(f"checkpoint {point.id} was deleted by gc", "casrewind list --all shows what is there")
    return context.store.marks(point.id)


class Machine(NamedTuple):
    """Another machine whose checkpoints are here: the worktree's key, the name that it has here, the one that it gave itself, and the one
    by which a person names it: the first, unless others gave themselves the same."""

    worktree: bytes
    stored: str
    plain: str
    name: str
    origin: str


def machines(everything: Iterable[_Found]) -> list[Machine]:
    """The other machines, that with the newest checkpoint first. A pull stores them in the order of the server's time."""
    points: dict[bytes, Checkpoint] = {}
    for point, _ in everything:
        if point.more.machine:
            points.setdefault(point.worktree, point)
    plain = {key: names.plain_name(point.more.machine, point.more.origin) for key, point in points.items()}
    often = Counter(plain.values())
    return [
        Machine(
            key, point.more.machine, plain[key],
            names.full_name(point.more.machine, point.more.origin) if often[plain[key]] > 1 else point.more.machine, point.more.origin,
        )
        for key, point in points.items()
    ]  # fmt: skip


def name_of_machine(context: Context, point: Checkpoint) -> str:
    """The name by which a person names the machine of a checkpoint, "" for this machine."""
    if not point.more.machine:
        return ""
    return next((one.name for one in machines(context.store.checkpoints()) if one.worktree == point.worktree), point.more.machine)


def machine_place(context: Context, reference: str, everything: Sequence[_Found] | None = None) -> ReferencePlace:
    """The machine that `reference` names, and the rest of it: of several with a plain name the newest. Raises AmbiguousReference,
    CheckpointNotFound for `remote:`."""
    name, rest = names.machine_of(reference)
    own = ReferencePlace(context.root.key, "", reference)
    if not name:
        return own
    everything = context.store.checkpoints() if everything is None else everything
    known = machines(everything)
    if f"{name}:" == REMOTE:
        if not known:
            raise errors.CheckpointNotFound("no checkpoint of another machine is here", "casrewind pull fetches them")
        if len(known) > 1:
            lines = " or ".join(f"{one.name}:{rest}" for one in known[:_CANDIDATES]) + (" ..." if len(known) > _CANDIDATES else "")
            raise errors.AmbiguousReference(f"{reference!r} may mean {len(known)} machines", f"write {lines}")
        return ReferencePlace(known[0].worktree, known[0].name, rest)
    found = [one for one in known if one.plain == name] or _named_in_full(known, name)
    if not found or _find_labelled(everything, context.root.key, reference) is not None:
        return own
    return ReferencePlace(found[0].worktree, found[0].name, rest, len(found) if len(found) > 1 else 0)


def _named_in_full(known: Sequence[Machine], name: str) -> list[Machine]:
    return [one for one in known if name in (one.stored, one.name) or names.is_full_name(name, one.stored, one.origin)][:1]


def checkpoint(context: Context, reference: str) -> Checkpoint:
    """The checkpoint that `reference` names. Turns, `last`, `prev` and times are this worktree's and skip safety
    checkpoints. With a machine in front of them they are that machine's. Raises CheckpointNotFound, AmbiguousReference."""
    if turn_of(reference) is not None:
        return _checkpoint_of_turn(context, ReferencePlace(context.root.key, "", reference))
    store, worktree = context.store, context.root.key
    place = NEWEST.get(reference)
    if place is not None:  # the newest ones are enough
        newest = store.checkpoints(place, lambda point: is_listed(point, worktree))
        found = [point for point, _ in newest if is_listed(point, worktree)]
        if len(found) == place:
            return found[-1]
    everything = store.checkpoints()
    return _checkpoint_at(context, everything, machine_place(context, reference, everything))


def checkpoint_and_path(context: Context, text: str) -> tuple[Checkpoint, str]:
    """Parse REF:PATH. Returns (checkpoint, path). Labels may contain colons: the first colon after a valid reference
    counts. Raises UsageError without a colon, else the error of the part before the first colon."""
    if ":" not in text:
        raise errors.UsageError(*_no_file_error(text))
    everything = context.store.checkpoints()
    known = {REMOTE[:-1], *(word for one in machines(everything) for word in (one.stored, one.plain, one.name))}
    failure: errors.CheckpointError | None = None
    cut = _find_first_possible_colon(text)
    while cut >= 0:
        part = text[:cut]
        try:
            return _checkpoint_at(context, everything, machine_place(context, part, everything)), text[cut + 1 :]
        except errors.CheckpointError as error:
            is_better = isinstance(error, errors.AmbiguousReference) and not isinstance(failure, errors.AmbiguousReference)
            if failure is None or is_better or names.machine_of(part)[0] in known:
                failure = error
        cut = text.find(":", cut + 1)
    if text.count(":") == 1 and names.machine_of(text)[0] in known:
        raise errors.UsageError(*_no_file_error(text))
    assert failure is not None
    raise failure


def _no_file_error(text: str) -> tuple[str, str]:
    return f"{text!r} names no file", "write REF:PATH, as in last:README.md"


def _checkpoint_at(context: Context, everything: Sequence[_Found], place: ReferencePlace) -> Checkpoint:
    """The checkpoint that a reference names at its place. Raises CheckpointNotFound, AmbiguousReference."""
    if turn_of(place.reference) is not None and not (place.machine and place.reference.isdigit()):
        return _checkpoint_of_turn(context, place, everything)
    if place.machine:
        everything = [pair for pair in everything if pair[0].worktree == place.worktree]
    return _find_by_word(everything, place)


def _checkpoint_of_turn(context: Context, place: ReferencePlace, everything: Sequence[_Found] | None = None) -> Checkpoint:
    """The checkpoint before or after a turn (see checkpoint_names.turn_of). Raises CheckpointNotFound."""
    from .worktree_timeline import WorktreeTimeline

    named = turn_of(place.reference)
    timeline = WorktreeTimeline(context, everything=everything, place=place)
    with suppress(errors.CheckpointError):  # the message then names an older checkpoint
        if named is not None:
            return _checkpoint_of_state(place, *timeline.with_turns(named[0]).find_state(place.reference))
    return _checkpoint_of_state(place, *timeline.whole.view.find_state(place.reference))


def _checkpoint_of_state(place: ReferencePlace, turn: "Turn", point: Checkpoint | None) -> Checkpoint:
    if point is None:
        raise errors.CheckpointNotFound(f"{place.reference}: turn {turn.name} has no end yet, so its state is that of the files now")
    return point


def find_common_state(context: Context, target: Checkpoint) -> Checkpoint | None:
    """The newest checkpoint of the target's machine that the files here once were: it was restored here and not undone, it was cloned,
    or a checkpoint here has the same files. None if there is none."""
    store, key = context.store, context.root.key
    points = {point.id: point for point, _ in reversed(store.checkpoints())}  # oldest first
    theirs = {point.id: point for point in points.values() if point.worktree == target.worktree}
    by_tree = {point.tree: point for point in theirs.values()}
    exact = {one.safety for one in store.operations() if one.worktree == key and one.current == one.target}
    steps = [step for step in store.history(key).undo if step.target in theirs and step.safety in exact and step.safety in points]
    found = [(points[step.safety].seq, theirs[step.target]) for step in steps]
    cloned = {point.parent for point in theirs.values()}  # a checkpoint of theirs that is one of this root now
    listed = (point for point in points.values() if is_listed(point, key))  # the safety checkpoint of an undo has what was undone
    found += [(point.seq, by_tree.get(point.tree, point)) for point in listed if point.id in cloned or point.tree in by_tree]
    return max(found, key=lambda one: one[0])[1] if found else None


def checkpoint_of_entry(context: Context, session: str, entries: Collection[str]) -> Checkpoint | None:
    """The checkpoint of an entry of a conversation (a message, or the end of an answer), or None. `entries` are its id
    and those of the entries that belong to it, such as the results of its tool calls.

    Only a checkpoint that was made at that very entry counts. The nearest one has the files of another moment. Copies
    of a session have the same ids, so the checkpoints of other sessions count when `session` has none.
    """
    wanted = [entry.encode("utf-8", "surrogatepass") for entry in entries if entry]
    found: list[tuple[tuple[int, int, int], Checkpoint]] = []
    for point, _ in checkpoints_of(context):
        if any(entry in point.cursor for entry in wanted):
            rank = _rank_at_entry(point, entries)
            if rank is not None:
                found.append(((rank, int(point.session != session), point.seq), point))
    return min(found)[1] if found else None


def _rank_at_entry(point: Checkpoint, entries: Collection[str]) -> int | None:
    """How well a checkpoint fits, 0 is best; None when it was not made at one of these entries."""
    from ..model import cursor as cursors

    cursor = cursors.decode(point.cursor)
    if point.trigger == checkpoints.PROMPT:
        return 0 if cursor.prompt_id in entries else None
    if cursor.message_id not in entries or point.trigger not in _ENTRY_ORDER:
        return None
    is_before = point.trigger == "tool_batch" and not cursor.tool_use_id
    return len(_ENTRY_ORDER) + 1 if is_before else _ENTRY_ORDER.index(point.trigger) + 1


def _find_by_word(everything: Sequence[_Found], place: ReferencePlace) -> Checkpoint:
    worktree, machine, reference, _ = place
    full, listed = place.prefix + reference, f"casrewind list{' --remote' if machine else ''} --all"
    number = NEWEST.get(reference)
    if number is not None:
        numbered = [point for point, _ in everything if is_listed(point, worktree)]
        if len(numbered) < number:
            raise errors.CheckpointNotFound(
                f"no checkpoint {full!r}: {machine or 'this worktree'} has {len(numbered)}", f"{listed} shows them"
            )
        return numbered[number - 1]
    labelled = _find_labelled(everything, worktree, reference)
    if labelled is not None:
        return labelled
    moment = names.moment_of(reference)
    if moment is not None:
        return _newest_before(everything, worktree, full, moment)
    for point, _ in everything:
        if point.id == reference:
            return _checkpoint_if_saved(point)
    if len(reference) >= LEAST_PREFIX:
        found = [point for point, _ in everything if point.id.startswith(reference)]
        if found:  # a pulled checkpoint takes no prefix away from one that was made here
            return _checkpoint_if_saved(_only_one([point for point in found if not point.more.machine] or found, reference, "prefix"))
    there = next((point for point, marked in everything if point.more.machine and label_of(point, marked) == reference), None)
    if there is not None and not machine:
        name = next(one.name for one in machines(everything) if one.worktree == there.worktree)
        hint = f"{name}:{reference} names one of {name}"
        raise errors.CheckpointNotFound(f"no checkpoint {full!r} was made here", hint)
    own = [label_of(point, marked) for point, marked in everything if point.worktree == worktree and is_labelled(point, marked)]
    near = did_you_mean(reference, filter(None, (*NEWEST, *own)))
    others = f"give a turn (@N), last, prev, a label, a time, an id or at least {LEAST_PREFIX} characters of one;"
    raise errors.CheckpointNotFound(f"no checkpoint {full!r}", f"{near or others} {listed} shows what there is")


def _checkpoint_if_saved(point: Checkpoint) -> Checkpoint:
    """The checkpoint, if its tree is the state at its event. Raises CheckpointNotFound."""
    if not point.is_saved:
        raise errors.CheckpointNotFound(
            f"{point.id} has no files of its own: this event was not saved, because the project was too slow",
            "casrewind list --all shows the checkpoints beside it"
        )
    return point


def _find_labelled(everything: Sequence[_Found], worktree: bytes, reference: str) -> Checkpoint | None:
    """The checkpoint with this label, or None. In this worktree it is the newest that a person labelled, else the
    newest. Else it is a checkpoint of another worktree of this machine; AmbiguousReference is raised if there are
    several of them."""
    if not reference:  # an unset variable, say, would name every checkpoint without a label
        return None
    found = [
        (point, marked) for point, marked in everything
        if label_of(point, marked) == reference and (point.worktree == worktree or not point.more.machine)
    ]  # fmt: skip
    own = [point for point, _ in found if point.worktree == worktree]
    named = [point for point, marked in found if point.worktree == worktree and is_labelled(point, marked)]
    if named or own:
        return (named or own)[0]
    return _only_one([point for point, _ in found], reference, "label") if found else None


def _newest_before(everything: Sequence[_Found], worktree: bytes, reference: str, moment: int) -> Checkpoint:
    """The newest checkpoint of this worktree that is not later than a moment. Raises CheckpointNotFound."""
    numbered = [point for point, _ in everything if is_listed(point, worktree)]
    for point in numbered:
        if point.created_ns <= moment:
            return point
    oldest = f"; the oldest is {numbered[-1].id}, made {format_moment(numbered[-1].created_ns)}" if numbered else ""
    raise errors.CheckpointNotFound(
        f"no checkpoint {reference!r}: none was made before {format_moment(moment)}{oldest}",
        "casrewind list --all shows them"
    )


def _find_first_possible_colon(text: str) -> int:
    """Where the reference of REF:PATH may end first: not inside a time of day."""
    end = 5 if text[2:3] == ":" else 4
    clock = text[:end]
    if text[end : end + 1] == ":" and clock.replace(":", "", 1).isdigit() and clock[-3:-2] == ":":
        return end
    return text.find(":")


def _only_one(found: list[Checkpoint], reference: str, form: str) -> Checkpoint:
    if len(found) == 1:
        return found[0]
    shown = ", ".join(point.id for point in found[:_CANDIDATES]) + (", ..." if len(found) > _CANDIDATES else "")
    raise errors.AmbiguousReference(f"{form} {reference!r} names {len(found)} checkpoints: {shown}", "give the id of one")


def stream_file(context: Context, point: Checkpoint, path: bytes) -> Iterator[bytes]:
    """The bytes of a file (or of a symlink's target) in a checkpoint, piece by piece and verified. `path` is relative
    to the root. gc waits until the last piece. Raises PathNotFound for anything else, StoreDamaged at any piece."""
    pieces = _content_in_pieces(context, point, path)
    return chain((next(pieces, b""),), pieces)


def _content_in_pieces(context: Context, point: Checkpoint, path: bytes) -> Iterator[bytes]:
    with context.store.hold_shared_lock():
        entry = find_file_or_link(context, point, path)
        if entry.kind == LINK:
            yield entry.target
        else:
            yield from context.store.content(entry)


def find_file_or_link(context: Context, point: Checkpoint, path: bytes) -> Entry:
    """The entry of a file or symlink. Raises PathNotFound."""
    entry = manifest.Finder(context.store.load_tree, point.tree).find(path) if path else None
    name = printable(path or b".")
    if not path or (entry is not None and entry.kind == DIR):
        raise errors.PathNotFound(
            f"{name} is a directory in {point.id}",
            f"name a file in it (casrewind show {point.id} lists them), or have it written elsewhere with casrewind restore {point.id} "
            f"--to DIR",
        )
    if entry is None:
        skip = _find_skip_at_or_above(path, all_skips(context.store.domain(point.domain)))
        why = f": {printable(skip.path)} was not captured ({skip.reason})" if skip is not None else ""
        raise errors.PathNotFound(f"no {name} in {point.id}{why}", f"casrewind show {point.id} lists what it holds")
    if entry.kind == PURGED:
        raise errors.PathNotFound(f"{name} was purged from {point.id}: its bytes are gone from the store")
    return entry


def _find_skip_at_or_above(path: bytes, skips: tuple[Skip, ...]) -> Skip | None:
    """The skip record of a path or of a directory above it."""
    above = {path, *paths.parents(path)}
    return next((skip for skip in skips if skip.path in above), None)
