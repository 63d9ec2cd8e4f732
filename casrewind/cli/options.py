"""The table of commands. The reader of command lines, argparse, --help and the documentation are made from it.

The rows of the everyday commands are here; `options_more` has all further rows and is imported only for them.
"""

from collections.abc import Callable

from .._typing import NamedTuple

EVERYDAY, AGENTS, STORE, ADVANCED = "Everyday", "Agents", "Store", "Advanced"
GROUPS = (EVERYDAY, AGENTS, STORE, ADVANCED)


def count(text: str) -> int:
    """A number of 1 or more. Raises ValueError."""
    if not (text.isascii() and text.isdigit()) or int(text[:18]) < 1:
        raise ValueError(f"{text!r} is not a number of 1 or more")
    return int(text[:18])


def _lines(text: str) -> int:
    """A number of lines, 0 or more. Raises ValueError."""
    return 0 if text == "0" else count(text)


def _turn(text: str) -> int:
    """The number of a turn, with or without `@`. Raises ValueError."""
    return count(text.removeprefix("@"))


class Option(NamedTuple):
    """One argument of a command: an option, or a positional word if its name has no dash.

    `help` None hides the option. `metavar` names the value, and completion looks it up. `const` is the value of a flag.
    If `const` is None, the option accepts a value: `convert` converts it, and it must be in `choices`. `nargs` is as in
    argparse; "" means exactly one value. At most one option of a `group` may be given. `inherits` marks a global option
    that a command explains itself. `pair` adds a --no- form.
    """

    names: tuple[str, ...]
    help: str | None
    metavar: str | None = None
    dest: str = ""
    const: object = None
    default: object = None
    convert: Callable[[str], object] | None = None
    choices: tuple[str, ...] | None = None
    nargs: str = ""
    group: str = ""
    inherits: bool = False
    pair: bool = False

    @property
    def is_word(self) -> bool:
        """True for a positional word."""
        return not self.names[0].startswith("-")

    @property
    def attribute(self) -> str:
        """The attribute of the parsed options that this option sets."""
        return self.dest or self.names[-1].lstrip("-").replace("-", "_")


class Command(NamedTuple):
    """A command: one line of help, examples, options, and usage lines if they cannot be derived from the options.

    `more` is the rest of its help. `defaults` replace defaults of options. `stray` is the hint for an unexpected word.
    `function` is its function in commands/, as module.name; by default both have the command's name. `behind` names the
    arguments after `--`, or is "" if they are not allowed. `takes_rest`: the first word owns all words after it.
    `is_alone`: the function receives the settings instead of a context. `creates` a store if it is missing. `saves`:
    it makes checkpoints, so gc may be due. `stays`: it never adopts the store of a moved project. `tells_faults`: it
    reports unreadable settings and rules itself. `tells_restore`: it reports an unfinished restore itself.
    """

    help: str
    examples: tuple[str, ...]
    options: tuple[Option, ...]
    usage: tuple[str, ...] = ()
    defaults: dict[str, object] = {}  # noqa: RUF012 - never changed
    more: str = ""
    group: str = EVERYDAY
    aliases: tuple[str, ...] = ()
    stray: str = ""
    function: str = ""
    behind: str = ""
    takes_rest: bool = False
    is_alone: bool = False
    creates: bool = False
    saves: bool = False
    stays: bool = False
    tells_faults: bool = False
    tells_restore: bool = False


def flag(*words: str, group: str = "", inherits: bool = False) -> Option:
    """An option without a value: its names, then its help."""
    return Option(words[:-1], words[-1], const=True, default=False, group=group, inherits=inherits)


def choice(dest: str, const: str, *words: str) -> Option:
    """One of several options that set the same attribute: its names, then its help."""
    return Option(words[:-1], words[-1], dest=dest, const=const, group=dest)


JSON = flag("--json", "print one JSON object")
YES = flag("-y", "--yes", "do not ask")
DRY_RUN = flag("-n", "--dry-run", "show the plan and change nothing")
REF = Option(("ref",), "the checkpoint", "REF")
NUMBER = Option(("-n",), "show at most N", "N", "number", convert=count)
SKIP_DAMAGED = flag("--skip-damaged", "skip paths with damaged content in the store")
SESSION = Option(("--session",), "use this agent session: its id, or 4 characters of it (default: the newest of the project)", "ID")
_MESSAGE = Option(("-m", "--message"), "label of the checkpoint; saves even if nothing changed", "MESSAGE", default="")
_PATHS = Option(("paths",), "limit the command to these files and directories", "PATH", nargs="*")
_FORMS = (
    choice("form", "patch", "-p", "--patch", "a patch, as git writes it; git apply and patch -p1 accept it"),
    choice("form", "stat", "--stat", "the number of changed lines of each file, with bars"),
    choice("form", "name-status", "--name-status", "a letter (A, M, D, T, R) and the path"),
    choice("form", "name-only", "--name-only", "the path only"),
    Option(("-U", "--unified"), "a patch with N lines around each change (default: 3)", "N", "context", convert=_lines),
    flag("--word-diff", "a patch with changed words marked [-old-]{+new+}; not for programs"),
    flag("--no-renames", "show a renamed file as one removed and one added file"),
)
WHEN = ("auto", "always", "never")
GLOBAL = (
    Option(("-C",), "run in DIR instead of the current directory", "DIR", "directory", default="."),
    Option(("--store",), "use this store directory instead of the project's own", "DIR"),
    flag("-q", "--quiet", "show no progress; save and run report problems only"),
    flag("--force", "allow the home directory, / or a system directory as a project"),
    Option(("--color",), "use colours: auto, always or never", "WHEN", choices=WHEN, default="auto"),
    flag("--no-pager", "never use a pager"),
    JSON._replace(help=None),
    Option(("--typed",), None, "LINE"),
)
"""Options of every command, allowed before and after its name. `--json` is allowed if the command has it. `--typed`: the
line that a person typed in a client; a hook passes it."""
TABLE = {
    "save": Command("Save a checkpoint of the project", ("casrewind save", "casrewind save -m 'before the clean-up'"), (
        Option(("text",), "same as -m MESSAGE", "MESSAGE", nargs="?"), _MESSAGE,
        flag("--pin", "never delete this checkpoint"),
        flag("--rehash", "read every file, even if its timestamp is unchanged"), JSON,
    ), ("[-m MESSAGE] [--pin] [--rehash] [--json] [MESSAGE]",),
        stray="a label of several words needs quotes: casrewind save -m 'before the clean-up'",
        creates=True, saves=True, tells_faults=True, function="checkpoints.save"),
    "list": Command("List turns, newest first: each prompt and what it changed", ("casrewind list -n 10", "casrewind list --since 2h"), (
        NUMBER._replace(help="show at most N turns"),
        Option(("--since",), "only what was made since then: 1h, 14:30, yesterday", "WHEN"),
        Option(("--grep",), "only rows with TEXT in the prompt or label", "TEXT"),
        Option(("--session",), "only turns of this agent session (its id, or 4 characters of it) and of the ones it continues", "ID"),
        flag("--all", "every checkpoint, with safety checkpoints and other worktrees"),
        flag("--oneline", "one short line for each row"),
        flag("--reverse", "oldest first"), JSON,
    ), more="@2 names the second newest turn in other commands.", aliases=("ls",),
        stray="-n 3 shows the newest three, casrewind show @3 shows one", function="list.list_turns"),
    "show": Command(
        "Show a turn: its prompt and what it changed; or a checkpoint", ("casrewind show", "casrewind show @2 -p"), (
        REF._replace(help="a turn (@2) or a checkpoint (default: the newest turn)", nargs="?"), *_FORMS,
        choice("form", "entries", "--files", "every path that it holds, with its mode and size"), JSON),
        ("[-p | --stat | --name-status | --name-only | --files] [-U N] [--word-diff] [--json] [REF]",), {"form": ""},
        more="A turn's change is shown as --stat does, a checkpoint as --files does.", function="show.show"),
    "diff": Command(
        "Show what a turn changed, or what differs between two states",
        ("casrewind diff", "casrewind diff @2 -p", "casrewind diff 3 1 src/", "casrewind diff -- '*.py' ':!tests'"), (
        Option(("words",), "no REF: from before the newest turn to the files now. @N: the change of that turn. Another REF: from it to "
               "the files. Two: both states. A PATH limits the output. Put -- before a PATH that could be a REF", "REF | PATH",
               nargs="*"), *_FORMS, JSON,
        ), ("[-p | --stat | --name-status | --name-only] [-U N] [--word-diff] [--json] [REF [REF]] [--] [PATH ...]",), {"form": "summary"},
        behind="paths go", function="diff.diff"),
    "restore": Command(
        "Restore the files to a checkpoint, or to before a prompt",
        (
        "casrewind restore @1", "casrewind restore @1 src/app.py", "casrewind restore 10m --dry-run", "casrewind restore 2h --to ../before",
        ), (
        Option(("ref",), "the checkpoint; without it, on a terminal, the picker opens", "REF", nargs="?"), _PATHS,
        choice("what", "code", "--code", "the files (default)"),
        choice("what", "chat", "--chat", "the conversation"),
        choice("what", "both", "--both", "files and conversation"), DRY_RUN, SKIP_DAMAGED, YES, JSON,
        Option(("--to",), "write the checkpoint into DIR, which must be new or empty", "DIR"),
        choice("resume", "continue", "--continue", "finish an interrupted restore"),
        choice("resume", "abort", "--abort", "reverse an interrupted restore"),
        ), (
        "[--code | --chat | --both] [-n] [--skip-damaged] [-y] [--json] REF [--] [PATH ...]",
        "[--skip-damaged] [--json] REF --to DIR", "[--json] (--continue | --abort)",
        ), {"what": "code"}, more="Saves the current state first, so casrewind undo can reverse it. On a terminal it shows the plan and "
        "asks.",
        behind="paths go", saves=True, tells_restore=True),
    "back": Command(
        "Go back to before a prompt: files and conversation", ("casrewind back", "casrewind back 3", "casrewind back 2 --code"), (
        Option(("number",), "the turn, as casrewind list numbers it (default: the newest prompt of the conversation)", "N",
               convert=_turn, nargs="?"),
        choice("what", "code", "--code", "the files only"),
        choice("what", "chat", "--chat", "the conversation only"),
        choice("what", "both", "--both", "files and conversation (default)"), SESSION,
        flag("--in-place", "cut the session itself and keep a copy; its client must not run"),
        flag("--copy", "copy the removed prompts to the clipboard"),
        flag("--nearest", "if the prompt has no checkpoint, use the nearest older one"), YES, JSON,
    ), (), {"what": "both"}, more="The conversation before the prompt becomes a new session; the old session is kept.",
        saves=True, tells_restore=True),
    "revert": Command("Reverse what one turn changed, and nothing else", ("casrewind revert @2", "casrewind revert @2 src/till.py"), (
        REF._replace(help="the turn, as in @2"), _PATHS,
        flag("--shared", "also paths that another turn may have changed at the same time"), DRY_RUN, YES, JSON,
    ), more="Keeps what you edited since, and what was not captured before the turn. To reverse it, type casrewind undo.",
        behind="paths go", saves=True, function="restore.revert"),
    "undo": Command("Undo the newest restore", ("casrewind undo", "casrewind undo --list"), (
        DRY_RUN, flag("--list", "list the restores that can be undone"),
        flag("--all", "also undo paths that were edited since the restore"),
        flag("--older", "even if a newer back changed only a conversation"), YES, JSON,
    ), more="Keeps what you edited since. It shows the plan and asks. Without a terminal it needs --yes.",
        function="restore.undo", saves=True, tells_restore=True),
    "redo": Command("Redo the newest undo", ("casrewind redo",), (
        DRY_RUN, flag("--list", "list the undos that can be redone"), YES, JSON), function="restore.redo", saves=True),
    "log": Command("Show what changed turn by turn, or the history of a path", ("casrewind log -n 3", "casrewind log src/till.py -p"), (
        Option(("path",), "a file, directory or pattern (default: everything, turn by turn)", "PATH", nargs="?"),
        NUMBER, flag("--all", "of a PATH: include safety checkpoints"),
        choice("form", "patch", "-p", "--patch", "show each change as a patch"),
        choice("form", "stat", "--stat", "show the number of changed lines of each file"), JSON._replace(group="form"),
    ), ("[-n N] [--all] [-p | --stat | --json] [--] [PATH]",), {"form": ""}, more="Each change of a PATH names the turn that made it.",
        behind="the path goes"),
    "cat": Command(
        "Print a file as it was at a checkpoint", ("casrewind cat @1:README.md > README.old",),
        (Option(("file",), "a checkpoint and a path relative to the current directory", "REF:PATH"),),
        more="For a link, prints its target. A label may contain colons: PATH begins after the first colon that follows a "
        "REF.", function="checkpoints.cat"),
    "run": Command("Save, run a command, save again", ("casrewind run -m 'new formatter' -- make format",), (
        _MESSAGE._replace(help="label for both checkpoints"),
        Option(("words",), "the command to run", "COMMAND ...", nargs="*"),
    ), ("[-m MESSAGE] [--] COMMAND ...",), more="Exits with the exit code of the command.", behind="the command goes", takes_rest=True,
        creates=True, saves=True, tells_faults=True, function="checkpoints.run"),
    "status": Command("Check how the project is protected", ("casrewind status",), (JSON,), tells_faults=True, tells_restore=True),
}  # fmt: skip
"""The everyday commands."""
PICK = "pick"
PICKER = Command("Choose a checkpoint on the screen.", (), (), saves=True, tells_restore=True)
"""Runs on a terminal when no command is named."""
HELP, VERSION = "help", "version"
