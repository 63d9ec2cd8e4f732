"""Modules that a project has in its directory are not taken for Python's own or for those that casrewind needs."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import casrewind as package
from support.trees import plant

TOP = Path(package.__file__).parent.parent
MODULES = ("argparse", "json", "lmdb", "zstandard", "blake3", "rich", "shutil", "tempfile", "subprocess", "hashlib", "shlex", "binascii", "typing")
MARK = "import os, sys\nopen(os.path.join(os.path.dirname(os.path.abspath(__file__)), 'mark'), 'a').write(__name__ + chr(10))\nraise SystemExit(99)\n"
SCRIPT = (TOP / "casrewind" / "cli" / "script").read_text()


@pytest.mark.parametrize("way", ["module", "script", "script with a relative PYTHONPATH"])
def test_a_projects_modules_are_not_imported(process, root, tmp_path, way):
    plant(root, {f"{name}.py": MARK.encode() for name in MODULES})
    script = tmp_path / "bin" / "casrewind"
    script.parent.mkdir()
    script.write_text(SCRIPT)
    # the package's own place stands behind the project, as site-packages would
    environment = {**process.environment, "PYTHONPATH": f"{'' if way == 'script' else '.:'}{TOP}"}
    line = [sys.executable, "-m", "casrewind"] if way == "module" else [sys.executable, str(script)]
    for words in (["save"], ["list"], ["status"], ["--help"], ["save", "--nonsense"]):
        done = subprocess.run([*line, *words], env=environment, cwd=root, capture_output=True, stdin=subprocess.DEVNULL, timeout=60)
        assert done.returncode == (64 if "--nonsense" in words else 0), done
    assert not os.path.exists(root / "mark")


def test_where_casrewind_itself_lies_it_works(process, tmp_path):
    """In site-packages, or in a clone of its own: what it needs may lie there, too."""
    os.symlink(TOP / "casrewind", tmp_path / "casrewind")
    line = [sys.executable, "-m", "casrewind", "--version"]
    done = subprocess.run(line, env=process.environment, cwd=tmp_path, capture_output=True, timeout=60)
    assert done.returncode == 0 and done.stdout.startswith(b"casrewind ")
