"""Something comes between the last look at a path and its change: what the kernel's own calls have to notice."""

import pytest
from blake3 import blake3

from casrewind.model import manifest
from casrewind.model.plan import Action
from casrewind.worktree import rename
from casrewind.worktree.apply import Applier
from casrewind.worktree.reader import Worktree
from support.picture import picture


@pytest.mark.parametrize("has_flags", [True, False], ids=["renameat2", "link"])
def test_a_file_that_comes_after_the_last_look_is_not_overwritten(root, monkeypatch, has_flags):
    if not has_flags:
        monkeypatch.setattr(rename, "_CALL", None)
    data = b"what the checkpoint has"
    entry = manifest.Entry(manifest.FILE, 0o644, len(data), 0, blake3(data).digest())
    with Worktree(str(root)) as tree:
        applier = Applier(tree, [Action(b"f", None, entry, b"f")], lambda _: [data], "t")
        look, looks = applier.displaced.present_at, []

        def look_then_somebody_writes(fd, name):
            found = look(fd, name)
            looks.append(name)
            if len(looks) == 2:  # before the staging, and before the naming
                (root / "f").write_bytes(b"an editor's")
            return found

        applier.displaced.present_at = look_then_somebody_writes
        outcome = applier.run()
    assert (root / "f").read_bytes() == b"an editor's"
    assert [item.path for item in outcome.kept] == [b"f"]
    assert set(picture(root)) == {b"f"}
