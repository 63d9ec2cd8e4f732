"""Where things are in a store directory, how one is made, and when one is refused.

The danger prevented here: trusting a directory that somebody else can write to, or writing in a format that another
version of casrewind reads differently.
"""

import os
import stat
from contextlib import suppress

from .. import errors, fsio
from ..model import digest as digests
from .ledger import HEAD, MAGIC, VERSION, Ledger
from .packs import HEAD as PACK_HEAD
from .packs import SUFFIX

FORMAT_VERSION = 2
FORMAT = f"casrewind store {FORMAT_VERSION}\n".encode()
_OLDER_FORMATS = frozenset(f"casrewind store {version}\n".encode() for version in range(1, FORMAT_VERSION))
_DIRECTORIES = ("packs", "locks", "tmp", "journals")
_OWN_NAMES = frozenset(
    {*_DIRECTORIES, "ledger", "purging", "gc", "sessions", "session.json", "log", "log.seen", "log.old", "index", "damaged"}
)
_OWN_STARTS = ("ledger.", "index.old-")
_REMOTE = frozenset({"nfs", "nfs4", "9p", "virtiofs", "cifs", "smb3", "smbfs", "afs", "ceph", "fuse.sshfs"})
"""File systems on which LMDB's memory map is not to be trusted."""


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

    def lock(self, name: str) -> str:
        """The path of a lock file."""
        return os.path.join(self.root, "locks", name)

    def journal(self, worktree: bytes) -> str:
        """The path of the journal of a restore of a worktree: it is there while the restore is open."""
        return os.path.join(self.journals, worktree.hex())

    def writable(self) -> bool:
        """True when the store can be changed."""
        return os.access(self.root, os.W_OK | os.X_OK) and os.access(os.path.join(self.root, "packs"), os.W_OK)

    def index(self) -> tuple[str, bool]:
        """(directory of the index, whether it is this process's own and must be removed at the end)."""
        writable = self.writable()
        if writable and fsio.file_system_type(self.root) not in _REMOTE:
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

        return scratch.make("index"), True

    def size(self, *, packs: bool = True) -> int:
        """Bytes on disk of everything in the store; without `packs` of the ledger, the index and what is being written."""
        total = 0
        for place, directories, names in os.walk(self.root):
            directories[:] = [name for name in directories if packs or os.path.join(place, name) != self.packs]
            for name in names:
                with suppress(OSError):
                    total += os.lstat(os.path.join(place, name)).st_blocks * 512
        return total

    def exists(self) -> bool:
        """True when there is a store here, or something that was one."""
        return os.path.lexists(self.format) or self._holds_something()

    def is_untouched(self) -> bool:
        """True when nothing was ever written down in the store that stands here."""
        try:
            return os.stat(self.ledger).st_size <= HEAD.size
        except OSError:
            return False

    def _holds_something(self) -> bool:
        """True when there are packs or records: more than a making that was interrupted before FORMAT leaves behind."""
        with suppress(OSError):
            if any(name.endswith(SUFFIX) for name in os.listdir(self.packs)):
                return True
        with suppress(OSError):
            return os.lstat(self.ledger).st_size > HEAD.size
        return False

    def check(self) -> None:
        """Refuse a store that is not ours, has an unknown format or lost its FORMAT file."""
        self._check_owner()
        self._check_format()

    def mend(self) -> list[str]:
        """Put FORMAT and directories back that are missing or garbled, if all else is of this version; what was done,
        in words. Raises as check does for what is no store of ours."""
        self._check_owner()
        done = []
        try:
            try:
                found = fsio.read_file(self.format, 200)
            except FileNotFoundError:
                found = b""
            if found != FORMAT and not self._is_this_version():
                return []  # perhaps of a version to come, or no store: not to be touched
            for name in _DIRECTORIES:
                if not os.path.isdir(os.path.join(self.root, name)):
                    _make_directories(os.path.join(self.root, name))
                    done.append(f"the directory {name} was missing: made again")
            if found != FORMAT:
                fsio.replace_file(self.root, "FORMAT", FORMAT, temporary=self.temporary)
                done.append("FORMAT was missing or damaged: written again")
        except OSError as error:
            raise fsio.store_error(error, "repairing", self.root) from error
        return done

    def _is_this_version(self) -> bool:
        """True when the heads of the ledger and of the packs are those of this version: they change only with it."""
        names = sorted(os.listdir(self.packs)) if os.path.isdir(self.packs) else []
        files = [os.path.join(self.packs, name) for name in names if name.endswith(SUFFIX)]
        heads = [fsio.read_file(path, len(PACK_HEAD)) == PACK_HEAD for path in files]
        with suppress(OSError):
            heads.append(fsio.read_file(self.ledger, 8) == HEAD.pack(MAGIC, VERSION, b"")[:8])
        return sum(heads) * 2 > len(heads)

    def _check_owner(self) -> None:
        status = os.stat(self.root)
        if status.st_uid != os.geteuid():
            raise errors.StoreForeign(
                f"the store {fsio.printable(self.root)} belongs to user {status.st_uid}, not to you ({os.geteuid()}): run "
                f"casrewind as that user, or give --store DIR"
            )
        if status.st_mode & 0o022:
            raise errors.StoreForeign(
                f"others may write to the store {fsio.printable(self.root)}: run chmod 700 on it if you trust what is in it"
            )

    def _check_format(self) -> None:
        try:
            found = fsio.read_file(self.format, 200)
        except FileNotFoundError:
            raise errors.StoreDamaged(
                f"the store {fsio.printable(self.root)} has no FORMAT file: it is damaged, or no store; run casrewind verify --repair"
            ) from None
        except OSError as error:
            raise fsio.store_error(error, "reading", self.format) from error
        if found != FORMAT:
            text = fsio.printable(found.strip()[:60])
            is_older = found in _OLDER_FORMATS
            raise errors.FormatUnsupported(
                f"the store {fsio.printable(self.root)} has format {text!r}; this casrewind knows {FORMAT.decode().strip()!r}: "
                f"{'use the casrewind that made it' if is_older else 'upgrade casrewind'}, or give another --store DIR"
            )

    def create(self) -> None:
        """Make an empty store here, or finish making one. FORMAT comes last: with it, the store is whole.

        Raises UsageError for a directory that holds something else, and leaves nothing there.
        """
        self._refuse_strangers()
        try:
            _make_directories(self.root)
            self._check_owner()
            for name in _DIRECTORIES:
                _make_directories(os.path.join(self.root, name))
            with fsio.locked(self.lock("publish"), exclusive=True, deadline=10.0):
                if os.path.lexists(self.format):
                    return
                if self._holds_something():
                    self._check_format()  # packs or records without FORMAT: says what is wrong
                Ledger(self.ledger, self.temporary).create()
                fsio.replace_file(self.root, "FORMAT", FORMAT, temporary=self.temporary)
            fsio.sync_directory(os.path.dirname(self.root))
        except FileNotFoundError as error:  # in /proc, say: there was no store, so none is damaged
            raise errors.WorkspaceNotFound(
                f"no store can be made at {fsio.printable(self.root)}: {error.strerror}; give --store DIR or CASREWIND_HOME another place"
            ) from error
        except OSError as error:
            raise fsio.store_error(error, "making the store", self.root) from error


    def _refuse_strangers(self) -> None:
        """Refuse a directory with anything in it that no store has: it would be skipped by every save from then on."""
        try:
            names = os.listdir(self.root)
        except OSError:
            return  # there is none yet, or the making says what is wrong with it
        if "FORMAT" in names:
            return  # another process has made the store since this one looked
        strange = sorted(name for name in names if name not in _OWN_NAMES and not name.startswith(_OWN_STARTS))
        if strange:
            raise errors.UsageError(
                f"{fsio.printable(self.root)} is no store and not empty, it holds {fsio.printable(strange[0])}: give --store a new or an "
                f"empty directory"
            )


def _make_directories(path: str) -> None:
    """Make a directory and those above it that are missing, each 0700 whatever the umask lets through."""
    parent = os.path.dirname(path)
    if not os.path.isdir(parent):
        _make_directories(parent)
    with suppress(FileExistsError):
        fsio.make_directory(path)
