"""What support/fault_sweep.py does to a restore, done to a revert that merges a file, makes files and removes some, to
a restore that keeps edits, and to a take.

A merged file gets the time of the merge, so that alone is not looked at.
"""

from casrewind.settings import from_environment
from casrewind.workspace import Workspace
from support import fault_sweep
from support.agent_turns import AgentTurns
from support.fault_sweep import Case, keep_copy, restore_copy, run_json
from support.trees import Dir, Exec, Link
from support.two_states import build

MERGED = b"src/merged.py"
_LINES = [b"line %d\n" % number for number in range(1, 400)]
BEFORE = {
    "same.txt": b"always the same\n", "src/merged.py": b"".join(_LINES), "src/edited.py": b"old\n" * 300, "back.txt": b"is removed by the turn\n",
    "lost/deep/file": b"1", "hollow": Dir(), "link": Link("same.txt"), "run.sh": Exec(b"#!/bin/sh\n"), "left.md": b"1\n2\n3\n",
}  # fmt: skip
TURN = {
    "same.txt": BEFORE["same.txt"], "src/merged.py": b"".join([b"by the turn\n", *_LINES[1:]]), "src/edited.py": b"new\n" * 200,
    "made/deep/file": b"2", "made/by.txt": b"the turn\n", "link": Link("nowhere"), "run.sh": b"#!/bin/sh\n", "left.md": b"1\n2\n3\n",
}  # fmt: skip
NOW = {**TURN, "src/merged.py": b"".join([b"by the turn\n", *_LINES[1:-1], b"by a person\n"])}


class Reverting(Case):
    """A revert of the only turn, after an edit of a person."""

    command = ("revert", "@1", "--yes")

    def _prepare(self, operation, now, after):
        self.wanted, self.target = "new", None
        build(fault_sweep.ROOT, BEFORE)
        with Workspace(fault_sweep.ROOT, from_environment()[0], create=True) as workspace:
            agent = AgentTurns(workspace, workspace.root.path)
            agent.prompt("p", "do it")
            build(fault_sweep.ROOT, TURN)
            agent.stop("p")
        build(fault_sweep.ROOT, NOW)
        self.arguments, self.old = self.command, self._seen()
        self._keep(operation)

    def _keep(self, operation):
        """Keep a copy, do it once to see the end, and go back to the copy."""
        keep_copy(operation)
        found = run_json(0, *self.arguments)
        assert [change["path"] for change in found["changes"] if change["how"] == "merged"] == [MERGED.decode()]
        self.new = self._seen()
        restore_copy(operation)
        self.acknowledged = [point["id"] for point in run_json(0, "list", "--all")["checkpoints"]]

    def _seen(self):
        """What is in the project, without the time of the merged file."""
        return {path: what[:3] if path == MERGED else what for path, what in fault_sweep.project_picture().items()}

    def _state(self):
        here = self._seen()
        return "old" if here == self.old else "new" if here == self.new else "neither"


class KeepingEdits(Reverting):
    """A restore to before the turn that keeps the edit of the person."""

    command = ("restore", "@1", "--keep-edits", "--yes")


class Taking(Reverting):
    """A take of the turn's changes from another directory, after the edit of the person. What comes gets the time of the take."""

    def _prepare(self, operation, now, after):
        self.wanted, self.target, there = "new", None, f"{fault_sweep.BASE}/there"
        build(fault_sweep.ROOT, BEFORE)
        run_json(0, "save")
        run_json(0, "restore", "last", "--to", there)
        build(there, TURN)
        build(fault_sweep.ROOT, {**BEFORE, "src/merged.py": b"".join([*_LINES[:-1], b"by a person\n"])})
        self.arguments, self.old = ("take", there, "--yes"), self._seen()
        self._keep(operation)

    def _seen(self):
        return {path: what[:3] for path, what in fault_sweep.project_picture().items()}


CASES = {"revert": Reverting, "keep edits": KeepingEdits, "take": Taking}
