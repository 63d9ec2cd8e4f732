"""A program that changes files while something else runs: one line on stdin starts a round, one JSON line answers.

A round is {"root", "seed", "edit": [...], "replace": [...], "append": [...], "create": [...]}: paths below the root that
are changed once each, in an order and at moments that hang on the seed. The answer lists [path, how, marker, seen]:
`seen` is True when the marker was under that path at a moment when all of it was written, so nobody may lose it.
"""

import json
import os
import random
import sys
import time


def edit(path, marker):
    """Overwrite in place."""
    return _in_place(path, marker, os.O_WRONLY | os.O_TRUNC)


def append(path, marker):
    """Add a line."""
    return _in_place(path, marker, os.O_WRONLY | os.O_APPEND)


def _in_place(path, marker, flags):
    fd = os.open(path, flags)
    try:
        os.write(fd, marker)
        mine = os.fstat(fd)
    finally:
        os.close(fd)
    # the file may have lost its name between open and write: then nobody had promised anything (a documented limit)
    try:
        there = os.lstat(path)
    except OSError:
        return False
    return (there.st_dev, there.st_ino) == (mine.st_dev, mine.st_ino)


def replace(path, marker):
    """Write beside it and rename over it, as most editors do."""
    create(path + ".swp", marker)
    os.rename(path + ".swp", path)
    return True


def create(path, marker):
    """A new file."""
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
    try:
        os.write(fd, marker)
    finally:
        os.close(fd)
    return True


WAYS = {"edit": edit, "replace": replace, "append": append, "create": create}


def main():
    print("ready", flush=True)
    for line in sys.stdin:
        order = json.loads(line)
        chance = random.Random(order["seed"])
        todo = [(how, path) for how in WAYS for path in order[how]]
        chance.shuffle(todo)
        written = []
        time.sleep(chance.random() * order["within"])
        for how, path in todo:
            marker = f"<{how} {path} {order['seed']}>"
            try:
                seen = WAYS[how](f"{order['root']}/{path}", marker.encode())
            except OSError:
                continue  # the place is gone, or taken: nothing was written
            written.append([path, how, marker, seen])
            time.sleep(chance.random() * order["within"] / len(todo))
        print(json.dumps(written), flush=True)


if __name__ == "__main__":
    main()
