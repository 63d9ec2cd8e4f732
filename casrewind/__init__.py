"""casrewind: exact, reversible, bounded undo for projects that coding agents work on.

The door of the package. Everything is imported on first use, because the hooks of coding agents start this package
many times an hour and pay for every module that they load.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:  # not typing.TYPE_CHECKING: importing typing costs more than the rest of this module
    from .errors import CasrewindError
    from .model.checkpoint import Checkpoint
    from .workspace import Workspace, open  # noqa: A004 - the public name of the door

__version__ = "0.1.0"
__all__ = ["CasrewindError", "Checkpoint", "Workspace", "__version__", "open"]

_HOMES = {
    "CasrewindError": "casrewind.errors",
    "Checkpoint": "casrewind.model.checkpoint",
    "Workspace": "casrewind.workspace",
    "open": "casrewind.workspace",
}


def __getattr__(name: str) -> object:
    """Import a public name when it is first asked for."""
    if name not in _HOMES:
        raise AttributeError(f"module 'casrewind' has no attribute {name!r}")
    import importlib

    return getattr(importlib.import_module(_HOMES[name]), name)
