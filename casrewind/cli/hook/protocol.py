"""A hook asks the helper (`casrewind watch`) to do its work, if a helper runs.

Three dangers are prevented here. A slow, stopped or dead helper could cost a turn its checkpoint. The helper and the hook could
both record an event. Another user's program could listen in the helper's place. So the helper says that it is ready, and begins
only when the hook says "go". Until then the hook may do the work itself at any time. The listener must belong to the same user.

The request: the lengths of both parts (4 bytes each), the circumstances (texts with NUL between them), the payload. The helper
answers READY with the event's budget in milliseconds (4 bytes), or nothing. The hook sends GO, and the helper ends with DONE.
"""

import os
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Literal

    Outcome = Literal["undone", "done", "unknown"]
    """What has become of an event: nobody has begun with it; it is seen to; the helper was told to, and has not answered."""

READY, GO, DONE = b"r", b"g", b"d"
_ROOT_VARIABLES = b"_PROJECT_DIR"
"""How the variables end by which clients tell the project's root. A guess will do: the helper knows its own root."""
_PATIENCE = 0.05
"""Seconds until a helper has to be ready."""
Caller = tuple[str, int, "Mapping[bytes, bytes]"]
"""Where a hook was called, by which process, with which environment."""


def name_of(root: bytes) -> str:
    """The name of the socket of the helper of a root, a real path. Others may have the same: a helper knows its own root."""
    from binascii import crc32

    return f"{crc32(root):08x}"


def request(directory: str, words: list[str], payload: bytes, at_ns: int, until: float) -> "Outcome":
    """Have an event seen to by the helper. Raises nothing that a helper could cause.

    An answer is waited for until `until` (seconds on the monotonic clock) plus the
    event's budget, which the helper tells.
    """
    try:
        here, parent, variables = this()
        there = _opened(directory)
    except OSError:
        return "undone"
    try:
        told = [os.fsdecode(value) for name, value in variables.items() if name.endswith(_ROOT_VARIABLES)]
        found = next(filter(None, (_find(there, os.path.realpath(place)) for place in (*told, here))), None)
        if found is None:
            return "undone"
        name, root = found
        said = encode_request((here, identity(root), *words), payload, at_ns, parent, variables)
        return _talk(there, name, said, until)
    except OSError:
        return "undone"
    finally:
        os.close(there)


def this() -> Caller:
    """The caller of the hook that this process is. Raises OSError where its directory is gone."""
    return os.getcwd(), os.getppid(), os.environb


def _opened(directory: str) -> int:
    """A descriptor of the directory of sockets. Raises OSError, also where others may put there what they like."""
    there = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    status = os.fstat(there)
    if status.st_uid != os.geteuid() or status.st_mode & 0o022:
        os.close(there)
        raise PermissionError(directory)
    return there


def identity(root: str) -> str:
    """What a directory is, whatever its name: in a container another one may have it."""
    status = os.stat(root)
    return f"{status.st_dev}:{status.st_ino}"


def _find(directory: int, place: str) -> tuple[str, str] | None:
    """(the name of the socket, the directory) of the nearest directory above that has one, None where there is none."""
    names = set(os.listdir(directory))
    while names:
        if (name := name_of(os.fsencode(place))) in names:
            return name, place
        if (above := os.path.dirname(place)) == place:
            break
        place = above
    return None


def _talk(directory: int, name: str, said: bytes, until: float) -> "Outcome":
    import _socket

    end = time.monotonic() + _PATIENCE
    talk = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    told = False
    try:
        talk.settimeout(_PATIENCE)
        talk.connect(f"/proc/self/fd/{directory}/{name}")  # the path itself may be longer than a socket's may be
        if peer(talk) != os.geteuid():
            return "undone"
        talk.sendall(said)
        answer = receive(talk, 5, end)
        if answer[:1] != READY:
            return "undone"
        told = True
        talk.sendall(GO)
        return "done" if receive(talk, 1, until + int.from_bytes(answer[1:], "big") / 1000) == DONE else "unknown"
    except OSError:
        return "unknown" if told else "undone"
    finally:
        talk.close()


def peer(talk: "_socket.socket") -> int:  # type: ignore[name-defined] # noqa: F821 - imported where it is needed only
    """The user at the other end."""
    import _socket

    return int.from_bytes(talk.getsockopt(_socket.SOL_SOCKET, _socket.SO_PEERCRED, 12)[4:8], "little")


def receive(talk: "_socket.socket", size: int, end: float) -> bytes:  # type: ignore[name-defined] # noqa: F821
    """So many bytes, or fewer where there are no more. Raises TimeoutError at `end` on the monotonic clock."""
    found = b""
    while len(found) < size:
        talk.settimeout(max(end - time.monotonic(), 0.001))
        part = talk.recv(size - len(found))
        if not part:
            break
        found += part
    return found


def encode_request(words: tuple[str, ...], payload: bytes, at_ns: int, parent: int, variables: "Mapping[bytes, bytes]") -> bytes:
    """What is said: the directory, the identity of the root and the arguments of the hook in `words`, and the rest."""
    made = [name + b"=" + value for name, value in variables.items()]
    texts = [str(at_ns).encode(), str(parent).encode(), str(len(words)).encode(), *map(os.fsencode, words), *made]
    told = b"\0".join(texts)
    return len(told).to_bytes(4, "big") + len(payload).to_bytes(4, "big") + told + payload
