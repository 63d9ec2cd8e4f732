"""Compiles casrewind/worktree/threaded_comparison.c while the package is built.

The danger prevented here: a build that fails for want of a compiler or of Python's headers. The module is optional: without it the
package is the same, for every system, and compares stamps in Python.
"""

import os
import shlex
import shutil
import subprocess
import sysconfig
import tempfile
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from packaging.tags import platform_tags

_MODULE = "casrewind/worktree/threaded_comparison"
_FLAGS = ("-O2", "-fPIC", "-pthread")
_PATIENCE = 60  # seconds


class CompileThreadedComparison(BuildHookInterface[Any]):
    """Adds the compiled module to a wheel. An editable installation gets it beside its source."""

    _place = ""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile, before the files of the wheel are collected. No failure is an error."""
        system = next((tag for tag in platform_tags() if tag.startswith(("linux_", "macosx_"))), "")
        if self.target_name != "wheel" or not system:
            return
        self._place = tempfile.mkdtemp(prefix="casrewind-build-")
        name = f"{_MODULE}.abi3.so"
        compiled = os.path.join(self._place, "module.so")
        is_there = _compile(os.path.join(self.root, f"{_MODULE}.c"), compiled, system)
        if version == "editable":
            _put_beside_source(compiled if is_there else None, os.path.join(self.root, name))
        elif is_there:
            build_data["force_include"][compiled] = name
            build_data["pure_python"] = False
            build_data["tag"] = f"cp311-abi3-{system}"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:  # noqa: ARG002
        """Remove the temporary directory."""
        if self._place:
            shutil.rmtree(self._place, ignore_errors=True)


def _compile(source: str, target: str, system: str) -> bool:
    """True if `source` was compiled for the system with this tag. The compiler is that of the variable CC; else the one that made Python,
    or `cc`."""
    chosen = os.environ.get("CC")
    if not chosen and system.startswith("macosx_") and not _runs(["xcode-select", "-p"]):
        return False  # without Apple's tools, `cc` is a program that opens a window and asks for them
    headers = {f"-I{sysconfig.get_path(kind)}" for kind in ("include", "platinclude")}
    for compiler in (chosen,) if chosen else (sysconfig.get_config_var("CC") or "cc", "cc"):
        command = [*shlex.split(compiler), *_FLAGS, *_flags_of(system), *sorted(headers), "-o", target, source]
        if _runs(command):
            return True
    return False


def _flags_of(system: str) -> tuple[str, ...]:
    """What makes a module of a C file on the system with this tag. macOS: one for the version in the tag, whatever the compiler prefers."""
    if not system.startswith("macosx_"):
        return ("-shared",)
    _, major, minor, _ = system.split("_", 3)
    return ("-bundle", "-undefined", "dynamic_lookup", f"-mmacosx-version-min={major}.{minor}")


def _runs(command: list[str]) -> bool:
    """True if the command ends with 0."""
    try:
        return subprocess.run(command, capture_output=True, stdin=subprocess.DEVNULL, timeout=_PATIENCE, check=False).returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        return False


def _put_beside_source(compiled: str | None, target: str) -> None:
    """Replace the module in the source directory, or remove it: an old one would not be that of the source. A process that uses the
    old one keeps its file."""
    try:
        if compiled is None:
            os.unlink(target)
        else:
            shutil.copy(compiled, f"{target}.new")
            os.replace(f"{target}.new", target)
    except OSError:
        pass
