"""The real clients, of one version each, fetched once per machine by npm; nothing that they bring along is run by npm."""

import os
import platform
import shutil
import sys

import pytest

from support import inputs

CLAUDE = "2.1.329"
DROID = "0.225.2"
COPILOT = "1.0.102"
OPENCODE = "1.18.33"


def claude():
    """The path of Claude Code's own binary. Skips where it is not to be had (where CI=true that is a failure)."""
    kinds = {("linux", "x86_64"): "linux-x64", ("linux", "aarch64"): "linux-arm64", ("darwin", "arm64"): "darwin-arm64",
             ("darwin", "x86_64"): "darwin-x64"}  # fmt: skip
    why_not = "there is no Claude Code for this platform"
    return _binary("claude", CLAUDE, "@anthropic-ai/claude-code-", kinds, why_not, "claude")


def droid():
    """The path of Factory Droid's own binary. Skips where it is not to be had (where CI=true that is a failure)."""
    kinds = {("linux", "x86_64"): "linux-x64", ("linux", "aarch64"): "linux-arm64"}
    why_not = "Droid is only driven on Linux: it calls home, and is kept from that by a network namespace"
    return _binary("droid", DROID, "@factory/cli-", kinds, why_not, os.path.join("bin", "droid"))


def copilot():
    """The path of GitHub Copilot CLI's own binary. Skips where it is not to be had (where CI=true that is a failure)."""
    kinds = {("linux", "x86_64"): "linux-x64", ("linux", "aarch64"): "linux-arm64"}
    return _binary("copilot", COPILOT, "@github/copilot-", kinds, "Copilot is only driven on Linux, in a network namespace", "copilot")


def opencode():
    """The path of OpenCode's own binary. Skips where it is not to be had (where CI=true that is a failure)."""
    kinds = {("linux", "x86_64"): "linux-x64-baseline", ("linux", "aarch64"): "linux-arm64"}
    why_not = "OpenCode is only driven on Linux, in a network namespace"
    return _binary("opencode", OPENCODE, "opencode-", kinds, why_not, os.path.join("bin", "opencode"))


def opencode_packages():
    """A directory with the package that OpenCode installs for plugins."""

    def fetch(directory):
        inputs.run("npm", "install", "--prefix", directory, "--ignore-scripts", "--no-audit", "--no-fund", "--silent",
                   f"@opencode-ai/plugin@{OPENCODE}", cwd=directory)  # fmt: skip
        return directory

    return inputs.once(f"opencode-packages-{OPENCODE}", fetch)


def _binary(name, version, package, kinds, why_not, path):
    """The file `path` of the package that begins with `package` and ends with this platform's kind."""
    kind = kinds.get((sys.platform, platform.machine()))
    if kind is None:
        pytest.skip(why_not)
    if shutil.which("npm") is None:
        (pytest.fail if os.environ.get("CI") == "true" else pytest.skip)("npm is not installed")

    def fetch(directory):
        inputs.run("npm", "install", "--prefix", directory, "--ignore-scripts", "--no-audit", "--no-fund", "--silent",
                   f"{package}{kind}@{version}", cwd=directory)  # fmt: skip
        return os.path.join(directory, "node_modules", package + kind, path)

    return inputs.once(f"{name}-{version}", fetch)
