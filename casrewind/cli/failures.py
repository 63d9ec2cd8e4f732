"""When something goes wrong: what is said, where a bug is written down, and standard streams that are no good."""

import os
import sys
from contextlib import suppress

from .. import errors, fsio

INTERRUPTED, BUG = 130, 70


def say_error(message: str) -> None:
    """One line on standard error; what a name holds cannot command a terminal."""
    print(f"casrewind: {fsio.show(message)}", file=sys.stderr)


def tell_of_hooks(*directories: str) -> None:
    """Say what hooks could not do, as the logs of the data directory and of a store have it: the newest line, and how many
    there are. It is said once."""
    from ..store.log import Log

    lines = [line for directory in directories for line in Log(directory).unseen()]
    if lines:
        more = f" ({len(lines)} of these since you were told last; the store's log has them all)" if len(lines) > 1 else ""
        say_error(f"note: a hook could not do all of its work: {lines[-1]}{more}")


def interrupted() -> int:
    """The person, or whoever started us, wants no more of it."""
    say_error("interrupted")
    return INTERRUPTED


def half_done() -> None:
    """A restore was stopped in the middle: what can be done about it."""
    say_error("the restore is half done: casrewind restore --continue finishes it, --abort takes it back")


def is_interrupt(error: BaseException | None) -> bool:
    """True when an error came up while an interrupt was on its way out: one that arrives just behind a close, say, has
    the descriptor closed a second time."""
    while error is not None and not isinstance(error, KeyboardInterrupt):
        error = error.__context__
    return error is not None


def system_error(error: OSError | MemoryError) -> int:
    """The system refused something that no room has an answer to: say what and where."""
    if isinstance(error, MemoryError):
        say_error("not enough memory: allow this process more (ulimit -v), and try again")
        return errors.CasrewindError.exit_code
    if fsio.is_full(error):  # everything that is written to a store or a worktree has its own answer to this
        drop_output()
        say_error(f"{fsio.reason_of(error)} to write the output to: free some space and try again")
        return errors.StoreFull.exit_code
    where = f" at {fsio.show(error.filename)}" if error.filename else ""
    say_error(f"cannot go on{where}: {fsio.reason_of(error)}")
    return errors.CasrewindError.exit_code


def bug(error: Exception, argv: list[str]) -> int:
    """Something that casrewind did not expect: a log that can be pasted into a report, and its path."""
    import platform
    import tempfile
    import traceback

    from .. import __version__

    text = (
        f"casrewind {__version__}, Python {platform.python_version()}, {platform.platform()}\n"
        f"arguments: {argv!r}\n\n" + "".join(traceback.format_exception(error))
    )
    try:
        with tempfile.NamedTemporaryFile("w", prefix="casrewind-bug-", suffix=".log", delete=False) as file:
            file.write(text)
        say_error(f"this is a bug in casrewind: {type(error).__name__}: {error}; please report it with {file.name}")
    except OSError:
        say_error(f"this is a bug in casrewind: {text}")
    return BUG


def drop_output() -> None:
    """Send what standard output still holds to nowhere, so that the flush at exit cannot fail."""
    with suppress(OSError, ValueError):  # a stream without a descriptor has nothing to flush to
        number = sys.stdout.fileno()
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, number)
        os.close(null)


def fill_standard_streams() -> None:
    """Put /dev/null where no standard stream is open: the next file opened, one of the store's perhaps, would get its
    descriptor, and what is printed would land in it."""
    if sys.stdin is not None and sys.stdout is not None and sys.stderr is not None:
        return
    while (fd := os.open(os.devnull, os.O_RDWR)) <= 2:
        pass
    os.close(fd)
    sys.stdin = sys.stdin or open(os.devnull)  # noqa: SIM115 - open as long as the process runs
    sys.stdout = sys.stdout or open(os.devnull, "w")  # noqa: SIM115
    sys.stderr = sys.stderr or open(os.devnull, "w")  # noqa: SIM115
