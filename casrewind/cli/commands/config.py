"""casrewind config: every setting, its value, and where that is from."""

import os
from collections.abc import Sequence

from ... import config, errors, fsio
from ..._typing import Any
from ...config import Setting
from ...settings import Settings, faults_of, find_root, project
from .. import environment
from ..output import as_json, note, print_line
from . import OK

_UNITS = (("d", 86400), ("h", 3600), ("m", 60))
_POWERS = ("GiB", 30), ("MiB", 20), ("KiB", 10)


def show(settings: Settings, options: Any) -> int:
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
        note(f"{fsio.printable(os.path.join(root or '', config.PROJECT_FILE))}: {fault.reason}")
    if options.json:
        as_json({
            "file": path,
            "exists": os.path.exists(path),
            "settings": [{"name": s.name, "value": s.value, "source": s.source} for s in found],
            "project": None if root is None else {"root": root, "file": os.path.join(root, config.PROJECT_FILE), "ignore": own.rules},
        })  # fmt: skip
    else:
        _show(path, found, own.rules)
    return OK


def _lowered(setting: Setting, own: config.Project, root: str | None) -> Setting:
    """A setting as it counts in a project, whose own file may lower one of them."""
    if setting.name != "capture.max_file_size" or own.max_file_size is None or own.max_file_size >= setting.value:
        return setting
    return setting._replace(value=own.max_file_size, source=os.path.join(root or "", config.PROJECT_FILE))


def _show(path: str, found: Sequence[Setting], rules: Sequence[str]) -> None:
    print_line(f"{fsio.printable(path)}{'' if os.path.exists(path) else '  (does not exist: default settings)'}")
    for setting in found:
        print_line(f"  {setting.name:<26}  {_written(setting):<12}  {fsio.printable(setting.source)}")
    for rule in rules:
        print_line(f"  ignore                      {fsio.printable(rule)}  the project's own file")


def _written(setting: Setting) -> str:
    """A value as one writes it into the file."""
    value = setting.value
    if setting.kind == "age":
        unit, seconds = next(((unit, seconds) for unit, seconds in _UNITS if value and value % seconds == 0), ("s", 1))
        return f"{value / seconds:g}{unit}"
    if setting.kind == "size":
        unit, power = next(((unit, power) for unit, power in _POWERS if value and value % (1 << power) == 0), ("", 0))
        return f"{value >> power}{unit}"
    if setting.kind == "flag":
        return str(value).lower()
    return str(value) or "as installed"
