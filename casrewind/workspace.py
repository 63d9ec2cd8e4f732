"""A workspace: a worktree with its store. Every method is one call into ops/.

This is the Python API: `casrewind.open(path)` gives a Workspace; nothing here prints, asks or reads the environment
beyond the home directory that tells where stores are kept by default. docs/api.md shows it at work.

What only some methods need is imported by those: the hooks of coding agents save many times an hour, and pay for it all.
"""

import os
from collections.abc import Callable, Iterator, Sequence

from . import errors
from .model import paths
from .model.checkpoint import Checkpoint
from .ops import save as saves
from .ops.context import Context, Progress
from .settings import Settings, default_settings, find_root, options, refuse_store, store_of
from .store.store import Store
from .worktree import root as roots
from .worktree.reader import Worktree

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .agents.client_process import Homes
    from .model.domain import Domain
    from .model.manifest import Entry
    from .model.retention import Limits
    from .ops.compare import Comparison
    from .ops.execute import Restored
    from .ops.gc import Collected
    from .ops.path_history import Logged
    from .ops.pins import Marking
    from .ops.purge import Purged
    from .ops.purge_text import TextPurged
    from .ops.restore import Confirm
    from .ops.status import Status
    from .ops.usage import Usage
    from .ops.verify import Verified
    from .store.catalog import Marked
    from .worktree.change_set import ChangeSet


def open(  # noqa: A001 - the name of the door
    path: str | os.PathLike[str] = ".",
    settings: Settings | None = None,
    *,
    create: bool = True,
    progress: Progress | None = None,
) -> "Workspace":
    """Open the workspace that `path` lies in: of the nearest directory above with a `.git` or a store, else of `path`.

    With `create`, its store is made when there is none yet. `settings` default to `default_settings()`. `progress` is
    called now and then while something takes long, with (what goes on, how many are done, of how many; 0: not known);
    what it raises ends the operation, as an interrupt would.

    Raises WorkspaceNotFound (no such directory; without `create`, no store), RootRefused (the home directory, / and kin),
    StoreForeign, FormatUnsupported, StoreDamaged, StoreNotWritable, StoreFull, and UsageError for a store in a directory that
    holds something else, or the project. What cannot be understood in a project's own
    `.casrewind.toml` is no error: `Saved.faults` names it.
    """
    return Workspace(os.fspath(path), settings or default_settings(), create=create, progress=progress)


class Workspace:
    """One worktree and its store, open until `close` or the end of a with-statement. `casrewind.open` makes one.

    `root.path` is the worktree's real path, `store_path` the store's. Paths of entries are bytes below the root with "/"
    between, sizes are bytes, `..._ns` nanoseconds, `created_ns` and `mtime_ns` since 1970. Where a method takes a
    checkpoint, it takes a reference as well: "last", "prev", a number (1 = newest), a label, an id, or four or more
    characters of one.

    One thread at a time may use it; other threads and processes open workspaces of their own, of the same root too.

    Beside what its own text names, every method may raise CheckpointNotFound and AmbiguousReference for a reference,
    StoreBusy after `Settings.deadline` seconds, StoreDamaged, WorkspaceError after `close`, and OSError where the system
    refuses what nobody has an answer to. What writes may raise StoreNotWritable and StoreFull.
    """

    def __init__(
        self,
        path: str,
        settings: Settings,
        *,
        create: bool,
        progress: Progress | None = None,
        watch: "ChangeSet | None" = None,
    ) -> None:
        """As `casrewind.open`, which has defaults. `watch`: what the helper knows of the worktree; a save asks it, and tells it what it
        found. `ops.save.settle` has to follow then."""
        self._settings = settings
        root = find_root(path, settings)
        self.root = root
        self.store_path = store_of(root, settings)
        refuse_store(root, settings)
        store = Store(self.store_path, create=create, mend=settings.mend, deadline=settings.deadline)
        try:
            if watch is not None:
                store.index.rely_on(watch.proof)
            tree = Worktree(root.path)
            try:
                decided = options(root, settings)
                if decided.rules_lost:
                    from .ops import restorable

                    decided = restorable.with_recorded_rules(store, root.key, decided)
                shell = (settings.environ.get("CASREWIND_AGENT", ""), settings.environ.get("CASREWIND_SESSION", ""))
                self._opened: Context | None = Context(root, store, tree, decided, progress, settings.limits.max_size, watch, shell)
            except BaseException:
                tree.close()
                raise
        except BaseException:
            store.close()
            raise

    @property
    def _context(self) -> Context:
        if self._opened is None:
            raise errors.WorkspaceError(f"the workspace of {self.root.path!r} was closed: open it again")
        return self._opened

    def close(self) -> None:
        """Let go of the store and the worktree; a second time does nothing."""
        context, self._opened = self._opened, None
        if context is not None:
            context.tree.close()
            context.store.close()

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
        `rehash` reads every file, whatever its stamp says. What could not be read is no error: `Saved.faults` names it.
        """
        moment = saves.Moment(label=message, pin=pin, described=described)
        return saves.save(self._context, moment, rehash=rehash)

    def checkpoints(self, *, every_worktree: bool = False) -> "list[tuple[Checkpoint, Marked]]":
        """This worktree's checkpoints with their marks, newest first, safety ones (`trigger` "safety") included."""
        found = self._context.store.checkpoints()
        return [pair for pair in found if every_worktree or pair[0].worktree == self.root.key]

    def checkpoint(self, reference: Checkpoint | str) -> Checkpoint:
        """The checkpoint that a reference names; a checkpoint is its own. Raises CheckpointNotFound, AmbiguousReference."""
        if isinstance(reference, Checkpoint):
            return reference
        from .ops import references

        return references.resolve(self._context.store, self.root.key, reference)

    def checkpoint_and_path(self, text: str) -> tuple[Checkpoint, str]:
        """The checkpoint and the path in REF:PATH. Raises UsageError without a colon, else as `checkpoint`."""
        from .ops import references

        return references.resolve_with_path(self._context.store, self.root.key, text)

    def marks(self, point: Checkpoint | str) -> "Marked":
        """The pin and label of a checkpoint as they stand. Raises CheckpointNotFound when gc has forgotten it meanwhile."""
        identity = self.checkpoint(point).id
        if self._context.store.checkpoint(identity) is None:
            raise errors.CheckpointNotFound(f"checkpoint {identity} was forgotten meanwhile: casrewind list shows what is there")
        return self._context.store.marks(identity)

    def current(self) -> str:
        """The id of the checkpoint that was saved or restored last here, or ""."""
        return self._context.store.history(self.root.key).current

    def entries(self, point: Checkpoint | str) -> "Iterator[tuple[bytes, Entry]]":
        """Every (path, entry) of a checkpoint, parents before children; sort them for an order that stays."""
        from .ops.restorable import entries

        return entries(self._context.store, self.checkpoint(point).tree)

    def cat(self, point: Checkpoint | str, path: bytes) -> Iterator[bytes]:
        """The bytes of a file at a checkpoint, of a link its target, piece by piece (none is longer than 1 MiB or so).

        Raises PathNotFound at once for what is no file there, StoreDamaged at any piece. Take them all: gc waits for it.
        """
        from .ops.path_history import cat

        return cat(self._context, self.checkpoint(point), path)

    def pin(self, point: Checkpoint | str, label: str | None = None) -> "Marking":
        """Keep a checkpoint from being forgotten, and name it. Raises UsageError for what cannot be a label."""
        from .ops import pins

        return pins.pin(self._context, self.checkpoint(point), label)

    def unpin(self, point: Checkpoint | str) -> "Marking":
        """Take a pin back; a label stays, and keeps the checkpoint no longer."""
        from .ops import pins

        return pins.unpin(self._context, self.checkpoint(point))

    def domain(self, point: Checkpoint | str) -> "Domain":
        """What a checkpoint speaks for: its rules, its skipped paths."""
        return self._context.store.domain(self.checkpoint(point).domain)

    def diff(
        self, old: Checkpoint | str, new: Checkpoint | str | None = None, scope: Sequence[bytes] = ()
    ) -> "Comparison":
        """What changed from `old` to `new`, or to the worktree as it is now. Publishes nothing.

        `scope` are the paths to look at, with all that lies under them; none = everything. Raises UnsafePath for one that
        is not a path below the root, PathNotFound when none of them exists on either side or in the worktree.
        """
        from .ops import compare

        target = None if new is None else self.checkpoint(new)
        return compare.compare(self._context, self.checkpoint(old), target, paths.scope(scope))

    def log(self, path: bytes, most: int | None = None, *, safety: bool = False) -> "Logged":
        """In which checkpoints of this worktree a file or directory changed, newest first, at most `most`. Looks at the store
        only. b"" is the root: when anything changed. Safety checkpoints count with `safety`.

        Raises PathNotFound for what no checkpoint ever held, UnsafePath for what is not a path below the root.
        """
        from .ops import path_history

        return path_history.log(self._context, paths.scope([path])[0], most, safety=safety)

    # -- going back

    def plan_restore(
        self, point: Checkpoint | str, scope: Sequence[bytes] = (), *, skip_damaged: bool = False
    ) -> "Restored":
        """What a restore would do. Changes and publishes nothing. Raises as `restore`."""
        from .ops import restore

        target = self.checkpoint(point)
        return restore.restore(self._context, target, scope=paths.scope(scope), dry_run=True, skip_damaged=skip_damaged)

    def restore(
        self,
        point: Checkpoint | str,
        scope: Sequence[bytes] = (),
        confirm: "Confirm | None" = None,
        *,
        skip_damaged: bool = False,
    ) -> "Restored":
        """Make the worktree, or the paths in `scope` (as for `diff`), what it was at a checkpoint. `undo` takes it back.

        `confirm` is called with the Plan before anything is changed; Declined is raised when it says False. With
        `skip_damaged`, paths whose content is damaged in the store are kept as they are; otherwise StoreDamaged is raised.
        What was left alone is no error: `Restored.kept` names it, and `incomplete` says whether some of it was wanted.

        Raises RootRefused (a checkpoint of another root), PathNotFound (no path in `scope` exists), JournalOpen,
        ContentInTheWay, UnsafePath, StoreFull; then nothing was changed. After WorkspaceError or StoreFull that speak of
        an interruption, call `resume`.
        """
        from .ops import restore

        chosen = paths.scope(scope)
        target = self.checkpoint(point)
        return restore.restore(self._context, target, scope=chosen, confirm=confirm, skip_damaged=skip_damaged)

    def materialise(
        self, point: Checkpoint | str, directory: str | os.PathLike[str], *, skip_damaged: bool = False
    ) -> "Restored":
        """Write a checkpoint's tree into another, empty or new directory. Raises ContentInTheWay when it holds something,
        StoreDamaged unless `skip_damaged`."""
        from .ops import restore_to

        return restore_to.materialise(self._context, self.checkpoint(point), os.fspath(directory), skip_damaged=skip_damaged)

    def undo(self, *, everything: bool = False) -> "Restored":
        """Take the newest restore back, keeping (and naming) what was edited since unless `everything`. A second undo goes
        one restore further back. Raises NothingToUndo, else as `restore`."""
        from .ops import undo

        return undo.undo(self._context, everything=everything)

    def redo(self) -> "Restored":
        """Take the newest undo back; a restore ends that. Raises NothingToUndo, else as `restore`."""
        from .ops import undo

        return undo.redo(self._context)

    def resume(self, *, forward: bool) -> "Restored":
        """Finish an interrupted restore, or take it back. Raises NothingToUndo when there is none."""
        from .ops import undo as undos

        return undos.resume(self._context, forward=forward)

    def is_interrupted(self) -> bool:
        """True when a restore of this worktree is unfinished and nobody is at it."""
        store = self._context.store
        return store.is_restore_open(self.root.key) and not store.is_restoring(self.root.key)

    # -- looking after the store

    def verify(self, *, quick: bool = False) -> "Verified":
        """Read the whole store and check it; `quick` checks the structure, and of content only that it is there.

        Damage is no error here: `Verified.problems` names it. Changes nothing.
        """
        from .ops import verify

        return verify.verify(self._context, quick=quick)

    def repair(self) -> "Verified":
        """Mend what can be mended of a damaged store, then verify it. Open the workspace with `Settings.mend`."""
        from .ops import verify

        return verify.repair(self._context)

    def gc(self, limits: "Limits | None" = None, *, dry_run: bool = False) -> "Collected":
        """Forget checkpoints that `limits` (or those of the settings) do not hold on to; give back the space that
        nothing has need of. Raises StoreBusy, StoreDamaged, StoreFull; what was freed by then stays freed."""
        from .ops import gc

        return gc.collect(self._context, limits or self._settings.limits, dry_run=dry_run)

    def purge(self, scope: Sequence[bytes], confirm: "Callable[[Purged], bool] | None" = None, *, dry_run: bool = False) -> "Purged":
        """Remove every stored byte of the paths in `scope` (as for `diff`), and equal ones, from every checkpoint, for good.

        Of a rule file the rules go, too: a restore of such a checkpoint deletes nothing below it then. Those outside of the tree are
        named `.git/info/exclude` and `(git's core.excludesFile)`. `confirm` as for `restore`. Raises PathNotFound, UsageError (bytes
        that are rules, too, and were not named so), JournalOpen; then nothing was changed."""
        from .model import domain
        from .ops import purge

        outside = tuple(path for path in scope if path in (domain.EXCLUDE_NAME, domain.GLOBAL_NAME))
        inside = paths.scope([path for path in scope if path not in outside])
        return purge.purge(self._context, (*inside, *outside), confirm=confirm, dry_run=dry_run)

    def purge_text(
        self, text: bytes, confirm: "Callable[[TextPurged], bool] | None" = None, *, dry_run: bool = False
    ) -> "TextPurged":
        """Drop the stored conversations, prompts, labels and log lines that hold a text. Files that hold it are only named."""
        from .ops import purge_text

        return purge_text.purge_text(self._context, text, confirm=confirm, dry_run=dry_run)

    def status(self) -> "Status":
        """How things stand. Looks at the store only: the worktree is not scanned."""
        from .ops import status as statuses

        return statuses.status(self._context)

    def usage(self, depth: int | None = None) -> "Usage":
        """What takes the space of the store: by checkpoint, by path, by session. Looks at the store only, changes nothing.

        Paths are files; with `depth` they end after so many components, with directories as sums. What cannot be read is no
        error: `Usage.problems` names it.
        """
        from .ops import usage

        return usage.usage(self._context, self._settings.limits, depth)

    def paths(
        self, words: Sequence[str], points: Sequence[Checkpoint], start: str | os.PathLike[str] = ".", *, worktree: bool = True
    ) -> tuple[bytes, ...]:
        """Git pathspecs as a person gives them, relative to the directory `start`, as the paths below the root that they mean.

        A pattern is compared with the paths of the checkpoints `points` and, with `worktree`, of the worktree. A word that
        matches nothing stays as it is, for `diff` and `restore` to name it. Raises UnsafePath for one outside the root,
        UsageError for pathspec magic that is not known, PathNotFound when everything was excluded.
        """
        if not words:
            return ()
        from .ops import pathspecs

        return pathspecs.resolve(self._context, points, words, os.fspath(start), worktree=worktree)

    def scope(self, given: Sequence[str], start: str | os.PathLike[str] = ".") -> tuple[bytes, ...]:
        """Paths as a person gives them, relative to the directory `start`, as paths below the root.

        Raises UnsafePath for one outside the root.
        """
        return roots.below(self.root.path, given, os.fspath(start))


def context_of(workspace: Workspace) -> Context:
    """What the functions in ops/ work on, for those that have no method here. Not part of the Python API."""
    return workspace._context  # noqa: SLF001 - the class is of this module


def homes_of(workspace: Workspace) -> "Homes":
    """Where agents' clients keep their files. Not part of the Python API."""
    from .agents.client_process import Homes

    settings = workspace._settings  # noqa: SLF001 - as above
    return Homes(settings.home, settings.environ)
