"""Where a path lies: in which directory, on which file system, and whether other users control that place.

The danger prevented here: another user of the machine renames or replaces what casrewind is about to trust. Or the
index, which needs a local disk, lies on a network file system. Or one directory is taken for two, because its path came in
two spellings: then it has two stores, and neither sees the turns and the locks of the other.
"""

import os
import stat
import sys
from contextlib import suppress

from . import fsio
from ._typing import NamedTuple

_UNMAPPED = 65534
"""The owner shown for files of users outside the user namespace, as in a container."""
_F_GETPATH = 50
"""macOS: the path of a descriptor. fcntl has the name there only."""


class Mount(NamedTuple):
    """A mount as the kernel lists it: its id, its parent mount's id, its mount point, and its file system type. The ids are -1 on macOS."""

    number: int
    parent: int
    point: bytes
    kind: str


def mounts() -> list[Mount]:
    """Every mount visible to this process. At the same path, a later mount hides an earlier one. Empty if unknown."""
    try:
        if sys.platform == "darwin":
            from . import libsystem

            return [Mount(-1, -1, point, kind) for point, kind in libsystem.mounts()]
        with open("/proc/self/mountinfo", "rb") as file:
            return parse_mounts(file.read())
    except OSError:
        return []


def parse_mounts(data: bytes) -> list[Mount]:
    """The mounts in the bytes of /proc/self/mountinfo."""
    found = []
    for line in data.splitlines():
        fields = line.split(b" ")
        try:
            point = fields[4]
            if b"\\" in point:  # space, tab, newline and backslash are written as octal numbers
                point = point.decode("unicode_escape").encode("latin-1")
            kind = fields[fields.index(b"-") + 1].decode()
            found.append(Mount(int(fields[0]), int(fields[1]), point, kind))
        except (ValueError, IndexError):
            continue
    return found


def real_path(path: str, *, strict: bool = False) -> str:
    """`os.path.realpath`, in the spelling in which directories list their names. So on a disk that folds names, a
    directory has one path, however it was written. Only the names of directories are spelled: a file can have several names.
    What does not exist stays as written. With `strict`, raises OSError if the path does not exist."""
    real = os.path.realpath(path, strict=strict)
    spelled, rest = "/", real.strip("/").split("/")
    if sys.platform == "darwin":
        for number in range(len(rest), 0, -1):
            if found := _path_by_system("/" + "/".join(rest[:number])):
                spelled, rest = found, rest[number:]
                break
    above = os.lstat(spelled)
    for number, name in enumerate(rest):
        place = f"{spelled.rstrip('/')}/{name}"
        try:
            status = os.lstat(place)
        except OSError:
            return os.path.join(spelled, *rest[number:])
        # No other spelling is tried beside a mount point: autofs would mount it
        if status.st_dev == above.st_dev and _has_other_spelling(spelled, name) and stat.S_ISDIR(status.st_mode):
            place = _as_listed(spelled, name, status)
        spelled, above = place, status
    return spelled


def _path_by_system(path: str) -> str:
    """The path that macOS has for a directory: case, Unicode form and firmlinks are those of the disk. "" if it cannot be asked."""
    import fcntl

    try:
        fd = fsio.open_on_disk(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return ""
    try:
        found = os.fsdecode(fcntl.fcntl(fd, _F_GETPATH, bytes(1024)).rstrip(b"\0"))
        is_it = os.path.isabs(found) and os.path.samestat(os.fstat(fd), os.lstat(found))
    except OSError:
        return ""
    finally:
        os.close(fd)
    return found if is_it else ""


def _has_other_spelling(above: str, name: str) -> bool:
    """True if a directory finds a name in another spelling, too: in another case or Unicode form. A look is cheaper than a list."""
    others = {name.swapcase()}
    if not name.isascii():
        import unicodedata

        swapped = os.fsdecode(os.fsencode(name).swapcase())  # of ASCII letters alone: the capital of ß is no other spelling everywhere
        others |= {swapped, unicodedata.normalize("NFC", name), unicodedata.normalize("NFD", name)}
    for other in others:
        if other != name:
            with suppress(OSError):
                os.lstat(f"{above}/{other}")
                return True
    return False


def _as_listed(above: str, name: str, status: os.stat_result) -> str:
    """The path of a directory with that lstat, in the spelling in which `above` lists it."""
    place = listed = os.path.join(above, name)
    with suppress(OSError), os.scandir(above) as entries:
        for entry in entries:
            if entry.name == name:
                return place
            if entry.inode() == status.st_ino:
                listed = entry.path
        if os.path.samestat(os.lstat(listed), status):
            return listed
    return place


def is_below(path: str | bytes, directory: str | bytes) -> bool:
    """True if a path lies in a directory, at any depth, and is not the directory. Both as for `is_in`."""
    return is_in(path, directory) and not is_in(directory, path)


def is_in(path: str | bytes, directory: str | bytes) -> bool:
    """True if a path is a directory, or lies in it at any depth. Both are absolute; links are not followed."""
    return (os.fsencode(path) + b"/").startswith(os.fsencode(directory).rstrip(b"/") + b"/")


def file_system_type(path: str) -> str:
    """The file system type of a path ("ext4", "overlay", "nfs4"), or "" if unknown."""
    real = os.fsencode(os.path.realpath(path))
    best, kind = -1, ""
    for mount in mounts():
        if is_in(real, mount.point) and len(mount.point) >= best:
            best, kind = len(mount.point), mount.kind
    return kind


def ownership_problem(directory: str) -> str:
    """Why other users control a directory (they own it or can write to it), or "" if they do not or it is missing.
    Directories of root are accepted: root can do anything anyway."""
    try:
        status = os.stat(directory)
    except OSError:
        return ""
    if status.st_uid not in (os.geteuid(), 0) and not (status.st_uid == _UNMAPPED and _is_user_namespace()):
        return f"it belongs to user {status.st_uid}"
    if status.st_mode & stat.S_ISVTX:
        return ""
    is_open = status.st_mode & stat.S_IWOTH or (status.st_mode & stat.S_IWGRP and not _is_private_group(status.st_gid))
    return "others may write to it" if is_open else ""


def exposed_parent(path: str) -> tuple[str, str]:
    """The nearest parent in which other users could rename or remove the path. Returns (directory, reason) or ("",
    "")."""
    place = os.path.realpath(path)
    while place != (place := os.path.dirname(place)):
        if why := ownership_problem(place):
            return place, why
    return "", ""


def _is_user_namespace() -> bool:
    """True if some users of the system have no id here."""
    try:
        with open("/proc/self/uid_map", "rb") as file:
            return file.read().split() != [b"0", b"0", b"4294967295"]
    except OSError:
        return False


def _is_private_group(group: int) -> bool:
    """True for root's group and for a private group: one with this user's name and no other member."""
    if group == 0:
        return True
    import grp
    import pwd

    try:
        found, name = grp.getgrgid(group), pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return False
    return found.gr_name == name and not set(found.gr_mem) - {name}
