"""What `status` says is not captured, against a walk of the test's own over the project."""

import os
import re


def walk(root):
    """Returns ({path of each entry that is no directory: its size}, the directories), without the root's own `.git`."""
    files, directories = {}, set()
    for place, below, names in os.walk(root):
        here = os.path.relpath(place, root)
        if here == ".":
            below[:] = [name for name in below if name != ".git"]
        for name in (*below, *names):
            path = os.path.normpath(os.path.join(here, name))
            if name in below and not os.path.islink(os.path.join(place, name)):
                directories.add(path)
            else:
                files[path] = os.lstat(os.path.join(place, name)).st_size
    return files, directories


def covering(path, places):
    """Those of `places` that are the path or a directory above it."""
    parts = path.split("/")
    return [place for place in ("/".join(parts[: depth + 1]) for depth in range(len(parts))) if place in places]


def check_that_all_is_accounted_for(casrewind, root):
    """Everything that a save just now did not capture is named or counted by `status`, once, and the sums are right. Returns
    (files captured, files left out by rules, files skipped)."""
    casrewind("save", "-q")
    files, directories = walk(root)
    captured = {entry["path"] for entry in casrewind.json("show", "last", "--files")["entries"]}
    found = casrewind.json("status")
    assert found["ignored_complete"] is True
    ignored = {entry["path"]: entry for entry in found["ignored"]}
    skipped = {skip["path"] for skip in found["skipped"]}
    assert len(ignored) == len(found["ignored"]) and not ignored.keys() & skipped
    counts, sizes, left, passed = dict.fromkeys(ignored, 0), dict.fromkeys(ignored, 0), 0, 0
    for path in (*files, *directories):
        by_rules, by_skip = covering(path, ignored), covering(path, skipped)
        wanted = 0 if path in captured else 1
        assert len(by_rules) + len(by_skip) == wanted, (path, by_rules, by_skip)
        if path in files and by_rules:
            counts[by_rules[0]] += 1
            sizes[by_rules[0]] += files[path]
            left += 1
        passed += path in files and bool(by_skip)
    assert counts == {path: entry["files"] for path, entry in ignored.items()}
    assert sizes == {path: entry["bytes"] for path, entry in ignored.items()}
    assert all(entry["directory"] == (path in directories) for path, entry in ignored.items())
    assert sum(entry["files"] for entry in ignored.values()) == left
    check_lines(casrewind, found["ignored"], left)
    return len(captured & files.keys()), left, passed


def check_lines(casrewind, ignored, left):
    """The lines for people name or count each of these, too."""
    guessed = [entry for entry in ignored if entry["recreatable"]]
    wanted = [entry for entry in ignored if not entry["recreatable"]]
    text, listed = casrewind("status").out, casrewind("status", "--ignored").out
    for kind, some in (("not protected, because git ignores it: ", wanted), ("also left out: ", guessed)):
        lines = [line for line in text.splitlines() if line.startswith("  " + kind)]
        assert len(lines) == bool(some), (kind, lines)
        if some:
            more = re.search(r" and ([\d,]+) more", lines[0])
            assert max(len(some) - 5, 0) <= (int(more[1].replace(",", "")) if more else 0) < len(some), lines
    counted = re.search(r"^  also left out: .* \(([\d,]+) files?\); status --ignored lists them$", text, re.MULTILINE)
    assert (int(counted[1].replace(",", "")) if counted else 0) == sum(entry["files"] for entry in guessed), text
    rows = [line.strip().rsplit("  ", 1) for line in listed.splitlines() if line.startswith("    ") and line.endswith("B")]
    files = sum(int(found[1].replace(",", "")) if (found := re.match(r"([\d,]+) files?, ", what)) else 1 for _, what in rows)
    assert len(rows) == len(ignored) and files == left, listed
