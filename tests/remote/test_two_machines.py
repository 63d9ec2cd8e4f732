"""Two people, or one at two machines, take turns: push, pull, restore, and a merge of what both did."""

import pytest

from support.machines import Machine
from support.picture import differences, picture

LINES = [b"%d\n" % number for number in range(20)]


def text(**changed):
    return b"".join(changed.get(f"l{number}", line) for number, line in enumerate(LINES))


@pytest.fixture
def sandbox(tmp_path):
    made = Machine(tmp_path / "one", f"file://{tmp_path}/bucket")
    made.add_remote()
    made.save({"f": text(), "theirs": b"1", "d/x": b"x"}, "start")
    made.push()
    return made


@pytest.fixture
def laptop(tmp_path, sandbox):
    made = Machine(tmp_path / "two", sandbox.url, "laptop")
    made.add_remote()
    return made


def restore(machine, word, **options):
    with machine.open() as workspace:
        return workspace.restore(word, **options)


def undo(machine):
    with machine.open() as workspace:
        return workspace.undo()


def test_both_go_on_and_end_with_the_same_files(sandbox, laptop):
    laptop.pull()
    restore(laptop, "remote:last")
    assert differences(picture(laptop.root), picture(sandbox.root)) == {}
    laptop.save({"f": text(l17=b"laptop\n"), "mine": b"m"})
    sandbox.save({"f": text(l2=b"sandbox\n"), "theirs": b"2"}, remove=["d/x"])
    sandbox.push()
    laptop.pull()
    before = picture(laptop.root)
    assert not restore(laptop, "remote:last", keep_edits=True).incomplete
    assert (laptop.root / "f").read_bytes() == text(l2=b"sandbox\n", l17=b"laptop\n")
    assert (laptop.root / "mine").exists() and (laptop.root / "theirs").read_bytes() == b"2" and not (laptop.root / "d/x").exists()
    undo(laptop)
    assert differences(picture(laptop.root), before) == {}
    restore(laptop, "sandbox-4:last", keep_edits=True)
    merged = laptop.save()
    laptop.push()
    sandbox.pull()
    restore(sandbox, merged.id)
    assert differences(picture(sandbox.root), picture(laptop.root)) == {}
    assert not sandbox.problems() and not laptop.problems()


def test_a_clone_is_a_common_state(sandbox, tmp_path):
    clone = sandbox.clone_to(tmp_path / "clone")
    clone.save({"f": text(l17=b"laptop\n")})
    sandbox.save({"f": text(l2=b"sandbox\n")})
    sandbox.push()
    clone.pull()
    restore(clone, "remote:last", keep_edits=True)
    assert (clone.root / "f").read_bytes() == text(l2=b"sandbox\n", l17=b"laptop\n")
