"""Journals and plans that no honest restore would leave: neither --continue nor --abort does what they say, and the
worktree is not locked up by them for ever."""

import os
import struct

import pytest
from blake3 import blake3

from casrewind.cli.main import main
from casrewind.model.undo_history import Operation
from support import handmade_checkpoints
from support.handmade_checkpoints import file_row, link_row, plan
from support.picture import differences, picture
from support.trees import plant

PAYLOAD = b"owned\n"


def digest(data):
    return blake3(data).digest()


def entry(data=PAYLOAD, mode=0o644):
    """A file's entry as it stands in a plan: without a name."""
    return file_row(b"", digest(data), len(data), mode)


@pytest.fixture
def arena(tmp_path, root, home, workspace, monkeypatch, capsys):
    plant(root, {"keep": b"k", "README": b"upper", "readme": b"lower", "sub/file": b"s", ".git/config": b"[core]\n"})
    plant(root, {".casrewind-tmp-/x": b"a directory that makes a path of a temporary name"})
    plant(tmp_path / "outside", {"file": b"theirs", "victim-0": b"theirs"})
    workspace.save()
    for name, value in (("HOME", home), ("CASREWIND_HOME", home / "data")):
        monkeypatch.setenv(name, str(value))
    return Arena(tmp_path, root, workspace, capsys)


class Arena:
    def __init__(self, top, root, workspace, capsys):
        self.top, self.root, self.workspace, self._capsys = top, root, workspace, capsys
        self.forger = handmade_checkpoints.Forger(workspace)
        self.store = workspace._context.store
        self.before = self.look()

    def look(self):
        return picture(self.top, mtimes=True, inodes=True, skip=(b"home",))

    def journal(self, plan_digest, **fields):
        """A sound journal that names any plan."""
        point = self.workspace.checkpoint("last")
        made = Operation("restore", 1, self.workspace.root.key, point.id, point.id, plan_digest, "")
        self.store.journals.write(made._replace(**fields))

    def run(self, *arguments):
        code = main(["-C", str(self.root), *arguments])
        said = self._capsys.readouterr()
        assert code not in (1, 2, 70), (code, said)
        return code, said

    def refused_both_ways(self, codes=(14, 20)):
        code, _ = self.run("restore", "--continue")
        assert code in codes, code
        assert differences(self.before, self.look()) == {}
        assert self.workspace.is_interrupted()
        code, said = self.run("restore", "--abort")
        assert code in (0, 3, *codes), (code, said)
        assert differences(self.before, self.look()) == {}
        assert not self.workspace.is_interrupted(), "abort must get it out of the way"
        plant(self.root, {"keep": b"edited"})
        assert self.run("restore", "last", "--yes")[0] == 0


PATHS = [
    b"../outside/file",
    b"/etc/passwd",
    b"..",
    b".",
    b"",
    b"a/../../outside/x",
    b"a//b",
    b"./a",
    b"a\0b",
    b".git/config",
    b".GIT/config",
    b"sub/.git/hooks/x",
    b"git~1/config",
    b".g\xe2\x80\x8cit/config",
    b"n" * 256,
    b"d/" * 2048 + b"x",
    b"sub/..",
    b"keep/",
]


@pytest.mark.parametrize("path", PATHS, ids=lambda path: ascii(path.decode("utf-8", "replace"))[1:-1][:40] or "empty")
def test_a_plan_with_a_hostile_path_is_refused(arena, path):
    """Written, removed, or named as the place that something comes from; alone and behind a harmless action."""
    harmless = (b"harmless", None, None, entry())
    for number, action in enumerate(
        ((path, None, None, entry()), (path, None, entry(b"theirs"), None), (b"x", path, entry(), entry()))
    ):
        for actions in ((action,), (harmless, action)):
            (stored,) = arena.forger.blobs(plan(*actions))
            arena.journal(stored)
            code, _ = arena.run("restore", "--continue")
            assert code in (14, 20), (number, code)
            assert arena.workspace.is_interrupted()
            code, _ = arena.run("restore", "--abort")
            assert code in (14, 20), (number, code)
            assert not arena.workspace.is_interrupted()
            assert differences(arena.before, arena.look()) == {}


GARBLED = {
    "no plan": b"CRT1\0\0\0\0",
    "nothing": b"",
    "more actions than there are": plan(count=1),
    "four thousand million actions": plan(count=0xFFFFFFFF),
    "bytes behind the last": plan() + b"x",
    "unknown bits": b"CRP1" + struct.pack("<IB", 1, 0xF8) + struct.pack("<I", 1) + b"a",
    "a path longer than the plan": b"CRP1" + struct.pack("<IBI", 1, 0, 1 << 31) + b"a",
    "an entry of unknown kind": plan((b"a", None, None, handmade_checkpoints.row(9, b"", bytes(60)))),
    "an entry with a name": plan((b"a", None, None, file_row(b"b", digest(PAYLOAD), 6))),
    "a purged entry to write": plan((b"a", None, None, handmade_checkpoints.row(handmade_checkpoints.PURGED, b"", struct.pack("<Q", 5)))),
    "a purged entry to write, behind a directory to make": plan(
        (b"a", None, None, handmade_checkpoints.dir_row(b"", digest(handmade_checkpoints.tree()))),
        (b"b", None, None, handmade_checkpoints.row(handmade_checkpoints.PURGED, b"", struct.pack("<Q", 5))),
    ),
    "a rename across directories": plan((b"readme", b"sub/file", entry(b"s"), entry(b"s"))),
    "content that is nowhere": plan((b"a", None, None, entry(b"nowhere"))),
}


@pytest.mark.parametrize("what", GARBLED)
def test_a_garbled_plan_is_refused(arena, what):
    (stored,) = arena.forger.blobs(GARBLED[what])
    arena.journal(stored)
    arena.refused_both_ways()


def test_a_plan_that_is_nowhere(arena):
    arena.journal(digest(b"nowhere"))
    arena.refused_both_ways()


@pytest.mark.parametrize("data", [b"", b"CRJ1", b"\0" * 100, os.urandom(64)], ids=["empty", "head", "zeros", "noise"])
def test_a_journal_that_is_none(arena, data):
    arena.journal(digest(b""))
    path = os.path.join(arena.store.path, "journals", arena.workspace.root.key.hex())
    with open(path, "wb") as file:
        file.write(data)
    arena.refused_both_ways(codes=(20,))


@pytest.mark.parametrize("tag", ["/../../outside/victim", "../../outside/victim", "", "/x", "a b", "\0"])
def test_an_id_that_would_make_a_path_of_a_temporary_name(arena, tag):
    (stored,) = arena.forger.blobs(plan((b"keep", None, entry(b"k"), entry())), PAYLOAD)[:1]
    arena.journal(stored, safety=tag)
    arena.refused_both_ways()


LIES = {
    "another file": (b"keep", None, entry(b"something else"), None),
    "nothing was there": (b"keep", None, None, entry()),
    "a link": (b"keep", None, link_row(b"", b"elsewhere"), entry()),
    "a directory of a file": (b"keep", None, handmade_checkpoints.dir_row(b"", digest(handmade_checkpoints.tree())), None),
    "a file of a directory": (b"sub", None, entry(b"something else"), None),
    "a file of a directory, replaced": (b"sub", None, entry(b"something else"), entry()),
    "another mode": (b"keep", None, entry(b"k", 0o600), entry(b"k", 0o777)),
    "a respelling where both exist": (b"README", b"readme", entry(b"lower"), entry(b"lower")),
}


@pytest.mark.parametrize("way", ["--continue", "--abort"])
@pytest.mark.parametrize("what", LIES)
def test_a_plan_that_lies_about_what_was_there_changes_nothing(arena, what, way):
    """What stands there is not what the plan says that the store holds: it stays, and is named."""
    (stored, _, _) = arena.forger.blobs(plan(LIES[what]), PAYLOAD, b"something else")
    arena.journal(stored)
    code, said = arena.run("restore", way)
    assert code in (0, 3), (code, said)
    assert differences(arena.before, arena.look()) == {}


def test_a_directory_with_something_unknown_in_it_does_not_go(arena):
    (stored, *_) = arena.forger.blobs(plan((b"sub", None, handmade_checkpoints.dir_row(b"", digest(handmade_checkpoints.tree())), None)))
    arena.journal(stored)
    code, said = arena.run("restore", "--continue")
    assert code == 3, said
    assert "sub" in said.out + said.err
    assert differences(arena.before, arena.look()) == {}


def test_a_journal_of_another_worktree_is_not_ours(arena):
    (stored,) = arena.forger.blobs(plan((b"keep", None, entry(b"k"), None)))
    arena.journal(stored, worktree=bytes(16))
    assert not arena.workspace.is_interrupted()
    assert arena.run("restore", "--continue")[0] == 15
    assert differences(arena.before, arena.look()) == {}


def test_a_journal_under_our_name_that_speaks_of_another_worktree(arena):
    (stored,) = arena.forger.blobs(plan((b"keep", None, entry(b"something else"), None)))
    arena.journal(stored, worktree=bytes(16))
    directory = os.path.join(arena.store.path, "journals")
    os.rename(os.path.join(directory, bytes(16).hex()), os.path.join(directory, arena.workspace.root.key.hex()))
    code, _ = arena.run("restore", "--abort")
    assert code in (0, 3, 14, 20)
    assert differences(arena.before, arena.look()) == {}
