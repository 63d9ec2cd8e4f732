"""Every command, with the examples of its --help, on every kind of terminal and on none: sane output, a documented exit code,
never a traceback. The commands are taken from the grammar: a new one is covered by itself."""

import os
import random
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from types import SimpleNamespace

import pytest

from casrewind import errors
from casrewind.cli.terminal import progress
from casrewind.cli.grammar.command_table import COMMANDS, load_command
from support.command_in_process import InProcess
from support.picture import picture
from support.sample_start import by_turns
from support.terminal import answered
from support.terminal_in_process import into_nothing, on_terminal
from support.trees import plant
from support.unchanged import unchanged

INSTEAD = {"run": ["run", "-m", "new formatter", "--", "true"]}
"""Where the example takes hours, or needs a program that need not be there."""
NOT_INSIDE = {"purge --text -", "export", "export @1"}
"""What is a process of its own, what asks the terminal that a process has (for a text that is not shown), and what a terminal refuses."""
DOCUMENTED = {0, 1, 3, 10, 11, 13, 14, 15, 16, 17, 20, 64}
NO = "n\n\x04" * 4
"""What is typed: no, and the end of input for what reads more than a line."""
COLOUR = re.compile(r"\x1b\[[0-9;]*m")


def lines():
    """(command, arguments) of every example."""
    for name, examples in sorted((name, load_command(name).examples) for name in COMMANDS):
        for example in examples:
            words = shlex.split(re.sub(r"\s[<>]+ ?\S+", "", example))[1:]
            yield name, INSTEAD.get(name, words)


ALL = [pytest.param(line, id=" ".join(line)) for _, line in lines()]
INSIDE = [pytest.param(line, id=" ".join(line)) for _, line in lines() if " ".join(line) not in NOT_INSIDE]


@pytest.fixture(scope="module")
def template(tmp_path_factory):
    """A project with five checkpoints, a label, a pin, a restore that was undone, and edits since."""
    place = tmp_path_factory.mktemp("terminals")
    home, root = place / "home", place / "project"
    home.mkdir()
    plant(root, {"README.md": b"read me\n", "src/till.py": b"one\n", ".env": b"KEY=1\n", "src/a-file-with-quite-a-long-name-for-a-narrow-terminal.py": b"1\n"})
    casrewind = InProcess(root, home)
    casrewind("save", "-m", "the first of them, with a label that is longer than a narrow terminal is wide", code=0)
    for number in range(4):
        plant(root, {"src/till.py": b"line\n" * (number + 2), "README.md": b"read me %d\n" % number, f"src/new{number}": b"n\n"})
        casrewind("save", "-m", f"step {number}", code=0)
    casrewind("pin", "last", "it works", code=0)
    casrewind("restore", casrewind.row(3), "--yes", code=0)
    casrewind("undo", "--yes", code=0)
    plant(root, {"src/till.py": b"wrecked\n", "src/since.py": b"s\n"})
    shutil.copytree(place, f"{place}.kept", symlinks=True)
    return place


@pytest.fixture
def project(template, monkeypatch):
    """The template as it was made, at its own place again."""
    monkeypatch.setattr(progress, "_PATIENCE", 3600)
    shutil.rmtree(template)
    shutil.copytree(f"{template}.kept", template, symlinks=True)
    return SimpleNamespace(run=InProcess(template / "project", template / "home"), root=template / "project", home=template / "home")


def check(result, *, tty):
    """What holds of every output."""
    everything = result.out + result.err
    assert result.code in DOCUMENTED, result
    assert "Traceback" not in everything and "this is a bug" not in everything
    plain = COLOUR.sub("", everything) if tty else everything
    assert "\x1b" not in plain, ascii(plain)
    odd = {c for c in plain.replace("\r\n", "\n") if not c.isprintable() and c not in "\n\t"}
    assert not odd, (odd, ascii(plain))


def names_in(text):
    """What somebody copies from an output: ids and paths."""
    return set(re.findall(r"\bc[0-9a-f]{14}\b|[\w./-]*(?:till|since|README|new\d|quite-a-long-name)[\w./-]*", text))


def _may_be_cut(line, name):
    """True for a path in a row of turns: such a row names as many as there is room for."""
    return line[0] == "list" and "--all" not in line and not name.startswith("c")


@pytest.mark.timeout(60)
@pytest.mark.parametrize("line", INSIDE)
def test_on_every_kind_of_terminal_and_in_a_pipe(project, line):
    run, whole = project.run, project.root.parent
    before = picture(whole)
    wide = on_terminal(run, line, columns=200, typed=NO)
    check(wide, tty=True)
    settled = picture(whole) == before
    narrow = on_terminal(run, line, columns=40, typed=NO, NO_COLOR="1")
    dumb = on_terminal(run, line, columns=80, typed=NO, TERM="dumb")
    for found in (narrow, dumb):
        check(found, tty=False)
    if settled:
        assert narrow.code == dumb.code == wide.code
        folded = "".join(narrow.out.split())
        names = names_in(COLOUR.sub("", wide.out))
        assert {name for name in names if name not in folded and not _may_be_cut(line, name)} == set(), narrow.out
    piped = run(*line)
    check(piped, tty=False)
    declined = "nothing was changed" in wide.out  # a person was asked; who reads a pipe is not
    assert piped.code == wide.code or not settled or declined or piped.code == 64, "64: nobody could be asked"
    for fail in (into_nothing(run, line), without_stdin(run, line)):
        check(fail, tty=False)
    if settled and piped.code != 64 and not piped.code:
        assert into_nothing(run, line).code == 0, "whoever read has seen enough"


def without_stdin(run, line):
    """The command, where standard input is closed."""
    from casrewind.cli import main as module

    main = module.main

    def closed(argv):
        sys.stdin = None
        try:
            return main(argv)
        finally:
            if sys.stdin is not None:
                sys.stdin.close()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "main", closed)
        return run(*line)


def shell(project, script):
    """A line for sh, in which `casrewind` is the command: (exit code, what it wrote)."""
    command = f"casrewind() {{ {shlex.quote(sys.executable)} -m casrewind -C {shlex.quote(str(project.root))} \"$@\"; echo code $? >&2; }}\n"
    done = subprocess.run(["sh", "-c", command + script], env=project.run.environment, capture_output=True, text=True, timeout=120, check=False)
    assert "Traceback" not in done.stderr and "Exception ignored" not in done.stderr and "bug" not in done.stderr, done.stderr
    codes = [int(code) for code in re.findall(r"^code (\d+)$", done.stderr, re.MULTILINE)]
    return codes, done.stdout, re.sub(r"^code \d+\n", "", done.stderr, flags=re.MULTILINE)


@pytest.mark.parametrize("script", [
    "casrewind list | head -1", "casrewind diff --patch | true", "casrewind list >&-", "casrewind save -m x <&- >&- 2>/dev/null",
])  # fmt: skip
def test_streams_that_are_closed(project, script):
    codes, out, err = shell(project, script)
    assert set(codes) <= {0} and "\x1b" not in out + err and err == ""
    assert out.count("\n") == script.count("head")


@pytest.mark.long
@pytest.mark.parametrize("line", ALL)
def test_every_command_with_streams_that_are_closed(project, line):
    words = shlex.join(line)
    for script in (f"casrewind {words} </dev/null | true", f"casrewind {words} </dev/null >&-", f"casrewind {words} <&- >&- 2>&-", f"casrewind {words} <&-"):
        codes, out, err = shell(project, script)
        assert set(codes) <= DOCUMENTED, (script, codes, err)
        assert "\x1b" not in out + err


HELD = """
import os, signal
from casrewind import environment
from casrewind.cli import main
read = environment.configuration
class Held:
    def __del__(self):
        os.kill(os.getpid(), signal.SIGINT)
        for _ in range(10):
            pass
def told(**options):
    Held()
    return read(**options)
environment.configuration = told
main.run()
"""


def test_ctrl_c_where_python_ignores_exceptions(project):
    """Python drops what a finalizer or a callback of the importer raises. The interrupt comes all the same, once."""
    command = [sys.executable, "-c", HELD, "-C", str(project.root), "verify"]
    done = subprocess.run(command, env=project.run.environment, stdin=subprocess.DEVNULL, capture_output=True, timeout=120)
    assert (done.returncode, done.stderr) == (130, b"casrewind: interrupted\n")


BEGUN = """
import os, sys
from casrewind import environment
from casrewind.cli import main
read = environment.configuration
def told(**options):
    os.write(2, b"begun\\n")
    return read(**options)
environment.configuration = told
main.run()
"""


BUSY = [(line,) for _, line in lines() if line[0] in ("restore", "diff")]
OTHERS = [pytest.param(line, marks=pytest.mark.long) for _, line in lines() if line[0] not in ("restore", "diff", "help", "version")]
"""Help and version read nothing, so nothing says that they have begun."""


@pytest.mark.parametrize("line", [*by_turns(BUSY, len(BUSY) // 4), *OTHERS], ids=" ".join)
def test_ctrl_c_in_the_middle(project, line):
    """Whenever it comes, there is no traceback, the exit code is 130 unless it was done by then, and the store is whole."""
    plant(project.root, {f"many/{n % 20}/f{n}": b"%d\n" % n for n in range(1500)})
    chance = random.Random(" ".join(line))
    before = picture(project.root)
    words = [*line, *(["--yes"] if line[0] in ("restore", "jump") and "--dry-run" not in line and "--to" not in line and "--" not in line else [])]
    command = [sys.executable, "-c", BEGUN, "-C", str(project.root), *words]
    for wait in (0.0, chance.uniform(0, 0.1), chance.uniform(0, 0.4)):
        process = subprocess.Popen(command, env=project.run.environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        try:
            assert process.stderr.readline() == b"begun\n"
            time.sleep(wait)
            process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=120)
        finally:
            process.kill()
            process.wait()
        assert process.returncode == 130 or process.returncode in DOCUMENTED, (process.returncode, out, err)
        assert b"Traceback" not in err and b"Exception ignored" not in err and b"bug" not in err, err.decode()
        assert b"\x1b" not in out + err
        if project.run.json("status")["journal"] is not None:
            assert process.returncode == 130 and b"--abort" in err
            project.run("restore", "--abort", code=0)
            assert picture(project.root) == before
        before = picture(project.root)
    assert project.run.json("verify")["ok"]


QUESTIONS = {
    "restore prev": b"[y/N", "stores --prune-missing 1s": b"[y/N", "purge .env": b"[y/N",
}  # fmt: skip
"""Commands that ask, with a line that does so here. What asks for a conversation is in tests/hooks."""


@pytest.mark.long
@pytest.mark.parametrize("line", QUESTIONS)
@pytest.mark.parametrize("way", ["ctrl-c", "end", "no", "nothing"])
def test_at_every_question(project, line, way, tmp_path):
    gone = tmp_path / "gone"
    plant(gone, {"f": b"1"})
    InProcess(gone, project.home)("save", code=0)
    shutil.rmtree(gone)
    time.sleep(1.1)
    with unchanged(project.root, project.home / "data"):
        command = [sys.executable, "-m", "casrewind", "-C", str(project.root), *line.split()]
        code, shown = answered(command, project.run.environment, QUESTIONS[line], way)
    assert code == (130 if way == "ctrl-c" else 0), shown


def test_the_codes_are_those_that_the_errors_have():
    def codes(kind):
        yield kind.exit_code
        for below in kind.__subclasses__():
            yield from codes(below)

    assert set(codes(errors.CasrewindError)) <= DOCUMENTED | {12}
    assert 2 not in DOCUMENTED and os.name == "posix"
