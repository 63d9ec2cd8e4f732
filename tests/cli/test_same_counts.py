"""A turn has the same numbers of files in every command: files and links, and an empty directory where it is a row."""

import os
import random
import re
import shutil
import stat
from pathlib import Path

import pytest

from casrewind.cli.picker import picker_rows
from casrewind.cli.picker.file_tree import FileTreeModel
from casrewind.cli.picker.timeline import TURN, TimelineModel
from casrewind.cli.show.changes import counts_by_kind as counts_line
from casrewind.model.diff import counted_changes
from casrewind.workspace import open as opened
from support.agent_turns import AgentTurns
from support.command_in_process import InProcess

NAMES = "abcd"
LETTERS = {"A": "added", "M": "modified", "T": "modified", "D": "removed"}
SIGNS = {"+": "added", "~": "modified", "-": "removed"}


class RandomTree:
    """A small tree. Each edit makes, changes or removes a file, a link or a directory, full or empty."""

    def __init__(self, root, seed):
        self.root, self.chance = str(root), random.Random(seed)

    def edit(self):
        for _ in range(self.chance.randrange(1, 5)):
            self.chance.choice((self.write, self.write, self.write, self.directory, self.remove, self.move, self.replace, self.mode))()

    def place(self):
        return os.path.join(self.root, *self.chance.choices(NAMES, k=self.chance.randrange(1, 4)))

    def write(self):
        path = self.place()
        for above in (os.path.dirname(path), path):
            if os.path.isfile(above) or os.path.islink(above):
                os.unlink(above)
        if self.directory(os.path.dirname(path)) and not os.path.isdir(path):
            with open(path, "w") as file:
                file.writelines(f"{self.chance.randrange(9)}\n" for _ in range(self.chance.randrange(5)))

    def directory(self, path=None):
        try:
            os.makedirs(path or self.place(), exist_ok=True)
        except OSError:  # a file or a link is in the way
            return False
        return True

    def remove(self, path=None):
        path = path or self.place()
        if os.path.isdir(path) and not os.path.islink(path):
            shutil.rmtree(path)
        elif os.path.lexists(path):
            os.unlink(path)

    def move(self):
        path, other = self.place(), self.place()
        if os.path.lexists(path) and os.path.isdir(os.path.dirname(other)) and not os.path.lexists(other) and not other.startswith(path):
            os.rename(path, other)

    def replace(self):
        """A file in place of a directory, the reverse, or a link."""
        path = self.place()
        if not os.path.lexists(path):
            return
        was_directory = os.path.isdir(path) and not os.path.islink(path)
        self.remove(path)
        if self.chance.random() < 0.3:
            os.symlink("b", path)
        elif was_directory:
            open(path, "w").close()
        else:
            os.makedirs(path + self.chance.choice(("", "/a", "/a/b")))

    def mode(self):
        path = self.place()
        if os.path.lexists(path) and not os.path.islink(path):
            os.chmod(path, 0o755 if os.path.isdir(path) and self.chance.random() < 0.5 else 0o700)

    def state(self):
        """{path: its kind, its mode, and what it holds}."""
        found = {}
        for place, directories, names in os.walk(self.root):
            for path in (os.path.join(place, name) for name in (*directories, *names)):
                kind, mode = stat.S_IFMT(os.lstat(path).st_mode), stat.S_IMODE(os.lstat(path).st_mode)
                held = os.readlink(path) if kind == stat.S_IFLNK else Path(path).read_text() if kind == stat.S_IFREG else ""
                found[path] = kind, mode, held
        return found


def is_directory(state, path):
    return path in state and state[path][0] == stat.S_IFDIR


def expected(before, after):
    """(added, modified, removed) between two states, by the rule of the glossary."""
    changed = {path for path in before.keys() | after.keys() if before.get(path) != after.get(path)}
    files = {path for path in changed if path in before and path in after or not is_directory(before, path) and not is_directory(after, path)}

    def is_row(path, side, other):
        above = path.rpartition("/")[0]
        return not any(one.startswith(path + "/") for one in files) and (is_directory(other, above) or above not in side)

    come, gone = ({path for path in changed - files if path in side} for side in (after, before))
    added = {path for path in files if path not in before} | {path for path in come if is_row(path, after, before)}
    removed = {path for path in files if path not in after} | {path for path in gone if is_row(path, before, after)}
    return len(added), len(files & before.keys() & after.keys()), len(removed)


def numbers(text, pattern):
    found = re.search(pattern, text, re.MULTILINE)
    return tuple(int(number.replace(",", "")) for number in found.groups()) if found else (0,) * re.compile(pattern).groups


def summed(lines):
    """Numbers of a summary's rows: a directory's row names its files."""
    found = dict.fromkeys(SIGNS.values(), 0)
    for line in lines:
        if line[:2] in ("+ ", "~ ", "- "):
            of_directory = re.search(r"/ \((\d+) files?\)$", line)
            found[SIGNS[line[0]]] += int(of_directory[1]) if of_directory else 1
    return tuple(found.values())


def of_list(row):
    """A renamed file is one that came and one that is gone."""
    added, modified, removed, moved = (numbers(row, rf"(?:^| ){re.escape(sign)}(\d+)(?: |$)")[0] for sign in "+~-R")
    return added + moved, modified, removed + moved


def listed(changes):
    """Numbers of the changes of a JSON answer."""
    found = dict.fromkeys(SIGNS.values(), 0)
    for change in changes:
        found["modified" if change["status"] == "type" else change["status"]] += 1
    return tuple(found.values())


TURNS = [pytest.param(20, 9), pytest.param(500, 11, marks=pytest.mark.long)]


@pytest.mark.turns(6)
@pytest.mark.parametrize(("count", "seed"), TURNS)
def test_every_command_counts_a_turn_in_the_same_way(root, home, settings, count, seed):
    """The numbers of list --json are those of every other command, and of what a restore does."""
    run, tree = InProcess(root, home), RandomTree(root, seed)
    wanted = []
    with opened(root, settings, create=True) as workspace:
        agent = AgentTurns(workspace, root)
        for number in range(count):
            agent.prompt(f"p{number}", f"prompt {number}")
            before = tree.state()
            tree.edit()
            agent.stop(f"p{number}")
            after = tree.state()
            wanted.append(check_newest(run, before, after))
            if number % 5 == 0 and any(wanted[-1]):
                check_restore(run, wanted[-1])
        turns = run.json("list", "-n", str(count))["turns"]
        assert [tuple(turn["changes"].values()) for turn in reversed(turns)] == wanted
        check_picker(TimelineModel(workspace._context), wanted[::-1])
    assert all(map(any, zip(*wanted, strict=True)))


def check_newest(run, before, after):
    """Compare what the commands say of @1. Returns its numbers."""
    found = run.json("list", "-n", "1")["turns"][0]
    counts = added, modified, removed = tuple(found["changes"].values())
    total = added + modified + removed
    assert len(found["paths"]) == total
    assert counts == expected(before, after)
    row = run("list", "-n", "1", code=0).out.splitlines()[0]
    assert of_list(row) == counts, row

    plain = ("@1", "--no-renames")
    summary = run("diff", *plain, code=0).out
    assert numbers(summary, r"^(\d+) added, (\d+) modified, (\d+) removed$") == counts, summary
    assert summed(summary.splitlines()) == counts, summary
    for command in ("diff", "show"):
        table = run(command, *plain[: 2 if command == "diff" else 1], "--stat", code=0).out
        rows, moved = [line for line in table.splitlines() if " | " in line], table.count(" => ")
        assert numbers(table, r"^ (\d+) files? changed") == (total - moved,) == (len(rows),), table
    status = [line.split("\t")[0] for line in run("diff", *plain, "--name-status", code=0).out.splitlines()]
    assert [sum(LETTERS[letter] == name for letter in status) for name in SIGNS.values()] == [*counts]
    renamed = run("diff", "@1", code=0).out
    fewer = numbers(renamed, r"^(\d+) added, (\d+) modified, (\d+) removed, (\d+) renamed$")
    assert not any(fewer) or (fewer[0] + fewer[3], fewer[1], fewer[2] + fewer[3]) == counts, renamed
    assert numbers(row, r" R(\d+) ")[0] == fewer[3], (row, renamed)

    assert listed(run.json("diff", "@1")["changes"]) == counts
    assert listed(run.json("show", "@1")["changes"]) == counts
    newest = run.json("list", "--all", "-n", "1")["checkpoints"][0]
    assert newest["trigger"] == "turn_end" and tuple(newest["changes"].values()) == counts
    assert f"+{added} ~{modified} -{removed}" in run("list", "--all", "-n", "1", code=0).out

    unchanged = sum(after.get(path) == what and not is_directory(before, path) for path, what in before.items())
    for command in ("restore", "revert"):
        plan = run(command, "@1", "--dry-run", code=0).out
        assert numbers(plan, r"^would \w+ (\d+) paths? and remove (\d+)") == (modified + removed, added), plan
        assert summed(line.strip() for line in plan.splitlines()) == (removed, modified, added), plan
        as_json = run.json(command, "@1", "--dry-run")
        assert (as_json["restored"], as_json["removed"]) == (modified + removed, added)
        assert listed(as_json["changes"]) == (removed, modified, added)
    assert numbers(run("restore", "@1", "--dry-run", code=0).out, r"(\d+) paths? would stay") == (unchanged,)
    return counts


def check_restore(run, counts):
    """A restore of @1, and its undo, name the same numbers when they are done."""
    added, modified, removed = counts
    for command, written, gone in (("restore", modified + removed, added), ("undo", added + modified, removed)):
        line = run(command, *(["@1"] if command == "restore" else []), "-y", code=0).out
        assert numbers(line, r"(\d+) paths? written, (\d+) removed") == (written, gone), line
    rows = run.json("list")["rows"]
    assert [tuple(row["changes"].values()) for row in rows[:2]] == [(added, modified, removed), (removed, modified, added)]


def check_picker(model, wanted):
    """A row of the picker, the line above its files, and the tree of its files."""
    for row in [row for row in model.first_timeline().rows if picker_rows.number_of_turn(row)]:
        (row,) = model.turns_with_changes([row]).values()
        counts = added, modified, removed = wanted[row.item.n - 1]
        assert tuple(picker_rows.change_counts(row)) == counts
        found = model.preview(row, TURN, None).found
        words = [f"{number} {name}" for number, name in ((removed, "removed"), (modified, "changed"), (added, "added")) if number]
        assert counts_line(found, is_to_here=False) == (", ".join(words) or "no file changed")
        assert len(FileTreeModel(counted_changes(found.changes)).changes) == sum(counts)
