"""The real clients, of one version each, fetched once per machine by npm; nothing that they bring along is run by npm.

A variable `CASREWIND_<CLIENT>_VERSION` (CASREWIND_PI_VERSION, CASREWIND_CLAUDE_VERSION, ...) runs the tests against another
version. casrewind/agents/client_versions.py has the versions, and docs/internals/clients.md says what was seen.
"""

import glob
import os
import platform
import shutil
import sys

import pytest

from casrewind.agents.client_versions import TRIED
from support import real_trees
from support.sample_start import marks_of, some



def _version(client):
    return os.environ.get(f"CASREWIND_{client.upper()}_VERSION") or TRIED[client].tests


CLAUDE, DROID, PI, CODEX = _version("claude"), _version("droid"), _version("pi"), _version("codex")
GEMINI, COPILOT, OPENCODE = _version("gemini"), _version("copilot"), _version("opencode")
NODE = "22.23.3"
"""Pi wants a newer one than many systems have."""
OTHERS = ("codex", "pi", "gemini", "opencode", "copilot", "pi", "droid")
"""The clients beside Claude Code. A push starts one of them, another one after a change of the product: one with a plugin (Pi, OpenCode), or
one that calls command hooks, as Claude Code does."""
THREE_TURNS_ALONE = ("droid", "opencode")
"""They are not asked what is beyond the three turns: Droid would be asked the same once more, and OpenCode takes ten times as long as others."""
ASKED = some(OTHERS, 1)


AT_TIMES = (
    "after_escape", "background", "newcomer", "branches", "containers", "queued", "cut_short", "gone", "turns", "pushes", "subagents", "plugin",
    "tell_agent", "worktrees",
)  # fmt: skip
"""What Claude Code does now and then: modules of tests/client, and tests in test_typed.py. A push starts it for three of them, beside typed
commands, print mode and the marketplace, which are always run."""


def at_times(name):
    """The marks of what AT_TIMES has: others are run after a change of the product, all of them with `--run-long`."""
    return marks_of(name, AT_TIMES, 3)


def at_time(name):
    """The same for one test."""
    return pytest.mark.long if at_times(name) else (lambda test: test)


def in_turn(client, *, further=False):
    """The marks of what one of the clients is asked, in the three turns or, `further`, beyond them. Claude Code is always asked, and one of
    the others by turns. `--run-long` asks all."""
    return [] if client == "claude" or (client in ASKED and not (further and client in THREE_TURNS_ALONE)) else [pytest.mark.long]


def further(client):
    """The mark of what is asked beyond the three turns."""
    return pytest.mark.long if in_turn(client, further=True) else (lambda test: test)


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


def pi():
    """The command line of Pi: an interpreter and its program. Skips as the others do."""
    kinds = {("linux", "x86_64"): "linux-x64", ("linux", "aarch64"): "linux-arm64", ("darwin", "arm64"): "darwin-arm64",
             ("darwin", "x86_64"): "darwin-x64"}  # fmt: skip
    node = f"node-{_kind(kinds, 'there is no Node for this platform')}"

    def fetch(directory):
        place = os.path.join(directory, "client")
        os.mkdir(place)
        _npm(place, f"{node}@{NODE}", f"@earendil-works/pi-coding-agent@{PI}")
        return place

    modules = os.path.join(real_trees.once(f"pi-{PI}", fetch), "node_modules")
    return [os.path.join(modules, node, "bin", "node"), os.path.join(modules, "@earendil-works", "pi-coding-agent", "dist", "cli.js")]


def codex():
    """The path of Codex's own binary. Skips where it is not to be had (where CI=true that is a failure)."""
    kinds = {("linux", "x86_64"): "linux-x64", ("linux", "aarch64"): "linux-arm64"}
    kind = _kind(kinds, "Codex is only driven on Linux: it calls home, and is kept from that by a network namespace")

    def fetch(directory):
        _npm(directory, f"@openai/codex@{CODEX}")
        (found,) = glob.glob(os.path.join(directory, "node_modules", "@openai", f"codex-{kind}", "vendor", "*"))
        return found

    return os.path.join(real_trees.once(f"codex-{CODEX}", fetch), "bin", "codex")


def gemini():
    """The command that starts Gemini: [node, its script]. Skips where it is not to be had (where CI=true that is a failure)."""
    if sys.platform != "linux":
        pytest.skip("Gemini is only driven on Linux: it calls home, and is kept from that by a network namespace")
    _needs("npm")
    node = _needs("node")

    def fetch(directory):
        _npm(directory, f"@google/gemini-cli@{GEMINI}")
        return os.path.join(directory, "node_modules")

    return [node, os.path.join(real_trees.once(f"gemini-{GEMINI}", fetch), "@google", "gemini-cli", "bundle", "gemini.js")]


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
        place = os.path.join(directory, "packages")
        os.mkdir(place)
        _npm(place, f"@opencode-ai/plugin@{OPENCODE}")
        return place

    return real_trees.once(f"opencode-packages-{OPENCODE}", fetch)


def _needs(program):
    found = shutil.which(program)
    if found is None:
        (pytest.fail if os.environ.get("CI") == "true" else pytest.skip)(f"{program} is not installed")
    return found


def _kind(kinds, why_not):
    kind = kinds.get((sys.platform, platform.machine()))
    if kind is None:
        pytest.skip(why_not)
    _needs("npm")
    return kind


def _npm(directory, *packages):
    real_trees.run("npm", "install", "--prefix", directory, "--ignore-scripts", "--no-audit", "--no-fund", "--silent", *packages, cwd=directory)


def _binary(name, version, package, kinds, why_not, path):
    """The file `path` of the package that begins with `package` and ends with this platform's kind."""
    kind = _kind(kinds, why_not)

    def fetch(directory):
        _npm(directory, f"{package}{kind}@{version}")
        return os.path.join(directory, "node_modules", package + kind, path)

    return real_trees.once(f"{name}-{version}", fetch)
