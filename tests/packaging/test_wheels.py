"""docs/wheels.md says where pip has to compile: asked of the package registry, without the interpreters and the systems."""

import importlib.util
import os
import re
from pathlib import Path

import pytest

from support.sample_start import start_below

TOP = Path(__file__).parents[2]
_spec = importlib.util.spec_from_file_location("generate_wheels", TOP / "docs/generate_wheels.py")
_spec.loader.exec_module(wheels := importlib.util.module_from_spec(_spec))


def rows(text):
    """{system: {Python: what the table says}}."""
    head, _, *lines = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in text.splitlines() if line.startswith("|")]
    return {line[0]: dict(zip((name.removeprefix("Python ") for name in head[1:]), line[1:], strict=True)) for line in lines}


TURN = pytest.mark.long if start_below(3) else (lambda test: test)
"""Nothing in a change of the product makes wheels: one push of three asks for those of the newest Python."""
TABLE = rows(wheels.BETWEEN.search(wheels.PAGE.read_text("utf-8"))[0])


def ask(question, *arguments):
    try:
        return question(*arguments)
    except wheels.Unanswered as error:
        (pytest.fail if os.environ.get("CI") == "true" else pytest.skip)(f"the registry cannot be asked: {error}")


def test_the_table_has_every_python_and_system():
    assert {system: list(row) for system, row in TABLE.items()} == dict.fromkeys(wheels.SYSTEMS, wheels.PYTHONS)


@TURN
def test_the_newest_python_gets_wheels_of_everything_but_what_the_table_names(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    system = next(iter(wheels.SYSTEMS))
    found = ask(wheels.cell, wheels.PYTHONS[-1], system)
    print(f"Python {wheels.PYTHONS[-1]}, {system}: pip compiles {found}")
    named = TABLE[system][wheels.PYTHONS[-1]].split(", ")
    assert [name for name in found.split(", ") if name not in (*named, "nothing")] == []


@pytest.mark.release  # 13 min 44 s on a busy machine; `python docs/generate_wheels.py` mends it
def test_the_table_is_what_the_registry_has(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    assert rows(ask(wheels.table, list(wheels.SYSTEMS), wheels.PYTHONS)) == TABLE


def test_the_page_says_when_it_was_asked():
    assert re.match(r"Asked on 20\d\d-\d\d-\d\d:\n", wheels.BETWEEN.search(wheels.PAGE.read_text("utf-8"))[0])
