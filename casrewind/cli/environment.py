"""Everything that comes from outside of argv: variables, the home directory, configuration files."""

import os
import pwd
import sys
from typing import NamedTuple

from .. import config, errors, fsio
from ..model.retention import Limits
from ..settings import KEEP_LAST, Settings, default_data

_MAX_CONFIG = 1 << 20


class Environment(NamedTuple):
    """What the command line found around it."""

    settings: Settings
    config: config.Config


def read(*, store: str | None, force: bool) -> Environment:
    """Read variables and the user's configuration file. Raises UsageError for what cannot be understood in them."""
    environ = os.environ
    home = environ.get("HOME") or _home_of_user()
    data = environ.get("CASREWIND_HOME") or _data(home)
    path = _config_path(home)
    found = config.read(_text(path), fsio.show(path), environ)
    settings = Settings(
        home=home,
        data=os.path.abspath(data),
        store=store,
        environ=environ,
        default_excludes=found.default_excludes,
        max_file_size=found.max_file_size,
        force=force,
        limits=Limits(found.max_age, found.max_count, keep_last=KEEP_LAST),
    )
    return Environment(settings, found)


def data_directory() -> str:
    """The directory under which stores are kept, whatever the configuration says."""
    return os.path.abspath(os.environ.get("CASREWIND_HOME") or _data(os.environ.get("HOME") or _home_of_user()))


def _home_of_user() -> str:
    try:
        return pwd.getpwuid(os.geteuid()).pw_dir
    except KeyError:
        return "/"


def _data(home: str) -> str:
    given = os.environ.get("XDG_DATA_HOME")
    if given and os.path.isabs(given) and sys.platform != "darwin":
        return os.path.join(given, "casrewind")
    return default_data(home)


def _config_path(home: str) -> str:
    if sys.platform == "darwin":
        return os.path.join(home, "Library", "Application Support", "casrewind", "config.toml")
    given = os.environ.get("XDG_CONFIG_HOME")
    base = given if given and os.path.isabs(given) else os.path.join(home, ".config")
    return os.path.join(base, "casrewind", "config.toml")


def _text(path: str) -> str:
    try:
        return fsio.read_file(os.path.realpath(path), _MAX_CONFIG).decode("utf-8")
    except (FileNotFoundError, NotADirectoryError):
        return ""
    except (OSError, UnicodeDecodeError) as error:
        raise errors.UsageError(f"{fsio.show(path)} cannot be read: {getattr(error, 'strerror', None) or error}") from error
