"""Real repositories, with what a build leaves in them: `status` names or counts everything that a save does not capture.

Each keeps its own ignore rules. npm leaves those out of its packages: there the built-in list decides, as in any project without rules.
"""

import glob
import os
import subprocess

import pytest

from support import real_trees
from support.command import Command
from support.left_out import check_that_all_is_accounted_for
from support.trees import Link, plant

LEFT_BY_A_BUILD = {
    "build/lib/module.py": b"1", "build/temp/module.o": b"22", "dist/package-1.0.tar.gz": b"333", "env/bin/activate": b"export A=1\n",
    "env/lib/site.py": b"1", ".env": b"TOKEN=1\n", ".venv/bin/python": Link("/usr/bin/python3"), "node_modules/left/index.js": b"1\n",
    "node_modules/.bin/left": Link("../left/index.js"), "src/node_modules/right/index.js": b"1", "out": b"a file, no directory\n",
    "tmp/notes.txt": b"mine\n", "log/today": b"1", "debug.log": b"1", "src/__pycache__/module.cpython-311.pyc": b"1", "db.sqlite3": b"1",
    "docs/_build/html/index.html": b"1", ".coverage": b"1", "htmlcov/index.html": b"1", "target/release/app": b"1", "libx.so": b"1",
    ".pytest_cache/CACHEDIR.TAG": b"Signature: 8a477f597d28d172789f06886806bc55\n", ".pytest_cache/v/cache": b"1", ".idea/workspace.xml": b"1",
}  # fmt: skip


AT_EACH_PUSH = ("pypi:httpx-0.28.1", "npm:express-5.3.0")


@pytest.fixture
def command(home):
    return lambda root: Command(root, home)


@pytest.mark.parametrize("name", [
    pytest.param(name, marks=[] if name in AT_EACH_PUSH else pytest.mark.long) for name in real_trees.REPOSITORIES
])  # fmt: skip
def test_everything_is_captured_or_named_or_counted(command, tmp_path, name):
    place = tmp_path / "unpacked"
    place.mkdir()
    root = real_trees.repository(name, str(place))
    subprocess.run(["git", "init", "-q", root], check=True)
    subprocess.run(["git", "add", "-Af"], cwd=root, check=True)
    tracked = subprocess.run(["git", "ls-files", "-z"], cwd=root, check=True, capture_output=True).stdout.count(b"\0")
    by_force = subprocess.run(["git", "ls-files", "-ciz", "--exclude-standard"], cwd=root, check=True, capture_output=True).stdout.count(b"\0")
    for path, what in LEFT_BY_A_BUILD.items():
        top = os.path.join(root, path.split("/")[0])
        if not os.path.lexists(os.path.join(root, path)) and not os.path.isfile(top) and not os.path.islink(top):
            plant(root, {path: what})
    captured, left, skipped = check_that_all_is_accounted_for(command(root), root)
    print(f"{name}: {tracked} tracked, {by_force} of them ignored; captured {captured}, ignored {left}, skipped {skipped}")
    has_rules = bool(glob.glob(os.path.join(glob.escape(root), ".gitignore")))
    assert left if has_rules else skipped
    assert left >= by_force
