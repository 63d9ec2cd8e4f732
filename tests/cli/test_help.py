"""Every --help has an example, every example in one is a command that the parser takes, and none is broken by a narrow terminal."""

import argparse
import re
import shlex

import pytest

from casrewind import errors
from casrewind.cli import parser as grammar
from casrewind.cli.options import COMMANDS


def commands():
    """{name: its parser} of every command that --help shows."""
    (found,) = [action for action in grammar.build()._actions if isinstance(action, argparse._SubParsersAction)]
    return dict(found.choices)


def examples_in(text):
    """The examples at the end of a --help, as typed."""
    (found,) = re.findall(r"^Examples?: (.+?)\s*\Z", text, re.MULTILINE | re.DOTALL)
    return " ".join(found.split()).split("; ")


def words_of(example):
    """What the shell makes of an example: the arguments, without redirections."""
    return shlex.split(re.sub(r"\s[<>]+ ?\S+", "", example))


def test_the_commands_and_their_examples_are_the_same():
    assert set(commands()) == set(COMMANDS)


@pytest.mark.parametrize("name", sorted(commands()))
def test_every_example_in_a_help_parses(name, monkeypatch):
    monkeypatch.setenv("COLUMNS", "300")
    found = examples_in(commands()[name].format_help())
    assert found == list(COMMANDS[name].examples)
    for example in found:
        program, *arguments = words_of(example)
        before, after, dashed = grammar.split(arguments)
        options = grammar.parse(before)
        assert (program, options.command) == ("casrewind", name)
        assert dashed == bool(after)


def test_an_example_that_does_not_parse_would_be_noticed():
    with pytest.raises(errors.UsageError):
        grammar.parse(words_of("casrewind save --mesage x > y")[1:])


def test_no_example_is_wider_than_a_terminal():
    assert [line for command in COMMANDS.values() for line in command.examples if len(f"Example: {line}") > 80] == []


@pytest.mark.parametrize("columns", ["40", "80", "200"])
def test_every_help_keeps_to_the_terminal(columns, monkeypatch):
    monkeypatch.setenv("COLUMNS", columns)
    for name, command in commands().items():
        text = command.format_help()
        # what cannot be broken, and the usages that are written by hand, may go beyond it
        prose = text.partition("\n\n")[2]
        wide = [line for line in prose.splitlines() if len(line) > int(columns) and len(line.split()) > 2]
        assert wide == [], name
        assert "Example" in text
