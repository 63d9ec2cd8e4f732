"""The benchmark of growth runs, on few files, and what it wrote becomes the tables of a document. No test looks at a time."""

import json
import shutil

import pytest

from support.benchmark import TOP, marks, run

pytestmark = marks("growth")

needs_git = pytest.mark.skipif(shutil.which("git") is None, reason="compares with git, which is not installed")


@pytest.mark.turns(3)
@needs_git
def test_every_operation_is_measured_at_every_size_and_becomes_a_table(scratch, tmp_path):
    record = tmp_path / "g.json"
    code, out, err = run(
        "growth", "--files", "20", "--shapes", "deep", "--checkpoints", "3", "--rounds", 1, "--json", record, scratch=scratch
    )
    assert code == 0, err
    assert list(scratch.iterdir()) == []
    lines = json.loads(record.read_text())["lines"]
    files = ["first", "unchanged", "edited", "restore", "diff", "list", "git-status"]
    stores = ["unchanged", "edited", "restore", "diff", "list", "list-all", "status"]
    taken = [(line["by"], line["size"], line["operation"]) for line in lines]
    assert taken == [*(("files", 20, name) for name in files), *(("checkpoints", 3, name) for name in stores)]
    assert all(line["seconds"] > 0 and line["memory"] > 0 for line in lines)
    assert sum(line.startswith("  git status") for line in out.splitlines()) == 1

    document = tmp_path / "p.md"
    document.write_text("before\n<!-- tables: growth -->\nold\n<!-- end -->\nafter\n")
    code, out, err = run("report", record, "--into", document, scratch=scratch)
    assert (code, out, err) == (0, "", "")
    text = document.read_text()
    assert text.startswith("before\n<!-- tables: growth -->\n") and text.endswith("<!-- end -->\nafter\n") and "\nold\n" not in text
    assert "--shapes deep" in text and str(tmp_path) not in text
    rows = [line for line in text.splitlines() if line.startswith("|") and not line.startswith("|---")]
    assert len(rows) == (1 + 7 + 1) + (1 + 7) and {line.count("|") for line in rows} == {4}
    assert run("report", record, "--into", document, scratch=scratch)[0] == 0 and document.read_text() == text


def test_sizes_stand_side_by_side_with_the_exponents_between_them(monkeypatch):
    monkeypatch.syspath_prepend(str(TOP))
    from benchmarks import growth, report

    taken = [{"by": "files", "shape": "wide", "operation": name, "memory": 3e6} for name in ("unchanged", "git-status") for _ in range(3)]
    for line, size, seconds in zip(taken, (10, 100, 1000) * 2, (0.1, 1.0, 1.0, 0.05, 0.5, 0.25), strict=True):
        line |= {"size": size, "seconds": seconds}
    record = {"kind": "growth", "options": [], "time": "2026-11-21T10:00:00", "python": "3", "platform": {"processors": 2}, "versions": {}, "lines": taken}
    text = "\n".join(report.lines(record))
    assert "| | 10 | 100 | 1,000 | exponent |" in text
    assert "| save, nothing changed | 100 ms, 3 MB | 1.00 s, 3 MB | 1.00 s, 3 MB | 1.00, 0.00 |" in text
    assert "| nothing changed, x git status | 2.00 | 2.00 | 4.00 | |" in text
    assert [line.split()[-2:] for line in growth.table(record) if line.startswith("  save")] == [["1.00,", "0.00"]]


def test_exponents(monkeypatch):
    monkeypatch.syspath_prepend(str(TOP))
    from benchmarks import growth

    lines = [{"size": 10, "seconds": 2.0}, {"size": 1000, "seconds": 200.0}, {"size": 4000, "seconds": 400.0}]
    assert growth.exponent(lines[0], lines[1], "seconds") == pytest.approx(1)
    assert growth.exponent(lines[1], lines[2], "seconds") == pytest.approx(0.5)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--files", "9"], "--files: 9 is too few, 10 or more"),
        (["--files", "many"], "'many' is no list of numbers"),
        (["--shapes", "round"], "'round' is none of shallow, deep, wide"),
        (["--rounds", "0"], "--rounds: 0 is too few, 1 or more"),
        (["--json", "/nowhere/at/all.json"], "--json: '/nowhere/at/all.json' cannot be written"),
    ],
)
def test_bad_arguments_are_one_clear_line(arguments, said, capsys, monkeypatch):
    monkeypatch.syspath_prepend(str(TOP))
    from benchmarks import growth

    with pytest.raises(SystemExit) as ended:
        growth.options(arguments)
    out, err = capsys.readouterr()
    assert ended.value.code == 64 and out == "" and err.count("\n") == 1 and said in err


def compared(ratio, **others):
    """A record of compare, with a first save of casrewind that takes `ratio` times what git takes, which is 10 s."""
    seconds = {"casrewind": 10.0 * ratio, "git": 10.0, "git-fsync": 20.0, **others}
    found = {
        tool: {"median": value, "least": value, "ratio": value / 10, "synced": value / 20, "samples": 1, "steady": True}
        for tool, value in seconds.items()
    }
    return {
        "kind": "compare", "options": ["--quick"], "time": "2026-11-21T10:00:00+00:00", "python": "3.11.7", "sizes": {},
        "platform": {"processors": 2}, "tree": {"name": "kernel", "files": 12_345, "bytes": 5_000_000}, "summary": {"first": found},
        "tools": {tool: {"version": f"{tool} 1.0"} for tool in seconds}, "failed": {}, "unable": [], "chart": "kernel.svg",
    }  # fmt: skip


@pytest.mark.parametrize("ratio", [0.2, 1.31])
def test_a_report_has_the_ratio_to_git_with_and_without_syncs(monkeypatch, ratio):
    monkeypatch.syspath_prepend(str(TOP))
    from benchmarks import report

    row = next(line for line in report.lines(compared(ratio)) if line.startswith("| first save |"))
    cells = [cell.strip() for cell in row.strip("|").split("|")]
    assert cells == ["first save", "10.00 s", f"{10 * ratio:.2f} s", f"{ratio:.2f}", f"{10 * ratio / 20:.2f}"]


def test_a_report_says_by_how_much_the_fastest_of_the_others_is_beaten(monkeypatch):
    monkeypatch.syspath_prepend(str(TOP))
    from benchmarks import report

    text = "\n".join(report.lines(compared(0.2, borg=30.0, restic=6.0)))
    assert "The first save is 3.0 times as fast as that of restic, the fastest of restic, borg." in text
    assert text.endswith("![kernel: ratios to git](kernel.svg)")
    assert "12,345 files, 5 MB." in text and "`python -m benchmarks.compare kernel --quick`" in text
    assert "2.4 times" in "\n".join(report.lines(compared(0.25, borg=6.0)))


def test_a_document_without_a_place_for_the_tables_stays_as_it_is(scratch, tmp_path):
    record, document = tmp_path / "r.json", tmp_path / "p.md"
    record.write_text(json.dumps(compared(0.2)))
    document.write_text("<!-- tables: other -->\n<!-- end -->\n")
    code, out, err = run("report", record, "--into", document, scratch=scratch)
    assert code == 64 and out == "" and err.startswith("report: the document has no place for these tables: <!-- tables: kernel -->")
    assert document.read_text() == "<!-- tables: other -->\n<!-- end -->\n"


def test_a_short_table_has_least_values_and_processor_time_of_each_run(scratch, tmp_path):
    record, document = compared(0.2), tmp_path / "p.md"
    for tool, line in record["summary"]["first"].items():
        line |= {"least": line["median"] / 2, "processor": {"casrewind": 3.0, "git": 12.0}.get(tool)}
    paths = []
    for number, python in enumerate(("3.11.2", "3.11.7")):
        paths.append(tmp_path / f"{number}.json")
        paths[-1].write_text(json.dumps({**record, "python": python}))
    document.write_text("<!-- tables: short -->\n<!-- end -->\n")
    assert run("report", *paths, "--short", "--into", document, scratch=scratch) == (0, "", "")
    rows = [line for line in document.read_text().splitlines() if line.startswith("| kernel")]
    assert rows == [
        f"| kernel, Python {python}: first save | 10.00 s, 5.00 s, 12.00 s | 2.00 s, 1.00 s, 3.00 s | 0.20 | 0.25 |"
        for python in ("3.11.2", "3.11.7")
    ]
