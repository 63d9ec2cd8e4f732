"""`casrewind hook AGENT`: called by a client at its events, with JSON on standard input.

The danger prevented here: a tool that is in the agent's way. Whatever happens, nothing is printed (it would become part of
the conversation), the exit code is 0, and the client waits no longer than the event's budget. What could not be done is
written into the store's log and shown by the next command. Nothing is imported before it is known that there is work.
"""

import gc
import os
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from ..agents.event import Event
    from ..agents.profile import Profile
    from ..settings import Settings
    from ..typed import NoReturn
    from ..workspace import Workspace
    from .environment import Environment

_CHILD = "--child"
_ASKED = "--asked"  # of a child: the helper was asked, and may have done it
_RESIDENT, _HTTP = "--resident", "--http"  # as in agents/ours.py: have the helper started; a word of earlier versions
_UNTOLD, _MADE, _UNKNOWN = 0, 1, 2
"""What became of an event of which the helper was told: as in ask.py, which is imported only where there may be one."""
_SLICE = 4
"""A save that took longer than the budget divided by this is done by a child, which the hook does not have to wait for."""
_UNHURRIED = 120.0
"""Seconds that a child, which nobody waits for, may take for twice as long as it waits for a lock."""
_SPARE = 0.2
"""Seconds of the budget that are kept for coming to an end."""


class _OutOfTime(BaseException):
    """The budget is used up. No Exception: nobody on the way may take it for something that is theirs to answer."""


def main(argv: list[str]) -> int:
    """Handle one event; always 0."""
    at_ns, began = time.time_ns(), time.monotonic()
    log = Log()
    try:
        os.umask(os.umask(0o077) & 0o077)  # else one may not even open the lock that one has just made
        _fill_standard_streams()
        _handle(argv, at_ns, began, log)
    except BaseException as error:
        log.add(f"{' '.join(argv[:2])}: {reason(error)}")
    return 0


def reason(error: BaseException) -> str:
    """What the log says of an error."""
    return f"{type(error).__name__}: {str(error) or 'more memory was needed than there is, or than a hook may take'}"


def run(argv: list[str]) -> "NoReturn":
    """Handle one event and be gone: taking down an interpreter in good order costs as much as a fifth of a save, and all
    that has to be closed is closed by now. Nor is there time to look for garbage that goes in circles."""
    gc.disable()
    try:
        _listen_to_interrupts()
        main(argv)
        sys.stdout.flush()
    except (AttributeError, OSError, ValueError, KeyboardInterrupt):
        pass  # there is nobody to answer, or nobody waits
    os._exit(0)


def _listen_to_interrupts() -> None:
    """Have an interrupt written down, as anything that goes wrong. Before, it has ended this process in silence (__main__)."""
    import _signal as signal  # type: ignore[import-not-found]

    if signal.getsignal(signal.SIGINT) != signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


class Log:
    """Where to complain: in the store once it is known, before that in the data directory."""

    directory = ""

    def add(self, text: str) -> None:
        """Write a line down. Raises nothing."""
        from contextlib import suppress

        from ..store import log

        with suppress(Exception):
            if self.directory and log.Log(self.directory).add(text):
                return
            from .. import private
            from . import places

            directory = places.data_directory()
            if private.whose(directory):
                return  # what went wrong, and in which project, is nobody else's business
            os.makedirs(directory, mode=0o700, exist_ok=True)
            log.Log(directory).add(text)


def _fill_standard_streams() -> None:
    """Put /dev/null where no standard stream is open: the next file opened, one of the store's perhaps, would get its
    descriptor."""
    for fd in range(3):
        try:
            os.fstat(fd)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest number that is free


def _handle(argv: list[str], at_ns: int, began: float, log: Log) -> None:
    from ..agents import pipe

    if _CHILD in argv:
        from . import bounds

        bounds.begin()
    payload = pipe.drain(0)  # to its end, whatever it is worth: the client's write must not fail
    words = [word for word in argv if word not in (_RESIDENT, _HTTP)]
    words = words[: words.index(_CHILD)] if _CHILD in argv else words
    said = _ask(words, payload, at_ns, began) if _CHILD not in argv else _UNTOLD
    if said == _MADE:
        return
    asked = said == _UNKNOWN or _ASKED in argv
    from .. import agents
    from ..agents import event as events
    from ..agents.profile import TIERS

    profile = agents.profile_of(words[0] if words else "")
    event = events.read(profile, payload, os.environ, words[1] if len(words) > 1 else "")
    if not event.trigger and event.command is None:
        return
    root = event.root or event.cwd or os.getcwd()
    if event.command is not None:
        from . import inside

        inside.answer(event, profile, root)
        return
    from . import environment

    if not events.wanted(profile, event, environment.configuration().tier or TIERS[-1]):  # what is installed is wanted
        return
    found = environment.read(store=None, force=False)
    budget = _UNHURRIED if _CHILD in argv else event.budget
    if _CHILD in argv:
        at_ns = int(argv[argv.index(_CHILD) + 1])
    found.settings = settings = found.settings._replace(deadline=max(budget / 2, 0.4))
    if _CHILD not in argv:
        _hurry(_left(event, began))
    helped = ""
    try:
        with _in_turn(argv, root, settings), _open(root, settings) as workspace:
            from .. import hooks

            log.directory = workspace.store_path
            helped = workspace.root.path if _RESIDENT in argv else ""
            if _CHILD not in argv:
                note(workspace, event, at_ns, log)
            if hooks.is_too_soon(workspace, event, at_ns):
                return
            last = hooks.last_save_ms(workspace)
            if _CHILD in argv or (not asked and last is not None and last <= event.budget * 1000 / _SLICE):
                record(workspace, event, profile, found, at_ns, asked=asked)
                return
    except _OutOfTime:
        pass  # there is more to save than last time: the child starts again, and takes what it needs
    finally:
        _rest()
        _have_help(helped, log)
    wait = 0.0 if event.trigger == "session_start" else _left(event, began)
    _start_child(event, payload, at_ns, wait, log, [_ASKED] if asked else [])


def _in_turn(argv: list[str], root: str, settings: "Settings") -> "AbstractContextManager[None]":
    """Wait for the others that are not waited for either, before anything of the project is read."""
    from contextlib import nullcontext

    if _CHILD not in argv:
        return nullcontext()
    from .. import hooks
    from ..settings import find_root, store_of
    from . import bounds

    found = find_root(root, settings)
    bounds.allow_index(store_of(found, settings))
    return hooks.in_turn(found, settings, bounds.SECONDS)


def _open(root: str, settings: "Settings") -> "Workspace":
    from ..workspace import Workspace

    return Workspace(root, settings, create=True)


def _ask(words: list[str], payload: bytes, at_ns: int, began: float) -> int:
    """Ask the helper, if there may be one."""
    from . import places

    if not os.path.isdir(helpers := places.helpers()):
        return _UNTOLD
    from . import ask

    return ask.ask(helpers, words, payload, at_ns, began - _SPARE)


def _have_help(root: str, log: Log) -> None:
    """Start the helper of a root, "" for none. Raises nothing."""
    if not root:
        return
    from . import resident

    try:
        resident.start(root)
    except OSError as error:
        log.add(f"the helper (casrewind watch) could not be started: {error}")


def note(workspace: "Workspace", event: "Event", at_ns: int, log: Log) -> None:
    """Write down that a session is alive, and what of the event was left out."""
    from .. import hooks

    hooks.note(workspace, event, at_ns)
    say_odd(event, log)


def say_odd(event: "Event", log: Log) -> None:
    """Write down what of an event was left out."""
    if event.odd:
        log.add(f"hook {event.agent} {event.name}: not what was expected, and left out: {', '.join(event.odd)}")


def record(
    workspace: "Workspace",
    event: "Event",
    profile: "Profile",
    found: "Environment",
    at_ns: int,
    *,
    asked: bool = False,
) -> None:
    """Make the checkpoint of an event, and see whether it is time for gc. Raises as a save does."""
    from .. import hooks

    home = found.settings.home
    variables = (profile.home_variable, profile.home_moved_by)
    homes = (home, os.path.join(home, profile.home), *(os.environ.get(name, "") for name in variables))
    transcripts = found.config.transcripts
    hooks.record(workspace, event, at_ns, homes, transcripts=transcripts, asked=asked)
    if found.config.auto_gc and hooks.why_gc(workspace):
        from . import background

        background.start(workspace.root.path, found.settings)


def _left(event: "Event", began: float) -> float:
    """Seconds that are left of an event's budget; `began` is on the monotonic clock: the other one may be set meanwhile."""
    return event.budget - (time.monotonic() - began) - _SPARE


def _hurry(seconds: float) -> None:
    """Have _OutOfTime raised when the time is up, KeyboardInterrupt when the client has enough of us before that."""
    # `signal` itself makes enumerations of the numbers, and imports what makes those
    import _signal as signal

    def ring(number: int, _: object) -> None:
        raise _OutOfTime if number == signal.SIGALRM else KeyboardInterrupt("stopped by its client")

    for number in (signal.SIGALRM, signal.SIGTERM):
        signal.signal(number, ring)
    signal.setitimer(signal.ITIMER_REAL, max(seconds, 0.01))


def _rest() -> None:
    """Have nothing more raised."""
    import _signal as signal

    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _start_child(event: "Event", payload: bytes, at_ns: int, wait: float, log: Log, more: list[str]) -> None:
    """Leave the whole save to a process in a session of its own, and wait for it for `wait` seconds."""
    import subprocess

    from .. import door

    command = [*door.command(), "hook", event.agent, event.name, _CHILD, str(at_ns), *more]
    null = subprocess.DEVNULL
    child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=null, stderr=null, start_new_session=True, cwd="/")
    if child.stdin is not None:
        child.stdin.write(payload)
        child.stdin.close()
    try:
        if child.wait(timeout=max(wait, 0.0)):
            log.add(f"hook {event.agent} {event.name}: the process that was to make the checkpoint ended with {child.returncode}")
    except subprocess.TimeoutExpired:
        child.returncode = 0  # it goes on without us; nobody is to warn that it was not waited for
