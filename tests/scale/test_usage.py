"""casrewind du of thousands of checkpoints of thousands of files: right, and in memory that follows what differs, not what is
there. Wall times are printed; nothing is asserted about them."""

import json
import os
import random
import tempfile

import pytest

from casrewind.upkeep.save import Moment
from casrewind.upkeep.save import save as save_moment
from support import real_trees
from support.blob_owners import pack_sizes
from casrewind.workspace import Settings, Workspace
from support.command import Command
from support.peak_memory import MB, measured

TURNS = 30
"""Checkpoints of one session."""


class Made:
    """A project with its store: every turn some files change, and an artefact is made anew."""

    def __init__(self, place, files, count):
        self.files, self.count = files, count
        self.root, home = os.path.join(place, "project"), os.path.join(place, "home")
        os.makedirs(self.root)
        os.makedirs(home)
        self.command = Command(self.root, home)
        self.settings = Settings(home=home, data=os.path.join(home, "data"), environ={"HOME": home, "GIT_CONFIG_NOSYSTEM": "1"})
        self.changed = {}
        source = random.Random(1)
        paths = [os.path.join(self.root, f"pkg{n % 20}", f"mod{n % 400}", f"f{n}.py") for n in range(files)]
        for number, path in enumerate(paths):
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "wb") as file:
                file.write(b"line %d\n" % number * source.randrange(1, 60))
        with Workspace(self.root, self.settings, create=True) as workspace:
            self.store = workspace.store_path
            for turn in range(count):
                for path in source.sample(paths, 5):
                    self.changed[path] = self.changed.get(path, 1) + 1
                    with open(path, "ab") as file:
                        file.write(b"edit %d %d\n" % (turn, source.getrandbits(60)))
                with open(os.path.join(self.root, "artefact"), "wb") as file:
                    file.write(source.randbytes(30_000))
                moment = Moment(trigger="prompt", prompt=f"prompt {turn}", agent="claude", session=f"s{turn // TURNS}")
                save_moment(workspace._context, moment)


@pytest.fixture(
    scope="module",
    params=[
        pytest.param((700, 60), id="push"),
        pytest.param((7_000, 2_000), id="full", marks=[pytest.mark.long, pytest.mark.timeout(2400)]),
    ],
)
def made(request):
    with tempfile.TemporaryDirectory(prefix="casrewind-usage-", dir=real_trees.roomy()) as place:
        yield Made(place, *request.param)


def test_thousands_of_checkpoints_are_measured_in_little_memory(made):
    peak, out = measured(made.command, "du", "--json")
    print(f"du of {made.count:,} checkpoints of {made.files:,} files: {peak}")
    assert peak.bytes < 110 * MB
    found = json.loads(out)
    assert len(found["checkpoints"]) == made.count and len(found["sessions"]) == -(-made.count // TURNS)
    assert found["packs_bytes"] == sum(pack_sizes(made.store).values())
    assert found["packs_bytes"] == found["reachable_bytes"] + found["garbage_bytes"] + 8 * found["packs"]
    assert found["unique_bytes"] == sum(point["unique_bytes"] for point in found["checkpoints"])
    versions = {os.path.join(made.root, row["path"]): row["versions"] for row in found["paths"]}
    assert versions.pop(os.path.join(made.root, "artefact")) == made.count
    first = {path: 1 for path in versions}
    # what changed in the first turn was never saved as it was before
    assert len(versions) == made.files and sum(versions.values()) >= sum({**first, **made.changed}.values()) - 5
    assert all(count <= made.changed.get(path, 1) for path, count in versions.items())
    assert all(30_000 < point["unique_bytes"] < 50_000 for point in found["checkpoints"])


def test_of_some_the_bytes_are_what_forgetting_them_frees(made):
    with Workspace(made.root, made.settings, create=False) as workspace:
        maintenance = workspace._context.store.maintenance()
        for _ in range(2 if made.count < 100 else 4):
            before = workspace.usage(1)
            row = random.Random(2).choice(before.checkpoints)
            assert maintenance.forget([row.checkpoint.id], maintenance.newest_seq())
            after = workspace.usage(1)
            assert after.garbage - before.garbage == row.unique > 30_000
