"""What takes the space: held against a slow judge, against what forgetting and purging really free, and against damage."""

import json
import os
import random
import shutil
import subprocess

import pytest

from casrewind import errors, locks
from casrewind.model.retention import Limits
from casrewind.upkeep.save import Moment
from casrewind.upkeep.save import save as save_moment
from casrewind.workspace import open as opened
from support import packfile
from support.blob_owners import Owned, checked_usage, pack_sizes, plans_of
from support.gc_checks import run_and_kill
from support.picture import differences
from support.stores import LockHolder, nth_newest
from support.trees import Dir, Link, plant
from support.unchanged import store_picture, unchanged

NOTHING = Limits(None, None)


def noise(seed, size):
    return random.Random(seed).randbytes(size)


def point(workspace, tree=(), *, gone=(), session="", agent="claude", transcript=None, **more):
    """Plant, remove, save as an agent's hook does; the checkpoint."""
    plant(workspace.root.path, dict(tree))
    for name in gone:
        os.unlink(os.path.join(workspace.root.path, name))
    told = ("", 0) if transcript is None else (transcript, os.path.getsize(transcript))
    moment = Moment(trigger="prompt", agent=agent if session else "", session=session, transcript=told, **more)
    return save_moment(workspace._context, moment).checkpoint


def storied(workspace, place):
    """A store with all that can own bytes: sessions side by side, transcripts, large files, copies, renames, undo."""
    talk = os.path.join(place, "talk.jsonl")
    point(workspace, {".gitignore": b"*.log\n", "a/b/c.txt": noise(1, 900), "a/d.txt": b"d" * 500, "top": b"top", "l": Link("top")})
    for n in range(9):
        with open(talk, "ab") as file:
            file.write(noise(100 + n, 300_000))
        point(
            workspace,
            {
                "a/b/c.txt": noise(n % 4, 900),  # comes back
                "big": noise(7, 1_300_000) + noise(n // 2, 40_000),
                f"a/new{n}": noise(20 + n, 700),
                f"copies/{n}": noise(5, 2000),  # one blob, many paths
                f"e{n % 2}/same": b"same",
                # one chunk, many times in one list, of which now and then none is left
                "zeros": bytes(1_200_000) if n % 3 else noise(n, 1_100_000),
                "hidden/.gitignore": b"*\n#" + noise(n // 4, 600).hex().encode(),  # a rule file that is in no tree
                "x": noise(50 + n // 3, 400),
            },
            gone=["x"] if n == 5 else [],
            session=f"s{n % 2}" if n != 8 else "late",
            agent="droid" if n == 3 else "claude",
            transcript=talk if n > 1 else None,
        )
    shutil.rmtree(os.path.join(workspace.root.path, "a"))
    point(workspace, {"a": b"a file now", "empty": Dir(), "back": noise(20, 700)}, session="late")
    plant(workspace.root.path, {"top": b"unsaved, in a safety checkpoint only", ".gitignore": b"*.log\n*.tmp\n"})
    workspace.restore(nth_newest(workspace, 3))
    workspace.undo()


LONG = pytest.mark.long


@pytest.mark.parametrize("depth", [None, 2, *(pytest.param(depth, marks=LONG) for depth in (1, 3, 99))])
def test_every_figure_is_what_a_slow_judge_finds(workspace, tmp_path, depth):
    storied(workspace, tmp_path)
    with unchanged(workspace.root.path, tmp_path / "home" / "data"):
        found = checked_usage(workspace, depth)
    assert found.unique > 100_000 and found.shared > 1_000_000
    assert len(found.sessions) == 5 and len(found.checkpoints) >= 12
    assert max(row.transcripts for row in found.sessions) > 2_000_000
    assert found.store_size >= found.packs_size


@pytest.mark.parametrize("seed", [0, 1, *(pytest.param(seed, marks=LONG) for seed in range(2, 30))])
def test_random_histories_agree_with_the_judge_before_and_after_gc(workspace, root, seed):
    chance = random.Random(seed)
    for n in range(25):
        names = [f"{chance.choice('ab')}/{chance.choice('cd')}/{chance.randrange(4)}", f"{chance.randrange(5)}"]
        tree = {name: noise(chance.randrange(8), chance.choice((0, 10, 3000))) for name in names}
        made = point(workspace, tree, session=chance.choice(("", "one", "two", "three")))
        if chance.random() < 0.2:
            shutil.rmtree(root / chance.choice("ab"), ignore_errors=True)
        if chance.random() < 0.15:
            workspace.restore(nth_newest(workspace, chance.randrange(1, min(n + 1, 5) + 1)))
        if chance.random() < 0.1 and workspace.status().undo:
            workspace.undo()
        if chance.random() < 0.2:
            workspace.pin(made)
    before = checked_usage(workspace, chance.choice((None, 1, 2)))
    workspace.gc(Limits(None, 4))
    after = checked_usage(workspace, chance.choice((None, 1, 2)))
    assert after.packs_size < before.packs_size


# -- what the words promise


def forget(workspace, one):
    maintenance = workspace._context.store.maintenance()
    assert maintenance.forget([one.id], maintenance.newest_seq())


def test_unique_is_what_forgetting_that_checkpoint_alone_turns_into_garbage(workspace, tmp_path):
    storied(workspace, tmp_path)
    names = [row.checkpoint for row in workspace.usage().checkpoints]
    for one in names:
        before = workspace.usage()
        (row,) = [row for row in before.checkpoints if row.checkpoint.id == one.id]
        forget(workspace, one)
        after = workspace.usage()
        assert after.garbage - before.garbage == row.unique
        assert after.packs_size == before.packs_size
    assert checked_usage(workspace).checkpoints == ()


def test_unique_is_what_gc_frees_when_it_drops_just_that_one(workspace):
    made = [point(workspace, {"f": noise(n, 200_000), "g": noise(n // 2, 100_000), "same": b"s"}) for n in range(6)]
    for one in (*made[:2], *made[3:]):
        workspace.pin(one)
    before = workspace.usage()
    (row,) = [row for row in before.checkpoints if row.checkpoint.id == made[2].id]
    assert 200_000 < row.unique < 210_000 and row.shared > 100_000
    dropped = workspace.gc(Limits(None, 1)).dropped
    assert [item.checkpoint.id for item in dropped] == [made[2].id]
    after = checked_usage(workspace)
    freed = before.packs_size - after.packs_size
    assert freed == row.unique + before.garbage - after.garbage + 8 * (before.packs - after.packs)
    assert after.garbage == 0


def test_what_gc_would_free_is_what_it_frees(root, settings):
    with opened(root, settings._replace(limits=Limits(None, 2))) as workspace:
        for n in range(5):
            point(workspace, {"f": noise(n, 300_000)})
        would = workspace.usage()
        assert 600_000 < would.gc_frees < 610_000, "two turns are kept: three checkpoints"
        before = sum(pack_sizes(workspace.store_path).values())
        workspace.gc()
        assert abs(before - sum(pack_sizes(workspace.store_path).values()) - would.gc_frees) < 1000
        assert workspace.usage().gc_frees < 1000


def test_what_a_path_takes_is_what_purging_it_frees(workspace, root):
    for n in range(5):
        point(workspace, {"build/out.bin": noise(n, 50_000), "build/big": noise(60 + n, 1_200_000), "src/a": noise(80 + n, 1000)})
    rows = {row.path: row for row in workspace.usage().paths}
    assert rows[b"build/out.bin"].versions == rows[b"build/big"].versions == 5
    assert list(rows) == [b"build/big", b"build/out.bin", b"src/a"]
    (row,) = [row for row in workspace.usage(1).paths if row.path == b"build"]
    files = rows[b"build/out.bin"].size + rows[b"build/big"].size
    assert row.is_directory and files < row.size < files + 5 * 300  # and five lists of two names
    before = sum(pack_sizes(workspace.store_path).values())
    workspace.purge([b"build/big"])
    freed = before - sum(pack_sizes(workspace.store_path).values())
    assert abs(freed - rows[b"build/big"].size) < 3000
    assert b"build/big" not in {row.path for row in checked_usage(workspace).paths}


def test_what_only_undo_has_need_of_is_other(workspace, root):
    point(workspace, {"f": b"1"})
    plant(root, {"f": noise(1, 30_000)})
    workspace.restore("last")
    before = checked_usage(workspace)
    for one, _ in workspace.checkpoints():
        if one.trigger == "safety":
            forget(workspace, one)
    after = checked_usage(workspace)
    assert before.other < 500 and 30_000 < after.other < 31_000
    assert after.garbage < 1000


def test_an_open_restore_holds_what_its_plan_names(workspace, root, casrewind, settings):
    point(workspace, {f"f{n}": noise(n, 5000) for n in range(4)})
    plant(root, {f"f{n}": noise(n + 10, 6000) for n in range(4)})
    workspace.close()
    assert run_and_kill(casrewind, workspace.store_path, 3, "restore", "last", "-y")
    with opened(root, settings) as again:
        assert again.is_interrupted()
        assert len(plans_of(again)) == 1
        checked_usage(again)
        for one, _ in again.checkpoints():
            if one.trigger == "safety":
                forget(again, one)
        assert checked_usage(again).other > 24_000


def test_bytes_that_are_stored_twice_are_garbage_once(workspace):
    point(workspace, {"f": noise(1, 20_000)})
    before = checked_usage(workspace)
    (name,) = pack_sizes(workspace.store_path)
    place = os.path.join(workspace.store_path, "packs")
    shutil.copy(os.path.join(place, name), os.path.join(place, "0" * 20 + ".pack"))
    found = checked_usage(workspace)
    assert found.garbage == before.packs_size - 8 > 20_000
    assert (found.unique, found.shared) == (before.unique, before.shared)


def test_a_file_that_holds_the_bytes_of_a_tree_is_no_tree(workspace):
    point(workspace, {"d/secret": noise(1, 900), "d/other": b"o"})
    kinds = packfile.kinds(workspace.store_path)
    for number, digest in enumerate(kinds[3]):
        data = workspace._context.store.read(digest)
        point(workspace, {"copy": data}, gone=["d/secret"] if number == 0 else [])
    checked_usage(workspace)
    checked_usage(workspace, 1)


def test_all_roots_that_share_a_store_are_counted(tmp_path, settings):
    settings = settings._replace(store=str(tmp_path / "shared"))
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        with opened(tmp_path / name, settings) as workspace:
            for n in range(3):
                point(workspace, {"same": noise(1, 3000), name: noise(n, 3000)}, session="s")
    with opened(tmp_path / "one", settings) as workspace:
        found = checked_usage(workspace)
        assert len(found.checkpoints) == 6 and [row.checkpoints for row in found.sessions] == [6]
        assert [row.path for row in found.paths] == [b"one", b"two", b"same"]


def test_names_are_bytes(workspace):
    point(workspace, {b"\xff/\xfe\n": noise(1, 100), b"caf\xe9": noise(2, 50)})
    assert [row.path for row in checked_usage(workspace).paths] == [b"\xff/\xfe\n", b"caf\xe9"]
    assert [row.path for row in checked_usage(workspace, 1).paths] == [b"\xff", b"caf\xe9"]


@LONG
def test_a_very_deep_tree_needs_no_recursion(workspace):
    place = workspace.root.path
    try:
        for _ in range(1200):
            place += "/d"
            os.mkdir(place)
        with open(place + "/f", "wb") as file:
            file.write(noise(1, 3000))
        point(workspace)
        (row,) = workspace.usage().paths
        assert row.path.count(b"/") == 1200 and row.size > 3000
        (row,) = workspace.usage(1).paths
        assert row.path == b"d" and row.size > 3000 + 1200 * 60
    finally:
        subprocess.run(["rm", "-rf", workspace.root.path + "/d"], check=True)  # Python's own way is a recursive one


# -- stores that are empty, damaged, in use


def test_a_store_without_checkpoints_has_nothing_to_tell(workspace):
    found = checked_usage(workspace)
    assert (found.packs, found.reachable, found.garbage, found.gc_frees) == (0, 0, 0, 0)
    assert (found.checkpoints, found.paths, found.sessions) == ((), (), ())
    assert found.store_size > 0


def test_an_empty_project_takes_next_to_nothing(workspace):
    point(workspace)
    found = checked_usage(workspace)
    assert found.paths == () and 0 < found.unique < 400


def test_a_pack_that_is_gone_is_named_and_the_rest_counted(workspace):
    for n in range(4):
        point(workspace, {f"f{n}": noise(n, 5000), "d/g": noise(n + 10, 100)})
    whole = workspace.usage()
    points = [one for one, _ in workspace.checkpoints()]
    lost = sorted(pack_sizes(workspace.store_path))[1]
    gone = {digest for digest, places in packfile.records(workspace.store_path).items() if places[0][0].endswith(lost)}
    os.unlink(os.path.join(workspace.store_path, "packs", lost))
    found = workspace.usage()
    assert {problem.kind for problem in found.problems} == {"blob"}
    assert {bytes.fromhex(problem.id) for problem in found.problems} <= gone
    assert any("is in no pack" in problem.detail for problem in found.problems)
    assert not any("run casrewind" in problem.detail for problem in found.problems)
    assert found.packs_size == sum(pack_sizes(workspace.store_path).values())
    assert found.unique + found.shared + found.other + found.garbage + 8 * found.packs == found.packs_size
    assert {row.checkpoint.id for row in found.checkpoints} == {one.id for one in points}
    assert found.packs_size > whole.packs_size - 6000


@pytest.mark.parametrize("kind", [3, 4, 5, 7], ids=["tree", "chunk list", "domain", "plan"])
def test_damage_to_what_names_others_is_named_and_no_crash(workspace, root, kind, settings):
    for n in range(3):
        point(workspace, {"d/f": noise(n, 3000), "big": noise(n, 1_500_000), ".gitignore": b"%d\n" % n})
    plant(root, {"d/f": b"x"})
    workspace.restore("prev")
    bad = {packfile.flip_blob(workspace.store_path, digest) for digest in packfile.kinds(workspace.store_path)[kind]}
    with opened(root, settings) as again:
        found = again.usage()
        named = {problem.id for problem in found.problems}
        roots = {row.checkpoint.tree.hex() for row in found.checkpoints}
        assert named and named <= bad and (roots if kind == 3 else bad) <= named  # what lies below a lost tree nobody knows
        assert found.unique + found.shared + found.other + found.garbage + 8 * found.packs == found.packs_size
        assert found.packs_size == sum(pack_sizes(again.store_path).values())
        assert len(found.checkpoints) == 4


def test_bytes_of_content_are_not_read(workspace, root, settings):
    """A flip in a file's own bytes is for verify to find: measuring reads what names others, and nothing else."""
    point(workspace, {"f": noise(1, 3000)})
    packfile.flip_blob(workspace.store_path, packfile.digest(noise(1, 3000)))
    with opened(root, settings) as again:
        assert again.usage().problems == ()
        assert again.verify().problems != ()


def test_a_damaged_journal_is_named(workspace, root, casrewind):
    point(workspace, {"f": b"1"})
    with open(os.path.join(workspace.store_path, "journals", workspace.root.key.hex()), "wb") as file:
        file.write(b"no journal")
    found = workspace.usage()
    assert [(problem.kind, problem.id) for problem in found.problems] == [("journal", workspace.root.key.hex())]
    assert found.gc_frees is None and len(found.checkpoints) == 1


def test_a_damaged_ledger_is_an_error(workspace, root, settings):
    for n in range(3):
        point(workspace, {"f": b"%d" % n})
    workspace.close()
    (_, start, _) = packfile.ledger_records(workspace.store_path)[0]
    packfile.flip(os.path.join(workspace.store_path, "ledger"), start + 30)
    shutil.rmtree(os.path.join(workspace.store_path, "index"))
    with opened(root, settings) as again, pytest.raises(errors.StoreDamaged):
        again.usage()


def test_nobody_else_is_kept_out_and_what_is_saved_meanwhile_does_no_harm(root, settings):
    with opened(root, settings) as other:
        point(other, {"f": noise(0, 3000)})
        made = []

        def in_between(what, done, total):
            made.append(point(other, {"f": noise(len(made) + 1, 3000)}).id)

        with opened(root, settings, progress=in_between) as workspace:
            found = workspace.usage()
        assert len(made) > 1 and len(found.checkpoints) == 1
        assert found.problems == ()
        checked_usage(other)


def test_nothing_is_swept_while_it_is_measured(root, settings):
    kept_out = []

    def look(what, done, total):
        lock = os.path.join(settings.data, "stores", os.listdir(os.path.join(settings.data, "stores"))[0], "locks", "store")
        try:
            with locks.locked(lock, exclusive=True, deadline=0.0):
                kept_out.append((what, False))
        except errors.StoreBusy:
            kept_out.append((what, True))

    with opened(root, settings) as workspace:
        point(workspace, {"f": b"1"})
    with opened(root, settings, progress=look) as workspace:
        workspace.usage()
    assert ("counting", True) in kept_out and all(busy for _, busy in kept_out)


@pytest.mark.parametrize("lock", ["gate", "store"])
def test_a_store_that_somebody_has_alone_is_busy(workspace, root, lock, settings):
    point(workspace, {"f": b"1"})
    with LockHolder(os.path.join(workspace.store_path, "locks", lock), stopped=True):
        with opened(root, settings._replace(deadline=0.1)) as again, pytest.raises(errors.StoreBusy, match=lock):
            again.usage()
    checked_usage(workspace)


def test_losing_the_index_changes_no_figure(workspace, tmp_path, settings):
    storied(workspace, tmp_path)
    before, store = workspace.usage(), store_picture(workspace.store_path)
    shutil.rmtree(os.path.join(workspace.store_path, "index"))
    with opened(workspace.root.path, settings) as again:
        found = again.usage()
    assert found._replace(store_size=0, gc_frees=0) == before._replace(store_size=0, gc_frees=0)
    assert differences(store, store_picture(workspace.store_path)) == {}
    assert json.dumps([row.unique for row in found.checkpoints])


def test_the_judge_itself_is_not_blind(workspace):
    """A figure that is off by one is found out."""
    point(workspace, {"f": noise(1, 3000)})
    found = workspace.usage()
    owned = Owned(workspace.store_path, [one for one, _ in workspace.checkpoints()], set())
    assert owned.sums()[0] == found.unique
    assert owned.sums()[0] != found.unique - 1
    assert sum(owned.sums()) + 8 == sum(pack_sizes(workspace.store_path).values())
