"""The pages for users are walked: their commands are run, their examples executed, their tables compared with the code."""

import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import casrewind
from casrewind import config
from support.generate_sessions import sessions

TOP = Path(__file__).resolve().parent.parent.parent
DOCS = TOP / "docs"
STANDS_FOR = {"PATH": "till.py", "AGENT": "claude", "COMMAND": "true", "OLD": "../gone", "DIR": "../out", "REF": "last", "N": "1"}
NOT_RUN = ("--in-place", "--text", "completion", "casrewind restore --continue", "casrewind restore --abort", "casrewind adopt", "--aggressive", "casrewind push", "casrewind watch")
"""Refused here (the client lives, no restore was interrupted, nothing was moved, there is no remote), with input of their own, or without
an end."""


def lines_of(page):
    """The complete command lines of casrewind's in a page's tables and running text."""
    text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    found = [" ".join(code.split()) for code in re.findall(r"(?<!`)`(casrewind [^`]+)`(?!`)", text)]
    return list(dict.fromkeys(line for line in found if line != "casrewind restore" and not any(word in line for word in NOT_RUN)))


def test_the_configuration_page_has_every_key_with_its_default():
    text = (DOCS / "configuration.md").read_text()
    blocks = [tomllib.loads(block) for block in re.findall(r"^```toml\n(.*?)^```", text, re.MULTILINE | re.DOTALL)]
    assert {section: set(keys) for section, keys in blocks[0].items()} == {section: set(keys) for section, keys in config._KEYS.items()}
    origin = re.search(r"^```toml\n(.*?)^```", text, re.MULTILINE | re.DOTALL)[1]
    assert config.read_user_config(origin, "page", {})._replace(tier="") == config.Config()
    rows = re.findall(r"^\| `(\w+\.\w+)` \| .+ \| `(CASREWIND_\w+)` \|$", text, re.MULTILINE)
    names = [f"{section}.{key}" for section, keys in config._KEYS.items() for key in keys]
    names.remove("remote.from_environment")  # which says whether variables count: it has none
    assert [(name, f"CASREWIND_{config._FIELDS.get(name, name.partition('.')[2]).upper()}") for name in names] == rows
    project = config.read_project(re.findall(r"^```toml\n(.*?)^```", text, re.MULTILINE | re.DOTALL)[1])
    assert project == config.Project(("*.iso", "/build/"), 50 << 20, (), "")


def test_the_variables_of_the_configuration_page_are_all_that_there_are():
    """Those that the code reads and a person may set."""
    source = "".join(path.read_text() for path in (TOP / "casrewind").rglob("*.py"))
    read = {name for name in re.findall(r'"((?:CASREWIND|XDG)_[A-Z_]+|NO_COLOR|FORCE_COLOR|PAGER)"', source)}
    ours = {"CASREWIND_AGENT", "CASREWIND_SESSION", "CASREWIND_INSIDE", "CASREWIND_TYPED_NAME", "CASREWIND_TRIAL"}  # set by casrewind itself
    page = (DOCS / "configuration.md").read_text()
    missing = {name for name in read - ours if name not in page}
    assert missing <= {"XDG_CONFIG_DIRS", "CASREWIND_"}, missing


@pytest.mark.parametrize("name", ["../README", "limits", "faq", "troubleshooting", "comparison", "containers", "configuration", "python"])
def test_every_command_of_a_page_works(name, tmp_path):
    """In a project with two turns behind it; where there is a question, the answer is yes."""
    lines = lines_of(DOCS / f"{name}.md")
    scratch = sessions.Scratch(tmp_path)
    try:
        scratch.plant()
        scratch.script("make", '[ "$1" != test ] || [ ! -e broken ]')
        for line in ("printf 'KEY=1\\n' > .env; echo .env > .gitignore", "casrewind include .env", "casrewind save", "rm .env", "casrewind restore last -y"):
            scratch.run(line)
        assert scratch.run("casrewind install claude")[1] == 0
        for prompt in ("say hello", "round to cents", "give change, too"):
            scratch.client("claude").turn(prompt)
        wrong = {}
        for line in lines:
            words = re.sub(r"\b[A-Z]+\b", lambda word: STANDS_FOR.get(word[0], word[0]), re.sub(r"[\[\]]|\.\.\.", "", line))
            if words.split()[1] in ("restore", "revert", "take", "jump", "back", "undo", "redo", "purge") and "--to" not in words and "--dry-run" not in words:
                words += " --yes"
            if words.split()[1] == "bisect":
                scratch.run("touch broken")  # what it is to find
            shown, code = scratch.run(words)
            if code not in (0, 3):
                wrong[words] = (code, shown)
        assert wrong == {}
    finally:
        scratch.run("casrewind uninstall claude")
        scratch.close()


@pytest.mark.turns(3)
@pytest.mark.skipif(shutil.which("strace") is None, reason="strace is not installed")
def test_no_command_opens_a_network_connection(tmp_path):
    (tmp_path / "p").mkdir()
    (tmp_path / "p" / "a").write_text("one")
    environment = {"HOME": str(tmp_path), "PATH": os.environ["PATH"], "PYTHONPATH": str(TOP)}
    words = [["save"], ["install", "claude"], ["list"], ["status"], ["diff"], ["doctor"], ["gc"], ["verify"], ["back"], ["restore", "last", "-y"]]
    for line in words:
        log = tmp_path / "log"
        subprocess.run(
            ["strace", "-f", "--seccomp-bpf", "-qq", "-e", "trace=socket", "-o", str(log), sys.executable, "-m", "casrewind", *line],
            cwd=tmp_path / "p", env=environment, stdin=subprocess.DEVNULL, capture_output=True, timeout=240,
        )  # fmt: skip
        assert log.exists() and "AF_INET" not in log.read_text(), line


def test_the_best_of_four_is_taken_and_undone(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("CASREWIND_HOME", raising=False)
    inside = {}
    for block in re.findall(r"^```python\n(.*?)^```", (DOCS / "python.md").read_text(), re.MULTILINE | re.DOTALL):
        exec(compile(block, "python.md", "exec"), inside)  # noqa: S102
    project = tmp_path / "shop"
    project.mkdir()
    (project / "till.py").write_text("one\ntwo\nthree\n")
    command = ["sh", "-c", "number=${PWD##*-try}; echo $((number * (5 - number))) > score; echo $number >> till.py"]

    def score(copy):
        if copy.endswith("4"):
            (project / "till.py").write_text("ONE\ntwo\nthree\n")  # a person goes on in the project
        return int(Path(copy, "score").read_text())

    best, report = inside["best_of"](project, command, score)
    assert best == f"{project}-try2" and not report.incomplete and [item.path for item in report.merged] == [b"till.py"]
    assert (project / "till.py").read_text() == "ONE\ntwo\nthree\n2\n" and (project / "score").read_text() == "6\n"
    with casrewind.open(project) as workspace:
        workspace.undo()
        assert (project / "till.py").read_text() == "ONE\ntwo\nthree\n" and not (project / "score").exists()
        assert not workspace.take(f"{project}-try3").incomplete
    assert (project / "till.py").read_text() == "ONE\ntwo\nthree\n3\n"


def test_the_examples_for_frameworks_run(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("CASREWIND_HOME", raising=False)
    page = (DOCS / "python.md").read_text()
    inside = {}
    for block in re.findall(r"^```python\n(.*?)^```", page, re.MULTILINE | re.DOTALL):
        exec(compile(block, "python.md", "exec"), inside)  # noqa: S102
    project = tmp_path / "shop"
    project.mkdir()
    (project / "till.py").write_text("one\n")

    def wreck(place):
        (place / "till.py").unlink()
        raise RuntimeError

    with pytest.raises(RuntimeError):
        inside["run_agent"](project, wreck)
    assert (project / "till.py").read_text() == "one\n", "the project is what it was"
    assert inside["run_agent"](project, lambda place: (place / "till.py").write_text("two\n")) == ["till.py"]
    points = inside["Checkpoints"](project)
    points.before_turn("first")
    (project / "till.py").write_text("three\n")
    points.before_turn("second")
    (project / "till.py").unlink()
    points.back()
    assert (project / "till.py").read_text() == "three\n" and len(points.turns) == 1
    points.back()
    assert (project / "till.py").read_text() == "two\n" and points.turns == []
    episode = inside["Episode"](project, 7)
    for step in range(1, 4):
        (project / "till.py").write_text(f"step {step}\n")
        episode.after_call(step)
    inside["Episode"](project, 8).after_call(2)
    inside["Episode"](project, 7).go_to(2)
    assert (project / "till.py").read_text() == "step 2\n"
    monkeypatch.setenv("CASREWIND_HOME", str(tmp_path / "elsewhere"))
    with casrewind.open(project) as workspace:
        assert workspace.store_path.startswith(str(tmp_path / "elsewhere" / "stores"))


def test_every_error_of_the_api_page_is_one():
    names = re.findall(r"^\| `(\w+)` \|", (DOCS / "api.md").read_text(), re.MULTILINE)
    assert len(names) > 5
    for name in names:
        assert name == "Declined" or issubclass(getattr(casrewind, name), casrewind.CasrewindError), name
