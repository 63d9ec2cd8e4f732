"""casrewind: exact, reversible, bounded undo for projects that coding agents work on.

`open` returns a Workspace; docs/api.md shows how to use it. This module exports every class that appears in a public
signature or report. `casrewind.errors` defines all exceptions; the most useful ones are exported here.

Every name is imported on first use: agents' hooks start this package many times an hour and pay for each module.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:  # not typing.TYPE_CHECKING: importing typing costs more than the rest of this module
    from .change.receipt import CameConversation, Receipt
    from .change.result import Materialised, Restored, WrittenDirectory
    from .change.rewind import Chat, Rewound
    from .errors import (
        AgentError,
        CasrewindError,
        CheckpointError,
        ContentInTheWay,
        DatabaseOpen,
        Declined,
        JournalOpen,
        NothingToUndo,
        StoreBusy,
        StoreDamaged,
        StoreError,
        StoreFull,
        UsageError,
        WorkspaceError,
        WorkspaceNotFound,
    )
    from .history.blame import Author, AuthoredLines, Blame
    from .history.compare import Comparison
    from .history.path_history import Logged, PathChange
    from .history.provenance import Makers
    from .history.review import Review
    from .model.at_risk import OnlyCopy, OpenFile
    from .model.checkpoint import Checkpoint, Circumstances
    from .model.diff import Change, Counts
    from .model.domain import Domain, RuleRef, Skip, Stop
    from .model.manifest import Entry
    from .model.plan import Action, Kept, Merged, Plan
    from .model.retention import Dropped, Limits
    from .model.turn_records import Forgotten, Outside, Reset, Reversed, SavedRow, Turn
    from .model.undo_history import Operation
    from .projects import adopt_moved, prune_missing, stores
    from .remote.clone import Cloned, clone
    from .remote.pull import Pulled
    from .remote.pushed import Pushed
    from .remote.remote_config import RemoteConfig
    from .remote.take_over import adopt
    from .settings import Settings, default_settings
    from .store.catalog import Marked
    from .upkeep.adopt import Adopted, Moved
    from .upkeep.all_stores import Found, Pruned, Spared, Timeline
    from .upkeep.damage import Place
    from .upkeep.gc import Collected
    from .upkeep.pins import Marking
    from .upkeep.purge import Gone, Purged
    from .upkeep.purge_text import Covered, Holder, TextPurged
    from .upkeep.save import Saved
    from .upkeep.status import Status
    from .upkeep.usage import CheckpointUsage, PathUsage, SessionUsage, Usage
    from .upkeep.verify import Problem, Verified
    from .workspace import Workspace, open  # noqa: A004 - the public name
    from .worktree.root import Root

__version__ = "0.2.0"
__all__ = [
    "Action",
    "Adopted",
    "AgentError",
    "Author",
    "AuthoredLines",
    "Blame",
    "CameConversation",
    "CasrewindError",
    "Change",
    "Chat",
    "Checkpoint",
    "CheckpointError",
    "CheckpointUsage",
    "Circumstances",
    "Cloned",
    "Collected",
    "Comparison",
    "ContentInTheWay",
    "Counts",
    "Covered",
    "DatabaseOpen",
    "Declined",
    "Domain",
    "Dropped",
    "Entry",
    "Forgotten",
    "Found",
    "Gone",
    "Holder",
    "JournalOpen",
    "Kept",
    "Limits",
    "Logged",
    "Makers",
    "Marked",
    "Marking",
    "Materialised",
    "Merged",
    "Moved",
    "NothingToUndo",
    "OnlyCopy",
    "OpenFile",
    "Operation",
    "Outside",
    "PathChange",
    "PathUsage",
    "Place",
    "Plan",
    "Problem",
    "Pruned",
    "Pulled",
    "Purged",
    "Pushed",
    "Receipt",
    "RemoteConfig",
    "Reset",
    "Restored",
    "Reversed",
    "Review",
    "Rewound",
    "Root",
    "RuleRef",
    "Saved",
    "SavedRow",
    "SessionUsage",
    "Settings",
    "Skip",
    "Spared",
    "Status",
    "Stop",
    "StoreBusy",
    "StoreDamaged",
    "StoreError",
    "StoreFull",
    "TextPurged",
    "Timeline",
    "Turn",
    "Usage",
    "UsageError",
    "Verified",
    "Workspace",
    "WorkspaceError",
    "WorkspaceNotFound",
    "WrittenDirectory",
    "__version__",
    "adopt",
    "adopt_moved",
    "clone",
    "default_settings",
    "open",
    "prune_missing",
    "stores",
]

_ROOMS = {
    "errors": "AgentError CasrewindError CheckpointError ContentInTheWay DatabaseOpen Declined JournalOpen NothingToUndo StoreBusy "
    "StoreDamaged StoreError StoreFull UsageError WorkspaceError WorkspaceNotFound",
    "model.checkpoint": "Checkpoint Circumstances",
    "model.diff": "Change Counts",
    "model.domain": "Domain RuleRef Skip Stop",
    "model.undo_history": "Operation",
    "model.manifest": "Entry",
    "model.at_risk": "OnlyCopy OpenFile",
    "model.plan": "Action Kept Merged Plan",
    "model.retention": "Dropped Limits",
    "model.turn_records": "Forgotten Outside Reset Reversed SavedRow Turn",
    "upkeep.adopt": "Adopted Moved",
    "history.compare": "Comparison",
    "upkeep.damage": "Place",
    "change.result": "Materialised Restored WrittenDirectory",
    "upkeep.gc": "Collected",
    "history.blame": "Author AuthoredLines Blame",
    "history.path_history": "Logged PathChange",
    "history.provenance": "Makers",
    "history.review": "Review",
    "upkeep.pins": "Marking",
    "upkeep.purge": "Gone Purged",
    "upkeep.purge_text": "Covered Holder TextPurged",
    "change.receipt": "CameConversation Receipt",
    "change.rewind": "Chat Rewound",
    "upkeep.save": "Saved",
    "upkeep.status": "Status",
    "upkeep.all_stores": "Found Pruned Spared Timeline",
    "upkeep.usage": "CheckpointUsage PathUsage SessionUsage Usage",
    "upkeep.verify": "Problem Verified",
    "projects": "adopt_moved prune_missing stores",
    "remote.clone": "Cloned clone",
    "remote.pull": "Pulled",
    "remote.pushed": "Pushed",
    "remote.remote_config": "RemoteConfig",
    "remote.take_over": "adopt",
    "settings": "Settings default_settings",
    "store.catalog": "Marked",
    "workspace": "Workspace open",
    "worktree.root": "Root",
}
_HOMES = {name: f"casrewind.{room}" for room, names in _ROOMS.items() for name in names.split()}


if not TYPE_CHECKING:  # with __getattr__, a type checker accepts every misspelled name

    def __getattr__(name: str) -> object:
        """Import a public name on first use."""
        if name not in _HOMES:
            raise AttributeError(f"module 'casrewind' has no attribute {name!r}")
        import importlib

        return getattr(importlib.import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    """The public names, including those not imported yet."""
    return sorted({*globals(), *__all__})
