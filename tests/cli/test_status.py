"""status, list and show as a person reads them."""

import os
import re
import shutil
import subprocess

import pytest

from casrewind.workspace import open as opened
from support.command_in_process import InProcess
from support.gc_checks import run_and_kill
from support.packfile import flip_blob
from support.trees import Fifo, plant


def test_without_a_store_it_is_10_and_says_how_to_begin(casrewind, home):
    for form in ([], ["--json"]):
        found = casrewind("status", *form, code=10)
        assert "no store" in found.err and "casrewind save" in found.err
        if form:
            assert found.json["error"]["code"] == 10 and found.json["error"]["hint"] == "casrewind save makes the first"
        else:
            assert found.out == ""
    assert not (home / "data").exists()


def test_a_store_without_a_checkpoint_here_is_not_protected(casrewind, root, home, tmp_path):
    store = str(tmp_path / "shared")
    casrewind("--store", store, "save", code=0)
    (tmp_path / "second").mkdir()
    other = InProcess(tmp_path / "second", home)
    found = other("--store", store, "status", "--json", code=0).json
    assert found["protected"] is False and found["last"] is None and found["checkpoints"] == 0
    assert found["reasons"] == ["no checkpoint yet: run casrewind save"]
    said = other("--store", store, "status", code=0).out
    assert said.startswith("NOT PROTECTED\n") and "run casrewind save" in said
    assert "no checkpoints to show" in other("--store", store, "list", code=0).out


def test_a_checkpoint_that_holds_nothing_is_said_loudly(casrewind, root):
    plant(root, {".gitignore": b"*\n", "f": b"x"})
    found = casrewind("save", code=0)
    assert "WARNING: nothing was captured" in found.err and "ignored" in found.err
    status = casrewind.json("status")
    assert status["protected"] is False and "ignored" in status["reasons"][0]
    assert casrewind("status", code=0).out.startswith("NOT PROTECTED\n")


def test_what_stands_there(casrewind, root):
    plant(root, {"f": b"x" * 3000, "pipe": Fifo(), "node_modules/m": b"x"})
    point = casrewind.json("save", "-m", "the label")["checkpoint"]
    plant(root, {"f": b"y"})
    casrewind.json("restore", "last", "--yes")
    lines = casrewind("status", code=0).out.splitlines()
    assert lines[0] == "all files are saved, except what is not captured"
    assert re.fullmatch(r"saved \d+ s ago; no agent is connected: nothing is saved automatically", lines[1])
    fields = {line.split()[0]: line for line in lines[1:]}
    assert str(root) in fields["root"] and " of 5.0 GiB)" in fields["store"]
    assert "1; 1 restore to undo, 0 to redo" in fields["checkpoints"]
    assert point in fields["last"] and "'the label'" in fields["last"] and "1 file, 2.9 KiB" in fields["last"]
    assert "  not captured (special file): 1: pipe" in lines
    assert "  not captured (built-in exclude): 1: node_modules" in lines


def test_somebody_who_is_new_reads_what_is_missing_and_what_to_type(casrewind, root):
    plant(root, {"f": b"x"})
    casrewind.json("save")
    lines = casrewind("status", code=0).out.splitlines()
    assert "  checkpoints  1; no restore to undo" in lines
    assert "  agents       none is connected; casrewind install connects one" in lines
    casrewind("install", "claude", code=0)
    lines = casrewind("status", code=0).out.splitlines()
    assert lines[0] == "all files are saved" and lines[1].startswith("protected by the checkpoint made ")
    assert "  agents       no agent activity yet; casrewind doctor checks the hooks" in lines


def test_after_the_last_agent_is_gone_nothing_is_saved_by_itself(casrewind, root):
    plant(root, {"f": b"x"})
    casrewind.json("save")
    for agent in ("claude", "codex", "pi", "opencode"):
        casrewind("install", agent, code=0)
        assert casrewind.json("status")["connected"] == [agent]
        assert "nothing is saved automatically" not in casrewind("status", code=0).out
        casrewind("uninstall", agent, code=0)
        assert casrewind.json("status")["connected"] == []
        assert casrewind("status", code=0).out.splitlines()[1].startswith("saved ")
        assert ": nothing is saved automatically\n" in casrewind("status", code=0).out


def test_how_far_back_it_goes_and_what_is_deleted_by_itself(casrewind, root):
    plant(root, {"f": b"x"})
    first = casrewind.json("save", "-m", "first")
    plant(root, {"f": b"y"})
    casrewind.json("save", "-m", "second")
    keeps = casrewind.json("status")["keeps"]
    made = casrewind.json("show", first["checkpoint"])["checkpoint"]["created_at"]
    assert keeps == {"back_to": made, "max_age": 30 * 86400, "max_count": 20_000, "thin": True}
    lines = casrewind("status", code=0).out.splitlines()
    at = next(number for number, line in enumerate(lines) if line.startswith("  keeps "))
    assert re.fullmatch(r"  keeps        back to \d{4}-\d\d-\d\d \d\d:\d\d; at most 30 days, 20,000 turns, 5.0 GiB", lines[at])
    assert lines[at + 1] == "               all turns of 7 days, then one an hour, after 14 days one a day"
    casrewind.environment |= {"CASREWIND_THIN": "false", "CASREWIND_MAX_COUNT": "7"}
    lines = casrewind("status", code=0).out.splitlines()
    assert "30 days, 7 turns, 5.0 GiB" in lines[at] and "an hour" not in lines[at + 1]


def test_a_restore_that_was_interrupted_is_said_with_both_ways_out(process, casrewind, root):
    plant(root, {"f": b"x", "g": b"x"})
    point = casrewind.json("save")["checkpoint"]
    plant(root, {"f": b"y", "g": b"y"})
    assert run_and_kill(process, casrewind.json("status")["store"], 2, "restore", "last", "--yes")
    found = casrewind("status", code=0)
    assert "  ! a restore was interrupted: casrewind restore --continue finishes it, --abort takes it back" in found.out
    assert f"  unfinished   restore of {point} was interrupted" in found.out


def mount(kind, options, place):
    if os.geteuid() != 0:
        pytest.skip("mounting needs root")
    done = subprocess.run(["mount", "-t", kind, "-o", options, "casrewind-test", str(place)], capture_output=True)
    if done.returncode:
        pytest.skip(f"mounting {kind} is not allowed here")


def on_disk(path):
    from casrewind.locations import file_system_type

    return file_system_type(str(path)) not in ("tmpfs", "overlay", "ramfs", "")


@pytest.mark.parametrize("kind", ["tmpfs", "overlay"])
def test_a_store_that_goes_away_with_its_container_is_warned_of(casrewind, root, home, tmp_path, kind):
    if not on_disk(root):
        pytest.skip("the temporary directory lies on such a file system itself")
    data = home / "data"
    for name in ("data", "lower", "layers/upper", "layers/work"):
        (home / name).mkdir(parents=True)
    if kind == "tmpfs":
        mount("tmpfs", "size=2m,mode=0700", data)
    else:
        mount("tmpfs", "size=4m", home / "layers")
        for name in ("upper", "work"):
            (home / "layers" / name).mkdir()
        try:
            mount("overlay", f"lowerdir={home}/lower,upperdir={home}/layers/upper,workdir={home}/layers/work", data)
        except pytest.skip.Exception:
            subprocess.run(["umount", "-l", str(home / "layers")], check=True)
            raise
    try:
        plant(root, {"f": b"x"})
        casrewind.json("save")
        status = casrewind.json("status")
        assert status["protected"] is True
        assert any(kind in reason and "--store DIR" in reason for reason in status["reasons"])
        assert f"  ! the store lies on {kind}" in casrewind("status", code=0).out
    finally:
        subprocess.run(["umount", "-l", str(data)], check=True)
        if kind == "overlay":
            subprocess.run(["umount", "-l", str(home / "layers")], check=True)


def test_list_has_a_line_for_each_and_lines_up(casrewind, root):
    plant(root, {"f": b"x"})
    casrewind.json("save", "-m", "one [red]two[/red] \x1b[31m\nthree")
    plant(root, {"f": b"y" * 5000, "g": b"z"})
    casrewind.json("save", "--pin")
    casrewind.json("restore", "prev", "--yes")
    head, rule, *rows = casrewind("list", "--all", code=0).out.splitlines()
    assert head.split() == ["id", "when", "what", "files", "size", "changes"]
    assert len(rows) == 3 and "before the restore to" in rows.pop(0) and not any(line != line.rstrip() for line in (head, rule, *rows))
    assert "+1 ~1 -0" in rows[0] and "* " in rows[0] and "4.9 KiB" in rows[0]
    assert "one [red]two[/red] \\x1b[31m  (saved or restored last)" in rows[1] and "three" not in rows[1]
    assert rows[0].index("+1 ~1 -0") == rows[1].index("+1 ~0 -0")
    assert len(casrewind("list", "--all", "-n", "1", code=0).out.splitlines()) == 3


def test_show_names_everything(casrewind, root):
    plant(root, {"d/odd\x1bname": b"123", "pipe": Fifo()})
    point = casrewind.json("save", "--pin", "-m", "label")["checkpoint"]
    said = casrewind("show", "last", code=0).out
    for part in (point, "label", "pinned", str(root), "1 file, 3 B", "0644            3 d/odd\\x1bname", "dir   0755              d/", "special file"):
        assert part in said, said


def test_ages_and_numbers_are_written_as_people_write_them():
    import time

    from casrewind import messages
    from casrewind.cli.show import text

    now = time.time_ns()
    for seconds, words in ((0, "0 s ago"), (59.9, "59 s ago"), (61, "1 min ago"), (3599, "59 min ago"), (7300, "2 h ago"), (86400 * 3, "3 d ago"), (86400 * 366, "1 year ago"), (86400 * 800, "2 years ago"), (-60, "in the future")):
        assert messages.age_in_words(now - int(seconds * 1e9)) == words
    assert [messages.plural(n, "file") for n in (0, 1, 2, 1234567)] == ["0 files", "1 file", "2 files", "1,234,567 files"]
    assert [text.human_size(n) for n in (0, 1023, 1024, 1536, 5 << 30, 3 << 40)] == ["0 B", "1023 B", "1.0 KiB", "1.5 KiB", "5.0 GiB", "3.0 TiB"]


def test_quiet_says_nothing_when_all_is_well(process, root):
    plant(root, {"f": b"x"})
    found = process("-q", "save", code=0)
    assert (found.out, found.err) == ("", "")


def test_an_undo_counts_what_it_left_alone_once_and_says_how_to_get_it(casrewind, root):
    plant(root, {"a": b"1", "b": b"1", "c": b"1"})
    casrewind.json("save")
    plant(root, {"a": b"2", "b": b"2"})
    casrewind.json("restore", "last", "--yes")
    plant(root, {"a": b"edited", "b": b"edited"})
    found = casrewind("undo", "--yes", code=3)
    assert found.out.splitlines()[0] == "nothing was undone" and "casrewind undo --all" in found.out
    assert "left alone: a: edited since" in found.err and "nothing to do" not in found.out
    plant(root, {"b": b"1"})
    some = casrewind("undo", "--yes", code=3)
    assert some.out.splitlines()[1] == "  1 path written, 0 removed, 0 unchanged"
    assert (root / "a").read_bytes() == b"edited" and (root / "b").read_bytes() == b"2"
    reference = some.out.partition("to put those back too: casrewind restore ")[2].split()[0]
    casrewind("restore", reference, "--yes", "--", "a", code=0)
    assert (root / "a").read_bytes() == b"2"


def test_the_count_is_that_of_list_when_gc_forgot_some_and_when_the_index_is_derived_again(casrewind, root, home):
    for number in range(8):
        plant(root, {"f": b"%d" % number})
        casrewind("save", code=0)
    casrewind("restore", casrewind.row(3), "--yes", code=0)
    casrewind("gc", "--max-count", "5", code=0)
    counted = casrewind.json("status")["checkpoints"]
    assert counted == len(casrewind.json("list")["checkpoints"]) < 8
    shutil.rmtree(os.path.join(casrewind.json("status")["store"], "index"))
    assert casrewind.json("status")["checkpoints"] == counted
    os.rename(root, root.parent / "moved")
    moved = InProcess(root.parent / "moved", home)
    moved("adopt", str(root), code=0)
    assert moved.json("status")["checkpoints"] == counted


def test_a_condition_of_gits_configuration_that_is_not_understood_is_named_if_it_matters(casrewind, root, home):
    subprocess.run(["git", "init", "-q", "-b", "main", str(root)], check=True)
    plant(root, {"a": b"1", "b.tmp": b"1"})
    plant(home, {"rules": b"*.tmp\n", "on-main": b"[user]\nname = me\n", ".gitconfig": b'[includeIf "onbranch:main"]\n path = on-main\n'})
    casrewind("save", code=0)
    assert casrewind.json("status")["reasons"] == [], "it sets nothing that counts here"
    (home / "on-main").write_text("[core]\n excludesFile = ~/rules\n")
    done = casrewind("save", code=0)
    assert "onbranch" not in done.out + done.err
    found = casrewind.json("status")
    assert found["protected"] is True and found["reasons"] == [
        f"{home}/.gitconfig has core.excludesFile set if onbranch:main: casrewind does not understand this condition, so that does not count",
    ]
    assert "b.tmp" in {entry["path"] for entry in casrewind.json("show", "last", "--files")["entries"]}


def test_it_begins_with_whether_the_files_of_now_are_saved(casrewind, root):
    plant(root, {"a": b"1\n", "b": b"1\n"})
    point = casrewind.json("save")["checkpoint"]
    assert first_line_and_files(casrewind) == ("all files are saved", 0)
    plant(root, {"b": b"2\n", "c": b"1\n"})
    said = "2 files differ from the newest checkpoint; casrewind diff last names them"
    assert first_line_and_files(casrewind) == (said, 2)
    assert casrewind("diff", "last", code=0).out.splitlines()[-1] == "1 added, 1 modified, 0 removed"
    casrewind("restore", "last", "-y", code=0)
    assert first_line_and_files(casrewind) == ("all files are saved", 0)
    (root / "a").unlink()
    assert first_line_and_files(casrewind)[0] == "1 file differs from the newest checkpoint; casrewind diff last names them"
    assert casrewind.json("status")["unsaved"]["checkpoint"] == point


def first_line_and_files(casrewind):
    return casrewind("status", code=0).out.splitlines()[0], casrewind.json("status")["unsaved"]["files"]


def test_after_a_restore_of_an_older_state_the_files_are_saved_until_one_changes(casrewind, root):
    plant(root, {"a": b"1\n"})
    old = casrewind.json("save")["checkpoint"]
    plant(root, {"a": b"2\n"})
    casrewind.json("save")
    casrewind("restore", old, "-y", code=0)
    assert first_line_and_files(casrewind) == ("all files are saved", 0)
    plant(root, {"a": b"3\n"})
    said = f"1 file differs from the restored checkpoint {old}; casrewind diff {old} names them"
    assert first_line_and_files(casrewind) == (said, 1)
    casrewind("undo", "--all", "-y", code=0)
    assert first_line_and_files(casrewind) == ("all files are saved", 0), "the undo went back to the newest"
    casrewind("restore", old, "-y", "--", "a", code=0)
    said = "1 file differs from the newest checkpoint, as the restore left it; casrewind diff last names them"
    assert first_line_and_files(casrewind) == (said, 1), "a part of an older state is no checkpoint"
    plant(root, {"b": b"1\n"})
    assert first_line_and_files(casrewind) == ("2 files differ from the newest checkpoint; casrewind diff last names them", 2)


def test_a_file_that_rules_left_out_when_the_checkpoint_was_made_is_not_saved(casrewind, root):
    plant(root, {"a": b"1\n", ".gitignore": b"*.log\n", "x.log": b"1\n"})
    casrewind.json("save")
    assert first_line_and_files(casrewind) == ("all files are saved", 0)
    plant(root, {".gitignore": b"\n"})
    assert first_line_and_files(casrewind)[1] == 2, ".gitignore and x.log"


def test_of_a_damaged_checkpoint_it_is_not_known_whether_all_is_saved(casrewind, root, settings):
    plant(root, {"a": b"1\n"})
    casrewind.json("save")
    plant(root, {"a": b"2\n"})
    with opened(root, settings) as workspace:
        flip_blob(workspace._context.store.path, workspace.checkpoint("last").tree)
    assert casrewind("status", code=0).out.startswith("casrewind does not know whether the current files are saved: ")
    assert casrewind.json("status")["unsaved"] is None
