"""What the user's environment says: the home directory, where the stores are, the configuration file.

The danger prevented here: the command and a program open different stores for one project. Both ask this module. Every
hook uses it, so it imports as little as possible.
"""

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from . import config

_PREFIX = "CASREWIND"
_VARIABLES = frozenset(
    f"{_PREFIX}_{name}" for name in (
        "HOME", "PAGER", "REMOTE_KEY", "REMOTE_URL", "COMMAND", "AGENT", "SESSION", "TRANSCRIPT_PATH", "PROJECT_ROOT", "INSIDE",
        "TYPED_NAME", "TRIAL", "PI_PROCESS", "PI_PLACE",
    )
)  # fmt: skip
"""Variables that are no settings: a person sets the first five, casrewind the others."""


def home_directory() -> str:
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
    if found := os.environ.get("CASREWIND_HOME"):
        return os.path.abspath(found)
    return os.path.abspath(os.path.join(_base_directory("XDG_DATA_HOME", ".local/share"), "casrewind"))


def _base_directory(variable: str, usual: str) -> str:
    """The directory in which programs keep files of a kind: that of an XDG variable, on macOS too, else the system's usual one."""
    given = os.environ.get(variable)
    if given and os.path.isabs(given):
        return given
    return os.path.join(home_directory(), "Library/Application Support" if sys.platform == "darwin" else usual)


def configuration(*, by_itself: bool = False) -> "config.Config":
    """The user's configuration: the file, overridden by variables. `by_itself` as of config.read_user_config. Raises UsageError for
    invalid values."""
    from . import config
    from .messages import printable

    path, text = _read_config_file()
    origin = printable(path) if text else ""  # only an error in the file names it
    return config.read_user_config(text, origin, os.environ, by_itself=by_itself)


def explain_settings() -> "tuple[str, list[config.Setting]]":
    """Returns (path of the user's configuration file, which need not exist; every setting and its source)."""
    from . import config
    from .messages import printable

    path, text = _read_config_file()
    return path, config.explain_settings(text, printable(path), os.environ)


def remote_to_join(found: "config.Config") -> str:
    """The URL of the remote that a store without one joins, "" = none. A project's settings can set that variable, too: so it counts only
    where the user's file says that variables count."""
    from . import config

    return os.environ.get(config.URL_VARIABLE, "").strip() if found.remote_from_environment else ""


def variables_without_effect() -> list[str]:
    """A sentence about each variable that is set and does not count. Raises UsageError."""
    from . import config
    from .messages import printable

    if configuration().remote_from_environment:
        return []
    why = f"does not count: {printable(configuration_path())} does not say from_environment = true in [remote]"
    return [f"{variable} {why}" for variable in config.HOOK_VARIABLES if variable in os.environ]


def misspelt_variables() -> list[str]:
    """A sentence about each variable that is set and nearly has the name of one of ours. Others may be anybody's."""
    given = {name: name.removeprefix(_PREFIX).lstrip("_") for name in os.environ if name.startswith(_PREFIX)}
    if given.keys() <= _VARIABLES:
        return []
    from . import config
    from .messages import most_similar, printable

    settings = config.variables()
    right = {name: name for name in (*_VARIABLES, *filter(None, settings.values()))}
    meant = {name.removeprefix(_PREFIX).lstrip("_"): name for name in right}
    for setting, variable in settings.items():  # with the section, and without that of the name
        word = variable or f"only the file sets {setting}"
        meant |= {setting.replace(".", "_").upper(): word, setting.partition(".")[2].upper(): word}
    found = []
    for name, word in given.items():
        near = "" if name in right else meant.get(most_similar(word, meant), "")
        if near:
            found.append(f"{printable(name)} has no effect: {f'did you mean {near}?' if near in right else near}")
    return found


def configuration_path() -> str:
    """The path of the user's configuration file, which need not exist."""
    return os.path.join(_base_directory("XDG_CONFIG_HOME", ".config"), "casrewind", "config.toml")


def _read_config_file() -> tuple[str, str]:
    """Returns (path of the user's configuration file, its text; "" if it is missing). Raises UsageError."""
    from . import config, errors, fsio
    from .messages import printable, reason_of

    path = configuration_path()
    try:
        return path, config.decode_file(fsio.read_file(os.path.realpath(path), config.MOST_TOML + 1), printable(path))
    except (FileNotFoundError, NotADirectoryError):
        return path, ""
    except OSError as error:
        raise errors.UsageError(f"{printable(path)} cannot be read: {reason_of(error)}") from error
