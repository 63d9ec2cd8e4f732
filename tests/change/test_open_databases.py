"""A restore below an open SQLite database would be undone by the program that has it open: it is named, and not done unasked.

Every program here is a process of its own with a real SQLite. Other open files are named beside a database, and stop nobody.
"""

import os
import re
import shutil
import subprocess
import sys
import threading

import pytest

from casrewind import Declined, errors
from casrewind.store import journal
from support import open_database, unprivileged
from support import picture as pictures
from support.command_in_process import InProcess
from support.open_database import make, program, rows_of
from support.terminal_in_process import on_terminal
from support.trees import plant

pytestmark = pytest.mark.linux_only("it tells which files are open")
MODES = ("wal", "delete")
"""A write-ahead log, and a rollback journal."""


@pytest.fixture
def shop(casrewind, root):
    """A project with a database of 100 rows at `one`, and of one row now."""
    plant(root, {"app.py": b"one\n", ".gitignore": b""})
    make(root / "dev.db", 100)
    casrewind("save", "-m", "one", code=0)
    plant(root, {"app.py": b"two\n"})
    make(root / "dev.db", 1)
    casrewind("save", "-m", "two", code=0)
    return root


def picture(root):
    """The files but for shared memory: each reader of a database writes there, a save too."""
    return {path: found for path, found in pictures.picture(root).items() if not path.endswith(b"-shm")}


def named(report):
    return [(item.path, item.pid) for item in report.open_files if item.is_database]


def restored_under_each(workspace, root, mode, count):
    """Restores below a database that a program has open, and below the same one when the program has closed it."""
    database = root / "dev.db"
    with program(root) as other:
        for number in range(count):
            make(database, 100 + number, mode)
            point = workspace.save().checkpoint
            make(database, 1, mode)
            other.tell("open", "dev.db")
            other.tell("add", 1 + number % 3)
            assert named(workspace.plan_restore(point)) == [(b"dev.db", other.pid)]
            before = workspace.save().checkpoint
            with pytest.raises(errors.DatabaseOpen, match=rf"dev\.db is open for writing in \S+ \(pid {other.pid}\)"):
                workspace.restore(point)
            assert rows_of(database) == 2 + number % 3 and workspace.checkpoint("last").id == before.id
            other.tell("close")
            report = workspace.restore(point)
            assert report.open_files == () and rows_of(database) == 100 + number
            workspace.undo()
            assert rows_of(database) == 2 + number % 3


@pytest.mark.parametrize("mode", MODES)
def test_each_restore_below_an_open_database_is_refused_and_none_below_a_closed_one(workspace, root, mode):
    restored_under_each(workspace, root, mode, 6)


@pytest.mark.long
@pytest.mark.parametrize("mode", MODES)
def test_two_hundred_restores_below_open_databases(workspace, root, mode):
    """Both modes: five minutes beside seven other busy programs on two processors."""
    restored_under_each(workspace, root, mode, 100)


def test_without_a_terminal_it_ends_with_14_and_an_option_goes_ahead(casrewind, shop):
    with program(shop, "open", "dev.db") as other:
        before = picture(shop)
        plan = casrewind("restore", "one", "-n", code=0)
        assert f"  dev.db is open for writing in {os.path.basename(sys.executable)} (pid {other.pid}); stop it first\n" in plan.out
        refused = casrewind("restore", "one", "-y", code=14)
        assert f"(pid {other.pid})" in refused.err and "nothing was changed" in refused.err and "--open-files" in refused.err
        assert picture(shop) == before
        done = casrewind("restore", "one", "-y", "--open-files", "--json", code=0).json
        assert done["open_files"] == [{"path": "dev.db", "program": os.path.basename(sys.executable), "pid": other.pid, "database": True}]
    assert rows_of(shop / "dev.db") == 100


VERBS = {  # what is done first, unseen by the program; then what is refused
    "restore": ([], ["restore", "one"]),
    "restore of a path": ([], ["restore", "one", "dev.db"]),
    "restore by its companion": ([], ["restore", "one", "dev.db-wal"]),
    "undo": ([["restore", "one", "-y"]], ["undo"]),
    "redo": ([["restore", "one", "-y"], ["undo", "-y"]], ["redo"]),
    "revert": ([["run", "--", "cp", "{root}/other.db", "{root}/dev.db"]], ["revert", "@1"]),
    "take": ([["restore", "two", "--to", "{root}/../try"], ["run", "--", "cp", "{root}/other.db", "{root}/../try/dev.db"]], ["take", "{root}/../try"]),
}


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_that_changes_files_is_refused(shop, home, verb):
    casrewind = InProcess(shop, home)
    before, words = VERBS[verb]
    before, words = [[word.format(root=shop) for word in line] for line in before], [word.format(root=shop) for word in words]
    make(shop / "other.db", 7)
    for line in before:
        casrewind(*line, code=0)
    with program(shop, "open", "dev.db") as other:
        if verb == "restore by its companion":
            other.tell("add", 1)
            casrewind("save", "-m", "one", code=0)
            other.tell("add", 1)
        state = picture(shop)
        planned = casrewind(*words, "-n", "--json", code=0).json
        assert [(item["path"], item["pid"]) for item in planned["open_files"] if item["database"]] == [("dev.db", other.pid)]
        assert f"dev.db is open for writing in {os.path.basename(sys.executable)} (pid {other.pid})" in casrewind(*words, "-n").out
        casrewind(*words, "-y", code=14)
        assert picture(shop) == state
        assert casrewind(*words, "-y", "--open-files").code in (0, 3)
        assert picture(shop) != state


@pytest.mark.parametrize("forward", [True, False], ids=["continue", "abort"])
def test_an_interrupted_restore_is_not_finished_below_it(workspace, root, monkeypatch, forward):
    make(root / "dev.db", 100)
    point = workspace.save().checkpoint
    make(root / "dev.db", 1)
    one = (root / "dev.db").read_bytes()
    with monkeypatch.context() as patch:  # what a kill leaves behind the last change
        patch.setattr(journal.Journals, "remove", lambda self, worktree: (_ for _ in ()).throw(errors.StoreError("gone")))
        with pytest.raises(errors.StoreError):
            workspace.restore(point)
    if forward:  # or one before it
        (root / "dev.db").write_bytes(one)
    rows = rows_of(root / "dev.db")
    with program(root, "open", "dev.db") as other:
        with pytest.raises(errors.DatabaseOpen, match=rf"\(pid {other.pid}\)"):
            workspace.finish_restore(forward=forward)
        assert rows_of(root / "dev.db") == rows and "a restore was interrupted" in workspace.status().reasons[0]
    workspace.finish_restore(forward=forward)
    assert rows_of(root / "dev.db") == (100 if forward else 1)


@pytest.mark.parametrize(("answer", "rows"), [("y", 100), ("n", 1)])
def test_on_a_terminal_the_plan_names_it_and_asks(shop, home, answer, rows):
    with program(shop, "open", "dev.db") as other:
        shown = on_terminal(InProcess(shop, home), ("restore", "one"), typed=answer)
        assert f"(pid {other.pid}); stop it first" in shown.out
    assert rows_of(shop / "dev.db") == rows


def test_one_that_is_opened_between_the_plan_and_the_answer_is_asked_about(workspace, root):
    plant(root, {"app.py": b"one"})
    make(root / "dev.db", 100)
    point = workspace.save().checkpoint
    make(root / "dev.db", 1)
    with program(root) as other:
        plans = []

        def agree_once(plan):
            plans.append((plan.why_again, [item.pid for item in plan.open_files]))
            other.tell("open", "dev.db")
            return len(plans) == 1

        with pytest.raises(Declined):
            workspace.restore(point, confirm=agree_once)
        assert plans[0] == ("", []) and plans[1][1] == [other.pid]
        assert plans[1][0].endswith(f"(pid {other.pid}) opened dev.db since that plan was shown")
        assert rows_of(root / "dev.db") == 1 and workspace.status().undo == 0
        report = workspace.restore(point, confirm=lambda plan: [item.pid for item in plan.open_files] == [other.pid])
        assert named(report) == [(b"dev.db", other.pid)]
    assert rows_of(root / "dev.db") == 100


# --- what stops nobody -----------------------------------------------------------------------------------------------------


def test_a_log_an_editor_and_a_bundler_stop_nobody(casrewind, shop):
    plant(shop, {"server.log": b"", ".app.py.swp": b"", "dist/bundle.js": b"1"})
    casrewind("save", code=0)
    with program(shop, "write", "server.log", ".app.py.swp", "dist/bundle.js"):
        done = casrewind("restore", "one", "app.py", "server.log", ".app.py.swp", "dist", "-y")
        assert done.code in (0, 3) and "open for writing" not in done.out + done.err
        assert not (shop / "server.log").exists() and (shop / "app.py").read_bytes() == b"one\n"


def test_beside_a_database_other_open_files_are_named(casrewind, shop):
    plant(shop, {"server.log": b"", "dist/bundle.js": b"1"})
    casrewind("save", code=0)
    with program(shop, "write", "server.log", "dist/bundle.js") as other:
        plan = casrewind("restore", "one", "-n", code=0).out
        assert f"also open for writing: server.log in {os.path.basename(sys.executable)} (pid {other.pid})" in plan and "bundle.js" in plan
        casrewind("restore", "one", "-y", code=0)
    assert rows_of(shop / "dev.db") == 100


@pytest.mark.skipif(shutil.which("node") is None, reason="needs node")
def test_a_real_node_that_writes_a_bundle_stops_nobody(casrewind, shop):
    plant(shop, {"dist/bundle.js": b"1"})
    casrewind("save", code=0)
    write = "require('fs').openSync('dist/bundle.js', 'a'); console.log('open'); setInterval(() => {}, 1e6)"
    with subprocess.Popen(["node", "-e", write], cwd=shop, stdout=subprocess.PIPE) as node:
        try:
            assert node.stdout.readline() == b"open\n"
            done = casrewind("restore", "one", "-y", code=0)
            assert f"also open for writing: dist/bundle.js in node (pid {node.pid})" in done.out
        finally:
            node.kill()
    assert rows_of(shop / "dev.db") == 100


@pytest.mark.skipif(shutil.which("vim") is None, reason="needs vim")
def test_a_real_editor_with_a_changed_buffer_stops_nobody(casrewind, shop):
    with subprocess.Popen(["script", "-qc", "vim -u NONE -i NONE app.py", "/dev/null"], cwd=shop, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL,
                          stderr=subprocess.DEVNULL) as editor:  # fmt: skip
        editor.stdin.write(b"ihello\x1b")
        editor.stdin.flush()
        waited = threading.Event()
        while not (shop / ".app.py.swp").exists():
            assert editor.poll() is None
            waited.wait(0.05)
        casrewind("restore", "one", "-y", code=0)
        editor.stdin.write(b":q!\r")
        editor.stdin.close()
        editor.wait(30)
    assert (shop / "app.py").read_bytes() == b"one\n" and rows_of(shop / "dev.db") == 100


def test_a_program_that_only_reads_it_stops_nobody(casrewind, shop):
    with program(shop, "read", "dev.db"):
        casrewind("restore", "one", "-y", code=0)
    assert rows_of(shop / "dev.db") == 100


def test_another_file_of_that_name_stops_nobody(casrewind, shop, tmp_path):
    (tmp_path / "elsewhere").mkdir()
    make(tmp_path / "elsewhere" / "dev.db", 3)
    with program(tmp_path / "elsewhere", "open", "dev.db"):
        casrewind("restore", "one", "-y", code=0)


def test_a_database_that_does_not_change_stops_nobody(casrewind, shop):
    with program(shop, "open", "dev.db"):
        casrewind("restore", "one", "app.py", "-y", code=0)


@pytest.mark.skipif(shutil.which("strace") is None, reason="needs strace")
def test_without_a_database_among_the_paths_no_process_is_looked_at(casrewind, shop, tmp_path):
    log = tmp_path / "calls"
    looked = []
    for path in ("app.py", "dev.db"):
        casrewind("restore", "one", path, "-y", code=0, prefix=("strace", "-f", "-qq", "-e", "trace=openat", "-o", str(log)))
        looked.append(len(re.findall(r'"/proc/\d+/fd"', log.read_text("utf-8", "replace"))))
    assert looked[0] == 0 < looked[1]


def test_status_names_a_captured_database_that_a_program_has_open(casrewind, shop):
    plant(shop, {".gitignore": b"cache.db*\n"})
    make(shop / "cache.db", 1)
    casrewind("save", code=0)
    assert "is open in" not in casrewind("status", code=0).out
    with program(shop, "open", "dev.db") as other, program(shop, "open", "cache.db"):
        shown = casrewind("status", code=0).out
        assert f"! dev.db is open in {os.path.basename(sys.executable)} (pid {other.pid}): " in shown and "cache.db is open" not in shown
        assert casrewind.json("status")["protected"]


# --- what another system calls a process, or a file -------------------------------------------------------------------------


def test_a_process_that_has_another_name_for_the_file_is_found(casrewind, shop, tmp_path):
    """As in a container: the project is mounted elsewhere there, or its root is another one."""
    elsewhere = tmp_path / "in a container"
    elsewhere.mkdir()
    script = f'mount --bind "{shop}" "{elsewhere}" && cd "{elsewhere}" && exec "$@"'
    prefix = ("unshare", "--mount", "sh", "-c", script, "sh")
    if shutil.which("unshare") is None or subprocess.run([*prefix, "true"], capture_output=True).returncode:
        pytest.skip("needs unshare, and a mount namespace")
    with program(tmp_path, "open", "dev.db", prefix=prefix) as other:
        assert os.readlink(f"/proc/{other.pid}/cwd") != str(shop)
        refused = casrewind("restore", "one", "-y", code=14)
        assert f"dev.db is open for writing in {os.path.basename(sys.executable)} (pid {other.pid})" in refused.err


def test_what_another_user_has_open_is_not_seen_and_nothing_fails(tmp_path):
    """docs/limits.md says so."""
    unprivileged.require()
    if os.geteuid() != 0:
        pytest.skip("needs root, to be the other user")
    with unprivileged.open_directory() as place:
        (place / "home").mkdir()
        (place / "project").mkdir()
        from support.command import Command

        make(place / "project" / "dev.db", 100)
        subprocess.run(["chown", "-R", str(unprivileged.NOBODY), place], check=True)
        casrewind = Command(place / "project", place / "home")
        casrewind("save", "-m", "one", code=0, prefix=unprivileged.PREFIX)
        make(place / "project" / "dev.db", 1)
        subprocess.run(["chown", "-R", str(unprivileged.NOBODY), place / "project"], check=True)
        with program(place / "project", "open", "dev.db"):
            assert "open for writing" not in casrewind("restore", "one", "-n", code=0, prefix=unprivileged.PREFIX).out
            casrewind("restore", "one", "-y", code=0, prefix=unprivileged.PREFIX)


# --- in a client ------------------------------------------------------------------------------------------------------------


def test_in_a_client_the_smallest_step_is_shown_first_too(casrewind, shop):
    with program(shop, "open", "dev.db") as other:
        plan = casrewind("restore", "one", "--typed", "restore one", code=0).out
        assert f"(pid {other.pid}); stop it first" in plan and rows_of(shop / "dev.db") == 1
        line = plan.splitlines()[-1].strip().removeprefix("casrewind ")
        casrewind("restore", "one", "--typed", line, code=0)
    assert rows_of(shop / "dev.db") == 100
    undo = casrewind("undo", "--all", "--typed", "undo --all", code=0).out
    line = undo.splitlines()[-1].strip().removeprefix("casrewind ")
    with program(shop, "open", "dev.db"):  # opened since its plan was shown
        again = casrewind("undo", "--all", "--typed", line, code=0).out
        assert "a prompt, a restore or an open database came in between; nothing has" in again and "stop it first" in again
    assert rows_of(shop / "dev.db") == 100
