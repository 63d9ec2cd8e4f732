"""What `casrewind` offers to Python programs, and how little it costs to import: hooks start it many times an hour."""

import os
import subprocess
import sys

import pytest

import casrewind
from support.trees import plant


def modules_after(script, environment=None, *arguments):
    """The names of the modules that a fresh interpreter has after `script`, without those that a bare one has."""

    def run(text):
        report = "\nimport sys as _s; _s.stderr.write(' '.join(_s.modules))"
        paths = f"import sys; sys.path[:0] = {[os.path.dirname(os.path.dirname(casrewind.__file__)), *(p for p in sys.path if p)]!r}\n"
        done = subprocess.run(
            [sys.executable, "-S", "-I", "-c", paths + text + report, *arguments],
            env=environment or {}, capture_output=True, text=True,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return set(done.stderr.rsplit("\n", 1)[-1].split())

    return run(script) - run("")


def test_the_names_at_the_door():
    assert casrewind.__all__ == ["CasrewindError", "Checkpoint", "Workspace", "__version__", "open"]
    for name in casrewind.__all__:
        assert getattr(casrewind, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        casrewind.nonsense
    assert set(casrewind.__all__) <= set(dir(casrewind)) | set(casrewind._HOMES)


def test_a_star_import_brings_exactly_these():
    found = {}
    exec("from casrewind import *", found)
    assert set(found) - {"__builtins__"} == set(casrewind.__all__)


def test_the_version_is_a_literal_of_the_package():
    import re
    from pathlib import Path

    (line,) = re.findall(r'^__version__ = "(.+)"$', Path(casrewind.__file__).read_text(), re.MULTILINE)
    assert line == casrewind.__version__ and re.fullmatch(r"\d+\.\d+\.\d+\S*", line)


def test_importing_the_package_imports_nothing_else():
    # so none of lmdb, zstandard, pathspec, rich, argparse, json, typing and re, to name the dear ones
    assert modules_after("import casrewind; casrewind.__version__") == {"casrewind"}


def test_a_save_without_changes_loads_only_what_it_needs(root, home):
    plant(root, {"f": b"x", "d/g": b"y", ".gitignore": b"*.log\n"})
    environment = {"HOME": str(home), "CASREWIND_HOME": str(home / "data"), "GIT_CONFIG_NOSYSTEM": "1"}
    script = "from casrewind.cli.main import main\nassert main(['-C', sys.argv[1], 'save']) == 0"
    first = modules_after(script, environment, str(root))
    again = modules_after(script, environment, str(root))
    assert {"casrewind.ops.save", "lmdb"} <= again
    unwanted = {"rich", "tomllib", "pyfastcdc", "textual", "subprocess", "difflib", "traceback", "asyncio"}
    assert again & unwanted == set()
    assert first & unwanted == set()  # small files need no chunker either


def test_open_save_restore_through_the_door(root, settings):
    plant(root, {"f": b"1"})
    with casrewind.open(root, settings) as workspace:
        assert isinstance(workspace, casrewind.Workspace)
        point = workspace.save("first").checkpoint
        assert isinstance(point, casrewind.Checkpoint)
        plant(root, {"f": b"2"})
        assert workspace.restore(workspace.checkpoint("last")).target == point.id
        assert (root / "f").read_bytes() == b"1"
        workspace.undo()
        assert (root / "f").read_bytes() == b"2"
        with pytest.raises(casrewind.CasrewindError, match="no checkpoint 'nope'"):
            workspace.checkpoint("nope")


def test_opening_without_create_makes_nothing(root, settings, home):
    with pytest.raises(casrewind.CasrewindError, match="casrewind save"):
        casrewind.open(root, settings, create=False)
    assert list(home.iterdir()) == []


def test_a_workspace_prints_nothing(root, settings, capfd):
    plant(root, {"f": b"1", "node_modules/m": b""})
    with casrewind.open(str(root), settings) as workspace:
        workspace.save()
        plant(root, {"f": b"2"})
        workspace.restore(workspace.checkpoint("1"))
        workspace.status()
    assert capfd.readouterr() == ("", "")
