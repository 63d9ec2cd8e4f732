"""What support/fault_sweep_maintenance.py does to gc, done to a save for which the store's budget has no room, and to gc to a size.

After each fault every checkpoint that an uninterrupted run keeps is there, each one that is listed holds its bytes, the store
is within its budget, and the same command, given again, gets to where an uninterrupted one gets.
"""

import hashlib
import os

from support import fault_sweep
from support.fault_sweep import cli, keep_copy, restore_copy, run_json, run_with_fault
from support.fault_sweep_maintenance import noise
from support.picture import differences, picture
from support.store_checks import read_everything
from support.trees import plant
from support.two_states import build

BUDGET = 2 << 20


class Making:
    """A store that is full to its budget, and what has to make room in it."""

    code, is_open, wanted = 0, False, "done"

    def __init__(self, operation):
        """Prepare; the result is stashed under the operation's name."""
        os.environ |= {"CASREWIND_AUTO_GC": "false", "CASREWIND_THIN": "false"}
        os.environ["CASREWIND_MAX_SIZE"] = str(BUDGET)
        self.operation, self.pictures = operation, {}
        fault_sweep.repeat_names(19)
        fault_sweep._empty(fault_sweep.HOME)
        build(fault_sweep.ROOT, {"stays.txt": b"stays\n" * 50})
        for number in range(5):
            self.save(number, *(["--pin"] if number == 1 else []))
        self.save(5)
        plant(fault_sweep.ROOT, {"artefact": noise(90, 420_000), "new.txt": b"to be saved\n"})
        is_save = operation == "save that makes room"
        self.arguments = ("save",) if is_save else ("gc", "--max-size", "1MB")
        self.before = self.ids()
        keep_copy(operation)
        code, out, err = cli(*self.arguments)
        assert (code, err) == (0, ""), (code, out, err)
        self.kept = [identity for identity in self.ids() if identity in self.pictures]
        assert 2 <= len(self.kept) < len(self.before), (len(self.kept), len(self.before))
        assert self.pinned in self.kept
        self.after = len(self.ids())
        restore_copy(operation)

    def save(self, number, *arguments):
        plant(fault_sweep.ROOT, {"artefact": noise(80 + number, 240_000), "number": b"%d" % number})
        identity = run_json(0, "save", *arguments)["checkpoint"]
        self.pictures[identity] = picture(fault_sweep.ROOT)
        if arguments:
            self.pinned = identity

    def ids(self):
        return [point["id"] for point in run_json(0, "list", "--all")["checkpoints"]]

    def run(self, at, act, error=0, *, forever=False):
        """In a child: the command, with something going wrong at call `at`."""
        return run_with_fault(self.arguments, at, act, error, forever=forever)

    def check(self, *, thorough, back):  # noqa: ARG002 - as of the others
        """After a fault."""
        listed = self.ids()
        assert set(self.kept) <= set(listed), f"lost: {set(self.kept) - set(listed)}"
        assert run_json(0, "verify")["ok"]
        self.holds()
        state = "before" if set(listed) == set(self.before) else "done" if len(listed) == self.after else "in between"
        assert cli(*self.arguments)[0] == 0
        again = self.ids()
        assert set(self.kept) <= set(again)
        assert len(again) == self.after, (len(again), self.after)
        assert self.size() <= BUDGET
        assert run_json(0, "verify")["ok"]
        run_json(0, "gc")
        assert os.listdir(os.path.join(self.store(), "tmp")) == [], "an orphan is left"
        if thorough:
            run_json(0, "restore", self.kept[-1], "--yes")
            wanted = self.pictures[self.kept[-1]]
            assert picture(fault_sweep.ROOT) == wanted, differences(picture(fault_sweep.ROOT), wanted)
            run_json(0, "undo", "--yes")
        return {"journal": False, "state": state}

    def store(self):
        return run_json(0, "status")["store"]

    def size(self):
        return sum(
            os.lstat(os.path.join(place, name)).st_blocks * 512 for place, _, names in os.walk(self.store()) for name in names
        )

    def holds(self):
        """Each checkpoint has the bytes that it was made of."""
        from casrewind.settings import from_environment
        from casrewind.workspace import Workspace

        with Workspace(fault_sweep.ROOT, from_environment()[0], create=False) as workspace:
            for identity, files in read_everything(workspace).items():
                if identity not in self.pictures:
                    continue  # made by what was interrupted
                wanted = {path: what[2] for path, what in self.pictures[identity].items() if what[0] == "file"}
                assert {path: hashlib.sha256(data).hexdigest() for path, data in files.items()} == wanted, identity


CASES = dict.fromkeys(("save that makes room", "gc to a size"), Making)
