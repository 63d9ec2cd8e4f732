"""The keys of a remote, and the seals of its objects.

The danger prevented here: a person who can read the storage reads a file, or tests for a known one; or a person who can
write there gets other bytes taken for ours. Every object is sealed with a key of its own. This key follows from the
MAC of the very bytes that are sealed, and from the object's name. So a nonce never meets two texts, not even on two
machines with the same random numbers, and bytes under another name do not open.
"""

import os
import struct
import unicodedata
from collections.abc import Iterable

from .. import errors
from ..extras import needing_extra
from ..model import digest as digests
from ..model import tlv

KEY = 32
"""Bytes of a key."""
OVERHEAD = 16
"""Bytes by which sealed data is longer."""
HEAD_NAME = "casrewind"
"""The name of the object that says what the remote is."""
VERSION = 2
_HEAD = b"casrewind remote "
_IDENTITY = 16
_CHECK = 16
_KEY_MAGIC = b"CRK2"
_CONTEXT = "casrewind remote 2: "
_SHORT = 16
_SALT = 16


class Unsealed(errors.RemoteError):
    """Bytes that this key does not open: the key, the object's name or the bytes differ."""


def new_master() -> bytes:
    """A new master key."""
    return os.urandom(KEY)


def _keyed_digest_of_parts(key: bytes, parts: Iterable[bytes]) -> bytes:
    """Keyed digest of the number of parts and of each part after its length (u64)."""
    parts = list(parts)
    hasher = digests.keyed(key)
    hasher.update(struct.pack("<Q", len(parts)))
    for part in parts:
        hasher.update(struct.pack("<Q", len(part)))
        hasher.update(part)
    return hasher.digest()


class Box:
    """Seals and opens the parts of one object. No two parts have the same number."""

    def __init__(self, key: bytes) -> None:
        """`key` is used for this object alone. Raises RemoteError without the extra."""
        with needing_extra():
            from cryptography.exceptions import InvalidTag
            from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
        self._cipher, self._invalid = ChaCha20Poly1305(key), InvalidTag

    def seal(self, number: int, data: bytes) -> bytes:
        """Part `number`, encrypted and authenticated."""
        return self._cipher.encrypt(number.to_bytes(12, "little"), data, None)

    def open(self, number: int, data: bytes) -> bytes:
        """The data of part `number`. Raises Unsealed."""
        try:
            return self._cipher.decrypt(number.to_bytes(12, "little"), data, None)
        except self._invalid:
            raise Unsealed("the key does not open these bytes") from None


class Keys:
    """What a master key is used for on one remote."""

    def __init__(self, master: bytes, identity: bytes) -> None:
        """`master` has 32 bytes. `identity` is the id of the remote, 16 bytes: two remotes with one key share nothing else."""
        if len(master) != KEY:
            raise errors.RemoteError(f"a remote's key has {KEY} bytes, not {len(master)}", "check the key")
        self._macs, self._objects, self._digests, self._names = (
            digests.derived_key(_CONTEXT + purpose, master + identity)
            for purpose in ("the MAC of an object", "the key of an object", "the digest of purged content", "the digest of a name")
        )

    def mac(self, parts: Iterable[bytes]) -> bytes:
        """The MAC of an object, from all its parts before they are sealed."""
        return _keyed_digest_of_parts(self._macs, parts)

    def box(self, mac: bytes, name: str) -> Box:
        """The box of the object with this MAC and name."""
        return Box(_keyed_digest_of_parts(self._objects, (mac, tlv.text(name))))


    def digest_of_purged(self, digest: bytes) -> bytes:
        """What the end of a chain says of a purged blob, 16 bytes: only who has the key can compare it with a known content."""
        return _keyed_digest_of_parts(self._digests, (digest,))[:_SHORT]

    def digits_of_name(self, *parts: str) -> str:
        """What the name of a hint or an entry has of these parts, 32 hex digits: only who has the key can make or test them."""
        return _keyed_digest_of_parts(self._names, map(tlv.text, parts))[:_SHORT].hex()


def _with_check_bytes(body: bytes) -> bytes:
    """The bytes with a check at their end. It distinguishes damage from a wrong key, and protects from nothing."""
    return body + digests.of(body)[:_CHECK]


def remote_head(master: bytes, identity: bytes) -> bytes:
    """The object `casrewind` of a new remote with this key and this id (16 random bytes)."""
    keys = Keys(master, identity)
    plain = _HEAD + b"%d\n" % VERSION + identity
    return _with_check_bytes(plain + keys.box(keys.mac((plain,)), HEAD_NAME).seal(0, b""))


def identity_of_head(data: bytes, remote: str = "the remote") -> bytes:
    """The remote's id from its object `casrewind`. Raises RemoteError if it has another format, or is damaged. `remote` names the remote
    in the error."""
    line, _, rest = data.partition(b"\n")
    if not line.startswith(_HEAD):
        raise errors.RemoteError(f"{remote} is not a remote of casrewind: its object {HEAD_NAME} has other bytes", "check the address")
    version = line[len(_HEAD) :]
    if version.isdigit() and len(version) < 10 and int(version) > VERSION:
        raise errors.RemoteError(f"{remote} was made by a newer casrewind", "upgrade casrewind")
    if version == b"1":
        raise errors.RemoteError(f"{remote} was made by a casrewind before its first release", "make a new remote, and push there")
    if version != b"%d" % VERSION or len(rest) != _IDENTITY + OVERHEAD + _CHECK or _with_check_bytes(data[:-_CHECK]) != data:
        raise errors.RemoteError(f"{remote} is damaged: its object {HEAD_NAME} is not what was written", "copy it from a backup")
    return rest[:_IDENTITY]


def check_head(master: bytes, data: bytes, remote: str = "the remote") -> bytes:
    """As identity_of_head. Raises Unsealed, too, if the remote has another key."""
    identity = identity_of_head(data, remote)
    open_head(Keys(master, identity), data, remote)
    return identity


def open_head(keys: Keys, data: bytes, remote: str) -> None:
    """Raises Unsealed if this sound object `casrewind` is not that of the remote with these keys."""
    plain = data[: -OVERHEAD - _CHECK]
    try:
        keys.box(keys.mac((plain,)), HEAD_NAME).open(0, data[len(plain) : -_CHECK])
    except Unsealed:
        hint = "casrewind remote key --show prints its key on a machine that has it; give that with --key-file FILE"
        raise Unsealed(f"this is not the key of {remote}", hint) from None


def _derive_passphrase_box(passphrase: str, salt: bytes) -> Box:
    with needing_extra():
        from cryptography.hazmat.primitives.kdf.scrypt import Scrypt
    secret = tlv.text(unicodedata.normalize("NFC", passphrase))  # two keyboards write an accent in two ways
    return Box(Scrypt(salt, KEY, 1 << 16, 8, 1).derive(secret))


def lock_key(master: bytes, passphrase: str, identity: bytes) -> bytes:
    """An object `keys/<id>`: the master key of the remote with this id, under a passphrase."""
    salt = os.urandom(_SALT)
    return _with_check_bytes(_KEY_MAGIC + salt + _derive_passphrase_box(passphrase, salt + identity).seal(0, master))


def check_locked_key(data: bytes) -> None:
    """Check an object `keys/<id>` as far as it can be checked without its passphrase. Raises RemoteError."""
    if data[:3] == _KEY_MAGIC[:3] and data[3:4].isdigit() and data[3:4] > _KEY_MAGIC[3:]:
        raise errors.RemoteError("the remote's key was locked by a newer casrewind", "upgrade casrewind")
    length = len(_KEY_MAGIC) + _SALT + KEY + OVERHEAD + _CHECK
    if len(data) != length or not data.startswith(_KEY_MAGIC) or _with_check_bytes(data[:-_CHECK]) != data:
        raise errors.RemoteError("a locked key of the remote is damaged", "use the key itself, or another passphrase")


def unlock_key(data: bytes, passphrase: str, identity: bytes) -> bytes:
    """The master key in an object `keys/<id>` of the remote with this id. Raises Unsealed for another passphrase, RemoteError for other
    bytes."""
    check_locked_key(data)
    salt, sealed = data[4 : 4 + _SALT], data[4 + _SALT : -_CHECK]
    try:
        return _derive_passphrase_box(passphrase, salt + identity).open(0, sealed)
    except Unsealed:
        raise Unsealed("this passphrase does not open the remote's key", "try another passphrase") from None
