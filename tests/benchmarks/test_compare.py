"""The benchmarks run: every bench once on few files, and the comparison on a small tree. No test here looks at a time."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
import xml.etree.ElementTree as xml
from pathlib import Path

import pytest

from support.benchmark import marks

pytestmark = marks("compare")

TOP = Path(__file__).parent.parent.parent
SVG = "{http://www.w3.org/2000/svg}"
USUAL = ["first", "disk", "memory", "unchanged", "list"]
MORE = ["edited", "edited-many", "restore", "restore-many", "diff", "session", "list-many", "large", "sqlite", "transcript"]
MORE += [f"{name}-disk" for name in ("large", "sqlite", "transcript")]
BYTES = {"disk", "memory", "session", "large-disk", "sqlite-disk", "transcript-disk"}
TINY = ["--many", 30, "--checkpoints", 3, "--history", 5, "--large", 2, "--sqlite", 1, "--transcript", 1]
needs_git = pytest.mark.skipif(shutil.which("git") is None, reason="compares with git, which is not installed")


def start(*arguments, scratch, path=None):
    """The comparison, started; whatever it makes for itself is below `scratch`."""
    environ = {"PATH": path or os.environ["PATH"], "TMPDIR": str(scratch), "HOME": os.environ["HOME"], "PYTHONPATH": str(TOP)}
    command = [sys.executable, "-m", "benchmarks.compare", *map(str, arguments)]
    return subprocess.Popen(command, cwd=TOP, env=environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


@pytest.fixture
def compare(scratch):
    """Run the comparison to its end: (exit code, stdout, stderr). It leaves nothing behind."""

    def run(*arguments, path=None):
        process = start(*arguments, scratch=scratch, path=path)
        out, err = process.communicate(timeout=300)
        assert "Traceback" not in err, err
        assert "--keep" in arguments or list(scratch.iterdir()) == []
        return process.returncode, out, err

    return run


@pytest.fixture
def tools(tmp_path):
    """A PATH with nothing on it but what `add(name, script)` puts there."""
    place = tmp_path / "tools"
    place.mkdir()

    def add(name, script):
        (place / name).write_text(f"""#!/bin/sh\n'''exec' "{sys.executable}" "$0" "$@"\n' '''\n{script}\n""")
        (place / name).chmod(0o755)

    add.path = str(place)
    return add


@needs_git
def test_every_sample_is_in_the_json_and_the_tools_take_turns(compare, tmp_path):
    code, out, err = compare(
        "--files", 200, "--rounds", 2, *TINY, "--tools", "casrewind,git", "--only", ",".join(USUAL),
        "--json", tmp_path / "r.json", "--chart", tmp_path / "r.svg",
    )  # fmt: skip
    assert code == 0, err
    record = json.loads((tmp_path / "r.json").read_text())
    assert record["tree"] == {"name": "generated", "files": 200, "bytes": record["tree"]["bytes"], "captured_files": 200}
    assert set(record["tools"]) == {"casrewind", "git"} and "git version" in record["tools"]["git"]["version"]
    assert record["absent"] == record["failed"] == {}

    samples = record["samples"]
    assert [sample["number"] for sample in samples] == list(range(len(samples)))
    for operation in set(USUAL) - {"memory"}:
        turns = [(sample["round"], sample["tool"]) for sample in samples if sample["operation"] == operation]
        assert turns == [(0, "casrewind"), (0, "git"), (1, "casrewind"), (1, "git")], operation
    assert [sample["tool"] for sample in samples if sample["operation"] == "memory"] == ["casrewind", "git"]
    assert {sample["operation"] for sample in samples if sample["unit"] == "bytes"} == BYTES & set(USUAL)
    assert all(sample["value"] > 0 for sample in samples)
    assert record["options"][:2] == ["--checkpoints", "3"] and "--tools" in record["options"] and "--json" not in record["options"]

    for operation, tools in record["summary"].items():
        taken = {name: [s["value"] for s in samples if s["operation"] == operation and s["tool"] == name] for name in tools}
        for name, line in tools.items():
            assert line["least"] == min(taken[name]) and line["samples"] == len(taken[name])
            assert line["median"] == pytest.approx(sum(taken[name]) / len(taken[name])), "of two, the median is the mean"
            assert line["ratio"] == pytest.approx(line["median"] / tools["git"]["median"])
    title = out.partition("\n")[0]
    assert title.startswith("generated: 200 files, ") and "2 rounds" in title
    assert [line for line in out.splitlines() if line.startswith("  git ") and line.removesuffix(" ~").endswith(" 1.00")]

    chart = xml.parse(tmp_path / "r.svg").getroot()
    assert chart.tag == SVG + "svg" and chart.find(SVG + "title").text == title
    said = [text.text for text in chart.iter(SVG + "text")]
    assert said.count("casrewind") == len(record["summary"]) and "list of 3" in said
    assert len(chart.findall(SVG + "rect")) == 1 + len(record["summary"]), "a background, and a bar per operation"


@needs_git
def test_operations_on_many_and_on_large_ones(compare, tmp_path):
    code, out, err = compare(
        "--files", 40, "--rounds", 1, *TINY, "--tools", "casrewind,git", "--only", ",".join(MORE), "--json", tmp_path / "r.json"
    )
    assert code == 0, err
    record = json.loads((tmp_path / "r.json").read_text())
    taken = [(sample["operation"], sample["tool"]) for sample in record["samples"]]
    assert sorted(taken) == sorted((name, tool) for name in MORE for tool in ("casrewind", "git"))
    assert {sample["operation"] for sample in record["samples"] if sample["unit"] == "bytes"} == BYTES & set(MORE)
    assert record["failed"] == {} and record["unable"] == []
    titles = ("save after 30 edits", "disk after a session of 3 saves", "list of 5", "1 MB put into a file of 2 MB")
    assert all(any(line.startswith(title) for line in out.splitlines()) for title in titles)


def test_a_tool_that_is_not_there_is_named_and_nothing_else_happens(compare, tools, tmp_path):
    code, out, err = compare(
        "--files", 10, "--rounds", 1, "--only", "unchanged", "--tools", "casrewind,git,git-fsync,restic,borg,stepback,unedit",
        "--json", tmp_path / "r.json", "--chart", tmp_path / "r.svg", path=tools.path,
    )  # fmt: skip
    assert code == 0, err
    record = json.loads((tmp_path / "r.json").read_text())
    assert record["absent"] == dict.fromkeys(["git", "git-fsync", "restic", "borg", "stepback", "unedit"], "not installed")
    assert [(sample["operation"], sample["tool"]) for sample in record["samples"]] == [("unchanged", "casrewind")]
    assert record["summary"]["unchanged"]["casrewind"]["ratio"] is None
    assert "restic: not installed" in out.splitlines() and "unedit: not installed" in out.splitlines()
    assert "no chart" in err and not (tmp_path / "r.svg").exists()


def test_a_tool_that_fails_is_out_and_the_others_go_on(compare, tools, tmp_path):
    tools("unedit", "import sys; sys.exit('' if '--version' in sys.argv else 'too many files')")
    code, out, err = compare(
        "--files", 10, "--rounds", 2, "--only", "first,edited", "--tools", "casrewind,unedit", "--json", tmp_path / "r.json", path=tools.path
    )
    assert code == 0, err
    record = json.loads((tmp_path / "r.json").read_text())
    assert record["failed"] == {"unedit": {"operation": "first", "message": "unedit ended with 1: too many files"}}
    assert [sample["tool"] for sample in record["samples"]] == ["casrewind"] * 4
    assert "unedit: failed in first: unedit ended with 1: too many files" in out


def test_a_restore_that_restores_nothing_is_a_failure(compare, tools, tmp_path):
    tools("unedit", "import os; os.makedirs('.unedit', exist_ok=True)")
    code, _, err = compare(
        "--files", 10, "--rounds", 1, "--only", "restore", "--tools", "unedit", "--json", tmp_path / "r.json", path=tools.path
    )
    assert code == 0, err
    failed = json.loads((tmp_path / "r.json").read_text())["failed"]["unedit"]
    assert failed == {"operation": "restore", "message": "unedit: 10 of 10 files are not what they were after its restore"}


def test_a_tree_is_copied_never_touched_and_only_what_is_captured_is_edited(compare, tmp_path, tools):
    tree = tmp_path / "tree"
    (tree / "built").mkdir(parents=True)
    (tree / ".git").mkdir()
    (tree / ".gitignore").write_text("built/\n")
    for number in range(12):
        (tree / f"f{number}").write_text(f"{number}\n")
        (tree / "built" / f"b{number}").write_text(f"{number}\n")
    os.symlink("f0", tree / "link")
    os.mkfifo(tree / "fifo")

    def look():
        paths = [path for path in tree.rglob("*") if not path.is_fifo()]
        return {str(path): (path.lstat().st_mtime_ns, path.is_file() and path.read_bytes()) for path in paths}

    before = look()
    code, out, err = compare(
        tree, "--rounds", 1, "--only", "edited,restore", "--tools", "casrewind", "--keep", "--json", tmp_path / "r.json", path=tools.path
    )
    assert code == 0, err
    assert look() == before
    assert json.loads((tmp_path / "r.json").read_text())["tree"]["captured_files"] == 13
    kept = Path(err.splitlines()[-1].removeprefix("kept: ")) / "trees/casrewind"
    assert os.readlink(kept / "link") == "f0" and not (kept / ".git").exists() and not (kept / "fifo").exists()
    assert {path.read_text() for path in kept.glob("built/b*")} == {f"{number}\n" for number in range(12)}
    assert "edit" in (kept / "f1").read_text() + (kept / "f2").read_text()


def test_figures_of_an_unsteady_machine_are_marked(monkeypatch):
    monkeypatch.syspath_prepend(str(TOP))
    from benchmarks.compare import rounds, summary

    def lines(**values):
        samples = [rounds.Sample(0, "first", turn, tool, value, {}) for tool in values for turn, value in enumerate(values[tool])]
        return summary.table(summary.summarise(samples), {}, {}, [], sizes=rounds.Sizes())

    calm = lines(casrewind=[1.0, 1.2, 1.4], git=[2.0, 2.4, 9.0])
    assert calm[2].split()[-1] == "0.50" and calm[3].split()[-1] == "1.00" and not any("~" in line for line in calm)
    assert [line.endswith(" ~") for line in lines(casrewind=[1.0, 1.6, 1.7], git=[2.0])[2:4]] == [True, False]
    rough = lines(casrewind=[1.0, 1.0, 1.0], git=[2.0, 3.1, 3.2])
    assert rough[2].endswith(" 0.32 ~") and rough[3].endswith(" 1.00 ~"), "a ratio to an unsteady git is unsteady"
    assert rough[-1].startswith("~ not steady")
    assert lines(casrewind=[1.0])[2].split()[-1] == "-"


def test_processor_time_stands_beside_what_took_it(monkeypatch):
    monkeypatch.syspath_prepend(str(TOP))
    from benchmarks.compare import rounds, summary

    samples = [rounds.Sample(0, "first", turn, "git", 2.0, {"processor_seconds": worked}) for turn, worked in enumerate((3.0, 1.5, 2.5))]
    samples.append(rounds.Sample(0, "disk", 0, "git", 5e6, {}))
    found = summary.summarise(samples)
    assert (found["first"]["git"].processor, found["disk"]["git"].processor) == (2.5, None)
    lines = summary.table(found, {}, {}, [], sizes=rounds.Sizes())
    assert [line.split()[1:] for line in lines if line.startswith("  git")] == [
        ["3", "2.00", "s", "2.00", "s", "2.50", "s", "1.00"], ["1", "5.0", "MB", "5.0", "MB", "1.00"],
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--rounds", "0"], "--rounds: 0 is too few, 1 or more"),
        (["--rounds", "many"], "invalid int value: 'many'"),
        (["--files", "9"], "--files: 9 is too few, 10 or more"),
        (["--checkpoints", "0"], "--checkpoints: 0 is too few"),
        (["--large", "0"], "--large: 0 is too few"),
        (["--patience", "long"], "invalid float value: 'long'"),
        (["--only", "first,second"], "'second' is none of first, "),
        (["--tools", "tar"], "'tar' is none of casrewind, casrewind-bare, git, "),
        (["--json", "/nowhere/at/all.json"], "--json: '/nowhere/at/all.json' cannot be written"),
        (["--chart", "/"], "--chart: '/' cannot be written"),
        (["/nowhere"], "'/nowhere' is no directory"),
        ([".", "--files", "10"], "give TREE or --files, not both"),
        (["--faster"], "unrecognized arguments: --faster"),
    ],
)
def test_bad_arguments_are_one_clear_line(arguments, said, capsys, monkeypatch):
    monkeypatch.syspath_prepend(str(TOP))
    from benchmarks.compare.__main__ import options

    with pytest.raises(SystemExit) as ended:
        options(arguments)
    out, err = capsys.readouterr()
    assert ended.value.code == 64 and out == "" and err.count("\n") == 1
    assert err.startswith("compare: ") and said in err


def test_a_tree_with_too_few_files_is_a_usage_error(compare, tmp_path, tools):
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree/one").write_text("1\n")
    code, out, err = compare(tmp_path / "tree", path=tools.path)
    assert (code, out) == (64, "") and "TREE has 1 files" in err.splitlines()[-1]


def test_a_second_ratio_is_to_git_that_syncs(monkeypatch):
    monkeypatch.syspath_prepend(str(TOP))
    from benchmarks.compare import rounds, summary

    values = {"casrewind": 3.0, "git": 6.0, "git-fsync": 12.0}
    samples = [rounds.Sample(0, "first", 0, tool, value, {}) for tool, value in values.items()]
    lines = summary.table(summary.summarise(samples), {}, {}, [], sizes=rounds.Sizes())
    assert lines[1].split()[-4:] == ["x", "git", "x", "fsync"]
    assert [line.split()[-2:] for line in lines[2:5]] == [["0.50", "0.25"], ["1.00", "0.50"], ["2.00", "1.00"]]


def test_a_quick_run_asks_slow_tools_for_less_and_whoever_takes_long_for_fewer_rounds(compare, tools, tmp_path):
    save = "import os, sys; os.makedirs('.unedit', exist_ok=True)"
    tools("unedit", save)
    code, out, err = compare(
        "--files", 10, "--rounds", 3, "--only", "first,edited-many,edited", "--tools", "casrewind,unedit", "--quick",
        "--patience", "0.001", "--json", tmp_path / "r.json", path=tools.path,
    )  # fmt: skip
    assert code == 0, err
    record = json.loads((tmp_path / "r.json").read_text())
    taken = [(sample["operation"], sample["tool"]) for sample in record["samples"]]
    assert taken == [("first", "casrewind"), ("first", "unedit"), ("edited", "casrewind"), ("edited", "unedit"), ("edited-many", "casrewind")]
    assert "save after 10 edits" in out and record["sizes"]["many"] == 10, "no more files are edited than there are"


def test_a_tool_that_leaves_a_large_file_out_is_named_and_has_no_figure(compare, tools, tmp_path):
    tools("unedit", "import os; os.makedirs('.unedit', exist_ok=True)")
    code, out, err = compare(
        "--files", 10, "--rounds", 1, "--only", "large,large-disk", "--tools", "casrewind,unedit", "--large", 2,
        "--json", tmp_path / "r.json", path=tools.path,
    )  # fmt: skip
    assert code == 0, err
    record = json.loads((tmp_path / "r.json").read_text())
    assert [(one["operation"], one["tool"]) for one in record["samples"]] == [("large", "casrewind"), ("large-disk", "casrewind")]
    assert record["unable"] == [{"tool": "unedit", "operation": "large", "message": "unedit did not save a file of 2 MB"}]
    assert record["failed"] == {} and "unedit: cannot do large: unedit did not save a file of 2 MB" in out
    (added,) = [one["value"] for one in record["samples"] if one["operation"] == "large-disk"]
    assert added < 2_000_000, "the megabyte that was put in, not the file once more"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_ends_what_runs_and_leaves_nothing(number, scratch, tools):
    tools("unedit", "import os, sys, time\nprint(1)\nif 'save' in sys.argv: open('started', 'w').write(str(os.getpid())); time.sleep(100)")
    process = start("--files", 10, "--tools", "unedit", scratch=scratch, path=tools.path)
    for _ in range(600):
        found = [path for path in scratch.glob("*/trees/unedit/started") if path.read_text()]
        if found:
            break
        time.sleep(0.05)
    child = int(found[0].read_text())
    time.sleep(0.5)  # it is known to who has started it, too
    process.send_signal(number)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130 and err.splitlines()[-1] == "interrupted"
    assert list(scratch.iterdir()) == []
    with pytest.raises(ProcessLookupError):
        os.kill(child, 0)
