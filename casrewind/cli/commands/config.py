"""casrewind config: the settings that are in effect, and the change of one of them in its file."""

import os
from collections.abc import Callable, Sequence

from ... import config, environment, errors
from ..._typing import TYPE_CHECKING
from ...agents import settings_files
from ...config import Setting
from ...config_edit import DEFAULT, change_setting, remove_line
from ...messages import printable
from ...settings import Settings, find_root, project_faults, read_project_file
from ..grammar.options import JSON, Command, Option, flag
from ..terminal.lines import note, print_json, print_line
from . import OK

if TYPE_CHECKING:
    from ..grammar.command_line import ParsedOptions

_OF_PROJECT = "capture.max_file_size"
_COUNTING, _OURS = "remote.from_environment", "true  # casrewind install --hands-free"
"""The setting by which variables count, and its value with a comment that says who wrote it: uninstall removes that, and no other."""
COMMAND = Command(
    examples=("casrewind config", "casrewind config set retention.max_age 90d", "casrewind config set retention.max_age default"),
    options=(
        Option(("action",), "set changes one setting in your file (without set, config shows all settings)", "ACTION", nargs="?"),
        Option(("name",), "the name of the setting, as casrewind config shows it", "NAME", nargs="?"),
        Option(("value",), f"the new value; {DEFAULT} removes the setting from the file", "VALUE", nargs="?"),
        flag("--project", f"with set: change {config.PROJECT_FILE} in the project, which can only set {_OF_PROJECT}"),
        JSON,
    ),
    usage=("[--json]", "set [--project] [--json] NAME VALUE"),
    is_alone=True,
)

_NEW, _NEW_IN_PROJECT = 0o600, 0o644
"""Modes of a new file."""
_UNITS = (("d", 86400), ("h", 3600), ("m", 60))
_POWERS = ("GiB", 30), ("MiB", 20), ("KiB", 10)


def run(settings: Settings, options: "ParsedOptions") -> int:
    """casrewind config. It opens no store, and requires none."""
    root, own = None, config.Project()
    try:
        root = find_root(options.directory, settings).path
    except errors.WorkspaceError:
        if options.project:
            raise  # the user's settings apply everywhere
    else:
        own = read_project_file(root)
    if options.action is not None or options.project:
        _refuse_other_words(options)
        if options.project:
            _set_in_project(options, os.path.join(root or "", config.PROJECT_FILE), own)
        else:
            _set_in_users_file(options)
        if not options.json:
            return OK
        own = own if root is None else read_project_file(root)
    path, found = environment.explain_settings()
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


def _refuse_other_words(options: "ParsedOptions") -> None:
    """Raise UsageError unless the line is `set NAME VALUE`."""
    if options.action != "set":
        hint = "casrewind config set NAME VALUE sets one; casrewind config shows all"
        raise errors.UsageError(f"config: unexpected {options.action!r}" if options.action else "config: --project goes with set", hint)
    for word, given in (("NAME", options.name), ("VALUE", options.value)):
        if given is None:
            raise errors.UsageError(f"config set: missing {word}", "as in: casrewind config set retention.max_age 90d")


def _set_in_users_file(options: "ParsedOptions") -> None:
    path = environment.configuration_path()

    def value_in(text: str) -> str:
        return _in_words(_setting_named(config.explain_settings(text, printable(path), {}), options.name))

    _change_file(options, path, _NEW, value_in)
    now = _setting_named(environment.explain_settings()[1], options.name)
    if now is not None and now.source not in (printable(path), DEFAULT):
        note(f"{now.source} is set and overrides the file: {now.name} is {_value_in_toml(now)} here")


def _set_in_project(options: "ParsedOptions", path: str, own: config.Project) -> None:
    if options.name != _OF_PROJECT:
        config.value_in_toml(options.name or "", options.value or "")  # an unknown name comes first
        hint = f"a project has {_OF_PROJECT} only, and rules: casrewind exclude --shared PATH"
        raise errors.UsageError(f"{options.name} is not a setting of a project", hint)
    if own.lost:
        raise errors.UsageError(f"{printable(path)}: {own.lost}; nothing was changed")

    def value_in(text: str) -> str:
        limit = config.read_project(text).max_file_size
        return "not set" if limit is None else _value_in_toml(Setting(_OF_PROJECT, "size", limit, ""))

    _change_file(options, path, _NEW_IN_PROJECT, value_in)
    users = _setting_named(environment.explain_settings()[1], _OF_PROJECT)
    limit = read_project_file(os.path.dirname(path)).max_file_size
    if users is not None and limit is not None and limit >= users.value:
        note(f"your own limit, {_value_in_toml(users)}, counts: a project can only lower it")


def _setting_named(settings: Sequence[Setting], name: str | None) -> Setting | None:
    return next((setting for setting in settings if setting.name == name), None)


def _in_words(setting: Setting | None) -> str:
    if setting is None:
        return "not set"
    return _value_in_toml(setting) + (" (default)" if setting.source == DEFAULT else "")


def _change_file(options: "ParsedOptions", path: str, mode: int, value_in: Callable[[str], str]) -> None:
    """Change one setting in a file, and say so. `value_in`: the setting in a text of the file, in words. Raises UsageError, AgentError,
    StoreFull."""
    name, value = options.name or "", options.value or ""
    literal = "" if value == DEFAULT and name in config.variables() else config.value_in_toml(name, value)
    was, now = _write_setting(path, name, literal, mode, value_in)
    if not now:
        note(f"{name} is {was} there already: nothing was changed")
    elif not options.json:
        print_line(f"{name}: {was} -> {now}")
        print_line(f"  in {printable(path)}")


def let_variables_count() -> str:
    """Write into the user's file that variables say what hooks push, and where. Returns its path. Raises as config set does."""
    path = environment.configuration_path()
    if not environment.configuration().remote_from_environment:
        found = _setting_named(environment.explain_settings()[1], _COUNTING)
        literal = _OURS if found is not None and found.source == DEFAULT else "true"
        _write_setting(path, _COUNTING, literal, _NEW, lambda text: str(config.explain_settings(text, printable(path), {})))
    return path


def stop_variables_counting() -> str:
    """Take the line that let_variables_count added out of the user's file. Returns a sentence about that, "" if the file has no such
    setting. Raises as config set does."""
    path = environment.configuration_path()
    if not environment.configuration().remote_from_environment:
        return ""
    where, present = printable(path), settings_files.read_settings(path)
    text = _text_of(path, present)
    changed = remove_line(text, where, _COUNTING, _OURS)
    if changed == text:
        return f"{where} says from_environment = true, in a line of your own: it stays"
    _replace(present, changed, _NEW)
    return f"{where} no longer lets variables name a remote"


def _write_setting(path: str, name: str, literal: str, mode: int, value_in: Callable[[str], str]) -> tuple[str, str]:
    """Returns the value before, and the new one, "" if nothing was changed. `literal`: its value in TOML, "" = out of the file."""
    where, present = printable(path), settings_files.read_settings(path)
    text = _text_of(path, present)
    changed = change_setting(text, where, name, literal)
    if changed == text:
        return value_in(text), ""
    was, now = value_in(text), value_in(changed)
    _replace(present, changed, mode)
    return was, now


def _text_of(path: str, present: settings_files.SettingsFile) -> str:
    return config.decode_file(present.data or b"", printable(path))


def _replace(present: settings_files.SettingsFile, text: str, mode: int) -> None:
    """Give the file that was read this text; remove it if that is empty."""
    settings_files.check_writable(present)
    try:
        if text:
            settings_files.replace_if_unchanged(present, text.encode(), mode)
        else:
            settings_files.remove_if_unchanged(present)
            settings_files.remove_if_empty(os.path.dirname(present.path))
    except settings_files.FileChanged as error:
        raise errors.UsageError(f"{printable(present.path)} was changed at the same time; nothing was changed", "try again") from error


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
