"""The exit codes are a contract. 2 is never among them, because coding agents read it as "block"."""

import contextlib
import os
import signal
import subprocess
import sys
import time

import pytest

from casrewind import errors, locks
from casrewind.cli import main as cli
from support.trees import plant
from support.unchanged import unchanged

CODES = {0, 1, 3, 10, 11, 12, 13, 14, 15, 16, 17, 20, 64, 70, 130}


def every_error(kind=errors.CasrewindError):
    yield kind
    for below in kind.__subclasses__():
        yield from every_error(below)


def test_every_error_has_a_code_of_the_contract():
    expected = {
        "WorkspaceNotFound": 10, "UnsafePath": 14, "RootRefused": 14, "ContentInTheWay": 14, "DatabaseOpen": 14, "JournalOpen": 11,
        "NothingToUndo": 15, "StoreBusy": 11, "StoreFull": 13, "FormatUnsupported": 12, "StoreForeign": 14,
        "StoreDamaged": 20, "BlobMissing": 20, "BlobCorrupt": 20, "ManifestCorrupt": 20, "LedgerCorrupt": 20,
        "CheckpointError": 15, "CheckpointNotFound": 15, "AmbiguousReference": 15, "AgentError": 16,
        "RemoteError": 17, "UsageError": 64,
    }  # fmt: skip
    codes = {kind.__name__: kind.exit_code for kind in every_error()}
    assert set(codes.values()) <= CODES
    assert {name: codes[name] for name in expected} == expected


@pytest.fixture
def inside(root, home, monkeypatch):
    """Call the command in this process: (exit code); what it prints is capsys's."""
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("CASREWIND_HOME", str(home / "data"))

    def call(*arguments):
        try:
            return cli.main(["-C", str(root), *arguments])
        except SystemExit as end:
            return end.code

    return call


COMMANDS = ["save", "list", "show", "diff", "restore", "undo", "redo", "run", "status"]


@pytest.mark.parametrize("command", [[], *([name] for name in COMMANDS)])
def test_help_is_0_and_goes_to_standard_output(inside, capsys, command):
    assert inside(*command, "--help") == 0
    found = capsys.readouterr()
    assert "usage: casrewind" in found.out and found.err == ""
    assert "--help" in found.out or "help --all" in found.out


def test_no_command_shows_the_help_and_version_the_version(inside, capsys):
    import casrewind

    assert inside() == 0
    assert "usage: casrewind" in capsys.readouterr().out
    assert inside("--version") == 0
    assert capsys.readouterr().out == f"casrewind {casrewind.__version__}\n"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["frobnicate"], ["frobnicate", "casrewind help --all"]),
        (["savee"], ["savee"]),
        (["--frob"], ["--frob", "casrewind --help"]),
        (["save", "--frob"], ["--frob"]),
        (["save", "-m"], ["-m needs a value"]),
        (["save", "a", "label"], ["'label'", "quotes"]),
        (["save", "--js"], ["--js"]),  # no abbreviations: they would break when an option is added
        (["save", "--", "a", "path"], ["'path'", "quotes"]),
        (["unpin"], ["REF", "casrewind list"]),
        (["show", "last", "2"], ["2"]),
        (["list", "-n", "0"], ["-n", "'0'"]),
        (["list", "-n", "-3"], ["-n"]),
        (["list", "-n", "many"], ["-n", "'many'"]),
        (["list", "-n", "²"], ["-n", "²"]),
        (["diff", "--stat", "--patch"], ["--patch", "--stat"]),
        (["restore", "last", "--code", "--chat"], ["--chat", "--code"]),
        (["restore", "--continue", "--abort"], ["--abort", "--continue"]),
        (["-C"], ["-C"]),
        (["show", "a\x1b[31mb\n", "c\x1b[31m"], ["c\\x1b[31m"]),
    ],
)
def test_usage_errors_are_64_and_say_what_is_wrong(inside, capsys, home, arguments, words):
    assert inside(*arguments) == 64
    found = capsys.readouterr()
    assert found.out == ""
    assert all(word in found.err for word in words), found.err
    assert "casrewind" in found.err and "\x1b" not in found.err and "  --help" not in found.err
    assert not (home / "data").exists()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["restore", "last"], ["no terminal", "--yes"]),
        (["restore"], ["which checkpoint", "casrewind list"]),
        (["restore", "last", "--yes", "--"], ["path"]),
        (["restore", "last", "--to", "x", "--", "f"], ["--to"]),
        (["restore", "last", "--to", "x", "--chat"], ["--to", "--chat", "--both"]),
        (["restore", "last", "--continue"], ["--continue"]),
        (["restore", "--abort", "--dry-run"], ["--abort"]),
        (["diff", "last", "prev", "last", "--", "f"], ["at most two"]),
        (["restore", "last", "f", "--", "g"], ["after --"]),
        (["run"], ["missing COMMAND"]),
        (["run", "--"], ["missing COMMAND"]),
        (["save", "f"], ["'f' is not a label", "-m"]),
        (["save", "-m", "a", "b"], ["two labels"]),
        (["list", "--since", "never"], ["--since", "yesterday"]),
    ],
)
def test_what_the_grammar_cannot_refuse_is_64_too_and_changes_nothing(inside, capsys, root, home, arguments, words):
    plant(root, {"f": b"1"})
    assert inside("save") == 0
    plant(root, {"f": b"2"})
    capsys.readouterr()
    with unchanged(root, home / "data"):
        assert inside(*arguments) == 64
    found = capsys.readouterr()
    assert found.out == "" and all(word in found.err for word in words), found.err


def test_undo_and_redo_without_anything_to_take_back_are_15(inside, capsys, root):
    assert inside("save") == 0
    assert inside("undo") == 15 and "nothing to undo" in capsys.readouterr().err
    assert inside("redo") == 15 and "nothing to redo" in capsys.readouterr().err
    assert inside("restore", "--continue") == 15
    assert inside("restore", "--abort") == 15


def test_before_the_first_save_everything_but_save_and_run_is_10(inside, capsys, home):
    for arguments in (["list"], ["show", "last"], ["diff"], ["restore", "last", "-y"], ["undo", "--yes"], ["redo", "--yes"], ["status"]):
        assert inside(*arguments) == 10
        assert "casrewind save" in capsys.readouterr().err
    assert not (home / "data").exists()


def test_a_bug_is_70_and_leaves_a_log(inside, capsys, tmp_path, monkeypatch):
    from casrewind.upkeep import save as saves

    def broken(*_, **__):
        raise RuntimeError("out of cheese \x1b[31m")

    monkeypatch.setattr(saves, "save", broken)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    assert inside("save", "-m", "a label") == 70
    found = capsys.readouterr()
    assert found.out == "" and "\x1b" not in found.err and "Traceback" not in found.err
    assert "bug" in found.err and "RuntimeError" in found.err
    (log,) = tmp_path.glob("casrewind-bug-*.log")
    assert str(log) in found.err
    text = log.read_text()
    assert "out of cheese" in text and "Traceback" in text and "broken" in text and "a label" in text
    assert log.stat().st_mode & 0o777 == 0o600


def test_a_bug_whose_log_cannot_be_written_is_printed(inside, capsys, tmp_path, monkeypatch):
    from casrewind.upkeep import save as saves

    def broken(*_, **__):
        raise KeyError("out of cheese")

    monkeypatch.setattr(saves, "save", broken)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "missing"))
    assert inside("save") == 70
    found = capsys.readouterr().err
    assert "out of cheese" in found and "in broken" in found


def test_an_operating_system_error_that_no_room_has_an_answer_to_is_1_and_named(inside, capsys, monkeypatch):
    from casrewind.upkeep import save as saves

    def broken(*_, **__):
        raise OSError(5, "Input/output error", "/some/\x1bplace")

    monkeypatch.setattr(saves, "save", broken)
    assert inside("save") == 1
    found = capsys.readouterr().err
    assert "Input/output error" in found and "/some/\\x1bplace" in found


def test_an_interrupted_save_is_130_publishes_nothing_and_the_next_one_works(casrewind, process, root):
    plant(root, {"f": b"0"})
    first = casrewind.json("save")["checkpoint"]
    plant(root, {f"d{n // 50}/f{n}": b"%d" % n * 2000 for n in range(1500)})
    store = casrewind.json("status")["store"]
    for delay in (None, 0.0, 0.03, 0.06, 0.1):  # None: until it has all and waits for somebody else, who is publishing
        child = subprocess.Popen(
            [sys.executable, "-X", "importtime", "-m", "casrewind", "-C", process.root, "save"],
            env=process.environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip
        with contextlib.ExitStack() as held:
            if delay is None:
                held.enter_context(locks.locked(os.path.join(store, "locks", "publish"), exclusive=True, deadline=10))
            seen = b""
            while b" casrewind.worktree.scan\n" not in seen:  # it is at work: no module is left to import but the last ones
                line = child.stderr.readline()
                assert line, "the save ended before it began"
                seen += line
            time.sleep(0.5 if delay is None else delay)
            child.send_signal(signal.SIGINT)
            out, err = child.communicate(timeout=60)
        assert child.returncode == 130 or (delay is not None and out.startswith(b"saved ")), err  # or it had ended before
        if child.returncode == 130:
            assert out == b"" and err.splitlines()[-1] == b"casrewind: interrupted" and b"Traceback" not in err
            assert os.listdir(os.path.join(store, "tmp")) == []
        points = casrewind.json("list", "--all")["checkpoints"]
        if len(points) > 1:  # the signal came behind the moment of publishing: then it is whole
            assert delay is not None and points[0]["files"] == 1501
            break
        assert [p["id"] for p in points] == [first]
    assert casrewind.json("save")["files"] == 1501


def test_an_interrupt_that_breaks_the_clearing_up_is_still_an_interrupt(casrewind, root, monkeypatch):
    """A signal that arrives just behind os.close has the descriptor closed again on the way out."""
    from casrewind.worktree import scan

    def broken(*_, **__):
        try:
            raise KeyboardInterrupt
        finally:
            os.close(999_999)

    monkeypatch.setattr(scan, "scan", broken)
    found = casrewind("save", code=130)
    assert (found.out, found.err) == ("", "casrewind: interrupted\n")
    monkeypatch.undo()
    assert casrewind.json("save")["created"]


def test_a_reader_that_goes_away_is_no_error(casrewind, process, root):
    plant(root, {f"f{n}": b"x" for n in range(3000)})
    casrewind.json("save")
    for arguments in (["show", "last"], ["show", "--json", "last"], ["list"]):
        child = subprocess.Popen(
            [sys.executable, "-m", "casrewind", "-C", process.root, *arguments],
            env=process.environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip
        child.stdout.close()
        err = child.stderr.read()
        child.stderr.close()
        assert (child.wait(60), err) == (0, b"")


def test_output_that_cannot_be_written_is_13(casrewind, process, root):
    plant(root, {"f": b"x"})
    casrewind.json("save")
    if not os.path.exists("/dev/full"):
        pytest.skip("no /dev/full here")
    for arguments in ("list", "status --json", "diff last"):
        with open("/dev/full", "w") as full:
            found = subprocess.run(
                [sys.executable, "-m", "casrewind", "-C", process.root, *arguments.split()],
                env=process.environment, stdout=full, stderr=subprocess.PIPE,
            )  # fmt: skip
        assert found.returncode == 13 and b"no space left" in found.stderr


@pytest.mark.parametrize("closed", [(0,), (1,), (2,), (0, 1, 2)])
def test_closed_standard_streams_reach_no_file(casrewind, process, root, closed):
    plant(root, {"f": b"x"})
    shut = " ".join(f"{fd}{'<' if fd == 0 else '>'}&-" for fd in closed)
    for arguments in ("save -m label", "diff last", "restore last -y", "show nothing"):
        done = subprocess.run(
            ["/bin/sh", "-c", f'exec "$0" -m casrewind -C "$1" {arguments} {shut}', sys.executable, process.root],
            env=process.environment, capture_output=True,
        )  # fmt: skip
        assert done.returncode == (15 if "nothing" in arguments else 0), done
    assert casrewind.json("list")["checkpoints"][0]["label"] == "label"
    store = casrewind.json("status")["store"]
    for place, _, names in os.walk(store):
        for name in names:
            with open(os.path.join(place, name), "rb") as file:
                assert b"saved c" not in file.read()
