"""The reader of command lines.

No command line is read with argparse: its imports cost a fifth of a save in which nothing changed.
"""

from collections.abc import Iterable

from ... import errors
from ...messages import did_you_mean
from .command_table import ALIASES, COMMANDS, HELP, VERSION, load_command
from .options import GLOBAL, Command, Option

TYPE_CHECKING = False
if TYPE_CHECKING:
    _Namespace = object  # a type checker accepts every attribute of a SimpleNamespace
    from ..._typing import Any
else:
    from types import SimpleNamespace as _Namespace

_SEE = "casrewind {}--help shows more"
_ELSEWHERE = {
    "checkpoint": "save", "commit": "save", "create": "save", "fetch": "pull", "files": "show", "fsck": "verify", "history": "list",
    "ignore": "exclude", "prune": "gc", "reflog": "list", "reset": "restore", "rewind": "back", "rollback": "restore",
    "settings": "config", "setup": "install", "snapshot": "save", "switch": "restore", "timeline": "list", "view": "show",
}  # fmt: skip
"""Other tools' names for our commands."""
_IN_A_DIRECTORY = "casrewind restore REF --to DIR writes a checkpoint into a directory of its own"
_INSTEAD = {
    "annotate": "casrewind blame PATH shows who wrote each line", "branch": _IN_A_DIRECTORY, "checkout": _IN_A_DIRECTORY,
    "init": "none is needed: casrewind save makes the first checkpoint, casrewind install connects an agent",
    "stash": "casrewind save keeps the files as they are now, casrewind restore REF brings them back",
    "tag": "casrewind pin REF LABEL names a checkpoint and keeps it",
    "worktree": _IN_A_DIRECTORY,
}  # fmt: skip
"""What does here what other tools, or earlier versions, have a command for."""
_GONE_OPTIONS = frozenset({"--resident", "--no-resident"})


class ParsedOptions(_Namespace):
    """The options of a command line. Each command has its own (`COMMAND` in its file), and nothing else: `getattr` with a
    default is for code that serves several commands.

    `rest`: the words after `--`. `dashed`: True if there is a `--`. `topic`: the command that help is asked for. From
    `relay` on, the attributes are set by `main` from the user's configuration.
    """

    command: str
    rest: list[str]
    dashed: bool
    topic: str | None

    action: str | None
    add: bool
    agent: str | None
    all: bool
    anew: bool
    auto: bool
    background: bool
    bad: str | None
    base: str | None
    by: str | None
    color: str
    conflicts: str
    context: int | None
    conversations: bool
    copy: bool
    depth: int | None
    directory: str
    directory_to_check: str | None
    done: bool
    dry_run: bool
    endpoint: str | None
    entry: str | None
    every: str | None
    expect: str | None
    file: str | None
    files: bool
    force: bool
    forgotten: bool
    form: str
    glob: bool
    good: str | None
    grep: str | None
    html: str | None
    ignored: bool
    in_place: bool
    into: list[str]
    json: bool
    key: bool
    lines: str | None
    keep_edits: bool | None
    keep_purged: bool
    key_command: str | None
    key_file: str | None
    known: bool
    label: str | None
    links: list[str]
    machine: str | None
    name_base: str | None
    pairs: list[str]
    man: bool
    max_age: str | None
    max_count: str | None
    max_size: str | None
    message: str
    meta: str | None
    name: str | None
    nearest: bool
    new: bool
    newest: bool
    no_pager: bool
    no_prompts: bool
    no_renames: bool
    number: int | None
    made: str
    old: str
    older: bool
    open_files: bool
    oneline: bool
    would: bool
    patch: bool
    path: "Any"  # one word or several, by command
    paths: list[str]
    pin: bool
    plain: bool
    plugin: str | None
    short: bool
    hands_free: bool
    profile: str | None
    project: bool
    prompt: int | str | None
    prompts: bool
    proof: str | None
    prune_missing: str | None
    public_key: str | None
    purge_held: bool
    quick: bool
    quiet: bool
    ref: str | None
    regex: str | None
    region: str | None
    rehash: bool
    remote: bool
    repair: bool
    resume: str | None
    reverse: bool
    running: bool
    scope: str | None
    session: str | None
    settle: str | None
    shared: bool
    shell: str
    show: bool
    since: str | None
    since_review: bool
    skip_damaged: bool
    strangers: bool
    strict: bool
    store: str | None
    text: str | None
    tier: str | None
    to: str | None
    turn: int | None
    typed: str | None
    url: str | None
    value: str | None
    wait: str | None
    what: str
    word_diff: bool
    words: list[str]
    yes: bool
    list: bool  # the last one: behind it, the type of this name is not to be had

    relay: "Any"  # the ProgressRelay of the picker, which the grammar does not know
    budget: int
    configured_tier: str
    configured_keep_edits: bool

    if TYPE_CHECKING:

        def __init__(self, **given: object) -> None:
            """`given`: the attributes of one command line."""


def find_command(name: str) -> str | None:
    """The name of a command or an alias; None if there is no such command."""
    name = ALIASES.get(name, name)
    return name if name in COMMANDS else None


class CommandLine:
    """Reads one command line from left to right."""

    def __init__(self, argv: list[str]) -> None:
        """`argv`: the words after the program's name."""
        cut = argv.index("--") if "--" in argv else len(argv)
        self._words, self._behind, self._dashed = argv[:cut], argv[cut + 1 :], cut < len(argv)
        self._given: dict[str, object] = {}
        self._known: dict[str, Option] = {}
        self._add_options_and_defaults(GLOBAL)
        self._chosen: dict[str, str] = {}
        self._name: str | None = None
        self._command: Command | None = None
        self._places: list[str] = []

    def parse_line(self) -> ParsedOptions:
        """The options. Raises UsageError if no command accepts the line."""
        words = self._words
        while words:
            word = words.pop(0)
            if word in ("-h", "--help"):
                self._given |= {"command": HELP, "topic": self._name, "all": False, "rest": [], "dashed": False}
                return ParsedOptions(**self._given)
            if word in ("-V", "--version") and self._command is None:
                self._given |= {"command": VERSION, "rest": [], "dashed": False}
                return ParsedOptions(**self._given)
            name, equals, value = word.partition("=")
            if word in self._known:
                self._set_option(word, None)
            elif equals and name in self._known:
                self._set_option(name, value)
            elif not word.startswith("--") and word[:2] in self._known:
                self._read_short(word)
            elif self._is_option(word):
                raise unknown_option_error(name, self._name, self._known, self._words)
            elif self._command is None:
                self._name = find_command(word)
                if self._name is None:
                    raise unknown_command_error(word)
                self._command = load_command(self._name)
                self._given = {**self._command.defaults, **self._given}
                self._add_options_and_defaults(self._command.options)
            else:
                self._places.append(word)
                if self._command.takes_rest:
                    self._places += words
                    words.clear()
        if self._command is not None and not self._command.behind:  # here -- only ends the options
            self._places, self._behind, self._dashed = [*self._places, *self._behind], [], False
        self._given |= {"command": self._name, "rest": self._behind, "dashed": self._dashed}
        self._place_words_and_check()
        return ParsedOptions(**self._given)

    def _add_options_and_defaults(self, options: Iterable[Option]) -> None:
        """Accept further options; values given before replace their defaults."""
        for option in options:
            for name in () if option.is_word else option.names:
                self._known[name] = option
                if option.pair:
                    self._known["--no-" + name[2:]] = option
            if not option.inherits:
                self._given.setdefault(option.attribute, [] if option.nargs in ("*", "+") or option.repeats else option.default)

    def _is_option(self, word: str) -> bool:
        """True if a word is an option and not a word or a value."""
        if not word.startswith("-") or word == "-":
            return False
        if word in self._known or word[:2] in self._known or word.partition("=")[0] in self._known:
            return True
        return " " not in word and not _is_negative_number(word)

    def _read_short(self, word: str) -> None:
        """Short options in one word: -yn, -n3."""
        while True:
            option = self._known[word[:2]]
            if option.const is None:
                self._set_option(word[:2], word[2:])
                return
            self._set_option(word[:2], None)
            word = "-" + word[2:]
            if word == "-":
                return
            if word[:2] not in self._known:
                raise unknown_option_error(word[:2], self._name, self._known)

    def _set_option(self, name: str, value: str | None) -> None:
        """Set an option. If `value` is None, the value is the next word."""
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
        found, before = _convert_value(option, name, value), self._given.get(option.attribute)
        self._given[option.attribute] = [*before, found] if option.repeats and isinstance(before, list) else found

    def _place_words_and_check(self) -> None:
        """Put words at their places, and check what only a complete line shows."""
        command, words = self._command, self._places
        if command is None:
            if self._dashed:
                raise errors.UsageError("no command before --", _SEE.format(""))
            if self._given["json"]:
                raise errors.UsageError("--json needs a command", _SEE.format(""))
            return
        name = self._name
        if self._given["json"] and not any(option.attribute == "json" for option in command.options):
            raise errors.UsageError(f"{name} has no --json", _SEE.format(f"{name} "))
        for option in (option for option in command.options if option.is_word):
            if option.nargs == "*" or (option.nargs == "+" and words):
                self._given[option.attribute], words = words, []
            elif words:
                self._given[option.attribute] = _convert_value(option, option.metavar or option.attribute.upper(), words[0])
                words = words[1:]
            elif option.nargs != "?":
                hint = "casrewind list shows them" if option.metavar == "REF" else _SEE.format(f"{name} ")
                raise errors.UsageError(f"{name}: missing {option.metavar or option.attribute.upper()}", hint)
        if words:
            raise errors.UsageError(f"{name}: unexpected {words[0]!r}", command.stray or _SEE.format(f"{name} "))


def _convert_value(option: Option, name: str, text: str) -> object:
    """The value in a text. Raises UsageError."""
    if option.choices is not None and text not in option.choices:
        raise errors.UsageError(f"{name}: {text!r} is not one of {', '.join(option.choices)}", did_you_mean(text, option.choices))
    try:
        return text if option.convert is None else option.convert(text)
    except ValueError as error:
        raise errors.UsageError(f"{name}: {error}") from error


def _is_negative_number(word: str) -> bool:
    digits = word[1:].replace(".", "", 1)
    return digits.isascii() and digits.isdigit()


def unknown_command_error(word: str) -> errors.UsageError:
    """The error for an unknown command."""
    hint = _INSTEAD.get(word)
    if hint is None:
        near = f"did you mean {_ELSEWHERE[word]}?" if word in _ELSEWHERE else did_you_mean(word, (*COMMANDS, *ALIASES))
        hint = f"{near} casrewind help --all lists the commands".lstrip()
    return errors.UsageError(f"unknown command {word!r}", hint)


def unknown_option_error(name: str, command: str | None, known: dict[str, Option], behind: Iterable[str] = ()) -> errors.UsageError:
    """The error for an unknown option. `behind` are the words that follow the option."""
    if command is None:
        having = [row for row in COMMANDS if any(name in option.names for option in load_command(row).options)]
        if having:
            meant = next((word for word in behind if word in having), having[0])
            return errors.UsageError(f"the option {name} goes after its command", f"as in: casrewind {meant} {name}")
    if name in _GONE_OPTIONS:
        return errors.UsageError(f"unknown option {name}", "the background helper is gone, and nothing needs it")
    visible = (word for word, option in known.items() if command is None or option.help is not None)
    hint = f"{did_you_mean(name, visible)} casrewind {f'{command} ' if command else ''}--help shows more".lstrip()
    return errors.UsageError(f"{command} has no option {name}" if command else f"unknown option {name}", hint)
