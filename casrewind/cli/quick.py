"""The command lines that are typed, and run by scripts, again and again, understood without argparse.

argparse and what it imports take a fifth of a save in which nothing changed. So the plain forms of save, restore and list are
read from tables here, and everything else, whatever is wrong or unusual, goes to the grammar (parser.py). A test holds
what is understood here equal to what the grammar makes of it.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse

_ALWAYS = {"directory": ".", "store": None, "quiet": False, "force": False, "json": False}
_GLOBAL = {"-q": ("quiet", True), "--quiet": ("quiet", True), "--force": ("force", True)}
_PLACES = {"-C": "directory", "--store": "store"}
_DEFAULTS: dict[str, dict[str, object]] = {
    "save": {"message": "", "pin": False, "rehash": False},
    "list": {"number": None, "session": None, "all": False},
    "restore": {"ref": None, "what": "code", "to": None, "resume": None, "dry_run": False, "skip_damaged": False, "yes": False},
}
_FLAGS: dict[str, dict[str, tuple[str, object]]] = {
    "list": {"--all": ("all", True), "--json": ("json", True)},
    "save": {"--pin": ("pin", True), "--rehash": ("rehash", True), "--force": ("force", True), "--json": ("json", True)},
    "restore": {
        "-y": ("yes", True), "--yes": ("yes", True), "--dry-run": ("dry_run", True), "--json": ("json", True),
        "--skip-damaged": ("skip_damaged", True),
    },
}  # fmt: skip
_VALUES = {"save": {"-m": "message"}, "list": {"-n": "number", "--session": "session"}, "restore": {}}
_NUMBERS = frozenset({"number"})
"""Values that are numbers of 1 or more."""


class Options:
    """What was asked for, with the attributes of the grammar's Namespace."""

    def __init__(self, given: dict[str, object]) -> None:
        """`given` become the attributes."""
        self.__dict__.update(given)


def read(argv: list[str]) -> "tuple[argparse.Namespace, list[str], bool]":
    """(the options in `argv`, what follows `--`, whether there was a `--`). Raises UsageError, or exits, as the grammar does."""
    found = _plainly(argv)
    if found is not None:
        return found, [], False  # type: ignore[return-value]  # it has these attributes, too
    from . import parser as grammar

    before, after, dashed = grammar.split(argv)
    return grammar.parse(before), after, dashed


def _plainly(argv: list[str]) -> Options | None:
    """The options in a plain command line; None for what only the grammar understands."""
    given: dict[str, object] = dict(_ALWAYS)
    flags: dict[str, tuple[str, object]] = dict(_GLOBAL)
    values: dict[str, str] = dict(_PLACES)
    words = iter(argv)
    for word in words:
        if word in flags:
            name, value = flags[word]
            given[name] = value
        elif word in values:
            following = next(words, "-")
            if following.startswith("-"):
                return None
            given[values[word]] = following
            if values[word] in _NUMBERS:
                if not (following.isascii() and following.isdigit()) or not int(following[:18]):
                    return None
                given[values[word]] = int(following[:18])
        elif word.startswith("-"):
            return None
        elif "command" not in given:
            if word not in _DEFAULTS:
                return None
            given |= {"command": word, **_DEFAULTS[word]}
            flags, values = _FLAGS[word], _VALUES[word]
        elif given.get("ref", word) is None:
            given["ref"] = word
        else:
            return None
    return Options(given) if "command" in given else None
