"""Checks of options that several benchmarks have. `parser.error` ends the program."""

import os


def refuse_too_few(parser, given, **least):
    """Refuse an option whose number is below the one given here by its name."""
    for name, number in least.items():
        if getattr(given, name) < number:
            parser.error(f"--{name}: {getattr(given, name)} is too few, {number} or more")


def refuse_missing_tree(parser, given):
    """Refuse a `tree` that is no directory."""
    if given.tree is not None and not os.path.isdir(given.tree):
        parser.error(f"{given.tree}: no such directory")
