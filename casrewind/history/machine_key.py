"""The key of this machine, which signs proofs (history/proof.py).

The danger prevented here: another user of the machine reads the key and signs in its name. It is made with mode 0600, and one that
others can read is refused. Whoever runs as you can read it: an agent can, too.
"""

import os

from .. import errors, fsio
from ..messages import printable
from ..model import digest as digests

NAME = "proof.key"
"""The file beside the stores: an Ed25519 key as PEM (PKCS 8)."""
_LONGEST_PEM = 10_000
MISSING = errors.CasrewindError("proofs need casrewind[proof]", "uv tool install 'casrewind[proof]'")

try:
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
except ImportError:  # the extra is not there
    raise MISSING from None


def find_or_make_key(data: str) -> Ed25519PrivateKey:
    """The key in the directory of all stores; made if there is none. Raises CasrewindError."""
    path = os.path.join(data, NAME)
    try:
        if not os.path.lexists(path):
            fsio.make_directories(data)
            with fsio.draft_file(data) as (draft, fd):
                pem, pkcs8 = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
                fsio.write_all(fd, Ed25519PrivateKey.generate().private_bytes(pem, pkcs8, serialization.NoEncryption()))
                fsio.sync_fd(fd)
                if not os.path.lexists(path):
                    os.rename(draft, path)
            fsio.sync_directory(data)
        if os.lstat(path).st_mode & 0o077:
            raise errors.CasrewindError(f"others can read {printable(path)}", f"chmod 600 {printable(path)}, if nobody has")
        found = serialization.load_pem_private_key(fsio.read_file(path, _LONGEST_PEM), None)
    except (OSError, ValueError) as error:
        raise errors.CasrewindError(f"cannot read or make the key {printable(path)}: {error}") from error
    if not isinstance(found, Ed25519PrivateKey):
        raise errors.CasrewindError(f"{printable(path)} is no Ed25519 key", "move it away; the next casrewind attest makes one")
    return found


def public_pem(key: Ed25519PrivateKey) -> bytes:
    """The public key as PEM."""
    return key.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)


def read_public_key(pem: bytes) -> Ed25519PublicKey:
    """A public key in PEM. Raises UsageError."""
    try:
        found = serialization.load_pem_public_key(pem)
    except ValueError:
        found = None
    if not isinstance(found, Ed25519PublicKey):
        raise errors.UsageError("this is no public Ed25519 key", "casrewind attest --key prints it")
    return found


def id_of(key: Ed25519PublicKey) -> str:
    """A short name of a key: the beginning of its BLAKE3 digest, in hex."""
    return digests.of(key.public_bytes_raw()).hex()[:32]


def is_signed(key: Ed25519PublicKey, signature: bytes, data: bytes) -> bool:
    """True if the signature of these bytes is by this key."""
    try:
        key.verify(signature, data)
    except InvalidSignature:
        return False
    return True
