"""Settings: what a workspace is opened with, and what follows from them for one root: its store, how it is scanned.

Nothing here reads a configuration file of the user's or any variable but HOME: a program says what it wants.
"""

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress

from . import config, errors, fsio
from .model.retention import Limits
from .store.layout import Layout
from .typed import NamedTuple
from .worktree import gitconfig
from .worktree import root as roots
from .worktree.ignore import RuleFile
from .worktree.passes import Options

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .worktree.ahead import Ahead

_MAX_RULES = 8 << 20
KEEP_LAST = 10
"""Checkpoints of each worktree that nobody's default limit on age takes away."""


class Settings(NamedTuple):
    """What a workspace is opened with.

    Places: `home` is the user's home directory; `data` the directory under which stores are kept, one for each
    repository; `store` a store directory that is used instead, or None. `environ` is where git's configuration files are
    looked for by (HOME, XDG_CONFIG_HOME, GIT_CONFIG_GLOBAL and kin) and is used for nothing else.

    Saving: `max_file_size` in bytes, larger files are skipped and named; with `default_excludes` a short list of
    directories that can be made again (node_modules, __pycache__ and kin) is skipped where no .gitignore is.

    Keeping: `limits` are those of `Workspace.gc` when it is given none; no save takes the store over `limits.max_size`.

    Opening: `force` accepts a root that would be refused (the home directory, / and kin) and an adoption that would be;
    `deadline` is how many seconds a lock of the store is waited for; `mend` puts back what a damaged store lacks to be
    opened at all: for `Workspace.repair`. `processes` is how many may look at a large worktree at once: with 2 a fork of
    the program looks at half of it, which is sound in a program without threads only.
    """

    home: str
    data: str
    store: str | None = None
    environ: Mapping[str, str] = {}
    default_excludes: bool = True
    max_file_size: int = 1 << 30
    force: bool = False
    deadline: float = 10.0
    mend: bool = False
    processes: int = 1
    limits: Limits = Limits(30 * 86400.0, 2000, KEEP_LAST, 5 << 30, thin=True)


def default_settings() -> Settings:
    """Settings for the current user: no configuration file is read, no variable but HOME.

    They are those of the command where it finds neither a configuration file nor variables of its own. Change some with
    `default_settings()._replace(...)`.
    """
    home = os.path.expanduser("~")
    return Settings(home=home, data=default_data(home), environ={"HOME": home})


def default_data(home: str) -> str:
    """The platform's directory for a user's data, under which stores are kept."""
    if sys.platform == "darwin":
        return os.path.join(home, "Library", "Application Support", "casrewind")
    return os.path.join(home, ".local", "share", "casrewind")


def find_root(path: str, settings: Settings) -> roots.Root:
    """The root that `path` lies in. Raises WorkspaceNotFound, RootRefused."""

    def is_known(root: roots.Root) -> bool:
        return settings.store is None and Layout(store_of(root, settings)).exists()

    root = roots.find(path, settings.home, is_known)
    if not settings.force:
        roots.refuse(root.path, settings.home)
    return root


@contextmanager
def looking_ahead(path: str, settings: Settings) -> "Iterator[Ahead | None]":
    """Look at the files of the root that `path` lies in while the rest is imported: for who opens a workspace of it next, to look
    at it. None where that gains nothing, or is not known how."""
    ahead = None
    if settings.processes > 1:
        from .store import roll

        with suppress(errors.CasrewindError, OSError):  # whoever opens the workspace meets the same, and says so
            root = find_root(path, settings)
            names = roll.read(store_of(root, settings), root.key)
            if names:
                from .worktree.ahead import Ahead

                ahead = Ahead(root.path, names)
    try:
        yield ahead
    finally:
        if ahead is not None:
            ahead.close()


def store_of(root: roots.Root, settings: Settings) -> str:
    """The path of a root's store, which need not exist."""
    if settings.store is not None:
        return os.path.abspath(settings.store)
    return os.path.join(settings.data, "stores", root.store_name)


def options(root: roots.Root, settings: Settings, ahead: "Ahead | None" = None) -> Options:
    """What decides a scan of a root: git's configuration and the project's own file are read. `ahead` is a look at it that has begun.
    Raises UsageError."""
    git = gitconfig.read(root.git_dir, root.common_dir, settings.environ)
    outside: list[RuleFile] = []
    if root.common_dir is not None:
        outside += _rule_file(os.path.join(root.common_dir, "info", "exclude"), "exclude")
    if git.excludes_file is not None:
        outside += _rule_file(os.path.join(root.path, git.excludes_file), "global")
    own = project(root.path)
    if own.rules:
        outside.append(RuleFile(b"", "project", "\n".join(own.rules).encode("utf-8", "surrogateescape")))
    limit = settings.max_file_size
    if own.max_file_size is not None:
        limit = min(limit, own.max_file_size)  # a cloned repository may not widen anything
    return Options(
        outside=tuple(outside),
        ignore_case=git.ignore_case,
        default_excludes=settings.default_excludes,
        max_file_size=limit,
        processes=settings.processes,
        ahead=ahead,
        excluded=frozenset(_identity(path) for path in (store_of(root, settings), settings.data)) - {(0, 0)},
    )


def _rule_file(path: str, source: str) -> list[RuleFile]:
    try:
        return [RuleFile(b"", source, fsio.read_file(os.path.realpath(path), _MAX_RULES))]
    except OSError:
        return []


def project(root: str) -> config.Project:
    """What the own file of the project at `root` says. Raises UsageError."""
    place = os.path.join(root, config.PROJECT_FILE)
    try:
        text = fsio.read_file(place, _MAX_RULES).decode("utf-8")
    except (FileNotFoundError, NotADirectoryError):
        return config.Project()
    except (OSError, UnicodeDecodeError) as error:
        raise errors.UsageError(f"{fsio.show(place)} cannot be read: {getattr(error, 'strerror', None) or error}") from error
    return config.read_project(text, fsio.show(place))


def _identity(path: str) -> tuple[int, int]:
    try:
        status = os.stat(path)
    except OSError:
        return 0, 0
    return status.st_dev, status.st_ino
