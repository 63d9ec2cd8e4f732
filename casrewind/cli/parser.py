"""argparse, for every command line that options.py does not understand by itself, for --help and for the documentation. Usage errors
end with 64: coding agents read argparse's own 2 as "block"."""

import argparse
import sys

from .. import __version__, errors, fsio
from .._typing import Any, NoReturn
from .options import COMMANDS, GLOBAL, Option

USAGE = 64


class Parser(argparse.ArgumentParser):
    """An ArgumentParser whose errors exit with 64."""

    def error(self, message: str) -> NoReturn:
        """Say what is wrong and how it is right, exit with 64."""
        self.print_usage(sys.stderr)
        self.exit(USAGE, f"casrewind: {fsio.printable(message)}; {self.prog} --help shows more\n")


def build() -> Parser:
    """The whole grammar."""
    parser = Parser(
        prog="casrewind",
        description="Exact, reversible, bounded undo for projects that coding agents work on.",
        epilog="Without COMMAND, on a terminal: the picker. REF: last, prev, a number (1 = newest), a label, an id or at least 4 "
        "characters of one.",
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"casrewind {__version__}")
    _add(parser, GLOBAL)
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", parser_class=Parser)
    for name, command in COMMANDS.items():
        end = f"Example{'s' if len(command.examples) > 1 else ''}: {'; '.join(command.examples)}"
        made = commands.add_parser(
            name, help=command.help, description=command.help, usage=command.usage, epilog=end, allow_abbrev=False
        )
        _add(made, command.options)
        made.set_defaults(**command.defaults)
    return parser


def _add(parser: Parser, options: tuple[Option, ...]) -> None:
    groups: dict[str, Any] = {"": parser}
    for option in options:
        if option.group not in groups:
            groups[option.group] = parser.add_mutually_exclusive_group()
        more: dict[str, Any] = {"help": argparse.SUPPRESS if option.help is None else option.help}
        if not option.is_word:
            more["dest"] = option.attribute
        if option.pair:
            more |= {"action": argparse.BooleanOptionalAction}
        elif option.const is not None:
            more |= {"action": "store_true"} if option.const is True else {"action": "store_const", "const": option.const}
        else:
            more |= {"metavar": option.metavar, "choices": option.choices, "type": _type(option)}
        if option.nargs:
            more["nargs"] = option.nargs
        default = argparse.SUPPRESS if option.inherits else option.default
        groups[option.group].add_argument(*option.names, default=default, **more)


def _type(option: Option) -> Any:
    convert = option.convert
    if convert is None:
        return None

    def converted(text: str) -> object:
        try:
            return convert(text)
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from error

    return converted


def parse(argv: list[str]) -> argparse.Namespace:
    """The options in `argv`. Raises UsageError for arguments that no command takes; argparse exits for the rest."""
    options, extra = build().parse_known_args(argv)
    if extra:
        name = " ".join(["casrewind", *filter(None, [options.command])])
        behind = COMMANDS[options.command].behind if options.command else ""
        hint = f"{behind} behind --; " if behind else ""
        raise errors.UsageError(f"unrecognized arguments: {' '.join(extra)}; {hint}{name} --help shows more")
    return options


def split(argv: list[str]) -> tuple[list[str], list[str], bool]:
    """(arguments, what follows `--`, whether there was a `--`)."""
    if "--" not in argv:
        return argv, [], False
    cut = argv.index("--")
    return argv[:cut], argv[cut + 1 :], True
