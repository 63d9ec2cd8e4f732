"""Finds the root directory of a project, the name of its store, and the mounts below it.

Two dangers are prevented here. Protecting too much (the home directory, the whole disk) or too little (only a
subdirectory); and two projects in one store. This module never runs git: it reads only `.git` entries and the few
pointers in them.
"""

import os
import stat
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import cache

from .. import errors, fsio, locations
from .._typing import NamedTuple
from ..messages import printable
from ..model import digest as digests
from ..model import paths

_SYSTEM_NAMES = (
    "/ /Applications /Library /System /System/Volumes /System/Volumes/Data /Users /Volumes /bin /boot /dev /etc /home /lib "
    "/lib32 /lib64 /media /mnt /opt /opt/homebrew /private /private/etc /private/tmp /private/var /proc /root /run /sbin /snap "
    "/srv /sys /tmp /usr /usr/bin /usr/lib /usr/local /usr/share /usr/src /var /var/lib /var/tmp"
)
_SYSTEM = frozenset(_SYSTEM_NAMES.split())
_ORDINARY_INSIDE = "/dev/shm/"  # noqa: S108 - a tmpfs in which people build
_NEVER_INSIDE = ("/proc/", "/sys/", "/dev/")
_MAX_POINTER = 4096 + len(b"gitdir: \n")  # no system supports a longer path
_MOUNT_PARENTS = ("/mnt", "/media", "/run/media", "/run/user", "/Volumes", "/net", "/Network")
"""Directories in which mount points appear and disappear with their disks."""
_TIMES_NS = 2_000_000_000
"""The coarsest time resolution of a file system, in nanoseconds."""
_BOOT = "/proc/sys/kernel/random/boot_id"
_BOOT_LENGTH = 36
_NAMED_BY_DEVICE = ("ext4", "xfs", "f2fs")
_BTRFS_INFO = 0x8400941F  # BTRFS_IOC_FS_INFO
_BTRFS_INFO_SIZE, _BTRFS_UUID = 1024, slice(16, 32)


class Root(NamedTuple):
    """The root of a worktree: its real `path` and `key` (first 16 bytes of the path's digest). `owner` is the root that
    names the store: the repository's main worktree for a linked worktree, otherwise the root itself. `git_dir` and
    `common_dir` open_and_hash ignore rules outside the tree, or are None."""

    path: str
    key: bytes
    owner: str
    git_dir: str | None
    common_dir: str | None


def store_name_of(owner: str) -> str:
    """The name of the store of the root `owner`, a real path: readable and unique."""
    return f"{store_name_stem(owner)}-{key_of(owner).hex()[:12]}"


def store_name_stem(owner: str) -> str:
    """The readable part of a store's name: equal for all roots with the same last component."""
    return "".join(c if c.isalnum() or c in "-_." else "_" for c in os.path.basename(owner))[:40] or "root"


def is_other_spelling(path: str, root: str) -> bool:
    """True if a path is that of the directory `root`, a real path, in another spelling. No link leads there."""
    return path != root and os.path.realpath(path) == path and locations.real_path(path) == root


def is_still_there(root: str, *, unlike: str = "") -> bool:
    """True if a root still is a directory, no link and no other name of `unlike`. True also if it cannot be checked."""
    try:
        status = os.lstat(root)
        other = os.stat(unlike) if unlike else None
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:
        return True
    return stat.S_ISDIR(status.st_mode) and not (other is not None and os.path.samestat(status, other))


def why_maybe_unmounted(root: str, used_ns: int, *, store: str = "", removes: bool = True) -> str:
    """Why a missing root may still exist on an unmounted disk; "" if it was removed.

    The danger prevented here: history is deleted, or given to another directory, while a disk is unplugged. Removing a
    root changes its parent directory. Unmounting a disk reveals another, unchanged directory.

    `used_ns` is a time when the root existed (nanoseconds since 1970). A caller that deletes the root's store, or gives it
    to another root, passes its path as `store`. Then a root that a container hides is doubtful as well. If the caller
    `removes` the store, so are a link in its place, and a root below directories for mount points.
    """
    is_strict = bool(store) and removes
    if is_strict and os.path.islink(root):
        return "a link stands in its place, as after a move"
    place, status = os.path.dirname(root), None
    while status is None:
        try:
            status = os.stat(place)
        except (FileNotFoundError, NotADirectoryError):
            if os.path.islink(place):
                return f"{printable(place)} is a link to a missing path"
            place = os.path.dirname(place)
        except OSError as error:
            return f"{printable(place)} cannot be looked at ({error.strerror})"
    if not stat.S_ISDIR(status.st_mode):
        return ""
    for top in _MOUNT_PARENTS:
        if locations.is_in(root, top) and (is_strict or not locations.is_in(place, top) or os.stat(top).st_dev == status.st_dev):
            return f"it lies under {top}, where removable disks are mounted"
    kind = locations.file_system_type(place)
    if kind == "autofs":
        return f"{printable(place)} is mounted on demand"
    if store and kind == "overlay" and locations.file_system_type(store) != kind:
        return f"{printable(place)} belongs to a container, but the store does not: the root may exist outside the container"
    if status.st_mtime_ns < used_ns - _TIMES_NS:
        return f"nothing was removed from {printable(place)} since it was used: perhaps its disk is not mounted"
    return ""


def former_paths(given: str) -> tuple[str, ...]:
    """The real paths that a root may have had, for the path `given` by the user: with the links above it resolved, and
    as written. A link at the path itself is not resolved: users leave links to moved projects."""
    written = os.path.abspath(given)
    above, name = os.path.split(written)
    # as spelled by the directories above, and by the user: a version that kept the latter may have made the store
    found = (os.path.join(place, name) for place in (locations.real_path(above), os.path.realpath(above)))
    return tuple(dict.fromkeys((*found, written)))


def paths_below_root(root: str, given: Sequence[str], start: str) -> tuple[bytes, ...]:
    """Convert paths relative to `start` to paths below a root (b"" is the root). Raises UnsafePath for a path outside
    it."""
    top, here = os.fsencode(root), locations.real_path(start)
    found = []
    for item in given:
        full = os.path.normpath(os.path.join(here, item))
        # the parent may be a link into the root; the last component is never followed
        candidate = next((os.fsencode(place) for place in _spellings_of(full) if locations.is_in(place, root)), None)
        if candidate is None:
            raise errors.UnsafePath(f"{printable(item)} lies outside the root {printable(root)}")
        below = candidate[len(top.rstrip(b"/")) + 1 :]
        found.append(paths.check_path(below) if below else b"")
    return tuple(found)


def _spellings_of(path: str) -> Iterator[str]:
    """A path as it is; with its directory resolved and spelled; and with its own name spelled, too, unless it is a link."""
    yield path
    yield os.path.join(locations.real_path(os.path.dirname(path)), os.path.basename(path))
    if not os.path.islink(path):
        yield locations.real_path(path)


def key_of(path: str) -> bytes:
    """The key of a worktree: the first 16 bytes of its real path's digest."""
    return digests.of(os.fsencode(path))[:16]


def find_root(start: str, home: str, is_known: Callable[[Root], bool]) -> Root:
    """The root that contains `start`: the nearest `.git` entry or known root on the same file system, otherwise
    `start` itself. A `.git` in or above the home directory is ignored. Raises WorkspaceNotFound if `start` is not a
    directory."""
    try:
        real = locations.real_path(start, strict=True)
        status = os.stat(real)
    except OSError as error:
        what = f"{printable(start)} cannot be entered: {error.strerror}"
        raise errors.WorkspaceNotFound(what, "give a directory with -C DIR") from error
    if not stat.S_ISDIR(status.st_mode):
        raise errors.WorkspaceNotFound(f"{printable(start)} is not a directory", "give one with -C DIR")
    home = _real_home(home)
    place, device = real, status.st_dev
    while True:
        candidate = root_at(place)
        above_home = locations.is_in(home, place)
        if (candidate.git_dir is not None and not above_home) or is_known(candidate):
            return candidate
        parent = os.path.dirname(place)
        if parent == place or os.stat(parent).st_dev != device:
            return root_at(real)
        place = parent


@cache
def _real_home(home: str) -> str:
    return locations.real_path(home)


def refuse_system_directories(root: str, home: str) -> None:
    """Raise RootRefused for the home directory, its parents, / and system directories."""
    home = _real_home(home)
    why = None
    if root == home:
        why = "it is your home directory"
    elif locations.is_in(home, root):
        why = "your home directory lies in it"
    elif root in _SYSTEM or ((root + "/").startswith(_NEVER_INSIDE) and not root.startswith(_ORDINARY_INSIDE)):
        why = "it is a system directory"
    elif sys.platform == "darwin" and root == os.path.join(home, "Library"):
        why = "it holds the files of your applications"
    if why is not None:
        raise errors.RootRefused(
            f"{printable(root)} is not a project: {why}", "start in a project's directory, or use --force to allow it"
        )


def root_at(path: str) -> Root:
    """The root at `path` (of locations.real_path), with or without a marker."""
    git_dir, common = _find_git_directories(path)
    owner = path
    if git_dir is not None and common is not None and common != git_dir and os.path.basename(common) == ".git":
        owner = os.path.dirname(common)
    return Root(path, key_of(path), owner, git_dir, common)


def _find_git_directories(path: str) -> tuple[str | None, str | None]:
    """Returns (git directory, common directory) of a `.git` entry in `path`, or (None, None)."""
    entry = os.path.join(path, ".git")
    try:
        mode = os.lstat(entry).st_mode
    except OSError:
        return None, None
    if stat.S_ISDIR(mode):
        return entry, entry
    target = locations.real_path(entry) if stat.S_ISLNK(mode) else entry  # git follows a link, to a directory or a pointer
    if stat.S_ISLNK(mode) and os.path.isdir(target):
        git_dir = target
    else:
        pointer = read_path_after_prefix(target, b"gitdir:")
        if pointer is None:
            return entry, entry  # an unreadable pointer still marks a root
        git_dir = locations.real_path(os.path.join(path, pointer))
    common = read_path_after_prefix(os.path.join(git_dir, "commondir"), b"")
    back = read_path_after_prefix(os.path.join(git_dir, "gitdir"), b"")
    if common is None:
        return git_dir, git_dir  # a submodule: a separate repository
    if back is None or _resolve_parent(os.path.join(git_dir, back)) != entry:
        return git_dir, git_dir  # a copied pointer: it names a worktree elsewhere
    shared = locations.real_path(os.path.join(git_dir, common))
    return git_dir, shared if _lists_worktree(shared, git_dir) else git_dir


def _lists_worktree(common: str, git_dir: str) -> bool:
    """True if `git_dir` is in the worktrees directory of the repository `common`, where other users cannot create one.
    Without this check, the pointers in an archive could name any repository on the disk and share its store."""
    has_parts = os.path.lexists(os.path.join(common, "HEAD")) and os.path.isdir(os.path.join(common, "objects"))
    return has_parts and os.path.dirname(git_dir) == os.path.join(common, "worktrees")


def _resolve_parent(path: str) -> str:
    """A path with the links above it resolved. The path itself may be a link: the pointer of a worktree."""
    above, name = os.path.split(os.path.normpath(path))
    return os.path.join(locations.real_path(above), name)


def read_path_after_prefix(path: str, prefix: bytes) -> str | None:
    """The path after `prefix` in a small file, or None."""
    try:
        data = fsio.read_file(path, _MAX_POINTER + 1)
    except OSError:
        return None
    if len(data) > _MAX_POINTER or not data.startswith(prefix):
        return None
    text = data[len(prefix) :].strip()
    return os.fsdecode(text) if text and b"\0" not in text else None


# -- mounts below a root, and the life of a file system
#
# The danger prevented here: a restore changes files outside the project through a mount. Device numbers do not reveal a
# mount: a bind mount has the device of its source, perhaps the root's own, and on overlayfs a file and its directory
# may differ. So the kernel's list of mounts is read. Devices of directories are compared too, for subvolumes and for
# systems without such a list.
#
# A second danger: a recorded stamp that outlives its bytes. After a power cut, a file can have new times, size and
# inode but old bytes: the journal kept the inode, while the new bytes were only in memory. So stamps are valid only
# within one life of a file system, from mount to unmount under one boot, where reads return the bytes written last.
#
# The boot id alone does not identify a life: a disk can be unplugged, or reset to an older state, and mounted again in
# one boot. Mount ids are reused, and differ between a container and its host. But Linux creates a directory in /sys for
# each mounted ext4, XFS, F2FS and Btrfs. All processes see the inode number of that directory. It is new at each mount.


class Mounts:
    """The mounts below one root. `device` is the root's; `points` are paths of directories or files below the root."""

    def __init__(self, device: int, points: Iterable[bytes] = ()) -> None:
        """A snapshot: later mounts are missing."""
        self.device, self.points = device, frozenset(points)
        self.names: dict[bytes, set[bytes]] = {}
        """The names of the mount points, by parent directory."""
        for point in self.points:
            place, _, name = point.rpartition(b"/")
            self.names.setdefault(place, set()).add(name)

    def is_mount_point(self, path: bytes, status: os.stat_result) -> bool:
        """True if another file system begins at a path with this lstat."""
        return path in self.points or (stat.S_ISDIR(status.st_mode) and status.st_dev != self.device)

    def mount_point_at_or_above(self, path: bytes) -> bytes | None:
        """The first mount point at or above a path, or None."""
        if not self.points:
            return None
        return next((place for place in (*paths.parents(path), path) if place in self.points), None)


def mounts_below(root: str, fd: int) -> Mounts:
    """The mounts below the directory `root`, which is open as `fd`."""
    device, top = os.fstat(fd).st_dev, os.fsencode(root).rstrip(b"/") + b"/"
    found = [mount for mount in locations.mounts() if mount.point.startswith(top)]
    own = _mount_of(fd) if found else -1
    # Only direct children of the root's mount count: mounts on other mounts lie below these. A mount made before
    # another mount covered the root is hidden. Where no mount has a number, as on macOS, all of them count.
    return Mounts(device, (mount.point[len(top) :] for mount in found if -1 in (own, mount.parent) or own == mount.parent))


def _mount_of(fd: int) -> int:
    """The mount id of an open directory, -1 if unknown."""
    try:
        with open(f"/proc/self/fdinfo/{fd}", "rb") as file:
            return next((int(line.split()[1]) for line in file if line.startswith(b"mnt_id:")), -1)
    except (OSError, ValueError, IndexError):
        return -1


def life_of_file_system(fd: int) -> bytes:
    """About 50 bytes that identify the life of the file system of `fd`: the boot, and what differs between this mount
    of the file system and the next, else the device number. b"" if the boot id is unknown; treat such a token as
    different from any other. Raises OSError."""
    boot = b""
    with suppress(OSError):
        boot = _boot_id()
    if len(boot) != _BOOT_LENGTH:
        return b""
    device = os.fstat(fd).st_dev
    mount = b"device %d" % device
    with suppress(OSError):
        if os.major(device):
            name = os.path.basename(os.readlink(f"/sys/dev/block/{os.major(device)}:{os.minor(device)}"))
            for kind in _NAMED_BY_DEVICE:
                with suppress(OSError):
                    mount = b"%s %d" % (kind.encode(), os.stat(f"/sys/fs/{kind}/{name}").st_ino)
                    break
        elif sys.platform == "linux":
            # Btrfs has a device number for each subvolume, and none for the file system
            mount = b"btrfs %d %d" % (os.stat(f"/sys/fs/btrfs/{_btrfs_uuid(fd)}").st_ino, device)
    return b"%s %s" % (boot, mount)


def _boot_id() -> bytes:
    """What differs between this boot and the next. Raises OSError."""
    if sys.platform == "darwin":
        from .. import libsystem

        return libsystem.read_system_value("kern.bootsessionuuid")
    return fsio.read_file(_BOOT, 64).strip()


def _btrfs_uuid(fd: int) -> str:
    import fcntl

    found = bytearray(_BTRFS_INFO_SIZE)
    fcntl.ioctl(fd, _BTRFS_INFO, found)  # fails on every other file system
    digits = found[_BTRFS_UUID].hex()
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))
