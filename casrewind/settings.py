"""Settings, what they determine for one root (its store and what a scan captures), and the opening of both.

The danger prevented here: the command, a hook and a program use different stores of one project, or see different files
of it. All three open it here. A program passes its settings, or takes `default_settings`. The command reads the user's
configuration, too.
"""

import errno
import os
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial

from . import config, environment, errors, fsio, locations
from ._typing import NamedTuple
from .gitignore import gitconfig
from .gitignore.rules import MOST_BYTES, SOURCES, RuleFile, compiling_cost_of, name_for_output, why_refused
from .messages import is_process_limit, printable, reason_of
from .model import domain as domains
from .model.domain import Skip
from .model.retention import Limits
from .store.layout import Layout
from .worktree import root as roots
from .worktree.scan_policy import ScanPolicy

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .context import Context, Progress
    from .gitignore.rules import Accepted
    from .store.store import Store

_CONFIG, _USERS_CONFIG = b".git/config", b"(git's configuration)"
_FAULTS_REPORTED = 3  # faults reported per file
KEEP_LAST = 10
"""Checkpoints per worktree that the default age limit never deletes."""


class Settings(NamedTuple):
    """The settings with which a project is opened.

    Places: `home` is the user's home directory. `data` is the directory of all stores, one for each repository; `store`
    is a store directory to use instead, or None. `environ` has the variables that locate git's configuration files
    (HOME, XDG_CONFIG_HOME, GIT_CONFIG_GLOBAL and the like), and serves only for that.

    Saving: files larger than `max_file_size` bytes are skipped and named. With `default_excludes`, directories that
    tools can regenerate (node_modules, __pycache__ and the like) are skipped where no .gitignore exists.

    Retention: `limits` are the defaults of `Workspace.gc`; no save grows the store beyond `limits.max_size`.

    Opening: `force` accepts a root (the home directory, / and the like) or an adoption that would otherwise be refused.
    `deadline` is the longest wait for a store lock, in seconds. `repair` recreates missing parts of a damaged store so
    that it can be opened for `Workspace.repair`.

    Hooks: `tell_agent` lets a prompt's hook tell the agent what was restored.
    """

    home: str
    data: str
    store: str | None = None
    environ: Mapping[str, str] = {}
    default_excludes: bool = True
    max_file_size: int = 1 << 30
    force: bool = False
    deadline: float = 10.0
    repair: bool = False
    limits: Limits = Limits(30 * 86400.0, 20_000, KEEP_LAST, 5 << 30, thin=True)
    tell_agent: bool = True


def default_settings() -> Settings:
    """Settings for the current user. They equal the command's settings without a configuration file, so that a program
    and the command use the same store. To change some, use `default_settings()._replace(...)`.

    Variables are read as by the command: HOME, CASREWIND_HOME and XDG_DATA_HOME for the place of the stores, and those
    that locate git's configuration."""
    return Settings(home=environment.home_directory(), data=environment.data_directory(), environ=os.environ)


def from_environment(*, store: str | None = None, force: bool = False, by_itself: bool = False) -> tuple[Settings, config.Config]:
    """The command's settings, from variables and the user's configuration file. `by_itself` as of config.read_user_config. Returns
    (settings, configuration that they are made from). Raises UsageError for invalid values."""
    found = environment.configuration(by_itself=by_itself)
    return Settings(
        home=environment.home_directory(),
        data=environment.data_directory(),
        store=store,
        environ=os.environ,
        default_excludes=found.default_excludes,
        max_file_size=found.max_file_size,
        force=force,
        limits=Limits(found.max_age, found.max_count, KEEP_LAST, found.max_size, found.thin),
        tell_agent=found.tell_agent,
    ), found


def open_context(path: str, settings: Settings, *, create: bool, progress: "Progress | None" = None) -> "Context":
    """Open the project of the nearest directory at or above `path` with a `.git` or a store, otherwise of `path`.

    With `create`, a missing store is created. The caller must call `close_context`. Raises WorkspaceNotFound,
    RootRefused, UsageError, StoreForeign, FormatUnsupported, StoreDamaged, StoreNotWritable, StoreFull.
    """
    from .context import Context
    from .store.store import Store
    from .worktree.reader import Worktree

    root = find_root(path, settings)
    refuse_overlapping_store(root, settings)
    store = Store(store_path(root, settings), create=create, repair=settings.repair, deadline=settings.deadline)
    try:
        tree = Worktree(root.path)
        try:
            policy = scan_policy(root, settings)._replace(
                accepted=partial(_read_accepted_rules, store, root.key), last_tree=partial(_find_last_tree, store, root.key)
            )
            if policy.lost:
                from .history import restorable

                policy = restorable.with_recorded_rules(store, root.key, policy)
        except BaseException:
            tree.close()
            raise
    except BaseException:
        store.close()
        raise
    environ, limits = settings.environ, settings.limits
    shell = (environ.get("CASREWIND_AGENT", ""), environ.get("CASREWIND_SESSION", ""))
    return Context(root, store, tree, policy, limits, settings.data, settings.home, environ, progress, shell, settings.tell_agent)


def close_context(context: "Context") -> None:
    """Close the worktree and the store of an open project."""
    context.tree.close()
    context.store.close()


@contextmanager
def open_until_end(path: str, settings: Settings, *, create: bool) -> "Iterator[Context]":
    """As `open_context`, open until the end of a with-statement."""
    context = open_context(path, settings, create=create)
    try:
        yield context
    finally:
        close_context(context)


def _find_last_tree(store: "Store", worktree: bytes) -> bytes | None:
    newest = store.head(worktree)
    return None if newest is None else newest.tree


def _read_accepted_rules(store: "Store", worktree: bytes) -> "Accepted":
    from .history import restorable  # only a refused rule file needs it

    return restorable.accepted_rules(store, worktree)


def find_root(path: str, settings: Settings) -> roots.Root:
    """The root that contains `path`. Raises WorkspaceNotFound, RootRefused."""
    root = roots.find_root(path, settings.home, lambda root: settings.store is None and Layout(store_path(root, settings)).exists())
    if not settings.force:
        roots.refuse_system_directories(root.path, settings.home)
    return root


def store_path(root: roots.Root, settings: Settings) -> str:
    """The path of a root's store, which may not exist yet."""
    if settings.store is not None:
        return os.path.abspath(settings.store)
    return os.path.join(settings.data, "stores", roots.store_name_of(root.owner))


def refuse_overlapping_store(root: roots.Root, settings: Settings) -> None:
    """Raise UsageError for a store that would contain its own project, RootRefused for a project inside a store, StoreForeign for a
    store that came with the project."""
    store, stores = locations.real_path(store_path(root, settings)), locations.real_path(os.path.join(settings.data, "stores"))
    if locations.is_in(root.path, store):
        raise errors.UsageError(
            f"the store {printable(store)} would hold the project {printable(root.path)} itself",
            "give --store a separate directory"
        )
    if locations.is_in(store, root.path):
        _refuse_store_of_project(store)
    if locations.is_in(root.path, stores) and _lies_in_store(root.path):
        raise errors.RootRefused(f"{printable(root.path)} is not a project", f"casrewind keeps its stores in {printable(stores)}")


def _refuse_store_of_project(store: str) -> None:
    """Raise StoreForeign if a store inside its project has other modes than casrewind gives it: git gives such modes. The
    variables in a project's settings can name a store that was made to do harm: a remote of its own, a hostile index. An empty
    directory is none yet."""
    with suppress(OSError):
        if stat.S_IMODE(os.stat(store).st_mode) & 0o077 and os.listdir(store):
            raise errors.StoreForeign(
                f"the store {printable(store)} lies in the project, and others can read it: it may have come with the project",
                "if it is yours, chmod 700 it, or set CASREWIND_HOME to a directory outside"
            )


def _lies_in_store(path: str) -> bool:
    from . import store_detection

    return bool(store_detection.find_store_around(path))


def scan_policy(root: roots.Root, settings: Settings) -> ScanPolicy:
    """What a scan of a root captures. Reads git's configuration and the project's own file. Errors in a project's files
    never stop a save: `faults` lists what was left out."""
    git = gitconfig.read_git_settings(root.git_dir, root.common_dir, settings.environ)
    outside: list[RuleFile] = []
    faults = [
        Skip(
            _CONFIG if it.is_own else _USERS_CONFIG, domains.reason_with_detail(domains.UNREADABLE_RULES, f"{printable(it.path)}: {it.why}")
        )
        for it in git.refused
    ]
    private, why = _read_private_rules(store_path(root, settings))
    if private:
        outside.append(RuleFile(b"", "private", private))
    lost = {"private"} if why else set()
    if why:
        faults.append(Skip(domains.PRIVATE_NAME, domains.reason_with_detail(domains.UNREADABLE_RULES, why)))
    unstored: list[RuleFile] = []
    refused = len(faults)
    if root.common_dir is not None:  # the file may be a link to anywhere
        inside = (root.path, root.common_dir)
        _add_outer_rules((outside, unstored), faults, os.path.join(root.common_dir, "info", "exclude"), "exclude", inside)
    if git.excludes_file is not None:
        _add_outer_rules(
            (outside, unstored), faults, os.path.join(root.path, git.excludes_file), "global", (root.path,) if git.is_own else ("/",)
        )
    lost |= {
        name for name, source in SOURCES.items() if source.is_named_by_git and any(skip.path == source.shown for skip in faults[refused:])
    }
    own = read_project_file(root.path)
    if own.faults or own.lost:
        faults += project_faults(own)
    if own.lost:
        lost.add("project")
    if own.rules:
        outside.append(RuleFile(b"", "project", "\n".join(own.rules).encode("utf-8", "surrogateescape")))
    limit = settings.max_file_size
    if own.max_file_size is not None:
        limit = min(limit, own.max_file_size)  # a cloned repository may only lower it
    return ScanPolicy(
        outside=tuple(outside),
        ignore_case=git.ignore_case,
        default_excludes=settings.default_excludes,
        max_file_size=limit,
        faults=tuple(faults),
        lost=frozenset(lost),
        unstored=tuple(unstored),
        excluded=_ids_of_own_directories(root, settings),
    )


def _read_private_rules(store: str) -> tuple[bytes, str]:
    """Returns (the private rules in a store, why they cannot be read or are refused)."""
    place = Layout(store).rules
    try:
        data = fsio.read_file(place, MOST_BYTES + 1)
    except (FileNotFoundError, NotADirectoryError):
        return b"", ""
    except OSError as error:
        if is_process_limit(error):
            raise
        return b"", f"{printable(place)}: {reason_of(error)}"
    why = why_refused(data, 0)
    return (b"", f"{printable(place)}: {why}") if why else (data, "")


def _add_outer_rules(
    rules: tuple[list[RuleFile], list[RuleFile]], faults: list[Skip], path: str, source: str, inside: tuple[str, ...]
) -> None:
    """Add an existing rule file outside the tree to `rules` (stored, unstored), or its error to `faults`. A file is
    stored only if its real path lies in a directory of `inside`: a cloned project may name a private key."""
    real = locations.real_path(path)
    try:
        fsio.refuse_unless_on_disk(real)
        data = fsio.read_file(real, MOST_BYTES + 1)
        why = why_refused(data, sum(compiling_cost_of(file.data) for some in rules for file in some))
    except fsio.NotOnDisk as error:
        data, why = b"", reason_of(error)
    except OSError:
        return
    if why:
        faults.append(Skip(name_for_output(source), domains.reason_with_detail(domains.UNREADABLE_RULES, f"{printable(path)}: {why}")))
        return
    is_stored = any(locations.is_in(real, locations.real_path(place)) for place in inside)
    rules[not is_stored].append(RuleFile(b"", source, data))


def read_project_file(root: str) -> config.Project:
    """The settings in the configuration file of the project at `root`."""
    place = os.path.join(root, config.PROJECT_FILE)
    try:
        fsio.refuse_unless_on_disk(place)
        return config.read_project(config.decode_file(fsio.read_file(place, config.MOST_TOML + 1), ""))
    except (FileNotFoundError, NotADirectoryError):
        return config.Project()
    except errors.UsageError as error:
        return config.Project(lost=str(error))
    except OSError as error:
        if is_process_limit(error):
            raise
        return config.Project(lost="it is a link" if error.errno == errno.ELOOP else f"it cannot be read: {reason_of(error)}")


def project_faults(own: config.Project) -> list[Skip]:
    """The errors in a project's own file, as a checkpoint records them."""
    name, faults = config.PROJECT_FILE.encode(), own.faults
    found = [domains.reason_with_detail(domains.UNREADABLE_RULES, own.lost)] if own.lost else []
    if faults:
        more = f"; and {len(faults) - _FAULTS_REPORTED} more" if len(faults) > _FAULTS_REPORTED else ""
        found.append(domains.reason_with_detail(domains.SETTINGS, "; ".join(faults[:_FAULTS_REPORTED]) + more))
    return [Skip(name, printable(reason)) for reason in found]


def _ids_of_own_directories(root: roots.Root, settings: Settings) -> frozenset[tuple[int, int]]:
    """(device, inode) of the casrewind directories that a scan skips: parts of the data directory if that is the
    project itself."""
    data, found = settings.data, set()
    inside = locations.is_in(root.path, locations.real_path(data))
    for path in (store_path(root, settings), os.path.join(data, "stores") if inside else data):
        with suppress(OSError):
            status = os.stat(path)
            found.add((status.st_dev, status.st_ino))
    return frozenset(found)
