"""Which remote a project has, and where its key lies.

The danger prevented here: the key in a place that others can read, or in a bucket. It is a file of mode 0600 in the store,
or a command prints it (`key_command`), or a variable has it.
"""

import json
import os
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress

from .. import errors, fsio
from .._typing import TYPE_CHECKING, NamedTuple, Protocol
from ..messages import printable, reason_of, store_errors
from ..store import push_notes
from ..store.push_notes import CONFIG
from ..store.store import Store

if TYPE_CHECKING:

    from .objects import ObjectInfo
    from .seal import Keys
    from .sync_state import StateFiles

VARIABLE = "CASREWIND_REMOTE_KEY"
"""The variable that may have a remote's key."""
_PREFIX = "crk1-"
_KEY = "key"
_KEY_BYTES = 32


class RemoteConfig(NamedTuple):
    """What a store's configuration of its remote says: the URL as it was typed, the machine's name, a command that prints
    the key ("" = the key is in the store, or in the variable), options of the object store, and whether transcripts are pushed."""

    url: str
    machine: str
    key_command: str = ""
    options: Mapping[str, str] = {}
    conversations: bool = True


class ObjectStore(Protocol):
    """What push and pull need of a remote: that of `objects.Objects`, and of an exported file."""

    requests: dict[str, int]
    sent_bytes: int
    received_bytes: int

    def put_new(self, name: str, data: bytes) -> bool:
        """False: the object is there already."""

    def replace(self, name: str, data: bytes) -> None:
        """Write an object in place of what has its name."""

    def get(self, name: str, start: int = 0, end: int | None = None) -> bytes:
        """Raises ObjectGone."""

    def list(self, prefix: str = "", after: str = "", most: int | None = None) -> "list[ObjectInfo]":
        """Sorted by name. With `most`, so many or all."""

    def delete(self, names: Sequence[str]) -> None:
        """Delete objects. One that is gone already is no error."""


class Remote(NamedTuple):
    """An opened remote: its configuration, its objects, its keys, and what the store knows of it."""

    config: RemoteConfig
    objects: ObjectStore
    keys: "Keys"
    files: "StateFiles"


def find(store: Store) -> tuple[str, RemoteConfig] | None:
    """The directory and the configuration of a store's remote, or None. Raises StoreDamaged, StoreError."""
    directory = push_notes.remote_directory(store.remotes)
    if not directory:
        return None
    with store_errors("reading the remote in", directory):
        return directory, _decode_config(fsio.read_file(os.path.join(directory, CONFIG)), directory)


def need(store: Store) -> tuple[str, RemoteConfig]:
    """As find. Raises RemoteError if the store has no remote."""
    found = find(store)
    if found is None:
        raise errors.RemoteError("this project has no remote", "casrewind remote add URL gives it one")
    return found


def _decode_config(data: bytes, directory: str) -> RemoteConfig:
    try:
        value = json.loads(data)
        return RemoteConfig(
            str(value["url"]),
            str(value["machine"]),
            str(value["key_command"]),
            {str(key): str(one) for key, one in value["options"].items()},
            bool(value["conversations"]),
        )
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise errors.StoreDamaged(
            f"the configuration of the remote in {printable(directory)} is damaged",
            "casrewind remote remove, then casrewind remote add URL, lose nothing that was pushed"
        ) from error


def write(store: Store, identity: bytes, config: RemoteConfig, key: bytes | None) -> str:
    """Write a store's configuration of a remote, and its key unless it is None. Returns the directory. Raises StoreError."""
    directory = os.path.join(store.remotes, identity.hex())
    with store_errors("writing the remote in", directory):
        fsio.make_directories(directory)
        if key is not None:
            fsio.replace_file(directory, _KEY, key_as_text(key).encode() + b"\n")
        fsio.replace_file(directory, CONFIG, json.dumps(config._asdict(), indent=1).encode())
    return directory


def remove(directory: str) -> None:
    """Remove a store's knowledge of its remote, the key included. The configuration goes first: without it there is no
    remote. Raises StoreError."""
    with store_errors("removing the remote in", directory):
        for name in (CONFIG, *os.listdir(directory)):
            with suppress(FileNotFoundError):
                os.unlink(os.path.join(directory, name))
        os.rmdir(directory)


def key_as_text(key: bytes) -> str:
    """A key as a person copies it."""
    return _PREFIX + key.hex()


def key_of(text: str, where: str) -> bytes:
    """The key in a text. `where` says where the text was. Raises RemoteError."""
    digits = text.strip().removeprefix(_PREFIX)
    with suppress(ValueError):
        key = bytes.fromhex(digits)
        if len(key) == _KEY_BYTES and text.strip().startswith(_PREFIX):
            return key
    raise errors.RemoteError(f"{where} has no key of a remote", f"a key begins with {_PREFIX}; casrewind remote key --show prints it")


def key_from(environ: Mapping[str, str], *, file: str = "", command: str = "") -> bytes | None:
    """The key in a file, from a command or in the variable, in this order; None if none of them is given. Raises RemoteError."""
    if file:
        try:
            return key_of(fsio.read_file(file, 4096).decode("ascii", "replace"), printable(file))
        except OSError as error:
            raise errors.RemoteError(f"cannot read the key file {printable(file)}: {reason_of(error)}") from error
    if command:
        done = subprocess.run(command, shell=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, check=False)  # noqa: S602 - the user's own
        if done.returncode != 0:
            raise errors.RemoteError(f"the command that prints the key failed with exit code {done.returncode}", f"run it: {command}")
        return key_of(done.stdout.decode("ascii", "replace"), f"the output of {command!r}")
    return key_of(environ[VARIABLE], VARIABLE) if environ.get(VARIABLE) else None


def key(directory: str, config: RemoteConfig, environ: Mapping[str, str]) -> bytes:
    """The key of a store's remote. Raises RemoteError."""
    given = key_from(environ, command=config.key_command)
    if given is not None:
        return given
    place = os.path.join(directory, _KEY)
    try:
        return key_of(fsio.read_file(place, 4096).decode("ascii", "replace"), printable(place))
    except OSError as error:
        raise errors.RemoteError(
            f"the key of {config.url} cannot be read: {printable(place)}: {reason_of(error)}",
            f"set {VARIABLE}, or add the remote again with --key-file FILE"
        ) from error


def identity_of(directory: str) -> bytes:
    """The id of the remote whose directory in a store this is."""
    return bytes.fromhex(os.path.basename(directory))


def open_remote(store: Store, environ: Mapping[str, str], *, patience: float = 10.0) -> Remote:
    """Open a store's remote. Sends no request. `patience`: seconds during which a failed request is tried again. Raises RemoteError."""
    from .objects import Objects
    from .seal import Keys
    from .sync_state import StateFiles

    directory, config = need(store)
    keys = Keys(key(directory, config, environ), identity_of(directory))
    return Remote(config, Objects(config.url, config.options, patience=patience), keys, StateFiles(directory))
