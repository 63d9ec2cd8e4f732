"""Pictures of a tree, taken with plain os calls and hashlib: the judge that shares no code with the project."""

import hashlib
import os
import stat

ID = b".casrewind-origin"
"""What `restore --to` puts into a directory that can have no attribute. It is no part of the directory's contents."""


def picture(root, *, mtimes=False, inodes=False, skip=()):
    """{path below the root (bytes): what is there}, directories included, `.git` and the like included too.

    A file is ("file", mode, sha256 of its bytes), a directory ("dir", mode), a link ("link", target), anything else
    ("other", type). `mtimes` adds a file's mtime_ns, `inodes` the inode and mtime of everything. `skip`: paths (bytes)
    that are left out with everything under them; so is ID at the top. Iterative, by directory descriptors: no depth or length limit.
    What a plain user closed to himself is open for as long as it is looked at.
    """
    found = {}
    stack = [(b"", *_opened(root, os.O_DIRECTORY, None, os.stat(root)))]
    while stack:
        prefix, fd, closed = stack.pop()
        try:
            for name in sorted(os.fsencode(n) for n in os.listdir(fd)):
                path = prefix + b"/" + name if prefix else name
                if path in skip or path == ID:
                    continue
                status = os.stat(name, dir_fd=fd, follow_symlinks=False)
                mode = status.st_mode
                if stat.S_ISDIR(mode):
                    entry = ("dir", mode & 0o777)
                    stack.append((path, *_opened(name, os.O_DIRECTORY | os.O_NOFOLLOW, fd, status)))
                elif stat.S_ISLNK(mode):
                    entry = ("link", os.readlink(name, dir_fd=fd))
                elif stat.S_ISREG(mode):
                    entry = ("file", mode & 0o777, digest_of(name, fd))
                    if mtimes:
                        entry += (status.st_mtime_ns,)
                else:
                    entry = ("other", stat.S_IFMT(mode))
                if inodes:
                    entry += (status.st_ino, status.st_mtime_ns if not stat.S_ISDIR(mode) else None)
                found[path] = entry
        finally:
            _close(fd, closed)
    return found


def _opened(name, flags, dir_fd, status):
    """(descriptor, the mode that it has to have again). Opens it to its owner first, if he may not look at it."""
    wanted = 0o500 if stat.S_ISDIR(status.st_mode) else 0o400
    mode = stat.S_IMODE(status.st_mode)
    if os.geteuid() != status.st_uid or os.geteuid() == 0 or mode & wanted == wanted:
        return os.open(name, os.O_RDONLY | flags, dir_fd=dir_fd), None
    os.chmod(name, mode | wanted, dir_fd=dir_fd)
    return os.open(name, os.O_RDONLY | flags, dir_fd=dir_fd), mode


def _close(fd, mode):
    if mode is not None:
        os.fchmod(fd, mode)
    os.close(fd)


def digest_of(name, dir_fd=None):
    hasher = hashlib.sha256()
    status = os.stat(name, dir_fd=dir_fd, follow_symlinks=False)
    fd, closed = _opened(name, os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd, status)
    try:
        while part := os.read(fd, 1 << 20):
            hasher.update(part)
    finally:
        _close(fd, closed)
    return hasher.hexdigest()


def differences(one, other):
    """The paths at which two pictures differ, with both sides: readable in a failed assertion."""
    return {
        path: (one.get(path), other.get(path)) for path in sorted(one.keys() | other.keys()) if one.get(path) != other.get(path)
    }
