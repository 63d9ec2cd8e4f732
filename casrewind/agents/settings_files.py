"""A client's settings files: each is read and checked as a whole, and replaced as a whole.

The dangers prevented here: half a settings file after a crash, a symlink that becomes a plain file, a wider mode.
Further: overwriting what the client wrote at the same time, and changing a file that was not understood or that the
client ignores.
"""

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from .. import errors, fsio, locks
from .._typing import NamedTuple
from ..messages import printable, write_error
from . import settings_edit
from .client import Client, HookFile

BACKUP = ".casrewind-backup"
"""Suffix of the backup next to a settings file."""
_BOM = b"\xef\xbb\xbf"
LIMIT = 4 << 20
"""Maximum size in bytes; settings written by hand have a few kilobytes."""
_WAIT = 5.0
SHARED = 0o755
"""Mode of a directory that others may read. Its files are executed, so only the owner may write there, whatever the umask."""


class SettingsFile(NamedTuple):
    """A file as it was read. `target` is `path` with all links resolved; `data` is None if the file does not exist."""

    path: str
    target: str
    data: bytes | None
    status: os.stat_result | None


class FileChanged(Exception):
    """Another program wrote to the file at the same time."""


def read_settings(path: str) -> SettingsFile:
    """Read the file at `path`. Raises AgentError if it is no regular file, too large, or unreadable."""
    where = printable(path)
    try:
        status = os.stat(path)
        if not stat.S_ISREG(status.st_mode):
            raise errors.AgentError(f"{where} is not a file; nothing was changed", "move it away, then try again")
        target = os.path.realpath(path)
        data = fsio.read_file(target, LIMIT + 1)
    except FileNotFoundError:
        return SettingsFile(path, os.path.realpath(path), None, None)
    except OSError as error:
        raise errors.AgentError(f"{where} cannot be read: {error.strerror or error}; nothing was changed") from error
    if len(data) > LIMIT:
        raise errors.AgentError(f"{where} is larger than {LIMIT >> 20} MiB: that is not a settings file; nothing was changed")
    return SettingsFile(path, target, data, status)


def check_writable(present: SettingsFile) -> None:
    """Raise AgentError for a read-only file. We could replace it, but the user protected it."""
    with _write_errors(present.path):
        if present.data is not None and not os.access(present.target, os.W_OK):
            raise PermissionError(errno.EACCES, "it is read-only")


def replace_if_unchanged(present: SettingsFile, data: bytes, mode: int, like: os.stat_result | None = None) -> None:
    """Replace the file that was read: atomic, and durable on return; link, mode and owner are preserved. A new file
    gets those of `like`, else `mode`. Raises FileChanged if the file is no longer what was read, or its directory became
    a link. Raises AgentError and StoreFull if it cannot be written."""
    directory = os.path.dirname(present.target)
    with _write_errors(present.path):
        if not os.path.isdir(directory):
            if os.path.lexists(os.path.dirname(present.path)):
                raise errors.AgentError(
                    f"{printable(present.path)} leads to {printable(present.target)}, whose directory is missing; nothing was changed",
                    "make it, or remove the link"
                )
            fsio.make_directories(directory, SHARED)
        fsio.remove_orphans(directory)
        with fsio.draft_file(directory) as (draft, fd):
            like = present.status or like
            if like is not None:
                mode = like.st_mode & 0o777
                with suppress(PermissionError):
                    os.fchown(fd, like.st_uid, like.st_gid)
            fsio.write_all(fd, data)
            os.fchmod(fd, mode)
            fsio.sync_fd(fd)
            if read_settings(present.path).data != present.data or os.path.realpath(directory) != directory:
                raise FileChanged
            os.rename(draft, present.target)
        fsio.sync_directory(directory)


def remove_if_unchanged(present: SettingsFile) -> None:
    """Remove the file that was read. Raises FileChanged, AgentError as `replace_if_unchanged` does."""
    with _write_errors(present.path):
        directory = os.path.dirname(present.target)
        if read_settings(present.path).data != present.data or os.path.realpath(directory) != directory:
            raise FileChanged
        os.unlink(present.target)
        fsio.sync_directory(directory)


def remove_if_empty(directory: str) -> None:
    """Remove an empty directory; a link to a directory is kept."""
    with suppress(OSError):
        os.rmdir(directory)


@contextmanager
def installation_lock(directory: str, mode: int) -> Iterator[None]:
    """Hold the installation lock of a client's directory. Creates the directory and its parents with `mode` if
    they are missing."""
    with _write_errors(directory):
        fsio.make_directories(directory, mode)
        with fsio.closing(os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)) as fd:
            locks.acquire(fd, exclusive=True, deadline=_WAIT, holder=f"{printable(directory)} installation")
            yield


@contextmanager
def _write_errors(path: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise write_error(error, printable(path), "make it (and its directory) writable, then try again") from error


class Document(NamedTuple):
    """A settings file and its text."""

    file: HookFile
    """Which file of the client it is."""
    present: SettingsFile
    """The file as it was read."""
    text: str
    """Its text."""
    bom: bytes
    """Its byte order mark, or b""."""
    backup: SettingsFile
    """The backup beside it."""
    before: str | None
    """The text before the first installation, None if unknown."""
    ours: list[str]
    """The events with hooks of ours."""

    def encode_with_mark(self, text: str) -> bytes:
        """`text` as bytes, with the document's byte order mark."""
        return self.bom + text.encode("utf-8")


def used_and_ignored_files(client: Client, directory: str) -> tuple[list[HookFile], list[HookFile]]:
    """Returns (files that the client reads, files that it ignores because of others)."""
    there = {file.name for file in client.settings.files if os.path.lexists(os.path.join(directory, file.name))}
    idle = client.unread_files(there)
    found = [file for file in client.settings.files if file.name not in idle]
    return found, [file for file in client.settings.files if file.name in idle]


def read_used_documents(client: Client, directory: str, notes: list[str]) -> list[Document]:
    """The documents that the client reads, including the first one even if it is missing."""
    used, _ = used_and_ignored_files(client, directory)
    return [
        read_changeable_document(client, directory, file, notes) for file in used if file is used[0] or may_hold_hooks_or(directory, file)
    ]


def may_hold_hooks_or(directory: str, file: HookFile, *words: str) -> bool:
    """True if a file other than the first can hold events, or one of these words as a key. Other files need not be
    valid. Raises AgentError for an unreadable file."""
    data = read_settings(os.path.join(directory, file.name)).data
    return data is not None and (not file.key or any(f'"{word}"'.encode() in data for word in (file.key, *words)))


def read_changeable_document(client: Client, directory: str, file: HookFile, notes: list[str]) -> Document:
    """Read one settings file and add its oddities to `notes`. Raises AgentError if it cannot be changed safely."""
    present = read_settings(os.path.join(directory, file.name))
    where = printable(present.path)
    text, bom = _decode_with_mark(present.data, where, file.empty)
    notes += settings_edit.refuse_unsafe(text, client, file, where)
    if switch := settings_edit.find_off_switch(text, client, file):
        notes.append(f"{switch} in {where}: the client runs no hooks at all until that is changed")
    ours = settings_edit.events_with_our_hooks(text, file, client.name)
    backup = read_settings(present.path + BACKUP)
    before = None if ours or present.data is None else text
    if ours and backup.data is not None:
        before = _text_of_usable_backup(backup, client, file)
    return Document(file, present, text, bom, backup, before, ours)


def _decode_with_mark(data: bytes | None, where: str, empty: str) -> tuple[str, bytes]:
    """Returns (text, byte order mark) of settings. Missing or empty settings count as the text `empty`."""
    raw = data or b""
    bom = _BOM if raw.startswith(_BOM) else b""
    try:
        text = raw[len(bom) :].decode("utf-8")
    except UnicodeDecodeError as error:
        raise errors.AgentError(f"{where} is not UTF-8 ({error.reason}); nothing was changed", "fix it, then try again") from error
    return text if text.strip() else empty, bom


def _text_of_usable_backup(backup: SettingsFile, client: Client, file: HookFile) -> str | None:
    try:
        text, _ = _decode_with_mark(backup.data, printable(backup.path), file.empty)
        settings_edit.refuse_unsafe(text, client, file, printable(backup.path))
    except errors.AgentError:
        return None
    return text
