"""A session on a real tree: each turn is taken back alone, beside `git revert` in a repository of the same history.

What may differ, by name: `git revert` aligns lines by its own method (histogram), `git merge-file` as casrewind does. Where
the two disagree, casrewind has to be with `git merge-file`. `git revert` follows renames, casrewind does not.
"""

import os
import random
import subprocess
from collections import Counter

import pytest

from casrewind.workspace import open as opened
from support import real_trees
from support.agent_turns import AgentTurns
from support.picture import picture


class Session:
    """Turns and a person's edits in `root`, each a commit of a repository elsewhere that only reads `root`."""

    def __init__(self, root, repository, workspace):
        self.random, self.root, self.repository, self.made = random.Random(40), root, repository, 0
        self.git("init", "-q", "--bare", repository, inside=False)
        self.agent = AgentTurns(workspace, root)
        self.pool = self.random.sample(sorted(path for path in root.rglob("*.py") if path.stat().st_size > 500), 40)
        self.commit("start")

    def git(self, *words, inside=True):
        place = [f"--git-dir={self.repository}", f"--work-tree={self.root}"] if inside else []
        settings = ("user.name=a", "user.email=a@b", "core.autocrlf=false", "gc.auto=0")
        return subprocess.run(["git", *(word for item in settings for word in ("-c", item)), *place, *words], cwd=self.root, check=True, capture_output=True).stdout

    def commit(self, name):
        self.git("add", "-A", "-f")
        self.git("commit", "-q", "--allow-empty", "-m", name)
        return self.git("rev-parse", "HEAD").decode().strip()

    def turn(self, number):
        self.agent.prompt(f"p{number}", f"prompt {number}")
        for _ in range(3):
            self.edit()
        chance = self.random.random()
        path = self.random.choice(self.pool)
        if chance < 0.2:
            (self.root / f"made{number}.py").write_bytes(b"made = %d\n" % number)
            self.pool.append(self.root / f"made{number}.py")
        elif chance < 0.4:
            self.pool.remove(path)
            path.unlink()
        elif chance < 0.6:
            path.chmod(path.stat().st_mode ^ 0o111)
        elif chance < 0.7:
            self.pool[self.pool.index(path)] = path.rename(path.with_name(f"moved{number}.py"))
        self.agent.stop(f"p{number}")
        return self.commit(f"turn {number}")

    def edit(self):
        path = self.random.choice(self.pool[:12] if self.random.random() < 0.6 else self.pool)
        lines = path.read_bytes().splitlines(keepends=True)
        at = min(len(lines), self.random.choice([10, 20, 30, 40]) + self.random.randint(0, 10))
        self.made += 1
        lines[at : at + self.random.randint(0, 2)] = [b"    edited = %d\n" % self.made] * self.random.randint(0 if lines[at:] else 1, 2)
        path.write_bytes(b"".join(lines))


def side(place, path):
    """(the bytes, may it be run) of a path, or None."""
    found = place / path
    return (found.read_bytes(), bool(found.stat().st_mode & 0o100)) if found.is_file() else None


def merged_lines(session, place, commit, path):
    """What `git merge-file` makes of a path: the bytes, or None for a conflict."""
    for name, revision in (("base", commit), ("theirs", f"{commit}~1"), ("ours", "HEAD")):
        (place / name).write_bytes(session.git("cat-file", "blob", f"{revision}:{path}"))
    done = subprocess.run(["git", "merge-file", "-p", "ours", "base", "theirs"], cwd=place, capture_output=True)
    return done.stdout if done.returncode == 0 else None


@pytest.mark.long
def test_each_turn_of_a_session_on_a_real_tree_is_taken_back_as_git_does(settings, tmp_path):
    (tmp_path / "tree").mkdir()
    root = tmp_path / os.path.relpath(real_trees.django(str(tmp_path / "tree")), tmp_path)
    copy, place, counts = tmp_path / "copy", tmp_path / "place", Counter()
    place.mkdir()
    with opened(root, settings) as workspace:
        session = Session(root, tmp_path / "history.git", workspace)
        commits = []
        for number in range(40):
            commits.append(session.turn(number))
            if session.random.random() < 0.5:
                session.edit()
                session.commit("a person's")
        session.git("clone", "-q", session.repository, copy, inside=False)
        seen = picture(root, mtimes=True)
        touched = {commit: session.git("diff", "--no-renames", "--name-only", f"{commit}~1", commit).decode().split() for commit in commits}
        one_sided = {commit: session.git("diff", "--no-renames", "--diff-filter=AD", "--name-only", f"{commit}~1", commit).decode().split() for commit in commits}
        for number, commit in enumerate(reversed(commits), 1):
            at = {path: side(root, path) for path in touched[commit]}
            subprocess.run(["git", "revert", "--no-commit", commit], cwd=copy, capture_output=True)
            unmerged = {line.split("\t")[1] for line in session_output(copy, "ls-files", "-u").splitlines()}
            report = workspace.revert([number])
            left = {item.path.decode() for item in report.kept}
            assert left <= set(touched[commit])
            for path in touched[commit]:
                result, expected = side(root, path), None if path in unmerged else side(copy, path)
                counts["paths"] += 1
                if path in unmerged and result == at[path] and path in left:
                    counts["conflicts in both"] += 1
                elif path not in unmerged and result == expected:
                    counts["equal"] += 1
                elif path in one_sided[commit]:  # git follows the rename, casrewind none: a removed file is back, an edited one stays
                    assert (path in left and result == at[path]) or (at[path] is None and result is not None), (number, path)
                    counts["parts of a rename"] += 1
                else:
                    lines = merged_lines(session, place, commit, path)
                    assert (lines is None and path in left and result == at[path]) or result[0] == lines, (number, path)
                    counts["with git merge-file, not with git revert"] += 1
            if report.actions:
                workspace.undo()
            assert picture(root, mtimes=True) == seen
            subprocess.run(["git", "reset", "-q", "--hard"], cwd=copy, check=True)
            subprocess.run(["git", "clean", "-fdq"], cwd=copy, check=True)
    print(f"40 turns on {len(seen)} paths: {dict(counts)}")
    assert counts["conflicts in both"] > 20 and counts["equal"] > 90
    assert counts["with git merge-file, not with git revert"] <= counts["paths"] / 50
    assert counts["parts of a rename"] <= 10


def session_output(place, *words):
    return subprocess.run(["git", *words], cwd=place, check=True, capture_output=True, text=True).stdout
