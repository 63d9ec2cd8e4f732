"""What doctor finds out of one agent: its client, our hooks in there, and whether they work when they are run.

The danger prevented here: a checkpoint of doctor's own in somebody's list. Hooks are tried in a project and with a data
directory that are made for it and removed.
"""

import os
import time
import uuid
from collections.abc import Sequence

from .. import errors, fsio
from ..agents import diagnose, trial
from ..agents.diagnose import Hook, Looked, once
from ..agents.profile import Profile
from ..ops.resting import Seen
from ..settings import Settings
from ..store import scratch
from ..store.log import Log
from ..typed import Any, NamedTuple
from ..workspace import Workspace
from . import shapes
from .resident import Found

_MOST = 30.0
"""Seconds that one hook is waited for, whatever its own timeout is."""
_LATE = 10.0
"""Seconds for a checkpoint that the hook leaves to another process."""


class Tried(NamedTuple):
    """How it went with the hooks: whether any `ran`, whether all of them did what they are for, how many milliseconds the
    slowest took for an event (not its first), and what is wrong."""

    ran: bool
    ok: bool
    milliseconds: int
    detail: str | None


class Report(NamedTuple):
    """All of one agent. `program` is where its client is on the PATH, `version` what that says; `tried` is None without a
    hook; `seen` is None where the agent was not seen in this project. `problems` are all there are."""

    profile: Profile
    program: str | None
    version: str | None
    looked: Looked
    tried: Tried | None
    seen: Seen | None
    problems: tuple[str, ...]


def examine(profile: Profile, root: str | None, settings: Settings, tier: str, seen: Seen | None, lacks: Sequence[str]) -> Report:
    """Look at one agent's client and try its hooks. `lacks` is what keeps any hook of this project from its work."""
    problems = []
    program, version = trial.find(profile.program, settings.environ), None
    if program is not None:
        version, wrong = trial.version(profile, program, settings.environ)
        if version is None:
            problems.append(
                f"{fsio.show(program)} {' '.join(profile.version)} {fsio.show(wrong)}; is that {profile.title}? run it by hand to see"
            )
    looked = diagnose.look(profile, root, settings.home, settings.environ, tier)
    problems += looked.problems
    tried = None
    if looked.hooks:
        tried, wrongs = _try_all(looked, settings)
        problems += [*wrongs, *lacks]
    return Report(profile, program, version, looked, tried, seen, tuple(problems))


def _try_all(looked: Looked, settings: Settings) -> tuple[Tried, list[str]]:
    """Try each command line that stands in the settings once; the outcome, and sentences on what is wrong."""
    events = list(looked.profile.events)
    lines: dict[tuple[tuple[str, ...], float], Hook] = {}
    for hook in sorted(looked.tried, key=lambda hook: (not _is_prompt(looked.profile, hook.event), hook.event not in events)):
        lines.setdefault((hook.words, hook.timeout), hook)  # at a prompt, if it stands at one: that hook waits for its checkpoint
    slowest, wrongs = 0, []
    for hook in lines.values():
        milliseconds, wrong = _try(looked.profile, hook, settings)
        slowest = max(slowest, milliseconds)
        if wrong:
            wrongs.append((hook, wrong))
    if not lines:
        return Tried(ran=False, ok=False, milliseconds=0, detail="no hook can be run"), []
    left_out = sum(not hook.posted for hook in looked.hooks) - len(looked.tried)
    idle = [f"{left_out} of {left_out + len(looked.tried)} hooks cannot be run"] if left_out else []
    details = once([*(wrong for _, wrong in wrongs), *idle])
    install = f"casrewind install {looked.profile.name}"
    return Tried(ran=True, ok=not details, milliseconds=slowest, detail="; ".join(details) or None), [
        f"the hook for {hook.event} in {fsio.show(hook.settings)} does not work: {wrong}; {install} writes it anew, and if that does "
        f"not help, this is its command line: {fsio.show(hook.line)}"
        for hook, wrong in wrongs
    ]


def _is_prompt(profile: Profile, event: str) -> bool:
    return profile.events.get(event, ("", ""))[0] == "prompt"


def _try(profile: Profile, hook: Hook, settings: Settings) -> tuple[int, str]:
    """(milliseconds that a hook takes for an event, what is wrong with it or "")."""
    try:
        base = scratch.make("doctor")
    except OSError as error:
        return 0, f"it cannot be tried: {error.strerror or error}"
    try:
        project, data = os.path.join(base, "project"), os.path.join(base, "data")
        os.makedirs(os.path.join(project, ".git"))  # a root of its own, whatever lies above
        with open(os.path.join(project, "file.txt"), "w", encoding="ascii") as file:
            file.write("saved by casrewind doctor\n")
        place = Settings(home=settings.home, data=data)
        wrong, milliseconds = "", 0
        # The first save is left to another process, and says nothing about the others. Those of tools are far between.
        for _ in range(1 if profile.events.get(hook.event, ("", ""))[0] == "tool_batch" else 2):
            milliseconds, wrong = _try_once(profile, hook, settings, place, project)
            if wrong:
                break
        return milliseconds, wrong
    except OSError as error:
        return 0, f"it cannot be tried: {error.strerror or error}"
    finally:
        scratch.remove(base)


def _try_once(profile: Profile, hook: Hook, settings: Settings, place: Settings, project: str) -> tuple[int, str]:
    """As _try, of one event."""
    session = str(uuid.uuid4())
    transcript = os.path.join(os.path.dirname(project), session + ".jsonl")
    ran = trial.run(
        hook.words,  # without what stands behind it in the settings, which would hide what it says
        cwd=project,
        environ=trial.environment(profile, settings.environ, project, place.data),
        seconds=min(hook.timeout, _MOST),
        data=trial.payload(profile, hook.event, session, project, transcript),
    )
    if ran.trouble:
        return ran.milliseconds, f"it {ran.trouble}{_quoted(ran.err)}"
    if ran.code:
        return ran.milliseconds, f"it ends with {ran.code}{_quoted(ran.err or ran.out)}"
    if ran.out or ran.err:
        return ran.milliseconds, f"it prints something, which becomes part of the conversation{_quoted(ran.out or ran.err)}"
    if hook.event not in profile.events:
        return ran.milliseconds, ""
    end = time.monotonic() + _LATE
    made, said = _outcome(project, place, session)
    while not made and not said and time.monotonic() < end:
        time.sleep(0.02)
        made, said = _outcome(project, place, session)
    return ran.milliseconds, "" if made else f"it made no checkpoint{f': {said}' if said else ', and does not say why'}"


def _quoted(data: bytes) -> str:
    said = fsio.show(trial.last_line(data))
    return f": {said}" if said else ""


def _outcome(project: str, place: Settings, session: str) -> tuple[bool, str]:
    """(the event of a session has its checkpoint, what hooks wrote into a log since the last look, in one line)."""
    made, lines = False, Log(place.data).unseen()
    try:
        with Workspace(project, place, create=False) as workspace:
            made = any(point.session == session and point.files == 1 for point, _ in workspace.checkpoints())
            lines += Log(workspace.store_path).unseen()
    except errors.CasrewindError:
        pass
    return made, "; ".join(once(line.partition(" ")[2] for line in lines))[:500]


def shape(reports: Sequence[Report], helper: Found) -> dict[str, Any]:
    """doctor --json."""
    return {
        "ok": not any([helper.wrong, *(report.problems for report in reports)]),
        "agents": {report.profile.name: _shape(report) for report in reports},
        "helper": {
            "process": helper.pid or None,
            "watching": helper.pid is not None and not helper.unwatched and not helper.wrong,
            "reason": helper.unwatched or None,
            "problems": [helper.wrong] if helper.wrong else [],
        },
    }


def _shape(report: Report) -> dict[str, Any]:
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
                "resident": scope.resident,
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
