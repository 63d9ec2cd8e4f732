"""What casrewind makes is its user's: 0600 and 0700 exactly, whatever the umask.

The danger prevented here: a store that nobody can read, its owner included. The modes that things are made with keep
others out; a umask takes more away, and in the Python API it is that of a program which may have any. With 0777 one
cannot open the lock that one has just made, and what cannot be opened looks like a store on a read-only file system.
"""

import os
import stat
from contextlib import suppress

_FILE, _DIRECTORY = 0o600, 0o700
_UNMAPPED = 65534
"""The user that owns what lies outside of a user namespace: of a container's own directories, say."""


def settle_file(fd: int) -> None:
    """Give a file that was just made with mode 0600, open as `fd`, what the umask took of that."""
    if os.fstat(fd).st_mode & _FILE != _FILE:
        os.fchmod(fd, _FILE)


def settle(path: str | bytes, *, dir_fd: int | None = None) -> None:
    """The same by path, for a file or a directory. A link in its place is not followed."""
    status = os.stat(path, dir_fd=dir_fd, follow_symlinks=False)
    mode = _DIRECTORY if stat.S_ISDIR(status.st_mode) else _FILE
    if stat.S_ISLNK(status.st_mode) or status.st_mode & mode == mode:
        return
    if os.chmod in os.supports_follow_symlinks:
        os.chmod(path, mode, dir_fd=dir_fd, follow_symlinks=False)
        return
    fd = os.open(path, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=dir_fd)  # may be opened so although unreadable
    try:
        if os.path.samestat(os.fstat(fd), status):
            os.chmod(f"/proc/self/fd/{fd}", mode)  # fchmod refuses such a descriptor
    finally:
        os.close(fd)


def make_file(path: str) -> None:
    """Make an empty file, 0600, unless there is one. Raises OSError."""
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, _FILE)
    try:
        settle_file(fd)
    finally:
        os.close(fd)


def make_directory(path: str | bytes, *, dir_fd: int | None = None) -> None:
    """Make a directory, 0700. Raises OSError as os.mkdir does."""
    os.mkdir(path, _DIRECTORY, dir_fd=dir_fd)
    settle(path, dir_fd=dir_fd)


def make_usual(path: str) -> None:
    """Make a directory and those above it that are missing, as wide as the umask lets them be for others. Raises OSError."""
    parent = os.path.dirname(path)
    if parent and not os.path.isdir(parent):
        make_usual(parent)
    with suppress(FileExistsError):
        os.mkdir(path)
        settle(path)


def whose(directory: str) -> str:
    """Why a directory is not this user's to keep things in: others own it or may exchange what is in it. "" when it is, or when
    there is none yet. What root owns counts as the user's: root may do everything anyway."""
    try:
        status = os.stat(directory)
    except OSError:
        return ""
    if status.st_uid not in (os.geteuid(), 0) and not (status.st_uid == _UNMAPPED and _is_user_namespace()):
        return f"it belongs to user {status.st_uid}"
    if status.st_mode & stat.S_ISVTX:
        return ""
    is_open = status.st_mode & stat.S_IWOTH or (status.st_mode & stat.S_IWGRP and not _is_own_group(status.st_gid))
    return "others may write to it" if is_open else ""


def exposed(path: str) -> tuple[str, str]:
    """(the nearest directory above a path in which others could rename or remove what leads to it, why); ("", "") for none."""
    place = os.path.realpath(path)
    while place != (place := os.path.dirname(place)):
        if why := whose(place):
            return place, why
    return "", ""


def _is_user_namespace() -> bool:
    """True where some users of the system have no number here."""
    try:
        with open("/proc/self/uid_map", "rb") as file:
            return file.read().split() != [b"0", b"0", b"4294967295"]
    except OSError:
        return False


def _is_own_group(group: int) -> bool:
    """True for root's group and for one that has this user's name and no other member: many systems give each user such a group."""
    if group == 0:
        return True
    import grp
    import pwd

    try:
        found, name = grp.getgrgid(group), pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return False
    return found.gr_name == name and not set(found.gr_mem) - {name}
