"""A file system for tests that folds names as APFS does, made with FUSE over an ordinary directory.

Names keep the spelling that they were made with, but are found in any case and in any normalisation; what is not UTF-8
is refused with EILSEQ; with `links="no"` hard links are refused, too (as on FAT). With `folds="form"` case is kept apart, as on
case-sensitive APFS. renameat2 knows no flags there; with `flags="yes"` it exchanges two names and renames to a free name alone, as on APFS.

Used as a context manager in a test, run as a program in a child: `python folding_filesystem.py BACKING MOUNTPOINT yes|no case|form yes|no`.
"""

import ctypes
import errno
import os
import shutil
import subprocess
import sys
import tempfile
import time
import unicodedata
from contextlib import contextmanager
from pathlib import Path

import pytest

DISKS = {folds: os.environ.get(f"CASREWIND_TEST_DISK_FOLDS_{folds.upper()}", "") for folds in ("case", "form")}
"""A directory on a real disk that folds so, such as a Mac's: it is taken in place of FUSE."""
_NOREPLACE, _EXCHANGE = 1, 2  # flags of renameat2
_HERE = -100  # AT_FDCWD


def key(name, folds="case"):
    form = unicodedata.normalize("NFD", name)
    return form.casefold() if folds == "case" else form


def why_not():
    """Why this machine cannot mount it, or None."""
    if not os.access("/dev/fuse", os.R_OK | os.W_OK):
        return "no access to /dev/fuse"
    if shutil.which("fusermount3") is None:
        return "no fusermount3 (package fuse3)"
    try:
        import mfusepy  # noqa: F401
    except (ImportError, OSError, RuntimeError) as error:
        return f"mfusepy cannot be used: {error}"
    return None


@contextmanager
def mounted(place, links="yes", folds="case", flags="no"):
    """Mount it: (mount point, backing directory). Skips the test where that cannot be done."""
    if DISKS[folds] and links == "yes":
        with tempfile.TemporaryDirectory(dir=DISKS[folds]) as made:
            yield Path(made), Path(made)
        return
    reason = why_not()
    if reason is not None:
        pytest.skip(reason)
    backing, point = place / "backing", place / "folding"
    backing.mkdir()
    point.mkdir()
    child = subprocess.Popen(
        [sys.executable, "-X", "utf8", __file__, str(backing), str(point), links, folds, flags],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        env=os.environ | ({"FUSE_LIBRARY_NAME": "fuse3"} if flags == "yes" else {}),  # version 2 knows no flags of a rename
    )
    try:
        deadline = time.monotonic() + 20
        while not os.path.ismount(point):
            if child.poll() is not None:
                pytest.skip(f"FUSE does not mount here: {child.stderr.read().decode(errors='replace')[-200:]}")
            if time.monotonic() > deadline:
                pytest.skip("FUSE does not mount here: nothing after 20 s")
            time.sleep(0.01)
        yield point, backing
    finally:
        subprocess.run(["fusermount3", "-u", "-z", str(point)], check=False, capture_output=True)
        try:
            child.wait(20)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()
        child.stderr.close()


def serve(backing, point, links, folds, flags):
    import mfusepy

    libc = ctypes.CDLL(None, use_errno=True)

    attributes = ("st_mode", "st_nlink", "st_size", "st_uid", "st_gid", "st_ino", "st_blocks")

    class Folding(mfusepy.Operations):
        use_ns = True

        def real(self, path, *, made=False):
            """The backing path; `made`: keep the given spelling of the last component when nothing has it."""
            where = backing
            for part in path.split("/"):
                if not part:
                    continue
                try:
                    part.encode("utf-8")
                except UnicodeEncodeError:
                    raise mfusepy.FuseOSError(errno.EILSEQ) from None
                if not os.path.lexists(f"{where}/{part}"):
                    try:
                        twins = [other for other in os.listdir(where) if key(other, folds) == key(part, folds)]
                    except OSError:
                        twins = []
                    part = twins[0] if twins else part
                where = f"{where}/{part}"
            return where

        def getattr(self, path, fh=None):
            status = os.lstat(self.real(path))
            found = {name: getattr(status, name) for name in attributes}
            return found | {
                "st_mtime": status.st_mtime_ns,
                "st_ctime": status.st_ctime_ns,
                "st_atime": status.st_atime_ns,
            }

        def readdir(self, path, fh):
            where = self.real(path)
            for name in [".", "..", *os.listdir(where)]:
                status = os.lstat(f"{where}/{name}")  # an entry without an inode number is taken for a removed one
                yield name, {"st_mode": status.st_mode, "st_ino": status.st_ino}, 0

        def readlink(self, path):
            return os.readlink(self.real(path))

        def mknod(self, path, mode, device):
            os.mknod(self.real(path), mode, device)

        def mkdir(self, path, mode):
            os.mkdir(self.real(path), mode)

        def rmdir(self, path):
            os.rmdir(self.real(path))

        def unlink(self, path):
            os.unlink(self.real(path))

        def symlink(self, name, target):
            os.symlink(target, self.real(name))

        def rename_with_flag(self, old, new, flag):
            """As Linux does it for a directory that folds names: a name is free if nothing has it under any spelling, and two spellings
            of one file are exchanged without an effect. Apple does not say what APFS does with these two; nobody may rely on more."""
            source, target = self.real(old), self.real(new)
            if flag == _EXCHANGE and source == target:
                return
            if libc.renameat2(_HERE, os.fsencode(source), _HERE, os.fsencode(target), flag) != 0:
                raise mfusepy.FuseOSError(ctypes.get_errno())

        def rename(self, old, new):
            source, target = self.real(old), self.real(new)
            if source == target:  # the same file under another spelling: the name changes
                target = os.path.join(os.path.dirname(target), os.path.basename(new))
            os.rename(source, target)

        def link(self, name, target):
            if links == "no":
                raise mfusepy.FuseOSError(errno.EPERM)
            if os.path.lexists(self.real(name)):
                raise mfusepy.FuseOSError(errno.EEXIST)
            os.link(self.real(target), self.real(name), follow_symlinks=False)

        def chmod(self, path, mode):
            os.chmod(self.real(path), mode)

        def chown(self, path, uid, gid):
            os.chown(self.real(path), uid, gid, follow_symlinks=False)

        def truncate(self, path, length, fh=None):
            os.truncate(self.real(path), length)

        def utimens(self, path, times=None):
            now, left_out = (1 << 30) - 1, (1 << 30) - 2  # UTIME_NOW and UTIME_OMIT, as the library hands them over
            status = os.lstat(self.real(path))
            kept = (status.st_atime_ns, status.st_mtime_ns)
            wanted = [
                time.time_ns() if given == now else old if given == left_out else given
                for given, old in zip(times or (now, now), kept, strict=True)
            ]
            os.utime(self.real(path), ns=tuple(wanted), follow_symlinks=False)

        def open(self, path, flags):
            return os.open(self.real(path), flags & ~os.O_NOFOLLOW)

        def create(self, path, mode, fi=None):
            return os.open(self.real(path), os.O_RDWR | os.O_CREAT, mode)

        def read(self, path, size, offset, fh):
            return os.pread(fh, size, offset)

        def write(self, path, data, offset, fh):
            return os.pwrite(fh, data, offset)

        def flush(self, path, fh):
            return 0

        def fsync(self, path, datasync, fh):
            os.fsync(fh)

        def release(self, path, fh):
            os.close(fh)

        def statfs(self, path):
            found = os.statvfs(self.real(path))
            names = ("bavail", "bfree", "blocks", "bsize", "favail", "ffree", "files", "flag", "frsize", "namemax")
            return {f"f_{name}": getattr(found, f"f_{name}") for name in names}

    class Server(mfusepy.FUSE):
        def rename_fuse_3(self, old, new, flag):  # the library drops the flags: a plain rename would be no exchange
            if not flag:
                return self.rename_fuse_2(old, new)
            if flags == "no" or flag not in (_NOREPLACE, _EXCHANGE):
                raise mfusepy.FuseOSError(errno.EINVAL)
            return self.operations.rename_with_flag(os.fsdecode(old), os.fsdecode(new), flag)

    Server(
        Folding(),
        point,
        foreground=True,
        nothreads=True,
        use_ino=True,
        hard_remove=True,
        default_permissions=True,
        attr_timeout=0,
        entry_timeout=0,
        negative_timeout=0,
    )


if __name__ == "__main__":
    serve(os.path.realpath(sys.argv[1]), *sys.argv[2:])
