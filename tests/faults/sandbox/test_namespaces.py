"""Containers and their like: process ids that mean nothing, no /proc, no temporary directory, a store that is read only."""

import os
import shutil
import subprocess
import sys

import pytest

from support.command import Command
from support.command_in_process import InProcess
from support.picture import differences, picture
from support.race_programs import contents
from support.trees import plant

TESTS = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
NAMESPACE = ("unshare", "-p", "-f", "--mount-proc")

AGENT = """
import json, os, random, sys
from casrewind import errors
from casrewind.workspace import Settings, open as opened
from support.race_programs import contents
root, store, home, rounds, seed = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4]), int(sys.argv[5])
chance = random.Random(seed)
settings = Settings(home=home, data=home + "/data", store=store, environ={"HOME": home}, deadline=30.0)
assert os.getpid() == 1, os.getpid()
done = []
for number in range(rounds):
    for name in "abc":
        with open(f"{root}/{name}", "wb") as file:
            file.write(chance.randbytes(chance.randrange(20_000)))
    with opened(root, settings) as workspace:
        saved = workspace.save(f"round {number}")
        done.append([saved.checkpoint.id, contents(root)])
        if number % 10 == 5:
            try:
                workspace.gc(dry_run=False)
            except errors.StoreBusy as error:  # another one's gc takes longer than ours waits for it: then it is being done
                assert "gc lock" in str(error), error
        if number % 7 == 3:
            before = contents(root)
            workspace.restore(workspace.checkpoint("prev"))
            workspace.undo()
            assert contents(root) == before
print(json.dumps(done))
"""


@pytest.fixture
def namespaces():
    if os.geteuid() != 0 or shutil.which("unshare") is None:
        pytest.skip("needs root and unshare")
    if subprocess.run([*NAMESPACE, "true"], capture_output=True, check=False).returncode:
        pytest.skip("no pid namespaces here")


@pytest.mark.turns(2)
@pytest.mark.parametrize("rounds", [25, pytest.param(400, marks=pytest.mark.long)])
def test_three_namespaces_in_each_of_which_the_process_is_number_one(namespaces, tmp_path, home, rounds):
    """They save, restore, undo and collect garbage in one store at once: no error, and everything is there."""
    import json

    store, running = tmp_path / "store", []
    environment = {
        "PATH": os.environ["PATH"], "HOME": str(home), "LANG": "C.UTF-8", "GIT_CONFIG_NOSYSTEM": "1", "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONPATH": os.pathsep.join([os.path.dirname(TESTS), TESTS]),
    }  # fmt: skip
    for number in range(3):
        root = tmp_path / f"project {number}"
        root.mkdir()
        running.append(
            subprocess.Popen(
                [*NAMESPACE, sys.executable, "-c", AGENT, str(root), str(store), str(home), str(rounds), str(number)],
                env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            )
        )  # fmt: skip
    answers = [process.communicate() for process in running]
    assert [process.returncode for process in running] == [0, 0, 0], [err.decode()[-1500:] for _, err in answers]
    command = InProcess(tmp_path / "project 0", home)
    held = 0
    for number, (out, _) in enumerate(answers):
        for identity, expected in json.loads(out)[-12:]:
            target = tmp_path / "out" / identity
            command("--store", str(store), "restore", identity, "--to", str(target), code=0)
            assert contents(target) == expected
            held += 1
    command("--store", str(store), "verify", code=0)
    print(f"3 pid namespaces, {rounds} saves each with restores, undos, gcs: 0 errors; {held} checkpoints compared")


@pytest.fixture
def ready(root, home):
    """The command, with two checkpoints; what they hold."""
    command, states = InProcess(root, home), []
    for number in range(2):
        plant(root, {"f": b"%d" % number, "d/g": b"g" * 1_500_000, "d/h": b"h"})
        command("save", "-m", f"label {number}", code=0)
        states.append(picture(root))
    return Command(root, home), states


def works(casrewind, root, states, target, **more):
    """Save, restore, undo, materialise, verify: as everywhere."""
    plant(root, {"f": b"unsaved", "new": b"new"})
    before = picture(root)
    casrewind("save", code=0, **more)
    casrewind("restore", "label 0", "-y", code=0, **more)
    assert not differences(picture(root), states[0])
    casrewind("undo", "--yes", code=0, **more)
    assert not differences(picture(root), before)
    casrewind("restore", "label 1", "--to", str(target), code=0, **more)
    assert not differences(picture(target), states[1])
    casrewind("verify", code=0, **more)


def test_without_proc(namespaces, ready, root, tmp_path):
    casrewind, states = ready
    hidden = ("unshare", "-m", "sh", "-c", 'mount -t tmpfs none /proc && exec "$@"', "sh")
    works(casrewind, root, states, tmp_path / "out", prefix=hidden)
    assert casrewind.json("status", prefix=hidden)["checkpoints"] == casrewind.json("status")["checkpoints"]


def test_without_the_temporary_directory(ready, root, tmp_path):
    casrewind, states = ready
    works(casrewind, root, states, tmp_path / "out", TMPDIR=str(tmp_path / "nowhere"))


def test_a_store_that_is_read_only_in_a_namespace_of_its_own_gives_everything_back(namespaces, ready, root, tmp_path):
    """What the sandbox of an agent looks like: everything read only but the project and a place for results."""
    casrewind, states = ready
    store = casrewind.json("status")["store"]
    before = picture(store, skip=(b"log", b"log.seen"))
    script = f'mount --bind "{store}" "{store}" && mount -o remount,ro,bind "{store}" && exec "$@"'
    prefix = ("unshare", "-p", "-f", "-m", "--mount-proc", "sh", "-c", script, "sh")
    for number, label in enumerate(("label 0", "label 1")):
        target = tmp_path / label
        casrewind("restore", label, "--to", str(target), code=0, prefix=prefix)
        assert not differences(picture(target), states[number])
    assert len(casrewind.json("list", prefix=prefix)["checkpoints"]) == 2
    casrewind("verify", code=0, prefix=prefix)
    refused = casrewind("restore", "label 0", "-y", code=1, prefix=prefix)
    assert "Read-only" in refused.err and len(refused.err.splitlines()) == 1
    assert not differences(picture(root), states[1])
    assert not differences(picture(store, skip=(b"log", b"log.seen")), before)
