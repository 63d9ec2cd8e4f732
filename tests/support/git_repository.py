"""Makes a git repository with linked worktrees, by git itself. casrewind never runs it."""

import os
import shutil
import subprocess

import pytest


def git(place, *words):
    """Run git in a directory, with no configuration but the repository's; its output."""
    if shutil.which("git") is None:
        (pytest.fail if os.environ.get("CI") == "true" else pytest.skip)("git is not installed")
    who = {f"GIT_{whose}_{what}": "somebody" for whose in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    told = {"PATH": os.environ["PATH"], "GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": os.devnull, "HOME": "/nowhere", **who}
    done = subprocess.run(["git", *map(str, words)], cwd=place, env=told, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, (words, done.stderr)
    return done.stdout


def make_repository(root):
    """A repository of all that is in the directory, with one commit."""
    git(root, "init", "-q", "-b", "main")
    git(root, "add", "-A")
    git(root, "commit", "-q", "--allow-empty", "-m", "first")
    return root


def add_worktree(root, name="w1", *, above=".claude/worktrees"):
    """A linked worktree inside the checkout, on a branch of its own, as Claude Code makes it; its directory."""
    place = root / above / name
    git(root, "worktree", "add", "-q", "-b", f"branch-{name}", place)
    return place


def make_pointers_relative(root, place):
    """Both pointers of a worktree as git writes them with worktree.useRelativePaths."""
    entry = root / ".git" / "worktrees" / place.name
    (place / ".git").write_text(f"gitdir: {os.path.relpath(entry, place)}\n")
    (entry / "gitdir").write_text(f"{os.path.relpath(place / '.git', entry)}\n")
