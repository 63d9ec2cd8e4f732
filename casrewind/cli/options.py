"""The table of commands, and the reader of command lines. argparse, --help and the documentation are made from the same table.

argparse and its imports take a fifth of a save in which nothing changed, so no command line is read with it. The rows of the
everyday commands are here; `options_more` has the others and is imported only for them.
"""

from collections.abc import Callable, Iterable

from .. import errors
from .._typing import TYPE_CHECKING, Any, NamedTuple

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


class Option(NamedTuple):
    """One argument of a command: an option, or a positional word if its name has no dash.

    `help` None hides the option. `metavar` stands for the value; completion looks it up. `const` is the value that a flag sets;
    None means that the option takes a value, which `convert` converts and which must be in `choices`. `nargs` is as in argparse,
    "" means exactly one. At most one option of a `group` may be given. `inherits` marks a global option that a command explains
    in its own words. `pair` adds a --no- form.
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
        """The attribute of the parsed options that it sets."""
        return self.dest or self.names[-1].lstrip("-").replace("-", "_")


class Command(NamedTuple):
    """A command: one line of help, examples, its options, and usage lines if they cannot be derived from the options.

    `more` is the rest of its help. `defaults` replace defaults of options. `stray` is the hint for a word too many. `function` is
    its function in commands/, as module.name; without it both have the command's name. `behind` names what may follow `--`, "" if
    nothing may. `takes_rest`: everything after the first word belongs to that word. `is_alone`: it gets the settings instead of a
    workspace. `creates` a store where none exists. `saves`: it makes checkpoints, so gc may be due. `stays`: it never follows a
    store that was left at another path. `tells_faults`: it reports unreadable settings and rules itself; `tells_restore`:
    likewise an unfinished restore.
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
SKIP_DAMAGED = flag("--skip-damaged", "leave paths alone whose stored content is damaged")
SESSION = Option(("--session",), "use this agent session (default: the newest of the project)", "ID")
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
)
"""Options of every command, accepted before and after its name. `--json` is accepted if the command has it."""
TABLE = {
    "save": Command("Save a checkpoint of the project", ("casrewind save", "casrewind save -m 'before the clean-up'"), (
        Option(("text",), "same as -m MESSAGE", "MESSAGE", nargs="?"), _MESSAGE,
        flag("--pin", "never forget this checkpoint"),
        flag("--rehash", "read every file, even if its timestamp is unchanged"), JSON,
    ), ("[-m MESSAGE] [--pin] [--rehash] [--json] [MESSAGE]",),
        stray="a label of several words needs quotes: casrewind save -m 'before the clean-up'",
        creates=True, saves=True, tells_faults=True, function="checkpoints.save"),
    "list": Command("List checkpoints, newest first", ("casrewind list -n 10", "casrewind list --since 2h --grep parser"), (
        NUMBER,
        Option(("--since",), "only checkpoints made since then: 1h, 14:30, yesterday", "WHEN"),
        Option(("--grep",), "only checkpoints whose label or prompt contains TEXT", "TEXT"),
        Option(("--session",), "only checkpoints of this agent session and of the ones it continues", "ID"),
        flag("--all", "include safety checkpoints and other worktrees"),
        flag("--oneline", "one short line for each checkpoint"),
        flag("--reverse", "oldest first"), JSON,
    ), aliases=("ls",), stray="-n 3 shows the newest three, casrewind show 3 shows row 3", function="checkpoints.list_checkpoints"),
    "show": Command(
        "Show one checkpoint and the files in it, or with -p its change", ("casrewind show", "casrewind show 3 -p"), (
        REF._replace(help="the checkpoint (default: last)", nargs="?", default="last"), *_FORMS, JSON),
        ("[-p | --stat | --name-status | --name-only] [-U N] [--word-diff] [--json] [REF]",), {"form": "entries"},
        function="checkpoints.show"),
    "diff": Command(
        "Show what changed since a checkpoint, or between two",
        ("casrewind diff", "casrewind diff 3 last -p src/", "casrewind diff -- '*.py' ':!tests'"), (
        Option(("words",), "no REF: last checkpoint against the files; one: that checkpoint against the files; two: both "
               "checkpoints. A PATH limits the output; put -- before a PATH that could be a REF", "REF | PATH", nargs="*"), *_FORMS, JSON,
        ), ("[-p | --stat | --name-status | --name-only] [-U N] [--word-diff] [--json] [REF [REF]] [--] [PATH ...]",), {"form": "summary"},
        behind="paths go", function="checkpoints.diff"),
    "restore": Command(
        "Make the files what they were at a checkpoint",
        ("casrewind restore last", "casrewind restore 10m src/app.py", "casrewind restore 3 -n", "casrewind restore 3 --to ../before"), (
        Option(("ref",), "the checkpoint; without it, on a terminal, the picker opens", "REF", nargs="?"), _PATHS,
        choice("what", "code", "--code", "the files (default)"),
        choice("what", "chat", "--chat", "the conversation"),
        choice("what", "both", "--both", "files and conversation"), DRY_RUN, SKIP_DAMAGED, YES, JSON,
        Option(("--to",), "write the checkpoint into DIR, which must be new or empty", "DIR"),
        choice("resume", "continue", "--continue", "finish an interrupted restore"),
        choice("resume", "abort", "--abort", "take an interrupted restore back"),
        ), (
        "[--code | --chat | --both] [-n] [--skip-damaged] [-y] [--json] REF [--] [PATH ...]",
        "[--skip-damaged] [--json] REF --to DIR", "[--json] (--continue | --abort)",
        ), {"what": "code"}, more="The current state is saved first, so casrewind undo can take every restore back.",
        behind="paths go", saves=True, tells_restore=True),
    "back": Command(
        "Go back to before a prompt: files and conversation", ("casrewind back", "casrewind back 2 --code"), (
        Option(("number",), "the Nth newest prompt (default: 1)", "N", default=1, convert=count, nargs="?"),
        choice("what", "code", "--code", "the files only"),
        choice("what", "chat", "--chat", "the conversation only"),
        choice("what", "both", "--both", "files and conversation (default)"), SESSION,
        flag("--in-place", "cut the session itself and keep a copy; its client must not run"),
        flag("--copy", "copy the removed prompts to the clipboard"),
        flag("--nearest", "if the prompt has no checkpoint, use the nearest older one"), YES, JSON,
    ), (), {"what": "both"}, more="The conversation before the prompt becomes a new session; the old session is kept.",
        saves=True, tells_restore=True),
    "undo": Command("Undo the newest restore", ("casrewind undo", "casrewind undo --list"), (
        DRY_RUN, flag("--list", "list the restores that can be undone"),
        flag("--all", "also undo paths that were edited since the restore"), YES, JSON,
    ), more="Keeps what was edited since. On a terminal it shows the plan and asks.",
        function="restore.undo", saves=True, tells_restore=True),
    "redo": Command("Redo the newest undo", ("casrewind redo",), (
        DRY_RUN, flag("--list", "list the undos that can be redone"), YES, JSON), function="restore.redo", saves=True),
    "log": Command("List the checkpoints in which a path changed", ("casrewind log src/till.py -n 3 -p",), (
        Option(("path",), "a file, directory or pattern; . in the top directory: every change", "PATH", nargs="?"),
        NUMBER, flag("--all", "include safety checkpoints"),
        flag("-p", "--patch", "show each change as a patch", group="form"), JSON._replace(group="form"),
    ), ("[-n N] [--all] [-p | --json] [--] PATH",), behind="the path goes"),
    "cat": Command(
        "Print a file as it was at a checkpoint", ("casrewind cat prev:README.md > README.old",),
        (Option(("file",), "a checkpoint and a path relative to the current directory", "REF:PATH"),),
        more="Of a link, its target. A label may contain colons: the first colon counts that follows a REF.", function="checkpoints.cat"),
    "run": Command("Save, run a command, save again", ("casrewind run -m 'new formatter' -- make format",), (
        _MESSAGE._replace(help="label for both checkpoints"),
        Option(("words",), "the command to run", "COMMAND ...", nargs="*"),
    ), ("[-m MESSAGE] [--] COMMAND ...",), more="Exits as the command does.", behind="the command goes", takes_rest=True,
        creates=True, saves=True, tells_faults=True, function="checkpoints.run"),
    "status": Command("Check how the project is protected", ("casrewind status",), (JSON,), tells_faults=True, tells_restore=True,
        function="maintenance.status"),
}  # fmt: skip
"""The everyday commands."""
PICK = "pick"
PICKER = Command("Choose a checkpoint on the screen.", (), (), saves=True, tells_restore=True)
"""What runs on a terminal when no command is named."""
HELP, VERSION = "help", "version"


class ParsedOptions:
    """The options of a command line, as attributes. `rest` is what follows `--`; `dashed` is True if there was a `--`."""

    def __init__(self, given: dict[str, object]) -> None:
        """`given` become the attributes."""
        self.__dict__.update(given)

    if TYPE_CHECKING:  # the attributes come from the table

        def __getattr__(self, name: str) -> Any: ...
        def __setattr__(self, name: str, value: object) -> None: ...


def find(name: str) -> tuple[str, Command] | None:
    """(name, command) of a command or an alias; None if there is no such command."""
    if name in TABLE:
        return name, TABLE[name]
    from .options_more import ALIASES, COMMANDS

    name = ALIASES.get(name, name)
    return (name, COMMANDS[name]) if name in COMMANDS else None


def read(argv: list[str]) -> ParsedOptions:
    """The options in a command line. Raises UsageError if no command accepts it."""
    return _Reader(argv).read()


class _Reader:
    """Reads one command line from left to right."""

    def __init__(self, argv: list[str]) -> None:
        cut = argv.index("--") if "--" in argv else len(argv)
        self._words, self._behind, self._dashed = argv[:cut], argv[cut + 1 :], cut < len(argv)
        self._given = _defaults(GLOBAL)
        self._known = _by_name(GLOBAL)
        self._chosen: dict[str, str] = {}
        self._name: str | None = None
        self._command: Command | None = None
        self._places: list[str] = []

    def read(self) -> ParsedOptions:
        words = self._words
        while words:
            word = words.pop(0)
            if word in ("-h", "--help"):
                return ParsedOptions({**self._given, "command": HELP, "topic": self._name, "all": False, "rest": [], "dashed": False})
            if word in ("-V", "--version") and self._command is None:
                return ParsedOptions({**self._given, "command": VERSION, "rest": [], "dashed": False})
            if self._is_option(word):
                self._read_option(word)
            elif self._command is None:
                self._start(word)
            else:
                self._places.append(word)
                if self._command.takes_rest:
                    self._places += words
                    words.clear()
        self._given |= {"command": self._name, "rest": self._behind, "dashed": self._dashed}
        self._finish()
        return ParsedOptions(self._given)

    def _start(self, word: str) -> None:
        """Begin the options of the command that `word` names."""
        found = find(word)
        if found is None:
            from .options_more import unknown_command

            raise errors.UsageError(unknown_command(word))
        self._name, self._command = found
        self._known = _by_name((*GLOBAL, *self._command.options))
        self._given = {**_defaults(self._command.options), **self._command.defaults, **self._given}

    def _is_option(self, word: str) -> bool:
        """True if a word is an option and not a word or a value."""
        if not word.startswith("-") or word == "-":
            return False
        if word in self._known or word[:2] in self._known or word.partition("=")[0] in self._known:
            return True
        return " " not in word and not _is_negative(word)

    def _read_option(self, word: str) -> None:
        name, equals, value = word.partition("=")
        if word in self._known:
            self._set(word, None)
        elif equals and name in self._known:
            self._set(name, value)
        elif not word.startswith("--") and word[:2] in self._known:
            self._read_short(word)
        else:
            from .options_more import unknown_option

            raise errors.UsageError(unknown_option(name, self._name, self._known))

    def _read_short(self, word: str) -> None:
        """Short options in one word: -yn, -n3."""
        while True:
            option = self._known[word[:2]]
            if option.const is None:
                self._set(word[:2], word[2:])
                return
            self._set(word[:2], None)
            word = "-" + word[2:]
            if word == "-":
                return
            if word[:2] not in self._known:
                from .options_more import unknown_option

                raise errors.UsageError(unknown_option(word[:2], self._name, self._known))

    def _set(self, name: str, value: str | None) -> None:
        """Set an option, whose value is the next word if None is given."""
        option = self._known[name]
        other = self._chosen.setdefault(option.group, name) if option.group else name
        if self._known[other] != option:
            raise errors.UsageError(f"{other} and {name} exclude each other")
        if option.pair or option.const is not None:
            if value is not None:
                raise errors.UsageError(f"{name} takes no value: {value!r}")
            self._given[option.attribute] = not name.startswith("--no-") if option.pair else option.const
            return
        if value is None:
            if not self._words or self._is_option(self._words[0]):
                raise errors.UsageError(f"{name} needs a value: {name} {option.metavar or '{' + ','.join(option.choices or ()) + '}'}")
            value = self._words.pop(0)
        self._given[option.attribute] = _converted(option, name, value)

    def _finish(self) -> None:
        """Put words at their places, and check what only a complete line shows."""
        command, words = self._command, self._places
        if command is None:
            if self._dashed:
                raise errors.UsageError(f"no command before --; {_SEE.format('')}")
            if self._given["json"]:
                raise errors.UsageError(f"--json needs a command; {_SEE.format('')}")
            return
        name = self._name
        if self._given["json"] and not any(option.attribute == "json" for option in command.options):
            raise errors.UsageError(f"{name} has no --json; {_SEE.format(f'{name} ')}")
        if self._dashed and not command.behind:
            raise errors.UsageError(f"{name}: unexpected arguments after --; {_SEE.format(f'{name} ')}")
        for option in (option for option in command.options if option.is_word):
            if option.nargs == "*" or (option.nargs == "+" and words):
                self._given[option.attribute], words = words, []
            elif words:
                self._given[option.attribute] = _converted(option, option.metavar or option.attribute.upper(), words[0])
                words = words[1:]
            elif option.nargs != "?":
                hint = "casrewind list shows them" if option.metavar == "REF" else _SEE.format(f"{name} ")
                raise errors.UsageError(f"{name}: missing {option.metavar or option.attribute.upper()}; {hint}")
        if words:
            raise errors.UsageError(f"{name}: unexpected {words[0]!r}; {command.stray or _SEE.format(f'{name} ')}")


_SEE = "casrewind {}--help shows more"


def _converted(option: Option, name: str, text: str) -> object:
    """The value in a text. Raises UsageError."""
    if option.choices is not None and text not in option.choices:
        from .options_more import did_you_mean

        raise errors.UsageError(f"{name}: {text!r} is not one of {', '.join(option.choices)}{did_you_mean(text, option.choices)}")
    try:
        return text if option.convert is None else option.convert(text)
    except ValueError as error:
        raise errors.UsageError(f"{name}: {error}") from error


def _is_negative(word: str) -> bool:
    digits = word[1:].replace(".", "", 1)
    return digits.isascii() and digits.isdigit()


def _defaults(options: Iterable[Option]) -> dict[str, object]:
    return {option.attribute: [] if option.nargs in ("*", "+") else option.default for option in options if not option.inherits}


def _by_name(options: Iterable[Option]) -> dict[str, Option]:
    found = {name: option for option in options if not option.is_word for name in option.names}
    return found | {"--no-" + name[2:]: option for name, option in found.items() if option.pair}
