"""Clone: a checkpoint of a remote becomes a new project on this machine.

The danger prevented here: files over files. The directory must be new or empty. The blobs are stored first, then the files
are written, and the records last: so the project has no safety checkpoint and no edits outside of a turn.
"""

import heapq
import os
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

from .. import errors, fsio, locations
from .._typing import NamedTuple
from ..change import restore_to, rewind
from ..change.receipt import NOT_COMPARED, Receipt, find_receipt
from ..change.rewind import Chat
from ..context import Context
from ..extras import refuse_without_libraries
from ..history import conversation
from ..history.checkpoint_names import LEAST_PREFIX, NEWEST, full_name, is_full_name, machine_of
from ..messages import printable
from ..model import checkpoint as checkpoints
from ..model import cursor as cursors
from ..model import undo_history
from ..model.checkpoint import Checkpoint
from ..settings import Settings, close_context, open_context, store_path
from ..store.store import Store
from ..worktree import root as roots
from . import cut_clones
from . import remote_config as configs
from .arriving import Arriving, choose_arriving, have_equal_contents, key_here, own_records
from .connect import AskPassphrase, find_key, read_head
from .fetch import ChainRecords, store_arriving
from .machines import name_of_chain
from .names import BASE, TRIED, Name, allowed_characters, find_entries, find_machine, pair_of, pieces_of
from .objects import Objects, endpoint_of
from .piece_names import PieceInfo, newest_time
from .pull import ORIGIN, chains_listed, read_chain
from .remote_config import Remote, RemoteConfig
from .seal import Keys, check_head, identity_of_head
from .strangers import Strangers
from .sync_state import BaseChain, ReadChain, StateFiles, SyncState


class Cloned(NamedTuple):
    """The result of a clone: the new root, the checkpoint whose files it has, its machine, the number of files and of
    checkpoints that are in the new store, the conversation that was written (None: there is none), and sentences about what
    could not be taken. `strangers`: the number of objects that nobody with the key put there. `notes`: sentences about the name that was
    given: that several machines have it, or that an entry was left out. `receipt`: what is here of what was sent, None if that could not be
    worked out: `problems` says why."""

    root: str
    point: Checkpoint
    machine: str
    files: int
    checkpoints: int
    chat: Chat | None
    problems: tuple[str, ...]
    strangers: int = 0
    notes: tuple[str, ...] = ()
    receipt: Receipt | None = None


_NAMESAKES = 64
"""Chains of which a clone looks whether they have the name that was given."""
_MACHINES_NAMED = 8
_LEFT_OUT = "left out: the entry of {}: its chain does not say so, or cannot be read"


class _ReadOnlyState(StateFiles):
    """What is known of a remote before there is a store: nothing."""

    def __init__(self) -> None:
        self.state = SyncState()
        self.strangers = Strangers()


def clone(
    wanted: RemoteConfig, directory: str, settings: Settings, environ: Mapping[str, str], *, reference: str = "",
    meta: str = "", everything: bool = False, key_file: str = "", ask: AskPassphrase | None = None,
) -> Cloned:  # fmt: skip
    """Make a new project of a checkpoint of a remote: by default of the newest one of the machine that pushed last.

    `reference`: the name of a base or a machine, `MACHINE:REF`, an id, or at least four characters of one. `meta`: what a push had as
    --meta, instead. With `everything` the project has all checkpoints of that machine. A clone that was killed is marked in its store;
    the same clone into that directory goes on with its checkpoint. Raises UsageError, ContentInTheWay (the directory is not empty),
    RemoteError, CheckpointNotFound, AmbiguousReference, StoreFull. Then there is no new project, or the one that was killed is as it was.
    """
    pair, begun = pair_of(meta) if meta else None, cut_clones.find_begun(directory, settings)
    if begun is None:
        restore_to.refuse_unless_empty(directory, "clone")
    remote, head, master = open_unjoined(wanted, environ, key_file, ask)
    wanted, identity = remote.config, identity_of_head(head, wanted.url)
    if begun is not None and begun.identity != identity:
        raise errors.ContentInTheWay(f"{printable(directory)} has the begin of a clone of another remote", "give clone another directory")
    chosen_there = _choose_checkpoint(remote, *((reference, pair) if begun is None else (begun.checkpoint, None)))
    found, point, notes = chosen_there.found, chosen_there.point, tuple(chosen_there.notes)
    context, was_there = _open_new_project(directory, settings, is_begun=begun is not None)
    place = ""
    try:
        place = configs.write(context.store, identity, wanted, None if wanted.key_command else master, head)
        cut_clones.mark_begun(place, point.id)
        arriving = _records_for_new_project(context, found, point, everything=everything)
        stored = {one.id: one for one, _ in context.store.checkpoints()}
        chosen = stored.get(point.id) or next(one for _, one in arriving.points if one.id == point.id)
        rows = bytearray()

        def write_files(kept: Sequence[Checkpoint]) -> None:
            if chosen not in kept and chosen.id not in stored:
                raise errors.RemoteError(
                    f"the content of {chosen.id} is not complete on {wanted.url}", "casrewind clone URL DIR REF takes another checkpoint"
                )
            if begun is not None:
                cut_clones.remove_written_files(context, chosen)
            restore_to.materialise(context, chosen, context.root.path, from_worktree=False, is_published=False)

        kept, problems = store_arriving(context, found, arriving, write_files, rows)
        files = StateFiles(place)
        known = {found.chain: found.read} if everything else {}
        base = BaseChain(found.chain, found.read.last, found.read.mac)  # the first push looks whether it is still there
        files.add_sent([bytes(rows)], SyncState(chain=os.urandom(16).hex(), chains=known, base=base))
        chat = None
        try:
            if any(one.cursor for one in (*kept, *stored.values())):
                chat = rewind.take_over_conversation(context, chosen)
        except errors.CasrewindError as error:
            problems.append(f"the conversation was not written: {error}")
        cut_clones.mark_done(place)
        receipt = _receipt_of(context, found.read.machine, point, chat, problems)
    except BaseException:
        close_context(context)
        if begun is None:
            with suppress(errors.CasrewindError):
                configs.remove(place)
            _remove_new_project(directory, context, was_there=was_there)
        raise
    close_context(context)
    said = (*found.problems, *arriving.problems, *problems)
    strangers = len(remote.files.strangers.met)
    return Cloned(context.root.path, chosen, found.read.machine, chosen.files, len(kept), chat, said, strangers, notes, receipt)


def _receipt_of(context: Context, machine: str, point: Checkpoint, chat: Chat | None, problems: list[str]) -> Receipt | None:
    """The receipt of a clone. None if it cannot be worked out: `problems` gets the reason, and the clone stays."""
    rewind.note_arrival(context, point, machine, chat, whole=True)
    try:
        return find_receipt(context)
    except (errors.CasrewindError, OSError) as error:
        problems.append(NOT_COMPARED.format(error))
        return None


def open_unjoined(
    wanted: RemoteConfig, environ: Mapping[str, str], key_file: str, ask: AskPassphrase | None
) -> tuple[Remote, bytes, bytes]:
    """Returns (a remote that no project here pushes to, its head, its key). Raises RemoteError."""
    refuse_without_libraries()
    given = configs.key_from(environ, file=key_file, command=wanted.key_command)
    objects = Objects(wanted.url, wanted.options)
    wanted = wanted._replace(endpoint=endpoint_of(wanted.url, wanted.options, os.environ))
    head = read_head(objects)
    if head is None:
        raise errors.RemoteError(f"there is no casrewind remote at {wanted.url}", "check the URL; casrewind remote add URL makes one")
    master, _ = find_key(objects, head, given, ask)
    return Remote(wanted, objects, Keys(master, check_head(master, head, wanted.url)), _ReadOnlyState()), head, master


def _open_new_project(directory: str, settings: Settings, *, is_begun: bool) -> tuple[Context, bool]:
    """Returns (the new project, True if its directory was there). `is_begun`: a clone of it was killed."""
    was_there = os.path.isdir(directory)
    if not was_there:
        try:
            fsio.make_directories_by_umask(directory)
        except OSError as error:
            raise errors.WorkspaceError(f"cannot make {printable(directory)}: {error.strerror}") from error
    root = roots.root_at(locations.real_path(directory))
    try:
        roots.refuse_system_directories(root.path, settings.home)
        with Store(store_path(root, settings), create=True, deadline=settings.deadline) as store:
            if not is_begun and not store.is_untouched():
                raise errors.WorkspaceError(
                    f"there are checkpoints of an earlier project at {printable(root.path)}",
                    "give clone another directory, or run casrewind pull in this one"
                )
        return open_context(root.path, settings, create=True), was_there
    except BaseException:
        if not was_there:
            with suppress(OSError):
                os.rmdir(directory)
        raise


def _remove_new_project(directory: str, context: Context, *, was_there: bool) -> None:
    """Remove what a failed clone made. Files that were written are removed by restore_to."""
    from ..store import registry

    with suppress(errors.CasrewindError, OSError):
        registry.remove_store_if_empty(context.store.path, 1.0)
    if not was_there:
        with suppress(OSError):
            os.rmdir(directory)


class _Chosen(NamedTuple):
    """The chain and the checkpoint to clone, and what a person has to know of the name that was given."""

    found: ChainRecords
    point: Checkpoint
    notes: Sequence[str] = ()


def _choose_checkpoint(remote: Remote, reference: str, pair: Name | None) -> _Chosen:
    """What to clone. The entries of a name tell which chains to look through first, and then all are looked through. What an entry leads
    to has to say so itself. Raises CheckpointNotFound, AmbiguousReference, RemoteError."""
    machine, place = machine_of(reference)
    notes = list[str]()
    for meant in [pair] if pair else [Name(BASE, "", reference)] if reference and not machine else []:
        entries = find_entries(remote, meant)
        notes += entries.left_out
        for entry in entries.found[:TRIED]:
            with suppress(errors.CheckpointNotFound):
                found, point = _look_through(remote, pieces_of(remote, [entry]), entry.checkpoint, identity=entry.checkpoint)
                return _Chosen(found, point, notes)
            notes.append(_LEFT_OUT.format(full_name(f"{meant}", entry.chain)))
    if pair:
        trouble = f" ({'; '.join(notes)})" if notes else ""
        raise errors.CheckpointNotFound(f"nothing on {remote.config.url} is {pair}{trouble}", "casrewind push --meta KEY=VALUE names it")
    name, place = (machine, place) if machine else (reference, "last")
    if name:
        entries = find_machine(remote, name)
        notes += entries.left_out
        chains = pieces_of(remote, entries.found[:TRIED])
        with suppress(errors.CheckpointNotFound):
            found, point = _look_through(remote, chains, reference, name, place)
            return _Chosen(found, point, [*notes, *_namesakes(remote, found, name, chains, len(entries.found))])
        notes += [_LEFT_OUT.format(full_name(name, entry.chain)) for entry in entries.found[:TRIED]]
    chains = dict(chains_listed(remote))
    if not chains:
        url = remote.config.url
        raise errors.CheckpointNotFound(f"nothing was pushed to {url} yet", "casrewind push sends the checkpoints of a project")
    identity = reference if not machine and len(reference) >= LEAST_PREFIX else ""
    found, point = _look_through(remote, chains, reference, name, place, identity, notes)
    if not reference or reference in point.id:
        return _Chosen(found, point)
    notes.append(f"{name}: found among all chains, because none of its entries counts")
    return _Chosen(found, point, [*notes, *_namesakes(remote, found, name, chains)])


def _look_through(
    remote: Remote, chains: dict[str, Sequence[PieceInfo]], reference: str, name: str = "", place: str = "last", identity: str = "",
    notes: Sequence[str] = (),
) -> tuple[ChainRecords, Checkpoint]:  # fmt: skip
    """The chain and the checkpoint, the chain with the newest piece first, emptied ones last: the one at a `place` in a chain of this
    `name`, or one with this start of its `identity`, or without both the newest of all. `notes` are part of the error if there is none."""
    newest = [(-newest_time(pieces), chain) for chain, pieces in chains.items()]  # the server's time
    heapq.heapify(newest)
    named: list[tuple[str, Checkpoint]] = []
    first: ChainRecords | None = None
    problems = [*notes]
    machines: list[str] = []
    while newest:
        at, chain = heapq.heappop(newest)
        found = read_chain(remote, chain, chains[chain], ReadChain())
        remote.files.strangers.add(found.reader.strangers)
        true = [piece for piece in chains[chain] if piece not in found.reader.strangers]
        if true and -newest_time(true) > at:  # a stranger made it look new
            chains[chain] = true
            heapq.heappush(newest, (-newest_time(true), chain))
            continue
        problems += found.problems
        points = [point for _, point in own_records(found.items).points]
        listed = [point for point in points if point.trigger != checkpoints.SAFETY and point.is_saved]
        machines.append(found.read.machine)
        if _is_named(found, name) if name else not identity:
            if point := _point_at(points, listed, place):
                return found, point
        elif identity:
            named += [(found.read.machine, point) for point in points if point.id.startswith(identity)]
            first = first or (found if named else None)  # the others are not kept
        del found, points, listed
    if len({point.id for _, point in named}) > 1:
        shown = ", ".join(point.id for _, point in named[:8])
        raise errors.AmbiguousReference(f"{reference!r} names {len(named)} checkpoints: {shown}", "give the id of one")
    if not all(have_equal_contents(named[0][1], point) for _, point in named):
        pushed = ", ".join(dict.fromkeys(machine for machine, _ in named))
        raise errors.AmbiguousReference(
            f"{named[0][1].id} was pushed with different contents by {pushed}", "give the name of the machine whose newest you want"
        )
    if first is not None:
        return first, named[0][1]
    trouble = f" ({'; '.join(problems)})" if problems else ""
    if not reference:
        raise errors.CheckpointNotFound(f"no checkpoint on {remote.config.url} can be read{trouble}")
    raise errors.CheckpointNotFound(
        f"no checkpoint {reference!r} on {remote.config.url}{trouble}",
        f"give a base, an id, the start of one, MACHINE:last, MACHINE:prev or a machine: {', '.join(dict.fromkeys(filter(None, machines)))}"
    )


def _point_at(points: Sequence[Checkpoint], listed: Sequence[Checkpoint], place: str) -> Checkpoint | None:
    """The checkpoint of a chain that a reference names behind the machine: last, prev, an id or the start of one. Raises
    CheckpointNotFound: what another machine of that name has before its newest one is not meant."""
    if place in NEWEST and listed:
        if len(listed) < NEWEST[place]:
            raise errors.CheckpointNotFound("that machine has pushed one checkpoint only", "MACHINE:last names it")
        return listed[-NEWEST[place]]
    found = [point for point in points if point.id.startswith(place)] if len(place) >= LEAST_PREFIX else []
    return found[0] if len(found) == 1 else None


def _is_named(found: ChainRecords, name: str) -> bool:
    """True if a name means the machine of a chain: its own name, or one that no other has."""
    newest = found.reader.open_newest()
    own = found.read.machine if newest is None else allowed_characters(newest.table.machine)
    return name in (found.read.machine, own) or is_full_name(name, own, found.chain)


def _namesakes(
    remote: Remote, found: ChainRecords, name: str, chains: Mapping[str, Sequence[PieceInfo]], entries: int = 0
) -> list[str]:
    """That several machines have the name that was given. Only the newest of these chains are looked at. `entries`: how many led to these
    and others, 0 = they are all chains. A chain that an entry leads to, and that says another name, is named."""
    if len(chains) < 2:
        return []
    newest = sorted(chains.items(), key=lambda one: -newest_time(one[1]))
    with ThreadPoolExecutor(8) as threads:
        machines = [*threads.map(lambda one: name_of_chain(remote, one[1]) or "", newest[:_NAMESAKES])]
    renamed = [chain for (chain, _), one in zip(newest, machines, strict=False) if entries and one not in ("", name)]
    said = [_LEFT_OUT.format(full_name(name, chain)) for chain in renamed]
    if (number := machines.count(name)) < 2:
        return said
    others = [full_name(name, chain) for (chain, _), one in zip(newest, machines, strict=False) if one == name and chain != found.chain]
    shown = ", ".join(others[:_MACHINES_NAMED]) + (", ..." if len(others) > _MACHINES_NAMED else "")
    more = "" if entries <= TRIED and len(newest) <= _NAMESAKES else " or more"
    return [*said, f"{name}: the newest of {number}{more} machines of that name ({full_name(name, found.chain)}); the others: {shown}"]


def _records_for_new_project(context: Context, found: ChainRecords, point: Checkpoint, *, everything: bool) -> Arriving:
    """The records for the new project. The worktree of the chosen checkpoint becomes the new root, any other one stays
    another machine's."""
    own = own_records(found.items)
    here = {point.worktree}
    for _, moved, _ in reversed(own.others):  # the project may have been moved on its machine
        if isinstance(moved, undo_history.Adoption):
            here |= {moved.old} if moved.new in here else set()
    if not everything:
        wanted = _with_conversation([one for _, one in own.points], point)
        own = own._replace(points=[(seq, one) for seq, one in own.points if one.id in wanted], others=[])
    own = own._replace(others=[one for one in own.others if not isinstance(one[1], undo_history.Adoption)])

    def key_of(worktree: bytes) -> bytes:
        return context.root.key if worktree in here else key_here(found.chain, worktree)

    def place(one: Checkpoint) -> Checkpoint:
        return _with_root_of_here(context, found, one, is_here=one.worktree in here)

    return choose_arriving(own, found.read.machine, context.store.checkpoint, place, key_of)


def _with_conversation(points: Sequence[Checkpoint], point: Checkpoint) -> set[str]:
    """The ids of a checkpoint and of those that have its conversation: the last one before it that belongs to a session, and
    for a session of several files the last one of each file."""
    before = [one for one in points[: points.index(point) + 1] if one.worktree == point.worktree and one.cursor]
    session = before[-1].session if before else ""
    files = {cursors.decode(one.cursor).transcript: one.id for one in before if one.session == session and one.transcript is not None}
    return {point.id, *(one.id for one in before[-1:]), *files.values()}


def _with_root_of_here(context: Context, found: ChainRecords, point: Checkpoint, *, is_here: bool) -> Checkpoint:
    if not is_here:
        more = point.more._replace(machine=found.read.machine, origin=found.chain[:ORIGIN])
        return point._replace(worktree=key_here(found.chain, point.worktree), more=more)
    placed = conversation.with_transcript_path_here(point, context.root.path, context.homes)
    return placed._replace(worktree=context.root.key, root=os.fsencode(context.root.path))
