"""Where, below a root, another file system begins. Scan and restore ask this one module.

The danger prevented here: a restore removes or writes files outside of the project through a mount. Device numbers do not show a
mount: a bind mount has the device of its source, which may be the root's own. On overlayfs a file may have another device than its
directory. So this module asks the kernel's list of mounts. It also compares the devices of directories, for what is not in that
list (subvolumes) and for systems without one.
"""

import os
import stat
from collections.abc import Iterable

from .. import fsio
from ..model import paths


class Mounts:
    """The mounts below one root. `device` is the root's, `points` are paths below the root, of directories or of files."""

    def __init__(self, device: int, points: Iterable[bytes] = ()) -> None:
        """As they are now: a mount that comes later is not among them."""
        self.device, self.points = device, frozenset(points)
        self.names: dict[bytes, set[bytes]] = {}
        """The names of the mount points, by the directory that they lie in."""
        for point in self.points:
            place, _, name = point.rpartition(b"/")
            self.names.setdefault(place, set()).add(name)

    def begins(self, path: bytes, status: os.stat_result) -> bool:
        """True when another file system begins at a path, which has this lstat."""
        return path in self.points or (stat.S_ISDIR(status.st_mode) and status.st_dev != self.device)

    def above(self, path: bytes) -> bytes | None:
        """The first mount point on the way to a path, the path itself included; None when there is none."""
        if not self.points:
            return None
        return next((place for place in (*paths.parents(path), path) if place in self.points), None)


def find(root: str, fd: int) -> Mounts:
    """The mounts below the directory `root`, which is open as `fd`."""
    device, top = os.fstat(fd).st_dev, os.fsencode(root).rstrip(b"/") + b"/"
    found = [mount for mount in fsio.mounts() if mount.place.startswith(top)]
    own = _mount_of(fd) if found else -1
    # Mounts on other mounts lie below the first ones. What was mounted below the root before something was mounted over the
    # root itself cannot be seen any more.
    return Mounts(device, (mount.place[len(top) :] for mount in found if own in (-1, mount.parent)))


def _mount_of(fd: int) -> int:
    """The number of the mount that an open directory belongs to, -1 where the system does not say."""
    try:
        with open(f"/proc/self/fdinfo/{fd}", "rb") as file:
            return next((int(line.split()[1]) for line in file if line.startswith(b"mnt_id:")), -1)
    except (OSError, ValueError, IndexError):
        return -1
