"""The door of the `casrewind` command: its script, `python -m casrewind`, or this file as a script, with -I -S for a hook.

Two dangers are prevented here. Ctrl-C while modules are imported would show a traceback and end with an exit code of Python's.
And a project could hold a module with the name of one of Python's, which would then be imported instead.
"""

import _signal  # type: ignore[import-not-found]  # `signal` itself is a module that takes time
import os
import sys


class _Elsewhere:
    """Looks where Python usually would, once something is not beside our package: first in the virtual environment that the
    interpreter belongs to, then wherever `site` says, which takes longer."""

    @classmethod
    def find_spec(cls, name: str, path: object = None, target: object = None) -> object:
        """As the import system's finders, of which this is the last."""
        top = os.path.dirname(os.path.dirname(sys.executable))
        version = f"python{sys.version_info[0]}.{sys.version_info[1]}"
        place = os.path.join(top, "lib", version, "site-packages")
        usual = next(finder for finder in sys.meta_path if getattr(finder, "__name__", "") == "PathFinder")
        found = None
        if place not in sys.path and os.path.isfile(os.path.join(top, "pyvenv.cfg")):
            sys.path.append(place)
            found = usual.find_spec(name, path, target)  # type: ignore[arg-type]
        if found is None:
            sys.meta_path.remove(cls)  # type: ignore[arg-type]
            import site

            site.main()
            found = usual.find_spec(name, path, target)  # type: ignore[arg-type]
        return found


def _find_packages() -> None:
    sys.path.append(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    if sys.flags.no_site:
        sys.meta_path.append(_Elsewhere)  # type: ignore[arg-type]


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
    _forget_here()
    if sys.argv[1:2] == ["hook"]:
        from casrewind.cli import hook

        hook.run(sys.argv[2:])
    from casrewind.cli.main import run

    run()


if __name__ == "__main__":
    if not __package__:
        _find_packages()
    main()
