"""The worktree during a restore: the current location of each path, its content, the displaced files, and who may use
what takes their place.

Three dangers are prevented here. Removing a file that only resembles the safety checkpoint's content: every displaced
file is hashed once more before its removal. If it differs, it is put back, or kept under a visible name. Handing a
private file to another user, who put his own file or directory in its place: only a file of this user, or of the owner
of the root directory, tells who may use its path. And a file that a mount shows to everybody, while its restore said that
it is private: some mounts answer that a mode, an owner or an attribute is set, and keep their own. So each is read back.
"""

import errno
import os
import stat
import struct
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from .. import errors, fsio
from ..messages import is_process_limit, printable
from ..model import paths
from ..model import stamp as stamps
from ..model.manifest import DIR, TEMPORARY_PREFIX, Entry, same_for_restore
from ..model.plan import Action, Actions, Kept
from . import safe_rename
from .reader import CapturedFile, HashSink, NotCapturable, Worktree, capture_in_directory, means_absent_path

CHANGED = "changed while the restore ran"
STRANGERS = "another user's file was in its place: restored for you alone, with mode {:04o}"
_NO_OWNER = "its owner cannot be set"
"""Said to root alone: nobody else can give a file away."""
_TIME_STEP_NS = 2 * 10**9
"""The coarsest times that a usual file system has: those of FAT."""
MOVED_ASIDE = b"o"
"""Suffix of temporary names for the user's files; our own content never has it."""

UNKNOWN = Entry("special", 0, 0, 0, b"", b"", b"")
"""An unreadable or special file. It equals no entry of any plan."""

_UNREADABLE = CapturedFile(UNKNOWN, stamps.NONE, stable=False)
_HASH = HashSink()
_ACL, _DEFAULT_ACL = "system.posix_acl_access", "system.posix_acl_default"
_ACL_ENTRY = struct.Struct("<HHI")  # tag, permissions, id; the entries follow a version of four bytes
_OWNER, _GROUP, _MASK, _OTHER = 0x01, 0x04, 0x10, 0x20  # tags
_NO_ACL = (errno.ENODATA, errno.EOPNOTSUPP, errno.ENOSYS)
_PRIVATE = stat.S_IRUSR | stat.S_IWUSR
_KEPT_FLAGS = stat.UF_HIDDEN | stat.UF_NODUMP
"""The flags of macOS that a file gets from the one that it replaces. Others would forbid to finish it, or are the system's."""


def mode_in_words(wanted: int, mode: int) -> str:
    """That a file has another mode than it was given; "" if it has that."""
    return f"its mode {wanted:04o} cannot be set here: it has {mode:04o}" if mode != wanted else ""


def time_in_words(wanted_ns: int, status: os.stat_result) -> str:
    """That a file has another mtime than it was given; "" if it has that."""
    return "its time cannot be set here" if abs(status.st_mtime_ns - wanted_ns) > _TIME_STEP_NS else ""


@contextmanager
def name_path_in_errors(path: bytes) -> Iterator[None]:
    """Make an OSError name the path of the action instead of a temporary name."""
    try:
        yield
    except OSError as error:
        error.filename, error.filename2 = path, None
        raise


class DisplacedFiles:
    """A worktree during the execution of one plan. `tag` makes the plan's temporary names unique."""

    def __init__(self, tree: Worktree, actions: Actions, tag: str) -> None:
        """`actions` are the plan's."""
        if not tag.isalnum():  # it becomes part of file names, and is read from the store
            raise errors.UnsafePath(f"invalid checkpoint id {tag[:40]!r}")
        self.tree = tree
        self.kept: dict[bytes, Kept] = {}
        self.aside: dict[bytes, bytes] = {}  # directories replaced by a file: path before that -> temporary name beside it
        self.spared: dict[bytes, Kept] = {}
        """Paths to leave alone, also in recovery after an interruption."""
        self._actions, self._tag = actions, tag.encode()
        self._top, self._me = os.fstat(tree.fd), os.geteuid()

    def temporary_name(self, action: Action, suffix: bytes = b"") -> bytes:
        """The name of an action's temporary file, beside its path."""
        return TEMPORARY_PREFIX + self._tag + b"-%d" % self.position_in_plan(action) + suffix

    def position_in_plan(self, action: Action) -> int:
        """The position of an action in the plan."""
        number = self._actions.index_of(action.path)
        assert number is not None
        return number

    @contextmanager
    def open_parent(self, path: bytes) -> Iterator[tuple[int, bytes]]:
        """Yields (descriptor of the current parent directory, last component). Raises OSError."""
        fd, name = self.tree.open_parent(self.path_after_moves_aside(path))
        with fsio.closing(fd):
            yield fd, name

    def path_after_moves_aside(self, path: bytes) -> bytes:
        """The current location of a path, if a directory above it was moved aside."""
        if self.aside:
            for above in paths.parents(path):
                name = self.aside.get(above)
                if name is not None:
                    return paths.join(above.rpartition(b"/")[0], name) + path[len(above) :]
        return path

    @contextmanager
    def open_and_hash(self, path: bytes) -> Iterator[tuple[int, bytes, CapturedFile | None]]:
        """Yields (parent descriptor, name, hashed file). The check and the action share one walk from the root. Without
        an accessible parent, the descriptor is -1, and the file is None (parent missing) or has the entry UNKNOWN."""
        fd, name, found = -1, b"", None
        try:
            fd, name = self.tree.open_parent(self.path_after_moves_aside(path))
        except OSError as error:
            if is_process_limit(error):
                raise
            found = None if means_absent_path(error) else _UNREADABLE
        try:
            yield fd, name, found if fd < 0 else _hashed_file_in(fd, name)
        finally:
            if fd >= 0:
                os.close(fd)

    def hash_entry(self, path: bytes) -> Entry | None:
        """The entry at a path now, with its content hashed; UNKNOWN if no plan can contain it."""
        with self.open_and_hash(path) as (_, _, found):
            return found and found.entry

    def hash_entry_in(self, fd: int, name: bytes) -> Entry | None:
        """As `hash_entry`, for a name in an open directory."""
        found = _hashed_file_in(fd, name)
        return found and found.entry

    def hash_entry_beside(self, path: bytes, name: bytes) -> Entry | None:
        """As `hash_entry`, for a name in the directory of `path`."""
        return self.hash_entry(paths.join(path.rpartition(b"/")[0], name))

    def record_kept(self, action: Action, reason: str = CHANGED) -> None:
        """Leave a path alone and record the reason."""
        self.kept.setdefault(action.path, Kept(action.path, reason, benign=False))

    def remove_or_put_back(self, fd: int, name: bytes, aside: bytes, action: Action) -> None:
        """Remove a displaced file if the store has its content; otherwise put it back or make it visible."""
        held = self.hash_entry_in(fd, aside)
        if held is None:  # its directory was moved, and the file with it
            self.record_kept(action)
            return
        if same_for_restore(held, action.before) or same_for_restore(held, action.after):
            os.unlink(aside, dir_fd=fd)
            return
        self.record_kept(action)
        ours = action.after is not None and action.after.kind != DIR and same_for_restore(self.hash_entry(action.path), action.after)
        if ours and safe_rename.exchange_names(fd, aside, name):
            if same_for_restore(self.hash_entry_beside(action.source, aside), action.after):
                os.unlink(aside, dir_fd=fd)  # written by the restore
            else:  # edited between the check and the exchange
                self.rename_to_visible_name(fd, name, aside, action.path)
            return
        try:
            safe_rename.rename_without_replacing(fd, aside, name)
        except FileExistsError:
            self.rename_to_visible_name(fd, name, aside, action.path)

    def rename_to_visible_name(self, fd: int, name: bytes, aside: bytes, path: bytes) -> None:
        """Rename displaced content that cannot be put back. The user will see its new name."""
        for number in range(1000):
            visible = name[:200] + b".casrewind-kept" + (b"-%d" % number if number else b"")
            try:
                safe_rename.rename_without_replacing(fd, aside, visible)
            except FileExistsError:
                continue
            where = paths.join(path.rpartition(b"/")[0], visible)
            reason = f"edited during the restore: the previous {paths.lossy_text(path)} is kept here"
            self.kept[where] = Kept(where, reason, benign=False)
            return

    # -- owner, group, ACL and user attributes

    def set_owner_group_and_acl(self, draft: int, parent: int, name: bytes | None, mode: int) -> tuple[int, str]:
        """Give a new file, open and still 0600, the owner, group, ACL and user attributes of the file `name` in the open
        directory `parent`; without a name, those of a new file. Returns (its final mode, what did not take and why fewer
        people may use it than `mode` says, or "")."""
        source, lost = -1, list[str]()
        if name is not None:
            try:
                source = fsio.open_on_disk(name, directory=parent)
            except FileNotFoundError:
                pass  # removed since it was hashed: a new file
            except OSError as error:
                if is_process_limit(error):
                    raise
                return self._make_private(draft, mode)
        try:
            if source < 0:
                (has_owner, has_group), acl = self._set_owner_and_group(draft, os.fstat(parent)), b""
            else:
                there = os.fstat(source)
                if not stat.S_ISREG(there.st_mode) or not self._is_of_user_or_owner_of_root(there):
                    return self._make_private(draft, mode)
                has_owner, has_group = _chown_as_far_as_allowed(draft, there.st_uid, there.st_gid)
                lost += _copy_user_attributes(source, draft)
                acl = _read_acl_or_remove_inherited(source, draft)
            lost += [_NO_OWNER] * (self._me == 0 and not has_owner)
            group, others, why = _group_permissions_in(acl) if acl else mode >> 3 & stat.S_IRWXO, mode & stat.S_IRWXO, ""
            if not has_group and group != others:
                # members of the new group were among the others, and members of the old one are now
                group = others = group & others
                mode = mode & ~stat.S_IRWXO | others
                mode = mode if acl else mode & ~stat.S_IRWXG | group << 3
                why = "its group cannot be set: its group and others may do only what both might"
            if acl:
                _set_acl(draft, _acl_masked_until_final_mode(acl, group))
        except OSError as error:
            if is_process_limit(error):
                raise
            return mode & _PRIVATE, f"its ACL cannot be set ({error.strerror}): restored with mode {mode & _PRIVATE:04o}"
        finally:
            if source >= 0:
                os.close(source)
        return mode, "; ".join([why, *lost] if why else lost)

    def make_directory_with_owner(self, fd: int, name: bytes) -> None:
        """Make a directory, mode 0700, in an open directory. Root makes it for the owner of the root directory."""
        fsio.make_directory(name, dir_fd=fd)
        above = os.fstat(fd)
        if self._is_of_user_or_owner_of_root(above) and not self.is_root_in_project_of_another:
            return
        with fsio.closing(os.open(name, fsio.DIRECTORY_FLAGS, dir_fd=fd)) as made:
            if os.fstat(made).st_uid == self._me and not os.listdir(made):  # else another user has exchanged it
                if not self._is_of_user_or_owner_of_root(above):
                    _remove_inherited_acl(made, _DEFAULT_ACL)
                self._set_owner_and_group(made, above)
                if not self._decides_group_of_new_files(above):
                    os.fchmod(made, stat.S_IRWXU)

    def give_link_to_owner_of_root(self, fd: int, name: bytes) -> None:
        """Give a link that root made to the owner of the root directory."""
        if not self.is_root_in_project_of_another or not hasattr(os, "O_PATH"):
            return
        with fsio.closing(os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=fd)) as link:
            if stat.S_ISLNK(os.fstat(link).st_mode):  # a name alone may be another file by now
                with suppress(OSError):
                    os.chown(f"/proc/self/fd/{link}", self._top.st_uid, self._top.st_gid)

    def _is_of_user_or_owner_of_root(self, status: os.stat_result) -> bool:
        return status.st_uid in (self._me, self._top.st_uid)

    def status_if_regular_file(self, path: bytes) -> os.stat_result | None:
        """lstat of a regular file; None if there is none, or it cannot be reached."""
        try:
            status = self.tree.status_of(path)
        except OSError as error:
            if is_process_limit(error):
                raise
            return None
        return status if status is not None and stat.S_ISREG(status.st_mode) else None

    def still_holds_file_of_another_user(self, action: Action) -> bool:
        """True if an action has displaced another user's file, which still has its temporary name."""
        names = (self.temporary_name(action, suffix) for suffix in (b"", MOVED_ASIDE))
        found = (self.status_if_regular_file(paths.join(action.path.rpartition(b"/")[0], name)) for name in names)
        return any(status is not None and not self._is_of_user_or_owner_of_root(status) for status in found)

    @property
    def is_root_in_project_of_another(self) -> bool:
        """True for root in a project of another user."""
        return self._me == 0 != self._top.st_uid

    def _decides_group_of_new_files(self, above: os.stat_result) -> bool:
        """True if a set-gid directory decides the group. Another user's may name no group but the root directory's."""
        return bool(above.st_mode & stat.S_ISGID) and (self._is_of_user_or_owner_of_root(above) or above.st_gid == self._top.st_gid)

    def _set_owner_and_group(self, fd: int, above: os.stat_result) -> tuple[bool, bool]:
        """Give a new file or directory its owner and group. `above`: its directory's status; another user's directory
        decides nothing. Returns whether it has (its owner, its group) now."""
        if not self._is_of_user_or_owner_of_root(above):
            _remove_inherited_acl(fd)
        group = -1
        if not self._decides_group_of_new_files(above):
            if self.is_root_in_project_of_another:
                group = self._top.st_gid
            elif above.st_mode & stat.S_ISGID:
                group = os.getegid()
        return _chown_as_far_as_allowed(fd, self._top.st_uid if self.is_root_in_project_of_another else -1, group)

    def _make_private(self, draft: int, mode: int) -> tuple[int, str]:
        """The access of a file that displaces one of another user: nothing is taken over."""
        mode &= _PRIVATE
        why = STRANGERS.format(mode)
        try:
            _remove_inherited_acl(draft)
        except OSError as error:
            if sys.platform == "darwin":  # elsewhere the mode alone makes it private
                why += f", but the ACL of its directory holds ({error.strerror}): others may use it"
        return mode, why


def _hashed_file_in(fd: int, name: bytes) -> CapturedFile | None:
    """The hashed file at a name in an open directory; its entry is UNKNOWN if no plan can contain it."""
    try:
        return capture_in_directory(fd, name, _HASH)
    except NotCapturable:
        return _UNREADABLE
    except OSError as error:
        if is_process_limit(error):
            raise
        return _UNREADABLE


def _chown_as_far_as_allowed(fd: int, owner: int, group: int) -> tuple[bool, bool]:
    """Change owner and group of an open file as far as allowed; -1 keeps one. Returns whether it has (the owner, the group) now."""
    here = os.fstat(fd)
    if owner not in (-1, here.st_uid) or group not in (-1, here.st_gid):
        for new in (owner, -1):  # only root may give a file away; its owner may change its group
            with suppress(OSError):
                os.fchown(fd, new, group)
                break
        here = os.fstat(fd)
    return owner in (-1, here.st_uid), group in (-1, here.st_gid)


def _copy_user_attributes(source: int, draft: int) -> list[str]:
    """Copy the user attributes of an open file. Returns what to say of those that the draft has not. Raises OSError."""
    if sys.platform == "darwin":
        return _copy_attributes_and_flags_of_macos(source, draft)
    lost = []
    for name in _attribute_names(source):
        if name.startswith("user."):
            value = os.getxattr(source, name)
            with suppress(OSError):
                os.setxattr(draft, name, value)
                if os.getxattr(draft, name) == value:
                    continue
            lost.append(f"its attribute {printable(name)} cannot be set")
    return lost


def _copy_attributes_and_flags_of_macos(source: int, draft: int) -> list[str]:
    """As _copy_user_attributes; there every attribute is the user's, and `hidden` is a flag."""
    from .. import libsystem

    lost, before = [], os.fstat(draft)
    try:
        libsystem.copy_attributes(source, draft)
    except OSError as error:
        lost.append(f"its attributes cannot be set ({error.strerror})")
    # a resource fork is written as a file is; and when the draft has its ACL, this may be forbidden
    os.utime(draft, ns=(before.st_atime_ns, before.st_mtime_ns))
    wanted, has = (getattr(os.fstat(fd), "st_flags", 0) for fd in (source, draft))
    if wanted & _KEPT_FLAGS & ~has:
        try:
            libsystem.set_flags(draft, has | wanted & _KEPT_FLAGS)
        except OSError as error:
            lost.append(f"its flags cannot be set ({error.strerror})")
    return lost


def _read_acl_or_remove_inherited(source: int, draft: int) -> bytes:
    """The ACL of an open file, as the system encodes it, or b"": then the draft has none either. On macOS, where an ACL has nothing
    to do with the mode, the draft has it now, and the answer is b"". Raises OSError."""
    if sys.platform == "darwin":
        from .. import libsystem

        libsystem.set_acl(draft, libsystem.read_acl(source))
        return b""
    if _ACL in _attribute_names(source):
        return os.getxattr(source, _ACL)
    _remove_inherited_acl(draft)
    return b""


def _attribute_names(fd: int) -> list[str]:
    """The names of an open file's attributes; none where the system or the mount has no attributes. Raises OSError."""
    if not sys.platform.startswith("linux"):
        return []
    try:
        return os.listxattr(fd)
    except OSError as error:
        if error.errno not in _NO_ACL:
            raise
        return []


def _set_acl(fd: int, acl: bytes) -> None:
    """Set the ACL of an open file. Raises OSError, also if it has none then."""
    if sys.platform.startswith("linux"):
        os.setxattr(fd, _ACL, acl)
    if _ACL not in _attribute_names(fd):
        raise OSError(errno.EOPNOTSUPP, os.strerror(errno.EOPNOTSUPP))


def _group_permissions_in(acl: bytes) -> int:
    """The permissions of the owning group in an ACL."""
    return next((allowed for tag, allowed, _ in _ACL_ENTRY.iter_unpack(acl[4:]) if tag == _GROUP), 0)


def _acl_masked_until_final_mode(acl: bytes, group: int) -> bytes:
    """An ACL with these permissions of the owning group, and the mode 0600. A mask forbids everything until the file
    gets its final mode."""
    rights = {_OWNER: _PRIVATE >> 6, _GROUP: group, _MASK: 0, _OTHER: 0}
    entries = ((tag, rights.get(tag, allowed), who) for tag, allowed, who in _ACL_ENTRY.iter_unpack(acl[4:]))
    return acl[:4] + b"".join(_ACL_ENTRY.pack(*entry) for entry in entries)


def _remove_inherited_acl(fd: int, *more: str) -> None:
    """Remove the ACL that a new file inherited. Raises OSError."""
    if sys.platform == "darwin":
        from .. import libsystem

        libsystem.set_acl(fd, b"")
        return
    for name in (_ACL, *more) if hasattr(os, "removexattr") else ():
        try:
            os.removexattr(fd, name)
        except OSError as error:
            if error.errno not in _NO_ACL:
                raise
