"""A newcomer's path, once for each way to install: every command line is in README, and README alone is enough.

A stand-in calls the hooks as Claude Code does. tests/client/test_newcomer.py follows the way by venv with the real client, so
a push leaves that one out here, and takes one of the two others by turns.
"""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from support import real_trees
from support.generate_sessions import sessions
from support.newcomer import CHECKOUT, Readme, pip_settings
from support.picture import differences, picture
from support.sample_start import by_turns

TOP = Path(__file__).resolve().parents[2]
pytestmark = [pytest.mark.xdist_group("packaging"), pytest.mark.timeout(900)]
VENV = Readme("docs/wheels.md")
WAYS = {"uv": "uv tool install", "pipx": "pipx install", "venv": "python3 -m venv"}


class Newcomer(sessions.Scratch):
    """A home without any casrewind, a clone of the repository, a project, and one shell for all that is typed."""

    def __init__(self, place, way):
        super().__init__(place)
        (self.place / "bin" / "casrewind").unlink()
        self.close()
        for name in (way, "python3"):
            program = shutil.which(name, path=os.path.dirname(sys.executable)) or os.path.realpath(sys.executable)
            self.script(name, f'exec "{program}" "$@"')
        caches = {"UV_CACHE_DIR": os.environ.get("UV_CACHE_DIR") or os.path.join(real_trees.place(), "uv"), "UV_PYTHON": sys.executable}
        (self.home / ".local" / "bin").mkdir(parents=True)
        self.environment = {
            **{name: value for name, value in self.environment.items() if name != "PYTHONPATH"},
            **pip_settings(), **{name: value for name, value in os.environ.items() if name.startswith("UV_")}, **caches,
            "PIPX_DEFAULT_PYTHON": sys.executable, "PATH": f"{self.home}/.local/bin:{self.environment['PATH']}",
        }  # fmt: skip
        self.clone = self.home / "casrewind"
        self.clone.mkdir()
        for name in CHECKOUT:
            (shutil.copytree if (TOP / name).is_dir() else shutil.copy)(TOP / name, self.clone / name)
        self.shell = subprocess.Popen(
            ["sh"], cwd=self.clone, env=self.environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        )

    def type(self, line):
        shown, code = self.run(line)
        assert code == 0, (line, code, shown)
        return shown


def works(newcomer, readme, way):
    """From the installation to the first turn, in the words of README: (the project, the client)."""
    (lines,) = [lines for lines in (*(readme.lines("Install", block) for block in range(2)), VENV.lines("Without uv or pipx")) if lines[0].startswith(WAYS[way])]
    for line in lines:
        newcomer.type(line)
    newcomer.type(f"cd {newcomer.home}")
    newcomer.plant()
    project = newcomer.home / "shop"
    (project / ".env").write_text("KEY=1\n")
    (project / ".gitignore").write_text(".env\n")

    install, doctor = readme.lines("Connect your agent")
    assert newcomer.type(install).startswith("installed: Claude Code")
    assert "the hooks of Claude Code work" in newcomer.type(doctor).partition("\n")[0]
    assert ".env" in newcomer.type("casrewind save"), "what git ignores is named at once"
    newcomer.type(readme.word(r"`(casrewind include \.env)` protects"))

    client = newcomer.client("claude")
    client.turn("round to cents")
    assert "round to cents" in newcomer.type("casrewind list")
    return project, client


def serves(newcomer, readme, project, client):
    """A turn that wrecks the project, and every way back that README names."""
    before = picture(project)
    client.turn("clean up, please")
    (project / ".env").unlink()
    wrecked = picture(project)
    assert differences(before, wrecked) != {}

    assert "clean up, please" in newcomer.type(readme.word(r"`(casrewind list)` \|"))
    assert "prices.csv" in newcomer.type(readme.word(r"`(casrewind diff)` \|"))
    one = readme.word(r"`(casrewind restore @2) \[PATH\.\.\.\]`").replace("@2", "@1")
    newcomer.type(f"{one} prices.csv --yes")
    assert (project / "prices.csv").read_text() == "apple,1.10\npear,0.85\n" and (project / "till.py").read_text() == "# cleaned up\n"
    shown = newcomer.type(f"{readme.word(r'`(casrewind back) .N.`')} --yes")
    assert re.search(r"claude --resume [0-9a-f-]{36}", shown)
    assert differences(picture(project), before) == {} and (project / ".env").read_text() == "KEY=1\n"
    undo = readme.word(r"`(casrewind undo)` \| undo")
    newcomer.type(f"{undo} --yes")
    assert (project / "prices.csv").exists() and not (project / "notes.md").exists()
    newcomer.type(f"{undo} --yes")
    assert differences(picture(project), wrecked) == {}, "every restore can be undone"


def away(newcomer, readme, way):
    """Uninstall, by the lines for this way."""
    uninstall, by_uv = readme.lines("Uninstall")
    newcomer.type(uninstall)
    ways = {"uv": by_uv, "pipx": readme.word(r"`(pipx uninstall casrewind)`"), "venv": VENV.word(r"`(rm -r ~/\.local/casrewind [^`]+)`")}
    newcomer.type(ways[way])


@pytest.mark.turns(3)
@pytest.mark.parametrize("way", [*by_turns(["uv", "pipx"], 1), pytest.param("venv", marks=pytest.mark.long)])
def test_every_step_of_the_readme_works(tmp_path, way):
    newcomer, readme = Newcomer(tmp_path, way), Readme()
    try:
        project, client = works(newcomer, readme, way)
        if way != "venv":  # the package is the same whatever installed it: one way shows what it does
            serves(newcomer, readme, project, client)
        away(newcomer, readme, way)
        shown, code = newcomer.run("casrewind --version")
        assert code == 127, shown
        assert (newcomer.home / ".local/share/casrewind/stores").is_dir(), "the checkpoints stay"
        settings = newcomer.home / ".claude" / "settings.json"
        assert not settings.exists() or "casrewind" not in settings.read_text()
        left = [path for path in (newcomer.home / ".local").rglob("*casrewind*") if ".local/share/casrewind" not in str(path)]
        assert [path for path in left if not path.name.endswith(".lock")] == []  # pipx keeps its own locks
    finally:
        newcomer.close()


def test_a_fresh_project_fits_on_one_screen(tmp_path):
    """What `casrewind` alone prints where there is no terminal and no checkpoint yet."""
    (tmp_path / "p").mkdir()
    done = subprocess.run(
        [sys.executable, "-m", "casrewind"], cwd=tmp_path / "p", capture_output=True, text=True,
        env={"HOME": str(tmp_path), "PATH": os.environ["PATH"], "PYTHONPATH": str(TOP)},
    )  # fmt: skip
    assert len((done.stdout + done.stderr).splitlines()) <= 24, done.stdout + done.stderr
