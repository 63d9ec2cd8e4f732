"""Write docs/casrewind.1, the manual page, from the parser. Run it after a change to the parser.

`python docs/generate_man.py` writes the file; with `--check` it only exits with 1 when the file is stale.
"""

import argparse
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import generate_cli

PAGE = Path(__file__).with_name("casrewind.1")
STORES = "~/.local/share/casrewind/stores, on macOS ~/Library/Application Support/casrewind/stores"
CONFIGURATION = "~/.config/casrewind/config.toml, on macOS ~/Library/Application Support/casrewind/config.toml"
VARIABLES = {
    "CASREWIND_HOME": "the directory under which stores are kept",
    "NO_COLOR": "no colours, if set to anything",
    "FORCE_COLOR, CLICOLOR_FORCE": "colours even if the output is not a terminal, if set to anything but 0",
    "XDG_DATA_HOME, XDG_CONFIG_HOME": "where stores and the configuration file are",
}


def page() -> str:
    """The whole page."""
    os.environ.update(COLUMNS="1000", NO_COLOR="1")
    from casrewind import __version__
    from casrewind.cli.grammar import argparse_form as parser

    top = parser.build_parser()
    return "\n".join([*sections(top, __version__), ""])


def sections(top: argparse.ArgumentParser, version: str) -> Iterator[str]:
    """The lines of the page."""
    from casrewind.cli.grammar.command_table import COMMANDS, load_command

    yield f'.TH CASREWIND 1 "" "casrewind {version}" "User Commands"'
    yield from (".SH NAME", r"casrewind \- " + roff(top.description.rstrip(".")))
    yield from (".SH SYNOPSIS", *usage(top))
    yield from (".SH DESCRIPTION", roff(top.description))
    yield from (".SH OPTIONS", *arguments(top))
    yield ".SH COMMANDS"
    for name, command in commands(top).items():
        yield f".SS {roff(name)}"
        yield from (*usage(command), ".PP", roff(command.description), *arguments(command))
        examples = load_command(name).examples
        yield from (".PP", f"Example{'s' * (len(examples) > 1)}:", ".PP", ".RS 4", ".nf", *map(roff, examples), ".fi", ".RE")
    references = generate_cli.HEAD.partition("## Names for a checkpoint (REF)")[2].partition("## JSON")[0]
    yield ".SH REFERENCES"
    for part in references.replace("## Paths", "").strip().split("\n\n"):
        if part.startswith("| REF |"):
            for names, meaning in re.findall(r"^\| (`.+`.*) \| (.+) \|$", part, re.MULTILINE):
                yield from (".TP", rf"\fB{roff(names.replace('`', ''))}\fR", roff(meaning.replace("`", "")))
        elif part.strip():
            yield from (".PP", roff(" ".join(part.replace("`", "").replace("*pathspec*", "pathspec").split())))
    yield ".SH EXIT STATUS"
    for code, meaning in re.findall(r"^\| (\d+) \| (.+) \|$", generate_cli.CODES, re.MULTILINE):
        yield from (".TP", rf"\fB{code}\fR", roff(meaning.replace("`", "")))
    yield ".PP"
    yield roff(" ".join(generate_cli.CODES.rpartition("|\n")[2].replace("`", "").split()))
    yield ".SH ENVIRONMENT"
    for name, meaning in VARIABLES.items():
        yield from (".TP", rf"\fB{roff(name)}\fR", roff(meaning))
    yield from (".SH FILES", ".TP", roff(STORES), "the stores, one for each project", ".TP", roff(CONFIGURATION), "the configuration")


def commands(top: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    """Every command with its parser."""
    from casrewind.cli.grammar.command_table import COMMANDS

    for action in top._actions:  # noqa: SLF001 - argparse has no other door to its commands
        if isinstance(action, argparse._SubParsersAction):  # noqa: SLF001
            aliases = {alias for command in COMMANDS.values() for alias in command.aliases}
            return {name: command for name, command in action.choices.items() if name not in aliases}
    return {}


def usage(parser: argparse.ArgumentParser) -> Iterator[str]:
    """How it is called, a line each."""
    text = parser.format_usage().removeprefix("usage: ")
    forms = re.sub(r"\n\s+(?!\s*casrewind )", " ", text.strip()).split("\n")
    for form in forms:
        yield from (".PP", rf"\fB{roff(form.strip())}\fR")


def arguments(parser: argparse.ArgumentParser) -> Iterator[str]:
    """What each argument is."""
    for action in parser._actions:  # noqa: SLF001 - as above
        if action.help == argparse.SUPPRESS or isinstance(action, argparse._SubParsersAction):  # noqa: SLF001
            continue
        if isinstance(action, argparse._HelpAction) and parser.prog != "casrewind":  # noqa: SLF001 - once is enough
            continue
        choices = "{" + ",".join(map(str, action.choices)) + "}" if action.choices else ""
        value = "" if action.nargs == 0 else str(action.metavar or choices or action.dest.upper())
        names = [f"{name} {value}".strip() for name in action.option_strings] or [value]
        yield from (".TP", rf"\fB{roff(', '.join(names))}\fR", roff(action.help or ""))


def roff(text: str | None) -> str:
    """Text no character of which the formatter takes for an order."""
    plain = (text or "").replace("\\", r"\e").replace("-", r"\-").replace("~", r"\(ti").replace("'", r"\(aq").replace("^", r"\(ha")
    return rf"\&{plain}" if plain.startswith(".") else plain


if __name__ == "__main__":
    if sys.argv[1:] == ["--check"]:
        sys.exit(PAGE.read_text("utf-8") != page())
    PAGE.write_text(page(), "utf-8")
