from support.picture import differences, picture
from support.trees import Dir, Exec, Link, plant


def test_save_break_restore_undo(casrewind, root):
    plant(root, {"a/b.py": b"one", "run.sh": Exec(b"#!"), "l": Link("a"), "empty": Dir()})
    before = picture(root, mtimes=True)
    saved = casrewind.json("save")
    assert saved["created"] and saved["files"] == 2
    plant(root, {"a/b.py": b"two", "new/file": b"x"})
    (root / "empty").rmdir()
    broken = picture(root)
    report = casrewind.json("restore", "last", "--yes")
    assert differences(before, picture(root, mtimes=True)) == {}
    assert report["safety"]
    casrewind.json("undo", "--yes")
    assert differences(broken, picture(root)) == {}
    casrewind.json("redo", "--yes")
    assert differences(before, picture(root, mtimes=True)) == {}
