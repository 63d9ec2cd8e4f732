"""casrewind jump: restore --both under a shorter name."""

from ..grammar.options import ASSUME_YES, DRY_RUN, EDITS, JSON, OPEN_FILES, REF, SKIP_DAMAGED, Command, Option
from . import restore

COMMAND = Command(
    examples=("casrewind jump @2",),
    options=(
        REF,
        Option(("paths",), "restore only these files", "PATH", nargs="*"),
        *EDITS, DRY_RUN, SKIP_DAMAGED, OPEN_FILES, ASSUME_YES, JSON,
    ),
    defaults={"what": "both", "into": (), "resume": None, "patch": False},
    more="Restores the files and the conversation of a checkpoint.",
    behind="paths go",
    saves=True, tells_restore=True,
)
run = restore.run
