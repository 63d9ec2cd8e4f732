"""The table of commands. The reader of command lines, argparse, --help and the documentation are made from it."""

from collections.abc import Callable

from ..._typing import NamedTuple

EVERYDAY, AGENTS, STORE, REMOTE, ADVANCED = "Everyday", "Agents", "Store", "Remote", "Advanced"
GROUPS = (EVERYDAY, AGENTS, STORE, REMOTE, ADVANCED)


def positive_number(text: str) -> int:
    """A number of 1 or more. Raises ValueError."""
    if not (text.isascii() and text.isdigit()) or int(text[:18]) < 1:
        raise ValueError(f"{text!r} is not a number of 1 or more")
    return int(text[:18])


def _line_count(text: str) -> int:
    """A number of lines, 0 or more. Raises ValueError."""
    return 0 if text == "0" else positive_number(text)


def _turn_or_machine(text: str) -> int | str:
    """The number of a turn, with or without `@`; the text itself if it names a machine, too. Raises ValueError."""
    machine, _, there = text.partition(":@")
    if there and machine not in ("", "after"):
        positive_number(there)
        return text
    return positive_number(text.removeprefix("@"))


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
    """A command: one line of help, examples, options, and usage lines if they cannot be derived from the options.

    `more` is the rest of its help. `defaults` replace defaults of options. `stray` is the hint for an unexpected word.
    `function` is its function in commands/, as module.name; by default both have the command's name. `behind` names the
    arguments after `--`, if these are others than those before it. `takes_rest`: the first word owns all words after it.
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


def choice(dest: str, const: object, *words: str) -> Option:
    """One of several options that set the same attribute: its names, then its help."""
    return Option(words[:-1], words[-1], dest=dest, const=const, group=dest)


JSON = flag("--json", "print one JSON object")
YES = flag("-y", "--yes", "do not ask")
DRY_RUN = flag("-n", "--dry-run", "show the plan and change nothing")
OPEN_FILES = flag("--open-files", "change a database, too, that a program has open; what is restored may be lost")
REF = Option(("ref",), "the checkpoint", "REF")
NUMBER = Option(("-n",), "show at most N", "N", "number", convert=positive_number)
HUNKS = flag("-p", "--patch", "ask about each hunk, with the letters of git add -p, and change only what is chosen")
SKIP_DAMAGED = flag("--skip-damaged", "skip paths with damaged content in the store")
_EDITS = (
    choice("keep_edits", True, "--keep-edits", "take back what the turns since then changed, and keep what was edited outside of them"),
    choice("keep_edits", False, "--exact", "restore the exact state (default; restore.keep_edits changes that)"),
)
SESSION = Option(("--session",), "use this agent session: its id, or 4 characters of it (default: the newest of the project)", "ID")
_MESSAGE = Option(("-m", "--message"), "label of the checkpoint; saves even if nothing changed", "MESSAGE", default="")
_RULE_WORDS = Option(
    ("path",), "a file, a directory with all that is in it, or a pattern as in a .gitignore: without a slash it applies in every "
    "directory that is not ignored", "PATH", nargs="+",
)
_PATHS = Option(("paths",), "limit the command to these files and directories", "PATH", nargs="*")
_FORMS = (
    choice("form", "patch", "-p", "--patch", "a patch, as git writes it; git apply and patch -p1 accept it"),
    choice("form", "stat", "--stat", "the number of changed lines of each file, with bars"),
    choice("form", "name-status", "--name-status", "a letter (A, M, D, T, R) and the path"),
    choice("form", "name-only", "--name-only", "the path only"),
    Option(("-U", "--unified"), "a patch with N lines around each change (default: 3)", "N", "context", convert=_line_count),
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
_AUTO = flag("--auto", "")._replace(help=None)
"""Marks a gc or a push that casrewind starts by itself."""
_AGENTS = "claude (Claude Code), droid (Factory Droid), pi, codex, gemini, copilot, opencode, cursor, qwen or generic"
_AGENT = Option(("agent",), _AGENTS, "AGENT")
_SCOPE = Option(("--scope",), "for all projects of the user (default) or for this project", choices=("user", "project"))
_SHARED = flag("--shared", "change .casrewindignore in the project instead: everyone who has the file shares its rules")
_TIERS = (
    "minimal: at session start and prompts. balanced (default): also at the end of turns, subagents and the session, and before "
    "compaction. aggressive: also before every tool that may change files"
)
_URL = "s3://BUCKET/PATH, gs://..., az://... or file:///DIR, for example on a USB disk"
_CONNECTION = (
    Option(("--machine",), "the name of this machine there (default: its host name)", "NAME"),
    Option(("--key-file",), "read the key from FILE (default: CASREWIND_REMOTE_KEY, or a passphrase)", "FILE"),
    Option(("--key-command",), "a command that prints the key, run at each push and pull; the key is kept nowhere else", "COMMAND"),
    Option(("--endpoint",), "the address of a server that speaks S3", "URL"),
    Option(("--region",), "the region of the bucket", "REGION"),
    Option(("--profile",), "a profile of the AWS configuration", "NAME"),
)
COMMANDS = {
    "save": Command("Save a checkpoint of the project", ("casrewind save", "casrewind save -m 'before the clean-up'"), (
        Option(("text",), "same as -m MESSAGE", "MESSAGE", nargs="?"), _MESSAGE,
        flag("--pin", "never delete this checkpoint"),
        flag("--rehash", "read every file, even if its timestamp is unchanged"), JSON,
    ), ("[-m MESSAGE] [--pin] [--rehash] [--json] [MESSAGE]",),
        stray="a label of several words needs quotes: casrewind save -m 'before the clean-up'",
        creates=True, saves=True, tells_faults=True, function="save_run_pin_cat.save"),
    "list": Command("List turns, newest first: each prompt and what it changed", ("casrewind list -n 10", "casrewind list --since 2h"), (
        NUMBER._replace(help="show at most N turns"),
        Option(("--since",), "only what was made since then: 1h, 14:30, yesterday", "WHEN"),
        Option(("--grep",), "only rows with TEXT in the prompt, label or meta", "TEXT"),
        Option(("--session",), "only turns of this agent session (its id, or 4 characters of it) and of the ones it continues", "ID"),
        flag("--all", "every checkpoint, with safety checkpoints and other worktrees"),
        flag("--remote", "what was pulled from other machines, in place of what was made here"),
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
        choice("what", "both", "--both", "files and conversation; with --to: a fork of the conversation for each DIR"), *_EDITS, HUNKS,
        DRY_RUN, SKIP_DAMAGED, OPEN_FILES, YES, JSON,
        Option(("--to",), "write the checkpoint into DIR, which must be new or empty; again for several", "DIR", "into", repeats=True),
        choice("resume", "continue", "--continue", "finish an interrupted restore"),
        choice("resume", "abort", "--abort", "reverse an interrupted restore"),
        ), (
        "[--code | --chat | --both] [--keep-edits | --exact] [-n] [--skip-damaged] [--open-files] [-y] [--json] REF [--] [PATH ...]",
        "-p [-n] [--skip-damaged] [--open-files] [--json] REF [--] [PATH ...]",
        "[--both] [-n] [--skip-damaged] [--json] REF --to DIR [--to DIR ...]", "[--open-files] [--json] (--continue | --abort)",
        ), {"what": "code"}, more="Saves the current state first, so casrewind undo can reverse it. On a terminal it shows the plan and "
        "asks.",
        behind="paths go", saves=True, tells_restore=True),
    "back": Command(
        "Go back to before a prompt: files and conversation", ("casrewind back", "casrewind back 3", "casrewind back 2 --code"), (
        Option(("prompt",), "the turn, as casrewind list numbers it, or remote:@N of another machine (default: the newest prompt of the "
               "conversation)", "N",
               convert=_turn_or_machine, nargs="?"),
        choice("what", "code", "--code", "the files only"),
        choice("what", "chat", "--chat", "the conversation only"),
        choice("what", "both", "--both", "files and conversation (default)"), *_EDITS, SESSION,
        flag("--in-place", "cut the session itself and keep a copy; its client must not run"),
        flag("--copy", "copy the removed prompts to the clipboard"),
        flag("--nearest", "if the prompt has no checkpoint, use the nearest older one"), DRY_RUN, OPEN_FILES, YES, JSON,
    ), (), {"what": "both"}, more="The conversation before the prompt becomes a new session; the old session is kept.",
        saves=True, tells_restore=True, function="back_and_rewrite_chat.back"),
    "revert": Command(
        "Reverse what turns changed, and nothing else",
        ("casrewind revert @2", "casrewind revert @2 src/till.py", "casrewind revert @4..@2"), (
        REF._replace(help="the turn, as in @2, or all from one to another, as in @4..@2", nargs="?"), _PATHS,
        Option(("--session",), "reverse all turns of this agent session: its id, or 4 characters of it", "ID"),
        choice("conflicts", "theirs", "--theirs", "where the same lines were edited since: restore those of before the turn"),
        choice("conflicts", "markers", "--markers", "where the same lines were edited since: write all versions, between markers"),
        flag("--shared", "also paths that another turn may have changed at the same time, or you after Esc"),
        flag("--running", "also what a turn that still runs has changed so far"),
        flag("--known", "of several turns, leave out each one with an unknown change"), HUNKS, SKIP_DAMAGED, DRY_RUN, OPEN_FILES,
        YES, JSON,
        ), (
        "[OPTIONS] @N [--] [PATH ...]", "[OPTIONS] @N..@M [--] [PATH ...]", "[OPTIONS] --session ID [--] [PATH ...]",
        ), {"conflicts": ""}, more="Merges files that were edited since, line by line. Leaves a file alone if the same lines were edited "
        "since. Keeps what was not captured before the turn. To reverse it, type casrewind undo.",
        behind="paths go", saves=True),
    "undo": Command("Undo the newest restore", ("casrewind undo", "casrewind undo --list"), (
        DRY_RUN, flag("--list", "list the restores that can be undone"),
        flag("--all", "also undo paths that were edited since the restore"),
        flag("--older", "even if a newer back changed only a conversation"), OPEN_FILES, YES, JSON,
    ), more="Keeps what you edited since. It shows the plan and asks. Without a terminal it needs --yes.",
        function="undo_and_redo.undo", saves=True, tells_restore=True),
    "redo": Command("Redo the newest undo", ("casrewind redo",), (
        DRY_RUN, flag("--list", "list the undos that can be redone"), OPEN_FILES, YES, JSON), function="undo_and_redo.redo", saves=True),
    "log": Command("Show what changed turn by turn, or the history of a path", (
        "casrewind log -n 3", "casrewind log src/till.py -p", "casrewind log -S 'def total('",
        ), (
        Option(("path",), "a file, directory or pattern (default: everything, turn by turn)", "PATH", nargs="*"),
        Option(("-S",), "only rows in which the number of occurrences of TEXT changed", "TEXT", "text", group="search"),
        Option(("-G",), "only rows with an added or removed line that matches REGEX, as Python has it", "REGEX", "regex", group="search"),
        NUMBER, flag("--all", "of a PATH: include safety checkpoints"),
        choice("form", "patch", "-p", "--patch", "show each change as a patch"),
        choice("form", "stat", "--stat", "show the number of changed lines of each file"), JSON._replace(group="form"),
    ), (
        "[-n N] [--all] [-p | --stat | --json] [--] [PATH]", "(-S TEXT | -G REGEX) [-n N] [--all] [-p | --stat | --json] [--] [PATH ...]",
    ), {"form": ""}, more="Each change of a PATH names the turn that made it. Files over 4 MiB are not searched.",
        behind="the path goes"),
    "cat": Command(
        "Print a file as it was at a checkpoint", ("casrewind cat @1:README.md > README.old",),
        (Option(("file",), "a checkpoint and a path relative to the current directory", "REF:PATH"),),
        more="For a link, prints its target. A label may contain colons: PATH begins after the first colon that follows a "
        "REF.", function="save_run_pin_cat.cat"),
    "run": Command("Save, run a command, save again", ("casrewind run -m 'new formatter' -- make format",), (
        _MESSAGE._replace(help="name of the turn in place of the command line, and label of both checkpoints"),
        Option(("words",), "the command to run", "COMMAND ...", nargs="*"),
    ), ("[-m MESSAGE] [--] COMMAND ...",), more="The command is a turn: @1 in the list. Exits with the exit code of the command.",
        behind="the command goes", takes_rest=True, creates=True, saves=True, tells_faults=True, function="save_run_pin_cat.run"),
    "status": Command("Check how the project is protected", ("casrewind status", "casrewind status --ignored"), (
        flag("--ignored", "list all that ignore rules leave out; counts all of it, however long that takes"), JSON,
    ), tells_faults=True, tells_restore=True, function="status_and_config.status"),
    "install": Command(
        "Turn on automatic checkpoints for an agent", ("casrewind install claude", "casrewind install claude --tier aggressive"), (
        Option(("--tier",), _TIERS, choices=("minimal", "balanced", "aggressive")),
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
    "take": Command(
        "Bring back the changes of a directory that restore --to wrote",
        ("casrewind take ../try --dry-run", "casrewind take ../try src"), (
        Option(("made",), "the directory", "DIR"),
        Option(("--base",), "the checkpoint that DIR was made from, if casrewind cannot tell", "REF"),
        _PATHS._replace(help="take only what changed at these paths, which are relative to the current directory"), DRY_RUN, OPEN_FILES,
        YES, JSON,
        ), ("[--base REF] [-n] [--open-files] [-y] [--json] DIR [--] [PATH ...]",), more="Merges each path with what changed here "
        "since, and files by lines. Leaves a path alone if both sides changed it differently, or if either side ignores it. It can be "
        "undone.",
        group=AGENTS, behind="paths go", saves=True),
    "bisect": Command(
        "Find the turn since which a command fails",
        ("casrewind bisect -- make test", "casrewind bisect --good @9 --with .venv -- .venv/bin/pytest -q"), (
        Option(("--good",), "a state in which COMMAND succeeds (default: the oldest)", "REF"),
        Option(("--bad",), "a later state in which it fails (default: the files now, which are saved)", "REF"),
        Option(("--with",), "link PATH of the project into every state, as for node_modules; COMMAND can write through it; again for "
               "several", "PATH", "links", repeats=True), JSON,
        Option(("words",), "the command to run", "COMMAND ...", nargs="*"),
    ), ("[--good REF] [--bad REF] [--with PATH ...] [--json] [--] COMMAND ...",),
        more="Runs COMMAND in a temporary directory with one state after the other; the project is not touched. COMMAND exits with 0 for "
        "good, with 1 to 124 for bad, with 125 to skip a state; 126 and above end the search. New files of COMMAND stay for its next run.",
        group=AGENTS, behind="the command goes", takes_rest=True, saves=True),
    "statusline": Command(
        "Print one line for the status line of an agent's client", ("casrewind statusline",), (),
        more="Reads what the client writes on standard input. Claude Code runs it if its settings have a statusLine; see the guide.",
        group=AGENTS, function="statusline_and_at.statusline", is_alone=True),
    "pin": Command("Keep a checkpoint forever, and label it", ("casrewind pin last 'it works'",), (
        REF, Option(("label",), "new label, no other kind of REF and not that of a newer checkpoint", "LABEL", nargs="?"), JSON,
    ), group=STORE, stray="a label of several words needs quotes: casrewind pin last 'it works'", function="save_run_pin_cat.pin"),
    "unpin": Command("Let gc delete a pinned or labelled checkpoint", ("casrewind unpin 'it works'",), (REF, JSON),
        more="The checkpoint keeps its label, but gc may delete it.", group=STORE, function="save_run_pin_cat.unpin"),
    "include": Command(
        "Protect files that git ignores", ("casrewind include .env", "casrewind include data/x.db '*.sqlite3'"), (
        _RULE_WORDS, _SHARED, JSON,
    ), more="Adds private rules, kept with the checkpoints, and saves at once. Looks up each path that was meant in the checkpoint. Names, "
        "with exit code 3, what is still not captured, and what else the rules change.", group=STORE,
        function="include_exclude_why.include", creates=True, saves=True),
    "exclude": Command(
        "Stop protecting files: the reverse of include", ("casrewind exclude data/x.db",), (
        _RULE_WORDS, _SHARED, JSON,
    ), more="Older checkpoints keep what they hold: casrewind purge removes it. Names, with exit code 3, what is still captured, and what "
        "else the rules change.", group=STORE, creates=True, function="include_exclude_why.exclude"),
    "why": Command(
        "Show which rule decides that a path is captured or ignored", ("casrewind why .env",), (
        Option(("path",), "a file or directory, which need not exist; with a slash at its end: what is in it", "PATH", nargs="+"), JSON,
    ), group=STORE, function="include_exclude_why.why", is_alone=True),
    "gc": Command(
        "Delete old checkpoints and free their space", ("casrewind gc --max-age 14d --dry-run",), (
        Option(("--max-age",), "delete checkpoints older than AGE: 30d, 12h, 1d12h or P30D (default: as configured)", "AGE"),
        Option(("--max-count",), "keep the newest N of each worktree (default: as configured)", "N"),
        Option(("--max-size",), "delete the oldest until the store has at most SIZE: 5GiB, 300MB (default: as configured)", "SIZE"),
        DRY_RUN._replace(help="show what would be deleted, and why"), _AUTO, JSON,
    ), more="Never deletes the newest checkpoint, pinned or labelled ones, those of live sessions, or what undo needs. Runs by itself "
        "once a day, and when the store has reached its size limit.", group=STORE, stays=True, function="gc_verify_du.gc"),
    "du": Command(
        "Show what uses the space of the store", ("casrewind du --by path --depth 2",), (
        NUMBER._replace(help="rows of each table (default: 10; with --json all)"),
        Option(("--by",), "only this table", choices=("checkpoint", "path", "session")),
        Option(("--depth",), "aggregate to N directory levels", "N", convert=positive_number), JSON,
    ), more="By checkpoint, by path and by session, largest first.", group=STORE, stays=True, function="gc_verify_du.du"),
    "verify": Command("Check every checkpoint in the store", ("casrewind verify --quick",), (
        flag("--quick", "check the structure, and only that content exists", group="how"),
        flag("--repair", "repair what can be repaired and set damaged files aside, then check", group="how"), JSON,
    ), group=STORE, stays=True, function="gc_verify_du.verify"),
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
    ), group=ADVANCED, is_alone=True, function="stores_and_adopt.stores"),
    "config": Command("Show every setting, its value and its source", ("casrewind config",), (JSON,),
        group=STORE, function="status_and_config.show_config", is_alone=True),
    "remote": Command(
        "Show, add, check or remove the place that push and pull use",
        ("casrewind remote add s3://team/shop", "casrewind remote verify --all", "casrewind remote key --show", "casrewind remote gc -n",
         "casrewind remote"), (
        Option(("action",), "list (default), add URL, key, verify, gc or remove", "ACTION", nargs="?",
               choices=("list", "add", "key", "verify", "gc", "remove")),
        Option(("url",), _URL, "URL", nargs="?"), *_CONNECTION,
        Option(("--conversations",), "push transcripts of conversations (default)", pair=True, default=True),
        flag("--new", "with add: make the remote; needed where no terminal asks and no key is given"),
        flag("--show", "with key: print the key, on a terminal only", group="key"),
        flag("--add", "with key: let one more passphrase open it", group="key"),
        flag("--all", "with verify: read and check every blob, and look whether each checkpoint has all that it needs"),
        flag("--strangers", "with verify: list the objects that nobody with the key put there"),
        flag("--forgotten", "with gc: remove what this machine pushed and its own gc has forgotten since"),
        DRY_RUN._replace(help="with gc: show what would be removed, and what is kept and why"), YES, JSON,
        ), ("[--json]", "add [OPTIONS] URL", "key (--show | --add)", "verify [--all] [--strangers] [--json]",
            "gc [--forgotten] [-n] [-y] [--json]", "remove [-y]"),
        more="All that is pushed is encrypted. It cannot be read without the key. gc removes what a machine pushed, if its last push "
        "is older than remote.keep (default: forever), and what cannot be read, because a part is missing or damaged. A pin keeps it, "
        "a label does not. It also puts this machine's small pieces together, and forgets what was read and is gone. With --forgotten "
        "this machine pushes anew what its store has, and what it pushed before is removed.",
        group=REMOTE, creates=True, stays=True, function="remote.remote"),
    "push": Command(
        "Send the new checkpoints to the remote", ("casrewind push", "casrewind push -n"),
        (DRY_RUN._replace(help="show how much would be sent, and the new files; saves nothing", group="how"),
         flag("--keep-purged", "send, even if what this project was cloned from was purged since"),
         flag("--anew", "send everything again, into a new chain, and empty what was pushed before: mends what verify names"),
         flag("--purge-held", "after a purge: empty what was pushed before, even if clones use it"), YES,
         flag("--background", "start a process that pushes, and do not wait for it", group="how"),
         Option(("--wait",), "the same, wait for its end at most AGE (1.2s, 1m), and start it again if it fails", "AGE", group="how"),
         _AUTO, JSON),
        more="Saves the files of now first, unless a turn of an agent runs. Sends each file and conversation once, encrypted. A push that "
        "was cut goes on with the next one. The setting remote.push lets hooks push by themselves.",
        group=REMOTE, stays=True, saves=True, function="remote.push"),
    "pull": Command(
        "Take the checkpoints of other machines from the remote", ("casrewind pull", "casrewind pull --newest"),
        (flag("--newest", "only the newest checkpoint of each machine"), JSON),
        more="Changes no file of the project. casrewind restore remote:last --both goes to what was pulled.",
        group=REMOTE, stays=True, function="remote.pull"),
    "clone": Command(
        "Make a new project of a checkpoint on a remote", ("casrewind clone s3://team/shop shop",), (
        Option(("url",), _URL, "URL"),
        Option(("to",), "the new directory (default: the last name of URL)", "DIR", nargs="?"),
        Option(("ref",), "an id, its first 4 characters, or a machine (default: the newest of all)", "REF", nargs="?"),
        flag("--all", "all checkpoints of that machine"), *_CONNECTION, JSON),
        group=REMOTE, is_alone=True, function="remote.clone"),
    "export": Command(
        "Write checkpoints to standard output", ("casrewind export @1 > turn.export", "casrewind export > all.export"), (
        REF._replace(help="a checkpoint (default: all)", nargs="?"),
        flag("--plain", "without encryption: everybody who has the stream can read it"),
        Option(("--key-file",), "read the key from FILE (default: the key of the remote)", "FILE")),
        more="Encrypted with the key in --key-file, by default with that of the remote. Without REF, and with last, it saves the "
        "files of now first, as push does. To another machine: casrewind export @1 | ssh HOST casrewind -C shop import -",
        group=REMOTE, stays=True, saves=True, function="export_and_import.export"),
    "import": Command(
        "Take the checkpoints that export wrote", ("casrewind import shop.export",), (
        Option(("file",), "the file, or - for standard input", "FILE"),
        Option(("--key-file",), "read the key from FILE (default: CASREWIND_REMOTE_KEY, or the key of the remote)", "FILE"), JSON),
        more="Changes no file of the project. What came is in casrewind list --remote.",
        group=REMOTE, creates=True, stays=True, function="export_and_import.import_export"),
    "jump": Command(
        "Same as restore --both", ("casrewind jump @2",),
        (REF, Option(("paths",), "limit the files to these", "PATH", nargs="*"), *_EDITS, DRY_RUN, SKIP_DAMAGED, OPEN_FILES, YES, JSON),
        (), {"what": "both", "into": (), "resume": None, "patch": False},
        more="Restores the files and the conversation of a checkpoint.",
        group=ADVANCED, function="restore.restore", behind="paths go", saves=True, tells_restore=True),
    "rewrite-chat": Command(
        "Cut a conversation in its own session", ("casrewind rewrite-chat @2",),
        (REF._replace(help="a checkpoint that an agent's hook made"), JSON),
        more="Asks for the word REWRITE. The client must not run.", group=ADVANCED, function="back_and_rewrite_chat.rewrite_chat"),
    "adopt": Command(
        "Take over the checkpoints of a moved project", ("casrewind adopt ../the-name-before",), (
        Option(("old",), "the path that the project had before", "OLD"),
        flag("--force", "even if OLD still exists", inherits=True), JSON,
    ), more="If this project has checkpoints of its own, the others are listed as those of another machine, and undo does not know them.",
        group=ADVANCED, is_alone=True, function="stores_and_adopt.adopt"),
    "at": Command(
        "Show the checkpoint of an entry in a session", ("casrewind at --session 01a20188 --entry f6b36a33",), (
        Option(("--session",), "the client's id of the session", "ID"),
        Option(("--entry",), "the client's ids of the entry and of its parts, separated by commas", "ID", group="at"),
        Option(("--turn",), "the prompt of turn N of casrewind list, which must be of the session", "N", convert=positive_number,
               group="at"), JSON,
    ), more="Also shows how many paths a restore would change. An agent's client asks this before it asks the user.", group=ADVANCED,
        function="statusline_and_at.at"),
    "completion": Command(
        "Print the shell completion script", ('eval "$(casrewind completion bash)"', "casrewind completion fish | source"),
        (Option(("shell",), "the shell", choices=("bash", "zsh", "fish")),),
        more="To keep it, add the eval line to the start-up file of the shell.", group=ADVANCED, is_alone=True),
    "help": Command(
        "Show help for a command, or for all", ("casrewind help restore", "casrewind help --all", "casrewind help --man"),
        (Option(("topic",), "a command", "COMMAND", nargs="?"), flag("--all", "list every command"),
         flag("--man", "show the manual page")), group=ADVANCED, is_alone=True),
    "version": Command("Show the version", ("casrewind version",), (), group=ADVANCED, is_alone=True),
}  # fmt: skip
"""Every command, in the order of the help."""
ALIASES = {alias: name for name, command in COMMANDS.items() for alias in command.aliases}
PICK = "pick"
PICKER = Command("Choose a checkpoint on the screen.", (), (), saves=True, tells_restore=True, function="picker_or_plain_prompt.pick")
"""Runs on a terminal when no command is named."""
HELP, VERSION = "help", "version"
