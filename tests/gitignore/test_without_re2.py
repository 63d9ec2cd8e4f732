"""google-re2 is an extra: without it, and with one that cannot be loaded, the same paths are ignored and every command works.

.ci/run also runs the tests of this directory without it (tests/support/absent_packages.py).
"""

import os

import pytest

from casrewind.gitignore import compiled_rules
from casrewind.gitignore.rules import RuleFile, Rules
from support import absent_packages
from support.trees import plant

RULES = "*.log\n/build-*\n!keep.log\nÉté*\n"
TREE = {".gitignore": RULES.encode(), "a.log": b"1", "keep.log": b"1", "build-1": b"1", "sub/build-2": b"1", "Étés": b"1"}
KEPT = {".gitignore", "keep.log", "sub/build-2"}
BROKEN = {  # what `import re2` ends with, and a word of it
    "a library that is missing here": ('raise ImportError("libre2.so.9: cannot open shared object file")', "libre2.so.9"),
    "made for another Python": ('raise SystemError("initialization of _re2 raised unreported exception")', "unreported"),
    "another package of this name": ("def compile(pattern): ...", "Options"),
    "one of its own modules is missing": ("import re2_of_another_system", "re2_of_another_system"),
}


@pytest.fixture
def casrewind(process):
    """The command in a process of its own: what it imports is tested."""
    return process


def held(casrewind, **variables):
    found = casrewind.json("show", "last", **variables)["entries"]
    return {entry["path"] for entry in found if entry["kind"] == "file"}


def test_a_save_without_it_ignores_the_same_paths_and_says_nothing(casrewind, root):
    plant(root, TREE)
    saved = casrewind("save", "--json", code=0, PYTHONPATH=absent_packages.search_path("re2"))
    assert held(casrewind) == KEPT and saved.err == ""
    assert casrewind("save", code=0).out.startswith("nothing changed"), "the same with it"
    assert "google-re2" not in casrewind("doctor", PYTHONPATH=absent_packages.search_path("re2")).out


@pytest.mark.turns(3)
@pytest.mark.parametrize("kind", BROKEN)
def test_one_that_cannot_be_loaded_counts_as_absent_and_doctor_says_so(casrewind, root, tmp_path, kind):
    text, word = BROKEN[kind]
    (tmp_path / "broken" / "re2").mkdir(parents=True)
    (tmp_path / "broken" / "re2" / "__init__.py").write_text(text)
    path = os.pathsep.join([str(tmp_path / "broken"), os.environ.get("PYTHONPATH", "")]).rstrip(os.pathsep)
    plant(root, TREE)
    assert casrewind("save", code=0, PYTHONPATH=path).err == ""
    assert held(casrewind, PYTHONPATH=path) == KEPT
    said = casrewind("doctor", PYTHONPATH=path)
    assert said.code == 0 and "google-re2" in said.out and "cannot be loaded" in said.out and word in said.out
    problem = casrewind("doctor", "--json", code=0, PYTHONPATH=path).json["re2_problem"]
    assert word in problem
    assert casrewind("doctor", "--json", PYTHONPATH=absent_packages.search_path("re2")).json["re2_problem"] is None


@pytest.mark.parametrize("fold", [False, True])
@pytest.mark.parametrize("rule", ["Été*", "*Été", "/Été/x?", "!Ä[a-c]Ö", "\\É*", "**/É", "*.É"])
def test_letters_beyond_ascii_are_never_folded(monkeypatch, rule, fold):
    """é and É are two letters for git, whatever core.ignoreCase says."""
    names = [name.encode() for name in ("Été", "été", "ÉtéX", "ÄbÖ", "äbö", "É", "é", "a.É", "a.é", "ÉTÉ")]

    def verdicts():
        rules = Rules.top(ignore_case=fold).extend([RuleFile(b"", "gitignore", f"*\n{rule}\n".encode() if rule[0] == "!" else rule.encode())])
        return [rules.ignored(name, False) for name in names] + [rules.enter(b"x").ignored(name, False) for name in names]

    monkeypatch.setattr(compiled_rules, "_OFTEN", 0)
    with_it = verdicts()
    monkeypatch.setattr(compiled_rules, "re2_error", lambda: None)
    assert verdicts() == with_it and len(set(with_it)) == 2 - (rule == "/Été/x?")
