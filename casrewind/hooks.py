"""What hooks ask of a workspace, and what the next command asks about them. Not part of the Python API."""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .agents.event import Event
    from .ops.save import Saved
    from .workspace import Workspace

# ruff: noqa: SLF001 - this is the workspace's other door


def record(workspace: "Workspace", event: "Event", at_ns: int, homes: tuple[str, ...], *, transcripts: bool) -> "Saved":
    """Make the checkpoint of an agent's event that happened at `at_ns`: see ops/event.py."""
    from .ops import event as recording

    return recording.record(workspace._site, event, at_ns, homes, transcripts=transcripts)


def last_save_ms(workspace: "Workspace") -> int | None:
    """How many milliseconds the newest save of a worktree took; None when there is none."""
    site = workspace._site
    head = site.store.head(site.root.key)
    return None if head is None else head.elapsed_ms


def unseen_failures(workspace: "Workspace", data: str) -> list[str]:
    """What went wrong where nobody was looking, one line each, in the store or before one was found (in the log of the
    data directory); a second time there is nothing to tell."""
    from .store.log import Log

    return [*Log(data).unseen(), *Log(workspace.store_path).unseen()]
