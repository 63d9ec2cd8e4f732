"""Takes the syncs out of casrewind, for a judge that has to notice. Found by the interpreter through PYTHONPATH."""

from casrewind import fsio

fsio.sync_fd = lambda fd, **_: None
