"""Something comes between the last look at a path and its change: what the kernel's own calls have to notice."""

from contextlib import contextmanager

import pytest
from blake3 import blake3

from casrewind.model import manifest
from casrewind.model.plan import Action
from casrewind.worktree import safe_rename
from casrewind.worktree.apply import Applier
from casrewind.worktree.reader import Worktree
from support.picture import picture


@pytest.mark.parametrize("has_flags", [True, False], ids=["renameat2", "link"])
def test_a_file_that_comes_after_the_last_look_is_not_overwritten(root, monkeypatch, has_flags):
    if not has_flags:
        monkeypatch.setattr(safe_rename, "_CALL", None)
    data = b"what the checkpoint has"
    entry = manifest.Entry(manifest.FILE, 0o644, len(data), 0, blake3(data).digest())
    with Worktree(str(root)) as tree:
        applier = Applier(tree, [Action(b"f", None, entry, b"f")], lambda _: [data], "t")
        look, looks = applier.displaced.hash_entry_in, []

        def look_then_somebody_writes(fd, name):
            found = look(fd, name)
            looks.append(name)
            if len(looks) == 1:  # before the naming
                (root / "f").write_bytes(b"an editor's")
            return found

        applier.displaced.hash_entry_in = look_then_somebody_writes
        outcome = applier.carry_out_plan()
    assert (root / "f").read_bytes() == b"an editor's"
    assert [item.path for item in outcome.kept] == [b"f"]
    assert set(picture(root)) == {b"f"}


def test_a_file_under_a_drafts_name_does_not_get_its_mode(root):
    """Another user who may rename files here puts one of ours under the name of a draft: it must not become readable to all."""
    (root / "private").write_bytes(b"for one alone")
    (root / "private").chmod(0o600)
    private = (root / "private").stat().st_ino

    def content(entry):
        if entry.size == 2:
            (root / "private").rename(next(root.glob(".casrewind-tmp-*-0")))
        return [b"x" * entry.size]

    entries = [manifest.Entry(manifest.FILE, 0o644, size, 0, blake3(b"x" * size).digest()) for size in (1, 2)]
    actions = [Action(name, None, entry, name) for name, entry in zip((b"a", b"b"), entries, strict=True)]
    with Worktree(str(root)) as tree:
        outcome = Applier(tree, actions, content, "t").carry_out_plan()
    assert [item.path for item in outcome.kept] == [b"a"]
    assert [path.stat().st_mode & 0o777 for path in root.iterdir() if path.stat().st_ino == private] == [0o600]


def test_a_file_that_comes_after_the_last_look_does_not_get_the_mode(root):
    for name, mode in (("tool", 0o600), ("private", 0o600)):
        (root / name).write_bytes(name.encode())
        (root / name).chmod(mode)
    before = manifest.Entry(manifest.FILE, 0o600, 4, 0, blake3(b"tool").digest())
    with Worktree(str(root)) as tree:
        applier = Applier(tree, [Action(b"tool", before, before._replace(mode=0o755), b"tool")], lambda _: [], "t")
        look = applier.displaced.open_and_hash

        @contextmanager
        def look_then_somebody_renames(path):
            with look(path) as found:
                (root / "private").rename(root / "tool")
                yield found

        applier.displaced.open_and_hash = look_then_somebody_renames
        outcome = applier.carry_out_plan()
    assert (root / "tool").stat().st_mode & 0o777 == 0o600
    assert [item.path for item in outcome.kept] == [b"tool"]
