"""A disk whose every write and every flush is written down, and the disk as a power cut at any moment would have left it.

The disk is the one file of a small FUSE file system. A loop device lies on that file, and a real file system on the loop
device: what arrives here is what a drive would have been sent. A drive keeps what it was sent before the last flush; of
what came after that it may keep all, nothing, or any part. Only Python and libfuse are needed, no device mapper.

The log is a sequence of records: a head, for a write its bytes. Whoever watches the work appends marks of its own (say
"this was acknowledged") to the same file: an append is one system call, so all are in the order in which they happened.

Run as a program it serves the disk: `python recorded_disk.py IMAGE LOG MOUNTPOINT`.
"""

import ctypes
import errno
import os
import signal
import stat
import struct
import subprocess
import sys
import time
from contextlib import contextmanager
from typing import NamedTuple

HEAD = struct.Struct("<cxxxxxxxQQ")  # kind, offset on the disk, length
WRITE, ZERO, FLUSH, MARK = b"W", b"Z", b"F", b"M"
PIECE = 512
"""What a drive writes whole: of a longer write that was not flushed, any of its pieces may be there."""
SUPERBLOCKS = (0, 1 << 16)
"""Where ext4, xfs and btrfs have theirs: written whole here, for half of one is more than ext4 itself survives."""


class Record(NamedTuple):
    """What happened: for a mark, `data` is its text."""

    kind: bytes
    offset: int
    length: int
    data: bytes


def append(log, kind, offset=0, length=0, data=b""):
    """Write a record behind the open log."""
    written = os.writev(log, [HEAD.pack(kind, offset, length or len(data)), data])
    assert written == HEAD.size + len(data)


def read(path):
    """Every record of a log."""
    found = []
    with open(path, "rb") as file:
        while head := file.read(HEAD.size):
            kind, offset, length = HEAD.unpack(head)
            found.append(Record(kind, offset, length, file.read(length) if kind in (WRITE, MARK) else b""))
    return found


class Disk:
    """The disk over the time that a log tells of. Moments are asked for in rising order."""

    def __init__(self, base, records, place):
        """`base` is the image that the log begins with, `place` a new file for what has been flushed."""
        copy(base, place)
        self._flushed, self._records, self._at = place, records, 0

    def cut(self, at, keep, path):
        """Make a new file that is the disk after a power cut right behind record `at`. `keep()` is asked of every piece
        that was sent after the last flush whether it is there."""
        last = next((i for i in range(at, -1, -1) if self._records[i].kind == FLUSH), -1)
        _write(self._flushed, self._records[self._at : last + 1])
        self._at = max(self._at, last + 1)
        copy(self._flushed, path)
        _write(path, self._records[self._at : at + 1], keep)


def _write(path, records, keep=None):
    fd = os.open(path, os.O_WRONLY)
    for record in records:
        if record.kind in (WRITE, ZERO):
            data = record.data if record.kind == WRITE else bytes(record.length)
            step = PIECE if keep and record.offset not in SUPERBLOCKS else max(record.length, 1)
            for start in range(0, record.length, step):
                if keep is None or keep():
                    os.pwrite(fd, data[start : start + step], record.offset + start)
    os.close(fd)


def copy(source, target):
    """Copy an image into a new file; what is a hole stays one."""
    with open(source, "rb") as file, open(target, "xb") as made:
        size = os.fstat(file.fileno()).st_size
        made.truncate(size)
        start = end = 0
        while end < size:
            try:
                start = os.lseek(file.fileno(), end, os.SEEK_DATA)
            except OSError as error:
                if error.errno == errno.ENXIO:
                    return
                raise
            end = os.lseek(file.fileno(), start, os.SEEK_HOLE)
            os.lseek(made.fileno(), start, os.SEEK_SET)
            while start < end:
                start += os.sendfile(made.fileno(), file.fileno(), start, end - start)


def why_not():
    """Why this machine cannot do it, or None."""
    if not sys.platform.startswith("linux") or os.geteuid() != 0:
        return "only root on Linux may mount file systems on loop devices"
    if not os.path.exists("/dev/loop-control"):
        return "no loop devices here (/dev/loop-control)"
    from support import folding_filesystem

    return folding_filesystem.why_not()


class Impossible(Exception):
    """This machine does not let us do it."""


def run(*command):
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise Impossible(f"{' '.join(command)}: {done.stderr.strip() or done.stdout.strip()}")


@contextmanager
def mounted(image, kind, point):
    """A file system image (or the file that is one) mounted at a directory."""
    options = "loop,nouuid" if kind == "xfs" else "loop"  # one image as it was at two moments may be mounted at once
    run("mount", "-t", kind, "-o", options, image, point)
    try:
        yield
    finally:
        _unmount(point, "umount", point)


@contextmanager
def served(image, log, point):
    """The path of the disk file of a log that is being kept: the image is changed, everything is written to `log`."""
    server = subprocess.Popen([sys.executable, __file__, image, log, point], stderr=subprocess.PIPE)
    disk = os.path.join(point, "disk")
    try:
        deadline = time.monotonic() + 30
        while not os.path.exists(disk):
            if server.poll() is not None or time.monotonic() > deadline:
                raise Impossible(f"FUSE does not mount here: {server.stderr.read().decode(errors='replace')[-300:]}")
            time.sleep(0.01)
        yield disk
    finally:
        if os.path.ismount(point):  # the loop device lets go of the file a moment after what was mounted on it
            _unmount(point, "fusermount3", "-u", point)
        server.wait(timeout=30)
        server.stderr.close()


def _unmount(point, *command):
    for _ in range(250):
        if subprocess.run(command, capture_output=True, check=False).returncode == 0:
            return
        time.sleep(0.02)
    run("umount", "--lazy", point)
    raise Impossible(f"{point} stayed busy for 5 s")


def serve(image, log, point):
    import mfusepy

    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG: with whom it serves
    disk = os.open(image, os.O_RDWR)
    book = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    size = os.fstat(disk).st_size

    class Logging(mfusepy.Operations):
        use_ns = True

        def getattr(self, path, fh=None):
            if path == "/":
                return {"st_mode": stat.S_IFDIR | 0o755, "st_nlink": 2}
            if path == "/disk":
                return {"st_mode": stat.S_IFREG | 0o600, "st_nlink": 1, "st_size": size}
            raise mfusepy.FuseOSError(errno.ENOENT)

        def readdir(self, path, fh):
            return [".", "..", "disk"]

        def open(self, path, flags):
            return 0

        def read(self, path, length, offset, fh):
            return os.pread(disk, length, offset)

        def write(self, path, data, offset, fh):
            assert os.pwrite(disk, data, offset) == len(data)
            append(book, WRITE, offset, 0, data)
            return len(data)

        def fsync(self, path, datasync, fh):
            append(book, FLUSH)

        def flush(self, path, fh):
            return 0

        def fallocate(self, path, mode, offset, length, fh):
            for start in range(offset, offset + length, 1 << 20):
                os.pwrite(disk, bytes(min(1 << 20, offset + length - start)), start)
            append(book, ZERO, offset, length)
            return 0

        def truncate(self, path, length, fh=None):
            return 0

    mfusepy.FUSE(Logging(), point, foreground=True, nothreads=True)


if __name__ == "__main__":
    serve(*sys.argv[1:4])
