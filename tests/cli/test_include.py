"""include, exclude and why: what git ignores can be protected, and each command says what a save does. The rules are private
(in the store), or with --shared in the project's .casrewindignore."""

import base64
import json
import os
import subprocess
from pathlib import Path

import pytest

from casrewind.settings import Settings, find_root, scan_policy
from casrewind.worktree.ignored import find_ignored
from casrewind.worktree.reader import Worktree
from support.output_schema import schema_faults
from support.terminal import Session, with_patience
from support.trees import plant


@pytest.fixture
def project(root):
    subprocess.run(["git", "init", "-q", str(root)], check=True)
    (root / ".gitignore").write_text(".env\n*.sqlite3\ndata/\nnode_modules\n*.pyc\n")
    (root / ".env").write_text("SECRET=1")
    (root / "a.py").write_text("pass")
    (root / "data" / "deep").mkdir(parents=True)
    (root / "data" / "x.db").write_text("x" * 100)
    (root / "data" / "deep" / "y[1].db").write_text("y" * 50)
    (root / "data" / "other").write_text("z")
    (root / "node_modules").mkdir()
    (root / "node_modules" / "m.js").write_text("m")
    return root


def held(casrewind, root):
    casrewind("save")
    return newest(casrewind)


def newest(casrewind):
    return {entry["path"] for entry in json.loads(casrewind("show", "last", "--json").out)["entries"]}


def rules_of(casrewind):
    """The private rules, and where they are."""
    found = casrewind.json("status")
    return found["private_rules"]["rules"], Path(found["private_rules"]["file"])


def test_the_first_save_and_status_name_what_git_ignores_smallest_first(casrewind, project):
    first = casrewind("save").out
    assert "not protected, because git ignores it: .env, data/" in first and "casrewind include .env protects it" in first
    assert "node_modules" not in first
    (project / "a.py").write_text("changed")
    assert "not protected" not in casrewind("save").out
    status = casrewind("status").out
    assert status.splitlines()[1].startswith("saved ") and ".env, data/" in status
    found = casrewind.json("status")["ignored"]
    assert [(each["path"], each["bytes"], each["files"], each["directory"], each["recreatable"]) for each in found] == [
        (".env", 8, 1, False, False), ("data", 151, 3, True, False), ("node_modules", 1, 1, True, True),
    ]  # fmt: skip


def test_the_first_save_reads_no_other_directory_again_and_finds_the_same(casrewind, project):
    """What the scan has noted names the directories; below none of them are there other ignored entries."""
    for name in ("src/one/two/.env", "src/one/plain", "other/plain", "other/cache/x.sqlite3"):
        (project / name).parent.mkdir(parents=True, exist_ok=True)
        (project / name).write_text("x" * 9)
    first = casrewind("save").out
    assert "not protected, because git ignores it: .env, other/cache/x.sqlite3, src/one/two/.env, data/" in first
    assert [line.removeprefix("  ") for line in casrewind("status").out.splitlines() if "not protected" in line] == first.splitlines()[1:2]
    settings = Settings(home=str(project.parent), data=str(project.parent / "none"), environ={})
    tree, rules = Worktree(str(project)), scan_policy(find_root(str(project), settings), settings)
    try:
        found = find_ignored(tree, rules, [b"src/one/two"])
        assert found.is_complete and [each.path for each in found.entries] == [b".env", b"src/one/two/.env", b"data", b"node_modules"]
        assert find_ignored(tree, rules, [b"", b"other/cache", b"src/one/two"]) == find_ignored(tree, rules)
    finally:
        tree.close()


def test_an_ignored_file_is_captured_after_include_and_no_longer_after_exclude(casrewind, project):
    assert ".env" not in held(casrewind, project)
    done = casrewind("include", ".env", code=0)
    rules, place = rules_of(casrewind)
    point = casrewind.json("list", "--all")["checkpoints"][0]["id"]
    assert rules == ["!/.env"] and place.read_bytes() == b"!/.env\n" and place.stat().st_mode & 0o777 == 0o600
    assert done.out.splitlines() == [
        f"private rules ({place}): added !/.env",
        f".env is saved in {point}: private rules ({place}), line 1: !/.env",
        f"saved {point}: 3 files (+1 ~0 -0)",
    ]
    assert ".env" in newest(casrewind), "no second command is needed"
    assert casrewind("exclude", ".env").out.startswith(f"private rules ({place}): removed !/.env\n")
    assert ".env" not in held(casrewind, project)
    assert not place.exists() and rules_of(casrewind)[0] == [], "nothing is left of a file that include made"


def test_with_shared_the_rules_are_in_the_project(casrewind, project):
    casrewind("include", ".env", code=0)
    done = casrewind("include", "--shared", ".env", code=0)
    assert done.out.startswith(".casrewindignore: added !/.env\n.env is saved in "), "private rules count for nobody else"
    assert (project / ".casrewindignore").read_bytes() == b"!/.env\n"
    casrewind("exclude", ".env", code=0)
    assert rules_of(casrewind)[0] == ["/.env"] and ".env" not in held(casrewind, project), "private rules win"
    casrewind("include", ".env", code=0)
    done = casrewind("exclude", "--shared", ".env", code=3)  # the private rule still includes it, and is named
    assert done.out.startswith(".casrewindignore: removed !/.env\nthe next save captures .env: private rules (")
    assert not (project / ".casrewindignore").exists()


def test_a_file_below_an_ignored_directory_brings_nothing_else_along(casrewind, project):
    casrewind("include", "data/deep/y[1].db")
    rules, _ = rules_of(casrewind)
    assert rules == ["!/data/", "/data/*", "!/data/deep/", "/data/deep/*", "!/data/deep/y\\[1].db"]
    assert {path for path in held(casrewind, project) if path.startswith("data")} == {"data", "data/deep", "data/deep/y[1].db"}
    casrewind("include", "data/x.db")
    assert "data/x.db" in held(casrewind, project) and "data/other" not in held(casrewind, project)
    casrewind("exclude", "data/deep/y[1].db")
    assert {path for path in held(casrewind, project) if path.startswith("data")} == {"data", "data/x.db"}


def test_a_directory_is_included_with_all_that_is_in_it(casrewind, project):
    (project / "data" / "old.pyc").write_text("")
    casrewind("include", "data", code=0)
    assert {"data/x.db", "data/other", "data/deep/y[1].db", "data/old.pyc"} <= held(casrewind, project)


def test_a_pattern_counts_everywhere(casrewind, project):
    (project / "sub").mkdir()
    (project / "sub" / "b.sqlite3").write_text("b")
    (project / "c.sqlite3").write_text("c")
    assert casrewind("include", "*.sqlite3").code == 0
    assert {"sub/b.sqlite3", "c.sqlite3"} <= held(casrewind, project)
    casrewind("exclude", "*.sqlite3")
    assert not {"sub/b.sqlite3", "c.sqlite3"} & held(casrewind, project)


def test_what_stays_out_for_another_reason_is_named_with_exit_code_3(casrewind, project):
    (project / ".casrewind.toml").write_text('[capture]\nmax_file_size = "10"\n')
    (project / ".env").write_text("x" * 100)
    done = casrewind("include", ".env")
    assert done.code == 3 and ".env is not captured: too large" in done.out


@pytest.mark.parametrize(("path", "line"), [
    ("a.py", "the next save captures a.py"),
    (".env", ".env is ignored: .gitignore, line 1: .env"),
    ("data/x.db", "data is ignored: .gitignore, line 3: data/"),
    ("new.sqlite3", "new.sqlite3 is ignored: .gitignore, line 2: *.sqlite3"),
    ("none/at/all", "none/at/all does not exist; a save would capture it"),
    ("none/at/all.pyc", "none/at/all.pyc is ignored: .gitignore, line 5: *.pyc"),
    ("none/data/x", "none/data is ignored: .gitignore, line 3: data/"),
    ("a.py/x", "a.py/x does not exist; a save would capture it"),
    ("data", "data is ignored: .gitignore, line 3: data/"),
    ("none/node_modules/", "none/node_modules is ignored: .gitignore, line 4: node_modules"),
    ("link", "the next save captures link"),
    ("link/x.db", "link is a link: a save captures the link, and not its target"),
    ("link/", "link is a link: a save captures the link, and not its target"),
    ("here", "the next save captures here"),
    ("here/", "what is in here/ is ignored, unless another rule includes it: here/.gitignore, line 1: *"),
    ("below/.", "each directory in below/ is ignored, unless another rule includes it: below/.gitignore, line 1: */"),
    ("src/", "the next save captures src/"),
    ("src/..", "the next save captures ."),
    (".", "the next save captures ."),
])  # fmt: skip
def test_why_names_the_rule(casrewind, project, path, line):
    plant(project, {"here/.gitignore": b"*\n!.gitignore\n!kept\n", "here/kept": b"", "below/.gitignore": b"*/\n", "src/a": b""})
    (project / "link").symlink_to("data")
    assert casrewind("why", path).out == line + "\n"


def test_why_of_the_root_names_the_rule_that_ignores_all_in_it(casrewind, project):
    (project / ".gitignore").write_text("*\n!*.py\n")
    line = "what is in . is ignored, unless another rule includes it: .gitignore, line 1: *\n"
    assert casrewind("why", ".").out == casrewind("why", str(project)).out == line
    (verdict,) = casrewind.json("why", ".")["paths"]
    assert (verdict["path"], verdict["captured"], verdict["reason"], verdict["rule"]["text"]) == (".", False, "ignored", "*")


def test_what_lies_behind_a_link_is_refused_by_include_with_what_to_name_instead(casrewind, project):
    (project / "link").symlink_to("data")
    done = casrewind("include", "link/x.db", code=14)
    assert "link is a link: a save captures the link, and not its target; name what it leads to: data/x.db" in done.err


def test_what_would_be_behind_a_file_says_nothing_of_the_file(casrewind, project):
    (project / "it").write_bytes(b"a file")
    (project / ".gitignore").write_bytes(b"it/\n")
    assert casrewind("why", "it/x", code=0).out.startswith("it/x is ignored")
    assert casrewind.json("why", "it")["paths"][0]["captured"]


def test_why_agrees_with_a_save_and_with_git(casrewind, project):
    found = held(casrewind, project)
    for place, directories, files in os.walk(project):
        directories[:] = [name for name in directories if name != ".git"]
        for name in files + directories:
            path = os.path.relpath(os.path.join(place, name), project)
            answer = json.loads(casrewind("why", path, "--json").out)["paths"][0]
            assert answer["captured"] == (path in found), answer
            ignored = subprocess.run(["git", "check-ignore", "-q", "--no-index", path], cwd=project).returncode == 0
            assert ignored == (not answer["captured"]), answer


def test_paths_are_relative_to_where_the_person_is(casrewind, project):
    assert casrewind("-C", str(project / "data"), "why", "x.db").out == "data is ignored: .gitignore, line 3: data/\n"
    assert casrewind("-C", str(project / "data"), "why", "../../outside").code == 14
    assert casrewind("why", ".git/config").code == 14


def test_a_link_in_the_place_of_the_rules_is_left_alone(casrewind, project, tmp_path):
    (tmp_path / "elsewhere").write_text("keep\n")
    (project / ".casrewindignore").symlink_to(tmp_path / "elsewhere")
    done = casrewind("include", "--shared", ".env")
    assert done.code == 14 and "not a regular file" in done.err
    assert (tmp_path / "elsewhere").read_text() == "keep\n"


def test_rules_of_a_person_stay_as_they_are(casrewind, project):
    (project / ".casrewindignore").write_bytes(b"# mine\n*.iso\n")
    os.chmod(project / ".casrewindignore", 0o640)
    casrewind("include", "--shared", ".env")
    assert (project / ".casrewindignore").read_bytes() == b"# mine\n*.iso\n!/.env\n"
    assert os.stat(project / ".casrewindignore").st_mode & 0o777 == 0o640


def test_json_has_the_bytes_of_a_name_that_is_not_utf8(casrewind, project):
    plant(project, {b"\xff\x1b.iso": b"x", ".gitignore": b"*.iso\n"})
    casrewind("save", code=0)
    name = os.fsdecode(b"\xff\x1b.iso")
    for command in ("status", "why", "include"):
        found = json.loads(casrewind(command, *([] if command == "status" else [name]), "--json").out)
        assert schema_faults(found, command) == []
        (entry,) = found["ignored" if command == "status" else "paths"]
        assert base64.b64decode(entry["path_b64"]) == b"\xff\x1b.iso" and entry["path"] == "\ufffd\x1b.iso"
    assert rules_of(casrewind)[1].read_bytes() == b"!/\xff\x1b.iso\n"


def test_why_names_caches_and_stores_as_a_save_does(casrewind, root):
    cache = root / "cache" / "below"
    cache.mkdir(parents=True)
    (root / "cache" / "CACHEDIR.TAG").write_bytes(b"Signature: 8a477f597d28d172789f06886806bc55\n")
    (cache / "x").write_text("x")
    other = root / "other"
    other.mkdir()
    (other / "a").write_text("a")
    casrewind("-C", str(other), "--store", str(root / "inner"), "--force", "save", code=0)
    held(casrewind, root)
    assert casrewind("why", "cache/below/x").out == "cache is not captured: cache directory\n"
    assert casrewind("why", "cache").out == "cache is not captured: cache directory\n"
    assert casrewind("why", "inner/ledger").out == "inner is not captured: casrewind store\n"
    assert casrewind("why", "other/a").out == "the next save captures other/a\n"


@pytest.mark.parametrize("command", [("restore", "before", "--yes"), ("restore", "before", "-n")])
def test_a_restore_to_before_an_include_says_what_it_stops_protecting(casrewind, project, command):
    casrewind("save", "-m", "before", code=0)
    casrewind("include", "--shared", ".env", "data/x.db", code=0)
    found = casrewind(*command, code=0)
    told = found.out if "-n" in command else found.err
    assert told.startswith("NOTE: .env, data, data/x.db would no longer be protected") or "NOTE: .env, data/x.db would no longer be protected" in told
    assert (project / ".env").read_text() == "SECRET=1"
    if "-n" not in command:
        assert not (project / ".casrewindignore").exists()
        assert "NOTE" not in casrewind("undo", "--yes", code=0).err and (project / ".casrewindignore").exists()
        assert "NOTE: .env" in casrewind("redo", "--yes", code=0).err


def test_the_plan_on_a_terminal_begins_with_what_it_stops_protecting(casrewind, project):
    casrewind("save", "-m", "before", code=0)
    casrewind("include", "--shared", ".env", code=0)
    session = Session(with_patience(casrewind, 3600, "restore", "before"), casrewind.environment, size=(24, 200))
    session.read_until(b"Go on?")
    lines = session.shown.decode().splitlines()
    assert lines[0].startswith("NOTE: .env would no longer be protected") and lines[1].startswith("restore to 'before'")
    session.type("n\n")
    assert b"nothing was changed" in session.end()[1] and (project / ".casrewindignore").exists()
