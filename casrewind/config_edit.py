"""Changes one setting in the text of a configuration file.

The danger prevented here: a person's comment, or another setting, is lost. So a line is changed or added, and the file is never
written from its values. What comes out is parsed: it must say what was asked, and else what it said before.
"""

import re
import tomllib
from collections.abc import Iterator

from . import config, errors

DEFAULT = "default"
"""The value that takes a setting out of a file."""
_HEADER = re.compile(r"\s*\[")
_VALUE = r"""(?:"(?:[^"\\]|\\.)*"|'[^']*'|[^\s#"'\[{]+)"""


def change_setting(text: str, origin: str, name: str, literal: str) -> str:
    """The text with a setting as `literal` in TOML, "" = without it. `origin` names the file. Raises UsageError if a person has to
    change it: the setting is not on a line of its own."""
    section, _, key = name.partition(".")
    found = _changed_lines(text.split("\n"), section, key, literal)
    if not _says(found, text, section, key, literal):
        raise errors.UsageError(
            f"{origin}: {name} cannot be changed here without a risk for other lines; nothing was changed",
            f"edit the file: {f'{key} = {literal}' if literal else f'no {key}'} below [{section}]"
        )
    return found


def remove_line(text: str, origin: str, name: str, literal: str) -> str:
    """The text without the line that `change_setting` added for a setting, and without its header if that came along. The same text if
    there is no such line. Raises UsageError as change_setting does."""
    section, _, key = name.partition(".")
    lines = text.split("\n")
    at = next((at for at in _lines_of_section(lines, section) if lines[at].rstrip("\r") == f"{key} = {literal}"), None)
    if at is None:
        return text
    before, rest = lines[:at], lines[at + 1 :]
    if not any(line.strip() for line in rest) and before[-1].rstrip("\r") == f"[{section}]" and not "".join(before[-2:-1]).strip():
        before = [*before[:-2], ""] if before[:-2] else []
        rest = []
    found = "\n".join([*before, *rest])
    if not _says(found, text, section, key, ""):
        raise errors.UsageError(f"{origin}: {name} cannot be removed here without a risk for other lines", "edit the file")
    return found


def _changed_lines(lines: list[str], section: str, key: str, literal: str) -> str:
    end = "\r" if lines[0].endswith("\r") else ""
    pattern = re.compile(rf"(\s*{_word(key)}\s*=\s*){_VALUE}(\s*(?:#.*)?\r?)")
    last = None
    for at in _lines_of_section(lines, section):
        if match := pattern.fullmatch(lines[at]):
            if literal:
                lines[at] = f"{match[1]}{literal}{match[2]}"
            elif match[2].strip():
                lines[at] = f"# {lines[at]}"  # for its comment
            else:
                del lines[at]
            return "\n".join(lines)
        if lines[at].strip() and not lines[at].lstrip().startswith("#"):
            last = at
    added = f"{key} = {literal}{end}"
    if not literal:
        return "\n".join(lines)
    if last is not None:
        return "\n".join([*lines[: last + 1], added, *lines[last + 1 :]])
    while lines and not lines[-1].strip():
        lines.pop()
    return "\n".join([*lines, *([end] if lines else []), f"[{section}]{end}", added, ""])


def _lines_of_section(lines: list[str], section: str) -> Iterator[int]:
    """The number of its header, and those of the lines below it."""
    header = re.compile(rf"\s*\[\s*{_word(section)}\s*\]\s*(?:#.*)?")
    is_in = False
    for at, line in enumerate(lines):
        if _HEADER.match(line):
            is_in = header.fullmatch(line.rstrip("\r")) is not None
        if is_in:
            yield at


def _word(name: str) -> str:
    """A pattern for a name in TOML: bare or quoted."""
    return rf"""(?:{name}|"{name}"|'{name}')"""


def _says(found: str, before: str, section: str, key: str, literal: str) -> bool:
    """True if a text says what was asked, and else what it said before."""
    try:
        after, wanted = config.parse_toml(found, ""), config.parse_toml(before, "")
    except errors.UsageError:
        return False
    values = wanted.setdefault(section, {})
    if not isinstance(values, dict) or not isinstance(after.setdefault(section, {}), dict):
        return False
    values.pop(key, None)
    if literal:
        values |= tomllib.loads(f"{key} = {literal}")
    return after == wanted
