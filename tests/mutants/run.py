"""Breaks casrewind on purpose, one promise at a time, and sees that a test notices: `python tests/mutants/run.py [NN ...]`.

Each `NN-name.patch` is a broken order or a dropped check. Its first line says which promise that breaks, its second which
test has to fail then (`killed by: tests/...::test_...`). Product and tests are copied; never is anything changed here.
The same test has to pass on the copy as it is. Exit code 1 when a mutant survives, does not apply or cannot be judged.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).resolve().parent
REPOSITORY = HERE.parent.parent
KILLED, SURVIVED, SKIPPED, BROKEN = "killed", "SURVIVED", "not run here", "BROKEN"
_PASSED = "passed"
_HANGS_AFTER = 40  # seconds for a test that a mutant keeps from ending


class Mutant(NamedTuple):
    """A patch: which promise it breaks, and the test that kills it."""

    patch: Path
    promise: str
    killer: str

    @property
    def name(self):
        return self.patch.stem


def mutants():
    """All of them, in the order of their numbers. Raises ValueError for a patch without its two lines."""
    found = []
    for patch in sorted(HERE.glob("*.patch"), key=lambda patch: int(patch.name.partition("-")[0])):
        first, second = patch.read_text().splitlines()[:2]
        promise, killer = re.fullmatch(r"# breaks: (.+)", first), re.fullmatch(r"# killed by: (tests/\S+\.py::test_\w+(\[.+\])?)", second)
        if promise is None or killer is None:
            raise ValueError(f"{patch.name} does not say in its first two lines what it breaks and which test kills it")
        found.append(Mutant(patch, promise[1], killer[1]))
    return found


class Copy:
    """Product and tests in a directory of their own; the product is made anew for every mutant."""

    def __init__(self, place):
        self.place = Path(place)
        self.place.chmod(0o755)  # some tests run the command as nobody
        unwanted = shutil.ignore_patterns("__pycache__", "*.pyc", "*.so")  # a mutant changes what is not compiled
        shutil.copytree(REPOSITORY / "casrewind", self.place / "sound", ignore=unwanted)
        shutil.copytree(REPOSITORY / "tests", self.place / "tests", ignore=unwanted)
        shutil.copytree(REPOSITORY / "docs" / "json", self.place / "docs" / "json")  # the schema that the tests hold output to
        shutil.copy(REPOSITORY / "pyproject.toml", self.place)
        (self.place / "home").mkdir()
        self.renew()
        there = self._python("-c", "import casrewind; print(casrewind.__file__)").stdout.strip()
        if Path(there) != self.place / "casrewind" / "__init__.py":
            raise RuntimeError(f"the copy is not what is imported, but {there}")

    def renew(self):
        """Make the product what it is."""
        shutil.rmtree(self.place / "casrewind", ignore_errors=True)
        shutil.copytree(self.place / "sound", self.place / "casrewind")

    def apply(self, mutant, *options):
        """Break the product. What patch says when it cannot, else ""."""
        command = ["patch", "-p1", "--fuzz=0", "--batch", "--forward", "-r", "-", *options, "-i", str(mutant.patch)]
        done = subprocess.run(command, cwd=self.place, capture_output=True, text=True)
        return "" if done.returncode == 0 else done.stdout + done.stderr

    def _python(self, *arguments, timeout=None):
        environment = {
            "PATH": os.environ["PATH"], "HOME": str(self.place / "home"), "LANG": "C.UTF-8", "TMPDIR": tempfile.gettempdir(),
            "PYTHONPATH": str(self.place), "PYTHONDONTWRITEBYTECODE": "1",
        }  # fmt: skip
        return subprocess.run(
            [sys.executable, *arguments], cwd=self.place, env=environment, capture_output=True, text=True, timeout=timeout,
        )  # fmt: skip

    def test(self, node):
        """(what became of a test: passed, KILLED, SKIPPED or BROKEN; what pytest said)."""
        base = self.place / "base"
        options = ["-x", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", f"--basetemp={base}", "-o", f"timeout={_HANGS_AFTER}"]
        done = self._python("-m", "pytest", *options, node)
        shutil.rmtree(base, ignore_errors=True)
        said = done.stdout + done.stderr
        last = next((line for line in reversed(said.splitlines()) if re.search(r"\d+ (passed|failed|skipped|error)", line)), "")
        if done.returncode == 1 and " failed" in " " + last:
            return KILLED, said
        if done.returncode != 0 or not last:
            return BROKEN, said  # nothing was found out: an error of a fixture, an import that fails, no such test
        return (_PASSED if "passed" in last else SKIPPED), said


def judge(copy, mutant, *, sound=None):
    """(KILLED, SURVIVED, SKIPPED or BROKEN; what there is to say about it). `sound`: {test: its outcome without any mutant},
    filled here; None: that is known to be passed."""
    if sound is not None and mutant.killer not in sound:
        copy.renew()
        sound[mutant.killer] = copy.test(mutant.killer)
    before, said = (_PASSED, "") if sound is None else sound[mutant.killer]
    if before == SKIPPED:
        return SKIPPED, said
    if before != _PASSED:
        return BROKEN, "without the mutant it does not pass:\n" + said
    copy.renew()
    trouble = copy.apply(mutant)
    if trouble:
        return BROKEN, "the patch does not apply any more:\n" + trouble
    outcome, said = copy.test(mutant.killer)
    return (SURVIVED if outcome == _PASSED else outcome), said


def main(arguments=None):
    parser = argparse.ArgumentParser(description="Run the mutants against the tests that have to kill them.")
    parser.add_argument("numbers", nargs="*", metavar="NN", help="beginnings of names; without, all of them")
    wanted = parser.parse_args(arguments).numbers
    chosen = [mutant for mutant in mutants() if not wanted or mutant.name.startswith(tuple(wanted))]
    sound, count = {}, dict.fromkeys((KILLED, SURVIVED, SKIPPED, BROKEN), 0)
    with tempfile.TemporaryDirectory(prefix="casrewind-mutants-") as place:
        copy = Copy(place)
        for mutant in chosen:
            started = time.monotonic()
            outcome, said = judge(copy, mutant, sound=sound)
            count[outcome] += 1
            seconds = time.monotonic() - started
            print(f"{outcome:12} {mutant.name:36} {seconds:5.1f} s  {mutant.killer.removeprefix('tests/')}", flush=True)
            if outcome != KILLED:
                print(f"             it breaks this: {mutant.promise}\n" + "".join(f"    {line}\n" for line in said.splitlines()[-25:]))
    print(f"{count[KILLED]} of {len(chosen)} mutants killed; " + ", ".join(f"{name}: {n}" for name, n in count.items() if name != KILLED))
    return 0 if chosen and count[KILLED] == len(chosen) else 1


if __name__ == "__main__":
    sys.exit(main())
