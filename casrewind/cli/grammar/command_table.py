"""The table of commands: the name of each, its line in lists of commands, and its module in commands/.

The table imports no command. A command line imports the one that it names: all of them cost more than an unchanged save.
"""

import sys
from collections.abc import Callable

from ..._typing import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import ModuleType

    from .options import Command

EVERYDAY, LOOK, AGENTS, STORE, REMOTE, ADVANCED = "Everyday", "Look", "Agents", "Store", "Remote", "Advanced"
GROUPS = (EVERYDAY, LOOK, AGENTS, STORE, REMOTE, ADVANCED)


class Listed(NamedTuple):
    """What lists of commands show of one: its purpose in one line, its group, and its other names.

    The short help has all of EVERYDAY, and of other groups the names of those that are `common`. Completion does not offer
    those of ADVANCED. The full help has all.
    """

    help: str
    group: str = EVERYDAY
    aliases: tuple[str, ...] = ()
    common: bool = False


COMMANDS = {
    "save": Listed("Save a checkpoint of the project"),
    "list": Listed("List turns, newest first: each prompt and what it changed", aliases=("ls",)),
    "show": Listed("Show a checkpoint, or a turn: its prompt and what it changed"),
    "diff": Listed("Show what a turn changed, or what differs between two states"),
    "restore": Listed("Restore files as they were at a checkpoint or before a prompt"),
    "back": Listed("Take files and conversation back to before a prompt"),
    "revert": Listed("Reverse what turns changed, and nothing else"),
    "undo": Listed("Undo the newest restore"),
    "redo": Listed("Redo the newest undo"),
    "log": Listed("Show what changed turn by turn, or the history of a path"),
    "review": Listed("Show what changed since you last looked, and by whom", LOOK),
    "blame": Listed("Show who wrote each line of a file: which turn, or you", LOOK, common=True),
    "cat": Listed("Print a file as it was at a checkpoint", LOOK, common=True),
    "run": Listed("Run a command, and save before and after it"),
    "watch": Listed("Save after each burst of edits, in any editor", AGENTS),
    "status": Listed("Check how the project is protected"),
    "install": Listed("Turn on automatic checkpoints for an agent", AGENTS, common=True),
    "uninstall": Listed("Turn off automatic checkpoints for an agent", AGENTS, common=True),
    "doctor": Listed("Check that the hooks of each agent work", AGENTS, common=True),
    "take": Listed("Bring back changes from a directory that restore --to wrote", AGENTS),
    "bisect": Listed("Find the turn after which a command fails", LOOK),
    "pin": Listed("Keep a checkpoint forever, and label it", STORE, common=True),
    "unpin": Listed("Let gc delete a pinned or labelled checkpoint", STORE),
    "include": Listed("Protect files that git ignores", STORE, common=True),
    "exclude": Listed("Stop protecting files: the reverse of include", STORE),
    "why": Listed("Show which rule decides that a path is captured or ignored", STORE),
    "gc": Listed("Delete old checkpoints and free their space", STORE),
    "du": Listed("Show what uses the space of the store", STORE),
    "verify": Listed("Check every checkpoint in the store", STORE),
    "attest": Listed("Print a proof of what was done, for others to check", STORE),
    "purge": Listed("Remove a file or a text from every checkpoint", STORE),
    "stores": Listed("List every store: project, size, last use", ADVANCED),
    "config": Listed("Show every setting, its value and its source, or set one", STORE, common=True),
    "remote": Listed("Show, add, check or remove the remote of push and pull", REMOTE, common=True),
    "push": Listed("Send the new checkpoints to the remote", REMOTE, common=True),
    "pull": Listed("Fetch the checkpoints of other machines from the remote", REMOTE),
    "clone": Listed("Make a new project from a checkpoint on a remote", REMOTE),
    "receipt": Listed("Show what came from another machine, and what is missing here", REMOTE),
    "export": Listed("Write checkpoints to standard output", REMOTE),
    "import": Listed("Read the checkpoints that export wrote", REMOTE),
    "jump": Listed("Restore files and conversation, like restore --both", ADVANCED),
    "rewrite-chat": Listed("Shorten a conversation in its own session", ADVANCED),
    "adopt": Listed("Take over the checkpoints of a moved project", ADVANCED),
    "at": Listed("Show which checkpoint an entry of a session has", ADVANCED),
    "statusline": Listed("Print one line for the status line of an agent's client", ADVANCED),
    "completion": Listed("Print the shell completion script", ADVANCED),
    "help": Listed("Show help for one command or for all", ADVANCED),
    "version": Listed("Show the version", ADVANCED),
}
"""Every command, in the order of the help."""
ALIASES = {alias: name for name, row in COMMANDS.items() for alias in row.aliases}
HELP, VERSION = "help", "version"
PICK = "pick"
"""The command that runs on a terminal without a name. Nobody types it, so the table does not have it."""


def load_command(name: str) -> "Command":
    """The options and properties of a command. Imports its module."""
    found: Command = _import_module(name).COMMAND
    return found


def load_function(name: str) -> Callable[..., int]:
    """The function of a command. Imports its module."""
    found: Callable[..., int] = _import_module(name).run
    return found


def _import_module(name: str) -> "ModuleType":
    """The module of a command, which has its name. It is imported without importlib: that imports `warnings`."""
    word = "import_" if name == "import" else name.replace("-", "_")
    place = f"{__package__.rpartition('.')[0]}.commands.{word}"
    __import__(place)
    return sys.modules[place]
