"""What agents and their hooks ask of a workspace. Not part of the Python API yet."""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .agents.event import Event
    from .ops.restore import Confirm
    from .ops.rewind import Rewound
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


def back(
    workspace: "Workspace", number: int, *, both: bool, nearest: bool, confirm: "Confirm | None"
) -> "Rewound":
    """The conversation before a prompt as a session of its own, and the files of that moment: see ops/rewind.py."""
    from .ops import rewind

    return rewind.back(workspace._site, number, both=both, nearest=nearest, confirm=confirm)


def unseen_failures(workspace: "Workspace", data: str) -> list[str]:
    """What went wrong where nobody was looking, one line each, in the store or before one was found (in the log of the
    data directory); a second time there is nothing to tell."""
    from .store.log import Log

    return [*Log(data).unseen(), *Log(workspace.store_path).unseen()]
