"""casrewind config: every setting, its value, and where that is from."""

import argparse
import os

from ... import config, errors, fsio
from ...settings import Settings, faults_of, find_root, project
from .. import environment
from ..render import config as render
from ..render import text
from . import OK


def show(settings: Settings, options: argparse.Namespace) -> int:
    """casrewind config. No store is opened, and none has to be there."""
    path, found = environment.explained()
    root, own = None, config.Project()
    try:
        root = find_root(options.directory, settings).path
    except errors.WorkspaceError:
        pass  # the user's settings are theirs everywhere
    else:
        own = project(root)
    found = [_lowered(setting, own, root) for setting in found]
    for fault in faults_of(own):
        text.remark(f"casrewind: note: {fsio.show(os.path.join(root or '', config.PROJECT_FILE))}: {fault.reason}")
    if options.json:
        text.as_json({
            "file": path,
            "exists": os.path.exists(path),
            "settings": [{"name": s.name, "value": s.value, "source": s.source} for s in found],
            "project": None if root is None else {"root": root, "file": os.path.join(root, config.PROJECT_FILE), "ignore": own.rules},
        })  # fmt: skip
    else:
        render.settings(path, found, own.rules)
    return OK


def _lowered(setting: config.Setting, own: config.Project, root: str | None) -> config.Setting:
    """A setting as it counts in a project, whose own file may lower one of them."""
    if setting.name != "capture.max_file_size" or own.max_file_size is None or own.max_file_size >= setting.value:
        return setting
    return setting._replace(value=own.max_file_size, source=os.path.join(root or "", config.PROJECT_FILE))
