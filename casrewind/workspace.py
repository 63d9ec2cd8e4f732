"""The Python API: a Workspace is a worktree with its store. Each method is one call into history/, change/ or upkeep/.

`casrewind.open(path)` returns a Workspace; docs/api.md has examples. Nothing here prints, prompts or reads
variables, except for `default_settings`.

Modules that only some methods need are imported inside these methods: a program pays for the import of what it uses.
"""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial

from . import errors
from .context import Context, Progress
from .model import paths
from .model.checkpoint import Checkpoint
from .settings import Settings, close_context, default_settings, open_context
from .upkeep import save as saves
from .worktree import root as roots

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .change.result import Materialised, Restored
    from .change.rewind import Rewound
    from .change.worktree_change import Confirm
    from .history.blame import Blame
    from .history.compare import Comparison
    from .history.path_history import Logged
    from .history.review import Review
    from .model.domain import Domain
    from .model.manifest import Entry
    from .model.retention import Limits
    from .model.turn_records import Turn
    from .remote.pull import Pulled
    from .remote.pushed import Pushed
    from .store.catalog import Marked
    from .upkeep.gc import Collected
    from .upkeep.pins import Marking
    from .upkeep.purge import Purged
    from .upkeep.purge_text import TextPurged
    from .upkeep.status import Status
    from .upkeep.usage import Usage
    from .upkeep.verify import Verified


def open(  # noqa: A001 - the public name
    path: str | os.PathLike[str] = ".",
    settings: Settings | None = None,
    *,
    store: str | os.PathLike[str] | None = None,
    create: bool = True,
    progress: Progress | None = None,
) -> "Workspace":
    """Open the workspace of the nearest directory at or above `path` with a `.git` or a store, otherwise of `path`.

    With `create`, a missing store is created. `settings` default to `default_settings()`, which find the store that the
    command uses. `store` is a store directory to use instead; `Workspace.store_path` names it. Long operations call
    `progress` with (activity, done, total), where a total of 0 means unknown. An exception raised in `progress` aborts
    the operation.

    Raises WorkspaceNotFound (no such directory; without `create`, no store) and RootRefused (the home directory, / and
    the like). Raises UsageError if the store's directory contains other files or the project. Raises StoreForeign,
    FormatUnsupported, StoreDamaged, StoreNotWritable and StoreFull. `Saved.faults` names errors in a project's `.casrewind.toml`.
    """
    chosen = settings or default_settings()
    if store is not None:
        chosen = chosen._replace(store=os.fspath(store))
    return Workspace(os.fspath(path), chosen, create=create, progress=progress)


class Workspace:
    """One worktree and its store, open until `close` or the end of a with-statement. Created by `casrewind.open`.

    `root.path` is the worktree's real path; `store_path` is the store's path. Entry paths are bytes below the root,
    separated by "/". Sizes are bytes. `..._ns` are nanoseconds; `created_ns` and `mtime_ns` count from 1970. A method
    that accepts a checkpoint also accepts a reference: "last", "prev", the number of a turn (3 or "@3"), a label, an id, or at
    least four characters of an id; of another machine "remote:@3", "remote:last" or "MACHINE:@3".

    Use it from one thread at a time. Other threads and processes open their own workspaces, also of the same root.

    Every method may raise StoreBusy after `Settings.deadline` seconds, StoreDamaged, WorkspaceError after `close`, and
    OSError. A reference may raise CheckpointNotFound or AmbiguousReference. Methods that write may raise
    StoreNotWritable and StoreFull.
    """

    def __init__(self, path: str, settings: Settings, *, create: bool, progress: Progress | None = None) -> None:
        """As `casrewind.open`, without its defaults."""
        context = open_context(path, settings, create=create, progress=progress)
        self._opened: Context | None = context
        self.root = context.root
        self.store_path = context.store.path

    @property
    def _context(self) -> Context:
        if self._opened is None:
            raise errors.WorkspaceError(f"the workspace of {self.root.path!r} was closed", "open it again")
        return self._opened

    def close(self) -> None:
        """Close the store and the worktree. A second call does nothing."""
        context, self._opened = self._opened, None
        if context is not None:
            close_context(context)

    def __enter__(self) -> "Workspace":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # -- making and reading checkpoints

    def save(
        self, message: str = "", *, pin: bool = False, rehash: bool = False, described: bool = False,
        meta: Mapping[str, str] | None = None,
    ) -> saves.Saved:  # fmt: skip
        """Make a checkpoint. A state that already has a checkpoint is only published again with a message, a pin or meta.

        A message is a label; a labelled checkpoint is never deleted automatically. With `described`, it is only a
        description. `rehash` reads every file, whatever its stamp. `meta` are up to 16 keys and values, at most 4 KiB in
        all, by which `checkpoints` finds the checkpoint; they do not keep it. Unreadable paths are not an error:
        `Saved.faults` names them. Raises UsageError for meta that cannot be stored, and for a label that reads as another
        reference, such as `@1`, `last` or `10m`.
        """
        saved = saves.save_by_hand(self._context, message, pin=pin, rehash=rehash, described=described, meta=meta)
        if self._context.store.has_many_packs():
            from .upkeep import gc

            gc.merge_packs(self._context)
        return saved

    def checkpoints(
        self, *, every_worktree: bool = False, meta: Mapping[str, str] | None = None
    ) -> "list[tuple[Checkpoint, Marked]]":
        """This worktree's checkpoints with their marks, newest first. Safety checkpoints have the `trigger`
        "safety". With `every_worktree`, also those of other worktrees and of other machines. With `meta`, only those that
        were saved with all of these keys and values. Raises UsageError for meta that no checkpoint can have."""
        from .history import lookup

        found = self._context.store.checkpoints() if every_worktree else lookup.checkpoints_of(self._context)
        if meta is None:
            return found
        from .model.meta import checked_pairs

        wanted = set(checked_pairs(meta))
        return [(point, marked) for point, marked in found if wanted.issubset(point.more.meta)]

    def checkpoint(self, reference: Checkpoint | str) -> Checkpoint:
        """Resolve a reference; a Checkpoint is returned as it is. Raises CheckpointNotFound, AmbiguousReference."""
        if isinstance(reference, Checkpoint):
            return reference
        from .history import lookup

        return lookup.checkpoint(self._context, reference)

    def checkpoint_and_path(self, text: str) -> tuple[Checkpoint, str]:
        """The checkpoint and the path in REF:PATH. Raises UsageError without a colon, otherwise as `checkpoint`."""
        from .history import lookup

        return lookup.checkpoint_and_path(self._context, text)

    def marks(self, point: Checkpoint | str) -> "Marked":
        """The current pin and label of a checkpoint. Raises CheckpointNotFound if gc has deleted it."""
        from .history import lookup

        return lookup.marks(self._context, self.checkpoint(point))

    def current(self) -> str:
        """The id of the checkpoint that was last saved or restored here, or ""."""
        from .history import lookup

        return lookup.current_id(self._context)

    def entries(self, point: Checkpoint | str) -> "Iterator[tuple[bytes, Entry]]":
        """Every (path, entry) of a checkpoint, parents before children. Sort them for a stable order."""
        from .history.restorable import walk_with_checkpoint_id

        return walk_with_checkpoint_id(self._context.store, self.checkpoint(point).tree)

    def cat(self, point: Checkpoint | str, path: bytes) -> Iterator[bytes]:
        """The bytes of a file in a checkpoint, or a link's target, in pieces of about 1 MiB. Raises PathNotFound at
        once if the path is not a file; any piece may raise StoreDamaged. Read all pieces: gc waits for that."""
        from .history.lookup import stream_file

        return stream_file(self._context, self.checkpoint(point), path)

    def pin(self, point: Checkpoint | str, label: str | None = None) -> "Marking":
        """Protect a checkpoint from deletion, and label it. Raises UsageError for an invalid label."""
        from .upkeep import pins

        return pins.pin(self._context, self.checkpoint(point), label)

    def unpin(self, point: Checkpoint | str) -> "Marking":
        """Remove a pin. A label remains, but no longer protects the checkpoint."""
        from .upkeep import pins

        return pins.unpin(self._context, self.checkpoint(point))

    def domain(self, point: Checkpoint | str) -> "Domain":
        """The domain of a checkpoint: its ignore rules and skipped paths."""
        return self._context.store.domain(self.checkpoint(point).domain)

    def diff(self, old: Checkpoint | str, new: Checkpoint | str | None = None, scope: Sequence[bytes] = ()) -> "Comparison":
        """The changes from `old` to `new`, or to the current worktree. Publishes nothing. `scope` limits the comparison
        to these paths and all paths below them; empty means everything. Raises UnsafePath for a path that is not below
        the root, PathNotFound if no path in `scope` exists on either side or in the worktree."""
        from .history import compare

        target = None if new is None else self.checkpoint(new)
        return compare.compare(self._context, self.checkpoint(old), target, paths.check_scope(scope))

    def push(self) -> "Pushed":
        """Send the new checkpoints of this store to its remote, which `casrewind remote add` gives it. Needs the extra
        casrewind[remote]. Raises RemoteError; then the next push continues."""
        from .remote import remote_config
        from .remote.push import push

        return push(self._context, remote_config.open_remote(self._context.store))

    def pull(self, *, newest: bool = False) -> "Pulled":
        """Fetch the checkpoints of other machines from the remote, with `newest` only the newest of each. Changes no file of the
        project. `Pulled.problems` names what could not be taken. Raises RemoteError."""
        from .remote import remote_config
        from .remote.pull import pull

        return pull(self._context, remote_config.open_remote(self._context.store), newest=newest)

    def log(self, path: bytes, most: int | None = None, *, safety: bool = False) -> "Logged":
        """The checkpoints of this worktree in which a file or directory changed, newest first, at most `most`. Reads
        only the store. b"" is the root: any change counts. With `safety`, safety checkpoints are included. Raises
        PathNotFound for a path in no checkpoint, UnsafePath for a path that is not below the root."""
        from .history import path_history

        return path_history.log_of_path(self._context, paths.check_scope([path])[0], most, safety=safety)

    def blame(self, path: bytes, point: Checkpoint | str | None = None) -> "Blame":
        """Who wrote each line of a file, as it is now or in a checkpoint. Raises PathNotFound for what is no file."""
        from .history.blame import blame

        return blame(self._context, paths.check_scope([path])[0], None if point is None else self.checkpoint(point))

    def review(self) -> "Review":
        """What changed since a person last looked: `mark_reviewed`, or the command, said so. Raises CheckpointNotFound without a
        checkpoint."""
        from .history.review import review

        return review(self._context)[0]

    def mark_reviewed(self, point: Checkpoint | str | None = None) -> Checkpoint:
        """Mark a state as looked at; None: the files as they are now, which are saved first. Returns its checkpoint, which gc keeps
        until the next mark."""
        from .upkeep import reviewed_state

        return reviewed_state.mark_reviewed(self._context, None if point is None else self.checkpoint(point))

    def search(self, text: bytes, path: bytes = b"", most: int | None = None, *, safety: bool = False) -> "Logged":
        """The rows of `log` that added or removed a text. `compare` returns the changes that add
        or remove it. Files over 4 MiB and purged files are not searched. Raises as `log`."""
        from .history import path_history
        from .history.search import Search, TextQuery

        return path_history.log_of_path(self._context, paths.check_scope([path])[0], most, safety=safety, search=Search(TextQuery(text)))

    # -- restoring

    def plan_restore(
        self, point: Checkpoint | str, scope: Sequence[bytes] = (), *, skip_damaged: bool = False, keep_edits: bool = False
    ) -> "Restored":
        """The plan of a restore. Changes and publishes nothing. Raises as `restore`."""
        from .change import restore

        target, limits = self.checkpoint(point), paths.check_scope(scope)
        return restore.prepare_restore(self._context, target, scope=limits, skip_damaged=skip_damaged, keep_edits=keep_edits).plan()

    def restore(
        self,
        point: Checkpoint | str,
        scope: Sequence[bytes] = (),
        confirm: "Confirm | None" = None,
        *,
        skip_damaged: bool = False,
        keep_edits: bool = False,
    ) -> "Restored":
        """Restore the worktree, or the paths in `scope` (as in `diff`), to a checkpoint. `undo` reverts it.

        `confirm` is called with the Plan before any change; if it returns False, Declined is raised. Nothing is locked
        meanwhile: a path that changes until then is left unchanged. It is called once more, and `Plan.why_again` says why, if another
        restore, undo or redo was made, or a program opened a database. `Plan.open_files` names databases that a program has open for
        writing, and other open files beside them; True agrees to change those. Without `confirm`, DatabaseOpen is raised.

        With `skip_damaged`, paths with damaged content are left unchanged; otherwise StoreDamaged is raised. Paths left
        unchanged are not an error: `Restored.kept` names them, and `incomplete` is True if some of them should have
        changed. With `keep_edits`, only what turns did since the checkpoint is taken back: a file that was also edited
        outside of turns is merged by lines, and one that no turn changed is not touched. What changed in a turn whose end
        was not seen is left unchanged, too. `Restored.edited` names the others. UsageError is raised if no turn began since.

        Raises RootRefused (checkpoint of another root), PathNotFound (no path in `scope` exists), JournalOpen,
        ContentInTheWay, UnsafePath, StoreFull; nothing is changed then. If WorkspaceError or StoreFull reports an
        interruption, call `finish_restore`.
        """
        from .change import restore, worktree_change

        target, limits = self.checkpoint(point), paths.check_scope(scope)
        prepare = partial(
            restore.prepare_restore, self._context, target, scope=limits, skip_damaged=skip_damaged, keep_edits=keep_edits
        )  # fmt: skip
        return worktree_change.ask_and_carry_out(prepare, confirm)

    def materialise(
        self, point: Checkpoint | str, directory: str | os.PathLike[str] | Sequence[str | os.PathLike[str]], *,
        from_worktree: bool = True, skip_damaged: bool = False,
    ) -> "Materialised":  # fmt: skip
        """Write a checkpoint's tree into another directory, or into several; each is new or empty, but for a `.git`.
        `Materialised.written` names them. After an error in one, the others are completed, and the error names them.

        `from_worktree`: files may share blocks with equal ones of the worktree, and ignored files that `.worktreeinclude`
        lists are copied (`Materialised.carried`). The files are synced at the end. Raises ContentInTheWay if a directory is
        not empty, UsageError if one lies in another, StoreDamaged unless `skip_damaged`."""
        from .change import restore_to

        several = [directory] if isinstance(directory, str | os.PathLike) else directory
        how = {"skip_damaged": skip_damaged, "from_worktree": from_worktree}
        return restore_to.materialise(self._context, self.checkpoint(point), [os.fspath(one) for one in several], **how)

    def undo(
        self, confirm: "Confirm | None" = None, *, everything: bool = False, older: bool = False, dry_run: bool = False
    ) -> "Restored":
        """Undo the newest restore. Files edited since are kept and named, unless `everything`. A second undo also
        undoes the previous restore. If a newer `back` changed only a conversation, undo refuses, unless `older`.
        `confirm` is called as for `restore`; `dry_run` changes nothing. Raises NothingToUndo, else as `restore`."""
        from .change import undo, worktree_change

        prepare = partial(undo.prepare_undo, self._context, everything=everything, older=older)
        return worktree_change.ask_and_carry_out(prepare, confirm, dry_run=dry_run)

    def redo(self, confirm: "Confirm | None" = None, *, dry_run: bool = False) -> "Restored":
        """Redo the newest undo; a restore prevents it. `confirm` and `dry_run` as for `undo`. Raises NothingToUndo, or
        as `restore`."""
        from .change import undo, worktree_change

        return worktree_change.ask_and_carry_out(lambda: undo.prepare_redo(self._context), confirm, dry_run=dry_run)

    def plan_revert(
        self, turns: "Sequence[int | str | Turn]", scope: Sequence[bytes] = (), *, shared: bool = False, running: bool = False
    ) -> "Restored":
        """The plan of a revert. Changes and publishes nothing. Raises as `revert`."""
        return self.revert(turns, scope, shared=shared, running=running, dry_run=True)

    def revert(
        self,
        turns: "Sequence[int | str | Turn]",
        scope: Sequence[bytes] = (),
        confirm: "Confirm | None" = None,
        *,
        shared: bool = False,
        running: bool = False,
        conflicts: str = "",
        skip_damaged: bool = False,
        dry_run: bool = False,
    ) -> "Restored":
        """Reverse what these turns changed, and nothing else; `turns` are numbers (3, "@3", or "@3.1" of a subagent), ids or values
        of `turns()`. `undo` reverses it.

        Files that were edited since are merged by lines: `Restored.merged`. A path with a conflict stays as it is, and
        `Restored.kept` has the reason. With `conflicts`, its file gets the lines of before the turn ("theirs"), or
        "markers". `scope`, `confirm` and `skip_damaged` as for `restore`. `shared`: also paths that other turns may have
        changed at the same time, or a person in a turn whose end was not seen. `running`: also turns that still run,
        otherwise StoreBusy is raised. Raises CheckpointNotFound if a turn, or what it changed, is not known, PathNotFound
        if no turn changed a path in `scope`, else as `restore`.
        """
        from .change import path_merger, revert, worktree_change
        from .history.turn_view import TurnView

        view = TurnView(self._context)
        chosen = {(turn.n, -turn.subagent): turn for turn in (view.find_turn(getattr(one, "id", "") or str(one)) for one in turns)}
        chosen = {place: turn for place, turn in chosen.items() if not place[1] or (turn.n, 0) not in chosen}
        if not chosen or conflicts not in (path_merger.ASIDE, path_merger.THEIRS, path_merger.MARKERS):
            raise errors.UsageError("revert takes one turn or more, and conflicts as theirs or markers")
        prepare = partial(
            revert.prepare_revert, self._context, view, [chosen[number] for number in sorted(chosen)], paths.check_scope(scope),
            shared=shared, running=running, conflicts=conflicts, skip_damaged=skip_damaged,
        )  # fmt: skip
        return worktree_change.ask_and_carry_out(prepare, confirm, dry_run=dry_run)

    def take(
        self, directory: str | os.PathLike[str], scope: Sequence[bytes] = (), *, base: Checkpoint | str | None = None,
        dry_run: bool = False, confirm: "Confirm | None" = None,
    ) -> "Restored":  # fmt: skip
        """Bring back the changes of a directory that `materialise` wrote, merged with what changed here since. `undo` reverses it.
        Conflicts stay as they are here: `Restored.kept`. Paths that either side ignores are not touched. `scope` and `confirm` as
        for `restore`; `dry_run` changes nothing. Raises CheckpointNotFound for a directory that was not made so, unless `base` names
        the checkpoint whose files it had at first, else as `revert`."""
        from .change import take, worktree_change

        with take.open_made_directory(self._context, os.fspath(directory), base=None if base is None else self.checkpoint(base)) as made:
            prepare = partial(take.prepare_take, self._context, made, paths.check_scope(scope))
            return worktree_change.ask_and_carry_out(prepare, confirm, dry_run=dry_run)

    # -- conversations

    def turns(self, most: int | None = None) -> "list[Turn]":
        """The newest `most` turns of this worktree with their changes, newest first. A turn is a prompt and everything
        until its end; `Turn.subagents` has the parts of its subagents. `@N` names the state before turn N, wherever a method accepts a
        checkpoint."""
        from .history.turn_view import TurnView

        view = TurnView(self._context)
        return [view.with_changes_of_subagents(view.with_changes(turn)) for turn in view.turns[:most]]

    def back(
        self,
        target: int | str | None = None,
        confirm: "Confirm | None" = None,
        *,
        session: str = "",
        files: bool = True,
        chat: bool = True,
        in_place: bool = False,
        nearest: bool = False,
    ) -> "Rewound":
        """Go back to before a prompt: `files`, `chat` or both. `target` is the number of a turn of `turns`: N or "@N".
        None means the newest prompt of the session (by default the newest session) whose turn is not taken back already:
        `notes` names the turns that are skipped. With `session`, the turn must belong to its conversation.

        The turns before the prompt become a new session (a fork), and the old session is unchanged. With `in_place` the
        session itself is cut, with a backup; its client must have ended. If the prompt has no checkpoint, `nearest`
        accepts the nearest older one. `confirm` is called as for `restore`; `Plan.foreign` has the paths that other sessions may have
        changed. Raises AgentError (no session, too few prompts, a turn that is taken
        back, a client that runs), CheckpointError (no checkpoint; the newest turn is elsewhere), else as `restore`. Files go first.
        """
        from .change import back_without_chat, worktree_change

        prepare = partial(
            back_without_chat.prepare_prompt_back, self._context, target, session,
            files=files, chat=chat, in_place=in_place, nearest=nearest,
        )  # fmt: skip
        return worktree_change.ask_and_carry_out(prepare, confirm)

    def fork(
        self,
        point: Checkpoint | str,
        confirm: "Confirm | None" = None,
        *,
        files: bool = False,
        dry_run: bool = False,
    ) -> "Rewound":
        """Make a new session of the conversation as it was at a checkpoint; with `files`, restore the files, too. At
        the checkpoint of a prompt, the session ends before the prompt. The old session is unchanged. `confirm` and
        errors as for `back`; `dry_run` changes nothing."""
        from .change import rewind, worktree_change

        prepare = partial(rewind.prepare_rewind, self._context, self.checkpoint(point), both=files)
        return worktree_change.ask_and_carry_out(prepare, confirm, dry_run=dry_run)

    # -- interrupted restores

    def finish_restore(self, *, forward: bool, open_files: bool = False) -> "Restored":
        """Finish an interrupted restore, or roll it back. Raises NothingToUndo if no restore is interrupted, and DatabaseOpen
        as `restore`, unless `open_files`."""
        from .change import finish_restore

        return finish_restore.finish_restore(self._context, forward=forward, open_files=open_files)

    def is_interrupted(self) -> bool:
        """True if a restore of this worktree is unfinished and no process is working on it."""
        return self._context.store.is_interrupted(self.root.key)

    # -- store maintenance

    def verify(self, *, quick: bool = False) -> "Verified":
        """Read and check the whole store. With `quick`, check its structure, and for content only its presence. Damage
        is not an error: `Verified.problems` names it. Changes nothing."""
        from .upkeep import verify

        return verify.verify(self._context, quick=quick)

    def repair(self) -> "Verified":
        """Repair a damaged store as far as possible, then verify it. Open the workspace with `Settings.repair`."""
        from .upkeep import verify

        return verify.repair(self._context)

    def gc(self, limits: "Limits | None" = None, *, dry_run: bool = False) -> "Collected":
        """Delete checkpoints beyond `limits` (default: those of the settings) and free unused space. Raises StoreBusy,
        StoreDamaged, StoreFull; space freed before the error remains free."""
        from .upkeep import gc

        return gc.collect(self._context, limits, dry_run=dry_run)

    def purge(self, scope: Sequence[bytes], confirm: "Callable[[Purged], bool] | None" = None, *, dry_run: bool = False) -> "Purged":
        """Permanently remove all stored bytes of the paths in `scope` (as in `diff`), and equal bytes, from all
        checkpoints.

        Purging a rule file removes its rules too: a later restore of such a checkpoint deletes nothing below it. Rule
        files outside the tree are named `.git/info/exclude`, `(git's core.excludesFile)` and `(private rules)`. `confirm` as
        in `restore`. Raises PathNotFound, JournalOpen, and UsageError for bytes that are also rules but were not named as such;
        nothing is changed then.
        """
        from .upkeep import purge

        return purge.purge(self._context, scope, confirm=confirm, dry_run=dry_run)

    def purge_text(
        self, text: bytes, confirm: "Callable[[TextPurged], bool] | None" = None, *, dry_run: bool = False
    ) -> "TextPurged":
        """Drop stored conversations, prompts, labels and log lines that contain a text; files with it are only
        named."""
        from .upkeep import purge_text

        return purge_text.purge_text(self._context, text, confirm=confirm, dry_run=dry_run)

    def status(self) -> "Status":
        """The status of the store and its newest checkpoints. Reads only the store; the worktree is not scanned."""
        from .upkeep import status as statuses

        return statuses.status(self._context)

    def usage(self, depth: int | None = None) -> "Usage":
        """The store's space by checkpoint, by path and by session. Reads only the store, changes nothing. `depth` cuts
        paths to so many components, with sums of directories. Unreadable data is not an error: `Usage.problems` names
        it."""
        from .upkeep import usage

        return usage.usage(self._context, depth)

    def paths(
        self, words: Sequence[str], points: Sequence[Checkpoint], start: str | os.PathLike[str] = ".", *, worktree: bool = True
    ) -> tuple[bytes, ...]:
        """Resolve git pathspecs, relative to the directory `start`, to paths below the root.

        A pattern is matched against the paths of the checkpoints `points` and, with `worktree`, of the worktree. A word
        without a match is returned unchanged, so that `diff` and `restore` can name it. Raises UnsafePath for a path
        outside the root, UsageError for unknown pathspec magic, PathNotFound if everything was excluded.
        """
        from .history import pathspecs

        return pathspecs.resolve_words(self._context, points, words, os.fspath(start), worktree=worktree)

    def scope(self, given: Sequence[str], start: str | os.PathLike[str] = ".") -> tuple[bytes, ...]:
        """Convert paths relative to `start` to paths below the root. Raises UnsafePath for a path outside the root."""
        return roots.paths_below_root(self.root.path, given, os.fspath(start))
