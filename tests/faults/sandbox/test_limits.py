"""Little memory, few descriptors, few processes: what a process lacks says nothing about the store.

Under a limit a command does all of its work, or says in one line what it lacked. The index is the same file afterwards:
a sound one is neither called damaged nor thrown away.
"""

import os
import resource
import shutil
import subprocess
import sys
from contextlib import suppress

import pytest

from casrewind import errors
from casrewind.messages import reason_of
from casrewind.change import safety_capture
from support import sample_start, unprivileged
from support.command import Command
from support.command_in_process import InProcess
from support.picture import differences, picture
from support.trees import plant

TREE = {**{f"d{n % 5}/f{n}": b"%d " % n * 200 for n in range(60)}, "large": os.urandom(2_000_000)}
NEEDED = "import lmdb, blake3, pathspec, pyfastcdc, json, argparse, casrewind.workspace, casrewind.cli.main"


@pytest.fixture
def ready(root, home):
    """The command, with three checkpoints of a small project."""
    if shutil.which("prlimit") is None:
        pytest.skip("needs prlimit (util-linux)")
    command = InProcess(root, home)
    for n in range(3):
        plant(root, {**TREE, "changing": b"%d" % n})
        command("save", "-m", f"label {n}", code=0)
    return Command(root, home)


def index_of(casrewind):
    store = casrewind.json("status")["store"]
    status = os.stat(os.path.join(store, "index", "data.mdb"))
    return status.st_dev, status.st_ino


def under(casrewind, root, tmp_path, limit, excuse, *, must, codes=(1, 3, 14)):
    """Every kind of command under a limit; how many did their work."""
    index, done = index_of(casrewind), 0
    plant(root, {"changing": os.urandom(8)})
    target = tmp_path / f"out{limit[0].strip('-').replace('=', '')}"
    for words in (["list", "--json"], ["save"], ["verify"], ["diff", "prev"], ["restore", "last", "--to", str(target)], ["restore", "prev", "-y"], ["undo", "--yes"]):
        result = casrewind(*words, prefix=("prlimit", *limit))
        if result.code == 0:
            done += 1
            continue
        if words == ["undo", "--yes"] and result.code == 15:
            continue  # there was no restore to undo
        assert not must, (words, limit, result)
        assert result.code in codes, (words, limit, result)
        assert any(word in result.err for word in excuse), (words, limit, result)
        assert "damaged" not in result.err and "bug" not in result.err, (words, limit, result)
        if words[0] == "restore":
            shutil.rmtree(target, ignore_errors=True)
            if casrewind.json("status")["journal"] is not None:
                casrewind("restore", "--abort", code=0)
    assert index_of(casrewind) == index, f"the index was thrown away under {limit}"
    return done


ENOUGH = slice(None) if sample_start.takes_all else slice(-1, None)
"""A push tries the smallest limit only that leaves room for all of the work."""
MEMORY = (["not enough memory", "Cannot allocate memory"], [2048, 900, 120][ENOUGH], sample_start.some((76, 60, 44, 36, 28), 2))
DESCRIPTORS = (["too many open files: allow this process more (ulimit -n)"], [64, 24][ENOUGH], sample_start.some((14, 11, 9, 7, 5), 2))


@pytest.mark.turns(3)
def test_little_memory_for_addresses(ready, root, tmp_path):
    """The index's map is 1 GiB where there is room for it."""
    excuse, enough, little = MEMORY
    done = [under(ready, root, tmp_path, [f"--as={mebi << 20}"], excuse, must=True) for mebi in enough]
    assert done == [7] * len(enough)
    tried = 0
    for mebi in little:
        start = ["prlimit", f"--as={mebi << 20}", sys.executable, "-c", NEEDED]
        if subprocess.run(start, capture_output=True, env=ready.environment, check=False).returncode == 0:
            done.append(under(ready, root, tmp_path, [f"--as={mebi << 20}"], excuse, must=False))
            tried += 1
    print(f"{len(enough)} limits on memory down to {enough[-1]} MiB: all work done; {tried} below: {done[len(enough) :]} of 7 commands did theirs")
    assert ready("verify", code=0)


@pytest.mark.turns(2)
def test_few_descriptors(ready, root, tmp_path):
    excuse, enough, few = DESCRIPTORS
    done = [under(ready, root, tmp_path, [f"--nofile={count}"], excuse, must=True) for count in enough]
    assert done == [7] * len(enough)
    done = [under(ready, root, tmp_path, [f"--nofile={count}"], excuse, must=False, codes=(1,)) for count in few]  # nothing is in the way
    print(f"{len(enough)} limits on descriptors down to {enough[-1]}: all work done; {len(few)} below: {done} of 7 commands did theirs")
    assert ready("verify", code=0)


GROWS = """
import os, resource, sys
from casrewind.store.index import Index
size = int(sys.argv[2])
if size:
    resource.setrlimit(resource.RLIMIT_AS, (size << 20, size << 20))
index = Index(sys.argv[1], sys.argv[1] + ".lock", 5.0)
for round in range(12):
    def work(tables):
        for n in range(100):
            tables[b"marks"].overwrite(b"%d %d" % (round, n), os.urandom(10_000))
    index.change(work)
    with index.view() as tables:
        assert len(tables[b"marks"].get(b"%d 99" % round)) == 10_000
    if sys.argv[3:]:
        print(round, flush=True)
        sys.stdin.readline()
print(os.stat(sys.argv[1] + "/data.mdb").st_size)
"""


def test_a_small_map_grows(tmp_path):
    place = str(tmp_path / "index")
    done = subprocess.run([sys.executable, "-c", GROWS, place, "400"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 10 << 20


def test_a_map_that_another_process_has_outgrown_is_enlarged(tmp_path):
    """Not taken for damage: the index stays the same file, with what both have put there."""
    from casrewind.store.index import Index

    place = str(tmp_path / "index")
    index = Index(place, place + ".lock", 5.0)
    index.change(lambda tables: tables[b"meta"].overwrite(b"ours", b"here"))
    index.close()
    inode = os.stat(place + "/data.mdb").st_ino
    small = subprocess.Popen(
        [sys.executable, "-c", GROWS, place, "400", "step by step"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )
    try:
        assert small.stdout.readline() == b"0\n", small.stderr.read()
        index.change(lambda tables: [tables[b"marks"].overwrite(b"big %d" % n, bytes(10_000)) for n in range(3000)])
        index.close()
        out, err = small.communicate(b"\n" * 12)
        assert small.returncode == 0, err
        assert int(out.splitlines()[-1]) > 30 << 20
    finally:
        small.kill()
        small.wait()
    with index.view() as tables:
        assert tables[b"meta"].get(b"ours") == b"here"
    assert os.stat(place + "/data.mdb").st_ino == inode
    index.close()


@pytest.fixture
def private():
    """(command, root, place) of a user who is not root."""
    unprivileged.require()
    with unprivileged.open_directory() as place:
        root, home = place / "project", place / "home"
        plant(root, TREE)
        home.mkdir()
        unprivileged.give(place)
        yield Command(root, home), root, place


@pytest.mark.turns(3)
def test_no_further_process_or_thread(private):
    """Neither a fork that looks at half of a worktree nor threads that compress."""
    casrewind, root, place = private
    plant(root, {f"many/{n // 100}/{n}": b"%d" % n for n in range(3000)})
    unprivileged.give(place, user=unprivileged.ALONE)
    prefix = ("prlimit", "--nproc=1", *unprivileged.prefix_of(unprivileged.ALONE))
    for round in range(3):
        plant(root, {f"many/{round}/0": os.urandom(500_000), "changing": b"%d" % round})
        unprivileged.give(root, user=unprivileged.ALONE)
        casrewind("save", "-m", f"round {round}", code=0, prefix=prefix)
    before = picture(root)
    casrewind("restore", "round 0", "-y", code=0, prefix=prefix)
    casrewind("undo", "--yes", code=0, prefix=prefix)
    assert not differences(picture(root), before)
    casrewind("verify", code=0, prefix=prefix)


@pytest.mark.parametrize("mask", ["000", "0777"])
def test_any_umask(private, mask):
    """Also for a user whom permissions hold: with 0777 a directory made carelessly could not even be entered."""
    casrewind, root, place = private
    prefix = ("sh", "-c", f'umask {mask}; exec "$@"', "sh", *unprivileged.PREFIX)
    before = picture(root)
    casrewind("save", "-m", "one", code=0, prefix=prefix)
    shutil.rmtree(root / "d1")
    (root / "d2" / "f2").unlink()
    plant(root, {"new/file": b"new"})
    unprivileged.give(root)
    casrewind("restore", "one", "-y", code=0, prefix=prefix)
    assert not differences(picture(root), before)
    casrewind("undo", "--yes", code=0, prefix=prefix)
    assert sorted(path for path in picture(root) if path.startswith(b"new")) == [b"new", b"new/file"]
    casrewind("restore", "one", "--to", str(place / "home" / "out"), code=0, prefix=prefix)
    assert not differences(picture(place / "home" / "out"), before)
    casrewind("gc", "--max-count", "1", code=0, prefix=prefix)
    casrewind("verify", code=0, prefix=prefix)
    assert odd_modes(place / "home" / "data") == []


def odd_modes(store):
    """What is not 0600 or 0700 exactly."""
    found = []
    for top, directories, names in os.walk(store):
        for name, mode in [*((name, 0o700) for name in directories), *((name, 0o600) for name in names)]:
            path = os.path.join(top, name)
            if os.lstat(path).st_mode & 0o777 != mode:
                found.append((path, oct(os.lstat(path).st_mode)))
    return found


API = """
import os, shutil, sys
from casrewind.model.retention import Limits
from casrewind.workspace import Settings, Workspace
root, home, mask = sys.argv[1:]
os.umask(int(mask, 8))
settings = Settings(home=home, data=home + "/data", environ={"HOME": home})
with Workspace(root, settings, create=True) as workspace:
    one = workspace.save("one").checkpoint
with Workspace(root, settings, create=False) as workspace:
    shutil.rmtree(root + "/d1")
    os.unlink(root + "/d2/f2")
    with open(root + "/changing", "rb+") as file:
        file.write(b"else")
    workspace.restore(one)
    workspace.undo()
    workspace.redo()
    workspace.materialise(one, home + "/far/out")
with Workspace(root, settings, create=False) as workspace:
    workspace.save(pin=True)
    workspace.gc(Limits(None, 1, 1))
    assert not workspace.verify().problems
    shutil.rmtree(workspace.store_path + "/index")
with Workspace(root, settings, create=False) as workspace:
    assert workspace.checkpoints()
    assert os.umask(0) == int(mask, 8)
"""


@pytest.mark.parametrize("mask", ["000", "277", "0777"])
def test_any_umask_in_the_python_api(private, mask):
    """There it is that of the program that casrewind is part of, and stays it."""
    _, root, place = private
    plant(root, {"changing": b"what is here"})
    unprivileged.give(root)
    before, home = picture(root), place / "home"
    unprivileged.run(sys.executable, "-c", API, str(root), str(home), mask)
    assert not differences(picture(root), before)
    assert not differences(picture(home / "far" / "out"), before)
    assert odd_modes(home / "data") == []


def test_a_file_that_no_descriptor_is_left_for_is_not_in_the_way(root, workspace):
    """It is read for a plan when trees and packs are open already: what is lacking is a descriptor, not its content."""
    plant(root, {"d/f": b"f"})
    tree, context = workspace.save().checkpoint.tree, workspace._context
    before, answers = resource.getrlimit(resource.RLIMIT_NOFILE), []
    with context.store.writing() as session:
        again = safety_capture.add_present_paths(context, session, tree, [b"d/f"], {})  # opens what stays open
        resource.setrlimit(resource.RLIMIT_NOFILE, (200, before[1]))
        try:
            for free in range(6):
                hogs = []
                with suppress(OSError):
                    while True:
                        hogs.append(os.open(os.devnull, os.O_RDONLY))
                for _ in range(free):
                    os.close(hogs.pop())
                try:
                    answers.append(safety_capture.add_present_paths(context, session, tree, [b"d/f"], {}))
                except (OSError, errors.StoreError) as error:
                    answers.append(reason_of(error) if isinstance(error, OSError) else str(error))
                finally:
                    for fd in hogs:
                        os.close(fd)
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, before)
    said = [answer for answer in answers if answer != again]
    assert said and again in answers
    assert all("too many open files" in answer and "ulimit -n" in answer for answer in said), said
