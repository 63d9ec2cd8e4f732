"""A month of an agent's work: the store stays under its budget at every instant, and gc needs no more than one pack."""

import json
import os
import subprocess
import sys

import pytest

PACK = 64 << 20
TESTS = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
SMALL = {"days": 2, "sessions": 2, "turns": 10, "files": 200, "artefact": 1_000_000, "budget": 24 << 20}
MONTH = {"days": 30, "sessions": 20, "turns": 30, "files": 400, "artefact": 1_000_000, "budget": 256 << 20}
FULL_DAY = {"days": 1, "sessions": 5, "turns": 30, "files": 7000, "artefact": 50_000_000, "budget": 5 << 30}
FULL = {**FULL_DAY, "days": 30, "sessions": 20}


def work(tmp_path, sizes):
    """What came of it, with what everybody may rely on looked at."""
    (tmp_path / "project").mkdir()
    done = subprocess.run(
        [sys.executable, "-m", "support.month_of_work", tmp_path / "project", tmp_path / "data", json.dumps(sizes)],
        capture_output=True, text=True, check=False,
        env={"PATH": os.environ["PATH"], "HOME": str(tmp_path), "PYTHONPATH": os.pathsep.join([os.path.dirname(TESTS), TESTS])},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    print(found)
    assert found["peak"] <= sizes["budget"]
    assert found["extra space of a gc, most"] <= min(PACK, sizes["budget"] // 4)
    assert found["problems"] == 0
    assert found["budget not kept"] == 0
    assert found["gcs"] > 0
    return found


@pytest.mark.turns(3)
def test_some_days_in_a_tight_budget(tmp_path):
    found = work(tmp_path, SMALL)
    assert found["forgotten"] > 0
    assert found["of the last day"] >= 10


@pytest.mark.long
@pytest.mark.timeout(7200)
def test_a_month_of_eighteen_thousand_turns(tmp_path):
    found = work(tmp_path, MONTH)
    assert found["forgotten"] > 30_000


@pytest.mark.long
@pytest.mark.timeout(7200)
def test_five_sessions_in_full_size(tmp_path):
    assert work(tmp_path, FULL_DAY)["forgotten"] > 50


@pytest.mark.release
@pytest.mark.timeout(36000)
def test_a_month_in_full_size(tmp_path):
    work(tmp_path, FULL)
