"""A workspace: a worktree with its store. Every method is one call into ops/.

This is the Python API: `casrewind.open(path)` gives a Workspace; nothing here prints, asks or reads the environment
beyond the home directory that tells where stores are kept by default.
"""

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from . import config, errors, fsio
from .model import manifest, paths
from .model.checkpoint import Checkpoint
from .model.domain import Domain
from .model.manifest import Entry
from .ops import compare as compares
from .ops import references, resting
from .ops import restore as restores
from .ops import resume as resumes
from .ops import save as saves
from .ops import undo as undos
from .ops import verify as verifies
from .ops.carry import Restored
from .ops.site import Progress, Site
from .store.catalog import Marked
from .store.store import Store
from .worktree import gitconfig
from .worktree import root as roots
from .worktree.files import Worktree
from .worktree.ignore import RuleFile
from .worktree.passes import Options

_MAX_RULES = 8 << 20


class Settings(NamedTuple):
    """What a workspace is opened with.

    `home`: the user's home directory. `data`: the directory under which stores are kept. `store`: a store directory that
    is used instead. `environ`: for git's own configuration files only. Sizes in bytes.
    """

    home: str
    data: str
    store: str | None = None
    environ: Mapping[str, str] = {}
    default_excludes: bool = True
    max_file_size: int = 1 << 30
    force: bool = False
    deadline: float = 10.0


def default_settings() -> Settings:
    """Settings for the current user: no configuration file is read, no variable but HOME."""
    home = os.path.expanduser("~")
    return Settings(home=home, data=default_data(home), environ={"HOME": home})


def default_data(home: str) -> str:
    """The platform's directory for a user's data, under which stores are kept."""
    if sys.platform == "darwin":
        return os.path.join(home, "Library", "Application Support", "casrewind")
    return os.path.join(home, ".local", "share", "casrewind")


def open(  # noqa: A001 - the name of the door
    path: str | os.PathLike[str] = ".", settings: Settings | None = None, *, create: bool = True
) -> "Workspace":
    """Open the workspace that `path` lies in. With `create`, its store is made when there is none yet.

    Raises WorkspaceNotFound, RootRefused, StoreError and kin.
    """
    return Workspace(os.fspath(path), settings or default_settings(), create=create)


class Workspace:
    """One worktree and its store, open until `close`."""

    def __init__(self, path: str, settings: Settings, *, create: bool, progress: Progress | None = None) -> None:
        """Find the root that `path` lies in, open its store."""
        self._settings = settings
        root = roots.find(path, settings.home, self._is_known)
        if not settings.force:
            roots.refuse(root.path, settings.home)
        self.root = root
        self.store_path = self._store_of(root)
        store = Store(self.store_path, create=create, deadline=settings.deadline)
        try:
            tree = Worktree(root.path)
        except BaseException:
            store.close()
            raise
        self._site = Site(root, store, tree, self._options(root), progress)

    def _store_of(self, root: roots.Root) -> str:
        if self._settings.store is not None:
            return os.path.abspath(self._settings.store)
        return os.path.join(self._settings.data, "stores", root.store_name)

    def _is_known(self, root: roots.Root) -> bool:
        return self._settings.store is None and os.path.lexists(os.path.join(self._store_of(root), "FORMAT"))

    def _options(self, root: roots.Root) -> Options:
        git = gitconfig.read(root.git_dir, root.common_dir, self._settings.environ)
        outside: list[RuleFile] = []
        if root.common_dir is not None:
            outside += _rule_file(os.path.join(root.common_dir, "info", "exclude"), "exclude")
        if git.excludes_file is not None:
            outside += _rule_file(os.path.join(root.path, git.excludes_file), "global")
        project = _project(root.path)
        if project.rules:
            outside.append(RuleFile(b"", "project", "\n".join(project.rules).encode("utf-8", "surrogateescape")))
        limit = self._settings.max_file_size
        if project.max_file_size is not None:
            limit = min(limit, project.max_file_size)  # a cloned repository may not widen anything
        return Options(
            outside=tuple(outside),
            ignore_case=git.ignore_case,
            default_excludes=self._settings.default_excludes,
            max_file_size=limit,
            excluded=frozenset(_identity(path) for path in (self.store_path, self._settings.data)) - {(0, 0)},
        )

    def close(self) -> None:
        """Let go of the store and the worktree."""
        self._site.tree.close()
        self._site.store.close()

    def __enter__(self) -> "Workspace":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # -- making checkpoints and looking at them

    def save(self, message: str = "", *, pin: bool = False, rehash: bool = False) -> saves.Saved:
        """Make a checkpoint. A state that is checkpointed already is only published again with a message or a pin."""
        return saves.save(self._site, label=message, pin=pin, rehash=rehash)

    def checkpoints(self, *, every_worktree: bool = False) -> list[tuple[Checkpoint, Marked]]:
        """This worktree's checkpoints with their marks, newest first, safety ones included."""
        found = self._site.store.checkpoints()
        return [pair for pair in found if every_worktree or pair[0].worktree == self.root.key]

    def checkpoint(self, reference: str) -> Checkpoint:
        """The checkpoint that a reference names. Raises CheckpointNotFound, AmbiguousReference."""
        return references.resolve(self._site.store, self.root.key, reference)

    def marks(self, identity: str) -> Marked:
        """The pin and label of a checkpoint, by its id."""
        return next(marked for point, marked in self._site.store.checkpoints() if point.id == identity)

    def current(self) -> str:
        """The id of the checkpoint that was saved or restored last here, or ""."""
        return self._site.store.history(self.root.key).current

    def entries(self, point: Checkpoint) -> Iterator[tuple[bytes, Entry]]:
        """Every (path, entry) of a checkpoint, parents before children."""
        return manifest.walk(self._site.store.load_tree, point.tree)

    def domain(self, point: Checkpoint) -> Domain:
        """What a checkpoint speaks for: its rules, its skipped paths."""
        return self._site.store.domain(point.domain)

    def diff(self, old: Checkpoint, new: Checkpoint | None = None, scope: Sequence[bytes] = ()) -> compares.Comparison:
        """What changed from `old` to `new`, or to the worktree."""
        return compares.compare(self._site, old, new, scope)

    # -- going back

    def plan_restore(self, point: Checkpoint, scope: Sequence[bytes] = ()) -> Restored:
        """What a restore would do. Changes and publishes nothing."""
        return restores.restore(self._site, point, scope=scope, dry_run=True)

    def restore(
        self, point: Checkpoint, scope: Sequence[bytes] = (), confirm: restores.Confirm | None = None
    ) -> Restored:
        """Make the worktree, or the paths in `scope`, what it was at a checkpoint."""
        return restores.restore(self._site, point, scope=scope, confirm=confirm)

    def materialise(self, point: Checkpoint, directory: str) -> Restored:
        """Write a checkpoint's tree into another, empty or new directory."""
        return restores.materialise(self._site, point, directory)

    def undo(self, *, everything: bool = False) -> Restored:
        """Take the newest restore back."""
        return undos.undo(self._site, everything=everything)

    def redo(self) -> Restored:
        """Take the newest undo back."""
        return undos.redo(self._site)

    def resume(self, *, forward: bool) -> Restored:
        """Finish an interrupted restore, or take it back."""
        return resumes.resume(self._site, forward=forward)

    def verify(self) -> verifies.Verified:
        """Read the whole store and check it."""
        return verifies.verify(self._site)

    def status(self) -> "resting.Status":
        """How things stand."""
        return resting.status(self._site)

    def is_interrupted(self) -> bool:
        """True when a restore of this worktree is unfinished and nobody is at it."""
        store = self._site.store
        return store.journals.exists(self.root.key) and not store.is_restoring(self.root.key)

    def scope(self, given: Sequence[str], start: str) -> tuple[bytes, ...]:
        """Paths as a person gives them, relative to the directory `start`, as paths below the root.

        Raises UnsafePath for one outside the root.
        """
        top = os.fsencode(self.root.path)
        found = []
        for item in given:
            place = os.path.join(os.path.realpath(start), item)
            # the parent may be a link to inside; the last component is never followed
            full = os.fsencode(os.path.normpath(place))
            if full == top:
                found.append(b"")
                continue
            real = os.path.join(os.path.realpath(os.path.dirname(full)), os.path.basename(full))
            for candidate in (full, real):
                if candidate.startswith(top.rstrip(b"/") + b"/"):
                    found.append(paths.check(candidate[len(top.rstrip(b"/")) + 1 :]))
                    break
            else:
                raise errors.UnsafePath(f"{fsio.show(item)} lies outside the root {fsio.show(self.root.path)}")
        return tuple(found)


def _rule_file(path: str, source: str) -> list[RuleFile]:
    try:
        return [RuleFile(b"", source, fsio.read_file(os.path.realpath(path), _MAX_RULES))]
    except OSError:
        return []


def _project(root: str) -> config.Project:
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


