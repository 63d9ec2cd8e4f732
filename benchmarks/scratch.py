"""A benchmark's own directory, which is gone whatever ends the benchmark, and the exit codes that go with that."""

import os
import signal
import sys
import tempfile

from . import trees
from .compare import measure

USAGE, FAILED, INTERRUPTED = 64, 1, 130


def in_scratch(name, work, given):
    """Call `work(given, directory)` with a directory of its own; the exit code."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    scratch = os.path.realpath(tempfile.mkdtemp(prefix=f"casrewind-{name}-"))
    try:
        return work(given, scratch)
    except KeyboardInterrupt:
        return INTERRUPTED
    except (measure.Failed, OSError) as error:
        print(f"{name}: {str(error)[:500]}", file=sys.stderr)
        return FAILED
    finally:
        trees.remove(scratch)
