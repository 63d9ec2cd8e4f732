"""The benchmark of a long history runs on a short one, beside another checkout. No test looks at a time."""

import json

import pytest

from support.benchmark import TOP, marks, run

pytestmark = marks("history")


def test_commands_and_the_picker_are_measured_beside_another_checkout(scratch, tmp_path):
    record = tmp_path / "h.json"
    few = ("--checkpoints", "2", "--kinds", "turns", "--commands", "show @1,list,picker", "--rounds", 1)
    code, out, err = run("history", *few, "--against", TOP, "--json", record, scratch=scratch)
    assert code == 0, err
    assert list(scratch.iterdir()) == []
    lines = json.loads(record.read_text())["lines"]
    measured = [line for line in lines if line["command"] != "checkpoint made"]
    assert {line["which"] for line in measured} == {"this", "other"}
    assert {line["command"] for line in measured} == {"list", "show @1", "picker"}
    assert all(0 < line["first"] <= line["processor"] and line["memory"] > 0 for line in measured)
    assert sum(line.startswith("| turns | list |") and line.count("(before ") == 1 for line in out.splitlines()) == 1


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--kinds", "edits"], "'edits' is none of saves, turns"),
        (["--commands", "list,lst"], "'lst' is none of list -n 20, show last,"),
        (["--rounds", "0"], "--rounds: 0 is too few, 1 or more"),
        (["--against", "/nowhere"], "--against: '/nowhere' is no checkout"),
    ],
)
def test_bad_arguments_are_one_clear_line(arguments, said, capsys, monkeypatch):
    monkeypatch.syspath_prepend(str(TOP))
    from benchmarks import history

    with pytest.raises(SystemExit) as ended:
        history.options(arguments)
    out, err = capsys.readouterr()
    assert ended.value.code == 64 and out == "" and err.count("\n") == 1 and said in err
