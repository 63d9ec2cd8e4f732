"""The meta of a save: a program gives it keys and values, and finds the checkpoint by them."""

import pytest

from casrewind.errors import UsageError
from casrewind.model.retention import Limits
from casrewind.workspace import Workspace
from support.trees import plant


def test_200_tool_calls_are_found_by_their_meta_and_restored(workspace, root, settings):
    for step in range(200):
        plant(root, {f"d{step % 10}/f": b"%d" % step, "last": b"%d" % step})
        if step % 2:
            assert workspace.save(meta={"episode": str(step % 5), "step": str(step)}).created
    with Workspace(str(root), settings, create=False) as again:
        assert len(again.checkpoints()) == 100
        found = again.checkpoints(meta={"episode": "2"})
        assert [point.meta["step"] for point, _ in found] == [str(step) for step in range(197, 0, -10)]
        [(point, _)] = again.checkpoints(meta={"step": "77", "episode": "2"})
        again.restore(point)
        assert (root / "last").read_bytes() == b"77" and (root / "d8" / "f").read_bytes() == b"68"
        assert again.checkpoints(meta={"step": "77", "episode": "3"}) == [] == again.checkpoints(meta={"step": "7 "})
        assert again.verify().problems == ()


def test_a_save_with_meta_is_published_also_if_nothing_changed(workspace, root):
    plant(root, {"f": b"1"})
    first = workspace.save()
    assert workspace.save(meta={"step": "1"}).created and workspace.save(meta={"step": "1"}).created
    assert [point.meta for point, _ in workspace.checkpoints()] == [{"step": "1"}, {"step": "1"}, {}]
    newest = workspace.checkpoints()[0][0]
    assert not workspace.save().created and not workspace.save(meta={}).created
    assert newest.tree == first.checkpoint.tree and newest.label == "" and newest.more.meta == (("step", "1"),)
    assert len(workspace.checkpoints(meta={})) == 3


MANY = {str(number): "" for number in range(17)}
WRONG = [
    (MANY, "meta has 17 keys"), ({"": "7"}, "empty key"), ({"a": "x" * 4096}, "meta has 4,097 bytes"), ({"é" * 2049: ""}, "meta has 4,098 bytes"),
    ({"step": 3}, "the value of 'step' in meta is not text"), ({7: "step"}, "the key 7 in meta is not text"), ({"a": None}, "not text"),
    ({"a": b"b"}, "not text"), ([("a", "b")], "not a mapping"), ("a", "not a mapping"), (7, "not a mapping"), ({"a": "\udc80"}, "the value of 'a' in meta is not valid Unicode"),
]  # fmt: skip


@pytest.mark.parametrize(("wrong", "words"), WRONG)
def test_meta_that_cannot_be_stored_is_refused_in_words_and_nothing_is_saved(workspace, root, wrong, words):
    plant(root, {"f": b"1"})
    for verb in (workspace.save, workspace.checkpoints):
        with pytest.raises(UsageError) as caught:
            verb(meta=wrong)
        assert words in str(caught.value)
    assert workspace.checkpoints() == []


def test_the_largest_meta_is_stored_as_it_is(workspace, root):
    plant(root, {"f": b"1"})
    meta = {f"{number:02}": "é" * 127 for number in range(16)}
    assert sum(len((key + value).encode()) for key, value in meta.items()) == 4096
    meta["00"] = "a=b\n\x1b[31m\0" + "x" * (254 - 10)
    workspace.save("a label", meta=meta)
    [(point, _)] = workspace.checkpoints(meta=meta)
    assert point.meta == meta and point.label == "a label"


def test_meta_keeps_no_checkpoint(workspace, root):
    for step in range(3):
        plant(root, {"f": b"%d" % step})
        workspace.save(meta={"step": str(step)}, pin=step == 0)
    workspace.gc(Limits(max_age=None, max_count=1, keep_last=0))
    assert [point.meta["step"] for point, _ in workspace.checkpoints()] == ["2", "0"]


@pytest.fixture
def saved(workspace, root):
    for step in range(3):
        plant(root, {"f": b"%d" % step})
        workspace.save(meta={"episode": "7", "step": f"Step-{step}\nof\x1b[2J"})
    workspace.save("a label", meta={"kind": "labelled"})
    return workspace


def test_show_has_a_line_for_each_key_and_no_control_character(saved, casrewind):
    found = [line for line in casrewind("show", "prev", code=0).out.splitlines() if line.startswith("  meta")]
    assert found == ["  meta      episode=7", "  meta      step=Step-2\\nof\\x1b[2J"]


def test_json_has_the_meta_of_each_checkpoint(saved, casrewind):
    found = casrewind.json("list")["checkpoints"]
    assert [point["meta"].get("kind") for point in found] == ["labelled", None, None, None]
    assert casrewind.json("show", "prev")["checkpoint"]["meta"] == {"episode": "7", "step": "Step-2\nof\x1b[2J"}


def test_list_finds_a_value_and_a_key_with_its_value(saved, casrewind):
    for words, count in (("step-1", 1), ("step=Step-1", 1), ("episode=7", 3), ("episode=8", 0), ("KIND=lab", 1)):
        found = casrewind.json("list", "--grep", words)
        assert (len(found["checkpoints"]), len(found["rows"])) == (count, count), words
        every = casrewind("list", "--all", "--grep", words, code=0).out.splitlines()
        assert sum(line.startswith("c") for line in every) == count, every
    (line,) = casrewind("list", "--grep", "step-1", code=0).out.splitlines()
    assert "saved: episode=7, step=Step-1" in line and "\x1b" not in line
    assert "saved: a label" in casrewind("list", "--grep", "labelled", code=0).out
