"""Other users: what they do, in processes of their own, and what they may do with files. Root alone can become them."""

import errno
import os
import pickle
import signal
import stat
import subprocess
import traceback
from typing import NamedTuple

import pytest


class User(NamedTuple):
    uid: int
    gid: int
    groups: tuple[int, ...] = ()


ROOT = User(0, 0)


def require(*programs):
    """Skip the test for who is not root, or lacks a program."""
    if os.geteuid() != 0:
        pytest.skip("needs root, to become other users")
    for name in programs:
        if subprocess.run(["which", name], capture_output=True, check=False).returncode:
            pytest.skip(f"needs {name}")


def become(user):
    os.setgroups(user.groups)
    os.setresgid(user.gid, user.gid, user.gid)
    os.setresuid(user.uid, user.uid, user.uid)


def as_user(user, work, *, dies=False):
    """What `work` returns in a process of this user. `dies`: it kills itself."""
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.close(reader)
            become(user)
            answer = (True, work())
        except BaseException:
            answer = (False, traceback.format_exc())
        with open(writer, "wb") as file:
            pickle.dump(answer, file)
        os._exit(0)
    os.close(writer)
    with open(reader, "rb") as file:
        data = file.read()
    status = os.waitpid(pid, 0)[1]
    if dies:
        assert os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL, (status, data and pickle.loads(data))
        return None
    good, answer = pickle.loads(data)
    assert good, answer
    return answer


def rights(users, paths):
    """{(user, path): "rw", "r", "w" or ""}: what the kernel allows them."""

    def ask():
        found = {}
        for user in users:
            os.setgroups(user.groups)
            os.setegid(user.gid)
            os.seteuid(user.uid)
            for path in paths:
                signs = (("r", os.R_OK), ("w", os.W_OK))
                found[user, path] = "".join(sign for sign, wanted in signs if os.access(path, wanted, effective_ids=True))
            os.seteuid(0)
            os.setegid(0)
        return found

    return as_user(ROOT, ask)


class Access(NamedTuple):
    """Owner, group, all mode bits, ACL and user attributes of a file."""

    uid: int
    gid: int
    mode: int
    acl: bytes
    attributes: tuple


def access_of(path):
    """The access of a path, None if there is nothing."""
    try:
        status = os.lstat(path)
    except FileNotFoundError:
        return None
    if stat.S_ISLNK(status.st_mode):
        return Access(status.st_uid, status.st_gid, 0o777, b"", ())
    names = [name for name in os.listxattr(path) if name.startswith("user.")]
    return Access(
        status.st_uid, status.st_gid, stat.S_IMODE(status.st_mode), acl_of(path),
        tuple(sorted((name, os.getxattr(path, name)) for name in names)),
    )  # fmt: skip


def acl_of(path):
    try:
        return os.getxattr(path, "system.posix_acl_access")
    except OSError as error:
        if error.errno not in (errno.ENODATA, errno.EOPNOTSUPP):
            raise
        return b""


def setfacl(path, *rules):
    subprocess.run(["setfacl", *(word for rule in rules for word in ("-m", rule)), str(path)], check=True)
