"""What a restore that has to do with very many files gives back between its steps.

The index is read through a map: every page that was looked at counts as this process's memory for as long as the map is
there, 225 MB and more where there are a million files. And what was freed between what is still used the C library keeps. To be rid
of both costs some milliseconds for each hundred thousand files: nothing where so many are changed.
"""

import ctypes
from contextlib import suppress

from .site import Site

MANY = 50_000
DIRECTORIES = 2000  # in which something has changed


def give_back(site: Site, files: int) -> None:
    """Give back what is not needed just now, where there is to do with so many files: the index is opened, and checked, anew
    when it is asked next."""
    if files >= MANY:
        site.store.index.close()
        with suppress(AttributeError):  # the C library of Linux distributions with glibc
            ctypes.CDLL(None).malloc_trim(0)
