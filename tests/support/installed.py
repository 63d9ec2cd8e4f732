"""casrewind as a person has it installed: in an environment of its own, which can be moved, broken and brought back."""

import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import casrewind as package

from .command import Command
from .client_settings import hooks

PLACES = {"claude": ".claude/settings.json", "droid": ".factory/hooks.json"}


def copy_product(place):
    """Copy the package, with its compiled modules: a command under test writes none, and would compile all of them at each start."""
    shutil.copytree(Path(package.__file__).parent, place, ignore=shutil.ignore_patterns("*.pyc.*"))  # what is being written


class Installed:
    """casrewind in an environment of its own, with blanks and quotes in its name, and the lines that it installs."""

    def __init__(self, base, root, home):
        self.base, self.root = base / "a person's \"own\" $HOME", root
        self.python, self.package = self.base / "bin" / "python3", self.base / "lib" / "casrewind"
        context = self.base / "lib" / f"python{sys.version_info[0]}.{sys.version_info[1]}" / "site-packages"
        self.python.parent.mkdir(parents=True)
        self.python.symlink_to(os.path.realpath(sys.executable))
        context.parent.mkdir(parents=True)
        context.symlink_to(sysconfig.get_path("purelib"))
        shutil.copy(Path(sys.prefix) / "pyvenv.cfg", self.base)
        copy_product(self.package)
        self.command = Command(root, home)

    def run(self, *words, **options):
        line = [str(self.python), "-I", str(self.package / "__main__.py"), "-C", str(self.root), *words]
        return subprocess.run(line, env=self.command.environment, capture_output=True, check=True, **options)

    def line(self, agent, *words, event="UserPromptSubmit"):
        self.run("install", agent, *words)
        found = hooks(os.path.join(self.command.home, PLACES[agent]), "hooks" if agent == "claude" else "")
        return found[event][0][1]["command"]

    def call(self, shell, line, payload):
        done = subprocess.run(
            [shell, "-c", line], input=payload, capture_output=True, cwd="/", timeout=60,
            env={**self.command.environment, "CLAUDE_PROJECT_DIR": str(self.root)},
        )  # fmt: skip
        return done.returncode, done.stdout, done.stderr
