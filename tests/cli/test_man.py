"""docs/casrewind.1 says what the parser says, and is a manual page without fault."""

import argparse
import os
import re
import shutil
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest

from casrewind.cli.grammar import argparse_form as grammar
from casrewind.cli.grammar.command_table import COMMANDS, load_command

TOP = Path(__file__).resolve().parent.parent.parent
PAGE = TOP / "docs" / "casrewind.1"


def test_the_manual_page_is_what_the_parser_says():
    done = subprocess.run([sys.executable, str(TOP / "docs" / "generate_man.py"), "--check"], env={**os.environ, "PYTHONPATH": str(TOP)})
    assert done.returncode == 0, "docs/casrewind.1 is stale: run python docs/generate_man.py"


def test_a_stale_manual_page_is_noticed(tmp_path):
    for name in ("generate_man.py", "generate_cli.py"):
        shutil.copy(TOP / "docs" / name, tmp_path)
    page = PAGE.read_text()
    (tmp_path / "casrewind.1").write_text(page.replace(r"\-\-rehash", r"\-\-again"))
    run = [sys.executable, str(tmp_path / "generate_man.py")]
    environment = {**os.environ, "PYTHONPATH": str(TOP)}
    assert subprocess.run([*run, "--check"], env=environment).returncode == 1
    assert subprocess.run(run, env=environment).returncode == 0
    assert (tmp_path / "casrewind.1").read_text() == page


@pytest.mark.skipif(shutil.which("groff") is None, reason="groff is not installed")
def test_the_formatter_has_nothing_to_warn_of():
    done = subprocess.run(["groff", "-man", "-ww", "-z", "-Tutf8", str(PAGE)], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    done = subprocess.run(["groff", "-man", "-ww", "-z", "-Tutf8"], input=".TP\n.nonsense x\n", capture_output=True, text=True)
    assert "nonsense" in done.stderr  # it would say so


@pytest.mark.skipif(shutil.which("man") is None, reason="man is not installed")
def test_what_a_reader_sees_has_every_command_with_its_options_and_examples():
    # wide, plain, no hyphens put in: what is looked for stands in one line
    environment = {**os.environ, "MANWIDTH": "1000", "MAN_KEEP_FORMATTING": "", "GROFF_NO_SGR": "1", "LANG": "C.UTF-8"}
    done = subprocess.run(["man", "-l", str(PAGE)], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    shown = re.sub(r".\x08|\x1b\[[0-9;]*m", "", done.stdout)
    assert re.findall(r"^[A-Z][A-Z ]+$", shown, re.MULTILINE) == [
        "NAME", "SYNOPSIS", "DESCRIPTION", "OPTIONS", "COMMANDS", "REFERENCES", "EXIT STATUS", "ENVIRONMENT", "FILES",
    ]  # fmt: skip
    flat = " ".join(shown.split())
    (found,) = [action for action in grammar.build_parser()._actions if isinstance(action, argparse._SubParsersAction)]
    for name in COMMANDS:
        command = found.choices[name]
        assert re.search(rf"^   {name}$", shown, re.MULTILINE), name
        assert " ".join(command.description.split()) in flat, name
        for example in load_command(name).examples:
            assert example in flat, name
        for action in command._actions:
            assert action.help == argparse.SUPPRESS or all(option in flat for option in action.option_strings)
    assert "| " not in shown.partition("EXIT STATUS")[2] and "`" not in shown


@pytest.mark.skipif(shutil.which("man") is None, reason="man is not installed")
def test_help_shows_the_page_where_man_does_not_find_it(process, tmp_path):
    shown = process("help", "--man", code=0, MANPATH=str(tmp_path), MANWIDTH="80").out
    assert "CASREWIND(1)" in shown and "EXIT STATUS" in shown
    refused = process("help", "--man", code=64, PATH=str(tmp_path))
    assert "casrewind.1" in refused.err and "casrewind help --all" in refused.err


@pytest.mark.long
def test_an_installed_package_has_the_page_where_man_looks(tmp_path):
    pytest.importorskip("hatchling")
    done = subprocess.run(
        [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "-w", str(tmp_path), str(TOP)],
        capture_output=True, text=True, env={**os.environ, "HOME": str(tmp_path)},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        (name,) = [name for name in archive.namelist() if name.endswith("share/man/man1/casrewind.1")]
        assert archive.read(name) == PAGE.read_bytes()
    if program := shutil.which("man"):
        place = tmp_path / "environment"
        venv.create(place)
        pip = [sys.executable, "-m", "pip", "--python", str(place / "bin" / "python"), "install", "--quiet", "--no-deps", str(wheel)]
        assert subprocess.run(pip, env={**os.environ, "HOME": str(tmp_path)}).returncode == 0
        looked = {"PATH": f"{place}/bin:{os.environ['PATH']}", "HOME": str(tmp_path)}
        done = subprocess.run([program, "-w", "casrewind"], env=looked, capture_output=True, text=True)
        assert done.stdout == f"{place}/share/man/man1/casrewind.1\n", done.stderr
