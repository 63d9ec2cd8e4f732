"""Repair: mend a damaged store from what is sound in it, then say what is lost, and to whom."""

from contextlib import suppress

from .. import errors
from ..store.upkeep import BEFORE
from .site import Site
from .verify import Verified, verify


def repair(site: Site) -> Verified:
    """Mend packs, ledger and journals, make the index anew, then verify everything. Raises StoreBusy, StoreFull."""
    upkeep = site.store.upkeep()
    done = list(site.store.mended)
    with upkeep.only_one():
        with suppress(errors.StoreDamaged):  # a head that cannot be read: nobody knows how far a purge came
            if upkeep.unfinished_purge() == BEFORE:  # while it is the very ledger that it was to replace
                upkeep.forget_purge()
                done.append("a purge was interrupted before it removed anything: run it again")
        salvage = upkeep.salvage()
        with upkeep.alone():
            done += salvage.ledger()
        done += salvage.packs(upkeep.alone, site.say_of("checking packs"))
        with upkeep.alone():
            done += salvage.journals(site.store.journals)
            salvage.index()
    return verify(site)._replace(repaired=tuple(done))
