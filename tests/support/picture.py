"""Pictures of a tree, taken with plain os calls and hashlib: the judge that shares no code with the project."""

import hashlib
import os
import stat


def picture(root, *, mtimes=False, inodes=False, skip=()):
    """{path below the root (bytes): what is there}, directories included, `.git` and the like included too.

    A file is ("file", mode, sha256 of its bytes), a directory ("dir", mode), a link ("link", target), anything else
    ("other", type). `mtimes` adds a file's mtime_ns, `inodes` the inode and mtime of everything. `skip`: paths (bytes)
    that are left out with everything under them. Iterative, by directory descriptors: no depth or length limit.
    """
    found = {}
    stack = [(b"", os.open(root, os.O_RDONLY | os.O_DIRECTORY))]
    while stack:
        prefix, fd = stack.pop()
        try:
            for name in sorted(os.fsencode(n) for n in os.listdir(fd)):
                path = prefix + b"/" + name if prefix else name
                if path in skip:
                    continue
                status = os.stat(name, dir_fd=fd, follow_symlinks=False)
                mode = status.st_mode
                if stat.S_ISDIR(mode):
                    entry = ("dir", mode & 0o777)
                    stack.append((path, os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=fd)))
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
            os.close(fd)
    return found


def digest_of(name, dir_fd=None):
    hasher = hashlib.sha256()
    fd = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=dir_fd)
    try:
        while part := os.read(fd, 1 << 20):
            hasher.update(part)
    finally:
        os.close(fd)
    return hasher.hexdigest()


def differences(one, other):
    """The paths at which two pictures differ, with both sides: readable in a failed assertion."""
    return {
        path: (one.get(path), other.get(path)) for path in sorted(one.keys() | other.keys()) if one.get(path) != other.get(path)
    }
