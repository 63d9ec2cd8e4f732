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
from ..messages import did_you_mean, printable

if TYPE_CHECKING:
    from ..store.shown_plans import ShownPlans, WaitingPlan
    from .typed_line import TypedLine

_PATIENCE = 20.0
"""Seconds after which the answer reports that the command is still running."""
_HARMLESS = frozenset({"-n", "--dry-run", "--list", "--continue", "--abort"})
"""The options with which they show no plan first."""
_SHORT_YES = (["back", "yes"], ["undo", "yes"], ["redo", "yes"])
"""A yes with the command that the plan is of. Their other words are never a path."""
_YES_OPTIONS = frozenset({"-y", "--yes"})
_YES_TOO_SOON = "a plan is shown before a yes counts here:"
_TURNS = ("list", "-n", "8")
"""What `/casrewind` alone shows: the newest turns."""
_USAGE = """\
{0} [list] | status | show [REF] | diff [REF] | review
  log PATH | back [N] | restore REF [PATH] | revert N | undo | redo
  yes | no | save [-m MESSAGE] | help"""
_HELP = """\
{0}            the newest eight turns
{0} back [N]   files and conversation to before turn N
                      (no N: the newest); --code or --chat: only one
{0} yes        do the plan that was just shown; no: drop it
{0} undo       take the newest restore back; redo does it again
{0} diff       what changed since the newest prompt
{0} review     what changed since you looked; --done: you did
{0} status     what is saved, and what is not
{0} show @2    what a turn changed
{0} log PATH   the turns that changed a file
{0} restore @2 the files of before a turn; PATH: one of them
{0} revert @2  take back what one turn changed, and keep what
                      was done since; @4..@2: several
{0} save       a checkpoint by hand; -m TEXT names it
Commands that change files show their plan first. A small back is
done at once, and so is a small undo of what was done just now.
Also: list, jump, pin, unpin, doctor, verify. None of these asks the
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

    from ..typed_commands import KNOWN, NO, PLANS, YES, refused_option
    from .typed_line import another_code, parse_typed

    plans, name = _record_session_as_idle(event, root), _typed_name(event.prompt)
    try:
        words = shlex.split(event.command or "") or list(_TURNS)
    except ValueError:
        return f"a quotation mark is not closed in {event.command!r}; nothing was done"
    if words[0] == "help":
        return _HELP.format(name)
    waiting = None if plans is None else plans.waiting()
    lower = [word.lower() for word in words]
    if lower == [NO]:
        return _drop_plan(plans, waiting)
    if lower == [YES] or (lower in _SHORT_YES and waiting is not None and waiting.words[0] == lower[0]):
        if waiting is None:
            return f"no plan waits for a yes here; nothing was done. {name} back shows one"
        words = [*waiting.words, YES, waiting.code if waiting.is_newest else another_code(waiting.code)]
    if words[0] not in KNOWN:
        near = did_you_mean(words[0], KNOWN)
        return f"{words[0]!r} is not a command here{near and f'; {near}'}; nothing was done\n{_USAGE.format(name)}"
    is_plan, said = words[0] in PLANS, parse_typed(words)
    if plans is not None and is_plan and said.code is None:
        plans.outdate()
    plain = list(said.words) if is_plan else words
    if (refused := refused_option(plain)) is not None:
        return f"{words[0]} does not take {refused} in a prompt; nothing was done. Type it in a terminal"
    text = _run_command(_command_line(plain, said) if is_plan else plain, event, root, name)
    is_yes = is_plan and said.code is None and (len(plain) < len(words) or not _YES_OPTIONS.isdisjoint(lower))
    if is_yes and plans is not None and (now := plans.waiting()) is not None and now.is_newest:
        return f"{_YES_TOO_SOON}\n{text}"
    return text or f"{words[0]}: done"


def _drop_plan(plans: "ShownPlans | None", waiting: "WaitingPlan | None") -> str:
    """Forget the plan that waits. Returns what to say."""
    import shlex

    if plans is None or waiting is None:
        return "no plan waits here; nothing has changed"
    plans.forget()
    return f"the plan of {printable(shlex.join(waiting.words))} is dropped; nothing has changed"


def _command_line(words: list[str], said: "TypedLine") -> list[str]:
    """The words of a command that changes files, with the line that was typed for it: it shows its plan first."""
    from ..typed_commands import words_before_dashes

    before = words_before_dashes(words)
    if _HARMLESS & set(before):
        return words
    typed = [*(word for word in before if word not in _YES_OPTIONS), *words[len(before) :]]
    return [typed[0], f"--typed={said._replace(words=tuple(typed)).text}", *typed[1:]]


def _run_command(words: list[str], event: Event, root: str, name: str) -> str:
    """Run a command of ours for a person who calls it `name`. Returns what it prints."""
    import subprocess

    from ..typed_commands import PLANS

    if words[0] == "back":
        words[1:1] = ["--session", event.session] if event.session else []
    with tempfile.TemporaryFile() as output:  # a pipe would end a command that outlives this hook
        line = [*launch.own_command(), *words]
        child = subprocess.Popen(
            line, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, start_new_session=True, cwd=root,
            env={**os.environ, "NO_COLOR": "1", launch.INSIDE: _inside(event), launch.TYPED_NAME: name},
        )  # fmt: skip
        try:
            child.wait(timeout=_PATIENCE)
        except subprocess.TimeoutExpired:
            child.returncode = 0
            planned = "; if it only makes its plan, type it in a terminal to see that" if words[0] in PLANS else ""
            return f"{words[0]} is still running after {_PATIENCE:g} s; {name} status shows the result later{planned}"
        output.seek(0)
        return output.read().decode("utf-8", "replace").strip("\n")


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


def _typed_name(prompt: str) -> str:
    """What a person types for casrewind: `/casrewind`, or the longer name that a plugin has."""
    used = prompt.split(maxsplit=1)[0]
    return used if used.endswith(":casrewind") else "/casrewind"
