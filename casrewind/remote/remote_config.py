"""Which remote a project has, and where its key lies.

Two dangers are prevented here. The key lies in a place that others can read, or in a bucket: it is a file of mode 0600 in
the store, or a command prints it (`key_command`). And a push under another remote's key: nobody could ever read it, and who has
that other key could. So the store keeps the head of its remote, and no key is used that does not open it. A variable is read only
where a remote, a clone or an import begins, and by hooks and a push where the user's own file allows that: a shell may have the key of
another project, and a project's settings can set variables, too.
"""

import json
import os
import stat
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress

from .. import environment, errors, fsio
from .._typing import TYPE_CHECKING, NamedTuple, Protocol
from ..config import URL_VARIABLE
from ..messages import printable, reason_of, shell_quoted, shell_quoted_path, store_errors
from ..store import push_notes
from ..store.push_notes import CONFIG
from ..store.store import Store

if TYPE_CHECKING:

    from .objects import ObjectInfo
    from .seal import Keys
    from .sync_state import StateFiles

VARIABLE = "CASREWIND_REMOTE_KEY"
"""The variable that may have a remote's key, for a new remote, a clone and an import."""
HEAD = "head"
"""The file in a remote's directory in the store with the bytes of the remote's object `casrewind`."""
_PREFIX = "crk1-"
_KEY = "key"
_KEY_BYTES = 32
_ADD_AGAIN = "casrewind remote remove, then casrewind remote add URL --key-file FILE; what was pushed stays there"


class RemoteConfig(NamedTuple):
    """What a store's configuration of its remote says: the URL as it was typed, the machine's name, a command that prints
    the key ("" = the key is in the store), options of the object store, and whether transcripts are pushed. `endpoint`:
    the address of the server when the remote was added, "" = the cloud's own. A hook's push goes to no other."""

    url: str
    machine: str
    key_command: str = ""
    options: Mapping[str, str] = {}
    conversations: bool = True
    endpoint: str = ""


class ObjectStore(Protocol):
    """What push and pull need of a remote: that of `objects.Objects`, and of an exported file."""

    requests: dict[str, int]
    sent_bytes: int
    received_bytes: int
    place: str
    """Where requests go; "" = nowhere, as for an export."""

    @property
    def gives_ranges(self) -> bool:
        """False once the answer to a range was that to a whole object."""

    def put_new(self, name: str, data: bytes) -> bool:
        """False: the object is there already."""

    def replace(self, name: str, data: bytes) -> None:
        """Write an object in place of what has its name."""

    def get(self, name: str, start: int = 0, end: int | None = None, size: int | None = None) -> bytes:
        """`size` is that of the object in a list. Raises ObjectGone."""

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
        url = environment.remote_to_join(environment.configuration())
        joins = f"casrewind push or pull joins {printable(url)}, which {URL_VARIABLE} names"
        raise errors.RemoteError("this project has no remote", joins if url else "casrewind remote add URL gives it one")
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
            str(value["endpoint"]),
        )
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise errors.StoreDamaged(
            f"the configuration of the remote in {printable(directory)} is damaged",
            "casrewind remote remove, then casrewind remote add URL, lose nothing that was pushed"
        ) from error


def write(store: Store, identity: bytes, config: RemoteConfig, key: bytes | None, head: bytes) -> str:
    """Write a store's configuration of a remote, the remote's head, and its key unless it is None. Returns the directory. Raises
    StoreError."""
    directory = os.path.join(store.remotes, identity.hex())
    with store_errors("writing the remote in", directory):
        fsio.make_directories(directory)
        if key is not None:
            fsio.replace_file(directory, _KEY, key_as_text(key).encode() + b"\n")
        fsio.replace_file(directory, HEAD, head)
        fsio.replace_file(directory, CONFIG, json.dumps(config._asdict(), indent=1).encode())
    push_notes.forget_failed_join(store.remotes)
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
    """The key in a file, from a command or in the variable, in this order; None if none of them is given. A variable without a text is
    an error: a secret that did not arrive must not make a new key. Raises RemoteError."""
    if file:
        return _key_in_file(file)
    if command:
        done = subprocess.run(command, shell=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, check=False)  # noqa: S602 - the user's own
        if done.returncode != 0:
            raise errors.RemoteError(f"the command that prints the key failed with exit code {done.returncode}", f"run it: {command}")
        return key_of(done.stdout.decode("ascii", "replace"), f"the output of {command!r}")
    if VARIABLE not in environ:
        return None
    if not environ[VARIABLE].strip():
        raise errors.RemoteError(f"{VARIABLE} is empty", "a CI gives no secrets to a fork: put the key into that variable, or unset it")
    return key_of(environ[VARIABLE], VARIABLE)


def _key_in_file(file: str) -> bytes:
    """The key in a file of the user's. Raises RemoteError, also if others can read it."""
    try:
        with fsio.closing(fsio.open_regular(file)) as fd:
            mode, data = stat.S_IMODE(os.fstat(fd).st_mode), fsio.read_fd(fd, 4096)
    except OSError as error:
        raise errors.RemoteError(f"cannot read the key file {printable(file)}: {reason_of(error)}") from error
    if mode & 0o077:
        name = shell_quoted_path(file)
        hint = f"chmod 600 {name}; where that has no effect, give --key-command {shell_quoted(f'cat {name}')}"
        raise errors.RemoteError(f"others can read the key file {printable(file)} (mode {mode:o})", hint)
    return key_of(data.decode("ascii", "replace"), printable(file))


def key(directory: str, config: RemoteConfig, environ: Mapping[str, str] = {}) -> bytes:
    """The key of a store's remote, which opens the head that the store keeps. `environ` may have it where the store keeps none. Sends
    no request. Raises RemoteError, StoreDamaged."""
    found = key_from({}, command=config.key_command)
    if found is None:
        place = os.path.join(directory, _KEY)
        try:
            found = key_of(fsio.read_file(place, 4096).decode("ascii", "replace"), printable(place))
        except OSError as error:
            found = key_from(environ) if isinstance(error, FileNotFoundError) else None
            if found is None:
                problem = f"the key of {config.url} cannot be read: {printable(place)}: {reason_of(error)}"
                raise errors.RemoteError(problem, _ADD_AGAIN) from error
    _check_key(directory, config, found)
    return found


def _check_key(directory: str, config: RemoteConfig, master: bytes) -> None:
    """Raise RemoteError unless `master` opens the head that the store keeps, StoreDamaged unless that is the head of this remote."""
    from .seal import Keys, Unsealed, identity_of_head, open_head

    place = os.path.join(directory, HEAD)
    try:
        head = fsio.read_file(place, 4096)
        is_sound = identity_of_head(head) == identity_of(directory)
    except (OSError, errors.RemoteError):
        head, is_sound = b"", False
    if not is_sound:
        raise errors.StoreDamaged(f"what the store keeps of {config.url} is damaged: {printable(place)}", _ADD_AGAIN)
    try:
        open_head(Keys(master, identity_of(directory)), head, config.url)
    except Unsealed as error:
        again = f"the command {config.key_command!r} printed it: run it" if config.key_command else _ADD_AGAIN
        raise errors.RemoteError(error.problem, f"nothing was sent; {again}") from error


def identity_of(directory: str) -> bytes:
    """The id of the remote whose directory in a store this is."""
    return bytes.fromhex(os.path.basename(directory))


def open_remote(store: Store, *, patience: float = 10.0, environ: Mapping[str, str] = {}) -> Remote:
    """Open a store's remote. Sends no request. `patience`: seconds during which a failed request is tried again. `environ` as of `key`.
    Raises RemoteError, StoreDamaged."""
    from .objects import Objects
    from .seal import Keys
    from .sync_state import StateFiles

    directory, config = need(store)
    keys = Keys(key(directory, config, environ), identity_of(directory))
    return Remote(config, Objects(config.url, config.options, patience=patience), keys, StateFiles(directory))
