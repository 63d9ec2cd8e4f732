"""Give a project a remote, and find the key of one.

Two dangers are prevented here. A second key for a remote that has one: what is there is read first, and the first object of a
new remote is put only if it is absent. And a new remote that nobody wanted, because a URL or a key went missing on its way: without
a terminal only a key, or the word --new, makes one. Nobody else could read what is pushed there.
"""

import os
import socket
from collections.abc import Callable, Mapping
from contextlib import suppress

from .. import errors
from .._typing import NamedTuple
from ..extras import refuse_without_libraries
from ..model import digest as digests
from ..store.store import Store
from . import remote_config as configs
from .objects import ObjectGone, Objects, endpoint_of
from .piece_names import all_pieces_of
from .remote_config import ObjectStore, RemoteConfig
from .seal import Unsealed, check_head, identity_of_head, lock_key, new_master, remote_head, unlock_key

HEAD = "casrewind"
"""The name of the object that says what a remote is."""
KEYS = "keys/"
JOBS = (
    "CODESPACE_NAME", "GITHUB_RUN_ID", "CI_JOB_ID", "BUILDKITE_JOB_ID", "E2B_SANDBOX_ID", "FLY_MACHINE_ID", "MODAL_TASK_ID",
    "DAYTONA_SANDBOX_ID",
)  # fmt: skip
"""Variables in which a service names the job or sandbox that a machine is made for. The first one that is set counts."""
SHORTEST = 12
"""Characters of a passphrase: whoever reads the bucket has what it opens, and can try as many short ones as they like."""
_COUNTED = 1000
AskPassphrase = Callable[[bool], str]
"""Asks a person for a passphrase; the argument: it is a new one. Returns "" for none. Raises UsageError without a terminal."""


class Added(NamedTuple):
    """The result of `add`: whether the remote is new, whether a passphrase opened it or will, its directory in the store, and how many
    chains of machines it has by their names: None = not known, because the list was refused or is longer than one page."""

    is_new: bool
    has_passphrase: bool
    directory: str
    machines: int | None = None


def machine_name() -> str:
    """The name of this machine: that of its job, if it is made for one, else the host's without its domain."""
    given = next(filter(None, (os.environ.get(variable, "").strip() for variable in JOBS)), "")
    return given or socket.gethostname().partition(".")[0] or "machine"


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
            with suppress(errors.RemoteError):  # another passphrase, or an object that somebody put there
                return unlock_key(objects.get(info.name), passphrase, identity), True
        raise errors.RemoteError("this passphrase opens no key of the remote", "try again, or give the key with --key-file FILE")
    raise errors.RemoteError(
        f"{objects.url} needs its key",
        f"set {configs.VARIABLE}, or give --key-file FILE; casrewind remote key --show prints it on a machine that has it"
    )


def add(
    store: Store, wanted: RemoteConfig, environ: Mapping[str, str], *, key_file: str = "", new: bool = False,
    ask: AskPassphrase | None = None,
) -> Added:  # fmt: skip
    """Give a store a remote, and make the remote if it is new. `ask` asks for a passphrase. Without it there is none, and only a key,
    or `new`, makes a remote. With `new` the remote must not be there.

    Raises RemoteError, UsageError (the store has a remote; there is no key). Then nothing is changed in the store.
    """
    refuse_without_libraries()
    found = configs.find(store)
    if found is not None:
        raise errors.UsageError(f"this project has the remote {found[1].url} already", "casrewind remote remove forgets it here")
    objects = Objects(wanted.url, wanted.options)
    wanted = wanted._replace(endpoint=endpoint_of(wanted.url, wanted.options, os.environ))
    given = configs.key_from(environ, file=key_file, command=wanted.key_command)
    head, has_passphrase = read_head(objects), False
    if head is None:
        if given is None and ask is None and not new:
            raise errors.UsageError(
                f"there is no remote at {wanted.url} yet", "--new makes one with a new key, --key-file FILE one with the key in FILE"
            )
        master, identity = given or new_master(), os.urandom(16)
        passphrase = ask(True) if given is None and ask is not None else ""
        if passphrase:
            _store_locked_key(objects, master, passphrase, identity)
            has_passphrase = True
        head = remote_head(master, identity)
        is_new = objects.put_new(HEAD, head)
        if not is_new:
            raise errors.RemoteError(f"another machine has just made the remote {wanted.url}", "add it again, with that machine's key")
    elif new:
        raise errors.UsageError(f"{wanted.url} is a remote already", "leave --new out to join it")
    else:
        is_new = False
        master, has_passphrase = find_key(objects, head, given, ask)
        identity = check_head(master, head, wanted.url)
    directory = configs.write(store, identity, wanted, None if wanted.key_command else master, head)
    return Added(is_new, has_passphrase, directory, 0 if is_new else _count_chains(objects))


def join_by_variables(store: Store, url: str, environ: Mapping[str, str], *, patience: float = 10.0) -> RemoteConfig:
    """Give a store the remote at `url`, with the key and the credentials of the environment. Never makes a remote: nobody would know of it.
    `patience` as of Objects. Raises RemoteError, UsageError; Unsealed for another key. Then nothing is changed."""
    refuse_without_libraries()
    master = configs.key_from(environ)
    if master is None:
        raise errors.RemoteError(f"{url} needs its key", f"set {configs.VARIABLE}")
    head = read_head(Objects(url, patience=patience))
    if head is None:
        raise errors.RemoteError(f"there is no remote at {url} yet", f"where its key is to be kept: casrewind remote add {url}")
    try:
        identity = check_head(master, head, url)
    except Unsealed as error:
        hint = f"put that into {configs.VARIABLE}; hooks ask with this one again after an hour, casrewind push does at once"
        raise Unsealed(error.problem, hint) from error
    config = RemoteConfig(url, machine_name(), endpoint=endpoint_of(url, {}, environ))
    configs.write(store, identity, config, master, head)
    return config


def digest_of_try(url: str, environ: Mapping[str, str]) -> str:
    """What a store keeps of a try to join that the key did not open: it says nothing of the key."""
    return digests.of(f"{url}\0{environ.get(configs.VARIABLE, '')}".encode(errors="surrogateescape"))[:16].hex()


def _count_chains(objects: Objects) -> int | None:
    with suppress(errors.RemoteError):
        listed = objects.list(most=_COUNTED)
        return len(all_pieces_of(listed)) if len(listed) < _COUNTED else None
    return None


def add_passphrase(directory: str, config: RemoteConfig, master: bytes, passphrase: str) -> None:
    """Let one more passphrase open the key of the remote in this directory of the store. Raises RemoteError."""
    _store_locked_key(Objects(config.url, config.options), master, passphrase, configs.identity_of(directory))


def _store_locked_key(objects: ObjectStore, master: bytes, passphrase: str, identity: bytes) -> None:
    refuse_short_passphrase(passphrase)
    objects.put_new(KEYS + os.urandom(8).hex(), lock_key(master, passphrase, identity))


def refuse_short_passphrase(passphrase: str) -> None:
    """Raise UsageError for a passphrase that a reader of the remote would find."""
    if len(passphrase) < SHORTEST:
        why = "whoever can read the remote can try as many as they like"
        raise errors.UsageError(f"a passphrase has at least {SHORTEST} characters: {why}", "nothing was changed; take four or five words")
