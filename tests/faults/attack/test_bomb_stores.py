"""Stores of some kilobytes that want gigabytes or hours: every command ends soon, in little memory, with one line.

Everything in them is sound but for what support/hostile_stores.py says: packs, ledger, digests.
"""

import resource
import time

import pytest

from casrewind import errors
from casrewind.model import domain as domains
from casrewind.model import manifest, path_count
from casrewind.settings import Settings
from casrewind.store import packs
from support import handmade_checkpoints, hostile_stores
from support.command import Command
from support.handmade_checkpoints import dir_row, file_row, link_row, tree
from casrewind.workspace import Workspace
from support.sample_start import by_turns
from support.trees import plant

MEMORY = 700 << 20  # address space; the bombs are 1,500 MiB
SECONDS = 60  # far more than is needed on a machine with nothing else to do
CODES = {0, 3, 13, 14, 15, 20}


def commands(point, out):
    """{name: words} of all that may look into a checkpoint."""
    return {
        "show": ("show", point), "list": ("list",), "status": ("status",), "diff": ("diff", point), "diff of two": ("diff", "first", point),
        "patch": ("diff", point, "--patch"), "dry run": ("restore", point, "--dry-run"), "restore": ("restore", point, "--yes"),
        "restore a path": ("restore", point, "--yes", "--", "f"), "restore --to": ("restore", point, "--to", out),
        "du": ("du", "--depth", "9"), "log": ("log", "f"), "log of all": ("log", "."), "verify": ("verify",),
        "verify --quick": ("verify", "--quick"), "purge": ("purge", "f", "--dry-run"), "purge --text": ("purge", "--text", "-", "--dry-run"),
        "save": ("save",), "gc": ("gc",), "repair": ("verify", "--repair"),
    }  # fmt: skip


def run_all(root, home, point, words):
    """Every command in one process for each, under a limit of memory: {name: (exit code, standard error, peak in MiB)}."""
    command, done = Command(root, home), {}
    for name, arguments in words.items():
        began = time.monotonic()
        ran = command(*arguments, stdin=b"secret text", address_space=MEMORY, timeout=SECONDS)
        assert ran.code in CODES, (name, ran)
        assert "not enough memory" not in ran.err, (name, ran.err)
        done[name] = ran.code, ran.err, time.monotonic() - began
    return done


@pytest.fixture
def store(root, home):
    """store(name of a bomb): its checkpoint is the newest; (its id, bytes of the pack)."""

    def make(name):
        plant(root, {"f": b"mine", "g": b"x"})
        workspace = Workspace(str(root), Settings(home=str(home), data=str(home / "data")), create=True)
        workspace.save("first")
        return hostile_stores.plant(workspace, name, files=1 << 60)

    return make


REFUSED = {
    "tree_of_zeros": 20, "wrong_digest": 20, "whole_file": 20, "chunk_node": 20, "doubled": 14, "doubled_damage": 14, "tebibyte": 13, "deep": 14,
    "shared_nodes": 20, "endless_nodes": 20, "node_of_zeros": 20,
}  # fmt: skip
FORGED = {"shared_nodes", "endless_nodes"}
"""No damage, but trees that make no sense: a save that is compared with one says so."""
FEW = ("show", "diff", "dry run", "restore", "restore --to", "du", "verify", "save")


@pytest.mark.parametrize("name", by_turns(list(REFUSED), 3))
def test_a_bomb_ends_at_once(store, root, home, tmp_path, name):
    point, size = store(name)
    assert size < 800_000
    words = commands(point, str(tmp_path / "out"))
    done = run_all(root, home, point, {each: words[each] for each in FEW})
    print(name, size, {each: (code, round(seconds, 1)) for each, (code, _, seconds) in done.items()})
    for verb in ("dry run", "restore", "restore --to"):
        code, error, _ = done[verb]
        assert code == REFUSED[name] and error.count("\n") == 1, (verb, code, error)
        assert REFUSED[name] != 14 or f"refused manifest of {point}" in error, error
    assert done["verify"][0] == (0 if name == "tebibyte" else 20)
    assert done["save"][0] == (20 if name in FORGED else 0), "it must not keep a sound checkpoint from being made"
    assert (root / "f").read_bytes() == b"mine" and not (tmp_path / "out").exists()


@pytest.mark.long
@pytest.mark.parametrize("name", hostile_stores.BOMBS)
def test_every_command_on_every_bomb(store, root, home, tmp_path, name):
    point, _ = store(name)
    run_all(root, home, point, commands(point, str(tmp_path / "out")))


def test_what_a_record_may_hold_depends_on_what_it_is_used_as(store, root, home):
    """More than a MiB is no file's piece and no chunk list, and may well be a tree."""
    store("whole_file")
    with Workspace(str(root), Settings(home=str(home), data=str(home / "data")), create=False) as workspace:
        stored = workspace._context.store
        names = tree(*(link_row(b"%06d" % number, b"t" * 4095) for number in range(256)))
        assert 1 << 20 < len(names) <= packs.MOST[packs.TREE]
        (digest,) = handmade_checkpoints.Forger(workspace).blobs(names)
        assert stored.read(digest, packs.TREE) == names
        for kind in (packs.FILE, packs.CHUNK, packs.CHUNK_LIST):
            with pytest.raises(errors.BlobCorrupt, match="refused blob"):
                stored.read(digest, kind)
            ((_, found),) = stored.read_many([digest], kind)
            assert isinstance(found, errors.BlobCorrupt)


def test_a_record_that_says_too_much_is_not_even_fetched(store, root, home):
    """A sparse pack of gigabytes costs a file system nothing: its records are as long as they say."""
    point, _ = store("wrong_digest")
    pack = home / "data"
    (path,) = pack.rglob("packs/bbbbbbbbbb.pack")
    huge = 3 << 30
    with open(path, "wb") as file:
        file.write(b"CRPK\2\0\0\0" + hostile_stores.record(3, b"\x07" * 32, huge, b"", codec=0)[: packs.RECORD.size])
    head = packs.encode_head(packs.TREE, packs.RAW, b"\x07" * 32, huge, huge)
    with open(path, "r+b") as file:
        file.seek(8)
        file.write(head)
        file.truncate(8 + len(head) + huge)
    done = run_all(root, home, point, {"show": ("show", point), "quick": ("verify", "--quick"), "verify": ("verify",)})
    assert [code for code, *_ in done.values()] == [20, 20, 20]


def test_rules_that_are_named_again_and_again_are_refused(workspace, root):
    """Fifty names of one rule file of a few hundred kilobytes."""
    plant(root, {"f": b"1"})
    workspace.save("first")
    forger = handmade_checkpoints.Forger(workspace)
    (rules,) = forger.blobs(b"a\n" * 200_000)
    refs = tuple(domains.RuleRef(b"d%d" % number, "gitignore", rules) for number in range(50))
    empty = domains.Domain(False, True, 1 << 30, refs, (), (), 0)
    point = forger.publish(tree(), domain=domains.encode(empty))
    began = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(errors.StoreDamaged, match="refused rules"):
        workspace.plan_restore(point.id)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - began < 100_000
    assert (root / "f").read_bytes() == b"1"


@pytest.mark.turns(3)
def test_a_thousand_equal_directories_are_no_bomb(workspace, root, tmp_path):
    """What people have: copies of one directory with all that is in it. They share their trees."""
    (below,) = handmade_checkpoints.Forger.blobs(_forger(workspace, root), tree(file_row(b"f", hostile_stores.digest(b"x"), 1)))
    forger = handmade_checkpoints.Forger(workspace)
    forger.blobs(b"x")
    (module,) = forger.blobs(tree(*(dir_row(b"%02d" % number, below) for number in range(6))))
    point = forger.publish(forger.directory(*(dir_row(b"copy%04d" % number, module) for number in range(1000))))
    entries = list(workspace.entries(point))
    assert len(entries) == 1000 * (1 + 6 * 2)
    assert len(workspace.plan_restore(point.id).actions) == len(entries) + 1
    assert len(workspace.diff("first", point.id).changes) == len(entries) + 1
    assert workspace.verify().problems == ()


def _forger(workspace, root):
    plant(root, {"mine": b"1"})
    workspace.save("first")
    return handmade_checkpoints.Forger(workspace)


def test_the_paths_of_a_manifest_are_counted_without_listing_them():
    shape = {b"top": [b"mid"] * 3, b"mid": [b"low", b"low"], b"low": []}

    def below(name):
        return len(shape[name]) + 1, shape[name]  # and a file in each

    found, entries = path_count.count(below, [b"top"])
    assert found[b"top"] == (4 + 3 * (3 + 2 * 1), 2) and entries == 4 + 3 + 1
    assert path_count.reasons_to_refuse(below, [b"top"]) == {}
    shape |= {b"%d" % level: [b"%d" % (level + 1)] * 2 for level in range(60)} | {b"60": []}
    assert "paths out of" in path_count.reasons_to_refuse(below, [b"0", b"top"])[b"0"]
    shape |= {b"c%d" % level: [b"c%d" % (level + 1)] for level in range(3000)} | {b"c3000": []}
    assert "2048 levels" in path_count.reasons_to_refuse(below, [b"c0"])[b"c0"] and path_count.reasons_to_refuse(below, [b"c952"]) == {}


def test_what_no_one_could_read_again_is_not_stored(workspace, root, monkeypatch):
    """A limit of reading is one of writing, too."""
    plant(root, {"f%d" % number: b"" for number in range(50)})
    monkeypatch.setitem(packs.MOST, packs.TREE, 1000)
    with pytest.raises(errors.StoreError, match="more than a store takes"):
        workspace.save("first")
    assert workspace.checkpoints() == [] and manifest.LARGE == packs.MOST[packs.FILE]
