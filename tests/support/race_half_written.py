"""Files written in two halves, the second one while a save walks on. A program, too, for the fault shim, and a writer
that knows nothing of saves: `python -m support.race_half_written write FILE LOG`."""

import bisect
import collections
import json
import os
import random
import subprocess
import sys
import time

from casrewind.model.retention import Limits
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
            data = b"" if entry is None else b"".join(workspace._context.store.content(entry))
            named = b"file" in workspace.domain(point).unstable
        os.close(fd)
        if data not in (new + new, b"") and not named and way != "then gone":
            bad.append([number, len(data), sorted(set(data))])
        if way == "then gone" and data == b"":
            bad.append([number, "what was there when the save began is not held"])
    return bad

class Watch:
    """What a save opens and lists below the worktree, as the interpreter tells of it: the moments that there are."""

    def __init__(self):
        self.call = None
        sys.addaudithook(self._hear)  # for the rest of the process

    def _hear(self, event, arguments):
        if self.call is not None and event in ("open", "os.scandir") and isinstance(arguments[0], bytes | int):
            self.call(arguments[0])

def clear_up(workspace, number):
    if number % 200 == 199:  # else each save lists thousands of packs
        workspace.gc(Limits(max_age=None, max_count=1))

def held(workspace, name):
    """The bytes of a file in the state that a save finds now, and whether it is named as unstable."""
    point = workspace.save().checkpoint
    entry = dict(workspace.entries(point)).get(name)
    data = None if entry is None else b"".join(workspace._context.store.content(entry))
    return data, name in workspace.domain(point).unstable

def moments(root, settings, rounds):
    """Saves with the second half at a random moment; counts, and the rounds that recorded half a write as clean.

    Behind the last look at the file nobody can know that there will be more: docs/internals/design.md.
    """
    chance, counts, bad, usual = random.Random(5), collections.Counter(), [], 12
    plant(root, {f"walk/{place}/{n}": b"" for place in range(8) for n in range(4)})
    watch = Watch()
    with Workspace(root, settings, create=True) as workspace:
        for number in range(rounds):
            name = chance.choice((b"file", b"walk/0/file", b"walk/6/file"))
            path, own = f"{root}/{name.decode()}", name.rpartition(b"/")[2]
            size, way = chance.choice((3000, 3000, 300_000, 3_000_000)), chance.choice(kinds)
            old, new = (bytes([1 + (2 * number + half) % 254]) * (size // 2) for half in range(2))
            if not os.path.exists(path):
                plant(root, {name: old if way == "append" else old + old})
            fd = os.open(path, os.O_WRONLY | os.O_TRUNC)
            os.write(fd, new if way == "append" else new + old)
            os.lseek(fd, size // 2, os.SEEK_SET)
            at, seen, looks, written = chance.randrange(usual), 0, 0, None

            def hear(what, fd=fd, path=path, own=own, new=new, way=way, at=at):
                nonlocal seen, looks, written
                if seen == at:
                    written = looks
                    os.write(fd, new)
                    if way == "then gone":
                        os.unlink(path)
                seen += 1
                looks += what == own

            watch.call = hear
            data, named = held(workspace, name)
            watch.call = None
            usual = seen + 1 if looks else usual
            if written is None:
                os.write(fd, new)
            os.close(fd)
            is_between = written == 1 and looks > 1  # on a busy machine the last look may be a stat, which nobody hears, and the write behind it
            when = "before the first look" if written == 0 else "between the looks" if is_between else "later"
            is_torn = data not in (new + new, None)
            state = "named as unstable" if named else "half a write" if is_torn else "gone" if data is None else "whole"
            if is_torn and way == "then gone":  # nobody can look again; that it is held at all is what matters
                state = "removed with its other half, what was there is held"
            counts[f"{when}: {state}"] += 1
            if state == "half a write" and when != "later":
                bad.append([number, size, way, at, len(data), sorted(set(data))])
            clear_up(workspace, number)
    return counts, bad

def races(root, settings, rounds):
    """As `moments`, but the writer is another process that pauses for up to 3 ms between its halves."""
    plant(root, {"file": b"\1" * SIZE, **{f"walk/{place}/{n}": b"" for place in range(20) for n in range(20)}})
    counts, bad, log = collections.Counter(), [], f"{root}.log"
    watch, looked, saves = Watch(), [], []
    writer = subprocess.Popen([sys.executable, "-m", "support.race_half_written", "write", f"{root}/file", log], stdout=subprocess.PIPE,
                              env={**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)})  # fmt: skip
    try:
        writer.stdout.readline()
        watch.call = lambda what: looked.append(time.monotonic()) if what == b"file" else None
        with Workspace(root, settings, create=True) as workspace:
            for number in range(rounds):
                data, named = held(workspace, b"file")
                saves.append((data[0], data[SIZE // 2], len(set(data)), named, looked[-1], time.monotonic()))
                clear_up(workspace, number)
    finally:
        watch.call = None
        writer.kill()
        writer.communicate()
    with open(log) as file:
        written = [tuple(map(float, line.split())) for line in file if line.endswith("\n")]
    begun = [first for _, first, _ in written]
    for number, (one, other, values, named, look, end) in enumerate(saves):
        if named or (one == other and values == 1):
            counts["named as unstable" if named else "whole"] += 1
            continue
        last = next(write for write in reversed(written[: bisect.bisect(begun, end)]) if int(write[0]) == one)
        if last[2] < look:  # it was all there when the save looked again
            bad.append([number, one, other, last, look])
        counts["half a write, the other half came behind the last look"] += 1
    return counts, bad

def write(path, log):
    chance, number = random.Random(6), 1
    fd = os.open(path, os.O_WRONLY)
    print("ready", flush=True)
    with open(log, "w", buffering=1) as file:
        while True:
            number += 1
            half = bytes([1 + number % 250]) * (SIZE // 2)
            first = time.monotonic()
            os.pwrite(fd, half, 0)
            time.sleep(chance.random() * 0.003)
            os.pwrite(fd, half, SIZE // 2)
            print(half[0], first, time.monotonic(), file=file)
            time.sleep(chance.random() * 0.01)

SIZE = 200_000

if __name__ == "__main__":
    if sys.argv[1] == "write":
        write(*sys.argv[2:])
    os.makedirs(f"{sys.argv[1]}/home")
    os.makedirs(f"{sys.argv[1]}/root")
    settings = Settings(home=f"{sys.argv[1]}/home", data=f"{sys.argv[1]}/home/data")
    print(json.dumps(halves(f"{sys.argv[1]}/root", settings, int(sys.argv[2]), sys.argv[3])))
