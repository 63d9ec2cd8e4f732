"""The commands as an argparse parser, for completion and the manual page. command_line.py reads the command lines."""

import argparse
from collections.abc import Callable, Iterable

from ... import __version__
from ..._typing import Any
from . import help as texts
from .command_line import find_command
from .command_table import ADVANCED, COMMANDS, load_command
from .options import GLOBAL, Option


def build_parser(words: Iterable[str] | None = None) -> argparse.ArgumentParser:
    """The whole grammar. With `words`, those of a line that is completed, only the commands among them have their options: the others
    are not imported. Of the advanced commands it has only those."""
    parser = argparse.ArgumentParser(prog="casrewind", description=f"{texts.TITLE.partition(': ')[2]}.", allow_abbrev=False)
    parser.add_argument("-V", "--version", action="version", version=__version__, help="show the version")
    everywhere = [option for option in GLOBAL if option.attribute != "json"]  # each command with --json has its own
    _add_options(parser, everywhere, inherited=False)
    commands = parser.add_subparsers(dest="command", metavar="COMMAND")
    wanted = None if words is None else {find_command(word) for word in words}
    for name, row in COMMANDS.items():
        if wanted is not None and name not in wanted and row.group == ADVANCED:
            continue
        made = commands.add_parser(name, help=row.help, allow_abbrev=False, aliases=row.aliases)
        if wanted is not None and name not in wanted:
            continue
        command = load_command(name)
        made.description, made.epilog = texts.purpose(name), "; ".join(command.examples)
        made.usage = "\n       ".join(texts.usage_forms(name))
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
