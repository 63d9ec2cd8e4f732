"""Writes files into several new directories at once: each content is read once.

The danger prevented here: a directory with a part of the files that looks complete. After an error in one directory
everything in it is removed, and the other ones are completed.
"""

import os
import stat
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import islice

from .. import errors, fsio, heap
from ..context import Context
from ..messages import reason_of
from ..model import paths
from ..model import stamp as stamps
from ..model.manifest import DIR, FILE, LINK, Entry
from ..model.plan import Action, Kept
from ..model.respelled import refuse_paths_with_one_name
from ..worktree.new_tree import NewTree
from ..worktree.worktreeinclude_files import CarriedFile
from .carried_files import Carried
from .execute import Contents
from .worktree_copies import WorktreeCopies

_PIECE = 1 << 20
_PRIVATE = 0o700
_TOGETHER = 1000
"""Rows that are decoded together. Behind them the freed memory goes back to the system."""
Row = tuple[bytes, Entry]


def rows_made(actions: Iterable[Action]) -> Iterator[Row]:
    """Yield the paths and entries that actions make."""
    return ((action.path, action.after) for action in actions if action.after is not None)


def nearest_existing(directory: str) -> str:
    """The directory, or its nearest existing parent."""
    path = os.path.abspath(directory)
    while not os.path.isdir(path) and path != os.path.dirname(path):
        path = os.path.dirname(path)
    return path


class Destination:
    """A directory that a checkpoint is written into. `error`: why it has nothing of it. `origin_problem`: why nothing there says
    what it was made from."""

    def __init__(self, directory: str) -> None:
        """Makes nothing yet."""
        self.directory, self.above = directory, nearest_existing(directory)
        self.error: OSError | errors.CasrewindError | None = None
        self.is_removed = True
        self.origin_problem = ""
        self.from_worktree = 0
        self.incomplete: list[tuple[Kept, int]] = []
        self._new: NewTree | None = None

    @property
    def new(self) -> NewTree:
        """The open directory. It is made on first use. Raises OSError."""
        if self._new is None:
            fsio.make_directories_by_umask(self.directory)
            self._new = NewTree(self.directory)
        return self._new

    def remove_made(self) -> None:
        """Remove what was written, the directory if it was made, and the directories above that were made for it."""
        if self._new is not None:
            with suppress(OSError):
                self.new.remove_all_written()
                self.is_removed = self.new.is_empty()
        self.close()
        path = os.path.abspath(self.directory)
        with suppress(OSError):
            while path != self.above:
                os.rmdir(path)
                path = os.path.dirname(path)

    def close(self) -> None:
        """Close the directory."""
        new, self._new = self._new, None
        if new is not None:
            self.incomplete = new.incomplete
            new.close()



class _NoPlaceLeftError(Exception):
    """Every directory has an error."""


class Writing:
    """Writes the same rows into all directories. An error in one of them is noted there, and it gets nothing more."""

    def __init__(self, context: Context, places: Sequence[Destination], copies: WorktreeCopies | None) -> None:
        """`copies`: reads the worktree; None: it is not read."""
        self._context, self._copies, self._live = context, copies, list(places)
        self._contents = Contents(context.store, ())

    def write_all(self, actions: Sequence[Action], more: Carried, *, is_synced: bool) -> list[Kept]:
        """Do the actions, which make paths and replace none. Returns what is to be said of the ignored files. Raises StoreDamaged."""
        notes: list[Kept] = []
        report = self._context.progress_bar("restoring")
        with suppress(_NoPlaceLeftError):
            self._do_at_each(b"", _refuse_paths_with_one_name, actions)
            numbered = enumerate(rows_made(actions), 1)
            while part := list(islice(numbered, _TOGETHER)):
                self._contents = Contents(self._context.store, [entry for _, (_, entry) in part if entry.kind == FILE])
                for number, (path, entry) in part:
                    self._make_path_everywhere(path, entry)
                    if report is not None:
                        report(number, len(actions))
                if len(part) == _TOGETHER:  # a small directory needs none of it
                    heap.return_freed_memory()
            for directory in more.directories:
                mode = self._context.tree.status_of(directory)
                self._do_at_each(directory, NewTree.make_directory, directory, _PRIVATE if mode is None else mode.st_mode)
            for file in more.files:
                notes += self._copy_ignored(file)
            self._do_at_each(b"", NewTree.set_last_directory_modes)
            for place in list(self._live) if is_synced else ():
                self._do_at(place, b"", NewTree.sync)
        return notes

    def _make_path_everywhere(self, path: bytes, entry: Entry) -> None:
        """Make a path in every directory that has no error."""
        paths.check_path(path)
        if entry.kind == DIR:
            self._do_at_each(path, NewTree.make_directory, path, entry.mode)
        elif entry.kind == LINK:
            self._do_at_each(path, NewTree.make_link, path, entry.target)
        else:
            self._write_file(path, entry)

    def _do_at_each(self, path: bytes, work: Callable[..., object], *given: object) -> None:
        """Do something in every directory that has no error. `path`: what an error is about."""
        for place in list(self._live):
            self._do_at(place, path, work, *given)

    def _do_at(self, place: Destination, path: bytes, work: Callable[..., object], *given: object) -> None:
        try:
            work(place.new, *given)
        except (OSError, errors.UnsafePath) as error:
            self._note_failed_directory(place, path, error)

    def _note_failed_directory(self, place: Destination, path: bytes, error: OSError | errors.UnsafePath) -> None:
        """Note why a directory gets nothing more. Raises _NoPlaceLeftError after the last one."""
        if path and isinstance(error, OSError):
            error.filename = path
        place.error = error
        place.remove_made()
        self._live.remove(place)
        if not self._live:
            raise _NoPlaceLeftError from None

    def _write_file(self, path: bytes, entry: Entry) -> None:
        if not entry.chunks and not (entry.size and self._copies is not None and self._sharing_destinations()):
            self._write_whole(path, entry, b"".join(self._contents(entry)))
            return
        self._do_at_each(path, NewTree.begin_file, path)
        if rest := self._share_blocks(path, entry):
            for piece in self._contents(entry):
                for place in rest:
                    if place.error is None:
                        self._do_at(place, path, NewTree.write, piece)
        self._do_at_each(path, NewTree.end_file, path, entry.mode, entry.mtime_ns)

    def _write_whole(self, path: bytes, entry: Entry, content: bytes) -> None:
        """Write a file with these bytes into each directory."""
        mode, mtime_ns = entry.mode, entry.mtime_ns
        for place in self._live[:]:
            try:
                place.new.write_file(path, content, mode, mtime_ns)
            except (OSError, errors.UnsafePath) as error:
                self._note_failed_directory(place, path, error)

    def _share_blocks(self, path: bytes, entry: Entry) -> list[Destination]:
        """Let the new file share the blocks of the worktree's. Returns the directories where that was not possible."""
        able = self._sharing_destinations() if entry.size else []
        if not able or self._copies is None:
            return list(self._live)
        try:
            source = self._copies.open_file(path)
        except OSError:
            return list(self._live)
        with fsio.closing(source):
            done = [place for place in able if place.new.share_blocks_of(source)]
            if done and not self._copies.has_same_content(path, entry, source):
                for place in done:
                    self._do_at(place, path, NewTree.empty_cloned_file)
                done = []
                if self._copies.is_useless():
                    self._copies = None
        for place in done:
            place.from_worktree += 1
        return [place for place in self._live if place not in done]

    def _sharing_destinations(self) -> list[Destination]:
        """The directories that may share blocks with the worktree."""
        return [place for place in self._live if place.new.shares_blocks is not False]

    def _copy_ignored(self, file: CarriedFile) -> Iterator[Kept]:
        """Copy an ignored file or link as it is now. Yields why it was not copied, or not as it was."""
        path, was = file
        assert self._copies is not None
        try:
            if stat.S_ISLNK(was.st_mode):
                target = self._copies.link_target(path)
                self._do_at_each(path, NewTree.make_link, path, target)
                return
            source = self._copies.open_file(path)
        except OSError as error:
            yield Kept(path, f"an ignored file that could not be copied ({reason_of(error)})", benign=False)
            return
        with fsio.closing(source):
            self._do_at_each(path, NewTree.begin_file, path)
            done = [place for place in self._sharing_destinations() if place.new.share_blocks_of(source)]
            left = was.st_size  # no more than there was room for
            while left > 0 and len(done) < len(self._live) and (piece := os.read(source, min(left, _PIECE))):
                left -= len(piece)
                for place in [place for place in self._live if place not in done]:
                    self._do_at(place, path, NewTree.write, piece)
            self._do_at_each(path, NewTree.end_file, path, was.st_mode, was.st_mtime_ns)
            if not stamps.matches(stamps.of(was), os.fstat(source)):
                yield Kept(path, "an ignored file that changed while it was copied", benign=False)


def _refuse_paths_with_one_name(new: NewTree, actions: Sequence[Action]) -> None:
    """Raise UnsafePath if two paths have one name on the file system of a directory."""
    if new.tree.ignores_case_in_names():
        refuse_paths_with_one_name(action.path for action in actions)
