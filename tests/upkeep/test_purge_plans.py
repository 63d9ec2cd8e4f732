"""A purge on a store in which only the plan of an undo step still tells what a path had."""

from casrewind.workspace import open as opened
from support.packfile import flip_blob
from support.secret_search import hits
from support.trees import plant

WORD = b"a word of which nothing may be left 4711"


def test_equal_bytes_of_what_only_a_plan_remembers_go_too(workspace, root, settings):
    plant(root, {"d/key": WORD, "f": b"1"})
    first = workspace.save().checkpoint
    lost = dict(workspace.entries(first))[b"d"].digest
    plant(root, {"d/key": b"x", "copy": WORD})
    workspace.save()
    (root / "copy").unlink()
    workspace.restore(first)
    plant(root, {"d/key": b"x", "copy": WORD})
    workspace.close()
    flip_blob(workspace.store_path, lost)
    with opened(root, settings) as again:
        again.repair()
        report = again.purge([b"d/key"])
        assert "copy" in {item.path.decode() for item in report.equal}
        assert hits(again.store_path, [WORD]) == {}
