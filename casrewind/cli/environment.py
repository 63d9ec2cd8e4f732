"""Everything that comes from outside of argv: variables, the home directory, configuration files."""

import os
import sys

from .. import config, errors, fsio
from . import places

TYPE_CHECKING = False
if TYPE_CHECKING:  # settings know store and worktree, for which a hook may have no use
    from ..settings import Settings


class Environment:
    """What the command line found around it."""

    def __init__(self, settings: "Settings", found: config.Config) -> None:
        """`found` is the user's configuration, of which `settings` are a part."""
        self.settings, self.config = settings, found


def read(*, store: str | None, force: bool) -> Environment:
    """Read variables and the user's configuration file. Raises UsageError for what cannot be understood in them."""
    from ..model.retention import Limits
    from ..settings import KEEP_LAST, Settings

    environ = os.environ
    home = places.home()
    found = configuration()
    settings = Settings(
        home=home,
        data=places.data_directory(),
        store=store,
        environ=environ,
        default_excludes=found.default_excludes,
        max_file_size=found.max_file_size,
        force=force,
        processes=_processes(),
        limits=Limits(found.max_age, found.max_count, KEEP_LAST, found.max_size, found.thin),
    )
    return Environment(settings, found)


def configuration() -> config.Config:
    """The user's configuration: the file, and variables over it. Raises UsageError for what cannot be understood."""
    path = _config_path(places.home())
    return config.read(_text(path), fsio.show(path), os.environ)


def explained() -> tuple[str, list[config.Setting]]:
    """(the path of the user's configuration file, which need not exist; every setting and where it is from)."""
    path = _config_path(places.home())
    return path, config.explain(_text(path), fsio.show(path), os.environ)


def _processes() -> int:
    """How many processes may look at a worktree at once: nobody else's threads are in this one."""
    return min(len(os.sched_getaffinity(0)), 2) if sys.platform.startswith("linux") else 1


def _config_path(home: str) -> str:
    if sys.platform == "darwin":
        return os.path.join(home, "Library", "Application Support", "casrewind", "config.toml")
    given = os.environ.get("XDG_CONFIG_HOME")
    base = given if given and os.path.isabs(given) else os.path.join(home, ".config")
    return os.path.join(base, "casrewind", "config.toml")


def _text(path: str) -> str:
    try:
        return config.decoded(fsio.read_file(os.path.realpath(path), config.MOST_TOML + 1), fsio.show(path))
    except (FileNotFoundError, NotADirectoryError):
        return ""
    except OSError as error:
        raise errors.UsageError(f"{fsio.show(path)} cannot be read: {fsio.reason_of(error)}") from error
