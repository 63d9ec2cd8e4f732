"""The same door as the `casrewind` command: `python -m casrewind`, or this file as a script, with -I -S for a hook."""

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


if __name__ == "__main__":
    if not __package__:
        _find_packages()
    if sys.argv[1:2] == ["hook"]:
        from casrewind.cli import hook

        hook.run(sys.argv[2:])
    from casrewind.cli.main import run

    run()
