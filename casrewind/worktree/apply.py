"""Carrying out a plan: the only code that writes to, renames or removes the user's files.

The danger prevented here: a byte lost between the moment a file was stored and the moment it is replaced. Right before
a change the present bytes are hashed again; a file is replaced by *exchanging* names, so that whatever stood there at
that very instant still has a name, is hashed once more at the end, and is removed only if it is what the safety
checkpoint holds (displaced.py).

The order (phases in model/plan.py): make directories; stage new contents under temporary names and sync them; give them modes
and names; other modes; then removals; then directories that became empty; then the modes of directories; then one sync.
Killed anywhere, the same plan can be carried out again: every action finds out for itself whether it is done (recover.py
deals with the temporary files first).
"""

import errno
import os
import stat
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress

from .. import fsio
from .._typing import NamedTuple
from ..model import plan as plans
from ..model.manifest import DIR, FILE, LINK, PERMISSIONS, Entry, same
from ..model.plan import Action, Actions, Kept, batches, needs_opening, phases
from . import rename
from .displaced import CHANGED, MOVED_ASIDE, DisplacedFiles, naming
from .nested_stores import NestedStores
from .reader import Worktree

_SPECIAL = stat.S_ISUID | stat.S_ISGID | stat.S_ISVTX
_PIECE = 1 << 20
_HOLE = 1 << 16  # bytes of zeros in a row from which a hole is made
NOT_EMPTY = "not empty: it holds something that the restore does not know"
_LOST = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ESTALE)

Content = Callable[[Entry], Iterable[bytes]]
"""A file's bytes, piece by piece, checked."""
Report = Callable[[str, int, int], None]
"""Told what goes on, how many actions are done, of how many."""


class Outcome(NamedTuple):
    """What was done, and what was left alone and why."""

    done: Actions
    kept: tuple[Kept, ...]


class Applier:
    """Carries out the actions of one plan. `tag` makes the names of its temporary files its own."""

    def __init__(
        self, tree: Worktree, actions: Sequence[Action], content: Content, tag: str, report: Report | None = None
    ) -> None:
        """Nothing happens before `run`."""
        self._actions, self._content, self._report = plans.pack(actions), content, report
        self.displaced = DisplacedFiles(tree, self._actions, tag)
        self._displaced: dict[bytes, list[int]] = {b"": [], MOVED_ASIDE: []}  # what lost its name to which actions, by suffix
        self._waiting: list[Action] = []  # contents whose names a directory has until all that is in it is removed
        self._shared: list[Action] = []  # files with more names: a copy gets the new mode, for the other names keep theirs
        self._ticks = 0

    def run(self) -> Outcome:
        """Carry out the plan. Raises OSError; then temporary files may be left for settle.settle to find."""
        order = phases(self._actions)
        # whatever the plan says: it may be that of an earlier version
        self.leave_alone(NestedStores(self.displaced.tree).changed_by(self._actions))
        self._each(self._open_directory, order.opens)
        self._each(self._make_directory, order.makes)
        for batch in batches(order.writes):
            self._write(batch)
        self._each(self._change_mode, order.modes)
        for batch in batches(self._shared):
            self._write(batch)
        self._each(self._remove, order.removes)
        for suffix, numbers in self._displaced.items():
            for action in map(self._actions.__getitem__, numbers):
                with naming(action.path), self.displaced.parent(action.source) as (fd, name):
                    self.displaced.dispose(fd, name, self.displaced.temporary(action, suffix), action)
        self._each(self._remove_directory, order.rmdirs)
        self._each(self._place_waiting, self._waiting)
        for path in sorted(self.displaced.aside, reverse=True):
            with naming(path):
                self._remove_aside(path)
        self._each(self._set_directory_mode, order.dir_modes)
        fsio.sync_tree(self.displaced.tree.fd)
        kept = self.displaced.kept
        return Outcome(plans.without(self._actions, kept), tuple(sorted(kept.values())))

    def _each(self, work: Callable[[Action], None], actions: Iterable[Action]) -> None:
        """Do the work on each action; one whose place is gone, or leads through a link now, is left alone."""
        for action in actions:
            if action.path in self.displaced.spared:
                continue
            try:
                with naming(action.path):
                    work(action)
            except OSError as error:
                if error.errno not in _LOST:
                    raise
                self.displaced.leave_alone(action)

    def leave_alone(self, items: Iterable[Kept]) -> None:
        """Leave these paths alone, whatever the plan says of them."""
        self.displaced.spared.update((item.path, item) for item in items)
        self.displaced.kept.update(self.displaced.spared)

    def _tick(self) -> None:
        self._ticks += 1
        if self._report is not None:
            self._report("restoring", self._ticks, len(self._actions))

    def _displace(self, fd: int, name: bytes, action: Action) -> None:
        """Rename what stands at an action's path to a temporary name; it waits there for its last check."""
        aside = self.displaced.temporary(action, MOVED_ASIDE)
        os.rename(name, aside, src_dir_fd=fd, dst_dir_fd=fd)
        self._lost(action, MOVED_ASIDE)

    def _lost(self, action: Action, suffix: bytes) -> None:
        """Remember what stands under an action's temporary name with this suffix now."""
        self._displaced[suffix].append(self.displaced.number(action))

    # -- directories

    def _open_directory(self, action: Action) -> None:
        """Let ourselves into a directory that its owner cannot write to; its mode is set at the end."""
        assert action.before is not None
        with self.displaced.parent(action.source) as (fd, name):
            if stat.S_ISDIR(os.stat(name, dir_fd=fd, follow_symlinks=False).st_mode):
                _chmod_directory(name, fd, action.before.mode & PERMISSIONS | stat.S_IRWXU)

    def _make_directory(self, action: Action) -> None:
        self._tick()
        present = self.displaced.present(action.source)
        if present is not None and present.kind == DIR:
            return
        with self.displaced.parent(action.source) as (fd, name):
            if present is not None:
                if not same(present, action.before):
                    self.displaced.leave_alone(action)
                    return
                self._displace(fd, name, action)
            with suppress(FileExistsError):
                fsio.make_directory(action.path.rpartition(b"/")[2], dir_fd=fd)

    def _remove_directory(self, action: Action) -> None:
        self._tick()
        try:
            with self.displaced.parent(action.path) as (fd, name):
                os.rmdir(name, dir_fd=fd)
        except (FileNotFoundError, NotADirectoryError):
            return
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST, errno.ELOOP, errno.EBUSY):
                raise
            self.displaced.leave_alone(action, NOT_EMPTY)
            if action.before is not None and needs_opening(action):
                with self.displaced.parent(action.path) as (fd, name):
                    _chmod_directory(name, fd, action.before.mode & PERMISSIONS)

    def _remove_aside(self, path: bytes) -> None:
        """Remove a directory that gave way to a file, once all that was in it is removed."""
        aside = self.displaced.aside.pop(path)
        with self.displaced.parent(path) as (fd, name):
            try:
                os.rmdir(aside, dir_fd=fd)
            except FileNotFoundError:
                return
            except OSError as error:
                if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                    raise
                self.displaced.make_visible(fd, name, aside, path)

    def _set_directory_mode(self, action: Action) -> None:
        if action.after is None or action.path in self.displaced.kept:
            return
        with self.displaced.parent(action.path) as (fd, name):
            mode = os.stat(name, dir_fd=fd, follow_symlinks=False).st_mode
            if not stat.S_ISDIR(mode):
                self.displaced.leave_alone(action)
            elif (mode ^ action.after.mode) & PERMISSIONS:
                _chmod_directory(name, fd, action.after.mode & PERMISSIONS)

    # -- files and links

    def _write(self, batch: Sequence[Action]) -> None:
        staged: list[Action] = []
        try:
            self._each(lambda action: staged.append(action) if self._stage_if_due(action) else None, batch)
            fsio.sync_tree(self.displaced.tree.fd)  # contents durable before any name changes
        except BaseException:
            for action in staged:  # they are ours and have no name yet: give the space back
                with suppress(OSError), self.displaced.parent(action.source) as (fd, _):
                    os.unlink(self.displaced.temporary(action), dir_fd=fd)
            raise
        self._each(self._name, staged)

    def _stage_if_due(self, action: Action) -> bool:
        self._tick()
        with self.displaced.locate(action.source) as (fd, _, present):
            if same(present, action.after) and action.source == action.path:
                return False  # done already, by us before an interruption or by somebody else
            if fd < 0 or (present is not None and not (same(present, action.before) or _is_directory(present, action))):
                self.displaced.leave_alone(action)
                return False
            self._stage(fd, action)
            if not plans.content_differs(action) and not self._is_whole_copy(fd, action):
                os.unlink(self.displaced.temporary(action), dir_fd=fd)
                self.displaced.leave_alone(action)
                return False
        return True

    def _is_whole_copy(self, fd: int, action: Action) -> bool:
        """False when the file changed while it was copied."""
        copy, after = self.displaced.present_at(fd, self.displaced.temporary(action)), action.after
        return copy is not None and after is not None and (copy.kind, copy.digest) == (after.kind, after.digest)

    def _stage(self, fd: int, action: Action) -> None:
        """Put the new content under a temporary name beside its place: right bytes, right mtime, for its owner alone. Where
        only the mode differs the content is that of the file itself, and the owner too.

        It gets its mode when its bytes are durable: by a narrow one settle knows a draft that a power cut left behind.
        """
        entry = action.after
        assert entry is not None
        draft = self.displaced.temporary(action)
        if entry.kind == LINK:
            with suppress(FileNotFoundError):
                os.unlink(draft, dir_fd=fd)
            os.symlink(entry.target, draft, dir_fd=fd)
            return
        try:
            out = os.open(draft, fsio.CREATE_FLAGS, 0o600, dir_fd=fd)
        except FileExistsError:
            os.unlink(draft, dir_fd=fd)
            out = os.open(draft, fsio.CREATE_FLAGS, 0o600, dir_fd=fd)
        try:
            fsio.apply_umask_fd(out)
            if plans.content_differs(action):
                _write_content(out, self._content(entry))
            else:
                _copy_content(out, action.source.rpartition(b"/")[2], fd)
            os.utime(out, ns=(entry.mtime_ns, entry.mtime_ns))
        except BaseException:
            with suppress(OSError):
                os.unlink(draft, dir_fd=fd)
            raise
        finally:
            os.close(out)

    def _name(self, action: Action) -> None:
        """Give staged content its name. Whatever has that name at this instant is displaced, never overwritten."""
        assert action.after is not None
        draft = self.displaced.temporary(action)
        with self.displaced.parent(action.source) as (fd, source):
            if action.after.kind != LINK:
                _chmod(draft, fd, action.after.mode & PERMISSIONS)
            present = self.displaced.present_at(fd, source)
            if present is None:
                self._place_new(fd, draft, action)
            elif _is_directory(present, action):
                self._name_over_directory(fd, draft, source, action)
            elif not same(present, action.before):
                os.unlink(draft, dir_fd=fd)
                self.displaced.leave_alone(action)
            elif action.source == action.path and rename.exchange(fd, draft, source):
                self._lost(action, b"")
            else:
                self._displace(fd, source, action)
                self._place_new(fd, draft, action)

    def _name_over_directory(self, fd: int, draft: bytes, source: bytes, action: Action) -> None:
        aside = self.displaced.temporary(action, MOVED_ASIDE)
        try:
            if action.source == action.path and rename.exchange(fd, draft, source):
                self.displaced.aside[action.path] = draft
                return
            os.rename(source, aside, src_dir_fd=fd, dst_dir_fd=fd)
        except OSError as error:
            if error.errno != errno.EXDEV:
                raise
            self._waiting.append(action)  # overlayfs renames no directory of a lower layer
            return
        self.displaced.aside[action.path] = aside
        self._place_new(fd, draft, action)

    def _place_waiting(self, action: Action) -> None:
        """Give staged content its name where a directory could not be moved out of its way, and is empty by now."""
        draft = self.displaced.temporary(action)
        with self.displaced.parent(action.source) as (fd, source):
            try:
                os.rmdir(source, dir_fd=fd)
            except OSError as error:
                if error.errno not in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR, errno.ENOENT):
                    raise
                if error.errno != errno.ENOENT:
                    os.unlink(draft, dir_fd=fd)
                    self.displaced.leave_alone(action, CHANGED if error.errno == errno.ENOTDIR else NOT_EMPTY)
                    return
            self._place_new(fd, draft, action)

    def _place_new(self, fd: int, draft: bytes, action: Action) -> None:
        """Name staged content where nothing stands; if something came there meanwhile, that stays."""
        try:
            rename.without_replacing(fd, draft, action.path.rpartition(b"/")[2])
        except FileExistsError:
            os.unlink(draft, dir_fd=fd)
            self.displaced.leave_alone(action)

    def _change_mode(self, action: Action) -> None:
        """Change the mode (and, on a folding file system, the spelling) of something whose bytes stay."""
        if self._has_other_names(action):
            self._shared.append(action)
            return
        self._tick()
        with self.displaced.locate(action.source) as (fd, name, present):
            if present is None or action.after is None:
                return
            if not (same(present, action.before) or same(present, action.after)):
                self.displaced.leave_alone(action)
                return
            if action.after.kind not in (LINK, DIR) and (present.mode ^ action.after.mode) & PERMISSIONS:
                _chmod(name, fd, action.after.mode & PERMISSIONS)
            if action.source != action.path:
                respelled = action.path.rpartition(b"/")[2]
                if not rename.is_free_or_same(fd, name, respelled):
                    self.displaced.leave_alone(action)
                    return
                os.rename(name, respelled, src_dir_fd=fd, dst_dir_fd=fd)

    def _has_other_names(self, action: Action) -> bool:
        """True when a change of a file's mode would be one of other names as well, which may lie outside of the root."""
        if action.before is None or action.after is None or action.after.kind != FILE or same(action.before, action.after):
            return False
        status = self.displaced.tree.status_of(self.displaced.now(action.source))
        return status is not None and status.st_nlink > 1

    def _remove(self, action: Action) -> None:
        self._tick()
        with self.displaced.locate(action.path) as (fd, name, present):
            if present is None:
                return
            if not same(present, action.before):
                self.displaced.leave_alone(action)
                return
            if self.displaced.now(action.path) != action.path:
                os.unlink(name, dir_fd=fd)  # it lies in a directory that stands aside: nobody finds it by its name
            else:
                self._displace(fd, name, action)


def _is_directory(present: Entry, action: Action) -> bool:
    """True when a directory stands, as planned, where a file or link has to come."""
    return action.before is not None and present.kind == DIR == action.before.kind


def _write_content(fd: int, pieces: Iterable[bytes]) -> None:
    """Write a file's bytes; long runs of zeros become holes."""
    length = hole = 0
    for piece in pieces:
        length += len(piece)
        if len(piece) >= _HOLE and not piece.strip(b"\0"):
            hole = os.lseek(fd, len(piece), os.SEEK_CUR)
        else:
            fsio.write_all(fd, piece)
    if hole == length:  # nothing was written behind it
        os.ftruncate(fd, length)


def _copy_content(fd: int, name: bytes, directory: int) -> None:
    """Write the bytes of another file, and give the file its owner where that is allowed. Raises OSError."""
    source = os.open(name, fsio.READ_FLAGS, dir_fd=directory)
    try:
        _write_content(fd, iter(lambda: os.read(source, _PIECE), b""))
        there, here = os.fstat(source), os.fstat(fd)
        if (there.st_uid, there.st_gid) != (here.st_uid, here.st_gid):
            with suppress(OSError):
                os.fchown(fd, there.st_uid, there.st_gid)
    finally:
        os.close(source)


def _chmod(name: bytes, directory: int, mode: int) -> None:
    """chmod of a file, which may be unreadable; links are not followed. Set-id and sticky bits are cleared."""
    _set_mode(name, directory, mode, 0)


def _chmod_directory(name: bytes, directory: int, mode: int) -> None:
    """The same for a directory, but its set-id and sticky bits stay: without the sticky bit, users who may write to the directory
    could remove each other's files."""
    _set_mode(name, directory, mode, _SPECIAL)


def _set_mode(name: bytes, directory: int, mode: int, keep: int) -> None:
    try:
        fd = os.open(name, fsio.READ_FLAGS, dir_fd=directory)
    except PermissionError:
        if hasattr(os, "O_PATH"):
            fd = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=directory)
            try:
                os.chmod(f"/proc/self/fd/{fd}", mode | os.fstat(fd).st_mode & keep)  # fchmod refuses such a descriptor
            finally:
                os.close(fd)
        else:
            present = os.stat(name, dir_fd=directory, follow_symlinks=False).st_mode
            os.chmod(name, mode | present & keep, dir_fd=directory, follow_symlinks=False)
        return
    try:
        os.fchmod(fd, mode | os.fstat(fd).st_mode & keep)
    finally:
        os.close(fd)
