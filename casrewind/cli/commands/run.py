"""casrewind run: a command, with a checkpoint before it and one after it."""

from ... import errors
from ...ops.save import Saved
from ...typed import Any
from .. import output
from ..output import counted, remark, skipped
from . import Done


def run(workspace: Any, options: Any, done: Done) -> int:
    """casrewind run."""
    import signal
    import subprocess

    if not options.rest:
        raise errors.UsageError("run needs a command: casrewind run -- COMMAND")
    command = " ".join(options.rest)
    label = options.message or command[:200]
    described = not options.message
    before = workspace.save(f"before: {label}", described=described)
    done()
    if not options.quiet:
        remark(f"saved {before.checkpoint.id} before the command")
    skipped(before.faults)
    # an interrupt from the terminal is the command's to answer; after it there is still a checkpoint to make
    handler = signal.signal(signal.SIGINT, lambda *_: None)
    try:
        code = subprocess.Popen(options.rest).wait()
    except OSError as error:
        output.say_error(f"cannot run {options.rest[0]}: {error.strerror}")
        return 127 if isinstance(error, FileNotFoundError) else 126
    finally:
        signal.signal(signal.SIGINT, handler)
        after = workspace.save(f"after: {label}", described=described)
        done()
        if not options.quiet:
            _show(before, after)
        skipped(after.faults)
    return 128 - code if code < 0 else code


def _show(before: Saved, after: Saved) -> None:
    """run, when the command has ended: on standard error, because standard output is the command's."""
    counts = after.checkpoint.changes
    if counts == (0, 0, 0):
        remark(f"saved {after.checkpoint.id} after the command: nothing changed")
        return
    remark(
        f"saved {after.checkpoint.id} after the command: {counted(counts)}; "
        f"casrewind restore {before.checkpoint.id} takes it back"
    )
