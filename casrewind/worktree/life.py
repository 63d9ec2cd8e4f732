"""The life of a file system: from the moment when it is mounted, under one boot of the system, until it is unmounted.

The danger prevented here: a remembered stamp that outlives its bytes. After a power cut a file can have new times, size and inode,
and its old bytes: the journal kept the inode, and the new bytes were still in memory. Its stamp then proves nothing. Within one life
a process reads the bytes that were written last, so a stamp may be believed.

The boot alone is not enough: a disk can be pulled out, or put back to an older state, and mounted again under the same boot.
Numbers of mounts do not help: the system reuses them, and a container's differ from its host's. But Linux makes a directory in /sys
for each mounted ext4, XFS, F2FS and Btrfs. All processes see the same inode number of it, and the next mount gets another.
"""

import os
import sys
from contextlib import suppress
from functools import cache

_BOOT = "/proc/sys/kernel/random/boot_id"
_BOOT_LENGTH = 36
_NAMED_BY_DEVICE = ("ext4", "xfs", "f2fs")
_BTRFS_INFO = 0x8400941F  # BTRFS_IOC_FS_INFO
_BTRFS_INFO_SIZE, _BTRFS_UUID = 1024, slice(16, 32)


def token(fd: int) -> bytes:
    """About 50 bytes that name the life of the file system on which `fd` is open. Two lives that differ have different tokens.

    b"" when the boot is not known. Such a token counts as different from every other one. Raises OSError.
    """
    boot = _boot_of_macos() if sys.platform == "darwin" else _boot_of_linux()
    device = os.fstat(fd).st_dev
    return b"%s %s" % (boot, _mount(fd, device)) if boot else b""


def _boot_of_linux() -> bytes:
    try:
        fd = os.open(_BOOT, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return b""
    try:
        found = os.read(fd, 64).strip()
    except OSError:
        return b""
    finally:
        os.close(fd)
    return found if len(found) == _BOOT_LENGTH else b""


@cache
def _boot_of_macos() -> bytes:
    reader, writer = os.pipe()
    pid = 0
    try:
        command = ["/usr/sbin/sysctl", "-n", "kern.bootsessionuuid"]
        with suppress(OSError):
            pid = os.posix_spawn(command[0], command, {}, file_actions=[(os.POSIX_SPAWN_DUP2, writer, 1)])
        os.close(writer)
        writer = -1
        found = os.read(reader, 64).strip()
    except OSError:
        return b""
    finally:
        os.close(reader)
        if writer >= 0:
            os.close(writer)
        if pid:
            with suppress(OSError):  # a client may have had all children reaped unasked
                os.waitpid(pid, 0)
    return found if len(found) == _BOOT_LENGTH else b""


def _mount(fd: int, device: int) -> bytes:
    """Bytes that differ between this mount of the file system and the next; the device number where the system has none."""
    number = b"device %d" % device
    with suppress(OSError):
        if os.major(device):
            name = os.path.basename(os.readlink(f"/sys/dev/block/{os.major(device)}:{os.minor(device)}"))
            for kind in _NAMED_BY_DEVICE:
                with suppress(OSError):
                    return b"%s %d" % (kind.encode(), os.stat(f"/sys/fs/{kind}/{name}").st_ino)
        elif sys.platform == "linux":
            # a Btrfs has one number for each subvolume, and none that names the file system
            return b"btrfs %d %d" % (os.stat(f"/sys/fs/btrfs/{_btrfs_uuid(fd)}").st_ino, device)
    return number


def _btrfs_uuid(fd: int) -> str:
    import fcntl

    found = bytearray(_BTRFS_INFO_SIZE)
    fcntl.ioctl(fd, _BTRFS_INFO, found)  # refused by every other file system
    digits = found[_BTRFS_UUID].hex()
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))
