"""Ask a store everything, in a child process that may die of it. Run as a program; prints one line of JSON.

    ask_store.py STORE PATCHES    PATCHES: JSON on stdin, a list of lists of [file below STORE, offset, bytes in hex]
                                or [file, length] for a cut; each list is one case on a fresh copy of the index

The answer: how many cases gave the right answers ("right"), refused with exit code 20 ("refused"), anything else
("other", with the case and what happened).
"""

import json
import os
import shutil
import sys

from casrewind import errors
from casrewind.model import manifest
from casrewind.store.store import Store
from casrewind.worktree.root import life_of_file_system


def everything(store_path):
    """All that a store can tell, as text."""
    fd = os.open(store_path, os.O_RDONLY)
    life = life_of_file_system(fd)  # the project lies beside its store
    os.close(fd)
    with Store(store_path, deadline=2.0) as store:
        told = []
        for point, marked in store.checkpoints():
            told.append((repr(point), repr(marked), repr(store.checkpoint(point.id)), repr(store.domain(point.domain))))
            for path, entry in manifest.walk(store.load_tree, point.tree):
                told.append((point.id, path, repr(entry)))
                if entry.kind == manifest.FILE:
                    told.append((path, b"".join(store.content(entry))))
        worktrees = {point.worktree for point, _ in store.checkpoints()}
        for worktree in sorted(worktrees):
            told.append((worktree, repr(store.history(worktree)), repr(store.head(worktree))))
            store.has_stat_file(worktree, life)
            store.stat_index(worktree, life)
        return repr(told)


def damage(store_path, case):
    for name, *how in case:
        path = os.path.join(store_path, name)
        if len(how) == 1:
            os.truncate(path, how[0])
        else:
            with open(path, "r+b") as file:
                file.seek(how[0])
                file.write(bytes.fromhex(how[1]))


def in_child(work):
    """The exit status of `work` in a fork: its return value, or minus a signal."""
    pid = os.fork()
    if pid == 0:
        code = 99
        try:
            code = work()
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def main():
    store, cases = sys.argv[1], json.load(sys.stdin)
    before = store + ".before"
    result = {"right": 0, "refused": 0, "other": []}
    report = store + ".report"

    def expect():
        with open(report, "w") as file:
            file.write(everything(store))
        return 0

    assert in_child(expect) == 0
    with open(report) as file:
        expected = file.read()
    shutil.copytree(store, before)

    def ask():
        try:
            return 0 if everything(store) == expected else 50
        except errors.CasrewindError as error:
            return error.exit_code

    for case in cases:
        shutil.rmtree(store)
        shutil.copytree(before, store)
        damage(store, case)
        code = in_child(ask)
        if code == 0:
            result["right"] += 1
        elif code == 20:
            result["refused"] += 1
        else:
            result["other"].append([case, code])
    print(json.dumps(result))


if __name__ == "__main__":
    main()
