"""Which directory is the root of a project, and which store it belongs to.

The danger prevented here: protecting too much (the home directory, the whole disk) or too little (the subdirectory in
which somebody happened to start), and two projects in one store. git itself is never run: a `.git` entry and the few
pointers in it are looked at, nothing more.
"""

import os
import stat
from collections.abc import Callable, Sequence

from .. import errors, fsio
from ..model import digest as digests
from ..model import paths
from ..typed import NamedTuple

_SYSTEM_NAMES = (
    "/ /Applications /Library /System /Users /Volumes /bin /boot /dev /etc /home /lib /lib32 /lib64 /media /mnt "
    "/opt /private /private/etc /private/tmp /private/var /proc /root /run /sbin /snap /srv /sys /tmp /usr "
    "/usr/bin /usr/lib /usr/local /usr/share /usr/src /var /var/lib /var/tmp"
)
_SYSTEM = frozenset(_SYSTEM_NAMES.split())
_ORDINARY_INSIDE = "/dev/shm/"  # noqa: S108 - a tmpfs that people build in
_NEVER_INSIDE = ("/proc/", "/sys/", "/dev/")
_MAX_POINTER = 4096 + len(b"gitdir: \n")  # no system takes a longer path
_MOUNT_PARENTS = ("/mnt", "/media", "/run/media", "/run/user", "/Volumes", "/net", "/Network")
"""Directories below which mount points come and go with their disks."""
_TIMES_NS = 2_000_000_000
"""The coarsest times of a file system, in nanoseconds."""


class Root(NamedTuple):
    """The root of a worktree: its real `path` and `key` (first 16 bytes of the path's digest).

    `owner` is the root that the store is named after: of a linked worktree the repository's main one, else the root
    itself. `git_dir` and `common_dir` are where the ignore rules outside the tree are looked for, or None.
    """

    path: str
    key: bytes
    owner: str
    git_dir: str | None
    common_dir: str | None

    @property
    def store_name(self) -> str:
        """The name of the store's directory: readable, and unique to the owner's real path."""
        return store_name_of(self.owner)


def store_name_of(owner: str) -> str:
    """The name of the store of the root `owner`, a real path."""
    return f"{store_stem(owner)}-{key_of(owner).hex()[:12]}"


def store_stem(owner: str) -> str:
    """The readable part of a store's name: the same for all roots with the same last component."""
    return "".join(c if c.isalnum() or c in "-_." else "_" for c in os.path.basename(owner))[:40] or "root"


def is_there(root: str, *, unlike: str = "") -> bool:
    """True when a root is (still) a directory of its own: a link in its place is none, nor is another name of the
    directory `unlike`. What cannot be looked at may be there."""
    try:
        status = os.lstat(root)
        other = os.stat(unlike) if unlike else None
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:
        return True
    return stat.S_ISDIR(status.st_mode) and not (other is not None and os.path.samestat(status, other))


def why_in_doubt(root: str, used_ns: int, *, store: str = "") -> str:
    """Why a root that is not at its path may still exist, because its disk is not mounted; "" when it is gone.

    The danger prevented here: history is removed, or given to another directory, because a disk is not plugged in. Removing a
    root changes the directory that held it. Unmounting a disk shows another directory, which has not changed.

    `used_ns` is a time at which the root existed (nanoseconds since 1970). `store`, the path of the root's store, is for a caller
    that removes it: then also in doubt is whatever lies below directories for mount points, and what a container cannot see.
    """
    if store and os.path.islink(root):
        return "a link stands in its place, as people leave one for what they have moved"
    place, status = os.path.dirname(root), None
    while status is None:
        try:
            status = os.stat(place)
        except (FileNotFoundError, NotADirectoryError):
            if os.path.islink(place):
                return f"{fsio.show(place)} is a link, and what it leads to is not there"
            place = os.path.dirname(place)
        except OSError as error:
            return f"{fsio.show(place)} cannot be looked at ({error.strerror})"
    if not stat.S_ISDIR(status.st_mode):
        return ""
    for top in _MOUNT_PARENTS:
        if fsio.is_in(root, top) and (store or not fsio.is_in(place, top) or os.stat(top).st_dev == status.st_dev):
            return f"it lies under {top}, where disks come and go"
    kind = fsio.file_system_type(place)
    if kind == "autofs":
        return f"{fsio.show(place)} is mounted when it is used"
    if store and kind == "overlay" and fsio.file_system_type(store) != kind:
        return f"{fsio.show(place)} belongs to a container, and the store does not: it may be there outside"
    if status.st_mtime_ns < used_ns - _TIMES_NS:
        return f"nothing was removed from {fsio.show(place)} since it was used: perhaps its disk is not mounted"
    return ""


def former(given: str) -> tuple[str, ...]:
    """The real paths that a root may have had of which people say `given`; it need not be there any more.

    With the links above it followed as they lead now, and as it was written. A link in its own place is not followed:
    people leave one behind for a root that they moved.
    """
    written = os.path.abspath(given)
    followed = os.path.join(os.path.realpath(os.path.dirname(written)), os.path.basename(written))
    return (followed,) if followed == written else (followed, written)


def below(root: str, given: Sequence[str], start: str) -> tuple[bytes, ...]:
    """Paths as a person gives them, relative to the directory `start`, as paths below a root; b"" is the root itself.

    Raises UnsafePath for one outside of it.
    """
    top = os.fsencode(root)
    found = []
    for item in given:
        place = os.path.join(os.path.realpath(start), item)
        # the parent may be a link to inside; the last component is never followed
        full = os.fsencode(os.path.normpath(place))
        if full == top:
            found.append(b"")
            continue
        real = os.path.join(os.path.realpath(os.path.dirname(full)), os.path.basename(full))
        for candidate in (full, real):
            if candidate.startswith(top.rstrip(b"/") + b"/"):
                found.append(paths.check(candidate[len(top.rstrip(b"/")) + 1 :]))
                break
        else:
            raise errors.UnsafePath(f"{fsio.show(item)} lies outside the root {fsio.show(root)}")
    return tuple(found)


def key_of(path: str) -> bytes:
    """The key of a worktree: the first 16 bytes of the digest of its real path."""
    return digests.of(os.fsencode(path))[:16]


def find(start: str, home: str, is_known: Callable[[Root], bool]) -> Root:
    """The root that `start` lies in.

    Climbs to the nearest `.git` entry or known root; a `.git` in the home directory or above it does not count; a
    file-system boundary ends the climb; otherwise the start directory itself is the root. Raises WorkspaceNotFound when
    `start` is no directory.
    """
    try:
        real = os.path.realpath(start, strict=True)
        status = os.stat(real)
    except OSError as error:
        raise errors.WorkspaceNotFound(f"{fsio.show(start)} cannot be entered: {error.strerror}; give a directory with -C DIR") from error
    if not stat.S_ISDIR(status.st_mode):
        raise errors.WorkspaceNotFound(f"{fsio.show(start)} is not a directory: give one with -C DIR")
    home = os.path.realpath(home)
    place, device = real, status.st_dev
    while True:
        candidate = describe(place)
        above_home = fsio.is_in(home, place)
        if (candidate.git_dir is not None and not above_home) or is_known(candidate):
            return candidate
        parent = os.path.dirname(place)
        if parent == place or os.stat(parent).st_dev != device:
            return describe(real)
        place = parent


def refuse(root: str, home: str) -> None:
    """Raise RootRefused for the home directory, anything above it, / and system directories."""
    home = os.path.realpath(home)
    why = None
    if root == home:
        why = "it is your home directory"
    elif fsio.is_below(home, root):
        why = "your home directory lies in it"
    elif root in _SYSTEM or ((root + "/").startswith(_NEVER_INSIDE) and not root.startswith(_ORDINARY_INSIDE)):
        why = "it is a system directory"
    if why is not None:
        raise errors.RootRefused(
            f"refused to protect {fsio.show(root)}: {why}. Start in a project's directory, or say --force if you mean it"
        )


def describe(path: str) -> Root:
    """The root at `path`, whether or not anything marks it as one."""
    git_dir, common = _git_directories(path)
    owner = path
    if git_dir is not None and common is not None and common != git_dir and os.path.basename(common) == ".git":
        owner = os.path.dirname(common)
    return Root(path, key_of(path), owner, git_dir, common)


def _git_directories(path: str) -> tuple[str | None, str | None]:
    """(git directory, common directory) of a `.git` entry in `path`; (None, None) without one."""
    entry = os.path.join(path, ".git")
    try:
        mode = os.lstat(entry).st_mode
    except OSError:
        return None, None
    if stat.S_ISDIR(mode):
        return entry, entry
    if stat.S_ISLNK(mode):
        real = os.path.realpath(entry)
        return (real, real) if os.path.isdir(real) else (entry, entry)
    pointer = _pointer(entry, b"gitdir:")
    if pointer is None:
        return entry, entry  # a marker that cannot be followed: still a root
    git_dir = os.path.realpath(os.path.join(path, pointer))
    common = _pointer(os.path.join(git_dir, "commondir"), b"")
    back = _pointer(os.path.join(git_dir, "gitdir"), b"")
    if common is None:
        return git_dir, git_dir  # a submodule: a repository of its own
    if back is None or os.path.realpath(os.path.join(git_dir, back)) != entry:
        return git_dir, git_dir  # a copied pointer: the worktree that it names lies somewhere else
    shared = os.path.realpath(os.path.join(git_dir, common))
    return git_dir, shared if _has_worktree(shared, git_dir) else git_dir


def _has_worktree(common: str, git_dir: str) -> bool:
    """True when `git_dir` lies where the repository `common` keeps its worktrees: nobody else can make one there.

    Both pointers of a worktree stand in files that came with it. Without this rule an archive could name any repository
    on the disk, and share the store of that project.
    """
    has_parts = os.path.lexists(os.path.join(common, "HEAD")) and os.path.isdir(os.path.join(common, "objects"))
    return has_parts and os.path.dirname(git_dir) == os.path.join(common, "worktrees")


def _pointer(path: str, prefix: bytes) -> str | None:
    """The path written in a small file behind `prefix`, or None."""
    try:
        data = fsio.read_file(path, _MAX_POINTER + 1)
    except OSError:
        return None
    if len(data) > _MAX_POINTER or not data.startswith(prefix):
        return None
    text = data[len(prefix) :].strip()
    return os.fsdecode(text) if text and b"\0" not in text else None
