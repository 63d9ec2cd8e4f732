"""The command line's grammar. Usage errors end with 64: coding agents read argparse's own 2 as "block"."""

import argparse
import sys
from collections.abc import Callable

from .. import __version__, errors, fsio
from ..typed import NoReturn

USAGE = 64
_BEHIND = {"run": "the command goes", "diff": "paths go", "restore": "paths go", "jump": "paths go"}
"""Said to somebody who forgot the dashes."""
EXAMPLES = {
    "save": ("casrewind save -m 'before the clean-up'",),
    "list": ("casrewind list -n 10",),
    "show": ("casrewind show last",),
    "cat": ("casrewind cat prev:README.md > README.old",),
    "log": ("casrewind log src/till.py -n 3 --patch",),
    "diff": ("casrewind diff", "casrewind diff 3 last --patch -- src", "casrewind diff -- '*.py' ':!tests'"),
    "restore": ("casrewind restore last", "casrewind restore 3 --dry-run -- src", "casrewind restore 3 --to ../before"),
    "jump": ("casrewind jump 2",),
    "back": ("casrewind back 1 --both",),
    "rewrite-chat": ("casrewind rewrite-chat 2",),
    "undo": ("casrewind undo",),
    "redo": ("casrewind redo",),
    "run": ("casrewind run -m 'new formatter' -- make format",),
    "gc": ("casrewind gc --max-age 14d --dry-run",),
    "du": ("casrewind du --by path --depth 2",),
    "pin": ("casrewind pin last 'it works'",),
    "unpin": ("casrewind unpin 'it works'",),
    "stores": ("casrewind stores --prune-missing 30d --dry-run",),
    "adopt": ("casrewind adopt ../the-name-before",),
    "purge": ("casrewind purge .env --dry-run", "casrewind purge --glob '*.pem' --dry-run", "casrewind purge --text - < secret.txt"),
    "verify": ("casrewind verify --quick",),
    "install": ("casrewind install claude",),
    "uninstall": ("casrewind uninstall claude",),
    "doctor": ("casrewind doctor",),
    "config": ("casrewind config",),
    "status": ("casrewind status",),
    "watch": ("casrewind watch --idle 2h",),
    "completion": ("casrewind completion bash >> ~/.bashrc",),
}
"""Of every command, for its --help: a test holds that each is there and parses."""


class Parser(argparse.ArgumentParser):
    """An ArgumentParser whose errors exit with 64."""

    def error(self, message: str) -> NoReturn:
        """Say what is wrong and how it is right, exit with 64."""
        self.print_usage(sys.stderr)
        self.exit(USAGE, f"casrewind: {fsio.show(message)}; {self.prog} --help shows more\n")


def build() -> Parser:
    """The whole grammar."""
    parser = Parser(
        prog="casrewind",
        description="Exact, reversible, bounded undo for projects that coding agents work on.",
        epilog="Without COMMAND, on a terminal: the picker. REF: last, prev, a number (1 = newest), a label, an id or at least 4 "
        "characters of one.",
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"casrewind {__version__}")
    parser.add_argument("-C", dest="directory", metavar="DIR", default=".", help="start in DIR instead of here")
    parser.add_argument("--store", metavar="DIR", help="use this store directory instead of the one of the project")
    parser.add_argument("-q", "--quiet", action="store_true", help="no progress; save and run report only what went wrong")
    parser.add_argument("--force", action="store_true", help="work on a root that is refused otherwise (home, system directories)")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", parser_class=Parser)

    def add(name: str, text: str, usage: str | None = None) -> Parser:
        end = _examples(name)
        return commands.add_parser(name, help=text, description=text, usage=usage, epilog=end, allow_abbrev=False)

    save = add("save", "Make a checkpoint of the project.")
    save.add_argument("-m", dest="message", metavar="MESSAGE", default="", help="a label; a checkpoint is made even if nothing changed")
    save.add_argument("--pin", action="store_true", help="never forget this checkpoint")
    save.add_argument("--rehash", action="store_true", help="read every file, whatever its stamp says")
    save.add_argument("--force", action="store_true", default=argparse.SUPPRESS, help="as casrewind --force")
    _json(save)

    listing = add("list", "List checkpoints, newest first.")
    listing.add_argument("-n", dest="number", metavar="N", type=_count, default=None, help="at most N")
    listing.add_argument("--session", metavar="ID", help="only those of one agent session, and of those it goes on from")
    listing.add_argument("--all", action="store_true", help="safety checkpoints and other worktrees' too")
    _json(listing)

    show = add("show", "Show one checkpoint and everything in it.")
    show.add_argument("ref", metavar="REF", help="the checkpoint")
    _json(show)

    _cat(add)
    diff = add(
        "diff",
        "Show what changed between two checkpoints, or from one to the worktree. Publishes nothing.",
        "casrewind diff [-h] [--stat | --patch | --name-status] [--json] [REF [REF]] [-- PATH ...]",
    )
    diff.add_argument("refs", metavar="REF", nargs="*", help="none: the newest against the worktree; one: it against the worktree")
    form = diff.add_mutually_exclusive_group()
    forms = {"stat": "one line a path, and a sum (the default)", "patch": "what git apply takes", "name-status": "only the lines"}
    for name, text in forms.items():
        form.add_argument(f"--{name}", dest="form", action="store_const", const=name, help=text)
    diff.set_defaults(form="stat")
    _json(diff)

    _restore(add)

    _chat(add)
    undo = add("undo", "Take the newest restore back, keeping what was edited since.")
    undo.add_argument("--all", action="store_true", help="take back paths that were edited since, too")
    _json(undo)
    _json(add("redo", "Take the newest undo back."))

    run = add("run", "Save, run a command, save again. Exits as the command does.", "casrewind run [-h] [-m MESSAGE] -- COMMAND ...")
    run.add_argument("-m", dest="message", metavar="MESSAGE", default="", help="a label for both checkpoints")

    _upkeep(add)
    _agents(add)
    _json(add("config", "Show every setting, its value, and where that is from: the configuration file, a variable, the project."))
    _json(add("status", "Say whether the project is protected, and by what."))
    completion = add("completion", "Print what makes a shell complete commands, options, checkpoints and paths, for its start-up file.")
    completion.add_argument("shell", choices=("bash", "zsh", "fish"), help="the shell")
    return parser


def _cat(add: Callable[..., Parser]) -> None:
    cat = add("cat", "Write the bytes of one file, as a checkpoint holds it, to standard output; of a link its target.")
    colons = "a label may hold colons: the first colon counts that has a REF before it"
    cat.add_argument("file", metavar="REF:PATH", help=f"PATH is relative to the current directory, or to -C DIR; {colons}")

    log = add("log", "Say in which checkpoints a file or directory changed, newest first: when, at which prompt, from what to what.")
    log.add_argument("path", metavar="PATH", help="a path or a pattern (a git pathspec); . at the root: when anything changed")
    log.add_argument("-n", dest="number", metavar="N", type=_count, default=None, help="at most N")
    log.add_argument("--all", action="store_true", help="safety checkpoints, too")
    form = log.add_mutually_exclusive_group()
    form.add_argument("--patch", action="store_true", help="with what each changed")
    _json(form)


def _stores(add: Callable[..., Parser]) -> None:
    stores = add("stores", "List every store under the data directory: its root, whether that is still there, size, last use.")
    which = "remove the stores whose roots are all gone and that were not used for so long: 30d, 12h ...; not pinned or doubtful ones"
    stores.add_argument("--prune-missing", metavar="AGE", help=which)
    stores.add_argument("--force", action="store_true", default=argparse.SUPPRESS, help="with pins and interrupted restores, too")
    stores.add_argument("--dry-run", action="store_true", help="only say what would be removed, and what is kept and why")
    stores.add_argument("-y", "--yes", action="store_true", help="do not ask")
    _json(stores)
    adopt = add("adopt", "After a project was moved or renamed: make its checkpoints those of the root where it is now.")
    adopt.add_argument("old", metavar="OLD", help="the path that the root had before")
    adopt.add_argument("--force", action="store_true", default=argparse.SUPPRESS, help="although OLD is still there")
    _json(adopt)


def _du(add: Callable[..., Parser]) -> None:
    du = add("du", "Say what takes the space of the store: by checkpoint, by path, by session. What takes most comes first.")
    du.add_argument("-n", dest="number", metavar="N", type=_count, default=None, help="N rows of each table (10; with --json all)")
    du.add_argument("--by", choices=("checkpoint", "path", "session"), help="only this table")
    du.add_argument("--depth", metavar="N", type=_count, default=None, help="cut paths after N components: directories as sums")
    _json(du)


def _marks(add: Callable[..., Parser]) -> None:
    pin = add("pin", "Never forget a checkpoint, and name it.")
    pin.add_argument("ref", metavar="REF", help="the checkpoint")
    pin.add_argument("label", metavar="LABEL", nargs="?", help="a name for it, in place of the one that it has; no other's, and no number")
    _json(pin)
    unpin = add("unpin", "Let gc forget a checkpoint when its time comes, although it was pinned or has a label. The label stays.")
    unpin.add_argument("ref", metavar="REF", help="the checkpoint")
    _json(unpin)


def _upkeep(add: Callable[..., Parser]) -> None:
    gc = add(
        "gc",
        "Forget old checkpoints and give back the space that nothing needs any more. The newest checkpoint, that of each live "
        "session, pinned and labelled ones, what undo needs and open restores stay, whatever the limits. Runs by itself once "
        "a day, and when the store has grown to its budget.",
    )
    gc.add_argument("--max-age", metavar="AGE", help="forget what is older: 30d, 12h, 1d12h or P30D (else as configured)")
    gc.add_argument("--max-count", metavar="N", help="keep at most the newest N of each worktree (else as configured)")
    gc.add_argument("--max-size", metavar="SIZE", help="forget the oldest until the store has at most 5GiB, 300MB (else as configured)")
    gc.add_argument("--dry-run", action="store_true", help="only say what would be forgotten, and why")
    gc.add_argument("--auto", action="store_true", help=argparse.SUPPRESS)  # how a save starts it when it is time
    _json(gc)
    _du(add)
    _marks(add)
    _stores(add)

    text = "Remove every stored byte of a path from every checkpoint, or a text from conversations, prompts and labels. For good."
    purge = add("purge", text, "casrewind purge [-h] [--glob] [--dry-run] [-y] [--json] (PATH | --text -)")
    purge.add_argument("path", metavar="PATH", nargs="?", help="a file or link, or a directory with all under it; equal bytes go, too")
    purge.add_argument("--glob", action="store_true", help="PATH is a pattern (a git pathspec); the question lists every path")
    purge.add_argument("--text", metavar="-", help="drop the conversations, prompts and labels that hold a text, read from standard input")
    purge.add_argument("--dry-run", action="store_true", help="only say what would go")
    purge.add_argument("-y", "--yes", action="store_true", help="do not ask")
    _json(purge)

    verify = add("verify", "Read the whole store and check every checkpoint in it.")
    how = verify.add_mutually_exclusive_group()
    how.add_argument("--quick", action="store_true", help="check the structure; of content only that it is there")
    how.add_argument("--repair", action="store_true", help="first mend what can be mended, and set aside what is damaged")
    _json(verify)


def _agents(add: Callable[..., Parser]) -> None:
    install = add("install", "Let an agent's client make checkpoints by itself: put casrewind's hooks into the client's settings.")
    balanced = "balanced (the default): and at the end of turns, subagents and the session, and before compaction"
    tiers = f"minimal: at session start and at prompts; {balanced}; aggressive: and before every tool that may change files"
    install.add_argument("--tier", choices=("minimal", "balanced", "aggressive"), help=tiers)
    helped = "have hooks start a helper (casrewind watch) in each project, which does their work quicker; Linux only (default: as before)"
    install.add_argument("--resident", action=argparse.BooleanOptionalAction, default=None, help=helped)
    install.add_argument("--plugin", metavar="DIR", help="write a plugin for Claude Code into DIR instead, and change no settings")
    uninstall = add("uninstall", "Take casrewind's hooks out of an agent's client, and nothing else. Checkpoints stay.")
    for command in (install, uninstall):
        command.add_argument("agent", metavar="AGENT", help="claude (Claude Code) or droid (Factory Droid)")
        whose = "for all projects of the user (the default), or for the project here"
        command.add_argument("--scope", choices=("user", "project"), help=whose)
        _json(command)
    text = "Help this project's hooks to be quick: watch its files and do their work, until there was none for some time. Linux only."
    watch = add("watch", text)
    watch.add_argument("--idle", metavar="AGE", default="30m", help="end after so long without an event: 30m, 2h ... (30m)")
    watch.add_argument("--auto", action="store_true", help=argparse.SUPPRESS)  # how a hook starts it: nobody reads what it says
    doctor = add("doctor", "Say whether agents' clients and casrewind's hooks in them work, and what is wrong. Runs the hooks to see.")
    doctor.add_argument("agent", metavar="AGENT", nargs="?", help="claude or droid (both)")
    _json(doctor)


def _chat(add: Callable[..., Parser]) -> None:
    back = add("back", "Go back to before a prompt: a fork of the conversation, and with --both the files as they were then.")
    back.add_argument("number", metavar="N", nargs="?", type=_count, default=1, help="the N-th most recent prompt (1)")
    back.add_argument("--both", action="store_true", help="restore the files, too")
    back.add_argument("--session", metavar="ID", help="of this session, instead of the newest one of the project")
    back.add_argument("--in-place", action="store_true", help="cut the session itself, and keep a copy; not while its client runs")
    back.add_argument("--copy", action="store_true", help="put the prompts that are taken back on the clipboard")
    back.add_argument("--nearest", action="store_true", help="where the prompt has no checkpoint, take the nearest before it")
    back.add_argument("-y", "--yes", action="store_true", help="do not ask")
    _json(back)
    text = "Cut a conversation at a checkpoint in its own session. Asks for the word REWRITE; not while its client runs."
    rewrite = add("rewrite-chat", text)
    rewrite.add_argument("ref", metavar="REF", help="a checkpoint that an agent's hook made")
    _json(rewrite)


def _restore(add: Callable[..., Parser]) -> None:
    restore = add(
        "restore",
        "Make the project what it was at a checkpoint. The state before is kept for undo.",
        "casrewind restore [-h] [--code | --chat | --both] [--dry-run] [--skip-damaged] [-y] [--json] REF\n"
        "                         [-- PATH ...]\n"
        "       casrewind restore [-h] [--skip-damaged] [--json] REF --to DIR\n"
        "       casrewind restore [-h] [--json] (--continue | --abort)",
    )
    restore.add_argument("ref", metavar="REF", nargs="?", help="the checkpoint; paths behind -- limit the restore to them")
    what = restore.add_mutually_exclusive_group()
    what.add_argument("--code", dest="what", action="store_const", const="code", help="the files (the default)")
    what.add_argument("--chat", dest="what", action="store_const", const="chat", help="the conversation")
    what.add_argument("--both", dest="what", action="store_const", const="both", help="files and conversation")
    restore.set_defaults(what="code")
    jump = add(
        "jump",
        "Go to a checkpoint with files and conversation: restore --both.",
        "casrewind jump [-h] [--dry-run] [--skip-damaged] [-y] [--json] REF [-- PATH ...]",
    )
    jump.add_argument("ref", metavar="REF", help="the checkpoint; paths behind -- limit what is done to files")
    jump.set_defaults(what="both", to=None, resume=None)
    for command in (restore, jump):
        command.add_argument("--dry-run", action="store_true", help="only say what would be done")
        command.add_argument("--skip-damaged", action="store_true", help="leave alone what is damaged in the store, do the rest")
        command.add_argument("-y", "--yes", action="store_true", help="do not ask")
        _json(command)
    restore.add_argument("--to", metavar="DIR", help="write the checkpoint into a new or empty directory instead")
    going_on = restore.add_mutually_exclusive_group()
    going_on.add_argument("--continue", dest="resume", action="store_const", const="continue", help="finish an interrupted restore")
    going_on.add_argument("--abort", dest="resume", action="store_const", const="abort", help="take an interrupted restore back")


def parse(argv: list[str]) -> argparse.Namespace:
    """The options in `argv`. Raises UsageError for arguments that no command takes; argparse exits for the rest."""
    options, extra = build().parse_known_args(argv)
    if extra:
        name = " ".join(["casrewind", *filter(None, [options.command])])
        hint = f"{_BEHIND[options.command]} behind --; " if options.command in _BEHIND else ""
        raise errors.UsageError(f"unrecognized arguments: {' '.join(extra)}; {hint}{name} --help shows more")
    return options


def _json(parser: "argparse.ArgumentParser | argparse._MutuallyExclusiveGroup") -> None:
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def _count(text: str) -> int:
    if not (text.isascii() and text.isdigit()) or int(text[:18]) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of 1 or more")
    return int(text[:18])


def split(argv: list[str]) -> tuple[list[str], list[str], bool]:
    """(arguments, what follows `--`, whether there was a `--`)."""
    if "--" not in argv:
        return argv, [], False
    cut = argv.index("--")
    return argv[:cut], argv[cut + 1 :], True


def _examples(command: str) -> str | None:
    """What stands at the end of a command's --help."""
    found = EXAMPLES.get(command, ())
    return f"Example{'s' if len(found) > 1 else ''}: {'; '.join(found)}" if found else None
