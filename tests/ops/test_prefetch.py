"""Trees and contents of one restore: read once, and not all of them held."""

from casrewind.model import digest as digests
from casrewind.model import manifest
from casrewind.model.plan import Action
from casrewind.ops import execute
from casrewind.ops.execute import Contents
from casrewind.store.reading import TreeCache
from support.trees import plant


def test_a_tree_is_loaded_once_as_long_as_there_are_not_too_many():
    loads = []

    def load(digest):
        loads.append(digest)
        return [(b"%d" % number, manifest.link_entry(digest)) for number in range(3)]

    remembered = TreeCache(load, 10)
    assert remembered(b"one") is remembered(b"one")
    assert remembered(b"two") == load(b"two")
    assert loads == [b"one", b"two", b"two"]
    remembered(b"three")  # one too many: 4 for each
    assert remembered(b"one") == load(b"one")
    assert loads == [b"one", b"two", b"two", b"three", b"one", b"one"]


def test_contents_come_in_whatever_order_they_are_asked_for(workspace, root, monkeypatch):
    monkeypatch.setattr(execute, "_FILES", 3)
    files = {f"f{number}": b"content %d" % (number // 2) for number in range(12)} | {"large": b"0123456789abcdef" * 90_000}
    plant(root, files)
    tree = workspace.save().checkpoint.tree
    store = workspace._context.store
    actions = [Action(path, None, entry, path) for path, entry in manifest.walk(store.load_tree, tree)]
    for order in (actions, actions[::-1], actions[5:] + actions[:5], actions[::2]):
        read = Contents(store, [action.after for action in actions])
        for action in order:
            assert digests.of(b"".join(read(action.after))) == action.after.digest
            assert len(read._ahead) <= 3
