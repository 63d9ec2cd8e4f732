"""A further rule file needs one row in the table of gitignore/rules.py, and is honoured everywhere.

The product is copied, one row is added to the table of the copy, and its command is run.
"""

import json
import subprocess
import sys

import pytest

from casrewind import launch
from support.command import Command
from support.installed import copy_product
from support.scanner import settle
from support.trees import plant

BEFORE = '        RuleSource("project",'
ROW = '        RuleSource("thirdignore", b".thirdignore", bit=128, stops_built_in=True, protects=True),\n'
CACHE = b"Signature: 8a477f597d28d172789f06886806bc55\n"


@pytest.fixture
def casrewind(tmp_path, root, home, monkeypatch):
    """The command of the copy; hooks are the copy's, too."""
    copy = tmp_path / "copy"
    copy_product(copy / "casrewind")
    table = copy / "casrewind/gitignore/rules.py"
    text = table.read_text()
    assert text.count(BEFORE) == 1
    table.write_text(text.replace(BEFORE, ROW + BEFORE))
    monkeypatch.setattr(launch, "_SCRIPT", str(copy / "casrewind/__main__.py"))
    return Command(root, home, PYTHONPATH=str(copy), PYTHONSAFEPATH="1")


def held(casrewind, point="last"):
    return {entry["path"] for entry in casrewind.json("show", point)["entries"]}


def test_a_save_leaves_out_what_it_ignores_and_why_names_it(casrewind, root):
    plant(root, {"d/.thirdignore": b"*.x\n", "d/a.x": b"1", "d/b": b"2", ".gitignore": b"*.y\n", "c.y": b"3"})
    casrewind("save", code=0)
    assert held(casrewind) == {".gitignore", "d", "d/.thirdignore", "d/b"}
    assert casrewind("why", "d/a.x").out == "d/a.x is ignored: d/.thirdignore, line 1: *.x\n"
    assert casrewind.json("why", "d/a.x")["paths"][0]["rule"]["file"] == ".thirdignore"
    assert {each["path"] for each in casrewind.json("status")["ignored"]} == {"c.y", "d/a.x"}


def test_its_rank_is_its_place_in_the_table(casrewind, root):
    plant(root, {".gitignore": b"a\n", ".thirdignore": b"!a\nb\nc\n", ".casrewindignore": b"!b\n", "a": b"1", "b": b"2", "c": b"3"})
    casrewind("save", code=0)
    assert held(casrewind) == {".gitignore", ".thirdignore", ".casrewindignore", "a", "b"}


def test_an_edit_of_it_is_seen_by_the_next_save(casrewind, root):
    plant(root, {"d/.thirdignore": b"aa\n", "d/aa": b"1", "d/bb": b"2", "e/f": b"3"})
    settle()
    casrewind("save", code=0)
    assert "d/aa" not in held(casrewind)
    for rule, lost, kept in ((b"bb\n", "d/bb", "d/aa"), (b"aa\n", "d/aa", "d/bb")):
        settle()
        with open(root / "d/.thirdignore", "r+b") as file:  # in place: the directory stays as it is
            file.write(rule)
        casrewind("save", code=0)
        assert lost not in held(casrewind) and kept in held(casrewind)


def test_a_stat_file_of_a_casrewind_that_did_not_look_for_it_is_not_used(casrewind, root, home):
    plant(root, {"d/.thirdignore": b"*.x\n", "d/a.x": b"1", "d/b": b"2"})
    settle()
    usual = Command(root, home)
    usual("save", code=0)
    settle()
    usual("save", code=0)
    assert "d/a.x" in held(usual)
    casrewind("save", code=0)
    assert "d/a.x" not in held(casrewind)


def test_a_restore_deletes_nothing_that_its_recorded_rules_ignored(casrewind, root):
    plant(root, {".thirdignore": b"*.x\n", "a": b"1", "a.x": b"precious"})
    casrewind("save", "before", code=0)
    plant(root, {".thirdignore": b"# nothing\n", "a": b"2", "new": b"n"})
    casrewind("save", code=0)
    casrewind("restore", "before", "--yes")
    assert (root / "a.x").read_bytes() == b"precious" and not (root / "new").exists()
    assert (root / ".thirdignore").read_bytes() == b"*.x\n"
    usual = Command(casrewind.root, casrewind.home)  # it does not know such rules, so it deletes nothing below them
    plant(root, {"later": b"l"})
    usual("restore", "before", "--yes")
    assert (root / "later").exists()


def test_a_plan_says_which_rules_it_takes_away(casrewind, root):
    plant(root, {".gitignore": b".env\n", ".env": b"SECRET", "a": b"1"})
    casrewind("save", "before", code=0)
    plant(root, {".thirdignore": b"!.env\n"})
    casrewind("save", code=0)
    assert ".env" in held(casrewind)
    shown = casrewind("restore", "before", "--dry-run").out
    assert "NOTE: .env would no longer be protected: this removes rules of .thirdignore (casrewind include)" in shown


def test_below_it_the_built_in_excludes_and_cache_tags_do_not_count(casrewind, root):
    plant(root, {"d/.thirdignore": b"*.x\n", "d/node_modules/m.js": b"1", "d/c/CACHEDIR.TAG": CACHE, "d/c/f": b"2",
                 "e/CACHEDIR.TAG": CACHE, "e/.thirdignore": b"*.x\n", "e/f": b"3", "node_modules/m.js": b"4",
                 "f/CACHEDIR.TAG": CACHE, "f/g": b"5"})  # fmt: skip
    casrewind("save", code=0)
    found = held(casrewind)
    assert {"d/node_modules/m.js", "d/c/f", "e/f"} <= found
    assert not {"node_modules/m.js", "f/g"} & found
    for path, is_captured in (("d/node_modules/m.js", True), ("d/c/f", True), ("e/f", True), ("f/g", False)):
        assert json.loads(casrewind("why", "--json", path).out)["paths"][0]["captured"] is is_captured, path


def test_a_purge_of_a_text_names_it(casrewind, root):
    """Its bytes are stored, though it ignores itself and is in no checkpoint."""
    plant(root, {"d/.thirdignore": b"secret-name\n.thirdignore\n", "d/b": b"2"})
    casrewind("save", code=0)
    assert "d/.thirdignore" not in held(casrewind)
    found = subprocess.run(
        [sys.executable, "-m", "casrewind", "-C", casrewind.root, "purge", "--text", "-", "--dry-run"],
        env=casrewind.environment, input="secret-name", capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert "casrewind purge d/.thirdignore" in found.stdout, found
    casrewind("purge", "d/.thirdignore", "--yes")
