"""Edits that come right after a save, in a process of their own where the fault shim has to be loaded."""

import json
import os
import sys
import time

from casrewind.model.retention import Limits
from casrewind.workspace import Settings, Workspace


def opened(base):
    home, root = f"{base}/home-{os.getpid()}", f"{base}/project-{os.getpid()}"
    os.makedirs(home)
    os.makedirs(root)
    return root, Workspace(root, Settings(home=home, data=f"{home}/data"), create=True)


def put(path, data):
    """Overwrite in place: the same inode, as most editors and every append do not."""
    fd = os.open(path, os.O_WRONLY | os.O_CREAT, 0o644)
    try:
        os.write(fd, data)
    finally:
        os.close(fd)


def held(workspace):
    """{path: bytes or None} of the state that a save finds now."""
    point = workspace.save().checkpoint
    content = workspace._context.store.content
    return {path: b"".join(content(entry)) if entry.kind == "file" else None for path, entry in workspace.entries(point)}


def stamp(path):
    status = os.stat(path)
    return status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino


def names(directory, number, half, data):
    """One more name in half b, while an ignored one goes: where a directory's size tells of its names, it stays."""
    if half == b"b":
        os.unlink(f"{directory}/pad-{number}.tmp")
        put(f"{directory}/came-{number}", data)
    elif number == 0:
        os.makedirs(directory, exist_ok=True)
        for n in range(40):
            put(f"{directory}/pad-{n}.tmp", b"")
            if os.path.exists(f"{directory}/came-{n}"):
                os.unlink(f"{directory}/came-{n}")


def rounds(base, count):
    """What was missed in `count` rounds of: change files, directories and rules; save; the same again at once; save."""
    root, workspace = opened(base)
    missed, same = [], 0
    for name, data in {"sub/kept": b"0", "ruled/xa": b"a", "ruled/xb": b"b", ".gitignore": b"*.tmp\n"}.items():
        os.makedirs(os.path.dirname(f"{root}/{name}"), exist_ok=True)
        put(f"{root}/{name}", data)
    with workspace:
        for number in range(count):
            before = None
            if number % 200 == 199:  # else each save lists thousands of packs
                workspace.gc(Limits(max_age=None, max_count=1))
            if number % 40 == 0:
                came = {}
            for half in (b"a", b"b"):
                data = half + b"%07d" % number
                if half == b"b":
                    came[number % 40] = data
                put(f"{root}/file", data)
                put(f"{root}/sub/file", data)
                rules = b"x" + half + b"\n"
                put(f"{root}/ruled/.gitignore", rules)
                wanted = {b"file": data, b"sub/file": data, b"ruled/.gitignore": rules}
                for place in ("", "sub/", "sub/new/"):
                    names(f"{root}/{place}", number % 40, half, data)
                    for n in range(40):
                        wanted[f"{place}came-{n}".encode()] = came.get(n)
                wanted[b"ruled/xa"], wanted[b"ruled/xb"] = (None, b"b") if half == b"a" else (b"a", None)
                now = stamp(f"{root}/file"), stamp(f"{root}/sub"), stamp(f"{root}/ruled/.gitignore")
                found = held(workspace)
                missed += [[number, half.decode(), name.decode()] for name in wanted if found.get(name) != wanted[name]]
                same += now == before
                before = now
    return {"rounds": count, "same stamp": same, "missed": missed}


def put_back(base, count):
    """Files that were saved and believed, edited with the size kept and the mtime put back: what the next save missed."""
    root, workspace = opened(base)
    paths = [f"{root}/{number:04d}" for number in range(count)]
    with workspace:
        for path in paths:
            put(path, b"before")
        time.sleep(3.1)  # no stamp is racy any more, not even in whole seconds
        held(workspace)
        for path in paths:
            status = os.stat(path)
            put(path, b"AFTER!")
            os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
            assert os.stat(path).st_mtime_ns == status.st_mtime_ns and os.stat(path).st_size == status.st_size
        found = held(workspace)
    return {"edited": count, "missed": [path for path in paths if found[os.path.basename(path).encode()] != b"AFTER!"]}


if __name__ == "__main__":
    print(json.dumps({"rounds": rounds, "put_back": put_back}[sys.argv[2]](sys.argv[1], int(sys.argv[3]))))
