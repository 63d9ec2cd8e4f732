"""A workspace: a worktree with its store. Every method is one call into ops/.

This is the Python API: `casrewind.open(path)` gives a Workspace; nothing here prints, asks or reads the environment
beyond the home directory that tells where stores are kept by default.
"""

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from . import config, errors, fsio
from .model import manifest
from .model.checkpoint import Checkpoint
from .model.domain import Domain
from .model.manifest import Entry
from .model.retention import Limits
from .ops import compare as compares
from .ops import gc as gcs
from .ops import references, resting
from .ops import repair as repairs
from .ops import restore as restores
from .ops import resume as resumes
from .ops import save as saves
from .ops import undo as undos
from .ops import verify as verifies
from .ops.carry import Restored
from .ops.site import Progress, Site
from .store import shelf
from .store.catalog import Marked
from .store.store import Store
from .worktree import gitconfig
from .worktree import root as roots
from .worktree.files import Worktree
from .worktree.ignore import RuleFile
from .worktree.passes import Options

TYPE_CHECKING = False
if TYPE_CHECKING:  # what few commands need is imported by those: every hook pays for the rest
    from .ops.adopt import Adopted
    from .ops.marks import Marking
    from .ops.stores import Found

_MAX_RULES = 8 << 20
KEEP_LAST = 10
"""Checkpoints of each worktree that nobody's default limit on age takes away."""


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
    mend: bool = False
    limits: Limits = Limits(max_age=30 * 86400.0, max_count=2000, keep_last=KEEP_LAST)


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


def stores(settings: Settings) -> "list[Found]":
    """Every store under the data directory, broken ones included, the one used last first."""
    from .ops import stores as shelves

    return shelves.stores(settings.data)


def adopt(path: str, old: str, settings: Settings) -> "Adopted":
    """Make the checkpoints of the root `old`, which was moved, those of the root that `path` lies in.

    Raises WorkspaceNotFound, RootRefused, JournalOpen, StoreBusy, WorkspaceError and kin; then nothing was changed.
    """
    from .ops import adopt as adopts

    root = _find(path, settings)
    former = roots.former(os.path.join(os.path.abspath(path), old))
    store = None if settings.store is None else _store_of(root, settings)
    return adopts.adopt(adopts.Request(root, former, settings.data, store, settings.force, settings.deadline))


def moved_from(path: str, settings: Settings) -> list[str]:
    """Where the project that `path` lies in may have been before: gone roots of the same name that have checkpoints."""
    from .ops import stores as shelves

    return shelves.moved_from(settings.data, _find(path, settings)) if settings.store is None else []


def _find(path: str, settings: Settings) -> roots.Root:
    """The root that `path` lies in. Raises WorkspaceNotFound, RootRefused."""

    def is_known(root: roots.Root) -> bool:
        return settings.store is None and shelf.holds(_store_of(root, settings))

    root = roots.find(path, settings.home, is_known)
    if not settings.force:
        roots.refuse(root.path, settings.home)
    return root


def _store_of(root: roots.Root, settings: Settings) -> str:
    if settings.store is not None:
        return os.path.abspath(settings.store)
    return os.path.join(settings.data, "stores", root.store_name)


class Workspace:
    """One worktree and its store, open until `close`."""

    def __init__(self, path: str, settings: Settings, *, create: bool, progress: Progress | None = None) -> None:
        """Find the root that `path` lies in, open its store."""
        self._settings = settings
        root = _find(path, settings)
        self.root = root
        self.store_path = _store_of(root, settings)
        store = Store(self.store_path, create=create, mend=settings.mend, deadline=settings.deadline)
        try:
            tree = Worktree(root.path)
        except BaseException:
            store.close()
            raise
        self._site = Site(root, store, tree, self._options(root), progress)

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

    def save(
        self, message: str = "", *, pin: bool = False, rehash: bool = False, described: bool = False
    ) -> saves.Saved:
        """Make a checkpoint. A state that is checkpointed already is only published again with a message or a pin.

        A message is a label that keeps the checkpoint until it is forgotten by hand, unless it is only `described` so.
        """
        return saves.save(self._site, label=message, pin=pin, rehash=rehash, described=described)

    def checkpoints(self, *, every_worktree: bool = False) -> list[tuple[Checkpoint, Marked]]:
        """This worktree's checkpoints with their marks, newest first, safety ones included."""
        found = self._site.store.checkpoints()
        return [pair for pair in found if every_worktree or pair[0].worktree == self.root.key]

    def checkpoint(self, reference: str) -> Checkpoint:
        """The checkpoint that a reference names. Raises CheckpointNotFound, AmbiguousReference."""
        return references.resolve(self._site.store, self.root.key, reference)

    def checkpoint_and_path(self, text: str) -> tuple[Checkpoint, str]:
        """The checkpoint and the path in REF:PATH. Raises UsageError, CheckpointNotFound, AmbiguousReference."""
        return references.resolve_with_path(self._site.store, self.root.key, text)

    def marks(self, identity: str) -> Marked:
        """The pin and label of a checkpoint, by its id. Raises CheckpointNotFound when gc has forgotten it meanwhile."""
        for point, marked in self._site.store.checkpoints():
            if point.id == identity:
                return marked
        raise errors.CheckpointNotFound(f"checkpoint {identity} was forgotten meanwhile: casrewind list shows what is there")

    def current(self) -> str:
        """The id of the checkpoint that was saved or restored last here, or ""."""
        return self._site.store.history(self.root.key).current

    def entries(self, point: Checkpoint) -> Iterator[tuple[bytes, Entry]]:
        """Every (path, entry) of a checkpoint, parents before children."""
        return manifest.walk(self._site.store.load_tree, point.tree)

    def cat(self, point: Checkpoint, path: bytes) -> Iterator[bytes]:
        """The bytes of a file at a checkpoint, of a link its target, piece by piece. Raises PathNotFound at once."""
        from .ops.cat import cat

        return cat(self._site, point, path)

    def pin(self, point: Checkpoint, label: str | None = None) -> "Marking":
        """Keep a checkpoint from being forgotten, and name it. Raises UsageError for what cannot be a label."""
        from .ops import marks

        return marks.pin(self._site, point, label)

    def unpin(self, point: Checkpoint) -> "Marking":
        """Take a pin back; a label stays."""
        from .ops import marks

        return marks.unpin(self._site, point)

    def domain(self, point: Checkpoint) -> Domain:
        """What a checkpoint speaks for: its rules, its skipped paths."""
        return self._site.store.domain(point.domain)

    def diff(self, old: Checkpoint, new: Checkpoint | None = None, scope: Sequence[bytes] = ()) -> compares.Comparison:
        """What changed from `old` to `new`, or to the worktree."""
        return compares.compare(self._site, old, new, scope)

    # -- going back

    def plan_restore(
        self, point: Checkpoint, scope: Sequence[bytes] = (), *, skip_damaged: bool = False
    ) -> Restored:
        """What a restore would do. Changes and publishes nothing."""
        return restores.restore(self._site, point, scope=scope, dry_run=True, skip_damaged=skip_damaged)

    def restore(
        self,
        point: Checkpoint,
        scope: Sequence[bytes] = (),
        confirm: restores.Confirm | None = None,
        *,
        skip_damaged: bool = False,
    ) -> Restored:
        """Make the worktree, or the paths in `scope`, what it was at a checkpoint. With `skip_damaged`, paths whose
        content is damaged in the store are kept as they are; otherwise StoreDamaged is raised and nothing is changed."""
        return restores.restore(self._site, point, scope=scope, confirm=confirm, skip_damaged=skip_damaged)

    def materialise(self, point: Checkpoint, directory: str, *, skip_damaged: bool = False) -> Restored:
        """Write a checkpoint's tree into another, empty or new directory."""
        return restores.materialise(self._site, point, directory, skip_damaged=skip_damaged)

    def undo(self, *, everything: bool = False) -> Restored:
        """Take the newest restore back."""
        return undos.undo(self._site, everything=everything)

    def redo(self) -> Restored:
        """Take the newest undo back."""
        return undos.redo(self._site)

    def resume(self, *, forward: bool) -> Restored:
        """Finish an interrupted restore, or take it back."""
        return resumes.resume(self._site, forward=forward)

    def verify(self, *, quick: bool = False) -> verifies.Verified:
        """Read the whole store and check it; `quick` checks the structure, and of content only that it is there."""
        return verifies.verify(self._site, quick=quick)

    def repair(self) -> verifies.Verified:
        """Mend what can be mended of a damaged store, then verify it. Open the workspace with `Settings.mend`."""
        return repairs.repair(self._site)

    def gc(self, limits: Limits | None = None, *, dry_run: bool = False) -> gcs.Collected:
        """Forget checkpoints that `limits` (or those of the settings) do not hold on to; give back the space that
        nothing has need of. Raises StoreBusy, StoreDamaged, StoreFull; what was freed by then stays freed."""
        return gcs.collect(self._site, limits or self._settings.limits, dry_run=dry_run)

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
        return roots.below(self.root.path, given, start)


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


