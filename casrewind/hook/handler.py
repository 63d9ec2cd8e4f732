"""`casrewind hook AGENT`: called by a client at its events, with JSON on standard input.

The danger prevented here: a hook that disturbs the agent. Whatever happens, the hook prints nothing that the client
would add to the conversation. The exit code is 0. The client waits no longer than the event's budget. A failure becomes
a line in the store's log, and the next command shows it. Modules are imported only when there is work to do.
"""

import gc
import os
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .._typing import NoReturn
    from ..agents.event import Event
    from ..config import Config
    from ..context import Context
    from ..settings import Settings
    from ..store.agent_sessions import AgentSessions
    from ..upkeep.adopt import Moved
    from ..upkeep.save import Saved

_CHILD = "--child"
_RESIDENT = "--resident"
"""As in agents/settings_edit.py: an option without a meaning, in settings that an earlier version wrote."""
_SLICE = 4
"""If the last save took more than the budget divided by this, a child makes the checkpoint. The hook may end first."""
_UNHURRIED = 120.0
"""Budget of a child in seconds. It waits half of this for a lock."""
_WORKTREES = "--worktrees"
"""As in worktree_saves.py."""
_SPARE = 0.2
"""Seconds of the budget that are reserved for ending the process."""


class _OutOfTime(BaseException):
    """The budget is used up. It is no Exception, so that no `except Exception` catches it."""


def handle_or_log(argv: list[str]) -> None:
    """Handle one event. Raises nothing: what goes wrong is logged."""
    at_ns, began = time.time_ns(), time.monotonic()
    log = HookLog()
    try:
        os.umask(os.umask(0o077) & 0o077)  # otherwise this process could not open a lock file that it has just made
        _fill_standard_streams()
        _make_checkpoint(argv, at_ns, began, log)
    except BaseException as error:
        log.add_line(f"{' '.join(argv[:2])}: {reason_for_log(error)}")


def reason_for_log(error: BaseException) -> str:
    """The text that the log records for an error."""
    return f"{type(error).__name__}: {str(error) or 'more memory was needed than there is, or than a hook may take'}"


def handle_and_exit(argv: list[str]) -> "NoReturn":
    """Handle one event and exit at once. An orderly exit of the interpreter costs as much as a fifth of a save, and
    everything that has to be closed is closed. The cyclic garbage collector is off for the same reason."""
    gc.disable()
    try:
        _listen_to_interrupts()
        handle_or_log(argv)
        sys.stdout.flush()
    except (AttributeError, OSError, ValueError, KeyboardInterrupt):
        pass  # the client no longer reads
    os._exit(0)


def _listen_to_interrupts() -> None:
    """Turn an interrupt into an exception for the log. Until this call, it ends this process silently (__main__)."""
    import _signal as signal  # type: ignore[import-not-found]

    if signal.getsignal(signal.SIGINT) != signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


class HookLog:
    """The failure log: the store's when the store is known, until then the data directory's."""

    directory = ""

    def add_line(self, text: str) -> None:
        """Add a line. Raises nothing."""
        from contextlib import suppress

        from ..store import failure_log

        with suppress(Exception):
            if self.directory and failure_log.FailureLog(self.directory).append_line(text):
                return
            from .. import environment, fsio, locations

            directory = environment.data_directory()
            if locations.ownership_problem(directory):
                return  # other users must not read which project failed
            fsio.make_directories(directory)
            failure_log.FailureLog(directory).append_line(text)


def _fill_standard_streams() -> None:
    """Open /dev/null for each missing standard stream. Otherwise a file of the store could get that descriptor."""
    for fd in range(3):
        try:
            os.fstat(fd)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # gets the lowest free number


class _HookCall:
    """One call of the hook.

    `words`: the agent and, if the client's settings name it, the event. `at_ns`: time of the event (ns since 1970).
    `is_child`: this process continues the work of a hook, in the project of `directory`. `notice`: what this hook prints for the person
    at the client.
    """

    notice = b""

    def __init__(self, argv: list[str], at_ns: int, began: float) -> None:
        """`argv`: the arguments after `hook`. `began`: the start of this process on the monotonic clock."""
        self.words = [word for word in argv if word != _RESIDENT]
        self.at_ns, self.began = at_ns, began
        self.is_child = _CHILD in argv
        self.directory = ""
        if self.is_child:
            at = self.words.index(_CHILD)
            self.words, self.at_ns, self.directory = self.words[:at], int(self.words[at + 1]), "".join(self.words[at + 2 :])

    def print_notice(self, notice: bytes = b"") -> None:
        """Print what the client shows to the person or gives to the model."""
        if shown := notice or self.notice:
            from .. import fsio

            fsio.write_all(1, shown)

    def seconds_left(self, budget: float) -> float:
        """Seconds left of an event's budget. Uses the monotonic clock, because the wall clock may be set."""
        return budget - (time.monotonic() - self.began) - _SPARE


class HookJob:
    """An event of a client, and the settings for its checkpoint."""

    settings: "Settings"
    config: "Config"
    _sessions: "AgentSessions | None" = None
    _unpushed: tuple[str, str, int] | None = None
    """Of a save that a push follows: the root, the store's directory of remotes, and the number of the checkpoint's record."""
    _saved_root = ""
    """The root of a save."""
    _moved: "Moved | None" = None
    """What was found of a project that may have been moved here."""

    def __init__(self, words: list[str], payload: bytes, at_ns: int, directory: str = "") -> None:
        """`words`: the agent, perhaps the event. `payload`: the client's JSON, received at `at_ns` (ns since 1970). `directory`: one of
        the project, "" = not decided yet."""
        from .. import agents
        from ..agents import event as events

        self.payload, self.at_ns, self._directory = payload, at_ns, directory
        self.client = agents.find_sender(words[0] if words else "", payload)
        self.event = events.read_event(self.client, payload, os.environ, words[1] if len(words) > 1 else "")

    @property
    def project_directory(self) -> str:
        """A directory of the project. Decided once for an event: what the hook records of it is part of the next decision."""
        if not self._directory:
            from . import session_root

            self._directory = session_root.find_directory(self.client, self.event)
        return self._directory

    def is_wanted(self) -> bool:
        """True if the tier includes the event. Without a configured tier every installed hook counts."""
        if not self.event.trigger:
            return False
        from .. import environment
        from ..agents import event as events
        from ..agents.client import TIERS

        return events.makes_checkpoint(self.client, self.event, environment.configuration().tier or TIERS[-1])

    def read_settings(self, seconds: float) -> None:
        """Read the settings. `seconds`: the budget; a lock may take half of it. Raises UsageError."""
        from ..settings import from_environment

        settings, self.config = from_environment(by_itself=True)
        self.settings = settings._replace(deadline=max(seconds / 2, 0.4))

    def notice_for_person(self, context: "Context", saved: "Saved | None") -> bytes:
        """The hook's output for the person at the client, or b"". `saved`: the checkpoint, None before it is made."""
        if not self.client.person_answer("") or self.event.pid <= 1 or self.event.trigger not in ("session_start", "prompt", "turn_end"):
            return b""
        if self.event.trigger == "prompt" and not context.store.is_restore_open(context.root.key):
            return b""  # before the import: every prompt comes here
        from . import notices

        return notices.answer_for_person(self.client, self.event, self.config, context, saved, self._moved)

    def notice_of_failed_start(self, error: Exception, store: str) -> bytes:
        """The hook's output for the person if a session starts with this error, or b"". `store`: "" if unknown."""
        is_start = self.event.trigger == "session_start"
        if not is_start or not self.client.person_answer("") or self.event.pid <= 1 or not self.config.session_line:
            return b""
        from . import notices

        return notices.answer_after_error(self.client, error, store)

    def go_on_if_moved(self) -> None:
        """If the project has no checkpoint here, go on in the store that it had elsewhere, as a command does. Raises StoreBusy if that is
        in use: then no other one was begun."""
        from .. import projects

        if projects.may_have_moved(self.project_directory, self.settings):
            self._moved = projects.adopt_moved(self.project_directory, self.settings)

    def text_for_model(self, context: "Context") -> bytes:
        """The hook's output for the model: what was restored since the session's last prompt, or b"". Call it before the
        save of the prompt, and `record_told` when the client has it."""
        event = self.event
        is_told = context.tells_agent and event.trigger == "prompt" and event.session and event.source != "tree"
        if not is_told or not self.client.model_answer(event.name, ""):
            return b""
        from ..upkeep import agent_event

        since = agent_event.untold_since(context, event)
        if since is None:
            return b""
        from . import model_notice

        found, self._sessions = model_notice.answer_for_model(self.client, event, context, since), context.store.sessions
        if found:
            self._sessions.record_untold(event.agent, event.session, since)  # for the next prompt, if this hook is killed
        else:
            self.record_told()
        return found

    def record_told(self) -> None:
        """Record that the client has what `text_for_model` returned, if it returned something."""
        if self._sessions is not None:
            self._sessions.record_told(self.event.agent, self.event.session)

    def save_and_start_gc(self, context: "Context") -> "Saved":
        """Make the checkpoint, and start gc if it is due. Raises as a save does."""
        from ..upkeep import agent_event

        saved = agent_event.record_event(
            context, self.event, self.at_ns, self._transcript_homes(), transcripts=self.config.transcripts, tells_ends=self._reports_ends()
        )
        if self.config.auto_gc and context.store.why_gc(context.limits.max_size):
            from . import background_gc

            background_gc.start_gc(context.root.path, self.settings)
        if self.config.remote_push != "off":
            self._unpushed = context.root.path, context.store.remotes, saved.checkpoint.seq
        self._saved_root = context.root.path
        return saved

    @property
    def ends_session(self) -> bool:
        """True if a session ends, and its client with it: a person may go on with another session in it."""
        return self.event.trigger == "session_end" and self.event.reason not in ("clear", "fork", "resume")

    def start_saves_of_worktrees(self) -> None:
        """Start saves of the linked worktrees inside the project, after its own save. Before a tool, which may remove one, wait
        for them within the event's budget. Raises nothing."""
        from ..worktree.linked_worktrees import find_inside

        if self._saved_root and find_inside(self._saved_root):
            from . import worktree_saves

            used = max(time.time_ns() - self.at_ns, 0) / 1e9
            wait = max(self.event.budget - used - 2 * _SPARE, 0.0) if self.event.before_tool else None
            worktree_saves.start_saves(self._saved_root, wait)

    def start_push(self) -> None:
        """Start a push of what `save` saved, if the user wants that. The first save of a store that joins a remote by itself starts
        one after any event. Call it when the client has the hook's answer. At the end of a session it waits for the push as long as
        remote.wait says, and the client lets it. Raises nothing."""
        if self._unpushed is None:
            return
        from .. import environment
        from . import background_push

        root, remotes, record = self._unpushed
        joins = bool(environment.remote_to_join(self.config))
        is_first = joins and not os.path.lexists(remotes)
        if is_first or background_push.is_wanted(self.config.remote_push, self.event.trigger):
            used = max(time.time_ns() - self.at_ns, 0) / 1e9
            most = min(self.config.remote_wait, self.client.seconds_until_stopped(self.event.name))
            wait = max(most - used - 2 * _SPARE, 0.0) if self.ends_session else None
            background_push.start_push_after_save(root, remotes, self.settings, wait, record, joins=joins)

    def event_line(self) -> bytes:
        """The event as a line for the process that records it, because this one does not."""
        from ..upkeep import agent_event

        return agent_event.event_as_line(self.event, self.at_ns, self._transcript_homes(), tells_ends=self._reports_ends())

    def _transcript_homes(self) -> tuple[str, ...]:
        """The directories below which a transcript is accepted."""
        return self.client.accepted_transcript_homes(self.settings.home, os.environ)

    def _reports_ends(self) -> bool | None:
        tier = self.config.tier
        return tier != "minimal" if tier else None


def _make_checkpoint(argv: list[str], at_ns: int, began: float, log: HookLog) -> None:
    """Make the event's checkpoint in this process, or in a child if the save is slow."""
    if argv[:1] == [_WORKTREES]:
        from ..settings import from_environment
        from . import worktree_saves

        worktree_saves.save_all(argv[1], from_environment(by_itself=True)[0]._replace(deadline=_UNHURRIED / 2))
        return
    from ..agents import payload as payloads

    call = _HookCall(argv, at_ns, began)
    if call.is_child:
        from . import limits

        limits.limit_process()
    payload = payloads.read_to_end(0)  # read all of it, valid or not: the client's write must not fail
    job = HookJob(call.words, payload, call.at_ns, call.directory)
    if job.event.command is not None:
        from . import slash_command

        slash_command.run_and_answer(job.event, job.client, job.project_directory)
    elif job.is_wanted():
        job.read_settings(_UNHURRIED if call.is_child else job.event.budget)
        if call.is_child:
            _save_as_child(job, log)
            return
        is_done = False
        try:
            is_done = _save_here(call, job, log)
        except _OutOfTime:
            pass  # this save is larger than the last one, or the machine is slow: a child starts again without a budget
        except Exception as error:
            call.notice = call.notice or job.notice_of_failed_start(error, log.directory)
            raise
        finally:
            call.print_notice()
            if call.notice:
                job.record_told()
        if is_done:
            job.start_saves_of_worktrees()
            job.start_push()
        else:
            _leave_to_child(call, job, log)


def _save_here(call: _HookCall, job: HookJob, log: HookLog) -> bool:
    """Make the checkpoint in this process unless that is too slow. True if it is made. Raises _OutOfTime wherever the
    budget ends, also while modules are imported."""
    event = job.event
    try:
        _limit_time(call.seconds_left(event.budget))
        from .. import errors
        from ..settings import open_until_end
        from ..upkeep import agent_event

        try:
            job.go_on_if_moved()
        except errors.StoreBusy:
            return False  # a child waits longer
        with open_until_end(job.project_directory, job.settings, create=True) as context:
            log.directory = context.store.path
            context.store.sessions.record(agent_event.session_record(context, event, job.at_ns))
            agent_event.write_shell_variables(context, event)
            log_oddities(event, log)
            if agent_event.is_too_soon(context, event, job.at_ns):
                return True
            last = agent_event.last_save_ms(context)
            is_quick = last is not None and last <= event.budget * 1000 / _SLICE
            call.notice = _one_answer(job.notice_for_person(context, None), job.text_for_model(context))
            if is_quick:
                call.notice += job.notice_for_person(context, job.save_and_start_gc(context))
                return True
    finally:
        _cancel_timeout()
    return False


def _one_answer(for_person: bytes, for_model: bytes) -> bytes:
    """Two answers as one: a client reads one object."""
    if not for_person or not for_model:
        return for_person or for_model
    import json

    return json.dumps({**json.loads(for_person), **json.loads(for_model)}).encode() + b"\n"


def _save_as_child(job: HookJob, log: HookLog) -> None:
    """Make the checkpoint, after the other children of the project. Record the events that were left to this one."""
    from ..settings import find_root, open_until_end, store_path
    from ..upkeep import agent_event
    from . import limits

    job.go_on_if_moved()
    event, root = job.event, find_root(job.project_directory, job.settings)
    store = store_path(root, job.settings)
    limits.raise_limit_for_index(store)
    with agent_event.queued_turn_lock(store, root.key, limits.SECONDS, job.event_line) as missed:
        if missed is None:
            return
        with open_until_end(job.project_directory, job.settings, create=True) as context:
            log.directory = context.store.path
            lines = missed.read()
            for line in lines:
                if agent_event.time_in_line(line) < job.at_ns:
                    agent_event.record_missed(context, line)
            if not agent_event.is_too_soon(context, event, job.at_ns) and not agent_event.has_record_of_time(context, job.event, job.at_ns):
                job.save_and_start_gc(context)
            for line in lines:
                if agent_event.time_in_line(line) >= job.at_ns:
                    agent_event.record_missed(context, line)
            missed.remove(lines)
    job.start_saves_of_worktrees()
    job.start_push()


def log_oddities(event: "Event", log: HookLog) -> None:
    """Log the fields of an event that were ignored."""
    if event.odd:
        log.add_line(f"hook {event.agent} {event.name}: not what was expected, and left out: {', '.join(event.odd)}")


def _limit_time(seconds: float) -> None:
    """Raise _OutOfTime after `seconds`, or KeyboardInterrupt when the client ends the hook before."""
    # the module `signal` imports enum, which costs milliseconds
    import _signal as signal

    def ring(number: int, _: object) -> None:
        raise _OutOfTime if number == signal.SIGALRM else KeyboardInterrupt("stopped by its client")

    for number in (signal.SIGALRM, signal.SIGTERM):
        signal.signal(number, ring)
    signal.setitimer(signal.ITIMER_REAL, max(seconds, 0.01))


def _cancel_timeout() -> None:
    """Cancel the timeout."""
    import _signal as signal

    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _leave_to_child(call: _HookCall, job: HookJob, log: HookLog) -> None:
    """Start a child in its own session for the whole save. Wait for it as long as the budget allows."""
    import subprocess

    from .. import launch

    event = job.event
    command = [*launch.own_command(), "hook", event.agent, event.name, _CHILD, str(job.at_ns), job.project_directory]
    null = subprocess.DEVNULL
    child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=null, stderr=null, start_new_session=True, cwd="/")
    if child.stdin is not None:
        child.stdin.write(job.payload)
        child.stdin.close()
    try:
        wait = 0.0 if event.trigger == "session_start" else call.seconds_left(event.budget)
        if child.wait(timeout=max(wait, 0.0)):
            log.add_line(f"hook {event.agent} {event.name}: the process that was to make the checkpoint ended with {child.returncode}")
    except subprocess.TimeoutExpired:
        child.returncode = 0  # the child continues; this stops the ResourceWarning
