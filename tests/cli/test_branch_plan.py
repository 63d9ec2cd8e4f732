"""A restore changes files and no branch: a plan across branches says so."""

import subprocess

from support.trees import plant


def git(root, *words):
    done = ["git", "-C", str(root), "-c", "user.name=n", "-c", "user.email=a@b", *words]
    subprocess.run(done, check=True, capture_output=True)


def test_a_plan_across_branches_names_both(casrewind, root):
    git(root, "init", "-q", "-b", "main")
    plant(root, {"f": b"1"})
    casrewind("save", "-m", "on main", code=0)
    git(root, "add", "-A")
    git(root, "commit", "-qm", "one")
    assert "branch" not in casrewind("restore", "on main", "-n", code=0).out
    git(root, "checkout", "-q", "-b", "other")
    plant(root, {"g": b"2"})
    plan = casrewind("restore", "on main", "-n", code=0).out.splitlines()
    assert plan[0].startswith("restore to 'on main' (") and plan[0].endswith("saved on branch main, while git stays on other:")
    assert casrewind("restore", "on main", "--yes", code=0).out and not (root / "g").exists()
