"""Builds the help texts from the table of commands."""

import os
import sys
import textwrap
from collections.abc import Iterable, Iterator

from .command_line import find_command, unknown_command_error
from .command_table import COMMANDS, EVERYDAY, GROUPS, load_command
from .options import GLOBAL, Command, Option

_WIDEST = 80
_NARROWEST = 40
_NAMES = 28
"""Columns for an option's name. A longer name has its text on the next line."""
TITLE = "casrewind: exact undo for projects that coding agents work on"
REFERENCE = (
    "REF names a checkpoint: @1 or 1 (before the newest prompt), @2, after:@1, last, prev, a label or an id. "
    "REF can also be a time, such as 10m, 14:30 or yesterday. PATH is a file, a directory or a git pathspec."
)


def short_help() -> str:
    """The short help: one line for each everyday command, and the names of further common commands."""
    lines = [TITLE, "", "usage: casrewind [OPTION ...] [COMMAND ...]     (no command: the picker)", ""]
    lines += [f"  {name:<9} {row.help}" for name, row in COMMANDS.items() if row.group == EVERYDAY]
    lines.append("")
    for group in GROUPS:
        if names := [name for name, row in COMMANDS.items() if row.group == group and row.common]:
            lines.append(f"  {group + ':':<9} {', '.join(names)}")
    lines += [
        "",
        f"COMMAND --help explains one; help --all lists all {len(COMMANDS)}; help --man is the manual.",
        "REF: @1 (before the newest prompt), @2, last, a label, an id, or a time (10m).",
    ]
    return "\n".join(lines) + "\n"


def full_help() -> str:
    """All commands in groups, one line each, and the options of all commands."""
    columns = _help_width()
    lines = [TITLE, "", "usage: casrewind [OPTION ...] [COMMAND ...]"]
    for group in GROUPS:
        lines += ["", f"{group}:"]
        for name, row in COMMANDS.items():
            if row.group == group:
                also = f" (also: {', '.join(row.aliases)})" if row.aliases else ""
                lines += _title_and_text_lines(name, row.help + also, 14, columns)
    lines += ["", "Options, before or after the command. -- ends them:"]
    lines += _option_rows((*GLOBAL, _HELP_OPTION, _VERSION_OPTION), columns)
    lines += ["", *_wrap(REFERENCE, columns)]
    return "\n".join(lines) + "\n"


def command_help(name: str, width: int | None = None) -> str:
    """The help of one command."""
    columns, command = width or _help_width(), load_command(name)
    lines = [*_wrap(f"{COMMANDS[name].help}.", columns), "", *usage_lines(name, columns)]
    lines += ["", *_wrap(command.more, columns)] if command.more else []
    words = [option for option in command.options if option.is_word and option.help is not None]
    if words:
        lines += ["", *_option_rows(words, columns)]
    named = [option for option in command.options if not option.is_word]
    if any(option.help is not None for option in named):
        lines += ["", "Options:", *_option_rows(named, columns)]
    if "REF" in " ".join(option.metavar or "" for option in command.options):
        lines += ["", *_wrap(REFERENCE, columns)]
    lines += ["", *_wrap("Global options (casrewind help --all explains them): " + ", ".join(_shortest_names(GLOBAL)), columns)]
    lines += ["", f"Example{'s' * (len(command.examples) > 1)}:", *(f"  {line}" for line in command.examples)]
    return "\n".join(lines) + "\n"


def purpose(name: str) -> str:
    """What a command is for, and the rest that its help says before the options."""
    more = load_command(name).more
    return f"{COMMANDS[name].help}.{' ' * bool(more)}{more}"


def usage_lines(name: str, columns: int) -> list[str]:
    """The usage lines of a command."""
    command = load_command(name)
    start, lines = "usage:", []
    for form in command.usage or (_derived_usage(command),):
        head = f"{start:<6} casrewind {name}"
        indent = " " * (len(head) + 1) if len(head) < columns // 2 else " " * 8
        parts = textwrap.wrap(f"{head} {_unbreakable(form)}".rstrip(), columns, subsequent_indent=indent, break_on_hyphens=False)
        lines += [part.replace("\x00", " ") for part in parts]
        start = ""
    return lines


def usage_forms(name: str) -> list[str]:
    """The usage of a command, one unbroken line for each form."""
    command = load_command(name)
    return [f"casrewind {name} {form}".rstrip() for form in command.usage or (_derived_usage(command),)]


def help_text(options: object) -> str:
    """The text that `casrewind help` prints. Raises UsageError for an unknown command."""
    topic = getattr(options, "topic", None)
    if topic is None:
        return full_help() if getattr(options, "all", False) else short_help()
    found = find_command(topic)
    if found is None:
        raise unknown_command_error(topic)
    return command_help(found)


_HELP_OPTION = Option(("-h", "--help"), "show help", const=True)
_VERSION_OPTION = Option(("-V", "--version"), "show the version", const=True)


def _help_width() -> int:
    """The width of the terminal, from 40 to 80."""
    given = os.environ.get("COLUMNS", "")
    if given.isdigit() and int(given[:5]) > 0:
        return max(min(int(given[:5]), _WIDEST), _NARROWEST)
    try:
        return max(min(os.get_terminal_size(sys.stdout.fileno()).columns or _WIDEST, _WIDEST), _NARROWEST)
    except (OSError, ValueError):
        return _WIDEST


def _derived_usage(command: Command) -> str:
    """The usage of a command, derived from its options."""
    parts, grouped = [], dict[str, list[str]]()
    for option in command.options:
        if option.is_word or option.help is None:
            continue
        if option.group:
            if option.group not in grouped:
                parts.append(f"\x01{option.group}")
            grouped.setdefault(option.group, []).append(_usage_form(option))
        else:
            parts.append(f"[{_usage_form(option)}]")
    parts = [f"[{' | '.join(grouped[part[1:]])}]" if part.startswith("\x01") else part for part in parts]
    for option in command.options:
        if option.is_word:
            word = _value_name(option)
            parts.append({"?": f"[{word}]", "*": f"[{word} ...]", "+": f"{word} [{word} ...]"}.get(option.nargs, word))
    return " ".join(parts)


def _unbreakable(form: str) -> str:
    """A form that is never broken inside brackets: their spaces become NUL."""
    depth, found = 0, []
    for character in form:
        depth += (character in "[(") - (character in "])")
        found.append("\x00" if character == " " and depth else character)
    return "".join(found)


def _usage_form(option: Option) -> str:
    name = option.names[0]
    if option.pair:
        return f"{name} | --no-{name[2:]}"
    return name if option.const is not None else f"{name} {_value_name(option)}"


def _shortest_names(options: Iterable[Option]) -> Iterator[str]:
    return (_usage_form(option) for option in options if option.help is not None)


def _value_name(option: Option) -> str:
    if option.metavar is not None:
        return option.metavar
    return "{" + ",".join(option.choices) + "}" if option.choices else option.attribute.upper()


def _option_rows(options: Iterable[Option], columns: int) -> list[str]:
    shown = [(option, _option_title(option)) for option in options if option.help is not None]
    indent = min(max((len(title) for _, title in shown), default=0), _NAMES, columns // 2 - 4) + 2
    return [line for option, title in shown for line in _title_and_text_lines(title, option.help or "", indent, columns)]


def _option_title(option: Option) -> str:
    if option.is_word:
        return _value_name(option)
    names = [*option.names, *(f"--no-{name[2:]}" for name in option.names if option.pair)]
    return ", ".join(names) + ("" if option.const is not None or option.pair else f" {_value_name(option)}")


def _title_and_text_lines(title: str, text: str, indent: int, columns: int) -> list[str]:
    lines = textwrap.wrap(text, columns - indent - 2, break_on_hyphens=False) or [""]
    first = [f"  {title:<{indent}}{lines[0]}"]
    if len(title) > indent - 2:
        first = [f"  {title}", f"  {'':<{indent}}{lines[0]}"]
    return [*first, *(f"  {'':<{indent}}{line}" for line in lines[1:])]


def _wrap(text: str, columns: int) -> list[str]:
    return textwrap.wrap(text, columns, break_on_hyphens=False)
