"""A new remote and its key: who makes one, what a person is told, and which keys and passphrases are not taken."""

import json
import sys

import pytest

from casrewind.remote import remote_config
from support.claude_client import wait
from support.command_in_process import InProcess
from support.fake_client import Client
from support.terminal import Session
from support.trees import plant

KEY = remote_config.key_as_text(b"k" * 32)
VARIABLE = "CASREWIND_REMOTE_KEY"
LONG = "correct horse battery"


class At(InProcess):
    def __init__(self, place, name):
        root, home = place / name / "project", place / name / "home"
        for path in (root, home):
            path.mkdir(parents=True)
        super().__init__(root, home)

    def on_terminal(self, *words):
        return Session([sys.executable, "-m", "casrewind", "-C", self.root, *words], {**self.environment, "NO_COLOR": "1"})

    def asked(self, *steps, words):
        """(exit code, all that was shown) of a command on a terminal. `steps`: (what is asked, the answer)."""
        session = self.on_terminal(*words)
        for question, answer in steps:
            session.read_until(question)
            session.sleep_until_it_reads()
            session.type(answer + "\n")
        code, shown = session.end()
        return code, shown.decode().replace("\r", "")


@pytest.fixture
def machine(tmp_path):
    return At(tmp_path, "one")


@pytest.fixture
def url(tmp_path):
    return f"file://{tmp_path}/bucket"


@pytest.mark.parametrize("empty", ["", "  ", "\n"])
@pytest.mark.parametrize("line", ["remote add {}", "remote add --new {}", "clone {} there", "import export"])
def test_an_empty_variable_is_an_error_and_makes_no_remote(machine, url, tmp_path, line, empty):
    plant(machine.root, {"export": b"casrewind export 2 sealed\n"})
    refused = machine(*line.format(url).split(), code=17, **{VARIABLE: empty})
    assert refused.err == f"casrewind: {VARIABLE} is empty; a CI gives no secrets to a fork: put the key into that variable, or unset it\n"
    assert not (tmp_path / "bucket" / "casrewind").exists() and not (tmp_path / "one" / "project" / "there").exists()


def test_an_empty_variable_for_hooks_is_silent_and_one_line_of_status(machine, url, tmp_path):
    plant(machine.home, {".config/casrewind/config.toml": b'[remote]\npush = "turns"\ninterval = "0s"\n'})
    plant(machine.root, {"f": b"1"})
    machine("save", code=0)
    machine("remote", "add", url, "--key-command", f"printenv {VARIABLE}", code=0, **{VARIABLE: KEY})
    plant(machine.root, {"f": b"2"})
    client = Client(machine, machine.root)
    client.send(client.payload("Stop.plain", session_id="s"), **{VARIABLE: ""})
    client.send(client.payload("SessionEnd.other", session_id="s"), **{VARIABLE: ""})
    wait(lambda: machine.json("status")["remote"]["problem"])
    (line,) = [line for line in machine("status", code=0).out.splitlines() if "failed" in line]
    assert f"the output of 'printenv {VARIABLE}' has no key of a remote" in line
    assert not [path for path in (tmp_path / "bucket").rglob("0*") if path.is_file()]


def test_without_a_terminal_a_key_or_new_makes_a_remote_and_nothing_else(machine, url, tmp_path):
    refused = machine("remote", "add", url, code=64)
    assert refused.err == (
        f"casrewind: there is no remote at {url} yet; --new makes one with a new key, --key-file FILE one with the key in FILE\n"
    )
    assert not (tmp_path / "bucket" / "casrewind").exists()
    assert machine("remote", "add", "--new", url, code=0).out.startswith(f"made the remote {url}; this machine is called ")
    other = At(tmp_path, "other")
    assert f"{url} is a remote already; leave --new out to join it" in other("remote", "add", "--new", url, code=64).err
    assert "--new goes with remote add" in other("remote", "verify", "--new", code=64).err


def test_who_joins_is_told_how_many_machines_there_are(tmp_path, url):
    for number in range(3):
        one = At(tmp_path, f"machine{number}")
        plant(one.root, {"f": b"%d" % number})
        one("save", code=0)
        said = one("remote", "add", url, code=0, **{VARIABLE: KEY}).out.splitlines()[0]
        how = {0: f"made the remote {url}", 1: f"joined the remote {url} (1 machine)", 2: f"joined the remote {url} (2 machines)"}[number]
        assert said.startswith(f"{how}; this machine is called ")
        one("push", code=0)
    found = json.loads(At(tmp_path, "last")("remote", "add", url, "--json", code=0, **{VARIABLE: KEY}).out)
    assert (found["new"], found["machines"], found["passphrase"]) == (False, 3, False)


def test_a_passphrase_is_asked_for_twice_and_opens_the_remote_elsewhere(machine, url, tmp_path):
    code, shown = machine.asked((b"new passphrase: ", LONG), (b"once more: ", LONG), words=["remote", "add", url])
    assert code == 0 and f"made the remote {url}" in shown
    assert "without it and the passphrase nobody can read what was pushed" in shown
    other = At(tmp_path, "other")
    assert other.asked((b"passphrase of the remote: ", LONG), words=["remote", "add", url])[0] == 0
    third = At(tmp_path, "third")
    code, shown = third.asked((b"passphrase of the remote: ", "wrong words, wrong words"), words=["remote", "add", url])
    assert code == 17 and "this passphrase opens no key of the remote" in shown
    assert f"{url} needs its key" in third("remote", "add", url, code=17).err


@pytest.mark.parametrize("words", [["remote", "add"], ["remote", "key", "--add"]])
def test_a_short_passphrase_is_not_taken(machine, url, tmp_path, words):
    if words[1] == "key":
        machine("remote", "add", "--new", url, code=0)
    else:
        words = [*words, url]
    code, shown = machine.asked((b"new passphrase: ", "x" * 11), words=words)
    assert code == 64 and "once more" not in shown
    assert "a passphrase has at least 12 characters: whoever can read the remote can try as many as they like nothing was changed" in " ".join(shown.split())
    assert not (tmp_path / "bucket" / "keys").exists()


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o604, 0o660])
def test_a_key_file_that_others_can_read_is_refused(machine, url, tmp_path, mode):
    key = tmp_path / "the key"
    key.write_text(KEY)
    key.chmod(mode)
    for line in (("remote", "add", url), ("clone", url, "there")):
        refused = machine(*line, "--key-file", str(key), code=17)
        assert f"others can read the key file {key} (mode {mode:o}); chmod 600 '{key}'; where that has no effect, give --key-command" in refused.err
    assert not (tmp_path / "bucket" / "casrewind").exists()
    key.chmod(0o600)
    machine("remote", "add", url, "--key-file", str(key), code=0)


def test_the_way_to_keep_the_key_that_remove_shows_works(machine, url, tmp_path):
    machine("remote", "add", "--new", url, code=0)
    session = machine.on_terminal("remote", "remove")
    session.read_until(b"Go on?")
    session.sleep_until_it_reads()
    session.type("n\n")
    code, shown = session.end()
    assert code == 0 and b"nothing was changed" in shown and b"this also deletes its key:" in b" ".join(shown.split())
    code, shown = machine.asked(words=["remote", "key", "--show"])
    key = tmp_path / "key"
    key.write_text(shown.splitlines()[0])
    key.chmod(0o600)
    machine("remote", "remove", "-y", code=0)
    machine("remote", "add", url, "--key-file", str(key), code=0)


def test_remove_says_where_a_key_is_that_is_not_kept(machine, url):
    command = f"echo {KEY}"
    machine("remote", "add", url, "--key-command", command, code=0)
    said = machine("remote", "remove", "-y", code=0).out
    assert f"  its key is not here: the command '{command}' prints it\n" in said and "key goes" not in said
