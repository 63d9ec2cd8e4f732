"""A directory that has one state after the other: each is exact, whatever a command did to the one before it."""

import os
import random
import shutil
import stat
from pathlib import Path

import pytest

from casrewind.history.restorable import walk_with_checkpoint_id
from casrewind.worktree.scratch_tree import ScratchTree
from support.trees import Dir, Exec, Link, plant


@pytest.fixture
def states(workspace, root, tmp_path):
    """show(tree): the directory after it became this tree, which is saved as a checkpoint of the project."""

    class States:
        place = tmp_path / "scratch"
        tree = None

        def __init__(self):
            self.place.mkdir(mode=0o700)

        def wanted(self, tree):
            for name in os.listdir(root):
                path = root / name
                shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
            plant(root, tree)
            point = workspace.save("state").checkpoint
            return dict(walk_with_checkpoint_id(workspace._context.store, point.tree))

        def show(self, tree):
            wanted = self.wanted(tree)
            if self.tree is None:
                self.tree = ScratchTree(str(self.place))
                self.tree.stat_and_note_paths(())
            self.tree.make_equal_to(wanted, lambda _: workspace._context.store.content)

    found = States()
    yield found
    if found.tree is not None:
        found.tree.close()


def contents(place):
    """{path: (kind, mode, content)} of everything below a directory."""
    found = {}
    for base, directories, files in os.walk(place):
        for name in (*directories, *files):
            path = os.path.join(base, name)
            status = os.lstat(path)
            kind = stat.S_IFMT(status.st_mode)
            content = os.readlink(path) if stat.S_ISLNK(status.st_mode) else Path(path).read_bytes() if stat.S_ISREG(status.st_mode) else ""
            found[os.path.relpath(path, place)] = kind, None if stat.S_ISLNK(status.st_mode) else stat.S_IMODE(status.st_mode), content
    return found


FIRST = {"a.py": b"one", "d/b": b"two", "d/e/c": b"three", "run": Exec(b"#!"), "link": Link("a.py"), "empty": Dir(), "large": os.urandom(3 << 20)}
SECOND = {"a.py": b"ONE", "d": b"a file now", "run": b"#!", "link/x": b"a directory now", "new/deep/er": b"n", "empty": Dir(0o700)}


def test_one_state_after_the_other_is_exact(states, root):
    for tree in (FIRST, SECOND, FIRST, {}, SECOND, SECOND):
        states.show(tree)
        assert contents(states.place) == contents(root)


def test_whatever_a_command_did_to_its_files_the_next_state_is_exact(states, root, tmp_path):
    outside = tmp_path / "outside"
    plant(outside, {"b": b"not to be touched", "e/c": b"nor this"})
    states.show(FIRST)
    deeds = [
        lambda place: (place / "a.py").write_bytes(b"ONE"),  # the size that it had
        lambda place: (place / "a.py").unlink(),
        lambda place: os.chmod(place / "run", 0o600),
        lambda place: [shutil.rmtree(place / "d"), (place / "d").symlink_to(outside)],
        lambda place: [(place / "a.py").unlink(), (place / "a.py").mkdir(), plant(place / "a.py", {"x/y": b"z"})],
        lambda place: [(place / "link").unlink(), (place / "link").write_bytes(b"a file")],
        lambda place: [(place / "empty").rmdir(), (place / "empty").symlink_to(outside)],
        lambda place: os.chmod(place / "d", 0o500),
        lambda place: os.chmod(place / "d" / "e", 0),
        lambda place: os.replace(place / "d" / "b", place / "a.py"),
        lambda place: os.utime(place / "a.py", ns=(1, 1)),
    ]
    for deed in deeds:
        deed(states.place)
        states.show(FIRST)
        assert contents(states.place) == contents(root)
        deed(states.place)
        states.show(SECOND)
        assert contents(states.place) == contents(root)
        states.show(FIRST)
    assert contents(outside) == {"b": contents(outside)["b"], "e": contents(outside)["e"], "e/c": contents(outside)["e/c"]}
    assert (outside / "b").read_bytes() == b"not to be touched" and (outside / "e" / "c").read_bytes() == b"nor this"


def test_new_files_of_a_command_stay_but_not_in_the_way_of_a_state(states, root):
    states.show({"src/a.c": b"1"})
    plant(states.place, {"src/a.o": b"object", "build/out": b"built", "later": b"of the command"})
    states.show({"src/b.c": b"2", "later": b"of the state"})
    assert (states.place / "src" / "a.o").read_bytes() == b"object" and (states.place / "build" / "out").exists()
    assert not (states.place / "src" / "a.c").exists() and (states.place / "later").read_bytes() == b"of the state"
    states.show({"build": b"a file now"})
    assert (states.place / "build").read_bytes() == b"a file now" and (states.place / "src" / "a.o").exists()


def test_a_file_that_did_not_change_is_not_written_and_a_written_one_is_newer_than_what_was_built(states):
    states.show({"same": b"1", "other": b"2"})
    plant(states.place, {"built": b"of both"})
    same, built = os.stat(states.place / "same"), os.stat(states.place / "built")
    states.show({"same": b"1", "other": b"3"})
    now = os.stat(states.place / "same")
    assert (now.st_ino, now.st_ctime_ns, now.st_mtime_ns) == (same.st_ino, same.st_ctime_ns, same.st_mtime_ns)
    other = os.stat(states.place / "other")
    assert other.st_mtime_ns > built.st_mtime_ns
    states.show({"same": b"1", "other": b"4"})
    assert int(os.stat(states.place / "other").st_mtime) > int(other.st_mtime), "what was compiled of the other state passes for this one's"


def test_random_states_and_deeds(states, root):
    chance = random.Random(5)
    names = ["a", "b", "d", "d/x", "d/y", "e/f/g", "e/f/h", "e/i"]
    for _ in range(40):
        tree = {}
        for name in chance.sample(names, chance.randrange(len(names))):
            if not any(other.startswith(name + "/") or name.startswith(other + "/") for other in tree):
                tree[name] = chance.choice([b"1", b"2", Link("a"), Exec(b"1"), Dir(), Dir(0o500)])
        states.show(tree)
        assert contents(states.place) == contents(root)
        for name in chance.sample(names, 2):
            path = states.place / name
            if not path.parent.is_dir() or path.parent.is_symlink():
                continue
            if path.is_dir() and not path.is_symlink():
                os.chmod(path, 0o700)
                shutil.rmtree(path)
            elif os.path.lexists(path):
                path.unlink()
            if name in tree:  # else it would be one of the command's own, which stay
                chance.choice([lambda p: p.write_bytes(b"9"), lambda p: p.mkdir(), lambda p: p.symlink_to("/"), lambda _: None])(path)
                if path.is_dir() and not path.is_symlink():
                    path.rmdir()
