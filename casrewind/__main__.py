"""The same door as the `casrewind` command: `python -m casrewind`, or this file as a script, with -I -S for a hook."""

import os
import sys


class _Elsewhere:
    """Looks where `site` would have looked, once something is missing beside our package: it was installed elsewhere."""

    @classmethod
    def find_spec(cls, name: str, path: object = None, target: object = None) -> object:
        """As the import system's finders, of which this is the last."""
        sys.meta_path.remove(cls)  # type: ignore[arg-type]
        import site
        from importlib.machinery import PathFinder

        site.main()
        return PathFinder.find_spec(name, path, target)  # type: ignore[arg-type]


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
    from casrewind.cli.main import main

    sys.exit(main())
