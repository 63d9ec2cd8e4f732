"""What a command of the command line is, what an option is, and the options that several commands have.

A command's own options stand in its file in commands/. The reader of command lines, argparse, --help and the documentation are
made from these values.
"""

from collections.abc import Callable

from ..._typing import NamedTuple


def positive_number(text: str) -> int:
    """A number of 1 or more. Raises ValueError."""
    if not (text.isascii() and text.isdigit()) or int(text[:18]) < 1:
        raise ValueError(f"{text!r} is not a number of 1 or more")
    return int(text[:18])


def _line_count(text: str) -> int:
    """A number of lines, 0 or more. Raises ValueError."""
    return 0 if text == "0" else positive_number(text)


class Option(NamedTuple):
    """One argument of a command: an option, or a positional word if its name has no dash.

    `help` None hides the option. `metavar` names the value, and completion looks it up. `const` is the value of a flag.
    If `const` is None, the option accepts a value: `convert` converts it, and it must be in `choices`. `nargs` is as in
    argparse; "" means exactly one value. At most one option of a `group` may be given. `inherits` marks a global option
    that a command explains itself. `pair` adds a --no- form. `repeats`: it may be given again, and its attribute is a list.
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
    repeats: bool = False

    @property
    def is_word(self) -> bool:
        """True for a positional word."""
        return not self.names[0].startswith("-")

    @property
    def attribute(self) -> str:
        """The attribute of the parsed options that this option sets."""
        return self.dest or self.names[-1].lstrip("-").replace("-", "_")


class Command(NamedTuple):
    """A command: examples, options, and usage lines if they cannot be derived from the options.

    Its name, and the one line that lists of commands have, are in the table (command_table.py). `more` is the rest of its help.
    `defaults` replace defaults of options. `stray` is the hint for an unexpected word. `behind` names the arguments after `--`,
    if these are others than those before it. `takes_rest`: the first word owns all words after it. `is_alone`: the function
    receives the settings instead of a context. `creates` a store if it is missing. `saves`: it makes checkpoints, so gc may be
    due. `stays`: it never adopts the store of a moved project. `tells_faults`: it reports unreadable settings and rules itself.
    `tells_restore`: it reports an unfinished restore itself.
    """

    examples: tuple[str, ...]
    options: tuple[Option, ...]
    usage: tuple[str, ...] = ()
    defaults: dict[str, object] = {}  # noqa: RUF012 - never changed
    more: str = ""
    stray: str = ""
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


def choice(dest: str, const: object, *words: str) -> Option:
    """One of several options that set the same attribute: its names, then its help."""
    return Option(words[:-1], words[-1], dest=dest, const=const, group=dest)


JSON = flag("--json", "print one JSON object")
ASSUME_YES = flag("-y", "--yes", "do not ask")
STRICT = flag("--strict", "also exit with 3 if a program or an ignored file is missing")
DRY_RUN = flag("-n", "--dry-run", "show the plan and change nothing")
OPEN_FILES = flag("--open-files", "also change a database that a program has open; that program may overwrite the change")
REF = Option(("ref",), "the checkpoint", "REF")
NUMBER = Option(("-n",), "show at most N", "N", "number", convert=positive_number)
HUNKS = flag("-p", "--patch", "ask about each hunk, as git add -p does, and change only what you choose")
SKIP_DAMAGED = flag("--skip-damaged", "skip files with damaged content in the store")
EDITS = (
    choice("keep_edits", True, "--keep-edits", "undo only what turns have changed since then, and keep all other edits"),
    choice("keep_edits", False, "--exact", "restore the exact state (default, unless restore.keep_edits is set)"),
)
SESSION = Option(("--session",), "use this agent session: its id, or 4 characters of it (default: the newest of the project)", "ID")
MESSAGE = Option(("-m", "--message"), "give the checkpoint a label, and save even if nothing changed", "MESSAGE", default="")
PATHS = Option(("paths",), "limit the command to these files and directories", "PATH", nargs="*")
FORMS = (
    choice("form", "patch", "-p", "--patch", "show a patch in git's format, for git apply or patch -p1"),
    choice("form", "stat", "--stat", "show the number of changed lines of each file, with bars"),
    choice("form", "name-status", "--name-status", "show a letter (A, M, D, T, R) and the path of each file"),
    choice("form", "name-only", "--name-only", "show only the path of each file"),
    Option(("-U", "--unified"), "show a patch with N lines around each change (default: 3)", "N", "context", convert=_line_count),
    flag("--word-diff", "show a patch that marks changed words: [-old-]{+new+}; not for programs"),
    flag("--no-renames", "show a renamed file as one removed and one added file"),
)
HTML = Option(("--html",), "write one web page to FILE instead; needs casrewind[page]", "FILE", group="form")
NO_PROMPTS = flag("--no-prompts", "with --html: leave your prompts out of the page")
WHEN = ("auto", "always", "never")
GLOBAL = (
    Option(("-C",), "run in DIR instead of the current directory", "DIR", "directory", default="."),
    Option(("--store",), "use this store directory instead of the project's own", "DIR"),
    flag("-q", "--quiet", "show no progress, and let save and run report only problems"),
    flag("--force", "allow the home directory, / or a system directory as a project"),
    Option(("--color",), "use colours: auto, always or never", "WHEN", choices=WHEN, default="auto"),
    flag("--no-pager", "never use a pager"),
    JSON._replace(help=None),
    Option(("--typed",), None, "LINE"),
)
"""Options of every command, allowed before and after its name. `--json` is allowed if the command has it. `--typed`: the
line that a person typed in a client; a hook passes it."""
AUTO = flag("--auto", "")._replace(help=None)
"""Marks a gc or a push that casrewind starts by itself."""
_AGENTS = "claude (Claude Code), droid (Factory Droid), pi, codex, gemini, copilot, opencode, cursor, qwen or generic"
AGENT = Option(("agent",), _AGENTS, "AGENT")
