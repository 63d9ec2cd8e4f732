"""casrewind doctor: whether the clients of agents, and our hooks in them, do what they are for."""

import argparse
import os
from contextlib import closing

from ... import agents, errors, fsio
from ...ops import resting
from ...settings import Settings, find_root
from ...workspace import Workspace, site_of
from .. import diagnosis, failures, resident
from ..render import doctor as render
from ..render import text
from . import OK


def doctor(settings: Settings, options: argparse.Namespace) -> int:
    """casrewind doctor. No store is made, and none is written to."""
    profiles = [agents.profile_of(name) for name in ([options.agent] if options.agent else agents.NAMES)]
    root, lacks = _root(settings, options.directory)
    seen = {}
    reasons: tuple[str, ...] = ()
    if root is not None:
        try:
            with closing(Workspace(options.directory, settings, create=False)) as workspace:
                failures.tell_of_hooks(settings.data, workspace.store_path)
                reasons = workspace.status().reasons
                seen = {found.agent: found for found in resting.seen(site_of(workspace))}
        except errors.WorkspaceNotFound:
            failures.tell_of_hooks(settings.data)
        except errors.CasrewindError as error:
            lacks.append(f"casrewind cannot work in this project: {error}")
    reports = [
        diagnosis.examine(profile, root, settings, options.configured_tier, seen.get(profile.name), lacks) for profile in profiles
    ]
    helper = resident.Found(None, "", "") if root is None else resident.look(root)
    if options.json:
        text.as_json({**diagnosis.shape(reports, helper), "project": {"root": root, "reasons": list(reasons)}})
    else:
        render.doctor(reports, reasons, helper)
    wrong = [helper.wrong, *(report.problems for report in reports)]
    return errors.AgentError.exit_code if any(wrong) else OK


def _root(settings: Settings, directory: str) -> tuple[str | None, list[str]]:
    """(the root of the project here, None where there can be none; what keeps hooks of any project from their work)."""
    lacks = []
    place = settings.data
    while not os.path.lexists(place) and place != os.path.dirname(place):
        place = os.path.dirname(place)
    if not (os.path.isdir(place) and os.access(place, os.W_OK | os.X_OK)):
        where = fsio.show(place)
        lacks.append(f"no store can be made or written below {where}: make it a directory of yours, or set CASREWIND_HOME to another")
    try:
        return find_root(directory, settings).path, lacks
    except errors.RootRefused:
        return None, lacks
