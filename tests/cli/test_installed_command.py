"""What pip installs as `casrewind` starts, from a wheel, and imports nothing that takes time on the way in."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import casrewind

TOP = Path(casrewind.__file__).parent.parent


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """An environment into which pip put a wheel of this very source, and no more."""
    builder = pytest.importorskip("hatchling.builders.wheel")
    place = tmp_path_factory.mktemp("installed")
    (wheel,) = builder.WheelBuilder(str(TOP)).build(directory=str(place), versions=["standard"])
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", place / "env"], check=True)
    pip = [sys.executable, "-m", "pip", "--python", place / "env", "install", "--quiet", "--no-compile", "--no-deps", "--no-index", "--ignore-installed", wheel]
    subprocess.run(pip, check=True, capture_output=True, env={**os.environ, "HOME": str(place)})
    return place / "env"


@pytest.mark.turns(3)
def test_the_command_starts(installed, tmp_path):
    environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "PYTHONPATH": os.pathsep.join(sys.path[1:])}
    done = subprocess.run([installed / "bin/casrewind", "--version"], env=environment, cwd=tmp_path, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, f"casrewind {casrewind.__version__}\n"), done.stderr


def test_the_command_imports_no_regular_expressions_on_the_way_in(installed):
    script = (installed / "bin/casrewind").read_text().replace("main()", "import sys; print('re' in sys.modules)")
    done = subprocess.run([installed / "bin/python", "-c", script], cwd=TOP, capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
