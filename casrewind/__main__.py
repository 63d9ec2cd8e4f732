"""Starts the `casrewind` command: by its script, by `python -m casrewind`, or as a file, which is how a hook runs it, with -I.

Two dangers are prevented here. Ctrl-C while modules are imported would show a traceback and end with an exit code of Python's.
And a project could hold a module with the name of one of Python's, which would then be imported instead.
"""

import _signal  # type: ignore[import-not-found]  # `signal` itself is a module that takes time
import os
import sys


def _find_packages() -> None:
    """Import our own package from beside this file, whatever else the interpreter has installed under its name."""
    if sys.flags.no_site:  # a hook that an earlier version installed has -S
        import site

        site.main()
    sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    import casrewind  # noqa: F401 - imports nothing itself, so no module beside it can replace one of Python's

    sys.path.append(sys.path.pop(0))  # what casrewind needs may lie beside it, too


def _end(number: int, _: object) -> None:
    """End at once: nothing is open yet. A hook has done nothing, and says nothing."""
    os._exit(0 if sys.argv[1:2] == ["hook"] else 128 + number)


def _forget_here() -> None:
    """Import nothing from the working directory, where Python or PYTHONPATH has it searched. Our own package may lie there."""
    try:
        here = os.path.realpath(os.getcwd())
    except OSError:
        return
    own = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))
    if here != own:
        sys.path[:] = [place for place in sys.path if os.path.realpath(place) != here]


def main() -> None:
    """Run the command line, or a hook, and be gone. An interrupt ends the one with 130, the other with 0."""
    for number in (_signal.SIGINT, _signal.SIGTERM) if sys.argv[1:2] == ["hook"] else (_signal.SIGINT,):
        if _signal.getsignal(number) != _signal.SIG_IGN:
            _signal.signal(number, _end)
    if not __package__:
        _find_packages()
    _forget_here()
    if sys.argv[1:2] == ["hook"]:
        from casrewind.cli.hook import command

        command.run(sys.argv[2:])
    from casrewind.cli.main import run

    run()


if __name__ == "__main__":
    main()
