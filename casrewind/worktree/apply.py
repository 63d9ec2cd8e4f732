"""Carrying out a plan: the only code that writes to, renames or removes the user's files.

The danger prevented here: a byte lost between the moment a file was stored and the moment it is replaced. Right before
a change the present bytes are hashed again; a file is replaced by *exchanging* names, so that whatever stood there at
that very instant still has a name, is hashed once more at the end, and is removed only if it is what the safety
checkpoint holds. What turns out to be something else is put back, or kept under a visible name.

The order: make directories; stage new contents under temporary names and sync them; give them their names; modes;
then removals; then directories that became empty; then the modes of directories; then one sync. Killed anywhere, the
same plan can be carried out again (`resume`): every action finds out for itself whether it is done.
"""

import errno
import os
import stat
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import NamedTuple

from .. import fsio
from ..model import paths
from ..model.manifest import DIR, LINK, PERMISSIONS, TEMPORARY_PREFIX, Entry, same
from ..model.plan import Action, Kept, content_differs
from . import rename
from .files import HashSink, NotCapturable, Worktree

_BATCH_FILES = 2000
_BATCH_BYTES = 256 << 20
_HASH = HashSink()

_LOST = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ESTALE)

CHANGED = "changed while the restore ran"
NOT_EMPTY = "not empty: it holds something that the restore does not know"

Content = Callable[[Entry], Iterable[bytes]]
"""A file's bytes, piece by piece, checked."""
Report = Callable[[int, int], None]
"""Told how many actions of how many are done."""


class Outcome(NamedTuple):
    """What was done, and what was left alone and why."""

    done: tuple[Action, ...]
    kept: tuple[Kept, ...]


class _Pending(NamedTuple):
    """Something that lost its name to an action and waits for its last check."""

    action: Action
    name: bytes


class Applier:
    """Carries out the actions of one plan. `tag` makes the names of its temporary files its own."""

    def __init__(
        self, tree: Worktree, actions: Sequence[Action], content: Content, tag: str, report: Report | None = None
    ) -> None:
        """Nothing happens before `run`."""
        self._tree, self._actions, self._content = tree, actions, content
        self._tag = tag.encode()
        self._report = report
        self._number = {action.path: number for number, action in enumerate(actions)}
        self._aside: dict[bytes, bytes] = {}  # directories that gave way to a file: path -> temporary name beside it
        self._pending: list[_Pending] = []
        self._kept: dict[bytes, Kept] = {}
        self._ticks = 0

    def run(self) -> Outcome:
        """Carry out the plan. Raises OSError; then temporary files may be left for `settle` to find."""
        opens, makes, writes, modes, removes, rmdirs, dir_modes = _phases(self._actions)
        self._each(self._open_directory, opens)
        self._each(self._make_directory, makes)
        for batch in _batches(writes):
            self._write(batch)
        self._each(self._change_mode, modes)
        self._each(self._remove, removes)
        for pending in self._pending:
            self._check_displaced(pending)
        self._each(self._remove_directory, rmdirs)
        for path in sorted(self._aside, reverse=True):
            self._remove_aside(path)
        self._each(self._set_directory_mode, dir_modes)
        fsio.sync_tree(self._tree.fd)
        done = tuple(action for action in self._actions if action.path not in self._kept)
        return Outcome(done, tuple(sorted(self._kept.values())))

    def _each(self, work: Callable[[Action], None], actions: Sequence[Action]) -> None:
        """Do the work on each action; one whose place is gone, or leads through a link now, is left alone."""
        for action in actions:
            try:
                work(action)
            except OSError as error:
                if error.errno not in _LOST:
                    raise
                self._keep(action)

    # -- names

    def _temporary(self, action: Action, suffix: bytes = b"") -> bytes:
        number = self._number[action.path]
        return TEMPORARY_PREFIX + self._tag + b"-%d" % number + suffix

    @contextmanager
    def _parent(self, path: bytes) -> Iterator[tuple[int, bytes]]:
        """(descriptor of the directory that a path lies in now, last component)."""
        fd, name = self._tree.open_parent(self._now(path))
        try:
            yield fd, name
        finally:
            os.close(fd)

    def _now(self, path: bytes) -> bytes:
        """Where a path is while a directory above it stands aside."""
        for parent in paths.parents(path):
            aside = self._aside.get(parent)
            if aside is not None:
                return paths.join(parent.rpartition(b"/")[0], aside) + path[len(parent) :]
        return path

    def _present(self, path: bytes) -> Entry | None:
        captured = self._tree.capture(self._now(path), _HASH)
        return None if captured is None else captured.entry

    def _keep(self, action: Action, reason: str = CHANGED) -> None:
        self._kept.setdefault(action.path, Kept(action.path, reason, benign=False))

    def _tick(self) -> None:
        self._ticks += 1
        if self._report is not None:
            self._report(self._ticks, len(self._actions))

    # -- directories

    def _open_directory(self, action: Action) -> None:
        """Let ourselves into a directory that its owner cannot write to; its mode is set at the end."""
        assert action.before is not None
        with self._parent(action.path) as (fd, name):
            if stat.S_ISDIR(os.stat(name, dir_fd=fd, follow_symlinks=False).st_mode):
                _chmod(name, fd, action.before.mode & PERMISSIONS | stat.S_IRWXU)

    def _make_directory(self, action: Action) -> None:
        self._tick()
        present = self._safely_present(action)
        if present is not None and present.kind == DIR:
            return
        with self._parent(action.path) as (fd, name):
            if present is not None:
                if not same(present, action.before):
                    self._keep(action)
                    return
                self._displace(fd, name, action)
            with suppress(FileExistsError):
                os.mkdir(name, 0o700, dir_fd=fd)

    def _safely_present(self, action: Action) -> Entry | None:
        try:
            return self._present(action.path)
        except (NotCapturable, PermissionError):
            return _UNKNOWN

    def _displace(self, fd: int, name: bytes, action: Action) -> None:
        """Rename what stands at an action's path to a temporary name; it waits there for its last check."""
        aside = self._temporary(action, b"o")
        os.rename(name, aside, src_dir_fd=fd, dst_dir_fd=fd)
        self._pending.append(_Pending(action, aside))

    def _remove_directory(self, action: Action) -> None:
        self._tick()
        try:
            with self._parent(action.path) as (fd, name):
                os.rmdir(name, dir_fd=fd)
        except (FileNotFoundError, NotADirectoryError):
            return
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST, errno.ELOOP, errno.EBUSY):
                raise
            self._keep(action, NOT_EMPTY)
            if action.before is not None and _needs_opening(action):
                with self._parent(action.path) as (fd, name):
                    _chmod(name, fd, action.before.mode & PERMISSIONS)

    def _remove_aside(self, path: bytes) -> None:
        """Remove a directory that gave way to a file, once all that was in it is removed."""
        aside = self._aside.pop(path)
        with self._parent(path) as (fd, name):
            try:
                os.rmdir(aside, dir_fd=fd)
            except FileNotFoundError:
                return
            except OSError as error:
                if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                    raise
                self._show(fd, name, aside, path)

    def _set_directory_mode(self, action: Action) -> None:
        if action.after is None or action.path in self._kept:
            return
        with self._parent(action.path) as (fd, name):
            mode = os.stat(name, dir_fd=fd, follow_symlinks=False).st_mode
            if not stat.S_ISDIR(mode):
                self._keep(action)
            elif (mode ^ action.after.mode) & PERMISSIONS:
                _chmod(name, fd, action.after.mode & PERMISSIONS)

    # -- files and links

    def _write(self, batch: Sequence[Action]) -> None:
        staged: list[Action] = []
        try:
            self._each(lambda action: staged.append(action) if self._stage_if_due(action) else None, batch)
            fsio.sync_tree(self._tree.fd)  # contents durable before any name changes
        except BaseException:
            for action in staged:  # they are ours and have no name yet: give the space back
                with suppress(OSError), self._parent(action.path) as (fd, _):
                    os.unlink(self._temporary(action), dir_fd=fd)
            raise
        self._each(self._name, staged)

    def _stage_if_due(self, action: Action) -> bool:
        self._tick()
        present = self._safely_present(action._replace(path=action.source))
        if same(present, action.after) and action.source == action.path:
            return False  # done already, by us before an interruption or by somebody else
        if present is not None and not (same(present, action.before) or self._is_directory(present, action)):
            self._keep(action)
            return False
        self._stage(action)
        return True

    @staticmethod
    def _is_directory(present: Entry, action: Action) -> bool:
        return action.before is not None and present.kind == DIR == action.before.kind

    def _stage(self, action: Action) -> None:
        """Put the new content under a temporary name beside its place: right mode, right bytes, right mtime."""
        entry = action.after
        assert entry is not None
        draft = self._temporary(action)
        with self._parent(action.source) as (fd, _):
            with suppress(FileNotFoundError):
                os.unlink(draft, dir_fd=fd)
            if entry.kind == LINK:
                os.symlink(entry.target, draft, dir_fd=fd)
                return
            out = os.open(draft, fsio.CREATE_FLAGS, 0o600, dir_fd=fd)
            try:
                _write_content(out, self._content(entry))
                os.fchmod(out, entry.mode & PERMISSIONS)
                os.utime(out, ns=(entry.mtime_ns, entry.mtime_ns))
            except BaseException:
                with suppress(OSError):
                    os.unlink(draft, dir_fd=fd)
                raise
            finally:
                os.close(out)

    def _name(self, action: Action) -> None:
        """Give staged content its name. Whatever has that name at this instant is displaced, never overwritten."""
        draft = self._temporary(action)
        with self._parent(action.source) as (fd, source):
            present = self._safely_present(action._replace(path=action.source))
            if present is None:
                self._place_new(fd, draft, action)
                return
            if self._is_directory(present, action):
                if rename.exchange(fd, draft, source):
                    self._aside[action.path] = draft
                else:
                    aside = self._temporary(action, b"o")
                    os.rename(source, aside, src_dir_fd=fd, dst_dir_fd=fd)
                    self._aside[action.path] = aside
                    self._place_new(fd, draft, action)
                return
            if not same(present, action.before):
                os.unlink(draft, dir_fd=fd)
                self._keep(action)
                return
            if action.source == action.path and rename.exchange(fd, draft, source):
                self._pending.append(_Pending(action, draft))
                return
            self._displace(fd, source, action)
            self._place_new(fd, draft, action)

    def _place_new(self, fd: int, draft: bytes, action: Action) -> None:
        """Name staged content where nothing stands; if something came there meanwhile, that stays."""
        try:
            rename.without_replacing(fd, draft, action.path.rpartition(b"/")[2])
        except FileExistsError:
            os.unlink(draft, dir_fd=fd)
            self._keep(action)

    def _change_mode(self, action: Action) -> None:
        """Change the mode (and, on a folding file system, the spelling) of a file whose bytes stay."""
        self._tick()
        present = self._safely_present(action._replace(path=action.source))
        if present is None or action.after is None:
            return
        if not (same(present, action.before) or same(present, action.after)):
            self._keep(action)
            return
        with self._parent(action.source) as (fd, name):
            if action.after.kind not in (LINK, DIR) and (present.mode ^ action.after.mode) & PERMISSIONS:
                _chmod(name, fd, action.after.mode & PERMISSIONS)
            if action.source != action.path:
                os.rename(name, action.path.rpartition(b"/")[2], src_dir_fd=fd, dst_dir_fd=fd)

    def _remove(self, action: Action) -> None:
        self._tick()
        present = self._safely_present(action)
        if present is None:
            return
        if not same(present, action.before):
            self._keep(action)
            return
        with self._parent(action.path) as (fd, name):
            if self._now(action.path) != action.path:
                os.unlink(name, dir_fd=fd)  # it lies in a directory that stands aside: nobody finds it by its name
            else:
                self._displace(fd, name, action)

    # -- the last check

    def _check_displaced(self, pending: _Pending) -> None:
        action, aside = pending
        with self._parent(action.source) as (fd, name):
            self._judge_displaced(fd, name, aside, action)

    def _judge_displaced(self, fd: int, name: bytes, aside: bytes, action: Action) -> None:
        """Remove something displaced if the store holds it; else put it back, or keep it under a visible name."""
        held = self._beside(action.source, aside)
        if held is None:
            return
        if same(held, action.before) or same(held, action.after):
            os.unlink(aside, dir_fd=fd)
            return
        self._keep(action)
        if same(self._safely_present(action), action.after) and action.after is not None and action.after.kind != DIR:
            if rename.exchange(fd, aside, name):
                os.unlink(aside, dir_fd=fd)  # what is unlinked is what the restore wrote
                return
        try:
            rename.without_replacing(fd, aside, name)
        except FileExistsError:
            self._show(fd, name, aside, action.path)

    def _beside(self, path: bytes, name: bytes) -> Entry | None:
        parent = self._now(path).rpartition(b"/")[0]
        try:
            captured = self._tree.capture(paths.join(parent, name), _HASH)
        except (NotCapturable, PermissionError):
            return _UNKNOWN
        return None if captured is None else captured.entry

    def _show(self, fd: int, name: bytes, aside: bytes, path: bytes) -> None:
        """Give displaced content that has no place any more a name that the user will see."""
        for number in range(1000):
            visible = name[:200] + b".casrewind-kept" + (b"-%d" % number if number else b"")
            try:
                rename.without_replacing(fd, aside, visible)
            except FileExistsError:
                continue
            where = paths.join(path.rpartition(b"/")[0], visible)
            self._kept[where] = Kept(where, f"edited meanwhile; what stood at {paths.display(path)} is here", benign=False)
            return

    # -- after an interruption

    def unwind(self) -> tuple[Kept, ...]:
        """After `settle`, on the way back: let directories that gave way to a file have their names again. What could
        not be put back is kept under a visible name."""
        for path, aside in list(self._aside.items()):
            action = self._actions[self._number[path]]
            del self._aside[path]
            with self._parent(path) as (fd, name):
                present = self._safely_present(action)
                if present is None:
                    rename.without_replacing(fd, aside, name)
                elif same(present, action.after) and rename.exchange(fd, aside, name):
                    os.unlink(aside, dir_fd=fd)
                elif same(present, action.after):
                    os.unlink(name, dir_fd=fd)
                    rename.without_replacing(fd, aside, name)
                else:
                    self._show(fd, name, aside, path)
        return tuple(sorted(self._kept.values()))

    def settle(self) -> None:
        """Deal with the temporary files that an interrupted run of this very plan left behind."""
        for action in self._actions:
            for suffix in (b"", b"o"):
                name = self._temporary(action, suffix)
                try:
                    fd, own = self._tree.open_parent(action.source)
                except OSError:
                    continue
                try:
                    self._settle_one(fd, own, name, action, displaced=suffix == b"o")
                finally:
                    os.close(fd)

    def _settle_one(self, fd: int, own: bytes, name: bytes, action: Action, *, displaced: bool) -> None:
        try:
            status = os.stat(name, dir_fd=fd, follow_symlinks=False)
        except FileNotFoundError:
            return
        if stat.S_ISDIR(status.st_mode):
            self._aside[action.path] = name
            return
        if displaced or same(self._safely_present(action), action.after):
            self._judge_displaced(fd, own, name, action)
            return
        held, present = self._beside(action.source, name), self._safely_present(action._replace(path=action.source))
        known = same(held, action.before) or same(held, action.after)
        if known or same(present, action.before):  # unfinished content of ours, or bytes that the store holds
            os.unlink(name, dir_fd=fd)
        else:
            self._show(fd, own, name, action.path)


_UNKNOWN = Entry("special", 0, 0, 0, b"", b"", b"")
"""Stands for something that is neither file, link nor directory, or cannot be read: like nothing in any plan."""


def _phases(actions: Sequence[Action]) -> tuple[list[Action], ...]:
    opens: list[Action] = []
    makes: list[Action] = []
    writes: list[Action] = []
    modes: list[Action] = []
    removes: list[Action] = []
    rmdirs: list[Action] = []
    dir_modes: list[Action] = []
    for action in actions:
        before, after = action.before, action.after
        if _needs_opening(action):
            opens.append(action)
        if after is None:
            (rmdirs if before is not None and before.kind == DIR else removes).append(action)
        elif after.kind == DIR:
            if before is None or before.kind != DIR:
                makes.append(action)
            elif action.source != action.path:
                modes.append(action)
            dir_modes.append(action)
        elif content_differs(action):
            writes.append(action)
        else:
            modes.append(action)
    for group in (opens, makes, modes):
        group.sort(key=lambda action: action.path.count(b"/"))
    for group in (rmdirs, dir_modes):
        group.sort(key=lambda action: action.path.count(b"/"), reverse=True)
    return opens, makes, writes, modes, removes, rmdirs, dir_modes


def _needs_opening(action: Action) -> bool:
    """True for a directory whose own mode would keep us from changing what is in it."""
    before = action.before
    return before is not None and before.kind == DIR and not before.mode & stat.S_IRWXU == stat.S_IRWXU


def _batches(writes: Sequence[Action]) -> Iterator[list[Action]]:
    """Writes in groups that are staged, synced and named together."""
    batch: list[Action] = []
    size = 0
    for action in writes:
        batch.append(action)
        size += action.after.size if action.after is not None else 0
        if len(batch) >= _BATCH_FILES or size >= _BATCH_BYTES:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def _write_content(fd: int, pieces: Iterable[bytes]) -> None:
    """Write a file's bytes; long runs of zeros become holes."""
    length = 0
    for piece in pieces:
        length += len(piece)
        if len(piece) >= _HOLE and not piece.strip(b"\0"):
            os.lseek(fd, len(piece), os.SEEK_CUR)
        else:
            fsio.write_all(fd, piece)
    os.ftruncate(fd, length)


_HOLE = 1 << 16


def _chmod(name: bytes, directory: int, mode: int) -> None:
    """chmod of a file or directory that may be unreadable, never of what a link points to."""
    try:
        fd = os.open(name, fsio.READ_FLAGS, dir_fd=directory)
    except PermissionError:
        if hasattr(os, "O_PATH"):
            fd = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=directory)
            try:
                os.chmod(f"/proc/self/fd/{fd}", mode)  # fchmod refuses such a descriptor
            finally:
                os.close(fd)
        else:
            os.chmod(name, mode, dir_fd=directory, follow_symlinks=False)
        return
    try:
        os.fchmod(fd, mode)
    finally:
        os.close(fd)
