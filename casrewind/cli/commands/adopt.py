"""casrewind adopt."""

import os

from ... import fsio, projects
from ...typed import Any
from ..json_output import path
from ..output import as_json, plural, say
from . import OK


def adopt(settings: Any, options: Any) -> int:
    """casrewind adopt."""
    found = projects.adopt(options.directory, options.old, settings)
    if options.json:
        places = {"old": found.old, "root": found.root, "store": found.store}
        shape = {key: value for name, place in places.items() for key, value in path(os.fsencode(place), name).items()}
        as_json({**shape, "checkpoints": found.checkpoints})
    else:
        checkpoints = plural(found.checkpoints, "checkpoint")
        say(f"adopted {checkpoints} of {fsio.show(found.old)}: they are those of {fsio.show(found.root)} now")
    return OK
