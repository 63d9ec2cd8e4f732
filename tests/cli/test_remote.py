"""casrewind remote, push, pull, clone, export and import: every word that a person reads, and the exit code."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from casrewind.remote import remote_config
from support.command_in_process import InProcess
from support.trees import plant

KEY = remote_config.key_as_text(b"k" * 32)


class At(InProcess):
    """The command on a machine of its own: its home, its root, the remote's key in the variable."""

    def __init__(self, place, name):
        root, home = place / name / "project", place / name / "home"
        for path in (root, home):
            path.mkdir(parents=True)
        super().__init__(root, home)
        self.environment["CASREWIND_REMOTE_KEY"] = KEY


@pytest.fixture
def url(tmp_path):
    return f"file://{tmp_path}/bucket"


@pytest.fixture
def sandbox(tmp_path, url):
    made = At(tmp_path, "sandbox")
    plant(made.root, {"app.py": b"one\n", "lib/x.py": b"x\n"})
    made("save", code=0)
    made("remote", "add", url, "--machine", "sandbox-4", code=0)
    return made


@pytest.fixture
def laptop(tmp_path):
    return At(tmp_path, "laptop")


def without_numbers(text):
    return re.sub(r"\b\d+ s ago", "N s ago", re.sub(r"[0-9.]+ (B|KiB|MiB)", "SIZE", re.sub(r"\bc[0-9a-f]{14}\b", "ID", text)))


def test_a_remote_is_added_once_and_says_what_goes_up_and_where_the_key_is(tmp_path, url):
    machine = At(tmp_path, "one")
    assert machine("remote", code=0).out == "this project has no remote: casrewind remote add URL gives it one\n"
    said = machine("remote", "add", url, "--machine", "sandbox-4", code=0).out.splitlines()
    assert said[0] == f"made the remote {url}; this machine is called sandbox-4 there"
    assert said[1] == "  a push sends files, prompts and conversations, encrypted"
    assert re.fullmatch(r"  its key is in .*/remotes/[0-9a-f]{32}/key", said[2])
    assert said[3:] == ["  keep the key elsewhere, too: casrewind remote key --show", "  without it nobody can read what was pushed"]
    assert os.stat(said[2].partition(" in ")[2]).st_mode & 0o777 == 0o600
    again = machine("remote", "add", url, code=64)
    assert again.err == f"casrewind: this project has the remote {url} already; casrewind remote remove forgets it here\n"
    two = At(tmp_path, "two")
    joined = two("remote", "add", url, "--machine", "laptop", "--no-conversations", code=0).out
    assert joined.startswith(f"joined the remote {url} (no machine has pushed); this machine is called laptop there\n") and "keep the key" not in joined
    nothing = dict.fromkeys(("since", "pushed_at", "failed_at", "problem", "verified_at"))
    assert two.json("remote") == {"url": url, "machine": "laptop", "not_pushed": 0, **nothing, "pushes": "off", "damage": 0}


def test_push_says_what_waits_what_it_sent_and_that_nothing_is_left(sandbox, url):
    assert re.search(rf"  remote       {re.escape(url)}; 1 checkpoint not pushed \(since \d\d:\d\d\)\n", sandbox("status", code=0).out)
    assert without_numbers(sandbox("push", "-n", code=0).out) == (
        "would push 1 checkpoint (5 blobs, SIZE), before compression\n  2 files new to the remote: app.py, lib/x.py\n"
    )
    assert without_numbers(sandbox("push", code=0).out) == (
        "pushed 1 checkpoint (5 blobs, SIZE) in 7 requests\n  2 files new to the remote: app.py, lib/x.py\n"
    )
    assert sandbox("push", code=0).out == f"nothing to push: all files are saved, and all checkpoints are on {url}\n"
    assert sandbox("push", "-n", code=0).out == f"nothing to push: all checkpoints are on {url}\n"
    assert f"  remote       {url}; all checkpoints are pushed\n" in sandbox("status", code=0).out
    found = sandbox.json("status")["remote"]
    assert found["url"] == url and found["not_pushed"] == 0 and found["pushed_at"] and found["since"] is None


def test_pull_names_machines_and_the_next_step_and_its_words_work(sandbox, laptop, url):
    plant(laptop.root, {"app.py": b"mine\n"})
    laptop("save", code=0)
    laptop("remote", "add", url, "--machine", "laptop", code=0)
    assert laptop("pull", code=0).out == f"nothing new on {url}\n"
    sandbox("push", code=0)
    said = without_numbers(laptop("pull", code=0).out).splitlines()
    assert said == ["pulled 1 checkpoint of sandbox-4 (SIZE)", "casrewind list --remote lists them, casrewind restore remote:last restores the newest"]
    assert "sandbox-4" in laptop("list", "--remote", code=0).out
    before = laptop("list", code=0).out
    assert "sandbox" not in before
    assert laptop("restore", "remote:last", "-n", code=0).out
    laptop("restore", "remote:last", "-y", code=0)
    assert (Path(laptop.root) / "app.py").read_bytes() == b"one\n"
    laptop("undo", "-y", code=0)
    assert (Path(laptop.root) / "app.py").read_bytes() == b"mine\n" and not (Path(laptop.root) / "lib").exists()
    assert laptop.json("pull")["checkpoints"] == {}


def test_clone_makes_a_project_and_refuses_another_place(sandbox, laptop, url):
    sandbox("save", "-m", "now the printer", code=0)
    sandbox("push", code=0)
    said = without_numbers(laptop("clone", url, "shop", code=0).out).splitlines()
    receipt = ["receipt: files 2 of 2 exact", "         no conversation belongs to the checkpoint"]
    assert said == ["restored 2 files into shop", '  ID, N s ago, "now the printer", of sandbox-4', *receipt]
    assert (Path(laptop.root) / "shop" / "lib" / "x.py").read_bytes() == b"x\n"
    refused = laptop("clone", url, "shop", code=14)
    assert refused.err.startswith("casrewind: ") and refused.err.endswith("is not empty; give clone a new or an empty directory\n")
    every = laptop.json("clone", url, "all", "--all")
    assert every["checkpoints"] == 2 and every["files"] == 2 and every["machine"] == "sandbox-4" and every["resume"] is None
    assert "no checkpoint 'nonsense' on" in laptop("clone", url, "none", "nonsense", code=15).err
    assert not (Path(laptop.root) / "none").exists()
    assert "there is no casrewind remote at" in laptop("clone", url + "-other", "none", code=17).err


def test_export_and_import_carry_a_checkpoint_in_a_stream(sandbox, laptop, tmp_path):
    for name, options, how in (
        ("sealed", (), "encrypted; import needs the same key"), ("plain", ("--plain",), "PLAIN: anyone who has it can read it"),
    ):  # fmt: skip
        line = [sys.executable, "-m", "casrewind", "-C", sandbox.root, "export", *options, "last"]
        done = subprocess.run(line, env=sandbox.environment, capture_output=True, check=True)
        assert without_numbers(done.stderr.decode()) == f"exported 1 checkpoint ID, N s ago (SIZE), {how}\n"
        (tmp_path / name).write_bytes(done.stdout)
    assert (tmp_path / "plain").read_bytes().startswith(b"casrewind export 2 plain\n")
    assert b"app.py" not in (tmp_path / "sealed").read_bytes()
    said = without_numbers(laptop("import", str(tmp_path / "sealed"), code=0).out).splitlines()
    assert said[0].startswith("pulled 1 checkpoint of ")
    assert laptop("import", str(tmp_path / "plain"), code=0).out == "nothing new on the export\n"
    data = (tmp_path / "sealed").read_bytes()
    for length in (10, len(data) // 2, len(data) - 1):
        (tmp_path / "cut").write_bytes(data[:length])
        refused = laptop("import", str(tmp_path / "cut"))
        assert refused.code in (3, 17) and ("cut" in refused.err or "not an export" in refused.err), (length, refused)
    laptop.environment["CASREWIND_REMOTE_KEY"] = remote_config.key_as_text(b"x" * 32)
    assert "this is not the key of the export; " in laptop("import", str(tmp_path / "sealed"), code=17).err
    del laptop.environment["CASREWIND_REMOTE_KEY"]
    assert "the export needs its key" in laptop("import", str(tmp_path / "sealed"), code=17).err


def test_the_key_is_shown_on_a_terminal_only_and_found_in_every_place(sandbox, tmp_path, url):
    assert sandbox("remote", "key", "--show", code=64).err == (
        "casrewind: casrewind shows the key only in a terminal; run casrewind remote key --show there\n"
    )
    assert "casrewind remote key --show prints it" in sandbox("remote", "key", code=0).out
    (tmp_path / "key").write_text(KEY + "\n")
    (tmp_path / "key").chmod(0o600)
    by_file, by_command = At(tmp_path, "file"), At(tmp_path, "command")
    for machine in (by_file, by_command):
        del machine.environment["CASREWIND_REMOTE_KEY"]
        assert f"{url} needs its key" in machine("remote", "add", url, code=17).err
    by_file("remote", "add", url, "--key-file", str(tmp_path / "key"), code=0)
    said = by_command("remote", "add", url, "--key-command", f"cat {tmp_path}/key", code=0).out
    assert "each push and pull gets the key from the command; casrewind does not store it" in said
    for machine in (by_file, by_command):
        plant(machine.root, {"f": os.urandom(8)})
        machine("save", code=0)
        assert machine("push", code=0).out.startswith("pushed 1 checkpoint")
    assert not list((tmp_path / "command" / "home").rglob("remotes/*/key"))
    (tmp_path / "key").write_text("nonsense")
    assert by_command("push", code=17).err.startswith(f"casrewind: the output of 'cat {tmp_path}/key' has no key of a remote")
    (tmp_path / "key").unlink()
    assert "failed with exit code 1" in by_command("push", code=17).err


def test_remove_forgets_the_remote_and_leaves_what_was_pushed(sandbox, url, tmp_path):
    sandbox("push", code=0)
    assert sandbox("remote", "remove", code=64).err.startswith("casrewind: ")
    (key,) = (tmp_path / "sandbox" / "home").rglob("remotes/*/key")
    said = sandbox("remote", "remove", "-y", code=0).out
    assert said == (
        f"Forget the remote {url} here.\n  what was pushed stays there\n  this also deletes its key: {key}\n"
        "  without a copy of the key, or a passphrase, nobody can read what was pushed\n"
        f"  to keep it: casrewind remote key --show, or copy that file, before you continue\nforgot the remote {url}\n"
    )
    assert not key.exists()
    assert sandbox("push", code=17).err == "casrewind: this project has no remote; casrewind remote add URL gives it one\n"
    assert len([path for path in (tmp_path / "bucket").rglob("0000*") if path.is_file()]) == 1


def test_a_purge_says_that_the_remote_may_hold_it_and_the_next_push_ends_that(sandbox, url, tmp_path):
    plant(sandbox.root, {"secret": b"hunter2"})
    sandbox("save", code=0)
    sandbox("push", code=0)
    before = {path: path.read_bytes() for path in (tmp_path / "bucket").rglob("*") if path.is_file()}
    assert "may still hold it" not in sandbox("purge", "secret", "-n", code=0).err
    said = sandbox("purge", "secret", "-y", code=0).err
    assert f"{url} may still hold it, in what sandbox-4 pushed: casrewind push sends everything again and empties that\n" in said
    out = without_numbers(sandbox("push", code=0).out).splitlines()
    assert out[0] == "after a purge the current files are not saved first: they may have what was purged"
    assert out[1] == "after the purge, push sends everything again and empties what was pushed before"
    assert out[2].startswith("pushed 2 checkpoints")
    after = {path: path.read_bytes() for path in (tmp_path / "bucket").rglob("*") if path.is_file()}
    assert [path.name for path in before if after.get(path) == before[path] and "days" not in path.parts] == ["casrewind"]
    assert len(after) == 7, "the end of the old chain, the new one and its name, and a hint for each"


def test_a_purge_names_each_machine_that_may_have_pushed_it(sandbox, laptop, url):
    plant(laptop.root, {"secret": b"hunter2", "password": b"hunter3"})
    laptop("save", code=0)
    assert laptop.json("purge", "secret", "-y")["remote"] is None
    laptop("remote", "add", url, "--machine", "laptop", code=0)
    nobody = laptop("purge", "secret", "-y", code=0)
    assert "hold it" not in nobody.err and laptop.json("purge", "secret", "-y")["remote"] == {"url": url, "machines": []}
    sandbox("push", code=0)
    laptop("pull", code=0)
    words = f"{url} may still hold it, in what sandbox-4 pushed: purge and push there, too\n"
    assert words in laptop("purge", "secret", "-y", code=0).err
    laptop("push", code=0)
    found = laptop.json("purge", "password", "-y")
    assert found["remote"] == {"url": url, "machines": ["laptop", "sandbox-4"]}
    said = laptop("purge", "--text", "-", "-y", code=0, stdin=b"hunter4")
    assert words in said.err and f"{url} may still hold it, in what laptop pushed: casrewind push sends everything again" in said.err


def test_a_damaged_piece_is_named_with_exit_code_3_and_the_rest_is_taken(sandbox, laptop, url, tmp_path):
    sandbox("push", code=0)
    plant(sandbox.root, {"app.py": b"two\n"})
    sandbox("save", code=0)
    sandbox("push", code=0)
    path = max(path for path in (tmp_path / "bucket").rglob("000000000*") if path.is_file())
    data = bytearray(path.read_bytes())
    data[-50] ^= 1
    path.chmod(0o600)
    path.write_bytes(data)
    plant(laptop.root, {"x": b"x"})
    laptop("save", code=0)
    laptop("remote", "add", url, code=0)
    found = laptop("pull", code=3)
    assert found.out.startswith("pulled 1 checkpoint of sandbox-4")
    assert found.err.startswith("casrewind: piece 2 of sandbox-4 is damaged or cut (")


def test_a_project_that_was_copied_goes_on_by_itself(sandbox, tmp_path, url):
    sandbox("push", code=0)
    copy = At(tmp_path, "copy")
    shutil.rmtree(copy.home)
    shutil.copytree(sandbox.home, copy.home)
    copy.root = sandbox.root
    for machine, content in ((sandbox, b"first"), (copy, b"copy")):
        plant(machine.root, {"app.py": content})
        machine("save", code=0)
    sandbox("push", code=0)
    told = "the remote has more of this machine than this store knows (a copy of it pushed, or it is older): it continues in a new chain\n"
    assert copy("push", code=0).out.startswith(told)


@pytest.mark.parametrize("line", ["remote nonsense", "remote add", "remote list file:///x", "clone", "import", "import /nonexistent", "remote key --show --add"])
def test_what_cannot_be_is_64_in_words(sandbox, line):
    found = sandbox(*line.split(), code=64)
    assert found.err.startswith("casrewind: ") and "Traceback" not in found.err


def aged(url, days):
    """Make all that is on the remote older, by the clock of its server: here that of the files."""
    for place, _, names in os.walk(url.removeprefix("file://")):
        for name in names:
            path = os.path.join(place, name)
            moved = os.stat(path).st_mtime - days * 86_400
            os.utime(path, (moved, moved))


@pytest.fixture
def after_long(sandbox, laptop, url):
    """A remote to which sandbox-4 has not pushed for long. Returns the machine that does."""
    sandbox("push", code=0)
    aged(url, 100)
    laptop("save", code=0)
    laptop("remote", "add", url, "--machine", "laptop", code=0)
    laptop("push", code=0)
    return laptop


def test_remote_gc_plans_asks_and_removes_what_is_older_than_the_setting(after_long, sandbox, url):
    assert after_long("remote", "gc", code=0).out == f"nothing to remove from {url}: remote.keep is forever\n"
    after_long.environment["CASREWIND_REMOTE_KEEP"] = "101d"
    assert after_long("remote", "gc", code=0).out == f"nothing to remove from {url}\n"
    after_long.environment["CASREWIND_REMOTE_KEEP"] = "99d"
    line = r"  - sandbox-4 \([0-9a-f]{8}\): 1 checkpoint, SIZE, last push 100 d ago"
    said = without_numbers(after_long("remote", "gc", "-n", code=0).out).splitlines()
    assert said[0] == f"would remove 1 chain from {url}" and re.fullmatch(line, said[1]) and len(said) == 2, said
    refused = after_long("remote", "gc", code=64)
    assert "asks before it removes checkpoints from the remote" in refused.err and sandbox("push", code=0)
    found = after_long.json("remote", "gc", "-n")
    assert found["dry_run"] and found["keep_seconds"] == 99 * 86_400 and [one["machine"] for one in found["removed"]] == ["sandbox-4"]
    said = without_numbers(after_long("remote", "gc", "-y", code=0).out).splitlines()
    assert said[0] == f"Remove 1 chain from {url}:" and re.fullmatch(line, said[1]) and said[2] == "removed 1 chain with 1 checkpoint (SIZE)"
    assert after_long("pull", code=0).out == f"nothing new on {url}\n"
    assert after_long("remote", "gc", "-y", code=0).out == f"nothing to remove from {url}\n"
    sandbox("save", "-m", "later", code=0)
    said = sandbox("push", code=0).out
    assert "what this machine pushed was removed from the remote by remote gc: all of it is sent again\npushed 2 checkpoints" in said
    assert "pulled 2 checkpoints of sandbox-4" in after_long("pull", code=0).out


def test_remote_gc_keeps_what_is_pinned_and_says_so(after_long, sandbox, url):
    sandbox("pin", "last", code=0)
    sandbox("push", code=0)
    aged(url, 100)
    after_long("save", "-m", "newer", code=0)
    after_long("push", code=0)
    after_long.environment["CASREWIND_REMOTE_KEEP"] = "90 days"
    said = without_numbers(after_long("remote", "gc", "-y", code=0).out)
    assert re.fullmatch(r"nothing to remove from .*\n  kept: sandbox-4 \([0-9a-f]{8}\), last push 100 d ago: it has pinned checkpoints\n(merged 2 .*\n)?", said), said
    found = after_long.json("remote", "gc", "-y")
    assert found["removed"] == [] and found["kept"][0]["reason"] == "it has pinned checkpoints" and found["left"] == []


def test_remote_gc_puts_small_pieces_together(sandbox, url):
    for number in range(3):
        plant(sandbox.root, {"app.py": b"%d\n" % number})
        sandbox("save", code=0)
        sandbox("push", code=0)
    assert sandbox("remote", "gc", "-n", code=0).out.splitlines()[1] == "would merge 3 pieces of this machine, if they are small"
    assert sandbox("remote", "gc", code=0).out.splitlines()[1] == "merged 3 pieces of this machine"
    assert len(sandbox("remote", "gc", code=0).out.splitlines()) == 1
    assert sandbox("remote", "-n", code=64).err == "casrewind: --dry-run goes with remote gc; casrewind remote gc -n shows what would be removed\n"


def test_remote_gc_removes_what_this_machine_has_forgotten(sandbox, laptop, url):
    for number in range(3):
        plant(sandbox.root, {"app.py": b"%d\n" % number})
        sandbox("save", code=0)
        sandbox("push", code=0)
    nothing = f"nothing to remove from {url}: gc has forgotten nothing of it\n"
    assert sandbox("remote", "gc", "--forgotten", "-n", code=0).out.startswith(nothing)
    sandbox("gc", "--max-age", "0s", code=0)
    said = without_numbers(sandbox("remote", "gc", "--forgotten", "-n", code=0).out).splitlines()
    number = int(re.match(r"  - (\d+) checkpoints", said[1])[1])
    assert said == [
        f"would remove forgotten checkpoints from {url}",
        f"  - {number} checkpoints of this machine that gc has forgotten, the newest from N s ago",
        "    first pushes the other 1 checkpoint anew, then removes SIZE",
    ]
    assert "asks before it removes checkpoints from the remote" in sandbox("remote", "gc", "--forgotten", code=64).err
    found = sandbox.json("remote", "gc", "--forgotten", "-n")["forgotten"]
    assert (found["checkpoints"], found["pushed_anew"], found["kept"]) == (number, 1, None)
    said = without_numbers(sandbox("remote", "gc", "--forgotten", "-y", code=0).out).splitlines()
    assert said[3:] == [f"removed {number} checkpoints of this machine that gc has forgotten; pushed 1 checkpoint anew (SIZE)"]
    assert sandbox("remote", "gc", "--forgotten", code=0).out == nothing
    assert sandbox.json("remote", "gc")["forgotten"] is None
    laptop("save", code=0)
    laptop("remote", "add", url, "--machine", "laptop", code=0)
    assert "pulled 1 checkpoint of sandbox-4" in laptop("pull", code=0).out
    assert sandbox("remote", "--forgotten", code=64).err.startswith("casrewind: --forgotten goes with remote gc; ")


def test_remote_gc_keeps_what_a_clone_uses_and_says_only_that(sandbox, laptop, url):
    sandbox("push", code=0)
    plant(sandbox.root, {"app.py": b"2\n"})
    sandbox("save", code=0)
    sandbox("push", code=0)
    laptop("clone", url, "shop", code=0)
    laptop("-C", os.path.join(laptop.root, "shop"), "save", "-m", "mine", code=0)
    laptop("-C", os.path.join(laptop.root, "shop"), "push", code=0)
    sandbox("gc", "--max-age", "0s", code=0)
    said = sandbox("remote", "gc", "--forgotten", "-n", code=0).out.splitlines()
    assert said[0] == f"nothing to remove from {url}"
    assert re.fullmatch(r"  kept: \d+ checkpoints? of this machine that gc has forgotten: a clone uses it \(\w+\)", said[1])


def test_a_purge_that_a_clone_meets_is_said_by_hand_by_hook_and_by_its_owner(sandbox, laptop, url):
    plant(sandbox.root, {"secret.txt": b"the word " * 50})
    sandbox("save", code=0)
    sandbox("push", code=0)
    for name in ("drill", "used"):
        laptop("clone", url, name, "--machine", name, code=0)
        laptop("-C", os.path.join(laptop.root, name), "save", "-m", "mine", code=0)
    used, drill = (os.path.join(laptop.root, name) for name in ("used", "drill"))
    laptop("-C", used, "push", code=0)
    os.unlink(os.path.join(sandbox.root, "secret.txt"))
    sandbox("purge", "secret.txt", "-y", code=0)
    assert "what was pushed before is still used by used: after a purge, purge and push there, too" in sandbox("push", code=3).out
    assert "empties what clones use" in sandbox("push", "--purge-held", code=64).err
    said = sandbox("push", "--purge-held", "-y", code=0).out
    assert "  - used: its checkpoints there lose what they use of it" in said and "what used pushed lacks it now" in said
    refused = laptop("-C", drill, "push", code=15).err
    assert refused == (
        "casrewind: sandbox-4 has purged what is still in checkpoints here: secret.txt: nothing was pushed; casrewind purge secret.txt removes it here, "
        "too; casrewind push --keep-purged sends it again\n"
    )
    laptop("-C", drill, "push", "--auto", code=0)
    assert "has purged what is still in checkpoints here: secret.txt" in laptop("-C", drill, "status").out
    os.unlink(os.path.join(drill, "secret.txt"))
    laptop("-C", drill, "purge", "secret.txt", "-y", code=0)
    laptop("-C", drill, "push", code=0)


@pytest.mark.parametrize("value", ["0d", "soon", "-1d"])
def test_a_wrong_remote_keep_is_refused(sandbox, value):
    sandbox.environment["CASREWIND_REMOTE_KEEP"] = value
    assert "CASREWIND_REMOTE_KEEP" in sandbox("remote", "gc", code=64).err
