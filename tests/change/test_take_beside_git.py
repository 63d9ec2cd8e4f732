"""Random edits of a project and of a directory that was made from it: take equals a three-way merge of each path, in which
`git merge-file` merges the files, and undo gives every byte back.

The reference is a dictionary: {path: ("dir", mode) or ("file", mode, bytes) or ("link", target)}.
"""

import os
import random
import subprocess

import pytest

from casrewind.workspace import open as opened
from support.picture import picture
from support.trees import Dir, Link, plant

PLACES = ("", "src/", "src/deep/", "doc/")


def read(root):
    """The dictionary of a tree."""
    return {path: (*entry[:2], (root / os.fsdecode(path)).read_bytes()) if entry[0] == "file" else entry for path, entry in picture(root).items()}


def line(chance):
    return chance.choice([b"\n", b"}\n"]) if chance.random() < 0.15 else b"statement %d\n" % chance.randrange(10**6)


def content(chance):
    return bytes(chance.randrange(256) for _ in range(20)) + b"\0" if chance.random() < 0.2 else b"".join(line(chance) for _ in range(chance.randrange(25)))


def make(chance, root):
    paths = [f"{chance.choice(PLACES)}{name}" for name in "abcdefgh"]
    plant(root, {path: Link(chance.choice("abc")) if chance.random() < 0.1 else content(chance) for path in paths} | {"empty": Dir()})


def edit(chance, root):
    """Some changes of one side."""
    for _ in range(chance.randint(4, 12)):
        paths = [os.fsdecode(path) for path in read(root)]
        path = chance.choice(paths) if paths else "new"
        place = root / path
        if place.is_symlink():
            place.unlink()
            if chance.random() < 0.6:
                place.symlink_to(chance.choice("abcd"))
        elif place.is_dir():
            kind = chance.random()
            if kind < 0.5:
                plant(root, {f"{path}/{chance.choice('xyz')}": content(chance)} if not any((place / name).is_dir() for name in "xyz") else {})
            elif kind < 0.6:
                subprocess.run(["rm", "-r", str(place)], check=True)
                if chance.random() < 0.5:
                    place.write_bytes(content(chance))
            elif kind < 0.8:
                place.chmod(chance.choice([0o755, 0o700]))
            else:
                (place / chance.choice("pq")).mkdir(exist_ok=True)
        elif place.is_file():
            kind, data = chance.random(), place.read_bytes()
            if kind < 0.6 and b"\0" not in data:
                lines = data.splitlines(keepends=True)
                at = chance.randint(0, len(lines))
                lines[at : at + chance.randint(0, 3)] = [line(chance) for _ in range(chance.randint(0, 3))]
                place.write_bytes(b"".join(lines))
            elif kind < 0.75:
                place.chmod(chance.choice([0o755, 0o644, 0o600]))
            elif kind < 0.85:
                place.write_bytes(content(chance))
            else:
                place.unlink()
                if chance.random() < 0.2:
                    plant(root, {f"{path}/in": content(chance)})


def merged_by_git(place, base, ours, theirs):
    """The bytes, or None for a conflict."""
    for name, data in (("base", base), ("ours", ours), ("theirs", theirs)):
        (place / name).write_bytes(data)
    done = subprocess.run(["git", "merge-file", "-p", "--diff3", "ours", "base", "theirs"], cwd=place, capture_output=True)
    return done.stdout if done.returncode == 0 else None


def merged_path(place, base, ours, theirs):
    """(what the path becomes, True if that is a conflict)."""
    if ours == theirs or base == theirs:
        return ours, False
    if ours == base:
        return theirs, False
    if None in (base, ours, theirs) or {base[0], ours[0], theirs[0]} != {"file"}:
        return ours, True
    parts = []
    for one, mine, other in zip(base[1:], ours[1:], theirs[1:], strict=True):
        if mine in (one, other) or other == one:
            parts.append(other if mine == one else mine)
        elif isinstance(one, int) or any(b"\0" in each for each in (one, mine, other)) or (found := merged_by_git(place, one, mine, other)) is None:
            return ours, True
        else:
            parts.append(found)
    return ("file", *parts), False


def merged_tree(place, base, ours, theirs):
    """(the tree, the paths with a conflict): each path on its own, and then what a tree allows."""
    replaced = {
        path for path in base
        if base[path][0] == "dir" and path in theirs and theirs[path][0] != "dir" and ours.get(path) != theirs[path]
        and any(ours.get(each) != base.get(each) for each in base.keys() | ours.keys() if each == path or each.startswith(path + b"/"))
    }  # fmt: skip
    result, conflicts = {}, set(replaced)
    for path in sorted(base.keys() | ours.keys() | theirs.keys()):
        if any(path == each or path.startswith(each + b"/") for each in replaced):
            entry, is_conflict = ours.get(path), False
        else:
            entry, is_conflict = merged_path(place, base.get(path), ours.get(path), theirs.get(path))
        if is_conflict:
            conflicts.add(path)
        if entry is not None:
            result[path] = entry
    for path in sorted(result, reverse=True):  # a directory that holds something stays
        for parent in parents(path):
            if parent not in result and ours.get(parent, ("",))[0] == "dir" and result[path] == ours.get(path):
                result[parent] = ours[parent]
                conflicts.add(parent)
    for path in sorted(result):
        for parent in parents(path):
            if parent not in result and parent not in ours and path not in base and theirs.get(parent, ("",))[0] == "dir":
                result[parent] = theirs[parent]
                conflicts.discard(parent)
            if result.get(parent, ("",))[0] != "dir":  # nothing can be there
                result.pop(path, None)
                conflicts.add(path)
                break
    return result, conflicts


def parents(path):
    parts = path.split(b"/")
    return [b"/".join(parts[:count]) for count in range(1, len(parts))]


@pytest.mark.parametrize("count", [12, pytest.param(500, marks=pytest.mark.long)])
def test_take_is_a_three_way_merge_of_each_path_and_undo_is_exact(count, settings, tmp_path):
    scratch = tmp_path / "git"
    scratch.mkdir()
    changed = conflicting = finer = 0
    for seed in range(count):
        chance = random.Random(seed)
        root, made = tmp_path / f"project{seed}", tmp_path / f"try{seed}"
        root.mkdir()
        make(chance, root)
        with opened(root, settings) as workspace:
            workspace.materialise(workspace.save().checkpoint, made)
            base = read(root)
            assert read(made) == base
            edit(chance, root)
            edit(chance, made)
            ours, theirs, before = read(root), read(made), picture(root, mtimes=True)
            expected, conflicts = merged_tree(scratch, base, ours, theirs)
            done = workspace.take(made)
            result, kept = read(root), {item.path for item in done.kept}
            for path in expected.keys() | result.keys():
                if result.get(path) == expected.get(path):
                    continue
                # git may align equal lines in another way: then the file is left alone
                assert path in kept and result.get(path) == ours.get(path), (seed, path, result.get(path), expected.get(path))
                finer += 1
            assert conflicts - kept == set(), (seed, conflicts - kept)
            assert read(made) == theirs
            changed += len(base.items() ^ theirs.items())
            conflicting += len(conflicts)
            if done.actions:
                workspace.undo()
            assert picture(root, mtimes=True) == before, seed
    print(f"{count} trees: {changed} changed paths there, {conflicting} conflicts, {finer} left alone that git merges")
    assert conflicting > count / 2 and finer <= changed / 500
