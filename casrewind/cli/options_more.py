"""The less common commands, the whole table, and the hints for a misspelt command or option."""

from collections.abc import Iterable

from .. import errors
from .options import (
    ADVANCED,
    AGENTS,
    DRY_RUN,
    JSON,
    NUMBER,
    REF,
    SKIP_DAMAGED,
    STORE,
    TABLE,
    YES,
    Command,
    Option,
    count,
    flag,
)

_AUTO = flag("--auto", "")._replace(help=None)
"""Marks an automatic start: a save starts gc, or a hook starts the helper."""
_AGENTS = "claude (Claude Code), droid (Factory Droid), pi, codex, gemini, copilot, opencode, cursor, qwen or generic"
_AGENT = Option(("agent",), _AGENTS, "AGENT")
_SCOPE = Option(("--scope",), "for all projects of the user (default) or for this project", choices=("user", "project"))
_SHARED = flag("--shared", "change .casrewindignore in the project instead: everyone who has the file shares its rules")
_TIERS = (
    "minimal: at session start and prompts. balanced (default): also at the end of turns, subagents and the session, and before "
    "compaction. aggressive: also before every tool that may change files"
)
_MORE = {
    "install": Command(
        "Turn on automatic checkpoints for an agent", ("casrewind install claude", "casrewind install claude --tier aggressive"), (
        Option(("--tier",), _TIERS, choices=("minimal", "balanced", "aggressive")),
        Option(("--resident",), "let hooks start a background helper (casrewind watch); Linux only (default: unchanged)", pair=True),
        Option(("--plugin",), "write a plugin for Claude Code into DIR, to share; change no settings", "DIR"),
        _AGENT._replace(nargs="?"), _SCOPE, YES._replace(help="do not ask: without AGENT, connect all clients that are found"), JSON,
    ), more="Adds casrewind's hooks to the settings of the agent's client. Without AGENT: finds the clients and asks.",
        group=AGENTS, is_alone=True),
    "uninstall": Command(
        "Turn off automatic checkpoints for an agent", ("casrewind uninstall claude",), (_AGENT, _SCOPE, JSON),
        more="Removes casrewind's hooks from the settings and nothing else. Checkpoints are kept.",
        group=AGENTS, function="install.uninstall", is_alone=True),
    "doctor": Command(
        "Check that the hooks of each agent work", ("casrewind doctor",),
        (_AGENT._replace(help="as for install (default: all that are there)", nargs="?"), JSON),
        more="Runs the hooks once to see the result.",
        group=AGENTS, is_alone=True),
    "statusline": Command(
        "Print one line for the status line of an agent's client", ("casrewind statusline",), (),
        more="Reads what the client writes on standard input. Claude Code runs it if its settings have a statusLine; see the guide.",
        group=AGENTS, function="client.statusline", is_alone=True),
    "pin": Command("Keep a checkpoint forever, and label it", ("casrewind pin last 'it works'",), (
        REF, Option(("label",), "new label, no other kind of REF and not that of a newer checkpoint", "LABEL", nargs="?"), JSON,
    ), group=STORE, stray="a label of several words needs quotes: casrewind pin last 'it works'", function="checkpoints.pin"),
    "unpin": Command("Let gc delete a pinned or labelled checkpoint", ("casrewind unpin 'it works'",), (REF, JSON),
        more="The checkpoint keeps its label, but gc may delete it.", group=STORE, function="checkpoints.unpin"),
    "include": Command(
        "Protect files that git ignores", ("casrewind include .env", "casrewind include data/x.db '*.sqlite3'"), (
        Option(("path",), "a path, or a pattern without a slash, which applies in every directory", "PATH", nargs="+"), _SHARED, JSON,
    ), more="Adds private rules, kept with the checkpoints, and saves at once.", group=STORE, function="include.include",
        creates=True, saves=True),
    "exclude": Command(
        "Stop protecting files: the reverse of include", ("casrewind exclude data/x.db",), (
        Option(("path",), "a path, or a pattern without a slash, which applies in every directory", "PATH", nargs="+"), _SHARED, JSON,
    ), more="Older checkpoints keep what they hold: casrewind purge removes it.", group=STORE, function="include.exclude", creates=True),
    "why": Command(
        "Show which rule decides that a path is captured or ignored", ("casrewind why .env",), (
        Option(("path",), "a file or directory", "PATH", nargs="+"), JSON,
    ), group=STORE, function="include.why", is_alone=True),
    "gc": Command(
        "Delete old checkpoints and free their space", ("casrewind gc --max-age 14d --dry-run",), (
        Option(("--max-age",), "delete checkpoints older than AGE: 30d, 12h, 1d12h or P30D (default: as configured)", "AGE"),
        Option(("--max-count",), "keep the newest N of each worktree (default: as configured)", "N"),
        Option(("--max-size",), "delete the oldest until the store has at most SIZE: 5GiB, 300MB (default: as configured)", "SIZE"),
        DRY_RUN._replace(help="show what would be deleted, and why"), _AUTO, JSON,
    ), more="Never deletes the newest checkpoint, pinned or labelled ones, those of live sessions, or what undo needs. Runs by itself "
        "once a day, and when the store has reached its size limit.", group=STORE, stays=True, function="maintenance.gc"),
    "du": Command(
        "Show what uses the space of the store", ("casrewind du --by path --depth 2",), (
        NUMBER._replace(help="rows of each table (default: 10; with --json all)"),
        Option(("--by",), "only this table", choices=("checkpoint", "path", "session")),
        Option(("--depth",), "aggregate to N directory levels", "N", convert=count), JSON,
    ), more="By checkpoint, by path and by session, largest first.", group=STORE, stays=True, function="maintenance.du"),
    "verify": Command("Check every checkpoint in the store", ("casrewind verify --quick",), (
        flag("--quick", "check the structure, and only that content exists", group="how"),
        flag("--repair", "repair what can be repaired and set damaged files aside, then check", group="how"), JSON,
    ), group=STORE, stays=True, function="maintenance.verify"),
    "purge": Command(
        "Remove a file or a text from every checkpoint", (
            "casrewind purge .env --dry-run", "casrewind purge --glob '*.pem' --dry-run", "casrewind purge --text - < secret.txt",
        ), (
        Option(("path",), "a file, link or directory; identical content elsewhere is removed, too", "PATH", nargs="?"),
        flag("--glob", "PATH is a pattern (a git pathspec); the question lists every path"),
        Option(("--text",), "remove conversations, prompts, labels and git branches that contain the text on standard input", "-"),
        DRY_RUN._replace(help="show what would be removed"), YES, JSON,
    ), ("[--glob] [-n] [-y] [--json] (PATH | --text -)",), more="This cannot be undone.", group=STORE, stays=True),
    "stores": Command(
        "List every store: project, size, last use", ("casrewind stores --prune-missing 30d --dry-run",), (
        Option(("--prune-missing",), "delete stores unused for AGE if their projects no longer exist (keeps pinned and "
               "possibly unmounted ones)", "AGE"),
        flag("--force", "also stores with pins or interrupted restores", inherits=True),
        DRY_RUN._replace(help="show what would be deleted, and what is kept and why"), YES, JSON,
    ), group=STORE, is_alone=True),
    "config": Command("Show every setting, its value and its source", ("casrewind config",), (JSON,),
        group=STORE, function="status.show_config", is_alone=True),
    "jump": Command(
        "Same as restore --both", ("casrewind jump @2",),
        (REF, Option(("paths",), "limit the files to these", "PATH", nargs="*"), DRY_RUN, SKIP_DAMAGED, YES, JSON),
        (), {"what": "both", "to": None, "resume": None}, more="Restores the files and the conversation of a checkpoint.",
        group=ADVANCED, function="restore.restore", behind="paths go", saves=True, tells_restore=True),
    "rewrite-chat": Command(
        "Cut a conversation in its own session", ("casrewind rewrite-chat @2",),
        (REF._replace(help="a checkpoint that an agent's hook made"), JSON),
        more="Asks for the word REWRITE. The client must not run.", group=ADVANCED, function="back.rewrite"),
    "adopt": Command(
        "Take over the checkpoints of a moved project", ("casrewind adopt ../the-name-before",), (
        Option(("old",), "the path that the project had before", "OLD"),
        flag("--force", "even if OLD still exists", inherits=True), JSON,
    ), group=ADVANCED, is_alone=True, function="stores.adopt"),
    "at": Command(
        "Show the checkpoint of an entry in a session", ("casrewind at --session 01a20188 --entry f6b36a33",), (
        Option(("--session",), "the client's id of the session", "ID"),
        Option(("--entry",), "the client's ids of the entry and of its parts, separated by commas", "ID", group="at"),
        Option(("--turn",), "the prompt of turn N of casrewind list, which must be of the session", "N", convert=count, group="at"), JSON,
    ), more="Also shows how many paths a restore would change. An agent's client asks this before it asks the user.", group=ADVANCED,
        function="client.at"),
    "watch": Command(
        "Run a background helper for this project's hooks", ("casrewind watch --idle 2h",),
        (Option(("--idle",), "exit after this much idle time (default: 30m)", "AGE", default="30m"), _AUTO),
        more="It watches the project, so hooks scan only what changed. Exits when idle. Linux only.", group=ADVANCED, is_alone=True),
    "completion": Command(
        "Print the shell completion script", ('eval "$(casrewind completion bash)"', "casrewind completion fish | source"),
        (Option(("shell",), "the shell", choices=("bash", "zsh", "fish")),),
        more="To keep it, add the eval line to the start-up file of the shell.", group=ADVANCED, is_alone=True),
    "help": Command(
        "Show help for a command, or for all", ("casrewind help restore", "casrewind help --all"),
        (Option(("topic",), "a command", "COMMAND", nargs="?"), flag("--all", "list every command")), group=ADVANCED, is_alone=True),
    "version": Command("Show the version", ("casrewind version",), (), group=ADVANCED, is_alone=True),
}  # fmt: skip
COMMANDS = {**TABLE, **_MORE}
ALIASES = {alias: name for name, command in COMMANDS.items() for alias in command.aliases}
_ELSEWHERE = {
    "checkpoint": "save", "commit": "save", "create": "save", "files": "show", "history": "list", "jobs": "watch",
    "reset": "restore", "rewind": "back", "rollback": "restore", "snapshot": "save", "switch": "restore",
    "timeline": "list", "view": "show",
}  # fmt: skip
"""Other tools' names for our commands."""
_COPIES = frozenset({"branch", "checkout", "worktree"})
"""Other tools' names for what has no command here: a second directory."""
_SIMILAR = 0.75
"""How similar a suggestion is to the word, between 0 and 1: `udno` and `undo`, but not `branch` and `back`."""


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """A question with the most similar known word, or "" if no word is similar."""
    import difflib

    near = difflib.get_close_matches(word, list(known), 1, _SIMILAR)
    return f"did you mean {near[0]}?" if near else ""


def unknown_command(word: str) -> errors.UsageError:
    """The error for an unknown command."""
    if word in _COPIES:
        hint = "casrewind restore REF --to DIR writes a checkpoint into a directory of its own"
    else:
        near = f"did you mean {_ELSEWHERE[word]}?" if word in _ELSEWHERE else did_you_mean(word, (*COMMANDS, *ALIASES))
        hint = f"{near} casrewind --help lists the commands".lstrip()
    return errors.UsageError(f"unknown command {word!r}", hint)


def unknown_option(name: str, command: str | None, known: dict[str, Option], behind: Iterable[str] = ()) -> errors.UsageError:
    """The error for an unknown option. `behind` are the words that follow the option."""
    if command is None:
        having = [row for row, found in COMMANDS.items() if any(name in option.names for option in found.options)]
        if having:
            meant = next((word for word in behind if word in having), having[0])
            return errors.UsageError(f"the option {name} goes after its command", f"as in: casrewind {meant} {name}")
    visible = (word for word, option in known.items() if command is None or option.help is not None)
    hint = f"{did_you_mean(name, visible)} casrewind {f'{command} ' if command else ''}--help shows more".lstrip()
    return errors.UsageError(f"{command} has no option {name}" if command else f"unknown option {name}", hint)
