"""The commands that a person may type in a client, and how our own words name a command to that person.

The danger prevented here: a person's prompt, or a line of a file, is shown with other words than it has. So a command is spelled where
our words are made, and no output is searched for it afterwards. The hint of an error is all ours: it is spelled as a whole.
"""

import os

from . import launch

YES, NO = "yes", "no"
"""The answers to a plan."""
_RESTORES = {
    "--code": False, "--chat": False, "--both": False, "--keep-edits": False, "--exact": False, "-n": False, "--dry-run": False,
    "--skip-damaged": False, "-y": False, "--yes": False,
}  # fmt: skip
KNOWN: dict[str, dict[str, bool]] = {
    "back": {
        "--code": False, "--chat": False, "--both": False, "--keep-edits": False, "--exact": False, "--nearest": False, "--copy": False,
        "-n": False, "--dry-run": False, "-y": False, "--yes": False,
    },
    "diff": {"--stat": False, "-p": False, "--patch": False, "--name-status": False, "--since-review": False},
    "doctor": {},
    "jump": {name: False for name in _RESTORES if name not in ("--code", "--chat", "--both")},
    "help": {},
    "list": {
        "-n": True, "--all": False, "--remote": False, "--session": True, "--since": True, "--grep": True, "--oneline": False,
        "--reverse": False,
    },
    "log": {"-n": True, "--all": False, "-p": False, "--patch": False},
    "pin": {},
    "redo": {"-n": False, "--dry-run": False, "--list": False, "-y": False, "--yes": False},
    "restore": {**_RESTORES, "--continue": False, "--abort": False, "--open-files": False},
    "revert": {
        "--session": True, "--theirs": False, "--markers": False, "--shared": False, "--running": False, "--known": False,
        "--skip-damaged": False, "-n": False, "--dry-run": False, "-y": False, "--yes": False,
    },
    "review": {"--done": False, "-p": False, "--patch": False, "--stat": False, "--name-status": False},
    "save": {"-m": True, "--pin": False, "--rehash": False},
    "show": {"-p": False, "--patch": False, "--stat": False, "--name-status": False, "--name-only": False},
    "status": {},
    "undo": {"--all": False, "--older": False, "-n": False, "--dry-run": False, "--list": False, "-y": False, "--yes": False},
    "unpin": {},
    "verify": {"--quick": False},
}
"""The commands that a person may type in a client, and their options. True: the option needs a value."""
PLANS = frozenset({"restore", "jump", "back", "revert", "undo", "redo"})
"""The commands that change files. What they would do is shown first."""


def as_typed(command: str) -> str:
    """A command of ours as a person types it here: `casrewind undo`, or `/casrewind undo` in a client, if it can be typed there. Words
    behind the command may say what it does."""
    return f"{_typed_name(command.split())} {command}"


def advice_as_typed(text: str) -> str:
    """Words of ours, with each command in them as `as_typed` has it. They are no words of a person, and no content of a file."""
    import re  # late: most commands print no error

    return re.sub(r"(?<![\w/.:'\"-])casrewind (?=([a-z]+\b[^;,:()]*))", lambda found: f"{_typed_name(found[1].split())} ", text)


def in_terminal(words: str) -> str:
    """Words of ours about what nobody can type in a client."""
    return f"in a terminal, {words}" if os.environ.get(launch.TYPED_NAME) else words


def _typed_name(words: list[str]) -> str:
    can_be_typed = words[0] in (YES, NO) or (words[0] in KNOWN and refused_option(words) is None)
    return (os.environ.get(launch.TYPED_NAME) if can_be_typed else None) or "casrewind"


def words_before_dashes(words: list[str]) -> list[str]:
    """The words in front of the dashes."""
    return words[: words.index("--")] if "--" in words else words


def refused_option(words: list[str]) -> str | None:
    """The first option that is not allowed in a prompt, or None."""
    rest = iter(words_before_dashes(words)[1:])
    for word in rest:
        name, attached = (word.partition("=")[0], "=" in word) if word.startswith("--") else (word[:2], len(word) > 2)
        if not word.startswith("-") or word == "-":
            continue
        takes = KNOWN[words[0]].get(name)
        if takes is None or (attached and not takes):
            return name
        if takes and not attached:
            next(rest, None)
    return None
