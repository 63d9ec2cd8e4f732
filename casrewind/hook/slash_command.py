"""Runs `/casrewind ...` that a person types in a client. The prompt hook answers, and the model receives no request.

Two dangers are prevented here. A command that reaches the model would cost tokens. A program may build a prompt from
another person's text: so only options that stay within the project and its store are allowed. The answer is a decision
to block the prompt. Its reason is the output of the command, also after a failure.
"""

import json
import os
import tempfile

from .. import fsio, launch
from .._typing import TYPE_CHECKING
from ..agents.client import Client
from ..agents.event import Event
from ..messages import did_you_mean

if TYPE_CHECKING:
    from ..store.shown_plans import ShownPlans

_PATIENCE = 20.0
"""Seconds after which the answer reports that the command is still running."""
_RESTORES = {
    "--code": False, "--chat": False, "--both": False, "--keep-edits": False, "--exact": False, "-n": False, "--dry-run": False,
    "--skip-damaged": False, "-y": False, "--yes": False,
}  # fmt: skip
_KNOWN: dict[str, dict[str, bool]] = {
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
_PLANS = frozenset({"restore", "jump", "back", "revert", "undo", "redo"})
"""The commands that change files. What they would do is shown first (hook/typed_line.py)."""
_HARMLESS = frozenset({"-n", "--dry-run", "--list", "--continue", "--abort"})
"""The options with which they show no plan first."""
_SHORT_YES = (["back", "yes"], ["undo", "yes"], ["redo", "yes"])
"""A yes with the command that the plan is of. Their other words are never a path."""
_TURNS = ("list", "-n", "8")
"""What `/casrewind` alone shows: the newest turns."""
_USAGE = """\
casrewind: /casrewind [list] | back [N] | diff [REF] | show [REF] | log PATH
  restore REF [PATH] | revert N | yes | undo | redo | save [-m MESSAGE] | help"""
_HELP = """\
{0}                  the newest eight turns
{0} back [N]         files and conversation to before turn N
                            (no N: the newest); --code or --chat: one of both
{0} yes              do the plan that was just shown
{0} undo             take the newest restore back; redo does it again
{0} diff             what changed since the newest prompt
{0} review           what changed since you looked; --done: you did
{0} show @2          what a turn changed
{0} log PATH         the turns that changed a file
{0} restore @2 PATH  the files of before a turn, or one of them
{0} revert @2        take back what one turn changed, and keep what
                            was done since; @4..@2: several
{0} save -m TEXT     a checkpoint by hand
What changes files is shown first. A small {0} back, and a small undo
of what was done just now, are done at once.
also: list, jump, pin, unpin, status, doctor, verify. None of these asks the
model. In a terminal, casrewind --help shows more."""


def run_and_answer(event: Event, client: Client, root: str) -> None:
    """Run the command after `/casrewind`. Print the decision that shows its output and blocks the prompt."""
    try:
        reason = _run_for_output(event, root)
    except Exception as error:
        reason = f"casrewind: {type(error).__name__}: {error}"
    fsio.write_all(1, json.dumps(client.refusing_answer(reason)).encode() + b"\n")  # unbuffered, so that a failed write is noticed


def _run_for_output(event: Event, root: str) -> str:
    """Run a typed line as a command of its own. Returns what it prints, or why it is not run."""
    import shlex
    import subprocess

    from .typed_line import YES, another_code, parse_typed

    plans = _record_session_as_idle(event, root)
    try:
        words = shlex.split(event.command or "") or list(_TURNS)
    except ValueError:
        return f"casrewind: a quotation mark is not closed in {event.command!r}; nothing was done"
    if words[0] == "help":
        return _HELP.format(_typed_name(event.prompt))
    waiting = None if plans is None else plans.waiting()
    lower = [word.lower() for word in words]
    if lower == [YES] or (lower in _SHORT_YES and waiting is not None and waiting.words[0] == lower[0]):
        if waiting is None:
            return f"no plan waits for a yes here; nothing was done. {_typed_name(event.prompt)} back shows one"
        words = [*waiting.words, YES, waiting.code if waiting.is_newest else another_code(waiting.code)]
    if words[0] not in _KNOWN:
        near = did_you_mean(words[0], _KNOWN)
        return f"{_USAGE}\n{words[0]!r} is not a command here{near and f'; {near}'}; nothing was done"
    said = parse_typed(words)
    if plans is not None and words[0] in _PLANS and said.code is None:
        plans.outdate()
    words = list(said.words) if words[0] in _PLANS else words
    if (refused := _refused_option(words)) is not None:
        return f"casrewind: {words[0]} does not take {refused} in a prompt; nothing was done. Type it in a terminal"
    if words[0] in _PLANS and not _HARMLESS & set(_words_before_dashes(words)):
        typed = [*(word for word in _words_before_dashes(words) if word not in ("-y", "--yes")), *words[len(_words_before_dashes(words)) :]]
        words = [typed[0], f"--typed={said._replace(words=tuple(typed)).text}", *typed[1:]]
    if words[0] == "back":
        words[1:1] = ["--session", event.session] if event.session else []
    with tempfile.TemporaryFile() as output:  # a pipe would end a command that outlives this hook
        line = [*launch.own_command(), *words]
        child = subprocess.Popen(
            line, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, start_new_session=True, cwd=root,
            env={**os.environ, "NO_COLOR": "1", launch.INSIDE: _inside(event)},
        )  # fmt: skip
        try:
            child.wait(timeout=_PATIENCE)
        except subprocess.TimeoutExpired:
            child.returncode = 0
            planned = "; if it only makes its plan, type it in a terminal to see that" if words[0] in _PLANS else ""
            return f"casrewind {words[0]} is still running after {_PATIENCE:g} s; /casrewind status shows the result later{planned}"
        output.seek(0)
        text = output.read().decode("utf-8", "replace").strip("\n")
    return _as_typed_here(text, event.prompt) or f"casrewind {words[0]}: done"


def _words_before_dashes(words: list[str]) -> list[str]:
    """The words in front of the dashes."""
    return words[: words.index("--")] if "--" in words else words


def _refused_option(words: list[str]) -> str | None:
    """The first option that is not allowed in a prompt, or None."""
    rest = iter(_words_before_dashes(words)[1:])
    for word in rest:
        name, attached = (word.partition("=")[0], "=" in word) if word.startswith("--") else (word[:2], len(word) > 2)
        if not word.startswith("-") or word == "-":
            continue
        takes = _KNOWN[words[0]].get(name)
        if takes is None or (attached and not takes):
            return name
        if takes and not attached:
            next(rest, None)
    return None


def _record_session_as_idle(event: Event, root: str) -> "ShownPlans | None":
    """Record that this session is alive and idle: a client with a running turn does not run this command. Returns what keeps the
    plan that this session was shown; None without a store."""
    import time
    from contextlib import suppress

    from .. import errors
    from ..settings import from_environment, open_until_end
    from ..store.shown_plans import ShownPlans
    from ..upkeep import agent_event

    with suppress(errors.CasrewindError):
        settings, _ = from_environment()
        with open_until_end(root, settings, create=False) as context:
            context.store.sessions.record(agent_event.session_record(context, event, time.time_ns()))
            agent_event.write_shell_variables(context, event)
            return ShownPlans(context.store.path, context.root.key, _inside(event))
    return None


def _inside(event: Event) -> str:
    """The session, as the variable for the command has it."""
    return event.session or launch.UNKNOWN_SESSION


def _as_typed_here(text: str, prompt: str) -> str:
    """A command's output, with every command in it spelled as a person types it in the client."""
    import re

    text = re.sub(r"(?m)^( *\.\.\. and .*; )((?:--dry-run )?--json lists)", r"\1in a terminal, \2", text)
    return re.sub(rf"(?<![\w/.:-])casrewind (?=(?:{'|'.join(sorted([*_KNOWN, 'yes']))})\b)", f"{_typed_name(prompt)} ", text)


def _typed_name(prompt: str) -> str:
    """What a person types for casrewind: `/casrewind`, or the longer name that a plugin has."""
    used = prompt.split(maxsplit=1)[0]
    return used if used.endswith(":casrewind") else "/casrewind"
