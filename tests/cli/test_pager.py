"""The pager and colours: on a terminal, in a pipe, where somebody wants no colours, on one that has none, on a narrow one."""

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from types import SimpleNamespace

import pytest

from casrewind.cli.terminal import colour_decision
from casrewind.cli.plan import rewind_report
from support.terminal import Session
from support.trees import plant

COLOUR = re.compile(rb"\x1b\[[0-9;]*m")
needs_less = pytest.mark.skipif(shutil.which("less") is None, reason="less is not installed")
CALLED = """
import sys
from types import SimpleNamespace
from casrewind.cli.terminal.pager import pager
with pager(SimpleNamespace({})):
    for number in range(int(sys.argv[1])):
        print("row", number)
print("behind")
"""


@pytest.fixture
def edited(casrewind, root):
    plant(root, {"f": b"".join(b"line %d\n" % n for n in range(3000)), "small": b"1\n"})
    casrewind.json("save")
    plant(root, {"f": b"".join(b"line %d\n" % (n * 2) for n in range(3000)), "small": b"2\n"})


def called(process, more, rows, **variables):
    """A program that prints rows into the pager, with these options."""
    return Session([sys.executable, "-c", CALLED.format(more), str(rows)], {**process.environment, **variables})


def saving(place):
    """A pager that keeps what it is given, and its variables."""
    return {"CASREWIND_PAGER": f"cat > {place}; echo LESS=$LESS LV=$LV COLUMNS=$COLUMNS >> {place}"}


@needs_less
@pytest.mark.parametrize("name", ["CASREWIND_PAGER", "PAGER"])
def test_long_output_stays_in_less_until_q(terminal, edited, name):
    session = terminal("diff", "-p", environment={"PAGER": "less", name: "less"})
    session.read_until(b":")
    time.sleep(0.3)
    assert session.process.poll() is None
    session.type("q")
    code, shown = session.end()
    assert code == 0 and shown.count(b"\n") < 60 and b"Traceback" not in shown and b"BrokenPipe" not in shown
    assert b"\x1b[1mdiff --git a/f b/f" in shown and b"\x1b[36m@@ " in shown


@needs_less
def test_what_fits_on_a_screen_does_not_stay(terminal, edited):
    code, shown = terminal("diff", environment={"PAGER": "less"}).end()
    assert code == 0 and b"~\x1b[0m small" in shown.replace(b"\x1b[m", b"\x1b[0m") and b"0 added, 2 modified, 0 removed" in shown


@needs_less
def test_an_interrupt_in_less_ends_nothing(terminal, edited):
    session = terminal("diff", "-p", environment={"PAGER": "less"})
    session.read_until(b":")
    for _ in range(3):
        time.sleep(0.2)
        os.killpg(session.process.pid, signal.SIGINT)
    time.sleep(0.3)
    assert session.process.poll() is None
    session.type("q")
    code, shown = session.end()
    assert code == 0 and b"Traceback" not in shown and b"interrupted" not in shown


@pytest.mark.parametrize("command", [["diff", "-p"], ["diff"], ["diff", "--stat"], ["show", "last"], ["show", "last", "-p"], ["log", "f"], ["log", "f", "-p"]])
def test_the_pager_gets_all_with_colours_and_knows_the_width(terminal, edited, tmp_path, command):
    code, shown = terminal(*command, environment=saving(tmp_path / "kept"), size=(24, 61)).end()
    kept = (tmp_path / "kept").read_bytes()
    assert code == 0 and shown == b"" and kept.endswith(b"LESS=FRX LV=-c COLUMNS=61\n")
    assert COLOUR.search(kept) or command == ["show", "last"]
    if command == ["diff", "-p"]:
        assert kept.count(b"\x1b[32m+line") == kept.count(b"\x1b[31m-line") > 1000
    if command == ["diff", "--stat"]:
        assert max(len(line) for line in COLOUR.sub(b"", kept).splitlines()[:-1]) <= 61


def test_the_patch_of_a_plan_is_paged_and_the_plan_stands_before_the_next_question(terminal, edited, root, tmp_path):
    session = terminal("restore", "last", environment={**saving(tmp_path / "kept"), "NO_COLOR": "1"})
    session.read_until(b"[y/N/d] ")
    session.type("d")
    session.read_until(b"[y/N/d] ", 2)
    shown = session.shown.decode()
    assert shown.count("2 written") == 2 and shown.count("~ small") == 2 and "@@" not in shown
    assert (tmp_path / "kept").read_bytes().count(b"\n+line") > 1000
    session.type("n")
    assert session.end()[0] == 0 and (root / "small").read_bytes() == b"2\n"


@needs_less
def test_the_patch_of_a_plan_is_left_with_q(terminal, edited):
    session = terminal("restore", "last", environment={"PAGER": "less", "NO_COLOR": "1"})
    session.read_until(b"[y/N/d] ")
    session.type("d")
    session.read_until(b"\n:")
    session.type("q")
    session.read_until(b"[y/N/d] ", 2)
    session.type("n")
    assert session.end()[0] == 0


def test_a_long_line_is_broken_between_words_in_the_pager_too(terminal, process, edited, tmp_path):
    process("save", "-m", "a label of many words that says what was done, and why, and what is still to be done after it", code=0)
    terminal("show", "last", environment=saving(tmp_path / "kept"), size=(24, 50)).end()
    lines = COLOUR.sub(b"", (tmp_path / "kept").read_bytes()).decode().splitlines()[:-1]
    assert max(len(line) for line in lines if len(line.split()) > 2) <= 50
    at = next(at for at, line in enumerate(lines) if line.startswith("  label     a label of"))
    assert lines[at + 1].startswith("            ") and "to be done" in "".join(lines[at : at + 4])


@pytest.mark.parametrize("line", [("help", "--all"), ("restore", "--help"), ("help", "restore")])
def test_a_long_help_is_paged(terminal, tmp_path, line):
    code, shown = terminal(*line, environment=saving(tmp_path / "kept")).end()
    assert code == 0 and shown == b"" and (b"usage: casrewind" in (tmp_path / "kept").read_bytes())
    code, shown = terminal("help", environment=saving(tmp_path / "short")).end()
    assert code == 0 and shown.count(b"\n") == 24 and not (tmp_path / "short").exists(), "one screen is no page"


def test_less_keeps_the_options_that_a_person_gave_it(terminal, edited, tmp_path):
    terminal("diff", environment={**saving(tmp_path / "kept"), "LESS": "-i"}).end()
    assert b"LESS=-i LV=-c" in (tmp_path / "kept").read_bytes()


@pytest.mark.parametrize("variables", [{"NO_COLOR": "1"}, {"TERM": "dumb"}])
def test_no_colours_where_nobody_wants_them(terminal, edited, tmp_path, variables):
    code, shown = terminal("diff", "-p", environment={**saving(tmp_path / "kept"), **variables}).end()
    is_paged = (tmp_path / "kept").exists()
    assert is_paged == ("TERM" not in variables)  # a dumb terminal turns no pages
    seen = (tmp_path / "kept").read_bytes() if is_paged else shown
    assert code == 0 and b"\x1b" not in seen and seen.count(b"+line") > 1000


def test_no_pager_in_a_pipe_and_the_bytes_as_they_are(process, root, edited, tmp_path):
    plant(root, {"small": b"\x1b[2J\t\xff\n"})
    found = process("diff", "-p", "--", "small", code=0, TERM="xterm-256color", **saving(tmp_path / "kept"))
    assert not (tmp_path / "kept").exists() and "+\x1b[2J\t\ufffd\n" in found.out
    assert "\x1b" not in process("diff", "-p", "--", "f", code=0, FORCE_COLOR="1").out


@pytest.mark.parametrize("pager", ["no-such-pager -x", "", "cat", "'open quote", "LESS=x", "A=1 no-such-pager"])
def test_without_a_pager_it_is_printed(terminal, edited, pager):
    code, shown = terminal("diff", environment={"CASREWIND_PAGER": pager, "PAGER": "false"}).end()
    assert code == 0 and b"2 modified" in shown and b"not found" not in shown and COLOUR.search(shown)


def spy(place, mark):
    """A program that shows that it ran, and then reads its input."""
    place.parent.mkdir(exist_ok=True)
    place.write_text(f"#!/bin/sh\ntouch '{mark}'\ncat\n")
    place.chmod(0o755)


@needs_less
@pytest.mark.parametrize("path", [".:/usr/bin:/bin", ":/usr/bin:/bin", "bin:/usr/bin:/bin"])
def test_no_less_of_the_project_is_run(process, edited, root, tmp_path, path):
    mark = tmp_path / "mark"
    for place in (root / "less", root / "bin" / "less"):
        spy(place, mark)
    variables = {**process.environment, "PATH": path, "PAGER": "less"}
    subprocess.run(["/bin/sh", "-c", "less"], cwd=root, env=variables, stdin=subprocess.DEVNULL, check=True)
    assert mark.exists(), "a shell that trusts the PATH runs it"
    mark.unlink()
    entered = ["/bin/sh", "-c", 'cd "$1" && shift && exec "$@"', "sh", str(root)]
    code, shown = Session([*entered, sys.executable, "-m", "casrewind", "diff"], variables, size=(200, 100)).end()
    assert code == 0 and b"2 modified" in shown and not mark.exists()


def test_no_program_of_the_project_gets_the_prompt_that_is_copied(root, tmp_path, monkeypatch):
    mark = tmp_path / "mark"
    for name in ("wl-copy", "xclip", "pbcopy", "clip.exe"):
        spy(root / name, mark)
    monkeypatch.chdir(root)
    for path in (".:/usr/bin:/bin", ":/usr/bin:/bin", "."):
        monkeypatch.setenv("PATH", path)
        monkeypatch.setenv("WAYLAND_DISPLAY", "none")
        assert rewind_report._copy_to_clipboard("a prompt") not in ("wl-copy", "xclip", "pbcopy", "clip.exe") and not mark.exists()
    monkeypatch.setenv("PATH", f"{root}:/usr/bin:/bin")  # the same programs where the person's own PATH names them
    assert rewind_report._copy_to_clipboard("a prompt") == "wl-copy" and mark.exists()


@pytest.mark.parametrize("pager", ["head -n 3", "true", "false", "sh -c 'exec 0<&-; sleep 0.3'", "kill $$"])
def test_a_pager_that_ends_early_is_no_error(terminal, edited, pager):
    code, shown = terminal("diff", "-p", environment={"CASREWIND_PAGER": pager}).end()
    assert code == 0 and b"Traceback" not in shown and b"rror" not in shown and shown.count(b"\n") < 5


def test_the_exit_code_and_what_is_said_of_missing_paths_stay(terminal, edited, tmp_path):
    code, shown = terminal("diff", "last", "--", "f", "nowhere", environment=saving(tmp_path / "kept")).end()
    assert code == 3 and b"no such path: nowhere" in shown


def test_no_pager_when_it_is_turned_off(process, tmp_path):
    for more in ("no_pager=True", "json=True"):
        code, shown = called(process, more, 3, **saving(tmp_path / "kept")).end()
        assert code == 0 and not (tmp_path / "kept").exists() and b"row 2\r\nbehind" in shown
    code, shown = called(process, "", 3, **saving(tmp_path / "kept")).end()
    assert code == 0 and b"row" not in shown and b"behind" in shown and b"row 2\n" in (tmp_path / "kept").read_bytes()
    code, shown = called(process, "", 100_000, CASREWIND_PAGER="head -n 1").end()
    assert code == 0 and shown == b"row 0\r\nbehind\r\n"


def test_an_error_goes_through(process, tmp_path):
    code, shown = called(process, "", "x", **saving(tmp_path / "kept")).end()
    assert code == 1 and b"ValueError" in shown


@pytest.mark.parametrize("is_terminal", [True, False])
def test_what_decides_on_colours(monkeypatch, is_terminal):
    stream = SimpleNamespace(isatty=lambda: is_terminal)
    for name in ("NO_COLOR", "FORCE_COLOR", "CLICOLOR_FORCE", "TERM"):
        monkeypatch.delenv(name, raising=False)
    try:
        for choice, expected in ((None, is_terminal), ("auto", is_terminal), ("always", True), ("never", False)):
            colour_decision.set_colour_mode(SimpleNamespace(color=choice))
            assert colour_decision.has_colours(stream) == expected
        colour_decision.set_colour_mode(SimpleNamespace())
        for variables, expected in (
            ({"NO_COLOR": "1"}, False), ({"NO_COLOR": ""}, is_terminal), ({"TERM": "dumb"}, False), ({"FORCE_COLOR": "1"}, True),
            ({"FORCE_COLOR": "0"}, is_terminal), ({"FORCE_COLOR": "1", "TERM": "dumb"}, True), ({"FORCE_COLOR": "1", "NO_COLOR": "1"}, False),
            ({"CLICOLOR_FORCE": "1"}, True), ({"CLICOLOR_FORCE": "0"}, is_terminal), ({"CLICOLOR_FORCE": ""}, is_terminal),
            ({"CLICOLOR_FORCE": "1", "NO_COLOR": "1"}, False), ({"CLICOLOR_FORCE": "1", "FORCE_COLOR": "0"}, True),
        ):  # fmt: skip
            with monkeypatch.context() as patched:
                for name, value in variables.items():
                    patched.setenv(name, value)
                assert colour_decision.has_colours(stream) == expected, variables
                if not is_terminal:
                    assert not colour_decision.has_colours(stream, for_programs=True)
    finally:
        colour_decision.set_colour_mode(SimpleNamespace())


@pytest.mark.parametrize("columns", [40, 100])
def test_a_diffstat_fits_the_terminal(terminal, casrewind, root, columns):
    name = "a-directory-with-a-long-name/and-another/and-a-file-with-a-long-name.py"
    plant(root, {name: b"x\n" * 500, "f": b"1\n"})
    casrewind.json("save")
    plant(root, {name: b"y\n" * 300, "f": b"1\n2\n"})
    code, shown = terminal("diff", "--stat", size=(24, columns)).end()
    lines = COLOUR.sub(b"", shown).splitlines()
    assert code == 0 and all(len(line) <= columns for line in lines[:-1]) and b"| 800 ++" in b"".join(lines) and COLOUR.search(shown)
