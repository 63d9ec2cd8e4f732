"""What a person reads of the configuration."""

import os
from collections.abc import Sequence

from ... import fsio
from ...config import Setting
from .text import say

_UNITS = (("d", 86400), ("h", 3600), ("m", 60))
_POWERS = ("GiB", 30), ("MiB", 20), ("KiB", 10)


def settings(path: str, found: Sequence[Setting], rules: Sequence[str]) -> None:
    """config."""
    say(f"{fsio.show(path)}{'' if os.path.exists(path) else '  (is not there: all is as it comes)'}")
    for setting in found:
        say(f"  {setting.name:<26}  {written(setting):<12}  {fsio.show(setting.source)}")
    for rule in rules:
        say(f"  ignore                      {fsio.show(rule)}  the project's own file")


def written(setting: Setting) -> str:
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
