"""A clone that is killed anywhere says so in every command, and the same clone goes on."""

import os

import pytest

from casrewind import errors
from casrewind.remote import clone, cut_clones, fetch, objects
from casrewind.remote.remote_config import RemoteConfig
from casrewind.store.store import Store
from support.command_in_process import InProcess
from support.machines import KEY, Machine, Requests, Stop

pytest.importorskip("obstore")

FILES = {"a": b"a", "d/b": os.urandom(100_000), "d/e/f": b"f", "empty": b"", "x" * 100: b"x"}


@pytest.fixture
def machine(tmp_path):
    made = Machine.with_remote(tmp_path / "one", f"file://{tmp_path}/bucket")
    made.save({"a": b"old"})
    made.save(FILES)
    os.symlink("d/b", made.root / "link")
    made.save({})
    made.push()
    return made


def clone_into(machine, made, **options):
    return clone.clone(RemoteConfig(machine.url, made.name), str(made.root), made.settings, made.environ, **options)


def stop(*_, **__):
    raise Stop


def files_in(root):
    return sorted(path for path in root.rglob("*") if not path.is_dir())


def stop_with_files_left(number):
    """A stop when so many files were written. The others are as before: not there."""

    def cut(patch, made):
        written = clone.restore_to.materialise

        def write(*arguments, **options):
            written(*arguments, **options)
            for path in files_in(made.root)[number:]:
                path.unlink()
            raise Stop

        patch.setattr(clone.restore_to, "materialise", write)

    return cut


STAGES = {
    "behind the mark": lambda patch, _: patch.setattr(clone, "_records_for_new_project", stop),
    "before the blobs are durable": lambda patch, _: patch.setattr(fetch.Fetcher, "make_durable", stop),
    "before the files": lambda patch, _: patch.setattr(clone.restore_to, "materialise", stop),
    **{f"behind {number} files": stop_with_files_left(number) for number in range(1, 7)},
    "before the records": lambda patch, _: patch.setattr(Store, "append_all", stop),
    "behind the records": lambda patch, _: patch.setattr(clone, "StateFiles", stop),
    "before the mark goes": lambda patch, _: patch.setattr(cut_clones, "mark_done", stop),
}


def killed(machine, place, monkeypatch, stage, **options):
    """A machine with a clone that ended at a stage. Nothing of it is tidied up, as by a kill."""
    made = Machine(place, machine.url, "laptop")
    made.root.rmdir()
    with monkeypatch.context() as patch:
        patch.setattr(clone, "_remove_new_project", lambda *a, **b: None)
        patch.setattr(clone.configs, "remove", lambda *a: None)
        STAGES[stage](patch, made)
        with pytest.raises(Stop):
            clone_into(machine, made, **options)
    return made


@pytest.mark.parametrize("everything", [False, True], ids=["newest", "all"])
@pytest.mark.parametrize("stage", STAGES)
def test_a_clone_that_is_killed_goes_on_and_every_command_says_so(machine, tmp_path, monkeypatch, stage, everything):
    made = killed(machine, tmp_path / "c", monkeypatch, stage, everything=everything)
    at = InProcess(made.root, made.home, CASREWIND_REMOTE_KEY=KEY)
    at.environment["CASREWIND_HOME"] = made.settings.data
    for words in (("status",), ("list",), ("remote",), ("verify",)):
        assert "note: the clone of this project was interrupted; type the same casrewind clone command again beside it" in at(*words).err
    found = clone_into(machine, made, everything=everything)
    assert not found.problems
    assert {str(path.relative_to(made.root)) for path in files_in(made.root)} == {*FILES, "link"}
    assert all((made.root / name).read_bytes() == data for name, data in FILES.items()) and os.readlink(made.root / "link") == "d/b"
    assert len(made.points()) == (3 if everything else 1) and not made.problems()
    assert "was cut" not in at("status", code=0).err
    assert "no difference" in at("diff", code=0).out
    made.save({"mine": b"m"})
    assert not made.push(by_hand=True).left and not machine.pull().problems


def test_what_a_person_made_meanwhile_is_in_the_way_and_stays(machine, tmp_path, monkeypatch):
    made = killed(machine, tmp_path / "c", monkeypatch, "before the records")
    (made.root / "mine.txt").write_bytes(b"mine")
    (made.root / "a").write_bytes(b"changed by a person")
    with pytest.raises(errors.ContentInTheWay):
        clone_into(machine, made)
    assert (made.root / "mine.txt").read_bytes() == b"mine" and (made.root / "a").read_bytes() == b"changed by a person"
    (made.root / "mine.txt").unlink()
    (made.root / "a").unlink()
    clone_into(machine, made)
    assert (made.root / "a").read_bytes() == b"a"


def test_the_begin_of_a_clone_of_one_remote_is_none_of_another(machine, tmp_path, monkeypatch):
    other = Machine.with_remote(tmp_path / "two", f"file://{tmp_path}/other")
    other.save({"o": b"o"})
    other.push()
    made = killed(machine, tmp_path / "c", monkeypatch, "before the files")
    with pytest.raises(errors.ContentInTheWay, match="of another remote"):
        clone_into(other, made)


def test_a_clone_that_fails_leaves_nothing_and_no_mark(machine, tmp_path, monkeypatch):
    made = Machine(tmp_path / "c", machine.url, "laptop")
    made.root.rmdir()
    for number in (1, 2, 3):

        def refuse(count, after, number=number):
            if count >= number:
                raise errors.RemoteError("the remote cannot be reached")

        with monkeypatch.context() as patch:
            patch.setattr(clone, "Objects", lambda *a, refuse=refuse: Requests(objects.Objects(*a), refuse))
            with pytest.raises(errors.RemoteError):
                clone_into(machine, made)
        assert not made.root.exists()
    with monkeypatch.context() as patch:
        patch.setattr(clone.restore_to, "materialise", lambda *a, **b: (_ for _ in ()).throw(errors.StoreFull("no space left")))
        with pytest.raises(errors.StoreFull):
            clone_into(machine, made)
    assert not made.root.exists()
    clone_into(machine, made)
    assert not made.problems()
