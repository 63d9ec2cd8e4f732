"""Files written in two halves, the second one while a save walks on. A program, too, for the fault shim."""

import json
import os
import sys

from casrewind.workspace import Settings, Workspace
from support.trees import plant

kinds = ("in place", "append", "then gone")


def halves(root, settings, size, way, rounds=5):
    """The rounds in which a save recorded half a write as clean."""
    plant(root, {f"walk/{place}/{n}": b"" for place in range(4) for n in range(300)})
    bad = []
    for number in range(rounds):
        path = f"{root}/file"
        old, new = bytes([2 * number + 1]) * (size // 2), bytes([2 * number + 2]) * (size // 2)
        if not os.path.exists(path):
            plant(root, {"file": old if way == "append" else old + old})
        fd = os.open(path, os.O_WRONLY | (os.O_TRUNC if way == "append" else 0))
        os.write(fd, new)
        moments = []

        def progress(what, done, total):
            # the first report comes when the root's own files were read; the walk goes on below
            if what == "scanning" and not moments:
                moments.append(done)
                os.write(fd, new)
                if way == "then gone":
                    os.unlink(path)

        with Workspace(root, settings, create=True, progress=progress) as workspace:
            point = workspace.save("round").checkpoint
            assert moments, "the save said nothing of its progress"
            entry = dict(workspace.entries(point)).get(b"file")
            data = b"" if entry is None else b"".join(workspace._site.store.content(entry))
            named = b"file" in workspace.domain(point).unstable
        os.close(fd)
        if data not in (new + new, b"") and not named and way != "then gone":
            bad.append([number, len(data), sorted(set(data))])
        if way == "then gone" and data == b"":
            bad.append([number, "what was there when the save began is not held"])
    return bad


if __name__ == "__main__":
    os.makedirs(f"{sys.argv[1]}/home")
    os.makedirs(f"{sys.argv[1]}/root")
    settings = Settings(home=f"{sys.argv[1]}/home", data=f"{sys.argv[1]}/home/data")
    print(json.dumps(halves(f"{sys.argv[1]}/root", settings, int(sys.argv[2]), sys.argv[3])))
