"""The real clients, of one version each, fetched once per machine by npm; nothing that they bring along is run by npm."""

import os
import platform
import shutil
import sys

import pytest

from support import inputs

CLAUDE = "2.1.329"
DROID = "0.225.2"


def claude():
    """The path of Claude Code's own binary. Skips where it is not to be had (where CI=true that is a failure)."""
    kinds = {("linux", "x86_64"): "linux-x64", ("linux", "aarch64"): "linux-arm64", ("darwin", "arm64"): "darwin-arm64",
             ("darwin", "x86_64"): "darwin-x64"}  # fmt: skip
    kind = kinds.get((sys.platform, platform.machine()))
    if kind is None:
        pytest.skip("there is no Claude Code for this platform")
    if shutil.which("npm") is None:
        (pytest.fail if os.environ.get("CI") == "true" else pytest.skip)("npm is not installed")
    package = f"@anthropic-ai/claude-code-{kind}"

    def fetch(directory):
        inputs.run("npm", "install", "--prefix", directory, "--ignore-scripts", "--no-audit", "--no-fund", "--silent",
                   f"{package}@{CLAUDE}", cwd=directory)  # fmt: skip
        return os.path.join(directory, "node_modules", package, "claude")

    return inputs.once(f"claude-{CLAUDE}", fetch)


def droid():
    """The path of Factory Droid's own binary. Skips where it is not to be had (where CI=true that is a failure)."""
    kinds = {("linux", "x86_64"): "linux-x64", ("linux", "aarch64"): "linux-arm64"}
    kind = kinds.get((sys.platform, platform.machine()))
    if kind is None:
        pytest.skip("Droid is only driven on Linux: it calls home, and is kept from that by a network namespace")
    if shutil.which("npm") is None:
        (pytest.fail if os.environ.get("CI") == "true" else pytest.skip)("npm is not installed")
    package = f"@factory/cli-{kind}"

    def fetch(directory):
        inputs.run("npm", "install", "--prefix", directory, "--ignore-scripts", "--no-audit", "--no-fund", "--silent",
                   f"{package}@{DROID}", cwd=directory)  # fmt: skip
        return os.path.join(directory, "node_modules", package, "bin", "droid")

    return inputs.once(f"droid-{DROID}", fetch)
