"""Every help has an example, every example is a command that is read, and no help is broken by a narrow terminal."""

import re
import shlex

import pytest

from casrewind import errors
from casrewind.cli.grammar import help as texts
from casrewind.cli.grammar.command_line import CommandLine
from casrewind.cli.grammar.command_table import ADVANCED, COMMANDS, EVERYDAY, GROUPS, load_command


def examples_in(text):
    """The examples at the end of a help, as typed."""
    return [line.strip() for line in re.split(r"^Examples?:\n", text, flags=re.MULTILINE)[1].splitlines()]


def words_of(example):
    """What the shell makes of an example: the arguments, without redirections, pipes and eval."""
    return shlex.split(re.sub(r"\s[<>|]+ ?\S+", "", example.removeprefix('eval "$(').removesuffix(')"')))


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_every_example_in_a_help_is_read(name):
    found = examples_in(texts.command_help(name, 80))
    assert found == list(load_command(name).examples) and found
    for example in found:
        program, *arguments = words_of(example)
        assert (program, CommandLine(arguments).parse_line().command) == ("casrewind", name)


def test_an_example_that_is_not_read_would_be_noticed():
    with pytest.raises(errors.UsageError):
        CommandLine(words_of("casrewind save --mesage x > y")[1:]).parse_line()


@pytest.mark.parametrize("columns", [40, 60, 80])
def test_every_help_keeps_to_the_terminal(columns):
    for name in COMMANDS:
        wide = [line for line in texts.command_help(name, columns).partition("\nExample")[0].splitlines() if len(line) > columns]
        assert [line for line in wide if len(line.split()) > 2 and not line.startswith(("usage", "  "))] == [], name
        assert columns < 80 or [line for line in texts.command_help(name, columns).splitlines() if len(line) > 80] == [], name


def test_the_first_screen_has_24_lines_and_22_commands():
    lines = texts.short_help().splitlines()
    assert len(lines) <= 24 and max(map(len, lines)) <= 80
    rows = [match[1] for line in lines if (match := re.match(r"  (\S+)  +[A-Z]", line))]
    assert rows == [name for name, listed in COMMANDS.items() if listed.group == EVERYDAY]
    named = [name for line in lines if (match := re.match(r"  [A-Z]\w+: +(.+)", line)) for name in match[1].split(", ")]
    assert len({*rows, *named}) == len(rows) + len(named) == 22
    assert {*rows, *named} <= {name for name, listed in COMMANDS.items() if listed.group != ADVANCED}
    assert "  Look:     blame, cat" in lines, "no command that shows something stands with those of the store"
    assert "help --all" in " ".join(lines) and "help --man" in " ".join(lines)


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_a_help_says_first_what_its_command_is_for(name):
    for columns in (40, 80):
        first, *_ = texts.command_help(name, columns).split("\n\n")
        assert " ".join(first.split()) == f"{COMMANDS[name].help}."


def test_all_commands_are_listed_in_groups(casrewind):
    found = casrewind("help", "--all", code=0).out
    assert re.findall(r"^(\w+):$", found, re.MULTILINE) == list(GROUPS)
    for name, row in COMMANDS.items():
        assert re.search(rf"^  {name} +{re.escape(row.help)}", found, re.MULTILINE)


@pytest.mark.parametrize("words", [["help"], ["--help"], ["-h"], []])
def test_the_first_screen(casrewind, words):
    assert casrewind(*words, code=0).out == texts.short_help()


@pytest.mark.parametrize("words", [["help", "list"], ["help", "ls"], ["list", "--help"], ["list", "-n", "3", "-h"], ["ls", "-h"]])
def test_the_help_of_a_command(casrewind, words):
    found = casrewind(*words, code=0)
    assert found.out == texts.command_help("list") and found.err == ""


def test_help_for_nothing_that_exists(casrewind):
    assert "did you mean save?" in casrewind("help", "sav", code=64).err


@pytest.mark.parametrize("words", [["version"], ["-V"], ["--version"]])
def test_the_version(casrewind, words):
    from casrewind import __version__

    assert casrewind(*words, code=0).out == f"casrewind {__version__}\n"
