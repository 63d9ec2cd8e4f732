"""Where a user's things are, by the environment: asked by every hook, so nothing is imported for it."""

import os
import sys


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
    """The directory under which stores are kept, whatever the configuration says."""
    return os.path.abspath(os.environ.get("CASREWIND_HOME") or _data(home()))


def _data(place: str) -> str:
    given = os.environ.get("XDG_DATA_HOME")
    if given and os.path.isabs(given) and sys.platform != "darwin":
        return os.path.join(given, "casrewind")
    if sys.platform != "darwin":
        return os.path.join(place, ".local", "share", "casrewind")
    return os.path.join(place, "Library", "Application Support", "casrewind")


def helpers() -> str:
    """The directory in which the helpers of a user (casrewind watch) are to be found. There need not be one."""
    return os.path.join(data_directory(), "watch")
