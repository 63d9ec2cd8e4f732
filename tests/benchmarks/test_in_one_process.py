"""The main job and its parts in one process: each bench runs on few files, and pytest-benchmark's record becomes a table. No test
looks at a time."""

import json
import os
import subprocess
import sys

import pytest

from support.benchmark import TOP, marks, run

pytestmark = marks("in_one_process")


@pytest.mark.turns(3)
def test_every_bench_runs_on_few_files_and_becomes_a_row(scratch, tmp_path):
    record, document = tmp_path / "parts.json", tmp_path / "p.md"
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "benchmarks", "--benchmark-enable", "-p", "no:xdist", "-p", "no:cacheprovider", "-q",
         "--files", "20", "--megabytes", "1", "--benchmark-timer", "time.process_time", "--benchmark-max-time", "0",
         "--benchmark-min-rounds", "1", "--benchmark-json", str(record), "--basetemp", str(scratch / "base")],
        cwd=TOP, env={"PATH": os.environ["PATH"], "HOME": os.environ["HOME"], "PYTHONPATH": str(TOP)}, capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout
    measured = [one["name"] for one in json.loads(record.read_text())["benchmarks"]]
    document.write_text("before\n<!-- tables: in one process -->\nold\n<!-- end -->\nafter\n")
    assert run("report", record, "--into", document, scratch=scratch) == (0, "", "")
    text = document.read_text()
    assert text.startswith("before\n<!-- tables: in one process -->\n") and text.endswith("<!-- end -->\nafter\n") and "\nold\n" not in text
    assert "a generated tree of 20 files; processor time." in text and str(tmp_path) not in text
    rows = [line for line in text.splitlines() if line.startswith("| ") and not line.startswith("| |")]
    assert [f"test_{row.split(' | ')[0][2:].replace(' ', '_')}" for row in rows] == measured and len(rows) == 14
    assert [row for row in rows if "MB/s" in row] == rows[7:10]
