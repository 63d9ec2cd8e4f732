"""Settings: what a workspace is opened with, and what follows from them for one root: its store, how it is scanned.

Nothing here reads a configuration file of the user's or any variable but HOME: a program says what it wants.
"""

import errno
import os
import sys
from collections.abc import Mapping

from . import config, errors, fsio
from ._typing import NamedTuple
from .gitignore import gitconfig
from .gitignore.rules import MOST_BYTES, RuleFile, ScanOptions, weight_of, why_not
from .model import domain as domains
from .model.domain import Skip
from .model.retention import Limits
from .store.layout import Layout
from .worktree import root as roots

TYPE_CHECKING = False

_CONFIG, _USERS_CONFIG = b".git/config", b"(git's configuration)"
_SHOWN = 3  # of the faults of one file
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


def store_of(root: roots.Root, settings: Settings) -> str:
    """The path of a root's store, which need not exist."""
    if settings.store is not None:
        return os.path.abspath(settings.store)
    return os.path.join(settings.data, "stores", root.store_name)


def refuse_store(root: roots.Root, settings: Settings) -> None:
    """Raise UsageError for a store that would hold its own project, RootRefused for a project in one of the user's stores."""
    store, stores = os.path.realpath(store_of(root, settings)), os.path.realpath(os.path.join(settings.data, "stores"))
    if fsio.is_in(root.path, store):
        raise errors.UsageError(
            f"the store {fsio.printable(store)} would hold the project {fsio.printable(root.path)} itself: give --store "
            "a directory of its own"
        )
    if fsio.is_in(root.path, stores) and _is_in_store(root.path):
        raise errors.RootRefused(f"{fsio.printable(root.path)} is not a project: casrewind keeps its stores in {fsio.printable(stores)}")


def _is_in_store(path: str) -> bool:
    from . import store_marker

    return bool(store_marker.around(path))


def options(root: roots.Root, settings: Settings) -> ScanOptions:
    """What decides a scan of a root: git's configuration and the project's own file are read.

    Nothing in a project's files ends a save: what is not counted of them is in `faults`.
    """
    git = gitconfig.read(root.git_dir, root.common_dir, settings.environ)
    outside: list[RuleFile] = []
    faults = [
        Skip(_CONFIG if it.is_own else _USERS_CONFIG, domains.explained(domains.UNREADABLE_RULES, f"{fsio.printable(it.path)}: {it.why}"))
        for it in git.refused
    ]
    unstored: list[RuleFile] = []
    if root.common_dir is not None:  # a link in its place may lead to anything
        inside = (root.path, root.common_dir)
        _add((outside, unstored), faults, os.path.join(root.common_dir, "info", "exclude"), "exclude", inside)
    if git.excludes_file is not None:
        _add((outside, unstored), faults, os.path.join(root.path, git.excludes_file), "global", (root.path,) if git.is_own else ("/",))
    own = project(root.path)
    if own.faults or own.lost:
        faults += faults_of(own)
    if own.rules:
        outside.append(RuleFile(b"", "project", "\n".join(own.rules).encode("utf-8", "surrogateescape")))
    limit = settings.max_file_size
    if own.max_file_size is not None:
        limit = min(limit, own.max_file_size)  # a cloned repository may not widen anything
    return ScanOptions(
        outside=tuple(outside),
        ignore_case=git.ignore_case,
        default_excludes=settings.default_excludes,
        max_file_size=limit,
        processes=settings.processes,
        faults=tuple(faults),
        rules_lost=bool(own.lost),
        unstored=tuple(unstored),
        excluded=frozenset(_identity(path) for path in _own_places(root, settings)) - {(0, 0)},
    )


def _add(
    rules: tuple[list[RuleFile], list[RuleFile]], faults: list[Skip], path: str, source: str, inside: tuple[str, ...]
) -> None:
    """Add the rule file at a path outside of the tree, if there is one, to `rules` (those that are stored, those that are not), or to
    `faults`. It is stored when it really lies in one of the directories `inside`: what a project came with may name a private key."""
    real = os.path.realpath(path)
    try:
        data = fsio.read_file(real, MOST_BYTES + 1)
    except OSError:
        return
    why = why_not(data, sum(weight_of(file.data) for some in rules for file in some))
    if why:
        name = domains.EXCLUDE_NAME if source == "exclude" else domains.GLOBAL_NAME
        faults.append(Skip(name, domains.explained(domains.UNREADABLE_RULES, f"{fsio.printable(path)}: {why}")))
        return
    is_stored = any(fsio.is_below(real, os.path.realpath(place)) for place in inside)
    rules[not is_stored].append(RuleFile(b"", source, data))


def project(root: str) -> config.Project:
    """What the own file of the project at `root` says."""
    place = os.path.join(root, config.PROJECT_FILE)
    try:
        return config.read_project(config.decoded(fsio.read_file(place, config.MOST_TOML + 1), ""))
    except (FileNotFoundError, NotADirectoryError):
        return config.Project()
    except errors.UsageError as error:
        return config.Project(lost=str(error))
    except OSError as error:
        if fsio.is_ours(error):
            raise
        return config.Project(lost="it is a link" if error.errno == errno.ELOOP else f"it cannot be read: {fsio.reason_of(error)}")


def faults_of(own: config.Project) -> list[Skip]:
    """What does not count of a project's own file, as a checkpoint records it."""
    name, faults = config.PROJECT_FILE.encode(), own.faults
    found = [domains.explained(domains.UNREADABLE_RULES, own.lost)] if own.lost else []
    if faults:
        more = f"; and {len(faults) - _SHOWN} more" if len(faults) > _SHOWN else ""
        found.append(domains.explained(domains.SETTINGS, "; ".join(faults[:_SHOWN]) + more))
    return [Skip(name, fsio.printable(reason)) for reason in found]


def _own_places(root: roots.Root, settings: Settings) -> list[str]:
    """The directories that no scan enters: of a data directory that is the project itself, those that are casrewind's."""
    data = settings.data
    if fsio.is_in(root.path, os.path.realpath(data)):
        return [store_of(root, settings), os.path.join(data, "stores"), os.path.join(data, "watch")]
    return [store_of(root, settings), data]


def _identity(path: str) -> tuple[int, int]:
    try:
        status = os.stat(path)
    except OSError:
        return 0, 0
    return status.st_dev, status.st_ino
