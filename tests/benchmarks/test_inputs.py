"""What the benchmarks measure on is what they say it is, and the same for every tool."""

import contextlib
import json
import sqlite3
from pathlib import Path

import pytest

TOP = Path(__file__).parent.parent.parent


@pytest.fixture(autouse=True)
def _importable(monkeypatch):
    monkeypatch.syspath_prepend(str(TOP))


def pages(path, size=4096):
    data = path.read_bytes()
    return [data[start : start + size] for start in range(0, len(data), size)]


@pytest.mark.parametrize("kind", ["large", "sqlite", "transcript"])
def test_two_tools_get_the_same_file_and_the_same_changes(tmp_path, kind):
    from benchmarks.compare import inputs

    files = []
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        files.append(inputs.MAKERS[kind](str(tmp_path / name), 1_000_000))
    for step in (0, 1):
        assert Path(files[0].path).read_bytes() == Path(files[1].path).read_bytes()
        before = Path(files[0].path).read_bytes()
        for file in files:
            file.change(step)
        assert Path(files[0].path).read_bytes() != before


def test_a_megabyte_is_put_into_the_middle_of_the_large_file(tmp_path):
    from benchmarks.compare import inputs

    large = inputs.Large(str(tmp_path), 3_000_000)
    before = Path(large.path).read_bytes()
    large.change(0)
    after = Path(large.path).read_bytes()
    assert len(before) == 3_000_000 and len(after) == 4_000_000
    assert after[:1_500_000] == before[:1_500_000] and after[2_500_000:] == before[1_500_000:]


def test_forty_pages_of_the_database_change_and_its_header(tmp_path):
    from benchmarks.compare import inputs

    base = inputs.Sqlite(str(tmp_path), 1_000_000)
    before = pages(Path(base.path))
    base.change(0)
    after = pages(Path(base.path))
    assert len(before) == len(after) and 1_000_000 <= len(after) * 4096 < 1_100_000
    changed = [number for number, (old, new) in enumerate(zip(before, after, strict=True)) if old != new]
    assert len(changed) == 41 and changed[0] == 0
    with contextlib.closing(sqlite3.connect(base.path)) as opened:
        assert opened.execute("pragma integrity_check").fetchone() == ("ok",)


def test_the_transcript_grows_by_whole_lines_at_its_end(tmp_path):
    from benchmarks.compare import inputs

    talk = inputs.Conversation(str(tmp_path), 300_000)
    before = Path(talk.path).read_bytes()
    talk.change(0)
    after = Path(talk.path).read_bytes()
    assert after.startswith(before) and 0.9 * inputs.GROWTH < len(after) - len(before) < 1.3 * inputs.GROWTH
    assert all(json.loads(line)["uuid"] for line in after.splitlines())


def test_a_session_changes_few_files_makes_some_and_removes_some(tmp_path):
    from benchmarks import trees

    trees.generate(str(tmp_path), 60)
    paths = sorted(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*.py"))
    texts = {path: (tmp_path / path).read_bytes() for path in paths}
    for step in range(10):
        trees.work(str(tmp_path), paths, step)
        now = {path: (tmp_path / path).read_bytes() for path in paths}
        assert 1 <= sum(texts[path] != now[path] for path in paths) <= 4
        texts = now
    assert [path.name for path in tmp_path.rglob("new*")] == ["new0.txt"], "two were made, one was removed"


@pytest.mark.parametrize("shape", ["shallow", "deep", "wide"])
def test_projects_have_their_shape(tmp_path, shape):
    from benchmarks import growth

    chosen = growth.make(str(tmp_path / "p"), shape, 2100)
    found = [path.relative_to(tmp_path / "p") for path in (tmp_path / "p").rglob("f*.txt")]
    assert len(found) == 2100 and len(set(chosen)) == growth.EDITS and set(chosen) <= set(map(str, found))
    inside = {}
    for path in found:
        inside[path.parent] = inside.get(path.parent, 0) + 1
    widest, depth = max(inside.values()), max(len(path.parts) - 1 for path in found)
    assert (widest, depth) == {"shallow": (20, 2), "deep": (5, 20), "wide": (1000, 1)}[shape]
    assert len({path.read_bytes() for path in (tmp_path / "p").rglob("f*.txt")}) == 2100
