"""Carrying out a plan: every phase, every reason to leave a path alone, and what becomes of bytes that came in between.

The plans are made by hand, so that what the plan expects and what is there can differ in every way.
"""

import errno
import os
import stat

import pytest
from blake3 import blake3

from casrewind.model import manifest
from casrewind.model.plan import Action, reverse
from casrewind.worktree import safe_rename
from casrewind.worktree.apply import NOT_EMPTY, Applier
from casrewind.worktree.reader import EMPTY_TREE, Worktree
from casrewind.worktree.displaced import CHANGED
from casrewind.worktree.recover import move_or_remove_temporary_files, put_replaced_directories_back
from support.picture import differences, picture
from support.trees import Dir, Fifo, Link, Mode, plant

MTIME = 1_600_000_000_000_000_000


def file(data, mode=0o644):
    return manifest.Entry(manifest.FILE, mode, len(data), MTIME, blake3(data).digest())


def link(target):
    return manifest.link_entry(target)


def directory(mode=0o755):
    return manifest.Entry(manifest.DIR, mode, digest=EMPTY_TREE)


def action(path, before, after, source=None):
    return Action(path, before, after, source or path)


class Ground:
    """A worktree, contents by digest, and a way to carry out actions."""

    def __init__(self, root):
        self.root, self.contents, self.meanwhile = root, {}, None
        self.tree = Worktree(str(root))

    def content(self, entry):
        data = self.contents[entry.digest]
        if self.meanwhile is not None:
            self.meanwhile()
        yield data[: len(data) // 2]
        yield data[len(data) // 2 :]

    def file(self, data, mode=0o644):
        entry = file(data, mode)
        self.contents[entry.digest] = data
        return entry

    def applier(self, *actions, tag="t"):
        return Applier(self.tree, sorted(actions), self.content, tag)

    def run(self, *actions):
        outcome = self.applier(*actions).carry_out_plan()
        assert not [path for path in picture(self.root) if b".casrewind-tmp-" in path], "a temporary file was left"
        return outcome


@pytest.fixture
def displaced(root):
    made = Ground(root)
    yield made
    made.tree.close()


@pytest.fixture(params=["exchange", "no exchange"])
def way(request, monkeypatch):
    if request.param == "no exchange":
        monkeypatch.setattr(safe_rename, "_CALL", None)
    return request.param


@pytest.fixture(params=["exchange", "no exchange", "fixed directories"])
def any_way(request, monkeypatch):
    """What the file system can do. Fixed directories: nobody can rename those that are there, as overlayfs has it."""
    if request.param == "no exchange":
        monkeypatch.setattr(safe_rename, "_CALL", None)
    if request.param == "fixed directories":
        exchange, move = safe_rename.exchange_names, os.rename

        def unless_directory(name, fd):
            if stat.S_ISDIR(os.stat(name, dir_fd=fd, follow_symlinks=False).st_mode):
                raise OSError(errno.EXDEV, os.strerror(errno.EXDEV))

        def exchanged(directory, one, other):
            unless_directory(other, directory)
            return exchange(directory, one, other)

        def moved(one, other, *, src_dir_fd, dst_dir_fd):
            unless_directory(one, src_dir_fd)
            move(one, other, src_dir_fd=src_dir_fd, dst_dir_fd=dst_dir_fd)

        monkeypatch.setattr(safe_rename, "exchange_names", exchanged)
        monkeypatch.setattr(os, "rename", moved)
    return request.param


# -- the phases


def test_everything_at_once(any_way, displaced, root):
    plant(
        root,
        {
            "edit": b"old",
            "remove": b"r",
            "mode": b"m",
            "gone/a/b": b"x",
            "to dir": b"f",
            "to file/x/y": b"z",
            "l": Link("old"),
            "keep": b"k",
        },
    )
    os.chmod(root / "keep", 0o600)
    outcome = displaced.run(
        action(b"edit", file(b"old"), displaced.file(b"new", 0o755)),
        action(b"remove", file(b"r"), None),
        action(b"mode", file(b"m"), file(b"m", 0o400)),
        action(b"gone", directory(), None),
        action(b"gone/a", directory(), None),
        action(b"gone/a/b", file(b"x"), None),
        action(b"to dir", file(b"f"), directory(0o700)),
        action(b"to dir/n", None, displaced.file(b"n")),
        action(b"to file", directory(), displaced.file(b"file now")),
        action(b"to file/x", directory(), None),
        action(b"to file/x/y", file(b"z"), None),
        action(b"l", link(b"old"), link(b"new")),
        action(b"fresh", None, directory(0o500)),
        action(b"fresh/f", None, displaced.file(b"ff", 0o600)),
        action(b"fresh/l", None, link(b"f")),
    )
    assert not outcome.kept
    assert len(outcome.done) == 15
    found = picture(root, mtimes=True)
    assert {path: entry[:2] for path, entry in found.items()} == {
        b"edit": ("file", 0o755),
        b"mode": ("file", 0o400),
        b"to dir": ("dir", 0o700),
        b"to dir/n": ("file", 0o644),
        b"to file": ("file", 0o644),
        b"l": ("link", b"new"),
        b"fresh": ("dir", 0o500),
        b"fresh/f": ("file", 0o600),
        b"fresh/l": ("link", b"f"),
        b"keep": ("file", 0o600),
    }
    assert {found[path][3] for path in (b"edit", b"to dir/n", b"to file", b"fresh/f")} == {MTIME}


def test_carried_out_twice_is_carried_out_once(way, displaced, root):
    plant(root, {"a": b"1", "d/x": b"2", "to file/x": b"3"})
    actions = (
        action(b"a", file(b"1"), displaced.file(b"one")),
        action(b"d", directory(), None),
        action(b"d/x", file(b"2"), None),
        action(b"to file", directory(), displaced.file(b"f")),
        action(b"to file/x", file(b"3"), None),
        action(b"n", None, directory()),
    )
    displaced.run(*actions)
    after = picture(root, mtimes=True, inodes=True)
    outcome = displaced.run(*actions)
    assert not outcome.kept
    assert picture(root, mtimes=True, inodes=True) == after


def test_nothing_to_do(displaced, root):
    plant(root, {"a": b"1"})
    before = picture(root, mtimes=True, inodes=True)
    assert displaced.run() == ((), (), ())
    assert picture(root, mtimes=True, inodes=True) == before


def test_progress_is_told(displaced, root):
    told = []
    actions = [action(b"f%d" % number, None, displaced.file(b"%d" % number)) for number in range(5)]
    Applier(displaced.tree, actions, displaced.content, "t", lambda what, done, total: told.append((what, done, total))).carry_out_plan()
    assert told == [("restoring", number, 5) for number in range(1, 6)]


# -- reasons to leave a path alone


OTHER = {
    "other bytes": lambda root: plant(root, {"a": b"theirs"}),
    "another mode": lambda root: plant(root, {"a": Mode(0o600, b"1")}),
    "a link": lambda root: plant(root, {"a": Link("theirs")}),
    "a directory": lambda root: (os.unlink(root / "a"), plant(root, {"a/x": b"theirs"})),
    "an empty directory": lambda root: (os.unlink(root / "a"), plant(root, {"a": Dir()})),
    "a fifo": lambda root: plant(root, {"a": Fifo()}),
}


@pytest.mark.parametrize("what", OTHER)
@pytest.mark.parametrize("after", ["file", "link", "directory", "nothing", "mode"])
def test_what_is_not_as_planned_stays_and_is_named(way, displaced, root, what, after):
    plant(root, {"a": b"1", "b": b"2"})
    OTHER[what](root)
    before = picture(root, mtimes=True, inodes=True)
    wanted = {
        "file": displaced.file(b"new"),
        "link": link(b"new"),
        "directory": directory(),
        "nothing": None,
        "mode": file(b"1", 0o755),
    }[after]
    outcome = displaced.run(action(b"a", file(b"1"), wanted), action(b"b", file(b"2"), displaced.file(b"two")))
    if after == "directory" and "directory" in what:
        assert not outcome.kept  # it is what was wanted
    else:
        assert [(item.path, item.reason, item.benign) for item in outcome.kept] == [(b"a", CHANGED, False)]
        assert [found.path for found in outcome.done] == [b"b"]
    after_it = picture(root, mtimes=True, inodes=True)
    assert differences(before, after_it).keys() == {b"b"}


def test_what_came_where_nothing_was_stays(way, displaced, root):
    plant(root, {"a": b"theirs", "d/x": b"theirs", "l": Link("theirs")})
    before = picture(root, mtimes=True, inodes=True)
    outcome = displaced.run(
        action(b"a", None, displaced.file(b"new")),
        action(b"d", None, displaced.file(b"file")),
        action(b"l", None, directory()),
        action(b"l/x", None, displaced.file(b"x")),
    )
    assert {item.path for item in outcome.kept} == {b"a", b"d", b"l", b"l/x"}
    assert picture(root, mtimes=True, inodes=True) == before


def test_what_is_gone_already_needs_nothing_removed(way, displaced, root):
    outcome = displaced.run(
        action(b"a", file(b"1"), None), action(b"d", directory(), None), action(b"d/x", file(b"2"), None)
    )
    assert not outcome.kept
    assert os.listdir(root) == []


def test_what_is_gone_comes_back(way, displaced, root):
    outcome = displaced.run(action(b"a", file(b"1"), displaced.file(b"new")))
    assert not outcome.kept
    assert (root / "a").read_bytes() == b"new"


def test_a_directory_with_something_unknown_in_it_stays(way, displaced, root):
    plant(root, {"d/e/known": b"1", "d/e/unknown": b"2"})
    outcome = displaced.run(
        action(b"d", directory(), None), action(b"d/e", directory(), None), action(b"d/e/known", file(b"1"), None)
    )
    assert {(item.path, item.reason) for item in outcome.kept} == {(b"d", NOT_EMPTY), (b"d/e", NOT_EMPTY)}
    assert picture(root).keys() == {b"d", b"d/e", b"d/e/unknown"}


def test_a_parent_that_became_a_link_is_not_passed_through(way, displaced, root, tmp_path):
    plant(tmp_path, {"outside/edit": b"1", "outside/remove": b"2"})
    plant(root, {"d": Link("../outside")})
    outside = picture(tmp_path / "outside", mtimes=True, inodes=True)
    outcome = displaced.run(
        action(b"d/edit", file(b"1"), displaced.file(b"new")),
        action(b"d/remove", file(b"2"), None),
        action(b"d/new", None, displaced.file(b"n")),
        action(b"d/dir", None, directory()),
        action(b"d/mode", file(b"1"), file(b"1", 0o600)),
        action(b"d/rmdir", directory(), None),
    )
    assert {item.path for item in outcome.kept} >= {b"d/edit", b"d/new", b"d/dir"}
    assert picture(tmp_path / "outside", mtimes=True, inodes=True) == outside


def test_a_parent_that_is_gone(way, displaced, root):
    outcome = displaced.run(
        action(b"d/new", None, displaced.file(b"n")), action(b"d/e", None, directory()), action(b"d/l", None, link(b"x"))
    )
    assert {item.path for item in outcome.kept} == {b"d/new", b"d/e", b"d/l"}
    assert os.listdir(root) == []


def test_a_directory_whose_content_changed_since_does_not_lose_it_when_it_becomes_a_file(any_way, displaced, root):
    plant(root, {"d/known": b"1", "d/edited": b"theirs", "d/unknown": b"theirs too"})
    outcome = displaced.run(
        action(b"d", directory(), displaced.file(b"file")),
        action(b"d/known", file(b"1"), None),
        action(b"d/edited", file(b"2"), None),
    )
    if any_way == "fixed directories":
        assert {(root / "d" / name).read_bytes() for name in ("edited", "unknown")} == {b"theirs", b"theirs too"}
        assert {item.path for item in outcome.kept} == {b"d", b"d/edited"}
        return
    assert (root / "d").read_bytes() == b"file"
    shown = [path for path, entry in picture(root).items() if path.startswith(b"d.casrewind-kept")]
    assert {path.rpartition(b"/")[2] for path in shown} == {b"d.casrewind-kept", b"edited", b"unknown"}
    assert {item.path for item in outcome.kept} >= {b"d/edited", b"d.casrewind-kept"}


# -- bytes that come in between


def test_a_file_edited_while_the_new_content_is_written_stays(way, displaced, root):
    plant(root, {"a": b"1"})
    displaced.meanwhile = lambda: (root / "a").write_bytes(b"theirs")
    outcome = displaced.run(action(b"a", file(b"1"), displaced.file(b"new")))
    assert [item.path for item in outcome.kept] == [b"a"]
    assert (root / "a").read_bytes() == b"theirs"


def test_a_file_made_while_the_new_content_is_written_stays(way, displaced, root):
    displaced.meanwhile = lambda: (root / "a").write_bytes(b"theirs")
    outcome = displaced.run(action(b"a", None, displaced.file(b"new")))
    assert [item.path for item in outcome.kept] == [b"a"]
    assert (root / "a").read_bytes() == b"theirs"


def test_a_write_through_an_open_descriptor_into_the_displaced_file_is_put_back(way, displaced, root, monkeypatch):
    """The last check: what lost its name is hashed once more; it is not what the store holds any more."""
    plant(root, {"a": b"1", "z": b"2"})
    with open(root / "a", "r+b") as writer:
        meddle(monkeypatch, lambda: (writer.write(b"theirs"), writer.flush()), way)
        outcome = displaced.run(
            action(b"a", file(b"1"), displaced.file(b"new")), action(b"z", file(b"2"), displaced.file(b"two"))
        )
    assert [item.path for item in outcome.kept if item.path == b"a"] == [b"a"]
    contents = {(root / name).read_bytes() for name in os.listdir(root) if name != "z"}
    assert b"theirs" in contents
    if way != "no exchange":
        assert (root / "a").read_bytes() == b"theirs"
    else:
        assert contents == {b"theirs", b"new"}  # no way to trade names: it is kept under a visible one
        assert any(b"casrewind-kept" in item.path for item in outcome.kept)
    assert (root / "z").read_bytes() == b"two"


def test_a_write_into_a_file_that_is_being_removed_brings_it_back(way, displaced, root, monkeypatch):
    plant(root, {"a": b"1"})
    with open(root / "a", "r+b") as writer:
        real = os.rename

        def moved(*arguments, **more):
            real(*arguments, **more)
            writer.write(b"theirs")
            writer.flush()

        monkeypatch.setattr(os, "rename", moved)
        outcome = displaced.applier(action(b"a", file(b"1"), None)).carry_out_plan()
    assert [item.path for item in outcome.kept] == [b"a"]
    assert {name: (root / name).read_bytes() for name in os.listdir(root)} == {"a": b"theirs"}


def meddle(monkeypatch, deed, way):
    """Do something right after the first file has lost its name."""
    done = []

    def once():
        if not done:
            done.append(True)
            deed()

    if way != "no exchange":
        real = safe_rename.exchange_names

        def exchange(*arguments):
            found = real(*arguments)
            once()
            return found

        monkeypatch.setattr(safe_rename, "exchange_names", exchange)
    else:
        real_rename = os.rename

        def moved(*arguments, **more):
            real_rename(*arguments, **more)
            once()

        monkeypatch.setattr(os, "rename", moved)


def test_something_that_comes_to_the_name_of_a_removed_file_stays_and_so_do_the_bytes(displaced, root, monkeypatch):
    plant(root, {"a": b"1"})
    with open(root / "a", "r+b") as writer:
        real, came = os.rename, []

        def moved(*arguments, **more):
            real(*arguments, **more)
            if not came:
                came.append(True)
                writer.write(b"written late")
                writer.flush()
                plant(root, {"a": b"somebody else's"})

        monkeypatch.setattr(os, "rename", moved)
        outcome = displaced.applier(action(b"a", file(b"1"), None)).carry_out_plan()
    assert (root / "a").read_bytes() == b"somebody else's"
    assert (root / "a.casrewind-kept").read_bytes() == b"written late"
    assert {item.path for item in outcome.kept} == {b"a", b"a.casrewind-kept"}


def test_a_name_for_what_is_kept_is_never_one_that_is_taken(displaced, root, monkeypatch):
    long = b"n" * 255
    plant(
        root, {long: b"1", long[:200] + b".casrewind-kept": b"taken", long[:200] + b".casrewind-kept-1": b"taken too"}
    )
    path = os.fsencode(root) + b"/" + long
    with open(path, "r+b") as writer:
        real, came = os.rename, []

        def moved(*arguments, **more):
            real(*arguments, **more)
            if not came:
                came.append(True)
                writer.write(b"written late")
                writer.flush()
                plant(root, {long: b"somebody else's"})

        monkeypatch.setattr(os, "rename", moved)
        displaced.applier(action(long, file(b"1"), None)).carry_out_plan()
    visible = root / os.fsdecode(long[:200] + b".casrewind-kept")
    assert visible.with_name(visible.name + "-2").read_bytes() == b"written late"
    assert visible.read_bytes() == b"taken"
    assert visible.with_name(visible.name + "-1").read_bytes() == b"taken too"


# -- failures and interruptions


class Broken(Exception):
    """Content that cannot be had after all."""


def test_content_that_fails_takes_its_drafts_along(way, displaced, root):
    plant(root, {"a": b"1", "b": b"2"})
    before = picture(root, mtimes=True, inodes=True)

    def content(entry):
        if entry.digest == file(b"two").digest:
            yield b"t"
            raise Broken
        yield displaced.contents[entry.digest]

    actions = [action(b"a", file(b"1"), displaced.file(b"one")), action(b"b", file(b"2"), displaced.file(b"two"))]
    with pytest.raises(Broken):
        Applier(displaced.tree, actions, content, "t").carry_out_plan()
    assert picture(root, mtimes=True, inodes=True) == before


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO, errno.EDQUOT])
def test_a_disk_that_fails_while_content_is_written_leaves_everything_as_it_was(displaced, root, monkeypatch, number):
    plant(root, {"a": b"1", "b": b"2"})
    before = picture(root, mtimes=True, inodes=True)

    def fail():
        raise OSError(number, os.strerror(number))

    displaced.meanwhile = fail
    with pytest.raises(OSError) as caught:
        displaced.applier(action(b"a", file(b"1"), displaced.file(b"one")), action(b"b", file(b"2"), None)).carry_out_plan()
    assert caught.value.errno == number
    assert picture(root, mtimes=True, inodes=True) == before


class Stop(BaseException):
    """The process dies here."""


CALLS = ("rename", "unlink", "rmdir", "mkdir", "open", "fchmod", "utime", "symlink")


def interruptions(ground_of, tree, actions_of, monkeypatch, way):
    """Run a plan and die at the first, second, third ... call that changes something; yields after each death."""
    point = 0
    while True:
        displaced = ground_of()
        plant(displaced.root, tree)
        if "shared" in tree:
            os.link(displaced.root / "shared", f"{displaced.root}-shared")
        actions = actions_of(displaced)
        left = [point]
        with monkeypatch.context() as patch:
            for name in CALLS:
                patch.setattr(os, name, dying(getattr(os, name), left))
            for name in ("exchange_names", "rename_without_replacing"):
                patch.setattr(safe_rename, name, dying(getattr(safe_rename, name), left))
            try:
                displaced.applier(*actions).carry_out_plan()
            except Stop:
                died = True
            else:
                died = False
        if died:
            yield displaced, actions
        displaced.tree.close()
        if not died:
            assert point > 20
            return
        point += 1


def dying(call, left):
    def wrapped(*arguments, **more):
        if left[0] == 0:
            raise Stop
        left[0] -= 1
        return call(*arguments, **more)

    return wrapped


TREE = {
    "edit": b"old",
    "remove": b"r",
    "gone/x": b"x",
    "to dir": b"f",
    "to file/x/y": b"z",
    "l": Link("old"),
    "mode": b"m",
    "shared": b"s",
}


def plan_for(displaced):
    for data in (b"old", b"r", b"x", b"f", b"z", b"m"):
        displaced.file(data)
    return (
        action(b"edit", file(b"old"), displaced.file(b"new")),
        action(b"remove", file(b"r"), None),
        action(b"gone", directory(), None),
        action(b"gone/x", file(b"x"), None),
        action(b"to dir", file(b"f"), directory()),
        action(b"to dir/n", None, displaced.file(b"n")),
        action(b"to file", directory(), displaced.file(b"file")),
        action(b"to file/x", directory(), None),
        action(b"to file/x/y", file(b"z"), None),
        action(b"l", link(b"old"), link(b"new")),
        action(b"mode", file(b"m"), file(b"m", 0o600)),
        action(b"shared", file(b"s"), file(b"s", 0o600)),
        action(b"fresh", None, displaced.file(b"fresh")),
    )


@pytest.mark.parametrize("forward", [True, False], ids=["forwards", "backwards"])
def test_killed_at_any_call_it_can_be_finished_or_taken_back(tmp_path, monkeypatch, any_way, forward):
    numbers = iter(range(1000))

    def ground_of():
        place = tmp_path / f"p{next(numbers)}"
        place.mkdir()
        return Ground(place)

    reference = ground_of()
    plant(reference.root, TREE)
    old = picture(reference.root)
    reference.run(*plan_for(reference))
    new = picture(reference.root)
    reference.tree.close()
    for displaced, actions in interruptions(ground_of, TREE, plan_for, monkeypatch, any_way):
        first = displaced.applier(*actions)
        back = reverse(sorted(actions))
        second = Applier(displaced.tree, back, displaced.content, "tr")
        move_or_remove_temporary_files(first.displaced, sorted(actions))
        move_or_remove_temporary_files(second.displaced, back)
        if forward:
            put_replaced_directories_back(second.displaced, back)
            outcome = first.carry_out_plan()
        else:
            put_replaced_directories_back(first.displaced, sorted(actions))
            outcome = second.carry_out_plan()
        assert not outcome.kept
        assert differences(new if forward else old, picture(displaced.root)) == {}
        assert stat.S_IMODE(os.stat(f"{displaced.root}-shared").st_mode) == 0o644, "the other name keeps its mode"


@pytest.mark.parametrize("left", [0, 1, None], ids=["nothing", "a byte", "zeros"])
def test_drafts_whose_bytes_a_power_cut_took_are_known_for_drafts(displaced, root, monkeypatch, left):
    """Names, modes and sizes of files that were not synced may be on the disk without their bytes."""
    plant(root, TREE)
    actions = plan_for(displaced)

    def power_cut(_):
        for path in root.rglob(".casrewind-tmp-*[0-9]"):
            if not path.is_symlink():
                path.write_bytes(bytes(path.stat().st_size) if left is None else path.read_bytes()[:left])
        os._exit(0)

    pid = os.fork()
    if pid == 0:
        monkeypatch.setattr("casrewind.fsio.sync_tree", power_cut)
        displaced.applier(*actions).carry_out_plan()
    assert os.waitpid(pid, 0)[1] == 0
    assert len(list(root.rglob(".casrewind-tmp-*[0-9]"))) == 5
    again = displaced.applier(*actions)
    move_or_remove_temporary_files(again.displaced, sorted(actions))
    assert not list(root.rglob("*.casrewind-kept*"))
    outcome = again.carry_out_plan()
    assert not outcome.kept
    assert (root / "edit").read_bytes() == b"new" and stat.S_IMODE(os.stat(root / "edit").st_mode) == 0o644
    assert not list(root.rglob(".casrewind-tmp-*"))


def test_set_id_bits_are_never_set(displaced, root):
    outcome = displaced.run(action(b"a", None, displaced.file(b"1", 0o6755)), action(b"d", None, directory(0o7777)))
    assert not outcome.kept
    assert stat.S_IMODE(os.stat(root / "a").st_mode) == 0o755
    assert stat.S_IMODE(os.stat(root / "d").st_mode) == 0o777


def test_no_plan_changes_a_store(displaced, root):
    """Not even one that an earlier version wrote down before it was interrupted."""
    plant(root, {"in/s": Dir(0o700), "in/s/FORMAT": b"casrewind store 1\n", "in/s/ledger": b"CRLG new", "in/s/packs/p": b"new", "in/f": b"new"})
    before = picture(root / "in/s")
    new, old = displaced.file(b"new"), displaced.file(b"old")
    outcome = displaced.run(
        Action(b"in/f", new, old, b"in/f"),
        Action(b"in/s", manifest.Entry(manifest.DIR, 0o700, digest=EMPTY_TREE), manifest.Entry(manifest.DIR, 0o755, digest=EMPTY_TREE), b"in/s"),
        Action(b"in/s/added", None, new, b"in/s/added"),
        Action(b"in/s/ledger", displaced.file(b"CRLG new"), old, b"in/s/ledger"),
        Action(b"in/s/packs/p", new, None, b"in/s/packs/p"),
    )
    assert not differences(picture(root / "in/s"), before)
    assert (root / "in/f").read_bytes() == b"old"
    assert [item.path for item in outcome.kept] == [b"in/s", b"in/s/added", b"in/s/ledger", b"in/s/packs/p"]
    assert {item.reason for item in outcome.kept} == {"it is a casrewind store: nothing in it is restored or removed"}
    assert [action.path for action in outcome.done] == [b"in/f"]


@pytest.mark.parametrize("after", [b"new wal", None])
def test_an_earlier_journal_never_meets_another_database(displaced, root, monkeypatch, after):
    """Seen behind each change of a name, as a program sees them that is started after a cut."""
    plant(root, {"d.db": b"old", "d.db-wal": b"old wal"})
    seen = []

    def look_behind(module, name):
        change = getattr(module, name)

        def changed(*given, **options):
            result = change(*given, **options)
            seen.append(tuple((root / each).read_bytes() if (root / each).exists() else None for each in ("d.db", "d.db-wal")))
            return result

        monkeypatch.setattr(module, name, changed)

    look_behind(os, "rename")
    for name in ("exchange_names", "rename_without_replacing"):
        look_behind(safe_rename, name)
    wal = None if after is None else displaced.file(after)
    displaced.run(action(b"d.db", file(b"old"), displaced.file(b"new")), action(b"d.db-wal", file(b"old wal"), wal))
    assert seen[-1] == (b"new", after)
    assert not {(b"new", b"old wal"), (b"old", b"new wal")} & set(seen)


def test_a_database_whose_journal_changed_meanwhile_stays(displaced, root):
    plant(root, {"d.db": b"old", "d.db-wal": b"written since"})
    outcome = displaced.run(action(b"d.db", file(b"old"), displaced.file(b"new")), action(b"d.db-wal", file(b"old wal"), None))
    assert {kept.path for kept in outcome.kept} == {b"d.db", b"d.db-wal"}
    assert (root / "d.db").read_bytes() == b"old"
