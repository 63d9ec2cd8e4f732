"""Directories with so many names that they are stored in nodes: by the command line, with all that follows trees."""

import os
import shutil

import pytest

from casrewind.model import manifest, directory_nodes
from casrewind.model.retention import Limits
from casrewind.model.directory_nodes import LIMITS, NodeList
from support import packfile
from support.picture import differences, picture
from support.trees import Link, plant

COUNT = 2000


def name_of(number):
    return f"flat/case_{number:06d}.json"


def content_of(number, edit=0):
    return b'{"case": %d, "edit": %d}\n' % (number, edit)


@pytest.fixture
def flat(root):
    """The project has one directory of 2,000 files, links and directories, and a small one."""
    plant(root, {name_of(number): content_of(number) for number in range(COUNT)})
    plant(root, {"flat/link": Link("case_000001.json"), "flat/zz-inner/deep": b"deep\n", "small/a": b"a"})
    return root / "flat"


@pytest.fixture
def store(casrewind, flat):
    """The store after a first save."""
    casrewind("save", "-m", "first", code=0)
    return casrewind.json("status")["store"]


class Look:
    """What is stored, by the product's own readers."""

    def __init__(self, workspace):
        self.store = workspace._context.store

    def nodes(self, point, path=b"flat"):
        """{digest: node} of a directory of a checkpoint, lost ones left out."""
        top = manifest.Finder(self.store.load_tree, point.tree).find(path).digest
        node = self.store.load_tree(top)
        return {top: node} | dict(directory_nodes.nodes_below(self.store.load_tree, node))

    def holding(self, point, name):
        """The digest of the node that holds a name."""
        return next(d for d, node in self.nodes(point).items() if isinstance(node, list) and name in dict(node))


def pack_bytes(store):
    place = os.path.join(store, "packs")
    return sum(os.path.getsize(os.path.join(place, name)) for name in os.listdir(place))


@pytest.mark.turns(3)
def test_a_large_directory_from_the_first_save_to_a_purge(casrewind, root, flat, store):
    first = picture(root)
    stored = pack_bytes(store)
    plant(root, {name_of(1234): content_of(1234, 1)})
    casrewind("save", "-m", "edited", code=0)
    assert pack_bytes(store) - stored < 25_000, "one node, one list, and no more"
    os.unlink(root / name_of(5))
    plant(root, {"flat/another name": b"secret key\n", "flat/zz-inner/deep": b"deeper\n"})
    casrewind("save", "-m", "names", code=0)
    assert casrewind.json("save")["created"] is False
    third = picture(root)

    assert [(item["path"], item["status"]) for item in casrewind.json("diff", "first", "edited")["changes"]] == [(name_of(1234), "modified")]
    found = casrewind.json("diff", "first", "names")["changes"]
    assert {item["path"] for item in found} == {name_of(1234), name_of(5), "flat/another name", "flat/zz-inner/deep"}
    assert len(casrewind.json("log", name_of(1234))["changes"]) == 2
    assert casrewind("cat", f"first:{name_of(1234)}").out == content_of(1234).decode()
    shown = casrewind.json("show", "first")["entries"]
    assert len([item for item in shown if item["path"].startswith("flat/case_")]) == COUNT

    casrewind("restore", "first", "--yes", code=0)
    assert differences(picture(root), first) == {}
    casrewind("undo", "--yes", code=0)
    assert differences(picture(root), third) == {}
    casrewind("restore", "first", "--yes", "--", name_of(5), code=0)
    assert (root / name_of(5)).read_bytes() == content_of(5)
    casrewind("undo", "--yes", code=0)
    assert casrewind.json("verify")["ok"] and casrewind.json("verify", "--quick")["ok"]

    usage = casrewind.json("du")
    assert {name_of(1234), name_of(1999), "flat/zz-inner/deep", "small/a"} <= {item["path"] for item in usage["paths"]}
    (whole,) = [item for item in casrewind.json("du", "--depth", "1")["paths"] if item["path"] == "flat"]
    assert 3 <= whole["versions"] <= 5, "states of the directory, not its nodes"
    casrewind("gc", code=0)
    assert casrewind.json("verify")["ok"]

    purged = casrewind.json("purge", "flat/another name", "--yes")
    assert [item["path"] for item in purged["purged"]] == ["flat/another name"]
    assert packfile.digest(b"secret key\n") not in packfile.records(store)
    assert casrewind.json("verify")["ok"]
    kinds = {item["path"]: item["kind"] for item in casrewind.json("show", "names")["entries"]}
    assert kinds["flat/another name"] == "purged" and len(kinds) == len(third)
    casrewind("restore", "first", "--yes", code=0)
    assert differences(picture(root), first) == {}


def test_gc_keeps_the_nodes_that_are_named_and_no_others(workspace, root, flat):
    look, points = Look(workspace), []
    for edit in range(3):
        plant(root, {name_of(number): content_of(number, edit) for number in range(100 * edit, 100 * edit + 50)})
        points.append(workspace.save().checkpoint)
    nodes = [set(look.nodes(point)) for point in points]
    assert len(nodes[0] & nodes[1]) > 3 and len(nodes[0] - nodes[1] - nodes[2]) > 1
    workspace.gc(Limits(None, 1))
    there = packfile.records(workspace.store_path).keys()
    assert nodes[2] <= there and not ((nodes[0] | nodes[1]) - nodes[2]) & there
    assert workspace.verify().problems == ()


def test_a_touched_file_makes_no_checkpoint_and_stores_nothing(casrewind, root, store):
    stored = pack_bytes(store)
    os.utime(root / name_of(7), (1_600_000_000, 1_600_000_000))
    assert casrewind.json("save")["created"] is False
    assert pack_bytes(store) == stored


def test_a_text_is_found_in_the_files_of_a_large_directory(workspace, root, flat):
    plant(root, {name_of(700): b"a very secret text\n"})
    first = workspace.save().checkpoint
    plant(root, {name_of(700): b"nothing\n"})
    workspace.save()
    found = workspace.purge_text(b"very secret text", dry_run=True).files
    assert [(holder.path.decode(), holder.checkpoint) for holder in found] == [(name_of(700), first.id)]


def test_a_lost_node_is_named_and_its_directory_is_left_alone(casrewind, workspace, root, store):
    first = workspace.checkpoints()[0][0]
    lost = Look(workspace).holding(first, b"case_000003.json")
    workspace.close()
    packfile.flip_blob(store, lost)
    plant(root, {name_of(3): b"edited", "small/a": b"b"})
    found = casrewind.json("verify", code=20)
    (problem,) = found["problems"]
    assert problem["id"] == lost.hex()
    assert [(item["checkpoint"], item["path"]) for item in problem["affects"]] == [(first.id, "flat")]
    now = picture(root)
    casrewind("restore", "first", "--yes", code=20)
    assert differences(picture(root), now) == {}
    casrewind("restore", "first", "--yes", "--skip-damaged", code=3)
    assert (root / "small/a").read_bytes() == b"a" and (root / name_of(3)).read_bytes() == b"edited"
    assert len(os.listdir(root / "flat")) == COUNT + 2


def test_a_lost_node_is_stored_again_by_a_save_after_a_repair(casrewind, workspace, root, store):
    first = workspace.checkpoints()[0][0]
    nodes = Look(workspace).nodes(first)
    workspace.close()
    lost = [next(d for d, node in nodes.items() if isinstance(node, kind)) for kind in (NodeList, list)]
    for digest in lost:
        packfile.flip_blob(store, digest)
        assert {problem["id"] for problem in casrewind.json("verify", "--repair", code=20)["problems"]} == {digest.hex()}
        casrewind("save", code=0)
        assert casrewind.json("verify")["ok"]


def test_gc_has_a_directory_with_a_lost_node_looked_at_again(casrewind, workspace, root, store):
    """The stat index must not say of a directory that it is stored when a node of it is not."""
    first = workspace.checkpoints()[0][0]
    lost = Look(workspace).holding(first, b"case_000003.json")
    workspace.close()
    plant(root, {"small/a": b"second"})
    casrewind("save", "-m", "second", code=0)
    plant(root, {"small/a": b"third"})
    casrewind("save", "-m", "third", code=0)
    (place, at, length) = packfile.records(store)[lost][0]
    packfile.flip(place, at + length - 1)
    casrewind("gc", "--max-count", "1")
    plant(root, {"small/a": b"fourth"})
    casrewind("save", "-m", "fourth", code=0)
    casrewind("verify", "--repair")
    casrewind("save", code=0)
    assert casrewind.json("verify")["ok"]


def test_a_purge_goes_on_around_a_lost_node(casrewind, workspace, root, store):
    """The secret goes from the node beside it; what the lost one held stays lost, and is not taken for absent."""
    first = workspace.checkpoints()[0][0]
    look = Look(workspace)
    lost = look.holding(first, b"case_000003.json")
    names = {name.decode() for name, _ in look.nodes(first)[lost]}
    assert "case_001999.json" not in names
    workspace.close()
    secret = packfile.digest(content_of(1999))
    packfile.flip_blob(store, lost)
    casrewind("verify", "--repair", code=20)
    shutil.rmtree(root / "flat")
    plant(root, {"small/a": b"b"})
    casrewind("save", "-m", "second", code=0)
    assert casrewind.json("purge", name_of(1999), "--yes")["purged"][0]["path"] == name_of(1999)
    assert secret not in packfile.records(store)
    (problem,) = casrewind.json("verify", code=20)["problems"]
    assert problem["id"] == lost.hex() and {item["path"] for item in problem["affects"]} == {"flat"}
    casrewind("restore", "first", "--yes", code=20)
    assert not (root / "flat").exists()


def test_a_directory_comes_down_to_one_node_again(casrewind, root, flat):
    for number in range(COUNT):
        os.unlink(root / name_of(number))
    plant(root, {name_of(number): content_of(number) for number in range(LIMITS.most - 2)})
    casrewind("save", "-m", "few", code=0)
    store = casrewind.json("status")["store"]
    before = packfile.kinds(store)[3]
    plant(root, {name_of(LIMITS.most): content_of(1)})
    casrewind("save", "-m", "large", code=0)
    os.unlink(root / name_of(LIMITS.most))
    casrewind("save", "-m", "again", code=0)
    assert set(before) <= set(packfile.kinds(store)[3])
    assert casrewind.json("diff", "few", "again")["changes"] == []


def parts_of(store):
    """{part of the store: bytes of its files}: packs, ledger, index and what else there is."""
    found = {}
    for place, _, names in os.walk(store):
        for name in names:
            path = os.path.join(place, name)
            part = os.path.relpath(path, store).split(os.sep)[0]
            found[part] = found.get(part, 0) + os.path.getsize(path)
    return found


def growth(workspace, root, count, rounds):
    """Bytes that so many checkpoints add to a store, one file edited in each."""
    plant(root, {name_of(number): content_of(number) for number in range(count)})
    workspace.save()
    before = parts_of(workspace.store_path)
    for number in range(1, rounds + 1):
        plant(root, {name_of(number * 7919 % count): content_of(number, number)})
        assert workspace.save().created
    after = parts_of(workspace.store_path)
    added = {part: size - before.get(part, 0) for part, size in after.items() if size != before.get(part, 0)}
    print(f"{rounds} checkpoints of {count:,} names in one directory, one edited in each: {sum(added.values()):,} bytes: {added}")
    return sum(added.values())


def test_an_edit_in_a_large_directory_costs_a_few_kilobytes(workspace, root):
    assert growth(workspace, root, 2000, 20) < 20 * 25_000, "all of the entries would be 80 KB each time"


@pytest.mark.long
@pytest.mark.parametrize(("count", "most"), [(10_000, 2_000_000), (100_000, 4_000_000)])
def test_a_hundred_edits_in_a_directory(workspace, root, count, most):
    assert growth(workspace, root, count, 100) < most
