"""The `casrewind` command: parse, open the project, call the function of the command, exit.

Exceptions define their exit codes (errors.py). Other codes: 3 = something was not done or not read, 64 = usage error,
70 = bug, 130 = interrupt.
"""

import gc
import os
import sys
from collections.abc import Sequence

from .. import errors
from ..messages import printable, shell_quoted_path
from .grammar.command_line import CommandLine, ParsedOptions
from .grammar.command_table import HELP, PICK, VERSION, load_command, load_function
from .terminal import lines

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .._typing import NoReturn
    from ..config import Config
    from ..context import Context, Progress
    from ..settings import Settings
    from .grammar.options import Command
    from .picker.progress_relay import ProgressRelay
    from .terminal.progress import Reporter

OK = 0
_UNHURRIED = 50_000
"""New objects before Python collects cyclic garbage. A save makes almost no cyclic garbage. With Python's default, 700,
collection costs a twentieth of a save.
"""
_NO_REFERENCES = ("message", "text", "url", "command")
"""Options that name no checkpoint."""
_SCANNING = ("save", "status", "diff")
"""Commands with the memory limit of a hook: an agent runs them in any clone, and they read its rules."""
_ROOTS = 3
"""Missing roots that a message names in a project without a store."""


def run() -> "NoReturn":
    """Run the command line and exit without cleaning up the interpreter.

    A regular interpreter exit costs up to a tenth of a save, and everything is closed before. A process with threads
    exits regularly.
    """
    import _signal as signal  # type: ignore[import-not-found]  # `signal` itself is slow to import

    try:
        if signal.getsignal(signal.SIGINT) != signal.SIG_IGN:
            signal.signal(signal.SIGINT, signal.default_int_handler)  # until here, SIGINT ends this process (__main__)
            sys.unraisablehook = _raise_interrupt_again
        code = main()
        for stream in (sys.stdout, sys.stderr):
            try:
                stream.flush()
            except (AttributeError, OSError, ValueError):
                lines.drop_output(stream)  # the terminal is closed
        if "threading" in sys.modules:
            sys.exit(code)
    except KeyboardInterrupt:
        code = lines.report_interrupt()
    os._exit(code)


def _raise_interrupt_again(dropped: "sys.UnraisableHookArgs") -> None:
    """Raise an interrupt a second time, a millisecond later: Python drops the exceptions of finalizers and of callbacks
    of the importer."""
    import _signal as signal

    if dropped.exc_type is KeyboardInterrupt:
        signal.signal(signal.SIGALRM, signal.default_int_handler)
        signal.setitimer(signal.ITIMER_REAL, 0.001)
    else:
        sys.__unraisablehook__(dropped)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line. Returns the exit code."""
    given = list(sys.argv[1:] if argv is None else argv)
    os.umask(os.umask(0o077) & 0o077)  # keep owner access: this process has to open its own lock
    if given[:1] == ["hook"] or "_ARGCOMPLETE" in os.environ:
        return _answer_hook_or_shell(given)
    gc.set_threshold(_UNHURRIED)
    wants_json = "--json" in given[: given.index("--") if "--" in given else None]
    try:
        lines.reset_output()
        options = CommandLine(given).parse_line()
        wants_json = options.json
        # a command that paints nothing does not import it
        if options.color != "auto" or f"{__package__}.terminal.colour_decision" in sys.modules:
            from .terminal import colour_decision

            colour_decision.set_colour_mode(options)
        code = _run_command_or_picker(options)
        sys.stdout.flush()
        return code
    except BrokenPipeError:
        lines.drop_output()  # the reader of our output closed the pipe
        return OK
    except (KeyboardInterrupt, Exception) as error:
        code = _report_error(error, given)
        if wants_json:
            lines.print_json_error(code)
        return code


def _report_error(error: BaseException, given: list[str]) -> int:
    """Print the error to standard error. Returns the exit code."""
    if isinstance(error, KeyboardInterrupt) or lines.is_interrupt(error):
        return lines.report_interrupt()
    if isinstance(error, errors.CasrewindError):
        lines.print_error(error.problem, error.hint)
        return error.exit_code
    if isinstance(error, ImportError) and "failed to map" in str(error):
        error = MemoryError()  # the loader of a C extension had no room for it
    if isinstance(error, (OSError, MemoryError)):
        return lines.system_error(error)
    assert isinstance(error, Exception)
    return lines.report_bug(error, given)


def _run_command_or_picker(options: ParsedOptions) -> int:
    """Run the named command. Without a name, run the picker on a terminal."""
    on_terminal = sys.stdin.isatty() and sys.stdout.isatty()
    if options.command in (HELP, VERSION) or (not options.command and not on_terminal):
        return load_function(options.command or HELP)(options)
    if not options.command or (on_terminal and _is_bare_restore(options)):
        options.command = PICK
    command = load_command(options.command)
    from ..settings import from_environment

    settings, config = from_environment(
        store=options.store, force=getattr(options, "force", False), by_itself=getattr(options, "auto", False)
    )
    options.budget, options.configured_tier, options.configured_keep_edits = config.max_size, config.tier, config.keep_edits
    if command.is_alone:
        return load_function(options.command)(settings, options)
    if options.command == "verify" and options.proof:
        from .commands import verify

        return verify.verify_proof(options)
    settings = settings._replace(repair=getattr(options, "repair", False))
    if options.command != PICK:
        return _run_in_project(command, options, settings, config, lines.reporter(quiet=options.quiet))
    from .picker.progress_relay import ProgressRelay

    options.relay = ProgressRelay()  # its screen shows the progress
    return _run_in_project(command, options, settings, config, options.relay)


def _is_bare_restore(options: ParsedOptions) -> bool:
    """True for a restore without a checkpoint and without special options."""
    if options.command != "restore" or options.ref is not None or options.what != "code":
        return False
    given = (
        options.into, options.patch, options.resume, options.dashed, options.yes, options.dry_run, options.json,
        options.skip_damaged,
    )  # fmt: skip
    return not any(given) and options.keep_edits is None


def _answer_hook_or_shell(given: list[str]) -> int:
    """Handle a call by a program: a client runs its hook, or a shell requests completions."""
    if given[:1] == ["hook"]:
        from ..hook import handler

        handler.handle_or_log(given[1:])
        return OK
    from .commands import completion

    return completion.write_candidates()


def _run_in_project(
    command: "Command", options: ParsedOptions, settings: "Settings", found: "Config", reporter: "ProgressRelay | Reporter | None"
) -> int:
    """Run a command in an open project."""
    from ..settings import close_context

    _note_misspelt_variables(options)
    try:
        context = _open_or_adopt(command, options, settings, reporter)
    except (errors.StoreDamaged, errors.WorkspaceNotFound) as error:
        instead = _open_after_store_error(error, options, settings, reporter)
        if isinstance(instead, int):
            return instead
        context = instead
    store, key = context.store, context.root.key
    try:
        if not command.tells_restore and store.is_interrupted(key):
            lines.print_error(
                "note: a restore was interrupted here", "casrewind restore --continue finishes it, --abort takes it back"
            )
        lines.print_hook_failures(settings.data, store.path)
        if options.command in _SCANNING:
            _limit_memory(store.path)
        if options.command != "status" and sys.stderr.isatty():
            _print_stale_hooks(context)
        if not command.tells_faults:
            for fault in context.policy.faults:
                lines.print_error(f"note: {os.fsdecode(fault.path)}: {fault.reason}")
        _remark_on_cut_clone(store.remotes)
        _remark_on_namesakes(context, options)
        code = load_function(options.command)(context, options, reporter.close if reporter else lambda: None)
        if command.saves and found.auto_gc and store.why_gc(context.limits.max_size):
            from ..hook import background_gc

            background_gc.start_gc(context.root.path, settings)
        return code
    except KeyboardInterrupt:
        if store.is_interrupted(key):
            lines.print_half_done_restore()
        raise
    finally:
        if reporter is not None:
            reporter.close()
        close_context(context)


def _note_misspelt_variables(options: ParsedOptions) -> None:
    """`status` names them before the project is opened: one that was to name the stores is the reason if none is found."""
    if options.command == "status":
        from .. import environment

        for sentence in environment.misspelt_variables():
            lines.note(sentence)


def _remark_on_cut_clone(remotes: str) -> None:
    """Say that a clone was killed before its end."""
    from ..store import push_notes

    place = push_notes.remote_directory(remotes)
    if place and os.path.lexists(os.path.join(place, push_notes.CLONING)):
        lines.print_error("note: the clone of this project was interrupted", "type the same casrewind clone command again beside it")


def _remark_on_namesakes(context: "Context", options: ParsedOptions) -> None:
    """Say which machine a plain name in a reference means, if several have it."""
    values = (value for name, value in vars(options).items() if name not in _NO_REFERENCES)
    found = (one for value in values for one in (value if isinstance(value, list) else [value]))
    given = [word for word in found if isinstance(word, str) and ":" in word]
    if given:
        from .commands import words

        words.remark_on_namesakes(context, given)


def _limit_memory(store: str) -> None:
    """Limit this process to the memory of a hook (hook/limits.py). Only on Linux:
    elsewhere the system maps address space into every process. A limit that exists is kept."""
    if not sys.platform.startswith("linux"):
        return
    import resource

    from ..store.layout import address_space_needed_for

    most = address_space_needed_for(store)
    if resource.getrlimit(resource.RLIMIT_AS) == (resource.RLIM_INFINITY, resource.RLIM_INFINITY):
        resource.setrlimit(resource.RLIMIT_AS, (most, resource.RLIM_INFINITY))
        lines.is_limited = True


def _print_stale_hooks(context: "Context") -> None:
    """Tell a person at a terminal that hooks of an agent that worked here no longer run."""
    from .. import agents, environment
    from ..agents import hook_checks

    for name in context.store.newest_of_agents(context.root.key):
        _, gone = hook_checks.find_missing_hook_files(agents.load_client(name), context.root.path, environment.home_directory(), os.environ)
        for line in gone:
            lines.print_error(f"note: NOT PROTECTED: {line}")


def _open_after_store_error(
    error: errors.CasrewindError, options: ParsedOptions, settings: "Settings", reporter: "ProgressRelay | Reporter | None"
) -> "Context | int":
    """Handle a missing or damaged store. Returns the open project or an exit code, or raises `error`."""
    if options.command == "verify" and isinstance(error, errors.StoreDamaged):
        from .commands import verify

        return verify.verify_unopenable(error, options)
    if options.command == PICK and isinstance(error, errors.WorkspaceNotFound):
        from .terminal import questions

        words = questions.offer_first_steps()
        return main(["-C", options.directory, *words]) if words else error.exit_code
    if options.command == "back" and isinstance(error, errors.WorkspaceNotFound):
        from .commands import back

        return back.open_for_unreported_conversation(error, options, settings, reporter)
    raise error


def _open_or_adopt(command: "Command", options: ParsedOptions, settings: "Settings", reporter: "Progress | None") -> "Context":
    """Open the project. Without a store, adopt the store of a project that was moved here, if the move is certain."""
    from ..settings import close_context, open_context

    try:
        found = open_context(options.directory, settings, create=False, progress=reporter)
        if command.stays or not found.store.is_untouched():
            return found
        close_context(found)
    except errors.WorkspaceNotFound:
        pass
    hint = _adopt_if_moved(options.directory, settings, dry_run=command.stays)
    try:
        found = open_context(options.directory, settings, create=command.creates, progress=reporter)
    except errors.WorkspaceNotFound as error:
        raise errors.WorkspaceNotFound(error.problem, f"{error.hint}{hint}".removeprefix("; ")) from error
    if hint:
        lines.print_error(f"note: there was no checkpoint here yet{hint}")
    return found


def _adopt_if_moved(directory: str, settings: "Settings", *, dry_run: bool) -> str:
    """Adopt the store of a moved project and report it, unless `dry_run`.

    Otherwise returns a text for the error message: the missing roots that may be this project, and how to adopt them.
    It returns "" without such roots.
    """
    from .. import projects

    if settings.store is not None:
        return ""
    found = projects.adopt_moved(directory, settings, dry_run=dry_run)
    if found.adopted is not None:
        here, old = printable(found.adopted.root), printable(found.adopted.old)
        count = found.adopted.checkpoints
        what = f"its {count} checkpoint{'' if count == 1 else 's'}" if count else "its checkpoints"
        lines.print_error(f"note: {here} was moved{'' if old == here else f' from {old}'}: {what} came along")
        return ""
    hints = "".join(
        f"; if this project was at {printable(old)} before: casrewind adopt {shell_quoted_path(old)}" for old in found.candidates[:_ROOTS]
    )
    return hints + (f" ({found.problem})" if found.problem else "")
