"""Preflight: every check that can refuse a restore, made before its first change.

The checks find an unfinished restore, lack of space, damage, obstacles, and paths that this process may not change.
The danger prevented here: a restore that stops half way, and that no --continue can ever finish.
"""

import errno
import fcntl
import os
import stat
import struct
from collections.abc import Collection, Container, Iterable, Iterator, Sequence

from .. import errors, fsio
from ..context import Context
from ..messages import enumerated, is_process_limit, plural, printable
from ..model import manifest, paths
from ..model import plan as plans
from ..model.at_risk import OpenFile, database_of, may_be_of_database
from ..model.checkpoint import Checkpoint
from ..model.manifest import DIR, FILE, LINK, Entry, is_directory, same_for_restore
from ..model.plan import Action, Actions, Kept, Plan, content_differs, forbids_owner_to_change_contents
from ..model.respelled import join_respelled
from ..store import packs
from ..worktree.reader import means_absent_path
from .safety_capture import CapturedState, command_to_open, describe_in_cloud, describe_mount, obstacles_error

SKIP_DAMAGED = "Use --skip-damaged to restore everything else, or list paths after --"
STOP_IT = "stop it first, or go ahead with --open-files"
FINISH_FIRST = "finish it with casrewind restore --continue, or take it back with casrewind restore --abort"
OTHER_PATHS = "restore elsewhere with --to DIR, or only other paths with -- PATH"
_SPARE = 1 << 20  # bytes that must remain free after a restore
_DAMAGED_NAMED = 5  # damaged paths named in a message
_AT_ONCE = 100  # blobs looked up together
_IMMUTABLE_IN_WORDS, _APPEND_IN_WORDS = "immutable (chattr -i removes that)", "append-only (chattr -a removes that)"
_GET_FLAGS = 2 << 30 | struct.calcsize("l") << 16 | ord("f") << 8 | 1
"""FS_IOC_GETFLAGS. On PowerPC and MIPS the number differs: the call fails, and no flags are found."""
_IMMUTABLE, _APPEND = 0x10, 0x20
_FLAGS_IN_WORDS = (
    (0x80000, "guarded by macOS itself (System Integrity Protection)"),  # SF_RESTRICTED
    (stat.SF_IMMUTABLE, "immutable (sudo chflags noschg removes that)"),
    (stat.UF_IMMUTABLE, "immutable (chflags nouchg removes that)"),
    (stat.SF_APPEND, "append-only (sudo chflags nosappnd removes that)"),
    (stat.UF_APPEND, "append-only (chflags nouappnd removes that)"),
)
"""What st_flags of macOS and the BSDs forbid to change."""
_NO_UNLINK = (0x100000, "one that nobody may remove (sudo chflags nosunlnk removes that)")  # SF_NOUNLINK: its contents may change
_UNKNOWN = (errno.ENOTTY, errno.EOPNOTSUPP, errno.EINVAL, errno.ENOSYS)


def refuse_open_journal(context: Context) -> None:
    """Raise JournalOpen if a restore of this worktree is unfinished, StoreBusy if one is running."""
    if not context.store.is_restore_open(context.root.key):
        return
    if context.store.is_restoring(context.root.key):
        raise errors.StoreBusy("another restore of this worktree is running", "wait for it")
    raise errors.JournalOpen(
        "a restore was interrupted",
        FINISH_FIRST,
    )


def find_open_files(context: Context, actions: Iterable[Action]) -> tuple[OpenFile, ...]:
    """The files that these actions replace or remove and that a program has open for writing, if an SQLite database is among
    them."""
    replaced = [
        (each.source, each.before.size) for each in actions
        if each.before is not None and each.before.kind == FILE and (each.after is None or content_differs(each))
    ]  # fmt: skip
    may_be = dict.fromkeys(database_of(path) for path, size in replaced if may_be_of_database(path, size))
    if not may_be:
        return ()
    from ..worktree import open_files

    return open_files.find_open_files(context.tree, [path for path, _ in replaced], may_be)


def refuse_open_databases(found: Sequence[OpenFile], known: Collection[OpenFile] = ()) -> None:
    """Raise DatabaseOpen if a program has a database open. `known`: those that a person was told of, and agreed."""
    new = [item for item in found if item.is_database and item not in known]
    if not new:
        return
    same = [f"{printable(item.program)} (pid {item.pid})" for item in new if item.path == new[0].path]
    others = len({item.path for item in new}) - 1
    more = f", and {plural(others, 'more database')}" if others else ""
    raise errors.DatabaseOpen(
        f"{paths.lossy_text(new[0].path)} is open for writing in {enumerated(same)}{more}: what is restored below it would be lost; "
        "nothing was changed",
        STOP_IT,
    )


def refuse_forgotten(context: Context, target: Checkpoint) -> None:
    """Raise CheckpointNotFound if gc has deleted the target since it was resolved. The caller must hold the store."""
    if context.store.checkpoint(target.id) is None:
        raise errors.CheckpointNotFound(f"checkpoint {target.id} was forgotten by gc just now", "casrewind list shows the remaining ones")


def checked_plan(
    context: Context, now: CapturedState, plan: Plan, *, hint: str, lost: Sequence[Kept] = (), made: Container[bytes] = (),
    skip_damaged: bool = False, benign: bool,
) -> Plan:  # fmt: skip
    """The plan without damaged content (with `skip_damaged`) and without directories that contain unplanned files. What is one file under
    two spellings is renamed.
    Reads every blob that will be written, but for those with the digests `made`: the operation itself has made them.
    `benign` is the flag of these kept directories.

    Raises StoreFull. Raises StoreDamaged for damaged content and for `lost`, unless `skip_damaged`; its message ends
    with `hint`. Raises ContentInTheWay if a directory with unplanned files would have to become a file.
    """
    plan = join_respelled(plan, now.respelled, manifest.Finder(now.load, now.tree).find)
    refuse_unless_room(context.root.path, plan.actions)
    damaged = unreadable_content(context, plan.actions, made)
    if not skip_damaged:
        refuse_lost_content([*lost, *damaged], hint)
    plan = without_lost_paths(plan, damaged)
    while True:
        kept, obstacles = _directories_to_keep(context, now, plan.actions, benign=benign)
        if obstacles:
            raise obstacles_error(obstacles)
        if not kept:
            return plan
        plan = plans.keep_paths(plan, kept)


def check_and_add_parent_modes(context: Context, now: CapturedState, given: Sequence[Action]) -> Actions:
    """The actions of a plan, plus an action for each read-only parent directory that must be opened to change its
    entries. Raises as refuse_unless_possible does."""
    actions = plans.sort_and_pack(given)
    if os.geteuid() != 0:
        actions = _add_actions_for_readonly_parents(now, actions)
    refuse_unless_possible(context, actions)
    return actions


def _add_actions_for_readonly_parents(now: CapturedState, actions: Actions) -> Actions:
    finder = manifest.Finder(now.load, now.tree)
    opened: dict[bytes, Action] = {}
    last = b""
    for action in actions:
        parent = action.path.rpartition(b"/")[0]
        if parent in (b"", last) or parent in opened:
            continue
        last = parent
        entry = finder.find(parent)
        if entry is not None and entry.kind == DIR and entry.mode & stat.S_IRWXU != stat.S_IRWXU and actions.get(parent) is None:
            opened[parent] = Action(parent, entry, entry, parent)
    return plans.sort_and_pack([*actions, *opened.values()]) if opened else actions


def check_and_read_blobs(context: Context, actions: Sequence[Action], advice: str) -> None:
    """Check that all actions are possible, and read every blob that will be written. `advice` is the message's advice
    about obstacles. Raises ContentInTheWay, StoreDamaged and others."""
    refuse_unless_possible(context, actions, advice)
    for item in unreadable_content(context, actions):
        raise errors.BlobCorrupt(f"{paths.lossy_text(item.path)} is {item.reason}")


def refuse_unless_possible(context: Context, actions: Sequence[Action], advice: str = "") -> None:
    """Check for space, permissions and valid names. Raises ContentInTheWay, UnsafePath, StoreFull."""
    if obstacles := _describe_what_may_not_be_changed(context, actions):
        raise obstacles_error(obstacles, advice)
    copied = 0
    for action in actions:
        name = paths.check_path(action.path).rpartition(b"/")[2]
        if action.before is None and not context.tree.allows_name(name):
            raise errors.UnsafePath(
                f"this file system cannot hold the name of {paths.lossy_text(action.path)}; nothing was changed",
                OTHER_PATHS
            )
        after = action.after
        if after is not None and after.kind == FILE and not content_differs(action):
            copied += after.size if _must_be_replaced_by_copy(action, context.tree.status_of(action.source)) else 0
    refuse_unless_room(context.root.path, actions, copied)


def refuse_unless_room(directory: str, actions: Sequence[Action], copied: int = 0) -> None:
    """Check that the file system of `directory` has space for the actions. `copied`: bytes of files that will be
    copied. Call it before reading content, because a manifest may declare a false size. Raises StoreFull."""
    needed = copied
    for action in actions:
        if content_differs(action) and action.after is not None and action.after.kind == FILE:
            needed += action.after.size
    space = os.statvfs(directory)
    free = space.f_bavail * space.f_frsize
    if needed and space.f_blocks and needed + _SPARE > free:  # ramfs and some others count none
        raise errors.StoreFull(
            f"not enough space in {printable(directory)}: the restore writes {needed} bytes and {free} are free; "
            f"nothing was changed"
        )


def unreadable_content(context: Context, actions: Sequence[Action], made: Container[bytes] = ()) -> list[Kept]:
    """The paths with new content that is damaged or missing in the store. Reads all content that will be written, but for
    that with the digests `made`. Raises ManifestCorrupt for intact content of another size than its entry declares."""
    wanted = [
        number for number, action in enumerate(actions)
        if content_differs(action) and action.after is not None and action.after.digest not in made
    ]  # fmt: skip
    lost: list[Kept] = []
    for start in range(0, len(wanted), _AT_ONCE):
        part = [actions[number] for number in wanted[start : start + _AT_ONCE]]
        lost += _unreadable_files(context, [(each.path, each.after) for each in part if each.after is not None and each.after.kind == FILE])
        if context.progress is not None:
            context.progress("checking stored content", start + len(part), len(wanted))
    return lost


def _unreadable_files(context: Context, files: Sequence[tuple[bytes, Entry]]) -> Iterator[Kept]:
    wanted = list({entry.digest for _, entry in files if not entry.chunks})
    found = {digest: len(data) if isinstance(data, bytes) else data for digest, data in context.store.read_many(wanted, packs.FILE)}
    for path, entry in files:
        try:
            length = sum(map(len, context.store.content(entry))) if entry.chunks else found[entry.digest]
            if isinstance(length, errors.StoreDamaged):
                raise length
            if length != entry.size:
                raise errors.ManifestCorrupt(
                    f"damaged tree: the content of {paths.lossy_text(path)} has another size",
                    "run casrewind verify"
                )
        except (errors.BlobMissing, errors.BlobCorrupt) as error:
            yield Kept(path, f"damaged in the store: {error}", benign=False)


def refuse_lost_content(lost: Sequence[Kept], hint: str) -> None:
    """Raise StoreDamaged with the paths in `lost`, if there are any."""
    if not lost:
        return
    shown = "; ".join(f"{paths.lossy_text(item.path)}: {item.reason}" for item in lost[:_DAMAGED_NAMED])
    more = f"; and {len(lost) - _DAMAGED_NAMED} more" if len(lost) > _DAMAGED_NAMED else ""
    raise errors.StoreDamaged(
        f"damaged store, nothing was changed: {shown}{more}", f"{hint}; casrewind verify shows everything that is affected"
    )


def without_lost_paths(plan: Plan, lost: Sequence[Kept]) -> Plan:
    """The plan without the paths in `lost`. A directory that a lost file should replace keeps its contents."""
    if not lost:
        return plan
    left = {item.path for item in lost}
    lost_scope = paths.PathScope(left)
    inside = [
        Kept(action.path, "what should take its place is damaged in the store", benign=False)
        for action in plan.actions
        if lost_scope.covers(action.path) and action.path not in left
    ]
    return plans.keep_paths(plan, [*lost, *inside])


def _directories_to_keep(context: Context, now: CapturedState, actions: Sequence[Action], *, benign: bool) -> tuple[list[Kept], list[str]]:
    """Check the directories that the actions remove or replace, as they are now. Returns (directories kept because of
    unplanned files in them, obstacles where a directory must become a file)."""
    planned = plans.sort_and_pack(actions)
    going = [each for each in planned if each.before is not None and each.before.kind == DIR and not is_directory(each.after)]
    if not going:
        return [], []
    replaced = {action.source for action in going if action.after is not None}
    finder = manifest.Finder(now.load, now.tree)
    kept: list[Kept] = []
    obstacles: list[str] = []
    for action in going:
        place = action.source  # what is in it goes under the spelling that it has now
        try:
            names = context.tree.names(place)
        except OSError:
            continue
        found = ((name, planned.get(paths.join(place, name))) for name in names)
        strangers = [name for name, other in found if other is None or other.after is not None]
        if not strangers:
            continue
        inside = next((above for above in (*paths.parents(place), place) if above in replaced), None)
        first = paths.join(place, strangers[0])
        if inside is not None:
            obstacles.append(f"{paths.lossy_text(inside)} has to become a file, but {paths.lossy_text(first)} in it is in no checkpoint")
        else:
            known = finder.find(first) is not None
            reason = f"still holds {paths.lossy_text(strangers[0])}" + ("" if known else ", which is not captured")
            kept.append(Kept(action.path, reason, benign=benign))
    return kept, obstacles


def _describe_what_may_not_be_changed(context: Context, actions: Sequence[Action]) -> list[str]:
    """Descriptions of everything that may not be changed. Changes nothing itself. A directory of ours without write
    permission is no obstacle: the plan opens and closes it. Mount points are read anew, because they may have changed
    since planning."""
    found: dict[bytes, str] = {}
    context.tree.update_mounts()
    with _OpenParent(context, frozenset(action.source for action in actions if forbids_owner_to_change_contents(action))) as state:
        for action in actions:
            point = context.tree.mounts.mount_point_at_or_above(action.source)
            if point is not None:
                found[point] = describe_mount(point)
                continue
            directory, _, name = action.source.rpartition(b"/")
            state.enter(directory)
            status = None if action.before is None else state.status(name)
            if state.is_in_cloud or (status is not None and not fsio.is_on_disk(status)):
                place = context.tree.place_in_cloud(action.source) or action.source
                found[place] = describe_in_cloud(place)
                continue
            why = "" if status is None else state.why_unchangeable(name, status, action)
            if why:
                found[action.source] = f"{paths.lossy_text(action.source)} {why}"
            if _changes_names(action, status) and (why := state.why_names_may_not_change()):
                found[directory] = why
    return list(found.values())


def find_actions_below_mounts(context: Context, actions: Iterable[Action]) -> dict[bytes, str]:
    """{path: description of its mount point} for actions on paths below a mount point."""
    context.tree.update_mounts()
    points = ((action.path, context.tree.mounts.mount_point_at_or_above(action.source)) for action in actions)
    return {path: describe_mount(point) for path, point in points if point is not None}


def _changes_names(action: Action, status: os.stat_result | None) -> bool:
    """True if an action creates, removes or renames a name in its directory."""
    before, after = action.before, action.after
    if before is None or after is None or before.kind != after.kind or action.source != action.path or content_differs(action):
        return True
    return _must_be_replaced_by_copy(action, status)


def _must_be_replaced_by_copy(action: Action, status: os.stat_result | None) -> bool:
    """True if a file's mode changes and it has hard links: then a copy replaces it. `status` is its lstat."""
    before, after = action.before, action.after
    if before is None or after is None or after.kind in (DIR, LINK) or same_for_restore(before, after):
        return False
    return not content_differs(action) and status is not None and status.st_nlink > 1


class FileFlags:
    """Reads the flags that forbid changes to a file or directory, even for root: immutable, append-only and, on macOS, those of
    the system. Remembers the file systems without them."""

    def __init__(self) -> None:
        """No file system is known yet."""
        self._without: set[int] = set()  # devices

    def of(self, name: bytes, directory: int, status: os.stat_result) -> str:
        """What the flags of a name in an open directory, with this lstat, forbid, and what removes that; "" if nothing, or if they
        cannot be read."""
        flags: int | None = getattr(status, "st_flags", None)
        if flags is not None:
            return _words_of(flags, _FLAGS_IN_WORDS)
        if status.st_dev in self._without or not (stat.S_ISREG(status.st_mode) or stat.S_ISDIR(status.st_mode)):
            return ""
        try:
            fd = os.open(name, fsio.READ_FLAGS, dir_fd=directory)
        except OSError as error:
            if is_process_limit(error):
                raise
            return ""
        with fsio.closing(fd):
            return self.of_open(fd, status)

    def of_open(self, fd: int, status: os.stat_result) -> str:
        """As `of`, for an open file or directory with this status."""
        known: int | None = getattr(status, "st_flags", None)
        if known is not None:
            return _words_of(known, _FLAGS_IN_WORDS)
        if status.st_dev in self._without:
            return ""
        try:
            data = fcntl.ioctl(fd, _GET_FLAGS, bytes(struct.calcsize("l")))
        except OSError as error:
            if error.errno in _UNKNOWN:
                self._without.add(status.st_dev)
            return ""
        flags = struct.unpack_from("I", data)[0]  # an int, although the request number encodes a long
        return _words_of(flags, ((_IMMUTABLE, _IMMUTABLE_IN_WORDS), (_APPEND, _APPEND_IN_WORDS)))


def _words_of(flags: int, known: Iterable[tuple[int, str]]) -> str:
    """The words for the first of the known flags that is set; "" if none is."""
    return next((words for flag, words in known if flags & flag), "")


class _OpenParent:
    """Opens the directories of a plan in turn, each once. `opened` are those that the plan makes writable."""

    def __init__(self, context: Context, opened: frozenset[bytes]) -> None:
        self._context, self._opened = context, opened
        self._flags, self._me = FileFlags(), os.geteuid()
        self._directory: bytes | None = None
        self._fd, self._reported, self.is_in_cloud = -1, False, False

    def __enter__(self) -> "_OpenParent":
        return self

    def __exit__(self, *_: object) -> None:
        self._close()

    def _close(self) -> None:
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)

    def enter(self, directory: bytes) -> None:
        """Make `directory` the current directory."""
        if directory == self._directory:
            return
        self._close()
        self._directory, self._reported, self.is_in_cloud = directory, False, False
        try:
            self._fd = self._context.tree.open_directory(directory)
        except OSError as error:
            if is_process_limit(error):
                raise
            self.is_in_cloud = isinstance(error, fsio.NotOnDisk)

    def status(self, name: bytes) -> os.stat_result | None:
        """lstat of a name in the current directory, or None if that fails."""
        try:
            return None if self._fd < 0 else os.stat(name, dir_fd=self._fd, follow_symlinks=False)
        except OSError as error:
            if means_absent_path(error) or not is_process_limit(error):
                return None
            raise

    def why_unchangeable(self, name: bytes, status: os.stat_result, action: Action) -> str:
        """Why an action may not change this path, or ""."""
        before, after = action.before, action.after
        keeps_content = before is not None and after is not None and before.kind == after.kind and not content_differs(action)
        if keeps_content and after is not None and after.kind == LINK and action.source == action.path:
            return ""
        attribute = self._flags.of(name, self._fd, status)
        if not attribute and _changes_names(action, status):
            attribute = _words_of(getattr(status, "st_flags", 0), [_NO_UNLINK])
        if attribute:
            return f"is {attribute}"
        if self._me in (0, status.st_uid):
            return ""
        if keeps_content and not same_for_restore(before, after):
            return "belongs to another user: its mode cannot be changed"
        above = os.fstat(self._fd)
        if above.st_mode & stat.S_ISVTX and above.st_uid != self._me and _changes_names(action, status):
            return "belongs to another user, and its directory has the sticky bit: it can be neither replaced nor removed"
        return ""

    def why_names_may_not_change(self) -> str:
        """Why the current directory's names may not change, or "". Returns the reason only once per directory."""
        directory = self._directory
        if directory is None or self._reported:
            return ""
        self._reported = True
        shown = paths.lossy_text(directory) or printable(self._context.tree.root)
        there = self._context.tree.status_of(directory) if directory else os.fstat(self._context.tree.fd)
        if there is None or not stat.S_ISDIR(there.st_mode):
            return ""
        attribute = "" if self._fd < 0 else self._flags.of_open(self._fd, there)
        if attribute:
            return f"the directory {shown} is {attribute}"
        if (directory in self._opened and there.st_uid == self._me) or self._context.tree.may_change_names(directory):
            return ""
        return f"the directory {shown} may not be written to{command_to_open(shown, there)}"
