"""The commands that look after the store."""

import argparse
from typing import Any

from ... import errors
from .. import shapes
from ..render import text
from ..render import upkeep as render
from . import OK, Done


def status(workspace: Any, options: argparse.Namespace, done: Done) -> int:
    """casrewind status."""
    found = workspace.status()
    done()
    if options.json:
        last = None
        if found.last is not None:
            last = shapes.checkpoint(found.last, workspace.marks(found.last.id), workspace.current())
        text.as_json(shapes.status(found, workspace.root.path, workspace.store_path, options.budget, last))
    else:
        render.status(found, workspace.root.path, workspace.store_path, options.budget)
    return OK


def verify(workspace: Any, options: argparse.Namespace, done: Done) -> int:
    """casrewind verify."""
    found = workspace.verify()
    done()
    if options.json:
        text.as_json(shapes.verified(found))
    else:
        render.verified(found)
    return errors.StoreDamaged.exit_code if found.problems else OK
