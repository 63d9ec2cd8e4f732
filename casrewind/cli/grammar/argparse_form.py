"""The table of commands as an argparse parser, for completion and the manual page. command_line.py
reads the command lines.
"""

import argparse
from collections.abc import Callable, Iterable

from ..._typing import Any
from . import help as texts
from .command_table import COMMANDS, GLOBAL, Option


def build_parser() -> argparse.ArgumentParser:
    """The whole grammar."""
    parser = argparse.ArgumentParser(prog="casrewind", description=f"{texts.TITLE.partition(': ')[2]}.", allow_abbrev=False)
    parser.add_argument("-V", "--version", action="version", version=texts.version_text().strip(), help="show the version")
    everywhere = [option for option in GLOBAL if option.attribute != "json"]  # each command with --json has its own
    _add_options(parser, everywhere, inherited=False)
    commands = parser.add_subparsers(dest="command", metavar="COMMAND")
    for name, command in COMMANDS.items():
        about = f"{command.help}.{' ' * bool(command.more)}{command.more}"
        usage = "\n       ".join(texts.usage_forms(name))
        made = commands.add_parser(
            name, help=command.help, description=about, usage=usage, epilog="; ".join(command.examples), allow_abbrev=False,
            aliases=command.aliases,
        )  # fmt: skip
        _add_options(made, command.options, inherited=False)
        own = {word for option in command.options for word in option.names}
        _add_options(made, [option for option in everywhere if not own & set(option.names)], inherited=True)
        made.set_defaults(**command.defaults)
    return parser


def _add_options(parser: argparse.ArgumentParser, options: Iterable[Option], *, inherited: bool) -> None:
    """Add options to a parser. An inherited option is hidden and has no default: the parent parser has the default."""
    groups: dict[str, argparse._ActionsContainer] = {"": parser}
    for option in options:
        if option.group not in groups:
            groups[option.group] = parser.add_mutually_exclusive_group()
        hidden = option.help is None or inherited
        more: dict[str, Any] = {}  # arguments of add_argument, each with a type of its own
        more["help"] = argparse.SUPPRESS if hidden else (option.help or "").replace("%", "%%")
        if not option.is_word:
            more["dest"] = option.attribute
        if option.pair:
            more |= {"action": argparse.BooleanOptionalAction}
        elif option.const is not None:
            more |= {"action": "store_true"} if option.const is True else {"action": "store_const", "const": option.const}
        else:
            more |= {"metavar": option.metavar, "choices": option.choices, "type": _argparse_type(option)}
        if option.repeats:
            more["action"] = "append"
        if option.nargs:
            more["nargs"] = option.nargs
        default = argparse.SUPPRESS if option.inherits or inherited else [] if option.repeats else option.default
        groups[option.group].add_argument(*option.names, default=default, **more)


def _argparse_type(option: Option) -> Callable[[str], object] | None:
    convert = option.convert
    if convert is None:
        return None

    def converted(text: str) -> object:
        try:
            return convert(text)
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from error

    return converted
