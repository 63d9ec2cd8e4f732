"""What support/fault_sweep_maintenance.py does to gc and repair, done to `stores --prune-missing`: of two stores whose projects are gone.

After each fault the other stores are byte for byte what they were, each of the two is a whole store or none at all, and the
same command, given again, leaves nothing of them.
"""

import os
import shutil

from support import fault_sweep
from support.fault_sweep import cli, keep_copy, restore_copy, run_json, run_with_fault
from support.picture import differences, picture
from support.trees import plant
from support.two_states import build

GONE = {"one": [b"one 1", b"one 2"], "two": [b"two 1"]}
"""The projects that are gone: what was in their file at each checkpoint."""


class Pruning:
    """A shelf with a project that is there, two that are gone, and one that is gone and pinned."""

    code, is_open, wanted = 0, False, "removed"

    def __init__(self, operation):
        """Prepare; the result is stashed under the operation's name."""
        self.operation, self.arguments = operation, ("stores", "--prune-missing", "0d", "--yes")
        self.registry = f"{fault_sweep.HOME}/data/stores"
        fault_sweep.repeat_names(17)
        fault_sweep._empty(fault_sweep.HOME)
        build(fault_sweep.ROOT, {"f": b"here"})
        run_json(0, "save")
        self.checkpoints = {}  # store: ids
        for name, contents in {**GONE, "pinned": [b"pinned 1"]}.items():
            self.make(name, contents)
        self.stay = [name for name in os.listdir(self.registry) if name.startswith(("w-", "pinned-"))]
        assert (len(self.stay), len(self.checkpoints)) == (2, 2)
        self.others = self.look()
        keep_copy(operation)
        code, out, err = cli(*self.arguments)
        assert (code, err) == (0, "") and "removed 2 stores" in out and "pinned" in out, (code, out, err)
        assert sorted(os.listdir(self.registry)) == sorted(self.stay)
        restore_copy(operation)

    def make(self, name, contents):
        """A project, its store, and no project any more."""
        place = f"{fault_sweep.BASE}/{name}"
        os.mkdir(place)
        ids = []
        for number, content in enumerate(contents):
            plant(place, {"f": content, "d/large": content * 5_000})
            code, out, err = cli("save", "--json", *(["--pin"] if name == "pinned" else []), root=place)
            assert code == 0, err
            ids.append(fault_sweep.json.loads(out)["checkpoint"])
        if name in GONE:
            self.checkpoints[fault_sweep.json.loads(cli("status", "--json", root=place)[1])["store"]] = ids
        shutil.rmtree(place)

    def look(self):
        """What the stores that stay hold, without what only helps."""
        return {
            (name, path): what
            for name in self.stay
            for path, what in picture(f"{self.registry}/{name}").items()
            if not {b"locks", b"index"}.intersection(path.split(b"/"))
        }

    def run(self, at, act, error=0, *, forever=False):
        """In a child: the command, with something going wrong at call `at`."""
        return run_with_fault(self.arguments, at, act, error, forever=forever)

    def check(self, *, thorough, back):  # noqa: ARG002 - as of the others
        """After a fault."""
        assert self.look() == self.others, differences(self.look(), self.others)
        listed = {store["store"]: store for store in run_json(0, "stores")["stores"]}
        assert {f"{self.registry}/{name}" for name in self.stay} <= listed.keys()
        left = listed.keys() & self.checkpoints.keys()
        assert len(listed) == 2 + len(left), listed.keys()
        for store in left:
            assert (listed[store]["problem"], listed[store]["checkpoints"]) == (None, len(self.checkpoints[store]))
            self.is_whole(store)
        code, _, err = cli(*self.arguments)
        assert (code, err) == (0, "")
        assert sorted(os.listdir(self.registry)) == sorted(self.stay), "something is left"
        assert self.look() == self.others
        if thorough:
            run_json(0, "verify")
            run_json(0, "save", "-m", "life goes on")
        return {"journal": False, "state": {2: "nothing", 1: "one", 0: "removed"}[len(left)]}

    def is_whole(self, store):
        code, out, err = cli("--store", store, "verify", "--json")
        assert code == 0 and fault_sweep.json.loads(out)["ok"], err
        for identity, content in zip(self.checkpoints[store], GONE[os.path.basename(store).partition("-")[0]], strict=True):
            place = f"{fault_sweep.BASE}/written"
            shutil.rmtree(place, ignore_errors=True)
            assert cli("--store", store, "restore", identity, "--to", place)[0] == 0
            with open(f"{place}/f", "rb") as file:
                assert file.read() == content


CASES = {"prune": Pruning}
