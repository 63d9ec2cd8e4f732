"""Every requirement has a wheel for every Python that the classifiers name: asked of the package registry, without the interpreter."""

import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement

TOP = Path(__file__).parents[2]
PROJECT = tomllib.loads((TOP / "pyproject.toml").read_text("utf-8"))["project"]
PYTHONS = [line.rpartition(" ")[2] for line in PROJECT["classifiers"] if line.startswith("Programming Language :: Python :: 3.")]
GLIBC = [f"manylinux_2_{minor}_x86_64" for minor in (17, 24, 26, 27, 28, 34)] + ["manylinux2014_x86_64"]
MUSL = [f"musllinux_1_{minor}_x86_64" for minor in (0, 1, 2)]
MAC = [f"macosx_{major}_0_arm64" for major in range(11, 15)]
COMPILED = {("3.15", "glibc"): {"lmdb"}, ("3.15", "mac"): {"lmdb"}, "musl": {"lmdb"}}
"""What pip has to compile: README says so."""


def asked(version, platform):
    """What pip is asked for on such a machine, by the markers of pyproject.toml."""
    machine = {"sys_platform": "darwin", "platform_machine": "arm64"} if platform == "mac" else {"sys_platform": "linux", "platform_machine": "x86_64"}
    there = {"python_version": version, "python_full_version": f"{version}.0", **machine}
    for requirement in map(Requirement, (*PROJECT["dependencies"], *PROJECT["optional-dependencies"]["remote"])):
        if requirement.marker is None or requirement.marker.evaluate(there):
            yield f"{requirement.name}{requirement.specifier}"


def without_wheel(version, platforms, requirements, tmp_path):
    """The names of those that pip finds no wheel for."""
    options = [word for platform in platforms for word in ("--platform", platform)]
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--dry-run", "--ignore-installed", "--no-cache-dir", "--only-binary", ":all:",
               "--python-version", version, "--target", str(tmp_path / "nowhere"), *options, "--report", "-"]  # fmt: skip
    together = subprocess.run([*command, *requirements], env={**os.environ, "HOME": str(tmp_path)}, capture_output=True, text=True)
    if together.returncode == 0:
        return set()
    missing = set()
    for requirement in requirements:
        done = subprocess.run([*command, "--no-deps", requirement], env={**os.environ, "HOME": str(tmp_path)}, capture_output=True, text=True)
        if done.returncode and "No matching distribution found" not in done.stderr:
            (pytest.fail if os.environ.get("CI") == "true" else pytest.skip)(f"the registry cannot be asked: {done.stderr.strip()[-300:]}")
        if done.returncode:
            missing.add(Requirement(requirement).name)
        else:
            assert json.loads(done.stdout)["install"], requirement
    return missing


def check(version, platform, platforms, tmp_path):
    may_lack = COMPILED.get((version, platform), COMPILED.get(platform, set()))
    lack = without_wheel(version, platforms, list(asked(version, platform)), tmp_path)
    print(f"Python {version}, {platform}: without a wheel {sorted(lack) or 'nothing'}")
    assert lack <= may_lack


def test_the_newest_python_gets_wheels_of_everything_but_what_the_readme_names(tmp_path):
    check(PYTHONS[-1], "glibc", GLIBC, tmp_path)


@pytest.mark.long
@pytest.mark.parametrize(("platform", "platforms"), [("glibc", GLIBC), ("musl", MUSL), ("mac", MAC)], ids=["glibc", "musl", "mac"])
@pytest.mark.parametrize("version", PYTHONS)
def test_every_python_and_system_gets_wheels(version, platform, platforms, tmp_path):
    check(version, platform, platforms, tmp_path)
