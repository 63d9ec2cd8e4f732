"""Executes a plan: the only module that writes, renames or removes files of the worktree.

The danger prevented here: losing bytes written between storing a file and replacing it. The present bytes are hashed
again right before a change. A file is replaced by *exchanging* names, so the old file keeps a name. At the end it is
hashed once more, and removed only if it equals the safety checkpoint's content (displaced.py).

The order (phases in model/plan.py): make directories; stage and sync new contents under temporary names; set their
modes and names. Then other modes, removals, emptied directories, modes of directories, and one sync. After a crash the
same plan can run again: every action checks if it is done already. recover.py handles the temporary files first.
"""

import errno
import os
import stat
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress

from .. import fsio
from .._typing import NamedTuple
from ..model import paths
from ..model import plan as plans
from ..model.at_risk import JOURNALS, database_of
from ..model.manifest import DIR, FILE, LINK, PERMISSIONS, Entry, same_for_restore
from ..model.plan import Action, Actions, Kept, batches, forbids_owner_to_change_contents, phases
from . import safe_rename, sparse
from .displaced import CHANGED, MOVED_ASIDE, DisplacedFiles, mode_in_words, name_path_in_errors, time_in_words
from .protected_places import ProtectedPlaces
from .reader import Worktree

_SPECIAL = stat.S_ISUID | stat.S_ISGID | stat.S_ISVTX
_PIECE = 1 << 20
RESPELLED = "its directory is there under another spelling"
NOT_EMPTY = "not empty: it contains files unknown to the restore"
_PARENT_GONE = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ESTALE)

Content = Callable[[Entry], Iterable[bytes]]
"""The verified bytes of a file, in pieces."""
Report = Callable[[str, int, int], None]
"""Called with (activity, actions done, total)."""


class Outcome(NamedTuple):
    """The completed actions, with the modes that were set, and the paths left alone with reasons. `incomplete`: what was
    restored, but with another mode, time, owner or attribute than planned."""

    done: Actions
    kept: tuple[Kept, ...]
    incomplete: tuple[Kept, ...] = ()


class _NewFile(NamedTuple):
    """New content under a temporary name: its inode, its final mode, and what of it did not take, or ""."""

    ino: int
    mode: int
    why: str


class Applier:
    """Executes the actions of one plan. `tag` makes its temporary names unique."""

    def __init__(
        self, tree: Worktree, actions: Sequence[Action], content: Content, tag: str, report: Report | None = None, *,
        may_make_in_worktrees: bool = False,
    ) -> None:  # fmt: skip
        """Changes nothing before `carry_out_plan`. `may_make_in_worktrees`: the plan was made just now, and what it makes in a linked
        worktree was named."""
        self._actions, self._content, self._report = plans.sort_and_pack(actions), content, report
        self._may_make_in_worktrees = may_make_in_worktrees
        self.displaced = DisplacedFiles(tree, self._actions, tag)
        self._to_dispose: dict[bytes, list[int]] = {b"": [], MOVED_ASIDE: []}  # displacing actions, by suffix
        self._waiting: list[Action] = []  # contents that wait for a directory at their path to become empty
        self._shared: list[Action] = []  # hard-linked files: a copy gets the new mode, other names keep theirs
        self._drafts: dict[bytes, _NewFile] = {}  # by path, until they get their modes
        self._incomplete: dict[bytes, tuple[int, str]] = {}  # the mode that a path has, and what did not take
        self._found: set[int] = set()  # inodes of files that were to be made, and are there: perhaps under another spelling
        self._ticks = 0
        self._companions: dict[bytes, list[Action]] = {}
        """What is replaced or removed of the -wal and -journal of a database, by its path. It goes before the database changes:
        whoever opens an earlier -wal with another database gets neither."""
        for action in self._actions:
            is_there = action.before is not None and action.before.kind == FILE
            if is_there and action.path.endswith(JOURNALS) and action.before != action.after:
                self._companions.setdefault(database_of(action.path), []).append(action)

    def carry_out_plan(self) -> Outcome:
        """Execute the plan. Raises OSError; temporary files may then remain for recover.move_or_remove_temporary_files."""
        order = phases(self._actions)
        # checked again: an earlier version may have made the plan
        protected = ProtectedPlaces(self.displaced.tree)
        self.exclude_from_plan(protected.what_changes_protected(self._actions, may_make=self._may_make_in_worktrees))
        self._for_each_with_reachable_parent(self._make_directory_writable, order.opens)
        self._for_each_with_reachable_parent(self._make_directory_unless_there, order.makes)
        for batch in batches(order.writes):
            self._stage_sync_and_name_all(batch)
        self._for_each_with_reachable_parent(self._change_mode_and_spelling, order.modes)
        for batch in batches(self._shared):
            self._stage_sync_and_name_all(batch)
        self._for_each_with_reachable_parent(self._displace_to_remove, order.removes)
        for suffix, numbers in self._to_dispose.items():
            for action in map(self._actions.__getitem__, numbers):
                with name_path_in_errors(action.path), self.displaced.open_parent(action.source) as (fd, name):
                    self.displaced.remove_or_put_back(fd, name, self.displaced.temporary_name(action, suffix), action)
        self._for_each_with_reachable_parent(self._remove_directory_if_empty, order.rmdirs)
        self._for_each_with_reachable_parent(self._name_draft_over_emptied_directory, self._waiting)
        for path in sorted(self.displaced.aside, reverse=True):
            with name_path_in_errors(path):
                self._remove_displaced_directory(path)
        self._for_each_with_reachable_parent(self._set_final_directory_mode, order.dir_modes)
        fsio.sync_tree(self.displaced.tree.fd)
        kept = self.displaced.kept
        incomplete = {path: found for path, found in self._incomplete.items() if path not in kept}
        done = plans.without(self._actions, kept)
        if incomplete:
            done = plans.with_modes(done, {path: mode for path, (mode, _) in incomplete.items()})
            same = {action.path for action in done if action.before is not None and same_for_restore(action.before, action.after)}
            done = plans.without(done, same)
        named = sorted(Kept(path, why, benign=False) for path, (_, why) in incomplete.items())
        return Outcome(done, tuple(sorted(kept.values())), tuple(named))

    def _note_mode(self, action: Action, wanted: int, mode: int | None, more: str = "") -> None:
        """Record which mode a path has that was given another one, and what else of it did not take. None: something else is there."""
        if mode is None:
            self.displaced.record_kept(action)
        elif why := "; ".join(filter(None, (mode_in_words(wanted, mode), more))):
            self._incomplete[action.path] = (mode, why)

    def _for_each_with_reachable_parent(self, work: Callable[[Action], None], actions: Iterable[Action]) -> None:
        """Run `work` for each action. Leaves an action alone if its parent is gone or is a link now."""
        for action in actions:
            if action.path in self.displaced.spared:
                continue
            try:
                with name_path_in_errors(action.path):
                    work(action)
            except OSError as error:
                if error.errno not in _PARENT_GONE:
                    raise
                self.displaced.record_kept(action)

    def exclude_from_plan(self, items: Iterable[Kept]) -> None:
        """Leave these paths alone, whatever the plan contains."""
        self.displaced.spared.update((item.path, item) for item in items)
        self.displaced.kept.update(self.displaced.spared)

    def _count_step_and_report(self) -> None:
        self._ticks += 1
        if self._report is not None:
            self._report("restoring", self._ticks, len(self._actions))

    def _displace_to_temporary_name(self, fd: int, name: bytes, action: Action) -> None:
        """Rename the file at an action's path to a temporary name, for its last check."""
        aside = self.displaced.temporary_name(action, MOVED_ASIDE)
        os.rename(name, aside, src_dir_fd=fd, dst_dir_fd=fd)
        self._note_to_dispose_later(action, MOVED_ASIDE)

    def _note_to_dispose_later(self, action: Action, suffix: bytes) -> None:
        """Record that an action displaced a file to its temporary name with this suffix."""
        self._to_dispose[suffix].append(self.displaced.position_in_plan(action))

    # -- directories

    def _make_directory_writable(self, action: Action) -> None:
        """Make a directory writable for its owner; its final mode is set at the end."""
        assert action.before is not None
        with self.displaced.open_parent(action.source) as (fd, name):
            if stat.S_ISDIR(os.stat(name, dir_fd=fd, follow_symlinks=False).st_mode):
                _chmod_directory(name, fd, action.before.mode & PERMISSIONS | stat.S_IRWXU)

    def _make_directory_unless_there(self, action: Action) -> None:
        self._count_step_and_report()
        present = self.displaced.hash_entry(action.source)
        if present is not None and present.kind == DIR and action.source == action.path:
            self._leave_alone_if_respelled(action)
            return
        with self.displaced.open_parent(action.source) as (fd, name):
            if present is not None and present.kind == DIR:
                self._give_other_spelling(fd, name, action)
                return
            if present is not None:
                if not same_for_restore(present, action.before):
                    self.displaced.record_kept(action)
                    return
                self._displace_to_temporary_name(fd, name, action)
            with suppress(FileExistsError):
                self.displaced.make_directory_with_owner(fd, action.path.rpartition(b"/")[2])

    def _leave_alone_if_respelled(self, action: Action) -> None:
        """Leave alone what goes into a directory that is there under another spelling: of two actions that make one directory, on a disk
        that folds names, the first has made it. No undo would find under its path what the second puts there."""
        with self.displaced.open_parent(action.path) as (fd, name):
            if name in map(os.fsencode, os.listdir(fd)):
                return
        covers = paths.PathScope([action.path]).covers
        self.exclude_from_plan(Kept(each.path, RESPELLED, benign=False) for each in self._actions if covers(each.path))

    def _remove_directory_if_empty(self, action: Action) -> None:
        self._count_step_and_report()
        try:
            with self.displaced.open_parent(action.path) as (fd, name):
                os.rmdir(name, dir_fd=fd)
        except (FileNotFoundError, NotADirectoryError):
            return
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST, errno.ELOOP, errno.EBUSY):
                raise
            if self.displaced.path_after_moves_aside(action.path) == action.path:  # else it is gone, with a directory that is named
                self.displaced.record_kept(action, NOT_EMPTY)
            if action.before is not None and forbids_owner_to_change_contents(action):
                with self.displaced.open_parent(action.path) as (fd, name):
                    _chmod_directory(name, fd, action.before.mode & PERMISSIONS)

    def _remove_displaced_directory(self, path: bytes) -> None:
        """Remove a directory that a file replaced, after its contents."""
        aside = self.displaced.aside.pop(path)
        with self.displaced.open_parent(path) as (fd, name):
            try:
                os.rmdir(aside, dir_fd=fd)
            except FileNotFoundError:
                return
            except OSError as error:
                if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                    raise
                self.displaced.rename_to_visible_name(fd, name, aside, path)

    def _set_final_directory_mode(self, action: Action) -> None:
        if action.after is None or action.path in self.displaced.kept:
            return
        with self.displaced.open_parent(action.path) as (fd, name):
            mode = os.stat(name, dir_fd=fd, follow_symlinks=False).st_mode
            if not stat.S_ISDIR(mode):
                self.displaced.record_kept(action)
            elif (mode ^ action.after.mode) & PERMISSIONS:
                wanted = action.after.mode & PERMISSIONS
                self._note_mode(action, wanted, _chmod_directory(name, fd, wanted))

    # -- files and links

    def _stage_sync_and_name_all(self, batch: Sequence[Action]) -> None:
        staged: list[Action] = []
        try:
            self._for_each_with_reachable_parent(lambda action: self._stage_if_unchanged_since_plan(action, staged), batch)
            fsio.sync_tree(self.displaced.tree.fd)  # contents durable before any name changes
        except BaseException:
            for action in staged:  # our drafts have no final names yet: free the space
                with suppress(OSError), self.displaced.open_parent(action.source) as (fd, _):
                    os.unlink(self.displaced.temporary_name(action), dir_fd=fd)
            raise
        self._for_each_with_reachable_parent(self._give_draft_its_final_name, staged)

    def _stage_if_unchanged_since_plan(self, action: Action, staged: list[Action]) -> None:
        self._count_step_and_report()
        with self.displaced.open_and_hash(action.source) as (fd, name, found):
            present = found and found.entry
            if same_for_restore(present, action.after):
                if action.before is None and found is not None:
                    self._found.add(found.stamp.ino)
                if action.source != action.path:
                    self._give_other_spelling(fd, name, action)
                return  # done already, before an interruption or by another process
            if fd < 0 or (present is not None and not (same_for_restore(present, action.before) or _is_planned_directory(present, action))):
                self.displaced.record_kept(action)
                return
            self._write_draft(fd, action, name if present is not None and present.kind == FILE else None)
            if not plans.content_differs(action) and not self._is_draft_as_planned(fd, action):
                os.unlink(self.displaced.temporary_name(action), dir_fd=fd)
                self.displaced.record_kept(action)
                return
        staged.append(action)

    def _is_draft_as_planned(self, fd: int, action: Action) -> bool:
        """False if the file changed during the copy."""
        copy, after = self.displaced.hash_entry_in(fd, self.displaced.temporary_name(action)), action.after
        return copy is not None and after is not None and (copy.kind, copy.digest) == (after.kind, after.digest)

    def _write_draft(self, fd: int, action: Action, displaced: bytes | None) -> None:
        """Write the new content to a temporary file beside its target, with its mtime, and the owner, group and ACL of
        the file `displaced` if there is one. If only the mode differs, copy the file's own content. The final mode is
        set after the sync: until then nobody else can read it, and recover.py recognises an unfinished draft."""
        entry = action.after
        assert entry is not None
        draft = self.displaced.temporary_name(action)
        if entry.kind == LINK:
            with suppress(FileNotFoundError):
                os.unlink(draft, dir_fd=fd)
            os.symlink(entry.target, draft, dir_fd=fd)
            self.displaced.give_link_to_owner_of_root(fd, draft)
            return
        try:
            out = os.open(draft, fsio.CREATE_FLAGS, 0o600, dir_fd=fd)
        except FileExistsError:
            os.unlink(draft, dir_fd=fd)
            out = os.open(draft, fsio.CREATE_FLAGS, 0o600, dir_fd=fd)
        try:
            fsio.undo_umask_fd(out)
            if plans.content_differs(action):
                sparse.write_content(out, self._content(entry))
            else:
                _copy_file_bytes(out, action.source.rpartition(b"/")[2], fd)
            os.utime(out, ns=(entry.mtime_ns, entry.mtime_ns))
            mode, why = self.displaced.set_owner_group_and_acl(out, fd, displaced, entry.mode & PERMISSIONS)
            status = os.fstat(out)
            why = "; ".join(filter(None, (why, time_in_words(entry.mtime_ns, status))))
            self._drafts[action.path] = _NewFile(status.st_ino, mode, why)
        except BaseException:
            with suppress(OSError):
                os.unlink(draft, dir_fd=fd)
            raise
        finally:
            os.close(out)

    def _give_draft_its_final_name(self, action: Action) -> None:
        """Rename staged content to its final name. A file already there is displaced, never overwritten."""
        assert action.after is not None
        draft = self.displaced.temporary_name(action)
        companions = self._companions.get(action.path, ())
        for companion in companions:
            self._displace_to_remove(companion)
        with self.displaced.open_parent(action.source) as (fd, source):
            if any(companion.path in self.displaced.kept for companion in companions):
                os.unlink(draft, dir_fd=fd)
                self.displaced.record_kept(action)
                return
            if action.after.kind != LINK:
                made = self._drafts.pop(action.path)
                mode = _chmod_file_of_inode(draft, fd, made.mode, made.ino)
                self._note_mode(action, made.mode, mode, made.why)
                if mode is None:
                    return
            present = self.displaced.hash_entry_in(fd, source)
            if present is None:
                self._rename_draft_if_name_is_free(fd, draft, action)
            elif _is_planned_directory(present, action):
                self._displace_directory_and_name_draft(fd, draft, source, action)
            elif not same_for_restore(present, action.before):
                os.unlink(draft, dir_fd=fd)
                self.displaced.record_kept(action)
            elif action.source == action.path and safe_rename.exchange_names(fd, draft, source):
                self._note_to_dispose_later(action, b"")
            else:
                self._displace_to_temporary_name(fd, source, action)
                self._rename_draft_if_name_is_free(fd, draft, action)

    def _displace_directory_and_name_draft(self, fd: int, draft: bytes, source: bytes, action: Action) -> None:
        aside = self.displaced.temporary_name(action, MOVED_ASIDE)
        try:
            if action.source == action.path and safe_rename.exchange_names(fd, draft, source):
                self.displaced.aside[action.source] = draft
                return
            os.rename(source, aside, src_dir_fd=fd, dst_dir_fd=fd)
        except OSError as error:
            if error.errno != errno.EXDEV:
                raise
            self._waiting.append(action)  # overlayfs cannot rename a directory of a lower layer
            return
        self.displaced.aside[action.source] = aside
        self._rename_draft_if_name_is_free(fd, draft, action)

    def _name_draft_over_emptied_directory(self, action: Action) -> None:
        """Name staged content in place of a directory that could not be moved, and that is empty now."""
        draft = self.displaced.temporary_name(action)
        with self.displaced.open_parent(action.source) as (fd, source):
            try:
                os.rmdir(source, dir_fd=fd)
            except OSError as error:
                if error.errno not in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR, errno.ENOENT):
                    raise
                if error.errno != errno.ENOENT:
                    os.unlink(draft, dir_fd=fd)
                    self.displaced.record_kept(action, CHANGED if error.errno == errno.ENOTDIR else NOT_EMPTY)
                    return
            self._rename_draft_if_name_is_free(fd, draft, action)

    def _rename_draft_if_name_is_free(self, fd: int, draft: bytes, action: Action) -> None:
        """Rename staged content to a free name. A file that has appeared there is kept."""
        try:
            safe_rename.rename_without_replacing(fd, draft, action.path.rpartition(b"/")[2])
        except FileExistsError:
            os.unlink(draft, dir_fd=fd)
            self.displaced.record_kept(action)

    def _change_mode_and_spelling(self, action: Action) -> None:
        """Change the mode of a file with unchanged bytes; on a case-folding file system, also its spelling."""
        if self._would_change_other_hard_links(action):
            self._shared.append(action)
            return
        self._count_step_and_report()
        with self.displaced.open_and_hash(action.source) as (fd, name, found):
            if found is None or action.after is None:
                if not same_for_restore(self.displaced.hash_entry(action.path), action.after):  # else it has its new spelling already
                    self.displaced.record_kept(action)
                return
            present = found.entry
            if not (same_for_restore(present, action.before) or same_for_restore(present, action.after)):
                self.displaced.record_kept(action)
                return
            wanted = action.after.mode & PERMISSIONS
            if action.after.kind not in (LINK, DIR) and present.mode & PERMISSIONS != wanted:
                mode = _chmod_file_of_inode(name, fd, wanted, found.stamp.ino)
                self._note_mode(action, wanted, mode)
                if mode is None:
                    return
            if action.source != action.path:
                self._give_other_spelling(fd, name, action)

    def _give_other_spelling(self, fd: int, name: bytes, action: Action) -> None:
        """Rename a file or directory to the spelling that it gets. It may have that already."""
        respelled = action.path.rpartition(b"/")[2]
        if safe_rename.is_free_or_same(fd, name, respelled):
            os.rename(name, respelled, src_dir_fd=fd, dst_dir_fd=fd)
        else:
            self.displaced.record_kept(action)

    def _would_change_other_hard_links(self, action: Action) -> bool:
        """True if a mode change would affect other hard links, which may lie outside the root."""
        if action.before is None or action.after is None or action.after.kind != FILE or same_for_restore(action.before, action.after):
            return False
        status = self.displaced.tree.status_of(self.displaced.path_after_moves_aside(action.source))
        return status is not None and status.st_nlink > 1

    def _displace_to_remove(self, action: Action) -> None:
        self._count_step_and_report()
        with self.displaced.open_and_hash(action.path) as (fd, name, found):
            if found is None:
                return
            if not same_for_restore(found.entry, action.before) or found.stamp.ino in self._found:
                self.displaced.record_kept(action)
                return
            if self.displaced.path_after_moves_aside(action.path) != action.path:
                os.unlink(name, dir_fd=fd)  # its directory was moved aside: its path no longer leads to it
            else:
                self._displace_to_temporary_name(fd, name, action)


def _is_planned_directory(present: Entry, action: Action) -> bool:
    """True if, as planned, a directory is in the place of a new file or link."""
    return action.before is not None and present.kind == DIR == action.before.kind


def _copy_file_bytes(fd: int, name: bytes, directory: int) -> None:
    """Copy the bytes of another file. Raises OSError."""
    with fsio.closing(fsio.open_on_disk(name, directory=directory)) as source:
        sparse.write_content(fd, iter(lambda: os.read(source, _PIECE), b""))


def _chmod_file_of_inode(name: bytes, directory: int, mode: int, ino: int) -> int | None:
    """chmod of the file with this inode, even an unreadable one; links are not followed. Clears set-id and sticky bits.
    Returns the mode that it has then; None if another file has the name: its mode must not become wider."""
    return _chmod_unless_replaced(name, directory, mode, 0, ino)


def _chmod_directory(name: bytes, directory: int, mode: int) -> int | None:
    """chmod of a directory. Keeps set-id and sticky bits: the sticky bit protects files from other users. Returns as
    `_chmod_file_of_inode`."""
    return _chmod_unless_replaced(name, directory, mode, _SPECIAL)


def _chmod_unless_replaced(name: bytes, directory: int, mode: int, keep: int, ino: int | None = None) -> int | None:
    """chmod of the directory, or of the file with the inode `ino`, at a name. Returns the permission bits that it has then; None if
    something else is there."""
    fd, where = -1, b""
    try:
        fd = fsio.open_on_disk(name, directory=directory)
    except PermissionError:
        if hasattr(os, "O_PATH"):
            fd = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=directory)
            where = b"/proc/self/fd/%d" % fd  # fchmod refuses such a descriptor
    try:
        status = os.stat(name, dir_fd=directory, follow_symlinks=False) if fd < 0 else os.fstat(fd)
        if not stat.S_ISDIR(status.st_mode) if ino is None else status.st_ino != ino:
            return None
        mode |= status.st_mode & keep
        if fd < 0:
            os.chmod(name, mode, dir_fd=directory, follow_symlinks=False)
        else:
            os.chmod(where or fd, mode)
        status = os.stat(name, dir_fd=directory, follow_symlinks=False) if fd < 0 else os.fstat(fd)
        return status.st_mode & PERMISSIONS
    finally:
        if fd >= 0:
            os.close(fd)
