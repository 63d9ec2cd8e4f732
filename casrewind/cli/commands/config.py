"""casrewind config: the settings that are in effect."""

import os
from collections.abc import Sequence

from ... import config, environment, errors
from ..._typing import TYPE_CHECKING
from ...config import Setting
from ...messages import printable
from ...settings import Settings, find_root, project_faults, read_project_file
from ..grammar.options import JSON, Command
from ..terminal.lines import note, print_json, print_line
from . import OK

if TYPE_CHECKING:
    from ..grammar.command_line import ParsedOptions

COMMAND = Command(
    examples=("casrewind config",),
    options=(JSON,),
    is_alone=True,
)

_UNITS = (("d", 86400), ("h", 3600), ("m", 60))
_POWERS = ("GiB", 30), ("MiB", 20), ("KiB", 10)


def run(settings: Settings, options: "ParsedOptions") -> int:
    """casrewind config. It opens no store, and requires none."""
    path, found = environment.explain_settings()
    root, own = None, config.Project()
    try:
        root = find_root(options.directory, settings).path
    except errors.WorkspaceError:
        pass  # the user's settings apply everywhere
    else:
        own = read_project_file(root)
    found = [_setting_in_project(setting, own, root) for setting in found]
    for fault in project_faults(own):
        note(f"{printable(os.path.join(root or '', config.PROJECT_FILE))}: {fault.reason}")
    for sentence in (*environment.misspelt_variables(), *environment.variables_without_effect()):
        note(sentence)
    if options.json:
        print_json({
            "file": path,
            "exists": os.path.exists(path),
            "settings": [{"name": s.name, "value": s.value, "source": s.source} for s in found],
            "project": None if root is None else {"root": root, "file": os.path.join(root, config.PROJECT_FILE), "ignore": own.rules},
        })  # fmt: skip
    else:
        _print_settings(path, found, own.rules)
    return OK


def _setting_in_project(setting: Setting, own: config.Project, root: str | None) -> Setting:
    """The effective setting in a project. The project's own file may lower a limit."""
    if setting.name != "capture.max_file_size" or own.max_file_size is None or own.max_file_size >= setting.value:
        return setting
    return setting._replace(value=own.max_file_size, source=os.path.join(root or "", config.PROJECT_FILE))


def _print_settings(path: str, found: Sequence[Setting], rules: Sequence[str]) -> None:
    print_line(f"{printable(path)}{'' if os.path.exists(path) else '  (does not exist: default settings)'}")
    for setting in found:
        print_line(f"  {setting.name:<26}  {_value_in_toml(setting):<12}  {printable(setting.source)}")
    for rule in rules:
        print_line(f"  ignore                      {printable(rule)}  the project's own file")


def _value_in_toml(setting: Setting) -> str:
    """A value in the syntax of the configuration file."""
    value = setting.value
    if setting.kind == "keep" and not value:
        return "forever"
    if setting.kind in ("age", "keep"):
        unit, seconds = next(((unit, seconds) for unit, seconds in _UNITS if value and value % seconds == 0), ("s", 1))
        return f"{value / seconds:g}{unit}"
    if setting.kind == "size":
        unit, power = next(((unit, power) for unit, power in _POWERS if value and value % (1 << power) == 0), ("", 0))
        return f"{value >> power}{unit}"
    if setting.kind == "flag":
        return str(value).lower()
    return str(value) or "as installed"
