"""Repair: mend a damaged store from what is sound in it, then say what is lost, and to whom."""

from .site import Site
from .verify import Verified, verify


def repair(site: Site) -> Verified:
    """Mend packs, ledger and journals, make the index anew, then verify everything. Raises StoreBusy, StoreFull."""
    upkeep = site.store.upkeep()
    done = list(site.store.mended)
    with upkeep.only_one():
        salvage = upkeep.salvage()
        with upkeep.alone():
            done += salvage.ledger()
        done += salvage.packs(upkeep.alone, site.say_of("checking packs"))
        with upkeep.alone():
            done += salvage.journals(site.store.journals)
            salvage.index()
    return verify(site)._replace(repaired=tuple(done))
