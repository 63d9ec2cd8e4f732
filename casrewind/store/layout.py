"""Paths in a store directory; creates, checks and repairs a store's structure.

The danger prevented here: trusting a directory that another user can write to, or writing a format that another
version of casrewind reads differently.
"""

import os
import stat
from contextlib import suppress

from .. import errors, fsio, locations, locks
from ..messages import printable, store_error
from ..model import digest as digests
from .ledger import HEAD, MAGIC, VERSION, Ledger
from .packs import HEAD as PACK_HEAD
from .packs import SUFFIX

FORMAT_VERSION = 2
FORMAT = f"casrewind store {FORMAT_VERSION}\n".encode()
_OLDER_FORMATS = frozenset(f"casrewind store {version}\n".encode() for version in range(1, FORMAT_VERSION))
_DIRECTORIES = ("packs", "locks", "tmp", "journals")
_FILES = ("ledger", "purging", "gc", "session.json", "log", "log.seen", "log.old", "ballast", "rules")
_OWN_NAMES = frozenset(
    {*_DIRECTORIES, *_FILES, "sessions", "origins", "bisects", "index", "damaged", "remotes", "shown", "ignored", "reviews", "arrivals"}
)
_OWN_STARTS = ("ledger.", "index.old-")
_REMOTE = frozenset(
    {
        "nfs", "nfs4", "9p", "virtiofs", "cifs", "smb3", "smbfs", "afs", "ceph", "fuse.sshfs",
        "afpfs", "webdav", "macfuse", "osxfuse",  # of macOS, which calls sshfs by the name of macFUSE
    }
)  # fmt: skip
"""File systems with unreliable memory maps. LMDB needs reliable maps."""


LEAST_MEMORY = 6 << 30
"""Bytes of address space of a process that reads files of a project: 4 GiB, and 2 GiB for the map of an index after it has
grown once."""
_MAP = 2 << 30


def address_space_needed_for(store: str) -> int:
    """The address space of such a process, given a store's index. Its map is up to four times its file, doubled when it
    grows."""
    try:
        needed = 8 * os.stat(os.path.join(store, "index", "data.mdb")).st_size
    except OSError:
        needed = 0
    return LEAST_MEMORY + max(needed - _MAP, 0)


class Layout:
    """The paths inside one store directory."""

    def __init__(self, root: str) -> None:
        """`root` is the store directory."""
        self.root = root
        self.packs = os.path.join(root, "packs")
        self.temporary = os.path.join(root, "tmp")
        self.journals = os.path.join(root, "journals")
        self.ledger = os.path.join(root, "ledger")
        self.format = os.path.join(root, "FORMAT")
        self.ballast = os.path.join(root, "ballast")
        self.rules = os.path.join(root, "rules")
        self.remotes = os.path.join(root, "remotes")

    def lock_path(self, name: str) -> str:
        """The path of a lock file."""
        return os.path.join(self.root, "locks", name)

    def journal_path(self, worktree: bytes) -> str:
        """The path of a worktree's journal, which exists while a restore is open."""
        return os.path.join(self.journals, worktree.hex())

    def is_writable(self) -> bool:
        """True if the store can be changed."""
        return os.access(self.root, os.W_OK | os.X_OK) and os.access(os.path.join(self.root, "packs"), os.W_OK)

    def choose_index_directory(self) -> tuple[str, bool]:
        """Returns (directory of the index, True if it is private to this process and must be removed at its end)."""
        writable = self.is_writable()
        if writable and locations.file_system_type(self.root) not in _REMOTE:
            return os.path.join(self.root, "index"), False
        if writable:
            import tempfile

            place = os.path.join(tempfile.gettempdir(), f"casrewind-{os.getuid()}")
            with suppress(FileExistsError):
                fsio.make_directory(place)
            status = os.lstat(place)
            if stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid() and not status.st_mode & 0o077:
                return os.path.join(place, digests.of(os.fsencode(self.root)).hex()[:24]), False
        from . import scratch

        return scratch.make_scratch("index"), True

    def size(self, *, packs: bool = True) -> int:
        """Bytes on disk of the whole store; without `packs`, of all except the packs."""
        total = 0
        for place, directories, names in os.walk(self.root):
            directories[:] = [name for name in directories if packs or os.path.join(place, name) != self.packs]
            for name in names:
                with suppress(OSError):
                    total += os.lstat(os.path.join(place, name)).st_blocks * 512
        return total

    def exists(self) -> bool:
        """True if there is a store here, or the remains of one."""
        return os.path.lexists(self.format) or self._holds_packs_or_records()

    def is_untouched(self) -> bool:
        """True if the store exists but has neither a record nor private rules yet."""
        try:
            return os.stat(self.ledger).st_size <= HEAD.size and not os.path.lexists(self.rules)
        except OSError:
            return False

    def _holds_packs_or_records(self) -> bool:
        """True if there are packs or records: more than an interrupted creation leaves without FORMAT."""
        with suppress(OSError):
            if any(name.endswith(SUFFIX) for name in os.listdir(self.packs)):
                return True
        with suppress(OSError):
            return os.lstat(self.ledger).st_size > HEAD.size
        return False

    def raise_unless_sound(self) -> None:
        """Raises StoreForeign, FormatUnsupported, or StoreDamaged (FORMAT is missing)."""
        self.raise_unless_owned()
        try:
            found = fsio.read_file(self.format, 200)
        except FileNotFoundError:
            raise errors.StoreDamaged(
                f"the store {printable(self.root)} has no FORMAT file: it is damaged, or not a store",
                "run casrewind verify --repair"
            ) from None
        except OSError as error:
            raise store_error(error, "reading", self.format) from error
        if found != FORMAT:
            text = printable(found.strip()[:60])
            is_older = found in _OLDER_FORMATS
            raise errors.FormatUnsupported(
                f"the store {printable(self.root)} has format {text!r}; this casrewind knows {FORMAT.decode().strip()!r}: "
                f"{'use the casrewind that made it' if is_older else 'upgrade casrewind'}, or give another --store DIR"
            )

    def restore_format_and_directories(self) -> list[str]:
        """Restore FORMAT and directories that are missing or garbled, if all else is of this version. Returns
        descriptions of the repairs. Raises as `raise_unless_owned` for a directory that is not our store."""
        self.raise_unless_owned()
        done = []
        try:
            try:
                found = fsio.read_file(self.format, 200)
            except FileNotFoundError:
                found = b""
            if found != FORMAT and not self._is_this_version():
                return []  # perhaps of a later version, or not a store: do not touch
            for name in _DIRECTORIES:
                if not os.path.isdir(os.path.join(self.root, name)):
                    fsio.make_directories(os.path.join(self.root, name))
                    done.append(f"the directory {name} was missing: created again")
            if found != FORMAT:
                fsio.replace_file(self.root, "FORMAT", FORMAT, temporary=self.temporary)
                done.append("FORMAT was missing or damaged: written again")
        except OSError as error:
            raise store_error(error, "repairing", self.root) from error
        return done

    def _is_this_version(self) -> bool:
        """True if most heads of ledger and packs are of this version: they change only with it."""
        names = sorted(os.listdir(self.packs)) if os.path.isdir(self.packs) else []
        files = [os.path.join(self.packs, name) for name in names if name.endswith(SUFFIX)]
        heads = [fsio.read_file(path, len(PACK_HEAD)) == PACK_HEAD for path in files]
        with suppress(OSError):
            heads.append(fsio.read_file(self.ledger, 8) == HEAD.pack(MAGIC, VERSION, b"")[:8])
        return sum(heads) * 2 > len(heads)

    def raise_unless_owned(self) -> None:
        """Raises StoreForeign for a directory of another user, or one that others may write to. Raises OSError."""
        status = os.stat(self.root)
        if status.st_uid != os.geteuid():
            raise errors.StoreForeign(
                f"the store {printable(self.root)} belongs to user {status.st_uid}, not to you ({os.geteuid()})",
                "run casrewind as that user, or give --store DIR"
            )
        if status.st_mode & 0o022:
            raise errors.StoreForeign(
                f"others may write to the store {printable(self.root)}",
                "run chmod 700 on it if you trust what is in it"
            )

    def create(self) -> None:
        """Create an empty store here, or complete an interrupted creation. FORMAT is written last: with it, the store
        is complete. Raises UsageError for a directory with other contents, and leaves nothing there."""
        self._refuse_foreign_contents()
        try:
            fsio.make_directories(self.root)
            self.raise_unless_owned()
            if not os.listdir(self.root):  # a person made it: inside a project a store that others can read is refused
                os.chmod(self.root, 0o700)
            for name in _DIRECTORIES:
                fsio.make_directories(os.path.join(self.root, name))
            with locks.locked(self.lock_path("publish"), exclusive=True, deadline=10.0):
                if os.path.lexists(self.format):
                    return
                if self._holds_packs_or_records():
                    self.raise_unless_sound()  # packs or records without FORMAT: raises the reason
                Ledger(self.ledger, self.temporary).create()
                fsio.replace_file(self.root, "FORMAT", FORMAT, temporary=self.temporary)
            fsio.sync_directory(os.path.dirname(self.root))
        except FileNotFoundError as error:  # in /proc, for example: there was no store, so none is damaged
            raise errors.WorkspaceNotFound(
                f"no store can be made at {printable(self.root)}: {error.strerror}",
                "give --store DIR or CASREWIND_HOME another place"
            ) from error
        except OSError as error:
            raise store_error(error, "making the store", self.root) from error


    def _refuse_foreign_contents(self) -> None:
        """Refuse a directory with anything that does not belong to a store: every later save would skip it."""
        try:
            names = os.listdir(self.root)
        except OSError:
            return  # it does not exist yet, or its creation reports the error
        if "FORMAT" in names:
            return  # another process created the store after our check
        strange = sorted(name for name in names if name not in _OWN_NAMES and not name.startswith(_OWN_STARTS))
        if strange:
            raise errors.UsageError(
                f"{printable(self.root)} is not a store and not empty; it holds {printable(strange[0])}",
                "give --store a new or an empty directory"
            )
