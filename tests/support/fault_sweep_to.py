"""What support/fault_sweep.py does to a restore, done to `restore --to` of two directories: one is new, and one has an earlier id.

The earlier directory was made whole from another checkpoint, and then emptied by hand. After each fault a directory either has all
files of the checkpoint, and take knows that, or take does not know it.
"""

import os
import shutil

from support import fault_sweep
from support.fault_sweep import cli, keep_copy, run_json, run_with_fault
from support.picture import differences, picture
from support.trees import Exec, Link
from support.two_states import build

EARLIER = {"a": b"1", "d/b": b"2", "gone": b"3", "late/one": b"4"}
LATER = {"a": b"one", "d/b": Exec(b"2"), "d/e/c": b"5" * 300_000, "late/one": b"4", "late/two": b"6", "link": Link("a")}


class WritingDirectories:
    """A project with two checkpoints. The newer one is written."""

    code, is_open, wanted = 0, False, "whole whole"

    def __init__(self, operation):
        """Prepare; the result is stashed under the operation's name."""
        self.operation = operation
        fault_sweep._empty(fault_sweep.HOME)
        build(fault_sweep.ROOT, EARLIER)
        self.earlier = run_json(0, "save")["checkpoint"]
        build(fault_sweep.ROOT, LATER)
        run_json(0, "save")
        self.project = fault_sweep.project_picture()
        self.places = [f"{fault_sweep.BASE}/made/{name}" for name in ("earlier", "new")]
        os.makedirs(f"{fault_sweep.BASE}/made", exist_ok=True)
        self.arguments = ("restore", "last", "--to", self.places[0], "--to", self.places[1])
        keep_copy(operation)

    def run(self, at, act, error=0, *, forever=False):
        """In a child: the command, with something going wrong at call `at`."""
        for place in self.places:
            shutil.rmtree(place, ignore_errors=True)
        assert cli("restore", self.earlier, "--to", self.places[0])[0] == 0
        for name in EARLIER:
            os.unlink(f"{self.places[0]}/{name}")
        for name in ("d", "late"):
            os.rmdir(f"{self.places[0]}/{name}")
        assert cli("take", self.places[0], "--dry-run")[0] != 15, "the empty directory is to have an earlier id"
        return run_with_fault(self.arguments, at, act, error, forever=forever)

    def check(self, *, thorough, back):  # noqa: ARG002 - as of the others
        """After a fault."""
        states = [self._look(place) for place in self.places]
        assert fault_sweep.project_picture() == self.project
        if thorough:
            run_json(0, "save")
        return {"journal": False, "state": " ".join(states)}

    def _look(self, place):
        """Whether a directory is known to be whole. Before the first byte, one is the empty one that it was."""
        code, _, err = cli("take", place, "--dry-run")
        if code == 15:
            return "unknown"
        seen = picture(place, mtimes=True)
        if not seen and place == self.places[0]:
            return "untouched"
        code, _, err = cli("take", place, "--yes")
        assert seen == self.project, differences(seen, self.project)
        assert code == 0, err
        return "whole"


CASES = {"restore to": WritingDirectories}
