"""A client's settings files, read for an installation or its end.

The danger prevented here: a file that is changed although not all of it was understood, or that the client does not look into.
"""

import os

from .. import errors, fsio
from ..typed import NamedTuple
from . import files, settings
from .files import Present
from .profile import File, Profile

BACKUP = ".casrewind-backup"
"""How the name of the copy of before ends, beside the file."""
_BOM = b"\xef\xbb\xbf"


class Document(NamedTuple):
    """A settings file and its text; `before` is its backup's, `ours` the events that have a hook of ours."""

    file: File
    present: Present
    text: str
    bom: bytes
    backup: Present
    before: str | None
    ours: list[str]

    def encoded(self, text: str) -> bytes:
        """The bytes of another text of it."""
        return self.bom + text.encode("utf-8")


def files_of(profile: Profile, directory: str) -> tuple[list[File], list[File]]:
    """(the files that the client looks into, those that it does not because of others)."""
    there = {file.name for file in profile.files if os.path.lexists(os.path.join(directory, file.name))}
    idle = {first if later in there and first not in there else later for later, first in profile.instead.items()}
    found = [file for file in profile.files if file.name not in idle]
    return found, [file for file in profile.files if file.name in idle]


def read_all(profile: Profile, directory: str, notes: list[str]) -> list[Document]:
    """Those that the client looks into, as `read` has them, the first one even where it is not there."""
    used, _ = files_of(profile, directory)
    return [read(profile, directory, file, notes) for file in used if file is used[0] or may_matter(directory, file)]


def may_matter(directory: str, file: File, *words: str) -> bool:
    """True when a file other than the first can have an object of events, or one of these words as a key. A file that cannot
    need not be sound either. Raises AgentError for one that cannot be read."""
    data = files.read(os.path.join(directory, file.name)).data
    return data is not None and (not file.key or any(f'"{word}"'.encode() in data for word in (file.key, *words)))


def read(profile: Profile, directory: str, file: File, notes: list[str]) -> Document:
    """One settings file, and what is odd about it into `notes`. Raises AgentError for one that cannot be changed safely."""
    present = files.read(os.path.join(directory, file.name))
    where = fsio.show(present.path)
    text, bom = _text(present.data, where)
    notes += settings.check(text, file, where)
    if settings.is_off(text, profile, file):
        notes.append(f'"{profile.off}" is true in {where}: the client runs no hooks at all until that is changed')
    ours = settings.events_of(text, file, profile.name)
    backup = files.read(present.path + BACKUP)
    before = None if ours or present.data is None else text
    if ours and backup.data is not None:
        before = _backed_up(backup, file)
    return Document(file, present, text, bom, backup, before, ours)


def _text(data: bytes | None, where: str) -> tuple[str, bytes]:
    """(text, byte order mark) of settings; of missing or empty ones, those of an empty object."""
    raw = data or b""
    bom = _BOM if raw.startswith(_BOM) else b""
    try:
        text = raw[len(bom) :].decode("utf-8")
    except UnicodeDecodeError as error:
        raise errors.AgentError(f"{where} is not UTF-8 ({error.reason}): mend it, then try again; nothing was changed") from error
    return text if text.strip() else "{}\n", bom


def _backed_up(backup: Present, file: File) -> str | None:
    try:
        text, _ = _text(backup.data, fsio.show(backup.path))
        settings.check(text, file, fsio.show(backup.path))
    except errors.AgentError:
        return None
    return text
