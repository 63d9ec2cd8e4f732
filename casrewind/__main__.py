"""Starts the `casrewind` command: as a script, by `python -m casrewind`, or as a file run with -I (hooks do this).

Two dangers are prevented here. Ctrl-C during imports would print a traceback and exit with Python's own code. And a
project could contain a module that has the name of a standard module, and Python would import the project's.
"""

import _signal  # type: ignore[import-not-found]  # importing `signal` itself is slow
import os
import sys


def _find_packages() -> None:
    """Import the package beside this file, whatever other casrewind the interpreter has installed."""
    sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    import casrewind  # noqa: F401 - it imports nothing, so no file beside it can replace a standard module

    sys.path.append(sys.path.pop(0))  # dependencies may lie beside casrewind, too


def _exit_on_signal(number: int, _: object) -> None:
    """Exit at once: nothing is open yet. A hook exits silently with 0."""
    os._exit(0 if sys.argv[1:2] == ["hook"] else 128 + number)


def _forget_here() -> None:
    """Remove the working directory from the import path, unless casrewind itself lies there. Python or PYTHONPATH may
    add it."""
    try:
        here = os.path.realpath(os.getcwd())
    except OSError:
        return
    own = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))
    if here != own:
        sys.path[:] = [place for place in sys.path if os.path.realpath(place) != here]


def main() -> None:
    """Run the command line or a hook, and exit. An interrupt exits with 130; in a hook, with 0."""
    for number in (_signal.SIGINT, _signal.SIGTERM) if sys.argv[1:2] == ["hook"] else (_signal.SIGINT,):
        if _signal.getsignal(number) != _signal.SIG_IGN:
            _signal.signal(number, _exit_on_signal)
    if not __package__:
        _find_packages()
    _forget_here()
    if sys.argv[1:2] == ["hook"]:
        from casrewind.hook import handler

        handler.handle_and_exit(sys.argv[2:])
    from casrewind.cli.main import run

    run()


if __name__ == "__main__":
    main()
