"""Which commands there are and what each takes: the one table that command lines are read by. argparse, --help and the documentation
are made from it (parser.py).

argparse and what it imports take a fifth of a save in which nothing changed. So `plainly` reads usual lines without it, and leaves
everything else, whatever is wrong or unusual, to the parser.
"""

from collections.abc import Callable

from .._typing import NamedTuple


def count(text: str) -> int:
    """A number of 1 or more. Raises ValueError."""
    if not (text.isascii() and text.isdigit()) or int(text[:18]) < 1:
        raise ValueError(f"{text!r} is no number of 1 or more")
    return int(text[:18])


class Option(NamedTuple):
    """One thing that a command takes: an option, or with a name without dashes a word at its place.

    `help` None: it is not shown. `metavar` stands for its value, and says to a shell what may be offered there. `const` is what it
    sets, None where it takes a value instead, which `convert` makes of the text and which has to be one of `choices`. `nargs`: as
    argparse has it, "" for exactly one. Of options of one `group` at most one may be given. `inherits`: it is a global option, too.
    `pair`: there is a --no- form.
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
        """Whether it is told by its place and not by a name."""
        return not self.names[0].startswith("-")

    @property
    def attribute(self) -> str:
        """The attribute of the options that it sets."""
        return self.dest or self.names[-1].lstrip("-").replace("-", "_")


class Command(NamedTuple):
    """A command: what it does, examples for its --help, what it takes, its usage where that cannot be told from the options, and
    defaults that stand instead of those of options.

    `function` is its function in commands/, as module.name; without it both have the command's name. `behind` says what goes
    behind `--`, "" where nothing may. `is_alone`: it needs no workspace, and is given the settings instead. `creates` a store
    where there is none. `saves`: it makes checkpoints, so that it may be time for gc. `stays`: without a store here it does not
    go for the one that was left elsewhere. `tells_faults`: it says itself what could not be read of settings and rules;
    `tells_restore`, that one is unfinished.
    """

    help: str
    examples: tuple[str, ...]
    options: tuple[Option, ...]
    usage: str | None = None
    defaults: dict[str, object] = {}  # noqa: RUF012 - never changed
    function: str = ""
    behind: str = ""
    is_alone: bool = False
    creates: bool = False
    saves: bool = False
    stays: bool = False
    tells_faults: bool = False
    tells_restore: bool = False


def _flag(*words: str, group: str = "", inherits: bool = False) -> Option:
    """An option without a value: its names, then its help."""
    return Option(words[:-1], words[-1], const=True, default=False, group=group, inherits=inherits)


def _choice(dest: str, name: str, const: str, text: str) -> Option:
    """One of several options that set the same attribute."""
    return Option((name,), text, dest=dest, const=const, group=dest)


_JSON = _flag("--json", "print one JSON object")
_YES = _flag("-y", "--yes", "do not ask")
_REF = Option(("ref",), "the checkpoint", "REF")
_RESTORES = (
    _flag("--dry-run", "only say what would be done"),
    _flag("--skip-damaged", "leave alone what is damaged in the store, do the rest"), _YES, _JSON,
)  # fmt: skip
_AUTO = _flag("--auto", "")._replace(help=None)
"""How a save starts gc when it is time, and a hook the helper."""
_NUMBER = Option(("-n",), "at most N", "N", "number", convert=count)
_AGENT = Option(("agent",), "claude (Claude Code), droid (Factory Droid) or pi (Pi)", "AGENT")
_SCOPE = Option(("--scope",), "for all projects of the user (the default), or for the project here", choices=("user", "project"))
_TIERS = (
    "minimal: at session start and at prompts; balanced (the default): and at the end of turns, subagents and the session, and before "
    "compaction; aggressive: and before every tool that may change files"
)
_HELPER = "have hooks start a helper (casrewind watch) in each project, which does their work quicker; Linux only (default: as before)"
_PRUNED = "remove the stores whose roots are all gone and that were not used for so long: 30d, 12h ...; not pinned or doubtful ones"
_COLONS = (
    "PATH is relative to the current directory, or to -C DIR; a label may hold colons: the first colon counts that has a REF before it"
)
GLOBAL = (
    Option(("-C",), "start in DIR instead of here", "DIR", "directory", default="."),
    Option(("--store",), "use this store directory instead of the one of the project", "DIR"),
    _flag("-q", "--quiet", "no progress; save and run report only what went wrong"),
    _flag("--force", "work on a root that is refused otherwise (home, system directories)"),
)
COMMANDS = {
    "save": Command("Make a checkpoint of the project.", ("casrewind save -m 'before the clean-up'",), (
        Option(("-m",), "a label; a checkpoint is made even if nothing changed", "MESSAGE", "message", default=""),
        _flag("--pin", "never forget this checkpoint"),
        _flag("--rehash", "read every file, whatever its stamp says"),
        _flag("--force", "as casrewind --force", inherits=True), _JSON,
    ), creates=True, saves=True, tells_faults=True, function="checkpoints.save"),
    "list": Command("List checkpoints, newest first.", ("casrewind list -n 10",), (
        _NUMBER,
        Option(("--session",), "only those of one agent session, and of those it goes on from", "ID"),
        _flag("--all", "safety checkpoints and other worktrees' too"), _JSON,
    ), function="checkpoints.list_checkpoints"),
    "show": Command("Show one checkpoint and everything in it.", ("casrewind show last",), (_REF, _JSON), function="checkpoints.show"),
    "at": Command(
        "Say which checkpoint stands for an entry of an agent's session, and how many paths a restore of it would change.",
        ("casrewind at --session 01a20188 --entry f6b36a33",), (
        Option(("--session",), "the client's id of the session", "ID"),
        Option(("--entry",), "the client's id of the entry; further ids, behind commas, are of entries that belong to it", "ID"), _JSON,
    )),
    "cat": Command(
        "Write the bytes of one file, as a checkpoint holds it, to standard output; of a link its target.",
        ("casrewind cat prev:README.md > README.old",), (Option(("file",), _COLONS, "REF:PATH"),),
        function="checkpoints.cat",
    ),
    "log": Command(
        "Say in which checkpoints a file or directory changed, newest first: when, at which prompt, from what to what.",
        ("casrewind log src/till.py -n 3 --patch",), (
        Option(("path",), "a path or a pattern (a git pathspec); . at the root: when anything changed", "PATH"),
        _NUMBER,
        _flag("--all", "safety checkpoints, too"),
        _flag("--patch", "with what each changed", group="form"), _JSON._replace(group="form"),
    )),
    "diff": Command(
        "Show what changed between two checkpoints, or from one to the worktree. Publishes nothing.",
        ("casrewind diff", "casrewind diff 3 last --patch -- src", "casrewind diff -- '*.py' ':!tests'"), (
        Option(("refs",), "none: the newest against the worktree; one: it against the worktree", "REF", nargs="*"),
        _choice("form", "--stat", "stat", "one line a path, and a sum (the default)"),
        _choice("form", "--patch", "patch", "what git apply takes"),
        _choice("form", "--name-status", "name-status", "only the lines"), _JSON,
        ), "casrewind diff [-h] [--stat | --patch | --name-status] [--json] [REF [REF]] [-- PATH ...]", {"form": "stat"}, behind="paths go",
        function="checkpoints.diff",
    ),
    "restore": Command(
        "Make the project what it was at a checkpoint. The state before is kept for undo.",
        ("casrewind restore last", "casrewind restore 3 --dry-run -- src", "casrewind restore 3 --to ../before"), (
        Option(("ref",), "the checkpoint; paths behind -- limit the restore to them", "REF", nargs="?"),
        _choice("what", "--code", "code", "the files (the default)"),
        _choice("what", "--chat", "chat", "the conversation"),
        _choice("what", "--both", "both", "files and conversation"), *_RESTORES,
        Option(("--to",), "write the checkpoint into a new or empty directory instead", "DIR"),
        _choice("resume", "--continue", "continue", "finish an interrupted restore"),
        _choice("resume", "--abort", "abort", "take an interrupted restore back"),
        ),
        "casrewind restore [-h] [--code | --chat | --both] [--dry-run] [--skip-damaged] [-y] [--json] REF\n"
        "                         [-- PATH ...]\n"
        "       casrewind restore [-h] [--skip-damaged] [--json] REF --to DIR\n"
        "       casrewind restore [-h] [--json] (--continue | --abort)", {"what": "code"},
        behind="paths go", saves=True, tells_restore=True,
    ),
    "jump": Command(
        "Go to a checkpoint with files and conversation: restore --both.", ("casrewind jump 2",),
        (_REF._replace(help="the checkpoint; paths behind -- limit what is done to files"), *_RESTORES),
        "casrewind jump [-h] [--dry-run] [--skip-damaged] [-y] [--json] REF [-- PATH ...]", {"what": "both", "to": None, "resume": None},
        function="restore.restore", behind="paths go", saves=True, tells_restore=True,
    ),
    "back": Command(
        "Go back to before a prompt: a fork of the conversation, and with --both the files as they were then.",
        ("casrewind back 1 --both",), (
        Option(("number",), "the N-th most recent prompt (1)", "N", default=1, convert=count, nargs="?"),
        _flag("--both", "restore the files, too"),
        Option(("--session",), "of this session, instead of the newest one of the project", "ID"),
        _flag("--in-place", "cut the session itself, and keep a copy; not while its client runs"),
        _flag("--copy", "put the prompts that are taken back on the clipboard"),
        _flag("--nearest", "where the prompt has no checkpoint, take the nearest before it"), _YES, _JSON,
    ), saves=True, tells_restore=True),
    "rewrite-chat": Command(
        "Cut a conversation at a checkpoint in its own session. Asks for the word REWRITE; not while its client runs.",
        ("casrewind rewrite-chat 2",), (_REF._replace(help="a checkpoint that an agent's hook made"), _JSON),
        function="back.rewrite",
    ),
    "undo": Command("Take the newest restore back, keeping what was edited since.", ("casrewind undo",), (
        _flag("--all", "take back paths that were edited since, too"), _JSON,
    ), function="restore.undo", saves=True, tells_restore=True),
    "redo": Command("Take the newest undo back.", ("casrewind redo",), (_JSON,), function="restore.redo", saves=True),
    "run": Command("Save, run a command, save again. Exits as the command does.", ("casrewind run -m 'new formatter' -- make format",), (
        Option(("-m",), "a label for both checkpoints", "MESSAGE", "message", default=""),
    ), "casrewind run [-h] [-m MESSAGE] -- COMMAND ...", behind="the command goes", creates=True, saves=True, tells_faults=True,
        function="checkpoints.run",
    ),
    "gc": Command(
        "Forget old checkpoints and give back the space that nothing needs any more. The newest checkpoint, that of each live "
        "session, pinned and labelled ones, what undo needs and open restores stay, whatever the limits. Runs by itself once "
        "a day, and when the store has grown to its budget.", ("casrewind gc --max-age 14d --dry-run",), (
        Option(("--max-age",), "forget what is older: 30d, 12h, 1d12h or P30D (else as configured)", "AGE"),
        Option(("--max-count",), "keep at most the newest N of each worktree (else as configured)", "N"),
        Option(("--max-size",), "forget the oldest until the store has at most 5GiB, 300MB (else as configured)", "SIZE"),
        _flag("--dry-run", "only say what would be forgotten, and why"), _AUTO, _JSON,
    ), stays=True, function="maintenance.gc"),
    "du": Command(
        "Say what takes the space of the store: by checkpoint, by path, by session. What takes most comes first.",
        ("casrewind du --by path --depth 2",), (
        _NUMBER._replace(help="N rows of each table (10; with --json all)"),
        Option(("--by",), "only this table", choices=("checkpoint", "path", "session")),
        Option(("--depth",), "cut paths after N components: directories as sums", "N", convert=count), _JSON,
    ), stays=True),
    "pin": Command("Never forget a checkpoint, and name it.", ("casrewind pin last 'it works'",), (
        _REF, Option(("label",), "a name for it, in place of the one that it has; no other's, and no number", "LABEL", nargs="?"), _JSON,
    ), function="checkpoints.pin"),
    "unpin": Command(
        "Let gc forget a checkpoint when its time comes, although it was pinned or has a label. The label stays.",
        ("casrewind unpin 'it works'",), (_REF, _JSON), function="checkpoints.unpin",
    ),
    "stores": Command(
        "List every store under the data directory: its root, whether that is still there, size, last use.",
        ("casrewind stores --prune-missing 30d --dry-run",), (
        Option(("--prune-missing",), _PRUNED, "AGE"),
        _flag("--force", "with pins and interrupted restores, too", inherits=True),
        _flag("--dry-run", "only say what would be removed, and what is kept and why"), _YES, _JSON,
    ), is_alone=True),
    "adopt": Command(
        "After a project was moved or renamed: make its checkpoints those of the root where it is now.",
        ("casrewind adopt ../the-name-before",), (
        Option(("old",), "the path that the root had before", "OLD"),
        _flag("--force", "although OLD is still there", inherits=True), _JSON,
    ), is_alone=True, function="stores.adopt"),
    "purge": Command(
        "Remove every stored byte of a path from every checkpoint, or a text from conversations, prompts and labels. For good.",
        ("casrewind purge .env --dry-run", "casrewind purge --glob '*.pem' --dry-run", "casrewind purge --text - < secret.txt"), (
        Option(("path",), "a file or link, or a directory with all under it; equal bytes go, too", "PATH", nargs="?"),
        _flag("--glob", "PATH is a pattern (a git pathspec); the question lists every path"),
        Option(("--text",), "drop the conversations, prompts and labels that hold a text, read from standard input", "-"),
        _flag("--dry-run", "only say what would go"), _YES, _JSON,
    ), "casrewind purge [-h] [--glob] [--dry-run] [-y] [--json] (PATH | --text -)", stays=True),
    "verify": Command("Read the whole store and check every checkpoint in it.", ("casrewind verify --quick",), (
        _flag("--quick", "check the structure; of content only that it is there", group="how"),
        _flag("--repair", "first mend what can be mended, and set aside what is damaged", group="how"), _JSON,
    ), stays=True, function="maintenance.verify"),
    "install": Command(
        "Let an agent's client make checkpoints by itself: put casrewind's hooks into the client's settings.",
        ("casrewind install claude",), (
        Option(("--tier",), _TIERS, choices=("minimal", "balanced", "aggressive")),
        Option(("--resident",), _HELPER, pair=True),
        Option(("--plugin",), "write a plugin for Claude Code into DIR instead, and change no settings", "DIR"), _AGENT, _SCOPE, _JSON,
    ), is_alone=True),
    "uninstall": Command(
        "Take casrewind's hooks out of an agent's client, and nothing else. Checkpoints stay.",
        ("casrewind uninstall claude",), (_AGENT, _SCOPE, _JSON), function="install.uninstall", is_alone=True,
    ),
    "watch": Command(
        "Help this project's hooks to be quick: watch its files and do their work, until there was none for some time. Linux only.",
        ("casrewind watch --idle 2h",),
        (Option(("--idle",), "end after so long without an event: 30m, 2h ... (30m)", "AGE", default="30m"), _AUTO), is_alone=True,
    ),
    "doctor": Command(
        "Say whether agents' clients and casrewind's hooks in them work, and what is wrong. Runs the hooks to see.",
        ("casrewind doctor",), (_AGENT._replace(help="claude, droid or pi (all)", nargs="?"), _JSON), is_alone=True,
    ),
    "config": Command(
        "Show every setting, its value, and where that is from: the configuration file, a variable, the project.",
        ("casrewind config",), (_JSON,), function="config.show", is_alone=True,
    ),
    "status": Command(
        "Say whether the project is protected, and by what.", ("casrewind status",), (_JSON,), tells_faults=True, tells_restore=True,
        function="maintenance.status",
    ),
    "completion": Command(
        "Print what makes a shell complete commands, options, checkpoints and paths, for its start-up file.",
        ("casrewind completion bash >> ~/.bashrc",), (Option(("shell",), "the shell", choices=("bash", "zsh", "fish")),), is_alone=True,
    ),
}  # fmt: skip
PICK = "pick"
PICKER = Command("Choose a checkpoint on the screen.", (), (), saves=True, tells_restore=True)
"""What is done on a terminal when no command is named."""


class ParsedOptions:
    """What was asked for, with the attributes of argparse's Namespace."""

    def __init__(self, given: dict[str, object]) -> None:
        """`given` become the attributes."""
        self.__dict__.update(given)


def read_plain(argv: list[str]) -> ParsedOptions | None:
    """The options in a usual command line; None for what only argparse understands, or refuses."""
    given: dict[str, object] = _defaults(GLOBAL)
    known = _by_name(GLOBAL)
    command: Command | None = None
    groups: set[str] = set()
    words: list[str] = []
    rest = iter(argv)
    before = ""
    for word in rest:
        option = known.get(word)
        if option is not None:
            if option.group in groups or option.pair:
                return None
            groups |= {option.group} - {""}
            if option.const is not None:
                given[option.attribute] = option.const
            elif not _set(given, option, next(rest, "-")):
                return None
        elif word.startswith("-"):
            return None
        elif command is None:
            command = COMMANDS.get(word)
            if command is None:
                return None
            given |= {**_defaults(command.options), **command.defaults, "command": word}
            known = _by_name(command.options)
        elif words and before != words[-1]:
            return None  # argparse wants words side by side
        else:
            words.append(word)
        before = word
    return ParsedOptions(given) if command is not None and _place(given, command, words) else None


def _place(given: dict[str, object], command: Command, words: list[str]) -> bool:
    """Put words at their places. False where there are too many or too few, or one may not be there."""
    for option in command.options:
        if not option.is_word:
            continue
        if option.nargs == "*":
            given[option.attribute], words = words, []
        elif words:
            if not _set(given, option, words[0]):
                return False
            words = words[1:]
        elif option.nargs != "?":
            return False
    return not words


def _set(given: dict[str, object], option: Option, text: str) -> bool:
    """Set the value of an option. False for one that it may not have."""
    if text.startswith("-") or (option.choices is not None and text not in option.choices):
        return False
    try:
        given[option.attribute] = text if option.convert is None else option.convert(text)
    except ValueError:
        return False
    return True


def _defaults(options: tuple[Option, ...]) -> dict[str, object]:
    return {option.attribute: [] if option.nargs == "*" else option.default for option in options if not option.inherits}


def _by_name(options: tuple[Option, ...]) -> dict[str, Option]:
    return {name: option for option in options if not option.is_word for name in option.names}
