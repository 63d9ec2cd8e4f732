"""Reads the input other than argv: variables, the home directory, configuration files.

Every hook uses it, so it imports as little as possible.
"""

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .. import config
    from ..settings import Settings


def home() -> str:
    """The user's home directory."""
    if found := os.environ.get("HOME"):
        return found
    import pwd

    try:
        return pwd.getpwuid(os.geteuid()).pw_dir
    except KeyError:
        return "/"


def data_directory() -> str:
    """The directory of all stores, regardless of the configuration."""
    return os.path.abspath(os.environ.get("CASREWIND_HOME") or _data(home()))


def _data(place: str) -> str:
    given = os.environ.get("XDG_DATA_HOME")
    if given and os.path.isabs(given) and sys.platform != "darwin":
        return os.path.join(given, "casrewind")
    if sys.platform != "darwin":
        return os.path.join(place, ".local", "share", "casrewind")
    return os.path.join(place, "Library", "Application Support", "casrewind")


def helpers() -> str:
    """The directory of a user's running helpers (casrewind watch). It need not exist."""
    return os.path.join(data_directory(), "watch")


class Environment:
    """The settings that the command line found in its environment."""

    def __init__(self, settings: "Settings", found: "config.Config") -> None:
        """`found` is the user's configuration; `settings` are a part of it."""
        self.settings, self.config = settings, found


def read(*, store: str | None, force: bool) -> Environment:
    """Read variables and the user's configuration file. Raises UsageError for invalid values."""
    from ..model.retention import Limits
    from ..settings import KEEP_LAST, Settings

    environ = os.environ
    found = configuration()
    settings = Settings(
        home=home(),
        data=data_directory(),
        store=store,
        environ=environ,
        default_excludes=found.default_excludes,
        max_file_size=found.max_file_size,
        force=force,
        processes=_processes(),
        limits=Limits(found.max_age, found.max_count, KEEP_LAST, found.max_size, found.thin),
    )
    return Environment(settings, found)


def configuration() -> "config.Config":
    """The user's configuration: the file, overridden by variables. Raises UsageError for invalid values."""
    from .. import config, fsio

    path = _config_path(home())
    return config.read(_text(path), fsio.printable(path), os.environ)


def explained() -> "tuple[str, list[config.Setting]]":
    """Returns (path of the user's configuration file, which need not exist; every setting and its source)."""
    from .. import config, fsio

    path = _config_path(home())
    return path, config.explain(_text(path), fsio.printable(path), os.environ)


def _processes() -> int:
    """The number of processes that may scan a worktree. Forking is safe: this process has no other threads."""
    return min(len(os.sched_getaffinity(0)), 2) if sys.platform.startswith("linux") else 1


def _config_path(user: str) -> str:
    if sys.platform == "darwin":
        return os.path.join(user, "Library", "Application Support", "casrewind", "config.toml")
    given = os.environ.get("XDG_CONFIG_HOME")
    base = given if given and os.path.isabs(given) else os.path.join(user, ".config")
    return os.path.join(base, "casrewind", "config.toml")


def _text(path: str) -> str:
    from .. import config, errors, fsio

    try:
        return config.decoded(fsio.read_file(os.path.realpath(path), config.MOST_TOML + 1), fsio.printable(path))
    except (FileNotFoundError, NotADirectoryError):
        return ""
    except OSError as error:
        raise errors.UsageError(f"{fsio.printable(path)} cannot be read: {fsio.reason_of(error)}") from error
