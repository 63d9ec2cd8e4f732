"""The command that says what takes the space."""

import argparse

from ... import errors
from ...typed import Any
from .. import usageshapes
from ..render import du as render
from ..render import text
from . import OK, Done

_SHOWN = 10
"""Rows of each table for a person who did not say how many."""


def du(workspace: Any, options: argparse.Namespace, done: Done) -> int:
    """casrewind du."""
    tables = usageshapes.TABLES if options.by is None else (options.by,)
    if options.depth is not None and "path" not in tables:
        raise errors.UsageError(f"--depth is about paths: leave it or --by {options.by} out")
    found = workspace.usage(options.depth)
    done()
    if options.json:
        text.as_json(usageshapes.usage(found, options.budget, workspace.current(), tables, options.number))
    else:
        render.usage(found, options.budget, tables, options.number or _SHOWN)
    for problem in found.problems[:_SHOWN]:
        text.remark(f"casrewind: damaged: {problem.detail}")
    if found.problems:
        more = f"{len(found.problems):,} in all; " if len(found.problems) > _SHOWN else ""
        text.remark(f"casrewind: {more}what is damaged is not counted: casrewind verify says whom it affects")
    return errors.StoreDamaged.exit_code if found.problems else OK
