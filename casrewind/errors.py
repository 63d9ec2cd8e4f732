"""Every exception of casrewind, with the command line's exit code for it.

::

    CasrewindError                  1
    |-- WorkspaceError              1
    |   |-- WorkspaceNotFound      10   no workspace or store here
    |   |-- UnsafePath             14   leaves the root, passes through a link, or is a file of version control
    |   |   `-- ManifestRefused    14   a checkpoint that no save makes: too deep, or too many paths to list
    |   |-- RootRefused            14   home, / or a system directory; another root than the recorded root
    |   |-- ContentInTheWay        14   content that no checkpoint holds blocks a restore
    |   |-- DatabaseOpen           14   a program has a database open that a restore would change
    |   |-- JournalOpen            11   a restore is unfinished: continue or abort it first
    |   `-- NothingToUndo          15   no restore left to undo, or no undo to redo
    |-- StoreError                  1
    |   |-- StoreNotWritable        1
    |   |-- StoreBusy              11   a lock was not free before its deadline
    |   |-- StoreFull              13   no space left (or over quota), in the store or in the worktree
    |   |   `-- OverBudget         13   the store's budget is used up; internal: the save frees space and retries
    |   |-- FormatUnsupported      12   a store of a newer (or unknown) format
    |   |-- StoreForeign           14   the store belongs to another user, or other users can write to it
    |   `-- StoreDamaged           20
    |       |-- BlobMissing        20
    |       |-- BlobCorrupt        20
    |       |-- ManifestCorrupt    20
    |       `-- LedgerCorrupt      20
    |-- CheckpointError            15
    |   |-- CheckpointNotFound     15
    |   |-- PathNotFound           15   no file of that name in a checkpoint, or in any checkpoint
    |   `-- AmbiguousReference     15   lists the candidates
    |-- AgentError                 16
    |   |-- UnknownAgent           16   lists the known agents
    |   `-- MalformedEvent         16   a hook's input is not an event
    |-- BisectError                16   the command of a bisect tells no good from bad, or cannot be run
    |-- RemoteError                17   a remote refuses, cannot be reached, or holds what no push wrote
    `-- UsageError                 64   a bad option, limit or setting; no terminal and no --yes
    Declined                        0   the answer to a question was no

Partial success (a path that was skipped, an unreadable file) is not an exception: reports list it, and the command
line exits with 3. An interrupt exits with 130, a bug with 70. **Never 2**: coding agents read 2 as "block".
"""


def problem_with_hint(problem: str, hint: str) -> str:
    """A problem and what to do about it, as one line."""
    return f"{problem}{' ' if problem.endswith('?') else '; '}{hint}" if hint else problem


class CasrewindError(Exception):
    """Base of all errors that casrewind raises on purpose. `problem` names what went wrong and with which object, `hint`
    is what to do about it, or "". The text of the error is both (see `sentence`)."""

    exit_code = 1

    def __init__(self, problem: str, hint: str = "") -> None:
        """Both are printed as they are."""
        super().__init__(problem_with_hint(problem, hint))
        self.problem, self.hint = problem, hint


class WorkspaceError(CasrewindError):
    """Something about the worktree or its root."""


class WorkspaceNotFound(WorkspaceError):
    """No workspace, or no store for it yet."""

    exit_code = 10


class UnsafePath(WorkspaceError):
    """A path that casrewind will neither read nor write."""

    exit_code = 14


class ManifestRefused(UnsafePath):
    """A manifest that no save makes: too deep, or with too many paths. `roots`: digests of the walked root trees."""

    def __init__(self, why: str, roots: "tuple[bytes, ...]" = (), point: str = "") -> None:
        """`why` is the reason; `point` is the id of the checkpoint, or "" if unknown."""
        suffix = f" of {point}" if point else ""
        super().__init__(f"refused manifest{suffix}: {why}; no save makes such a checkpoint, nothing was done with it")
        self.why, self.roots = why, roots


class RootRefused(WorkspaceError):
    """A root that is too wide to protect, or that differs from the checkpoint's root."""

    exit_code = 14


class ContentInTheWay(WorkspaceError):
    """Content that no checkpoint holds is at a path that a restore has to write. Nothing was changed."""

    exit_code = 14


class DatabaseOpen(WorkspaceError):
    """A program has a database open for writing that a restore would change. Nothing was changed."""

    exit_code = 14


class JournalOpen(WorkspaceError):
    """A restore was interrupted and is neither finished nor aborted."""

    exit_code = 11


class NothingToUndo(WorkspaceError):
    """There is no restore to undo, or no undo to redo."""

    exit_code = 15


class StoreError(CasrewindError):
    """Something about the store."""


class StoreNotWritable(StoreError):
    """The store cannot be written."""


class StoreBusy(StoreError):
    """A lock of the store was not free before the deadline."""

    exit_code = 11


class StoreFull(StoreError):
    """No space left. `needed`: bytes of free space that suffice for what failed, 0 if unknown."""

    exit_code = 13

    def __init__(self, problem: str, hint: str = "", needed: int = 0) -> None:
        """As the base."""
        super().__init__(problem, hint)
        self.needed = needed


class OverBudget(StoreFull):
    """A save would exceed the store's budget; the caller frees space and repeats it. `written`: bytes including the
    refused write; `left`: bytes that were allowed."""

    def __init__(self, written: int, left: int) -> None:
        """Both in bytes."""
        super().__init__(f"this save needs more than the {left:,} bytes that the store's budget leaves")
        self.written, self.left = written, left


class FormatUnsupported(StoreError):
    """The store has a format that this version does not know."""

    exit_code = 12


class StoreForeign(StoreError):
    """The store belongs to another user, or other users can write to it."""

    exit_code = 14


class StoreDamaged(StoreError):
    """Bytes of the store differ from the bytes that were written."""

    exit_code = 20


class BlobMissing(StoreDamaged):
    """A blob that a checkpoint needs is in no pack."""


class BlobCorrupt(StoreDamaged):
    """A blob's bytes do not have its digest."""


class ManifestCorrupt(StoreDamaged):
    """A tree, domain or plan cannot be decoded, or names what it may not name."""


class LedgerCorrupt(StoreDamaged):
    """A record of the ledger is not what was written."""


class CheckpointError(CasrewindError):
    """Something about a reference to a checkpoint."""

    exit_code = 15


class CheckpointNotFound(CheckpointError):
    """No checkpoint has that name."""


class PathNotFound(CheckpointError):
    """No file of that name in a checkpoint, or in any checkpoint."""


class AmbiguousReference(CheckpointError):
    """More than one checkpoint has that name."""


class AgentError(CasrewindError):
    """Something about an agent or its events."""

    exit_code = 16


class UnknownAgent(AgentError):
    """No agent has that name."""


class MalformedEvent(AgentError):
    """A hook's input is not an event."""


class BisectError(CasrewindError):
    """The command of a bisect tells no good state from a bad one, or cannot be run."""

    exit_code = 16


class RemoteError(CasrewindError):
    """A remote refuses something, cannot be reached, or holds other bytes than a push wrote."""

    exit_code = 17


class UsageError(CasrewindError):
    """A bad option, limit or setting."""

    exit_code = 64


class Declined(Exception):
    """The user declined. Nothing was changed. It is no CasrewindError: nothing failed."""
