"""Is a store whole, and is a worktree free of what a restore leaves only when it was interrupted?

The bytes are read through the store's own doors (which check every digest); what is asked of them is written here.
"""

import os

from casrewind.model import plan as plans


def leftovers(root):
    """Names of temporary or set-aside files below `root`."""
    return sorted(
        os.path.join(place, name)
        for place, directories, names in os.walk(os.fsencode(root))
        for name in (*directories, *names)
        if name.startswith(b".casrewind-tmp-") or b".casrewind-kept" in name
    )


def read_everything(workspace):
    """{checkpoint id: {path: bytes of the file or None}}, after reading every blob that any checkpoint or undo step
    names. Raises what the store raises for a missing or damaged one."""
    store, found = workspace._context.store, {}
    for point, _ in workspace.checkpoints(every_worktree=True):
        for rule in workspace.domain(point).rules:
            store.read(rule.digest)
        files = found[point.id] = {}
        size = 0
        for path, entry in workspace.entries(point):
            files[path] = b"".join(store.content(entry)) if entry.kind == "file" else None
            if entry.kind == "file":
                assert len(files[path]) == entry.size, (point.id, path)
                size += entry.size
        assert point.trigger == "safety" or size == point.size, (point.id, size, point.size)
    history = store.history(workspace.root.key)
    for step in (*history.undo, *history.redo):
        assert step.safety in found, f"an undo step names checkpoint {step.safety}, which is not there"
        for action in store.plan(step.plan):
            for entry in (action.before, action.after):
                if entry is not None and entry.kind == "file" and plans.content_differs(action):
                    for _ in store.content(entry):
                        pass
    return found
