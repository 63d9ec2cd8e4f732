"""casrewind list: only as much is read as is asked for, and the table fits what it is printed on."""

import re

import pytest

from casrewind.cli.show.text import column_width, folded_to_width
from casrewind.cli.terminal import table
from support.trees import plant


@pytest.fixture
def several(casrewind, root, home, tmp_path):
    """Seven checkpoints of this worktree, three of another and a safety one in one store."""
    store = home / "one-for-both"

    def run(*words, **more):
        return casrewind("--store", store, *words, **more)

    for number in range(7):
        plant(root, {"f": b"%d" % number})
        run("save", "-m", f"here {number}", code=0)
        if number % 2:
            other = tmp_path / "elsewhere"
            plant(other, {"f": b"%d" % number})
            run("-C", other, "save", "-m", f"there {number}", code=0)
        if number == 4:
            run("restore", "prev", "--yes", code=0)
    return run


def test_the_newest_n_are_the_first_n_of_all(several):
    import json

    for more in ([], ["--all"], ["--session", "nobody"]):
        whole = json.loads(several("list", "--json", *more, code=0).out)["checkpoints"]
        assert len(whole) == {"": 7, "--all": 11, "--session": 0}[more[0] if more else ""]
        table = re.findall(r"^c[0-9a-f]{14}", several("list", *more, code=0).out, re.MULTILINE)
        assert table == ([point["id"] for point in whole] if more == ["--all"] else [])
        for number in (1, 2, 5, 20):
            assert json.loads(several("list", "--json", "-n", str(number), *more, code=0).out)["checkpoints"] == whole[:number]
            some = several("list", "-n", str(number), *more, code=0).out
            assert re.findall(r"^c[0-9a-f]{14}", some, re.MULTILINE) == table[:number]
            rows = json.loads(several("list", "--json", code=0).out)["rows"]
            assert json.loads(several("list", "--json", "-n", str(number), code=0).out)["rows"] == rows[:number]


LONG = "a prompt of some words 日本語のプロンプト and " + "x" * 60


@pytest.mark.parametrize("width", [20, 40, 77, 120, 400])
def test_a_table_fits_and_loses_nothing(monkeypatch, capsys, width):
    monkeypatch.setattr(table, "terminal_width", lambda: width)
    rows = [("1", "c0123456789abcd", "5 s ago", LONG, "12"), ("10", "c0123456789abce", "12 min ago", "", "3,000"), ("", "c1", "", "e\u0301te", "1")]
    table.print_table(("#", "id", "when", "what", "files"), rows, right=("#", "files"), last="what")
    lines = capsys.readouterr().out.splitlines()
    assert all(column_width(line) <= max(width, 41) for line in lines), lines
    assert all(line == line.rstrip() for line in lines)
    joined = "".join("".join(lines).split())
    for row in rows:
        assert row[1] in joined and all("".join(part.split()) in joined for part in (row[2], row[4]))
    assert all(word in joined for word in re.findall(r"\w+", LONG) if len(word) < 15)


def test_what_is_cut_says_so(monkeypatch, capsys):
    monkeypatch.setattr(table, "terminal_width", lambda: 60)
    table.print_table(("id", "what"), [("c1", LONG), ("c2", "short")], right=(), last="what", cut=True)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 4 and lines[2].endswith("…") and lines[3] == "c2   short"


def test_columns_of_a_terminal():
    assert [column_width(text) for text in ("", "abc", "é", "e\u0301", "日本", "\u200b", "…")] == [0, 3, 1, 1, 4, 0, 1]
    assert folded_to_width("one two three", 7) == ["one two", "three"] and folded_to_width("", 5) == [""]
    assert folded_to_width("日本語 ab", 4) == ["日本", "語", "ab"] and folded_to_width("abcdefgh", 3) == ["abc", "def", "gh"]
