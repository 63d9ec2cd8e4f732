"""Give a project a remote, and find the key of one.

The danger prevented here: a second key for a remote that has one. What is there is read first, and the first object of a
new remote is put only if it is absent.
"""

import os
import socket
from collections.abc import Callable, Mapping
from contextlib import suppress

from .. import errors
from .._typing import NamedTuple
from ..store.store import Store
from . import remote_config as configs
from .objects import ObjectGone, Objects
from .remote_config import ObjectStore, RemoteConfig
from .seal import Unsealed, check_head, identity_of_head, lock_key, new_master, remote_head, unlock_key

HEAD = "casrewind"
"""The name of the object that says what a remote is."""
KEYS = "keys/"
AskPassphrase = Callable[[bool], str]
"""Asks a person for a passphrase; the argument: it is a new one. Returns "" for none. Raises UsageError without a terminal."""


class Added(NamedTuple):
    """The result of `add`: whether the remote is new, whether a passphrase opened it or will, and its directory in the store."""

    is_new: bool
    has_passphrase: bool
    directory: str


def machine_name() -> str:
    """The name of this machine, without its domain."""
    return socket.gethostname().partition(".")[0] or "machine"


def read_head(objects: ObjectStore) -> bytes | None:
    """The object that says what a remote is, or None if there is no remote yet."""
    try:
        return objects.get(HEAD)
    except ObjectGone:
        return None


def find_key(objects: Objects, head: bytes, given: bytes | None, ask: AskPassphrase | None) -> tuple[bytes, bool]:
    """Returns (the key of a remote with this head, True if a passphrase opened it). Raises RemoteError."""
    identity = identity_of_head(head, objects.url)
    if given is not None:
        return given, False
    locked = objects.list(KEYS)
    if locked and ask is not None:
        passphrase = ask(False)
        for info in locked if passphrase else ():
            with suppress(Unsealed):
                return unlock_key(objects.get(info.name), passphrase, identity), True
        raise errors.RemoteError("this passphrase opens no key of the remote", "try again, or give the key with --key-file FILE")
    raise errors.RemoteError(
        f"{objects.url} needs its key",
        f"set {configs.VARIABLE}, or give --key-file FILE; casrewind remote key --show prints it on a machine that has it"
    )


def add(store: Store, wanted: RemoteConfig, environ: Mapping[str, str], *, key_file: str = "", ask: AskPassphrase | None = None) -> Added:
    """Give a store a remote, and make the remote if it is new. `ask` asks for a passphrase; without it there is none.

    Raises RemoteError, UsageError (the store has a remote). Then nothing is changed in the store.
    """
    found = configs.find(store)
    if found is not None:
        raise errors.UsageError(f"this project has the remote {found[1].url} already", "casrewind remote remove forgets it here")
    objects = Objects(wanted.url, wanted.options)
    given = configs.key_from(environ, file=key_file, command=wanted.key_command)
    head, has_passphrase = read_head(objects), False
    if head is None:
        master, identity = given or new_master(), os.urandom(16)
        passphrase = ask(True) if given is None and ask is not None else ""
        if passphrase:
            _store_locked_key(objects, master, passphrase, identity)
            has_passphrase = True
        head = remote_head(master, identity)
        is_new = objects.put_new(HEAD, head)
        if not is_new:
            raise errors.RemoteError(f"another machine has just made the remote {wanted.url}", "add it again, with that machine's key")
    else:
        is_new = False
        master, has_passphrase = find_key(objects, head, given, ask)
        identity = check_head(master, head, wanted.url)
    directory = configs.write(store, identity, wanted, None if wanted.key_command else master, head)
    return Added(is_new, has_passphrase, directory)


def add_passphrase(directory: str, config: RemoteConfig, master: bytes, passphrase: str) -> None:
    """Let one more passphrase open the key of the remote in this directory of the store. Raises RemoteError."""
    _store_locked_key(Objects(config.url, config.options), master, passphrase, configs.identity_of(directory))


def _store_locked_key(objects: ObjectStore, master: bytes, passphrase: str, identity: bytes) -> None:
    objects.put_new(KEYS + os.urandom(8).hex(), lock_key(master, passphrase, identity))
