"""Write the table of docs/wheels.md: which of the packages that casrewind needs have no wheel, for each Python and each system.

`python docs/generate_wheels.py` asks the package registry by pip, some 150 times in a quarter of an hour. It writes the table and the date.
Run it before a release; tests/packaging/test_wheels.py compares the table with the registry.
"""

import datetime as dt
import json
import re
import subprocess
import sys
import tempfile
import tomllib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from packaging.requirements import Requirement

TOP = Path(__file__).parents[1]
PAGE = TOP / "docs/wheels.md"
PROJECT = tomllib.loads((TOP / "pyproject.toml").read_text("utf-8"))["project"]
PYTHONS = [line.rpartition(" ")[2] for line in PROJECT["classifiers"] if line.startswith("Programming Language :: Python :: 3.")]
BASE = PROJECT["dependencies"]
EXTRAS = {name: PROJECT["optional-dependencies"][name] for name in ("re2", "remote")}
BETWEEN = re.compile(r"(?<=<!-- generated -->\n).*?(?=<!-- end -->)", re.DOTALL)


def glibc(machine: str) -> list[str]:
    """The tags of a system with glibc 2.28."""
    return [*(f"manylinux_2_{minor}_{machine}" for minor in range(5, 29)), f"manylinux2014_{machine}"]


def musl(machine: str) -> list[str]:
    """The tags of a system with musl 1.2."""
    return [f"musllinux_1_{minor}_{machine}" for minor in range(3)]


SYSTEMS = {
    "Linux (glibc 2.28), x86_64": glibc("x86_64"),
    "Linux (glibc 2.28), aarch64": glibc("aarch64"),
    "Alpine (musl 1.2), x86_64": musl("x86_64"),
    "Alpine (musl 1.2), aarch64": musl("aarch64"),
    "macOS 12, x86_64": ["macosx_12_0_x86_64"],
    "macOS 13, x86_64": ["macosx_13_0_x86_64"],
    "macOS 12, arm64": ["macosx_12_0_arm64"],
    "macOS 13, arm64": ["macosx_13_0_arm64"],
    "macOS 14, arm64": ["macosx_14_0_arm64"],
}
"""The tags of wheels that pip takes there. Of macOS, pip adds those of older versions."""


class Unanswered(Exception):
    """The registry could not be asked."""


def asked(requirements: list[str], version: str, system: str) -> list[str]:
    """Those requirements that count on such a machine."""
    there = {
        "python_version": version,
        "python_full_version": f"{version}.0",
        "sys_platform": "darwin" if "macOS" in system else "linux",
        "platform_machine": system.rpartition(" ")[2],
    }
    found = map(Requirement, requirements)
    return [f"{each.name}{each.specifier}" for each in found if each.marker is None or each.marker.evaluate(there)]


def missing(requirements: list[str], version: str, system: str) -> dict[str, str]:
    """{name of a package without a wheel: the requirement that wants it}. Dependencies count, too. Raises Unanswered."""
    left, found = asked(requirements, version, system), {}
    platforms = [word for tag in SYSTEMS[system] for word in ("--platform", tag)]
    while left:
        with tempfile.TemporaryDirectory() as nowhere:
            options = ["--quiet", "--dry-run", "--ignore-installed", "--no-cache-dir", "--only-binary", ":all:", "--report", "-"]
            command = [sys.executable, "-m", "pip", "install", *options, "--python-version", version, "--target", nowhere, *platforms]
            done = subprocess.run([*command, *left], capture_output=True, text=True, check=False)
        if done.returncode == 0:
            assert json.loads(done.stdout)["install"]
            break
        lacks = re.search(r"satisfies the requirement ([\w.-]+)[^(]*(?:\(from ([\w.-]+)[^)]*\) )?\(from versions", done.stderr)
        wants = [each for each in left if lacks and Requirement(each).name in lacks.groups()]
        if not wants:
            raise Unanswered(done.stderr.strip()[-300:])
        found[lacks[1]] = Requirement(wants[0]).name
        left.remove(wants[0])
    return found


def cell(version: str, system: str) -> str:
    """What pip compiles there, with the extra that asks for it."""
    lacks = list(missing(BASE, version, system))
    for extra, requirements in EXTRAS.items():
        lacks += [f"{name} (`[{extra}]`)" for name in missing(requirements, version, system)]
    return ", ".join(lacks) or "nothing"


def table(systems: list[str], versions: list[str]) -> str:
    """The rows of the table."""
    with ThreadPoolExecutor(2) as pool:
        rows = {system: [pool.submit(cell, version, system) for version in versions] for system in systems}
        lines = [f"| {system} | {' | '.join(found.result() for found in row)} |" for system, row in rows.items()]
    head = ["system", *(f"Python {version}" for version in versions)]
    return "\n".join([f"| {' | '.join(head)} |", "|---" * len(head) + "|", *lines])


def main() -> None:
    """Ask, and write the table."""
    today = dt.datetime.now(dt.UTC).date()
    text = PAGE.read_text("utf-8")
    PAGE.write_text(BETWEEN.sub(f"Asked on {today}:\n\n{table(list(SYSTEMS), PYTHONS)}\n", text), "utf-8")


if __name__ == "__main__":
    main()
