"""The scan of a save that reads everything: a first one, or one that believes no stamp.

Another process may read some of it (worktree/beside.py); and nothing of a first one is written before it is known that it fits
on the disk.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext

from ..store.apart import Apart
from ..store.session import Session
from ..worktree import scan as scans
from ..worktree.aside import Maker
from ..worktree.passes import Options, Remember
from ..worktree.sheet import Sheet
from .room import Fitting
from .site import Site

Rows = dict[bytes, bytes | None]
"""Stat-cache records by directory; None: forget it."""
_LEAST, _MOST = 300, 20_000
"""Directories of which a fork makes the sheet: of fewer it is made in no time, of more the fork would need too much memory."""
_PATIENCE = 0.002  # seconds


def scan(site: Site, session: Session, options: Options, remember: Remember, sheet: Sheet | None) -> tuple[scans.Scan, bytes | None]:
    """As worktree.scan does, and the sheet of it if that is made already. Raises StoreFull, of a first save, when it cannot fit."""
    apart = Apart(session) if options.processes > 1 else None
    is_first = remember(b"") is None and site.store.head(site.root.key) is None
    paging = _Paging(session, options.processes if is_first and site.watch is None else 1)
    try:
        with _fitting(site, session) if is_first else nullcontext():
            found = scans.scan(
                site.tree, session, session.load_tree, options, remember, site.say("scanning"), sheet, site.watch, apart, paging.begin,
            )  # fmt: skip
        return found, paging.end(found)
    finally:
        paging.close()


class _Paging:
    """The sheet of a first save, made by a fork while all files are looked at once more."""

    def __init__(self, session: Session, processes: int) -> None:
        self._session, self._may = session, processes > 1
        self._maker: Maker | None = None
        self._forgotten = 0

    def begin(self, records: Rows) -> None:
        """All directories were scanned: these are the records of them."""
        if self._may and _LEAST <= len(records) <= _MOST:
            self._session.lull(lambda: self._fork(records))

    def _fork(self, records: Rows) -> None:
        end = time.monotonic() + _PATIENCE
        while not scans.is_alone():  # the session's own thread, which is done, has not quite ended yet
            if time.monotonic() > end:
                return
            time.sleep(0)
        from ..worktree import sheetmaker

        self._forgotten = _forgotten(records)
        self._maker = Maker(lambda: sheetmaker.build(records.get))

    def end(self, found: scans.Scan) -> bytes | None:
        """The sheet; None when none was made, or one of files that have moved since."""
        if self._maker is None or _forgotten(found.stamps) != self._forgotten:
            return None
        return self._maker.made()

    def close(self) -> None:
        """Let go of the fork."""
        if self._maker is not None:
            self._maker.close()


def _forgotten(records: Rows) -> int:
    return sum(row is None for row in records.values())


@contextmanager
def _fitting(site: Site, session: Session) -> Iterator[None]:
    fitting = Fitting(site)
    try:
        session.ask_first(fitting.settle)
        yield
        fitting.settle()
    finally:
        fitting.close()
