"""A hook asks the helper (`casrewind watch`) to do its work, if a helper runs.

Three dangers are prevented here. A slow, stopped or dead helper could cost a turn its checkpoint. The helper and the
hook could both record an event. Another user's program could listen in the helper's place. So the helper sends READY,
and begins only after the hook's GO. Until then the hook may do the work itself at any time. The listener must belong to
the same user.

The request: the lengths of both parts (4 bytes each), the circumstances (texts with NUL between them), the payload. The
helper answers READY with the event's budget in milliseconds (4 bytes), or nothing. The hook sends GO, and the helper
ends with DONE, the length of the hook's output (4 bytes) and the output. The hook prints it, and sends SHOWN.
"""

import os
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Literal

    Outcome = Literal["undone", "done", "unknown"]
    """The state of an event: not begun; the checkpoint is made; GO is sent and the helper has not answered."""

READY, GO, DONE, SHOWN = b"r", b"g", b"d", b"s"
_ROOT_VARIABLES = b"_PROJECT_DIR"
"""Suffix of the variables with the project's root. A wrong guess is harmless: the helper checks the root."""
_PATIENCE = 0.05
"""Seconds in which a helper must answer READY."""
_MOST_NOTICE = 1 << 16  # bytes


def socket_name(root: bytes) -> str:
    """The socket name for a root (a real path). Two roots may share a name: a helper checks the root."""
    from binascii import crc32

    return f"{crc32(root):08x}"


def ask_helper(
    directory: str, words: list[str], payload: bytes, at_ns: int, until: float, show: "Callable[[bytes], None]"
) -> "Outcome":
    """Ask the helper to make an event's checkpoint. Calls `show` with what the hook has to print. Raises nothing that a
    helper could cause.

    Waits for the answer until `until` (seconds on the monotonic clock) plus the event's budget, which the helper sends.
    """
    try:
        here = os.getcwd()
        there = _open_private_directory(directory)
    except OSError:
        return "undone"
    try:
        told = [os.fsdecode(value) for name, value in os.environb.items() if name.endswith(_ROOT_VARIABLES)]
        found = next(filter(None, (_find_nearest_socket(there, os.path.realpath(place)) for place in (*told, here))), None)
        if found is None:
            return "undone"
        name, root = found
        said = _encode_request((here, directory_identity(root), *words), payload, at_ns)
        return _request_over_socket(there, name, said, until, show)
    except OSError:
        return "undone"
    finally:
        os.close(there)


def _open_private_directory(directory: str) -> int:
    """Open the directory of sockets. Raises OSError, for example if other users may write to the directory."""
    there = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    status = os.fstat(there)
    if status.st_uid != os.geteuid() or status.st_mode & 0o022:
        os.close(there)
        raise PermissionError(directory)
    return there


def directory_identity(root: str) -> str:
    """Device and inode of a directory. A path is not enough: in a container it may name another directory."""
    status = os.stat(root)
    return f"{status.st_dev}:{status.st_ino}"


def _find_nearest_socket(directory: int, place: str) -> tuple[str, str] | None:
    """Returns (socket name, directory) for the nearest parent directory with a socket, or None."""
    names = set(os.listdir(directory))
    while names:
        if (name := socket_name(os.fsencode(place))) in names:
            return name, place
        if (above := os.path.dirname(place)) == place:
            break
        place = above
    return None


def _request_over_socket(directory: int, name: str, request: bytes, until: float, show: "Callable[[bytes], None]") -> "Outcome":
    import _socket

    end = time.monotonic() + _PATIENCE
    talk = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    told = False
    try:
        talk.settimeout(_PATIENCE)
        talk.connect(f"/proc/self/fd/{directory}/{name}")  # the real path may be longer than a socket address allows
        if peer_user(talk) != os.geteuid():
            return "undone"
        talk.sendall(request)
        answer = read_until(talk, 5, end)
        if answer[:1] != READY:
            return "undone"
        told = True
        talk.sendall(GO)
        if read_until(talk, 1, until + int.from_bytes(answer[1:], "big") / 1000) != DONE:
            return "unknown"
        if notice := _read_notice(talk):
            _read_and_show_notice(talk, notice, show)
        return "done"
    except OSError:
        return "unknown" if told else "undone"
    finally:
        talk.close()


def _read_and_show_notice(talk: "_socket.socket", notice: bytes, show: "Callable[[bytes], None]") -> None:  # type: ignore[name-defined] # noqa: F821
    try:
        show(notice)
        talk.sendall(SHOWN)
    except OSError:
        pass  # the client no longer reads


def _read_notice(talk: "_socket.socket") -> bytes:  # type: ignore[name-defined] # noqa: F821 - imported where it is needed only
    """What the hook prints; b"" if it does not come whole and at once."""
    try:
        end = time.monotonic() + _PATIENCE
        size = int.from_bytes(read_until(talk, 4, end), "big")
        found = read_until(talk, min(size, _MOST_NOTICE), end)
    except OSError:
        return b""
    return found if len(found) == size else b""


def peer_user(talk: "_socket.socket") -> int:  # type: ignore[name-defined] # noqa: F821 - imported where it is needed only
    """The user id of the connected process."""
    import _socket

    return int.from_bytes(talk.getsockopt(_socket.SOL_SOCKET, _socket.SO_PEERCRED, 12)[4:8], "little")


def read_until(talk: "_socket.socket", size: int, end: float) -> bytes:  # type: ignore[name-defined] # noqa: F821
    """Read `size` bytes, or fewer at the end of the stream. Raises TimeoutError at `end` on the monotonic clock."""
    found = b""
    while len(found) < size:
        talk.settimeout(max(end - time.monotonic(), 0.001))
        part = talk.recv(size - len(found))
        if not part:
            break
        found += part
    return found


def _encode_request(words: tuple[str, ...], payload: bytes, at_ns: int) -> bytes:
    """The bytes of a request: these values, and the parent and the environment of this process. `words`: the directory,
    the identity of the root, and the hook's arguments."""
    variables = [name + b"=" + value for name, value in os.environb.items()]
    texts = [str(at_ns).encode(), str(os.getppid()).encode(), str(len(words)).encode(), *map(os.fsencode, words), *variables]
    told = b"\0".join(texts)
    return len(told).to_bytes(4, "big") + len(payload).to_bytes(4, "big") + told + payload
