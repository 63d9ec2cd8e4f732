"""casrewind doctor: checks the clients of agents and our hooks in them.

The danger prevented here: a checkpoint of doctor's own in the user's list. Hooks are tried in a temporary project with
a temporary data directory.
"""

import os
import time
import uuid
from collections.abc import Sequence

from ... import agents, environment, errors, programs
from ..._typing import TYPE_CHECKING, NamedTuple
from ...agents import client_versions, hook_checks, run_program, trial_event
from ...agents.client import Client
from ...agents.hook_checks import ClientHooks
from ...agents.hook_records import InstalledHook, distinct
from ...gitignore.compiled_rules import re2_problem
from ...history import conversation, lookup
from ...messages import age_in_words, plural, printable
from ...settings import Settings, find_root, open_until_end
from ...store import scratch
from ...store.failure_log import FailureLog
from ...upkeep import status
from ...upkeep.status import AgentSeen
from ..grammar.options import AGENT, JSON, Command
from ..show import shapes
from ..terminal.lines import note, print_hook_failures, print_json, print_line
from . import OK

if TYPE_CHECKING:
    from ..grammar.command_line import ParsedOptions

COMMAND = Command(
    examples=("casrewind doctor",),
    options=(
        AGENT._replace(help="the agent, named as for install (default: all connected agents)", nargs="?"),
        JSON,
    ),
    more="Runs the hooks of each agent once, and checks the result.",
    is_alone=True,
)

_HOOK_SECONDS = 30.0
"""Seconds to wait for one hook, regardless of the hook's own timeout."""
_LATE = 10.0
"""Seconds to wait for a checkpoint that the hook leaves to another process."""


class TrialSummary(NamedTuple):
    """The result of the hook trials.

    `ran` is True if any hook ran, `ok` if all hooks did their work. `milliseconds` is the time of the slowest event,
    without the first event. `detail` describes the problems.
    """

    ran: bool
    ok: bool
    milliseconds: int
    detail: str | None


class ClientReport(NamedTuple):
    """The report on one agent.

    `program` is the path of its client on the PATH, `version` the client's own output. `tried` is None without a hook;
    `seen` is None if the agent was not seen in this project. `problems` lists all problems.
    """

    client: Client
    program: str | None
    version: str | None
    looked: ClientHooks
    tried: TrialSummary | None
    seen: AgentSeen | None
    problems: tuple[str, ...]


def run(settings: Settings, options: "ParsedOptions") -> int:
    """casrewind doctor. It makes no store, and writes to none."""
    clients = [agents.load_client(name) for name in ([options.agent] if options.agent else agents.NAMES)]
    clients = [client for client in clients if options.agent or not client.prints_hooks_only]
    root, lacks = _root_and_hook_problems(settings, options.directory)
    seen, unknown = {}, {}
    reasons: tuple[str, ...] = ()
    if root is not None:
        try:
            with open_until_end(options.directory, settings, create=False) as context:
                print_hook_failures(settings.data, context.store.path)
                reasons = status.status(context).reasons
                seen = {found.agent: found for found in status.agents_seen(context)}
                unknown = conversation.format_problems(context)
        except errors.WorkspaceNotFound:
            print_hook_failures(settings.data)
        except errors.CasrewindError as error:
            lacks.append(f"casrewind cannot work in this project: {error}")
    reports = [
        _examine_client(client, root, settings, options.configured_tier, seen.get(client.name), lacks, unknown.get(client.name, ""))
        for client in clients
    ]
    for sentence in environment.misspelt_variables():
        note(sentence)
    if options.json:
        project = {"root": root, "reasons": list(reasons)}
        print_json({**_doctor_json(reports), "project": project, "re2_problem": re2_problem() or None})
    else:
        _print_reports(reports, reasons, everything=bool(options.agent))
        if problem := re2_problem():
            print_line("google-re2")
            print_line(f"  ! installed, and cannot be loaded: {printable(problem)}")
            print_line("    without it, ignore rules work the same, only more slowly; install casrewind[re2] again")
    return errors.AgentError.exit_code if any(report.problems for report in reports) else OK


def _root_and_hook_problems(settings: Settings, directory: str) -> tuple[str | None, list[str]]:
    """Returns (root of the project here or None, problems that disable the hooks of any project)."""
    lacks = []
    place = settings.data
    while not os.path.lexists(place) and place != os.path.dirname(place):
        place = os.path.dirname(place)
    if not (os.path.isdir(place) and os.access(place, os.W_OK | os.X_OK)):
        where = printable(place)
        lacks.append(f"casrewind cannot write to {where}: make it a directory that you can write to, or set CASREWIND_HOME to another")
    try:
        return find_root(directory, settings).path, lacks
    except errors.RootRefused:
        return None, lacks

# -- one agent


def _examine_client(
    client: Client, root: str | None, settings: Settings, tier: str, seen: AgentSeen | None, lacks: Sequence[str], unknown: str
) -> ClientReport:
    """Examine one agent's client and try its hooks. `lacks` are problems that disable all hooks of this project.
    `unknown`: see format_problems."""
    problems = []
    program, version = programs.find_program(client.program, settings.environ), None
    if program is not None:
        version, wrong = run_program.ask_version(program, settings.environ)
        if version is None:
            problems.append(
                f"{printable(program)} --version {printable(wrong)}; is that "
                f"{client.title}? run it by hand to see"
            )
    looked = hook_checks.read_and_check_hooks(client, root, settings.home, settings.environ, tier)
    problems += looked.problems
    if version is not None and (untried := client_versions.describe_untried(client.name, version)):
        looked = looked._replace(notes=(*looked.notes, f"{client.title} {version} {untried}"))
    if program is not None and version is not None:
        answer = client.ask_about_hooks(looked.hooks, program, root, settings.environ)
        problems += answer.problems
        looked = looked._replace(notes=(*looked.notes, *answer.notes))
    if unknown:
        problems.append(
            f"{unknown}: files are still saved and restored, but conversations of {client.title} may not go back; a newer casrewind "
            f"may know it"
        )
    tried = None
    if looked.hooks:
        tried, wrongs = _try_each_line_once(looked, settings)
        problems += [*wrongs, *lacks]
    return ClientReport(client, program, version, looked, tried, seen, tuple(problems))


def _try_each_line_once(looked: ClientHooks, settings: Settings) -> tuple[TrialSummary, list[str]]:
    """Try each command line of the settings once. Returns the summary and the problems."""
    triggers = looked.client.events.triggers
    events = list(triggers)
    lines: dict[tuple[tuple[str, ...], float], InstalledHook] = {}
    for hook in sorted(looked.tried, key=lambda hook: (triggers.get(hook.event) != "prompt", hook.event not in events)):
        lines.setdefault((hook.words, hook.timeout), hook)  # prefer a prompt hook: it waits for its checkpoint
    slowest, wrongs = 0, []
    for hook in lines.values():
        milliseconds, wrong = _try_hook(looked.client, hook, settings)
        slowest = max(slowest, milliseconds)
        if wrong:
            wrongs.append((hook, wrong))
    if not lines:
        return TrialSummary(ran=False, ok=False, milliseconds=0, detail="no hook can be run"), []
    left_out = len(looked.hooks) - len(looked.tried)
    idle = [f"{left_out} of {left_out + len(looked.tried)} hooks cannot be run"] if left_out else []
    details = distinct([*(wrong for _, wrong in wrongs), *idle])
    install = f"casrewind install {looked.client.name}"
    return TrialSummary(ran=True, ok=not details, milliseconds=slowest, detail="; ".join(details) or None), [
        f"the hook for {hook.event} in {printable(hook.settings)} does not work: {wrong}; {install} writes it again, and if that does "
        f"not help, this is its command line: {printable(hook.line)}"
        for hook, wrong in wrongs
    ]


def _try_hook(client: Client, hook: InstalledHook, settings: Settings) -> tuple[int, str]:
    """Returns (milliseconds of a hook for one event, problem or "")."""
    try:
        base = scratch.make_scratch("doctor")
    except OSError as error:
        return 0, f"it cannot be tried: {error.strerror or error}"
    try:
        project, data = os.path.join(base, "project"), os.path.join(base, "data")
        os.makedirs(os.path.join(project, ".git"))  # makes the directory a root, regardless of its parents
        with open(os.path.join(project, "file.txt"), "w", encoding="ascii") as file:
            file.write("saved by casrewind doctor\n")
        place = Settings(home=settings.home, data=data)
        wrong, milliseconds = "", 0
        # The first save runs in another process, so its time does not represent later events. Tool hooks save at a
        # minimum interval, so they run once.
        for _ in range(1 if client.events.triggers.get(hook.event) == "tool_batch" else 2):
            milliseconds, wrong = _run_trial(client, hook, settings, place, project)
            if wrong:
                break
        return milliseconds, wrong
    except OSError as error:
        return 0, f"it cannot be tried: {error.strerror or error}"
    finally:
        scratch.remove_scratch(base)


def _run_trial(client: Client, hook: InstalledHook, settings: Settings, place: Settings, project: str) -> tuple[int, str]:
    """As _try, for one event."""
    session = str(uuid.uuid4())
    transcript = os.path.join(os.path.dirname(project), session + ".jsonl")
    ran = run_program.run_briefly(
        hook.words,  # without the shell suffix in the settings, which would hide the hook's output
        cwd=project,
        environ=trial_event.trial_environment(client, settings.environ, project, place.data),
        seconds=min(hook.timeout, _HOOK_SECONDS),
        data=trial_event.trial_payload(client, hook.event, session, project, transcript),
    )
    quoted = run_program.colon_and_last_line
    if ran.trouble:
        return ran.milliseconds, f"it {ran.trouble}{quoted(ran.err)}"
    if ran.code:
        return ran.milliseconds, f"it ends with {ran.code}{quoted(ran.err or ran.out)}"
    if ran.out or ran.err:
        return ran.milliseconds, f"it prints something, which becomes part of the conversation{quoted(ran.out or ran.err)}"
    if hook.event not in client.events.triggers:
        return ran.milliseconds, ""
    end = time.monotonic() + _LATE
    made, said = _trial_outcome(project, place, session)
    while not made and not said and time.monotonic() < end:
        time.sleep(0.02)
        made, said = _trial_outcome(project, place, session)
    return ran.milliseconds, "" if made else f"it made no checkpoint{f': {said}' if said else ', and does not say why'}"


def _trial_outcome(project: str, place: Settings, session: str) -> tuple[bool, str]:
    """Returns (True if the session's event has its checkpoint, new lines of the hook log as one line)."""
    made, lines = False, FailureLog(place.data).take_unseen_lines()
    try:
        with open_until_end(project, place, create=False) as context:
            made = any(point.session == session and point.files == 1 for point, _ in lookup.checkpoints_of(context))
            lines += FailureLog(context.store.path).take_unseen_lines()
    except errors.CasrewindError:
        pass
    return made, "; ".join(distinct(line.partition(" ")[2] for line in lines))[:500]

# -- output


def _print_reports(reports: Sequence[ClientReport], reasons: Sequence[str], *, everything: bool) -> None:
    count = sum(len(report.problems) for report in reports)
    hooked = [report.client for report in reports if report.looked.hooks]
    shown = [report for report in reports if everything or _is_installed_or_used(report)]
    if count:
        print_line(f"NOT WELL: {plural(count, 'problem')}")
    elif hooked:
        notes = sum(len(_notes_on(report)) for report in shown) + len(reasons) + bool(re2_problem())
        below = f"; {plural(notes, 'note')} below" if notes else ""
        print_line(f"{'' if notes else 'all well: '}the hooks of {' and '.join(client.title for client in hooked)} work{below}")
    else:
        name = f" {reports[0].client.name}" if everything else ""
        print_line(f"nothing is installed: casrewind install{name} turns on automatic checkpoints")
    for report in shown:
        _print_agent(report)
    if absent := [report.client.title for report in reports if report not in shown]:
        print_line(f"Not here: {', '.join(absent)}")
    if reasons:
        print_line("This project")
    for reason in reasons:
        print_line(f"  ! {printable(reason)}")


def _is_installed_or_used(report: ClientReport) -> bool:
    return bool(report.program or report.looked.hooks or report.problems or report.seen)


def _print_agent(report: ClientReport) -> None:
    client, looked = report.client, report.looked
    print_line(client.title)
    for problem in report.problems:
        print_line(f"  ! {printable(problem)}")
    if report.program is None and not looked.hooks:
        print_line(f"  program     {_not_on_path(report)}")
    elif report.program is not None:
        print_line(f"  program     {printable(report.program)}{'' if report.version is None else f', version {report.version}'}")
    for scope in looked.scopes:
        events = plural(len(scope.events), "event")
        print_line(f"  hooks       {scope.scope}: {scope.tier}, {events}, in {printable(scope.settings)}")
    if not looked.hooks:
        print_line(f"  hooks       none; casrewind install {client.name} adds them")
    if looked.command is not None:
        print_line(f"  command     /casrewind in the client, {printable(looked.command)}")
    if report.tried is not None and report.tried.ok:
        print_line(f"  tried       a hook, run as the client runs it, made its checkpoint in {report.tried.milliseconds} ms")
    elif report.tried is not None:
        print_line(f"  tried       {'FAILED' if report.tried.ran else 'NOT RUN'}: {printable(report.tried.detail or '')}")
    if report.seen is not None:
        _print_seen(report.seen)
    elif looked.hooks:
        print_line("  last event  none in this project; sessions opened before the installation have no hooks, so start a new one")
    for remark in _notes_on(report):
        print_line(f"  note: {printable(remark)}")


def _notes_on(report: ClientReport) -> tuple[str, ...]:
    """What may be a problem. Hooks are installed, and their client is not found here: that is one."""
    has_doubt = report.program is None and bool(report.looked.hooks)
    return (*report.looked.notes, *([_not_on_path(report)] if has_doubt else []))


def _not_on_path(report: ClientReport) -> str:
    return f"{report.client.program} is not on the PATH here"


def _print_seen(found: AgentSeen) -> None:
    if found.event:
        print_line(f"  last event  {printable(found.event)}, {age_in_words(found.event_ns)}, session {printable(found.session)}")
    newest = f"{found.checkpoint}, {age_in_words(found.checkpoint_ns)}" if found.checkpoint else "none in this project"
    print_line(f"  checkpoint  {newest}")
    if found.running is not None:
        print_line(f"  running     {'yes' if found.running else 'no'}")


def _doctor_json(reports: Sequence[ClientReport]) -> shapes.Shape:
    return {
        "ok": not any(report.problems for report in reports),
        "agents": {report.client.name: _shape_of_agent(report) for report in reports},
    }


def _shape_of_agent(report: ClientReport) -> shapes.Shape:
    seen = report.seen
    event = seen is not None and seen.event
    point = seen is not None and seen.checkpoint
    return {
        **shapes.path_or_none(report.program, "installed"),
        "version": report.version,
        "hooks": [
            {
                "scope": scope.scope,
                **shapes.path(os.fsencode(scope.settings), "settings"),
                "tier": scope.tier,
                "events": list(scope.events),
                "missing": list(scope.missing),
            }
            for scope in report.looked.scopes
        ],
        **shapes.path_or_none(report.looked.command, "command"),
        "hook_test": None if report.tried is None else dict(report.tried._asdict()),
        "last_event": {"name": seen.event, "at": shapes.time_of(seen.event_ns), "session": seen.session} if seen and event else None,
        "last_checkpoint": {"id": seen.checkpoint, "at": shapes.time_of(seen.checkpoint_ns)} if seen and point else None,
        "running": None if seen is None else seen.running,
        "problems": list(report.problems),
    }
