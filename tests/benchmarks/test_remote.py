"""The benchmark of remotes runs, on few files and turns. No test looks at a time."""

import json

import pytest

from support.benchmark import TOP, marks, run

pytestmark = marks("remote")

STEPS = ["first", "edit", "nothing", "pull", "each", "clone", "clone-all", "once"]


def test_every_step_is_counted_by_the_server(scratch, tmp_path):
    record = tmp_path / "r.json"
    code, out, err = run("remote", "--files", 40, "--turns", 2, "--tools", "casrewind", "--json", record, scratch=scratch)
    assert code == 0 and err == "", err
    assert list(scratch.iterdir()) == []
    costs = {cost["step"]: cost for cost in json.loads(record.read_text())["costs"]}
    assert list(costs) == STEPS
    look = {"GET": 2, "LIST": 1}  # a push that is typed looks at the head and at the newest piece
    assert costs["edit"]["requests"] == {"PUT": 1, "GET": 3, "LIST": 1} and costs["nothing"]["requests"] == look
    assert costs["each"]["requests"]["PUT"] == 2
    assert sum(line.startswith("  casrewind") for line in out.splitlines()) == len(STEPS)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--files", "9"], "--files: 9 is too few, 40 or more"), (["--turns", "0"], "--turns: 0 is too few, 1 or more"),
        (["--tools", "rsync"], "--tools: 'rsync' is none of casrewind, no-roll-ups, restic, rclone"), (["/nowhere"], "/nowhere: no such directory"),
    ],
)  # fmt: skip
def test_bad_arguments_are_one_clear_line(arguments, said, capsys, monkeypatch):
    monkeypatch.syspath_prepend(str(TOP))
    from benchmarks import remote

    with pytest.raises(SystemExit) as ended:
        remote.options(arguments)
    out, err = capsys.readouterr()
    assert ended.value.code == 64 and out == "" and err.count("\n") == 1 and said in err
