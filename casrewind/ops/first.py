"""The scan of a save that reads everything: a first one, or one that believes no stamp.

Another process may read some of it (worktree/beside.py); and nothing of a first one is written before it is known that it fits
on the disk.
"""

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext

from ..store.apart import Apart
from ..store.session import Session
from ..worktree import scan as scans
from ..worktree.passes import Options, Remember
from ..worktree.sheet import Sheet
from .room import Fitting
from .site import Site


def scan(site: Site, session: Session, options: Options, remember: Remember, sheet: Sheet | None) -> scans.Scan:
    """As worktree.scan does. Raises StoreFull, of a first save, when it cannot fit."""
    apart = Apart(session) if options.processes > 1 else None
    is_first = remember(b"") is None and site.store.head(site.root.key) is None
    with _fitting(site, session) if is_first else nullcontext():
        return scans.scan(
            site.tree, session, session.load_tree, options, remember, site.say("scanning"), sheet, site.watch, apart
        )


@contextmanager
def _fitting(site: Site, session: Session) -> Iterator[None]:
    fitting = Fitting(site)
    try:
        session.ask_first(fitting.settle)
        yield
        fitting.settle()
    finally:
        fitting.close()
