"""Purge on real stores: what goes, what goes with it, what stays, and what happens beside it."""

import os
import random
import shutil
import subprocess
import sys

import pytest

from casrewind import errors
from casrewind.model.retention import Limits
from casrewind.errors import Declined
from casrewind.upkeep.save import Moment, save
from casrewind.workspace import Workspace
from casrewind.workspace import open as opened
from support.command import Command
from support.gc_checks import run_and_kill
from support.packfile import digest, flip_blob
from support.picture import picture
from support.secret_search import hits
from support.store_checks import read_everything
from support.stores import LockHolder, nth_newest
from support.trees import Dir, Link, plant

WORD = b"a word of which nothing may be left 0815"


def noise(seed, size):
    return random.Random(seed).randbytes(size)


def kinds(workspace, point):
    return {path.decode(): entry.kind for path, entry in workspace.entries(point) if entry.kind != "dir"}


def left(workspace, what=WORD):
    return hits(workspace.store_path, [what])


def paths(found):
    return [(item.path.decode(), item.checkpoints) for item in found]


@pytest.fixture
def filled(workspace, root):
    """A workspace with three checkpoints; the word is in the first two, at two paths."""
    plant(root, {"key": WORD, "deep/er/copy": WORD, "f": b"1"})
    workspace.save("one")
    plant(root, {"f": b"2"})
    workspace.save("two")
    os.unlink(root / "key")
    shutil.rmtree(root / "deep")
    workspace.save("three")
    return workspace


def test_it_goes_from_every_checkpoint_and_its_entry_stays(filled):
    report = filled.purge([b"key"])
    assert paths(report.purged) == [("key", 2)] and paths(report.equal) == [("deep/er/copy", 2)]
    assert (report.blobs, report.size, report.still_there) == (1, len(WORD), ())
    assert left(filled) == {}
    assert kinds(filled, nth_newest(filled, 3)) == kinds(filled, "prev") == {"key": "purged", "deep/er/copy": "purged", "f": "file"}
    assert kinds(filled, "last") == {"f": "file"}
    entry = dict(filled.entries(nth_newest(filled, 3)))[b"key"]
    assert (entry.size, entry.mode & 0o777, entry.digest) == (len(WORD), 0o644, b"")
    assert filled.verify().problems == ()
    read_everything(filled)


def test_a_dry_run_says_the_same_and_changes_nothing(filled):
    before = picture(filled.store_path)
    would = filled.purge([b"key"], dry_run=True)
    assert {path: what for path, what in picture(filled.store_path).items() if not path.startswith(b"locks/")} == {
        path: what for path, what in before.items() if not path.startswith(b"locks/")
    }
    assert filled.purge([b"key"])._replace(dry_run=True) == would


def test_who_says_no_changes_nothing(filled):
    asked = []
    with pytest.raises(Declined):
        filled.purge([b"key"], lambda found: asked.append(found))
    assert paths(asked[0].purged) == [("key", 2)]
    assert left(filled) and kinds(filled, nth_newest(filled, 3))["key"] == "file"


def test_every_worktree_and_every_safety_checkpoint_loses_it(root, settings, workspace, tmp_path):
    plant(root, {"key": WORD, "f": b"1"})
    workspace.save()
    plant(root, {"f": b"2"})
    workspace.restore("last")
    plant(root, {"key": WORD + b" changed"})
    workspace.restore("last")
    other = tmp_path / "other"
    plant(other, {"sub/key": WORD, "key": b"of the other worktree " + WORD})
    os.mkdir(root / ".git")
    with Workspace(str(other), settings._replace(store=workspace.store_path), create=False) as second:
        second.save()
        report = workspace.purge([b"key"])
        assert paths(report.equal) == [("sub/key", 1)]
        assert dict(paths(report.purged))["key"] == len(workspace.checkpoints(every_worktree=True))
        assert set(kinds(second, "last").values()) == {"purged"}
    assert left(workspace) == {}
    assert workspace.verify().problems == ()


def test_files_that_share_a_chunk_go_too_and_files_that_share_nothing_stay(workspace, root):
    one, two = noise(1, 1_500_000), noise(2, 1_500_000)
    plant(root, {"one": one, "one-changed": one[:700_000] + b"!" + one[700_000:], "two": two, "joined": two[:1_200_000] + one})
    workspace.save()
    report = workspace.purge([b"one"])
    assert paths(report.equal) == [("joined", 1), ("one-changed", 1)]
    assert kinds(workspace, "last")["two"] == "file"
    assert hits(workspace.store_path, [one[at : at + 30] for at in range(0, len(one), 9_999)]) == {}
    assert len(read_everything(workspace)[workspace.checkpoint("last").id][b"two"]) == len(two)


def test_empty_files_and_files_of_zeros_have_nothing_in_common(workspace, root):
    plant(root, {"d/empty": b"", "d/zeros": bytes(2_000_000), "empty": b"", "zeros": bytes(2_000_000), "more": bytes(3_000_000)})
    workspace.save()
    report = workspace.purge([b"d"])
    assert paths(report.purged) == [("d/empty", 1), ("d/zeros", 1)] and report.equal == ()
    assert kinds(workspace, "last") == {
        "d/empty": "purged", "d/zeros": "purged", "empty": "file", "zeros": "file", "more": "file",
    }  # fmt: skip
    assert workspace.verify().problems == ()


def test_a_links_target_goes_and_other_links_stay(workspace, root):
    plant(root, {"d/link": Link("/hidden/place/of-the-token-0815"), "d/other": Link("f"), "link": Link("f"), "f": b"1"})
    workspace.save()
    plant(root, {"f": b"2"})
    workspace.save()
    assert hits(workspace.store_path, [b"/hidden/place/of-the-token-0815"])
    report = workspace.purge([b"d"])
    assert paths(report.purged) == [("d/link", 2), ("d/other", 2)] and report.equal == ()
    assert hits(workspace.store_path, [b"/hidden/place/of-the-token-0815"]) == {}
    assert kinds(workspace, "last")["link"] == "link"


def test_what_only_a_forgotten_checkpoint_had_goes_too(filled, root):
    """gc was killed before it swept, say, or left a little garbage where removing it would have cost much."""
    plant(root, {"key": b"another version " + WORD[::-1]})
    forgotten = filled.save().checkpoint
    plant(root, {"key": b"the newest version"})
    filled.save()
    maintenance = filled._context.store.maintenance()
    with maintenance.exclude_other_maintenance(), maintenance.hold_store_exclusively():
        assert maintenance.forget([forgotten.id], maintenance.newest_seq())
    assert forgotten.id not in {point.id for point, _ in filled.checkpoints()}
    filled.purge([b"key"])
    assert hits(filled.store_path, [WORD[::-1], b"the newest version"]) == {}


def test_not_even_the_little_garbage_stays_that_gc_leaves(filled, root, monkeypatch):
    from casrewind.store import sweep

    monkeypatch.setattr(sweep, "SMALL", 1_000)
    plant(root, {"secret": WORD[::-1], "keep": noise(6, 50_000)})
    filled.save()
    os.unlink(root / "secret")
    plant(root, {"large": noise(7, 400_000)})
    forgotten = filled.save().checkpoint
    os.unlink(root / "large")
    filled.save()
    maintenance = filled._context.store.maintenance()
    with maintenance.exclude_other_maintenance(), maintenance.hold_store_exclusively():
        assert maintenance.forget([forgotten.id], maintenance.newest_seq())
    filled.purge([b"secret"])
    assert hits(filled.store_path, [WORD[::-1]]) == {}
    assert filled.verify().problems == ()


def test_what_only_an_undo_step_names_goes_too(workspace, root):
    plant(root, {"key": WORD, "f": b"1"})
    workspace.save()
    plant(root, {"key": b"x", "f": b"2", "new": WORD})
    workspace.restore("last")
    before = picture(root)
    report = workspace.purge([b"key"])
    assert paths(report.equal) == [("new", 1)]
    assert left(workspace) == {}
    undone = workspace.undo()
    assert {action.path for action in undone.actions} == {b"f"}
    assert (root / "f").read_bytes() == b"2"
    workspace.redo()
    assert picture(root) == before
    assert workspace.verify().problems == ()


def test_a_restore_never_touches_nor_stores_what_is_purged_in_its_target(filled, root):
    filled.purge([b"key"])
    plant(root, {"key": b"what is there now", ".casrewindignore": b"key\n", "f": b"3"})
    filled.save()
    report = filled.restore("one")
    assert {item.path for item in report.kept if not item.benign} == {b"key", b"deep/er/copy"}
    assert (root / "key").read_bytes() == b"what is there now"
    assert hits(filled.store_path, [b"what is there now"]) == {}
    filled.undo()
    assert (root / "key").read_bytes() == b"what is there now"


def test_what_stands_in_the_place_of_something_purged_stays(filled, root):
    filled.purge([b"key"])
    plant(root, {"key/inside": b"a directory now", "f": b"3"})
    report = filled.restore("one")
    assert {item.path for item in report.kept if not item.benign} == {b"key", b"key/inside", b"deep/er/copy"}
    assert (root / "key" / "inside").read_bytes() == b"a directory now"


def test_a_conversation_with_equal_bytes_goes_too(workspace, root, home):
    transcript = home / "session.jsonl"
    transcript.write_bytes(WORD + b"\n")
    plant(root, {"copied.jsonl": WORD + b"\n", "f": b"1"})
    moment = Moment("prompt", prompt="p", agent="claude", session="s", transcript=(str(transcript), len(WORD) + 1))
    assert save(workspace._context, moment).checkpoint.transcript is not None
    report = workspace.purge([b"copied.jsonl"])
    assert report.transcripts == 1
    assert workspace.checkpoint("last").transcript is None
    assert left(workspace) == {}


def test_an_open_restore_of_any_worktree_is_in_the_way(filled, root, home, settings):
    command = Command(root, home)
    plant(root, {"f": b"9", "g": b"9", "h": b"9"})
    assert run_and_kill(command, filled.store_path, 2, "restore", "one", "--yes")
    for how in ({}, {"dry_run": True}):
        with pytest.raises(errors.JournalOpen, match="nothing was purged"):
            filled.purge([b"key"], **how)
        with pytest.raises(errors.JournalOpen, match="nothing was purged"):
            filled.purge_text(WORD, **how)
    assert left(filled)
    filled.finish_restore(forward=True)
    filled.purge([b"key"])
    assert left(filled) == {}


def test_what_is_published_while_somebody_thinks_about_it_goes_too(filled, root, settings):
    def confirm(_found):
        with opened(root, settings) as another:
            plant(root, {"key": b"a later version " + WORD[::-1], "another-name": WORD})
            another.save()
            os.unlink(root / "key")
            os.unlink(root / "another-name")
        return True

    report = filled.purge([b"key"], confirm)
    assert paths(report.purged) == [("key", 3)] and ("another-name", 1) in paths(report.equal)
    assert left(filled) == {} and left(filled, WORD[::-1]) == {}


@pytest.mark.parametrize("times", [1, 4, 5])
def test_what_is_published_between_looking_and_doing_goes_too(filled, root, settings, monkeypatch, times):
    """Five times in a row, and it looks again while everybody else waits."""
    from casrewind.upkeep import purge

    mark, left_over = purge._mark_reachable, list(range(times))

    def marking(context, found):
        if left_over:
            number = left_over.pop()
            with opened(root, settings) as another:
                plant(root, {"key": b"version %d " % number + WORD[::-1]})
                another.save()
                os.unlink(root / "key")
        return mark(context, found)

    monkeypatch.setattr(purge, "_mark_reachable", marking)
    report = filled.purge([b"key"])
    assert not left_over and paths(report.purged) == [("key", 2 + times)]
    assert left(filled) == {} and left(filled, WORD[::-1]) == {}
    assert filled.verify().problems == () and len(filled.checkpoints()) == 3 + times


SAVER = """
import os, sys, time
from casrewind.settings import Settings
from casrewind.workspace import Workspace
root, home, number = sys.argv[1:]
settings = Settings(home=home, data=os.path.join(home, "data"), environ={"HOME": home}, deadline=60.0)
count = 0
with Workspace(root, settings, create=True) as workspace:
    while not os.path.exists(os.path.join(home, "enough")):
        with open(os.path.join(root, f"saver-{number}"), "w") as file:
            file.write(f"{number} {count} " * 500)
        workspace.save(f"saver {number}: {count}")
        count += 1
print(count)
"""


@pytest.mark.turns(3)
def test_savers_beside_it_lose_nothing_and_bring_nothing_back(filled, root, home):
    savers = [
        subprocess.Popen([sys.executable, "-c", SAVER, str(root), str(home), str(n)], stdout=subprocess.PIPE,
                         env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)})
        for n in range(3)
    ]  # fmt: skip
    try:
        for number in range(4):
            while len(filled.checkpoints()) < 3 + 10 * (number + 1):
                pass
            if number == 1:
                filled.purge([b"key"])
                assert left(filled) == {}
            elif number > 1:
                filled.purge_text(b"saver %d: 2" % (number - 1))
    finally:
        (home / "enough").touch()
        counts = [int(saver.communicate(timeout=60)[0]) for saver in savers]
    assert left(filled) == {}
    labels = [point.label for point, _ in filled.checkpoints()]
    assert len(labels) == 3 + sum(counts)
    covered = sum(label.startswith("***") for label in labels)
    assert 2 <= covered <= 40  # "saver 1: 2", and the beginning of "saver 1: 21"
    assert filled.verify().problems == ()
    read_everything(filled)


def test_a_holder_of_the_store_delays_it_until_it_gives_up(filled, root, settings, monkeypatch):
    from casrewind.store import maintenance

    monkeypatch.setattr(maintenance, "_PATIENCE", 0.5)
    with LockHolder(os.path.join(filled.store_path, "locks", "store")), pytest.raises(errors.StoreBusy):
        with opened(root, settings._replace(deadline=0.3)) as hurried:
            hurried.purge([b"key"])
    assert left(filled) and filled.verify().problems == ()
    assert not os.path.exists(os.path.join(filled.store_path, "purging"))


def test_while_gc_runs_it_is_busy(filled, monkeypatch):
    from casrewind.store import maintenance

    monkeypatch.setattr(maintenance, "_MERGE_TIME", 0.1)
    with filled._context.store.maintenance().exclude_other_maintenance(), pytest.raises(errors.StoreBusy):
        filled.purge([b"key"])


def test_what_was_set_aside_goes_and_so_does_every_old_page_of_the_index(filled):
    for name in ("damaged", "index.old-00"):
        os.mkdir(os.path.join(filled.store_path, name))
    for name in ("ledger.cut-1", "ledger.damaged-1", "damaged/x.pack", "journals/00.damaged-1", "index.old-00/data.mdb", "tmp/casrewind-draft-abcdef012345"):
        with open(os.path.join(filled.store_path, name), "wb") as file:
            file.write(WORD)
    filled.purge([b"key"])
    assert left(filled) == {}
    inside = digest(WORD)
    assert hits(filled.store_path, [inside, inside.hex().encode()]) == {}, "its digest tells whether a guess is right"


def test_a_damaged_pack_is_said_and_the_purge_stays_unfinished_until_it_is_mended(filled, root, settings):
    plant(root, {"other": b"of no importance"})
    filled.save()
    filled._context.store.close()
    flip_blob(filled.store_path, digest(b"2"))
    with opened(root, settings) as again:
        with pytest.raises(errors.StoreDamaged, match="verify --repair"):
            again.purge([b"key"])
        assert "purge" in " ".join(again.status().reasons) and again.verify().notes
        assert kinds(again, "one")["key"] == "purged"
        with pytest.raises(errors.StoreDamaged, match="verify --repair"):
            again.purge([b"f"])
        assert any("unfinished" in note for note in again.gc(Limits(None, None)).notes)
        again.repair()
        assert left(again)
        notes = again.gc(Limits(None, None)).notes
        assert any("finished now" in note for note in notes)
        assert left(again) == {}
        assert not again.verify().notes and not again.status().reasons


def test_a_note_that_cannot_be_read_counts_as_begun(filled):
    filled.purge([b"key"])
    note = os.path.join(filled.store_path, "purging")
    with open(note, "wb") as file:
        file.write(b"garbage")
    assert filled.verify().notes
    assert filled.gc(Limits(None, None)).notes
    assert not os.path.exists(note) and not filled.verify().notes


def test_refused_without_a_path_or_for_one_that_nobody_has(filled, root):
    for scope in ([], [b""]):
        with pytest.raises(errors.UsageError):
            filled.purge(scope)
    plant(root, {"never-saved": b"1", "hollow": Dir()})
    filled.save()
    for path in (b"never-sav", b"hollow", b"key/below", b"deep/er/cop"):
        with pytest.raises(errors.PathNotFound):
            filled.purge([path])
    assert left(filled)


def test_several_places_at_once_and_a_name_that_is_no_text(workspace, root):
    plant(root, {b"na\xffme": WORD, "d/x": b"one more " + WORD[::-1], "f": b"1"})
    workspace.save()
    report = workspace.purge([b"na\xffme", b"d"])
    assert [item.path for item in report.purged] == [b"d/x", b"na\xffme"]
    assert left(workspace) == left(workspace, WORD[::-1]) == {}


def test_a_large_file_that_never_was_whole_in_one_record_is_gone(workspace, root):
    data = noise(4, 3_000_000)
    plant(root, {"big": data, "f": b"1"})
    workspace.save()
    workspace.purge([b"big"])
    assert hits(workspace.store_path, [data[at : at + 24] for at in range(0, len(data) - 24, 4_001)]) == {}
    assert sum(os.path.getsize(os.path.join(workspace.store_path, "packs", name)) for name in os.listdir(os.path.join(workspace.store_path, "packs"))) < 50_000


def test_while_a_person_thinks_gc_runs(filled, root, home):
    other, asked = Command(root, home), []

    def think(_report):
        asked.append(other("gc", code=0).out)
        return True

    filled.purge_text(b"three", think)
    filled.purge([b"key"], think)
    assert left(filled) == {} and len(asked) == 2
