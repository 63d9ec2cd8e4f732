"""Absence: whether a root that is not there is gone, or only the disk that it lies on.

The danger prevented here: history thrown away, or given to another directory, because a disk was not plugged in, a share
not mounted, or a container does not see what its host sees. Nothing is recorded of the disk that a root lay on: its number
is another one after the next start of the system. What does tell is the directory that it was in. Whoever removes or moves
a root changes that directory; whoever unmounts a disk shows another one, which was there unchanged all the time.
"""

import os
import stat

from .. import fsio

_MOUNT_PARENTS = ("/mnt", "/media", "/run/media", "/run/user", "/Volumes", "/net", "/Network")
_FSTAB = "/etc/fstab"
_SLACK_NS = 2_000_000_000
"""Some file systems know times by two seconds only."""
_MAX_FSTAB = 1 << 20


def doubt(root: str, used_ns: int, *, store: str = "", fstab: str = _FSTAB) -> str:
    """Why a root that is not at its path may exist all the same, in words; "" when it is gone.

    `used_ns` is when it was certainly there (nanoseconds since 1970). With `store`, the path of its store, whatever lies
    where disks come and go is in doubt, and whatever a container cannot see: for those who would remove something.
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
        except OSError as error:
            return f"{fsio.show(place)} cannot be looked at ({error.strerror})"
        place = place if status is not None else os.path.dirname(place)
    if not stat.S_ISDIR(status.st_mode):
        return ""
    return _unmounted(root, place, status, strictly=bool(store), fstab=fstab) or _unseen(place, status, used_ns, store)


def _unmounted(root: str, place: str, status: os.stat_result, *, strictly: bool, fstab: str) -> str:
    """Whether something may have to be mounted for the root to be there; `place` is the nearest directory that is."""
    for point in _mount_points(fstab):
        if fsio.is_in(root, point) and not os.path.ismount(point):
            return f"nothing is mounted at {fsio.show(point)} now, where {fstab} says that something belongs"
    for top in _MOUNT_PARENTS:
        if fsio.is_in(root, top) and (strictly or place == top or _device(top) == status.st_dev):
            return f"it lies under {top}, where disks come and go"
    return ""


def _unseen(place: str, status: os.stat_result, used_ns: int, store: str) -> str:
    kind = fsio.file_system_type(place)
    if kind == "autofs":
        return f"{fsio.show(place)} is mounted when it is used"
    if store and kind == "overlay" and fsio.file_system_type(store) != kind:
        return f"{fsio.show(place)} belongs to a container, and the store does not: it may be there outside"
    if status.st_mtime_ns < used_ns - _SLACK_NS:
        return f"nothing was removed from {fsio.show(place)} since it was used: perhaps its disk is not mounted"
    return ""


def _device(path: str) -> int:
    try:
        return os.stat(path).st_dev
    except OSError:
        return -1


def _mount_points(fstab: str) -> list[str]:
    """The directories at which something is mounted when all is as it should be, / left out."""
    try:
        lines = fsio.read_file(os.path.realpath(fstab), _MAX_FSTAB).splitlines()
    except OSError:
        return []
    found = []
    for line in lines:
        fields = line.split()
        if len(fields) >= 3 and not fields[0].startswith(b"#") and fields[1].startswith(b"/") and fields[1] != b"/":
            found.append(os.fsdecode(fields[1].decode("unicode_escape").encode("latin-1", "replace")))
    return found
