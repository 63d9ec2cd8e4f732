"""What a person reads of doctor."""

from collections.abc import Sequence

from ... import fsio
from ...ops.resting import Seen
from ..diagnosis import Report
from ..resident import Found
from .text import age, plural, say


def doctor(reports: Sequence[Report], reasons: Sequence[str], helper: Found) -> None:
    """doctor."""
    count = sum(len(report.problems) for report in reports) + bool(helper.wrong)
    hooked = [report.profile for report in reports if report.looked.hooks]
    if count:
        say(f"NOT WELL: {plural(count, 'problem')}")
    elif hooked:
        say(f"all well: the hooks of {' and '.join(profile.title for profile in hooked)} work")
    else:
        names = [report.profile.name for report in reports]
        say(f"nothing is installed: casrewind install {' or '.join(names)} lets checkpoints be made without asking")
    for report in reports:
        _agent(report)
    _helper(helper, wanted=any(scope.resident for report in reports for scope in report.looked.scopes))
    if reasons:
        say("This project")
    for reason in reasons:
        say(f"  ! {fsio.show(reason)}")


def _helper(found: Found, *, wanted: bool) -> None:
    """The helper (casrewind watch), where there is one, or hooks would start one."""
    if found.wrong:
        say(f"Helper\n  ! {fsio.show(found.wrong)}")
    elif found.pid is not None:
        seen = f"looks at every file all the same: {fsio.show(found.unwatched)}" if found.unwatched else "knows what changes"
        say(f"Helper\n  process     {found.pid or 'just started'}, {seen}")
    elif wanted:
        say("Helper\n  process     none now; the next session or prompt here starts one")


def _agent(report: Report) -> None:
    profile, looked = report.profile, report.looked
    say(profile.title)
    for problem in report.problems:
        say(f"  ! {fsio.show(problem)}")
    if report.program is None:
        say(f"  program     {profile.program} is not on the PATH here")
    else:
        say(f"  program     {fsio.show(report.program)}{'' if report.version is None else f', version {report.version}'}")
    for scope in looked.scopes:
        events = plural(len(scope.events), "event") + (", with the helper" if scope.resident else "")
        say(f"  hooks       {scope.scope}: {scope.tier}, {events}, in {fsio.show(scope.settings)}")
    if not looked.hooks:
        say(f"  hooks       none; casrewind install {profile.name} puts them there")
    if looked.command is not None:
        say(f"  command     /casrewind in the client, {fsio.show(looked.command)}")
    if report.tried is not None and report.tried.ok:
        say(f"  tried       run as the client does, a hook made its checkpoint in {report.tried.milliseconds} ms")
    elif report.tried is not None:
        say(f"  tried       {'FAILED' if report.tried.ran else 'NOT RUN'}: {fsio.show(report.tried.detail or '')}")
    if report.seen is not None:
        _seen(report.seen)
    elif looked.hooks:
        say("  last event  none in this project; a session that was open before the installation has no hooks: start a new one")
    for note in looked.notes:
        say(f"  note: {fsio.show(note)}")


def _seen(found: Seen) -> None:
    if found.event:
        say(f"  last event  {fsio.show(found.event)}, {age(found.event_ns)}, session {fsio.show(found.session)}")
    say(f"  checkpoint  {found.checkpoint}, {age(found.checkpoint_ns)}" if found.checkpoint else "  checkpoint  none in this project")
    if found.running is not None:
        say(f"  running     {'yes' if found.running else 'no'}")
