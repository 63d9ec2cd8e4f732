"""`/casrewind ...` typed in a client: done by its prompt hook, answered without a request to the model.

The danger prevented here: tokens spent on a command that is not for the model. The answer is a block decision whose
reason is what the command printed, on failure too.
"""

import json
import os
import sys
import tempfile

from ..agents.event import Event
from ..agents.profile import Profile

_PATIENCE = 20.0
"""Seconds after which the answer says that the command goes on."""
_KNOWN = frozenset({"back", "list", "show", "diff", "restore", "undo", "redo", "save", "pin", "unpin", "status", "verify"})
_ASKS = frozenset({"restore", "back"})
_HELP = (
    "casrewind: /casrewind [list] | save [-m MESSAGE] | diff [REF] | restore REF [-- PATH] | back [N] | undo | redo | pin REF | status"
)


def answer(event: Event, profile: Profile, root: str) -> None:  # noqa: ARG001 - a client may want another shape of answer
    """Do what stands behind `/casrewind`, and print the decision that shows the result and keeps the prompt from the
    model."""
    try:
        reason = _do(event.command or "", root)
    except Exception as error:
        reason = f"casrewind: {type(error).__name__}: {error}"
    print(json.dumps({"decision": "block", "reason": reason}))


def _do(command: str, root: str) -> str:
    import shlex
    import subprocess

    words = shlex.split(command) or ["list", "-n", "10"]
    if words[0] not in _KNOWN:
        return _HELP
    if words[0] in _ASKS and not {"--dry-run"} & set(words):
        words[1:1] = ["--yes", "--both"] if words[0] == "back" else ["--yes"]  # typed by the person, who sees what it did and can undo it
    with tempfile.TemporaryFile() as output:  # a pipe would end a command that outlives this hook
        line = [sys.executable, "-P", "-m", "casrewind", "-q", *words]
        child = subprocess.Popen(
            line, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, start_new_session=True, cwd=root,
            env={**os.environ, "NO_COLOR": "1"},
        )  # fmt: skip
        try:
            child.wait(timeout=_PATIENCE)
        except subprocess.TimeoutExpired:
            child.returncode = 0
            return f"casrewind {words[0]} takes longer than {_PATIENCE:g} s and goes on; /casrewind status shows how it stands"
        output.seek(0)
        text = output.read().decode("utf-8", "replace").strip()
    return text or f"casrewind {words[0]}: done"
