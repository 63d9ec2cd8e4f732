"""include and exclude say what a save does then: of each entry below a directory, of each entry that matches a pattern, and of
everything else whose verdict the rules change."""

import os

import pytest

from casrewind.upkeep import rule_effects
from support.command_in_process import InProcess
from support.trees import plant


@pytest.fixture
def run(root, home):
    return InProcess(root, home)


def held(run):
    return {entry["path"] for entry in run.json("show", "last", "--files")["entries"]}


def rules_of(run):
    return run.json("status")["private_rules"]["rules"]


@pytest.mark.parametrize("rules", [
    {"storage/app/.gitignore": b"*\n"},
    {"storage/app/.gitignore": b"*\n!.gitignore\n"},
    {".gitignore": b"*.db\n"},
    {".gitignore": b"storage\n", "storage/app/uploads/.gitignore": b"*\n", ".casrewindignore": b"*.db\n"},
    {"storage/app/uploads/deep/.gitignore": b"*\n"},
    {"storage/app/uploads/deep/.casrewindignore": b"*\n"},
])  # fmt: skip
@pytest.mark.parametrize("given", ["storage/app/uploads/", "storage/app/uploads", "storage/app/", "storage"])
def test_a_directory_means_each_entry_below_it_whatever_ignores_it(run, root, rules, given):
    plant(root, {**rules, "storage/app/uploads/deep/x.db": b"1", "storage/app/uploads/y": b"2", "a": b"3"})
    done = run("include", given, code=0)
    assert f"{given.rstrip('/')} is saved in " in done.out
    below = {path for path in ("storage/app/uploads/deep/x.db", "storage/app/uploads/y", *rules) if path.startswith(given)}
    assert below <= held(run)


def test_a_directory_means_what_comes_into_it_later(run, root):
    plant(root, {"storage/app/.gitignore": b"*\n!.gitignore\n", "a": b"1"})
    run("include", "storage/app/", code=0)
    plant(root, {"storage/app/new/upload": b"1"})
    run("save", code=0)
    assert "storage/app/new/upload" in held(run)


def test_a_directory_that_is_to_come_is_named_by_its_slash(run, root):
    plant(root, {".gitignore": b"storage/\n*.db\n", "a": b"1"})
    assert "storage does not exist; a save would capture it" in run("include", "storage/", code=0).out
    plant(root, {"storage/x.db": b"1"})
    run("save", code=0)
    assert "storage/x.db" in held(run)


def test_a_pattern_means_each_entry_and_what_is_in_ignored_directories_is_named(run, root):
    plant(root, {
        ".gitignore": b"data/\n*.sqlite3\n", "data/app.sqlite3": b"1", "data/deep/er/b.sqlite3": b"2", "data/other": b"3", "c.sqlite3": b"4",
    })  # fmt: skip
    done = run("include", "*.sqlite3", code=3)
    assert "*.sqlite3: 1 path that it matches is saved in " in done.out
    assert "data/app.sqlite3: data is ignored: .gitignore, line 1: data/\n" in done.out
    assert "data/deep/er/b.sqlite3: data is ignored: .gitignore, line 1: data/\n" in done.out
    assert "\n  casrewind include data/app.sqlite3 protects it\n" in done.out
    assert "c.sqlite3" in held(run) and "data/app.sqlite3" not in held(run)
    done = run("include", "*.sqlite3", "data/app.sqlite3", "data/deep", code=0)
    assert "*.sqlite3: 3 paths that it matches are saved in " in done.out and "data/other" not in held(run)


def test_a_directory_that_matches_a_pattern_is_meant_with_what_is_in_it(run, root):
    plant(root, {".gitignore": b"*.bundle\n*.log\n", "a.bundle/x.log": b"1", "a.bundle/y": b"2", "b": b"3"})
    done = run("include", "*.bundle", code=3)
    assert "a.bundle/x.log is ignored: .gitignore, line 2: *.log" in done.out
    assert "a.bundle/y" in held(run)
    assert "b/x.log" not in run("include", "*.bundle", "a.bundle", code=0).out and "a.bundle/x.log" in held(run)


def test_what_a_pattern_matches_in_directories_that_tools_make_again_is_named(run, root):
    plant(root, {"node_modules/m/x.pem": b"1", "key.pem": b"2"})
    done = run("include", "*.pem", code=3)
    assert "node_modules/m/x.pem: node_modules is a directory that tools make again" in done.out
    assert "key.pem" in held(run) and "node_modules" not in held(run)


def test_a_pattern_that_matches_nothing_says_so(run, root):
    plant(root, {"a": b"1"})
    assert "*.sqlite3: no path that it matches is saved in " in run("include", "*.sqlite3", code=0).out
    assert "*.sqlite3: nothing that it matches changes" in run("exclude", "*.sqlite3", code=0).out


def test_what_no_rule_can_include_is_named_in_a_directory(run, root):
    plant(root, {".gitignore": b"data\n", ".casrewind.toml": b'[capture]\nmax_file_size = "10"\n', "data/x": b"1" * 100, "data/y": b"2"})
    plant(root, {"data/sub/.git/HEAD": b"ref: x\n", "data/sub/z": b"3"})
    os.mkfifo(root / "data" / "pipe")
    done = run("include", "data", code=3)
    assert "data/x is not captured: too large" in done.out
    assert "data/pipe is not captured: special file" in done.out
    assert "data/sub/.git is not captured: protected name" in done.out and "data/sub/z" in held(run)
    found = run.json("include", "data", code=3)
    assert {each["path"] for each in found["paths"] if not each["captured"]} == {"data/x", "data/pipe", "data/sub/.git"}


def test_the_whole_project_can_be_included_and_only_that_be_reversed(run, root):
    plant(root, {".gitignore": b"*.db\n/d\n", "a": b"1", "b/c.db": b"2", "d/e": b"3"})
    run("include", ".", code=0)
    assert {"a", "b/c.db", "d/e", ".gitignore"} <= held(run)
    done = run("exclude", ".", code=3)
    assert "not asked for: b/c.db is ignored: .gitignore, line 1: *.db\nnot asked for: d is ignored: .gitignore, line 2: /d\n" in done.out
    run("save", code=0)
    assert "a" in held(run) and "d/e" not in held(run)
    assert "nothing was changed" in run("exclude", ".", code=64).err


def test_a_pattern_is_no_longer_captured_after_exclude(run, root):
    plant(root, {".gitignore": b"data/\n", "data/x.db": b"1", "y.db": b"2", "z": b"3"})
    run("include", "*.db", "data/x.db", code=0)
    done = run("exclude", "*.db", code=0)
    assert "*.db: 2 paths that it matches are left out from now on" in done.out
    run("save", code=0)
    assert not {"data/x.db", "y.db"} & held(run) and "z" in held(run)


def test_with_shared_what_other_rules_still_decide_is_named(run, root):
    plant(root, {".gitignore": b"data/\n", "data/.casrewindignore": b"*.db\n", "data/x.db": b"1", "data/y": b"2", "a": b"3"})
    done = run("include", "--shared", "data", code=3)
    assert "data/x.db is ignored: data/.casrewindignore, line 1: *.db" in done.out
    assert "data/y" in held(run)
    plant(root, {"sub/.casrewindignore": b"!*.log\n", "sub/a.log": b"1", "b.log": b"2"})
    done = run("exclude", "--shared", "*.log", code=3)
    assert "the next save captures sub/a.log: sub/.casrewindignore, line 1: !*.log" in done.out and "b.log" not in done.out
    assert "*.log: 1 path that it matches is left out from now on" in done.out
    assert "*.log: nothing that it matches changes" in run("exclude", "--shared", "*.log", code=3).out


@pytest.mark.parametrize("options", [(), ("--shared",)])
@pytest.mark.parametrize("command", ["include", "exclude"])
def test_a_name_with_a_line_feed_writes_no_second_rule(run, root, command, options):
    plant(root, {".gitignore": b"data/\n", "data/report\nsrc": b"1", "data/ok": b"2", "src/a": b"3", ".casrewindignore": b"# mine\n"})
    run("save", code=0)
    done = run(command, *options, "data/ok", "data/report\nsrc", "*.x", code=14)
    assert "a line feed" in done.err and r"report\nsrc" in done.err
    assert rules_of(run) == [] and (root / ".casrewindignore").read_bytes() == b"# mine\n", "nothing at all was written"
    assert run(command, *options, "data/*\nsrc", code=14).code == 14
    assert rules_of(run) == [] and (root / ".casrewindignore").read_bytes() == b"# mine\n"
    run("include", "data", code=0)
    assert {"data/report\nsrc", "src/a"} <= held(run), "its directory can be included"


ODD = ["a\r", "b ", "c  ", "!d", "#e", "f\\", "g\\ ", "[h]", "i*", "j?", " ", "\\!k", "\ufeffl", "m\t", "\\", "n\x0b", "-o", "p\r\r", "q\\\r", "~"]


@pytest.mark.parametrize("options", [(), ("--shared",)])
@pytest.mark.parametrize("name", ODD)
def test_an_odd_name_is_one_rule_that_means_it_alone(run, root, name, options):
    others = [f"x{name}", f"{name}x", name.strip("\r \\!#[]*?\ufeff-") or "x"]
    plant(root, {".gitignore": b"*\n", name: b"1", **{other: b"2" for other in others if other != name}, f"dir/{name}/in": b"3"})
    run("include", *options, "--", name, f"dir/{name}", code=0)
    assert {path for path in held(run) if path != ".casrewindignore"} == {name, "dir", f"dir/{name}", f"dir/{name}/in"}
    run("exclude", *options, "--", name, f"dir/{name}/", code=0)
    run("save", code=0)
    assert not {name, f"dir/{name}/in"} & held(run)


@pytest.mark.parametrize(("pattern", "matched", "other"), [
    ("#*#", "#draft#", "draft"), ("* ", "a ", "a"), ("*\r", "a\r", "a"), ("\ufeff*", "\ufeffa", "a"), ("*\\ ", "a ", "a"), ("*  ", "a  ", "a "),
    ("[ab].key/", "a.key", "c.key"),
])  # fmt: skip
def test_an_odd_pattern_is_one_rule_and_no_comment(run, root, pattern, matched, other):
    plant(root, {f"{matched}/in" if pattern.endswith("/") else matched: b"1", other: b"2", "z": b"3"})
    run("exclude", pattern, code=0)
    run("save", code=0)
    assert matched not in held(run) and {other, "z"} <= held(run)
    run("include", pattern, code=0)
    assert matched in held(run)


@pytest.mark.parametrize("pattern", ["!*.log", "*\\", "*\n", "*" + "x" * 5000])
@pytest.mark.parametrize("options", [(), ("--shared",)])
def test_a_pattern_that_would_be_another_rule_is_refused(run, root, pattern, options):
    plant(root, {"a.log": b"1"})
    assert run("exclude", *options, pattern).code in (14, 64)
    assert rules_of(run) == [] and not (root / ".casrewindignore").exists()


def test_an_exclude_leaves_a_directory_open_for_what_else_is_included_in_it(run, root):
    plant(root, {".gitignore": b"data/\n", "data/x": b"1", "data/deep/y": b"2", "data/z.db": b"3"})
    run("include", "data/x", "data/deep/y", "*.db", code=0)
    run("exclude", "data/deep", "data/x", code=0)
    run("save", code=0)
    assert "data/z.db" in held(run) and not {"data/x", "data/deep/y"} & held(run)


def test_what_nobody_asked_for_is_named(run, root):
    """The shared rule that opens a directory for one file closes it no more for what a deeper file of rules includes."""
    plant(root, {".gitignore": b"data/\n", "data/x": b"1", "data/.hidden": b"2", "data/sub/y": b"3", "data/.casrewindignore": b"!.hidden\n!sub\n"})
    run("save", code=0)
    done = run("include", "--shared", "data/x", code=3)
    assert "not asked for: data/.hidden is saved in " in done.out and ": data/.casrewindignore, line 1: !.hidden\n" in done.out
    assert {"data/x", "data/.hidden", "data/sub/y"} <= held(run)
    found = run.json("exclude", "--shared", "data/x", code=3)
    assert [(each["path"], each["captured"]) for each in found["also"]] == [("data/.hidden", False), ("data/sub", False)]


def test_include_through_a_link_is_refused(run, root):
    plant(root, {".gitignore": b"real/\n", "real/x": b"1", "a": b"2"})
    (root / "link").symlink_to("real")
    done = run("include", "link/x", code=14)
    assert "link is a link" in done.err and "name what it leads to: real/x" in done.err
    assert rules_of(run) == []
    run("include", "link/", code=0)
    assert "link" in held(run) and "real" not in held(run)


def test_a_directory_that_cannot_be_read_is_left_out_by_exclude(run, root):
    if os.geteuid() == 0:
        pytest.skip("root reads everything")
    plant(root, {"closed/x": b"1", "a": b"2"})
    os.chmod(root / "closed", 0)
    try:
        run("save", code=3)
        run("exclude", "closed", code=0)
        run("save", code=0)
    finally:
        os.chmod(root / "closed", 0o700)


def test_a_pattern_with_a_slash_begins_where_the_person_is(run, root):
    plant(root, {".gitignore": b"*.db\n", "sub/data/x.db": b"1", "data/y.db": b"2"})
    run("save", code=0)
    InProcess(root / "sub", run.environment["HOME"])("include", "data/*.db", code=0)
    assert "sub/data/x.db" in held(run) and "data/y.db" not in held(run)
    run("include", "./data/*.db", code=0)
    assert "data/y.db" in held(run)


def test_a_walk_that_ends_early_says_so(run, root, monkeypatch):
    plant(root, {"a/b": b"1", "c/d": b"1", "e": b"1"})
    monkeypatch.setattr(rule_effects, "MOST_ENTRIES", 3)
    assert "this list is incomplete: there are more than " in run("include", "*.db", code=3).out
    assert run.json("exclude", "*.db", code=3)["complete"] is False
    monkeypatch.setattr(rule_effects, "MOST_ENTRIES", 5)
    assert run.json("include", "*.db")["complete"] is True
