"""Do the tests bite? Every mutant applies and names a test that exists; some of them are run. All of them, with figures:
`python tests/mutants/run.py`."""

import hashlib
import random
import re
import shutil

import pytest
from mutants import run

from support import unprivileged

SOME = 2
MUTANTS = run.mutants()
needs_patch = pytest.mark.skipif(shutil.which("patch") is None, reason="needs patch")


def test_there_are_enough_of_them_and_their_numbers_are_in_order():
    assert len(MUTANTS) >= 24
    assert [int(mutant.name.partition("-")[0]) for mutant in MUTANTS] == list(range(1, len(MUTANTS) + 1))


@needs_patch
def test_every_mutant_applies_and_changes_nothing_but_the_product(tmp_path):
    copy = run.Copy(tmp_path)
    for mutant in MUTANTS:
        assert re.findall(r"^\+\+\+ b/(?!casrewind/)", mutant.patch.read_text(), re.MULTILINE) == [], mutant.name
        assert copy.apply(mutant, "--dry-run") == "", mutant.name


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_the_test_that_kills_it_exists(mutant):
    path, _, name = mutant.killer.partition("::")
    assert f"def {name.partition('[')[0]}(" in (run.REPOSITORY / path).read_text()


@needs_patch
def test_a_patch_that_does_not_apply_and_a_mutant_that_survives_are_told(tmp_path):
    """A harness that calls everything killed would be worth nothing."""
    first, second, third = (tmp_path / name for name in ("copy", "gone.patch", "harmless.patch"))
    first.mkdir()
    second.write_text("--- a/casrewind/launch.py\n+++ b/casrewind/launch.py\n@@ -1 +1 @@\n-what never stood there\n+anything\n")
    line = (run.REPOSITORY / "casrewind/launch.py").read_text().splitlines()[0]
    third.write_text(f"--- a/casrewind/launch.py\n+++ b/casrewind/launch.py\n@@ -1 +1 @@\n-{line}\n+{line} \n")
    copy, killer = run.Copy(first), "tests/store/test_fsio.py::test_a_sync_that_fails_is_an_error"
    outcome, said = run.judge(copy, run.Mutant(second, "", killer))
    assert outcome == run.BROKEN and "does not apply" in said
    assert run.judge(copy, run.Mutant(third, "", killer))[0] == run.SURVIVED
    assert run.judge(copy, run.Mutant(third, "", killer + "_not"))[0] == run.BROKEN


@pytest.fixture
def open_place():
    """A directory that every user can enter: nobody would import the product that is not broken."""
    with unprivileged.open_directory() as place:
        yield place


@needs_patch
def test_some_mutants_are_killed(open_place):
    """Which ones, the product's own bytes decide: others after every change of it."""
    seed = hashlib.sha256()
    for path in sorted((run.REPOSITORY / "casrewind").rglob("*.py")):
        seed.update(path.read_bytes())
    copy = run.Copy(open_place)
    for mutant in random.Random(seed.digest()).sample(MUTANTS, SOME):
        outcome, said = run.judge(copy, mutant)  # that the test passes as it is, the suite sees that this one is part of
        assert outcome in (run.KILLED, run.SKIPPED), f"{mutant.name}: {outcome}\n{said}"


@needs_patch
@pytest.mark.long
@pytest.mark.timeout(3600)
def test_all_mutants_are_killed(capsys):
    code = run.main([])
    assert code == 0, capsys.readouterr().out
