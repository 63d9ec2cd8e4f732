"""Is there a listener for hooks that clients post, how one is started by a hook, and where it listens.

The dangers prevented here: a secret that others can read; two listeners that fight for one port; a client that waits for a listener
because it holds a pipe of the client's; one that was stopped, or whose port somebody else has, and that is taken for a good one.
"""

import errno
import os
import secrets
import socket
import stat
import sys
from contextlib import suppress

from .. import door, errors, fsio
from ..agents.ours import HEADER, HOST, Address
from ..typed import NamedTuple
from . import ask, places, posts, resident

_PORTS = range(20000, 32000)
"""Where ports are chosen: no system gives these to connections that go out."""
_PATIENCE = 2.0
"""Seconds that doctor gives a listener for an answer: as long as the client does."""
_FILE = "address"
_MOST = 4096


def start(words: list[str], payload: bytes, at_ns: int) -> None:
    """Start the listener and tell it of a session by an event; it is not waited for. Raises OSError."""
    if not sys.platform.startswith("linux"):
        return
    if kept() is None:
        raise FileNotFoundError(errno.ENOENT, "its port and secret are not known: casrewind install claude --http chooses them anew")
    import subprocess

    command, null = [*door.command(), "watch", "--auto", "--listener"], subprocess.DEVNULL
    variables = {**os.environ, "CASREWIND_HOME": places.data_directory()}  # a relative one would be another from where it runs
    here, parent, told = ask.this()
    said = os.memfd_create("told")  # no file: it has the environment in it; and no pipe: nobody waits until it is read
    try:
        fsio.write_all(said, ask.request((here, "", *words), payload, at_ns, parent, told))
        os.lseek(said, 0, os.SEEK_SET)
        child = subprocess.Popen(command, stdin=said, stdout=null, stderr=null, start_new_session=True, cwd="/", env=variables)
    finally:
        os.close(said)
    child.returncode = 0  # it goes on without us; nobody is to warn that it was not waited for


def lock() -> str:
    """The path of the file that the listener holds a lock on while it lives, and writes into what it is."""
    return os.path.join(places.helpers(), ask.listener() + ".lock")


def kept() -> Address | None:
    """Where the listener listens, None where nobody has chosen that yet, or others can read it."""
    with suppress(OSError, ValueError):
        path = os.path.join(places.helpers(), _FILE)
        status = os.lstat(path)
        if not stat.S_ISREG(status.st_mode) or status.st_uid != os.geteuid() or status.st_mode & 0o077:
            return None
        port, secret, *_ = fsio.read_file(path, _MOST).decode("ascii").split("\n")
        if port.isdigit() and 0 < int(port) < 1 << 16 and len(secret) >= 32:
            return Address(int(port), secret)
    return None


def choose() -> Address:
    """Where the listener is to listen: as ever, or at another port where somebody else has come to that one. Raises AgentError."""
    found = kept()
    if found is not None and (_is_free(found.port) or _is_listeners(found.port)):
        return found
    secret = secrets.token_urlsafe(32) if found is None else found.secret
    for _ in range(100):
        port = secrets.choice(_PORTS)
        if _is_free(port):
            break
    else:
        raise errors.AgentError("no port is free on this machine's loopback: leave --http out; nothing was changed")
    directory = places.helpers()
    try:
        os.makedirs(directory, mode=0o700, exist_ok=True)
        fsio.replace_file(directory, _FILE, f"{port}\n{secret}\n".encode("ascii"))
    except OSError as error:
        reason = error.strerror or str(error)
        raise errors.AgentError(f"{fsio.show(directory)} cannot be written: {reason}; nothing was changed") from error
    return Address(port, secret)


def listen(port: int) -> socket.socket:
    """A socket that listens at a port of this machine's loopback. Raises OSError."""
    found = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # what is left of old connections is in nobody's way
        found.bind((HOST, port))
        found.listen(64)
        found.settimeout(1.0)
    except BaseException:
        found.close()
        raise
    return found


def _is_free(port: int) -> bool:
    try:
        listen(port).close()
    except OSError:
        return False
    return True


def _is_listeners(port: int) -> bool:
    said = (resident.holder(lock()) or "").split("\n")
    return said[1:2] == [str(port)]


class Found(NamedTuple):
    """The listener. `pid` is its process, 0 where it has not said so, None where there is none. `wrong` is what keeps posts from it
    and what to do, "" where nothing does."""

    pid: int | None
    port: int
    wrong: str


def look() -> Found:
    """Look for the listener, and post something to it that does nothing. Raises nothing."""
    if not sys.platform.startswith("linux"):
        return Found(None, 0, "there is a listener on Linux only, so what is posted is lost; casrewind install claude makes it commands")
    address = kept()
    if address is None:
        where = fsio.show(os.path.join(places.helpers(), _FILE))
        return Found(None, 0, f"the port and the secret are not in {where}; casrewind install claude --http writes both anew")
    said = resident.holder(lock())
    if said is None:
        return Found(None, address.port, "" if _is_free(address.port) else _taken(address.port))
    number, port, why, *_ = [*said.split("\n"), "", ""]
    pid = int(number) if number.isascii() and number.isdigit() else 0
    if not pid:
        return Found(0, address.port, "")  # it has just started
    if port != str(address.port):
        wrong = _taken(address.port) if why else f"the listener (process {pid}) has not come to port {address.port} yet: try again"
        return Found(pid, address.port, wrong)
    answer = _post(address, pid)
    end = f"what is posted meanwhile is found at the next prompt; kill -KILL {pid} ends it, and that prompt starts another"
    return Found(pid, address.port, f"the listener (process {pid}) {answer}: {end}" if answer else "")


def _taken(port: int) -> str:
    return f"another program has port {port}, so hooks are posted to it; casrewind install claude chooses another port"


def _post(address: Address, pid: int) -> str:
    """What is wrong with who answers at the port, "" when it is the listener that has the lock."""
    said = (
        f"POST {posts.TRIAL} HTTP/1.1\r\nHost: {HOST}:{address.port}\r\n{HEADER}: {address.secret}\r\n"
        "Content-Type: application/json\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}"
    )
    try:
        with socket.create_connection((HOST, address.port), _PATIENCE) as talk:
            talk.settimeout(_PATIENCE)
            talk.sendall(said.encode("ascii"))
            head = talk.recv(_MOST).decode("latin-1")
    except TimeoutError:
        return "does not answer"
    except OSError as error:
        return f"cannot be reached ({error.strerror or error})"
    if not head.startswith("HTTP/1.1 200 ") or f"\r\n{HEADER}: {pid}\r\n" not in head:
        return f"answered {head[:40].splitlines()[:1]} to a trial"
    return ""
