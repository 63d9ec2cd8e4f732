"""Every command that uses a remote, with every kind of key from every place: under a key that is not the remote's nothing is sent and nothing is emptied."""

import os
import shutil
import sys
import time
from itertools import product
from pathlib import Path

import pytest

from casrewind.remote import remote_config
from support.claude_client import wait
from support.command_in_process import InProcess
from support.sample_start import crossed
from support.terminal import Session
from support.terminal_in_process import on_terminal
from support.trees import plant

pytestmark = pytest.mark.turns(2)
VARIABLE = "CASREWIND_REMOTE_KEY"
OWN, WRONG, OTHERS = (remote_config.key_as_text(letter * 32) for letter in (b"k", b"w", b"o"))
KEYS = {"right": OWN, "wrong": WRONG, "empty": "", "misspelt": OWN[:-1], "another remote's": OTHERS}
SECRET = b"hunter2 " * 40
OLD = 100 * 86_400
WAYS = ["on a terminal", "without a terminal"]

NEED_KEY = [
    "push -n", "pull --newest", "pull", "remote verify", "remote verify --all", "remote gc -n", "remote gc -y", "remote gc --forgotten -y",
    "export last", "push --wait 60s", "push",
]  # fmt: skip
"""In an order in which each has something to do with the right key."""
NEED_NONE = [
    "remote", "remote list", "remote key", "list --remote", "status", "statusline", "restore two:last -y", "push --auto", "push --background",
]  # fmt: skip


class At(InProcess):
    def __init__(self, place):
        self.place = place
        for path in (place / "project", place / "home"):
            path.mkdir(parents=True, exist_ok=True)
        super().__init__(place / "project", place / "home")

    def key_file(self, text, name="key"):
        path = self.place / name
        path.write_text(text + "\n")
        path.chmod(0o600)
        return str(path)

    def work(self, text, label="work"):
        plant(self.root, {"f": text})
        self("save", "-m", label, code=0)

    def does(self, line, way, **variables):
        """A command line as a person types it, on a terminal or without one. What starts processes is one of its own."""
        words = line.split()
        if way == "on a terminal" and "export" not in words:
            return on_terminal(self, words, NO_COLOR="1", **variables)
        return self(*words, **({"stdin": -3} if words[0] in ("push", "export") else {}), **variables)


class Stage:
    """A remote with two machines and an old chain, and another remote. Machine `one` has something to push, to pull, to empty after a
    purge, and to remove."""

    def __init__(self, place, source):
        self.place, self.source = place, source
        self.buckets = {name: place / name for name in ("bucket", "other bucket")}
        self.url, self.other_url = (f"file://{path}" for path in self.buckets.values())
        self.one, self.two, self.reader = (At(place / name) for name in ("one", "two", "reader"))

    def build(self):
        one, two = self.one, self.two
        old = At(self.place / "old")
        old.work(b"old")
        old("remote", "add", self.url, "--machine", "old", code=0, **{VARIABLE: OWN})
        old("push", code=0)
        for path in self.buckets["bucket"].rglob("0*"):
            os.utime(path, (time.time() - OLD,) * 2)
        plant(one.home, {".config/casrewind/config.toml": b'[remote]\nkeep = "90d"\ninterval = "0s"\n'})
        plant(one.root, {"secret": SECRET})
        one.work(b"1")
        given = ["--key-file", one.key_file(OWN)] if self.source == "file" else ["--key-command", f"cat '{one.key_file(OWN)}'"]
        one("remote", "add", self.url, "--machine", "one", *given, code=0)
        one("push", code=0)
        two.work(b"two")
        two("remote", "add", self.url, "--machine", "two", code=0, **{VARIABLE: OWN})
        two("push", code=0)
        one("pull", code=0)
        two.work(b"news of two", "news")
        two("push", code=0)
        one("purge", "secret", "-y")
        one.work(b"2")
        At(self.place / "stranger")("remote", "add", self.other_url, code=0, **{VARIABLE: OTHERS})
        return self

    def objects(self):
        """{name: bytes} of all that is on both remotes."""
        return {path: path.read_bytes() for bucket in self.buckets.values() for path in bucket.rglob("*") if path.is_file()}

    def give(self, text):
        """Let machine `one` have this text for a key from now on."""
        place = self.one.place / "key"
        if self.source == "file":
            (place,) = Path(self.one.home).rglob("remotes/*/key")
        place.write_text(text + "\n")

    def has_ended(self):
        wait(lambda: not any(f"-C\0{self.one.root}\0push\0--auto" in line for line in command_lines()))


def command_lines():
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            yield path.read_text(errors="replace")
        except OSError:
            pass


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """stage(source): a stage as it was built, at the place of the one before."""
    place = tmp_path_factory.mktemp("m")
    stages = {}

    def stage(source):
        live, kept = place / source, place / f"kept {source}"
        if source not in stages:
            stages[source] = Stage(live, source).build()
            shutil.copytree(live, kept, symlinks=True)
        else:
            shutil.rmtree(live)
            shutil.copytree(kept, live, symlinks=True)
        return stages[source]

    return stage


@pytest.mark.parametrize(("key", "source_and_way"), crossed(KEYS, list(product(["file", "command"], WAYS))))
def test_a_command_with_the_key_that_its_store_has(built, key, source_and_way):
    """The key in the store, or what the command prints, is right or not."""
    source, way = source_and_way
    stage = built(source)
    if source == "command" and key == "empty":
        stage.give("")
    else:
        stage.give(KEYS[key])
    before = stage.objects()
    shown = ["remote key --show"] if way == "on a terminal" else []
    asked = ["remote key --add"] if way == "on a terminal" and key != "right" else []
    need_key = [*NEED_KEY, *shown, *asked]
    for line in [*NEED_NONE, *need_key] if key != "right" else [*need_key, *NEED_NONE]:
        found = stage.one.does(line, way)
        if line in ("push --background", "push --wait 60s"):
            stage.has_ended()
        if key == "right":
            assert found.code in (0, 3), (line, found)
            continue
        assert stage.objects() == before, line
        fails = (0, 17) if line == "push --background" else (17 if line in need_key else 0,)  # it may see how the process ended
        assert found.code in fails, (line, found)
        assert OWN not in found.out, (line, found)
        if line in need_key:
            assert ("this is not the key of" if key in ("wrong", "another remote's") else "has no key of a remote") in " ".join((found.out + found.err).split()), (line, found)
    if key == "right":
        assert stage.objects() != before
        assert_whole(stage)
    else:
        stage.give(OWN)
        assert stage.one("push").code in (0, 3)
        assert stage.objects() != before, "there was something to push and to empty"
        assert_whole(stage)
    before = stage.objects()
    stage.give(KEYS[key])
    stage.one("remote", "remove", "-y", code=0)
    assert stage.objects() == before and not list(Path(stage.one.home).rglob("remotes/*/*"))


def assert_whole(stage):
    """Who has the remote's key reads each blob of each machine, and no object has the purged text in clear."""
    reader = stage.reader
    reader("remote", "add", stage.url, code=0, **{VARIABLE: OWN})
    found = reader.json("remote", "verify", "--all")
    assert found["ok"] and found["strangers"] == [], found
    copy = reader.json("clone", stage.url, str(stage.place / "copy"), "one", **{VARIABLE: OWN})
    assert copy["problems"] == [] and (stage.place / "copy" / "f").read_bytes() in (b"2", b"news of two")


@pytest.mark.parametrize(("key", "way"), crossed(KEYS, WAYS))
def test_a_variable_changes_nothing_that_a_store_with_a_remote_does(built, key, way):
    """The store has its key; the shell has something in the variable."""
    stage = built("file")
    before = stage.objects()
    for line in [*NEED_KEY, *NEED_NONE]:
        found = stage.one.does(line, way, **{VARIABLE: KEYS[key]})
        stage.has_ended()
        assert found.code in (0, 3), (line, found)
    assert stage.objects() != before
    assert_whole(stage)


def arguments_of(machine, source, key):
    """(options, variables) that give a key to a command."""
    if source == "variable":
        return [], {VARIABLE: KEYS[key]}
    if source == "file":
        return ["--key-file", machine.key_file(KEYS[key], "given")], {}
    return ["--key-command", f"cat '{machine.key_file(KEYS[key], 'given')}'"], {}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("key", KEYS)
@pytest.mark.parametrize("source", ["variable", "file", "command"])
def test_a_key_that_is_given_for_a_remote_that_is_there(built, source, key, way):
    """remote add and clone."""
    stage = built("file")
    new = At(stage.place / "new")
    before = stage.objects()
    given, variables = arguments_of(new, source, key)
    for words in (["clone", stage.url, "copy"], ["remote", "add", stage.url]):
        found = new(*words, *given, **variables) if way != "on a terminal" else on_terminal(new, [*words, *given], NO_COLOR="1", **variables)
        assert found.code == (0 if key == "right" else 17), (words, found)
        assert key == "right" or stage.objects() == before, words
    assert (Path(new.root) / "copy").exists() == (key == "right")
    assert (new.json("remote")["url"] == stage.url) == (key == "right")
    assert bool(list(Path(new.home).rglob("remotes/*/head"))) == (key == "right")


@pytest.mark.parametrize(("key", "source"), crossed(KEYS, ["variable", "file"]))
def test_a_key_that_is_given_for_a_stream(built, source, key):
    """import and export. An export takes no key from a variable."""
    stage = built("file")
    stream, before = stage.place / "stream", stage.objects()
    stream.write_bytes(exported(stage.two))
    new = At(stage.place / "new")
    given, variables = arguments_of(new, source, key)
    found = new("import", *given, str(stream), **variables)
    assert found.code == (0 if key == "right" else 17), found
    assert ("news" in new("list", "--remote", "--all").out) == (key == "right")
    given, variables = arguments_of(stage.two, source, key)
    written = exported(stage.two, *given, **variables)
    if written:
        stream.write_bytes(written)
        opens = OWN if source == "variable" else KEYS[key]
        assert At(stage.place / "last")("import", str(stream), code=0, **{VARIABLE: opens})
    else:
        assert source == "file" and key in ("empty", "misspelt")
    assert stage.objects() == before


def exported(machine, *words, **variables):
    import subprocess

    line = [sys.executable, "-m", "casrewind", "-C", machine.root, "export", *words]
    return subprocess.run(line, env={**machine.environment, **variables}, capture_output=True, check=False).stdout


PASSPHRASES = {"right": "one two three four", "wrong": "five six seven eight", "empty": "", "misspelt": "one two three fuor", "another remote's": "a b c d e f g h i"}


@pytest.mark.parametrize(("key", "words"), crossed(PASSPHRASES, [["remote", "add"], ["clone"]]))
def test_a_passphrase_on_a_terminal(built, words, key):
    stage = built("file")
    for machine, phrase in ((stage.two, "right"), (At(stage.place / "stranger"), "another remote's")):
        answer(machine, ["remote", "key", "--add"], (b"new passphrase: ", PASSPHRASES[phrase]), (b"once more: ", PASSPHRASES[phrase]), code=0)
    before = stage.objects()
    new = At(stage.place / "new")
    line = [*words, stage.url, *(["copy"] if words == ["clone"] else [])]
    answer(new, line, (b"passphrase of the remote: ", PASSPHRASES[key]), code=0 if key == "right" else 17)
    assert key == "right" or stage.objects() == before
    assert bool(list(Path(new.home).rglob("remotes/*/head"))) == (key == "right")


def answer(machine, words, *steps, code):
    session = Session([sys.executable, "-m", "casrewind", "-C", machine.root, *words], {**machine.environment, "NO_COLOR": "1"})
    for question, text in steps:
        session.read_until(question)
        session.sleep_until_it_reads()
        session.type(text + "\n")
    found = session.end()
    assert found[0] == code, found


@pytest.mark.parametrize(("key", "source"), crossed(["wrong", "empty", "misspelt", "another remote's"], ["file", "command"]))
def test_a_server_that_counts_is_asked_nothing(tmp_path, s3, source, key):
    one, url = At(tmp_path / "one"), s3.bucket()
    one.environment |= s3.variables
    plant(one.home, {".config/casrewind/config.toml": b'[remote]\ninterval = "0s"\n'})
    one.work(b"1")
    given = ["--key-file", one.key_file(OWN)] if source == "file" else ["--key-command", f"cat '{one.key_file(OWN)}'"]
    one("remote", "add", url, *given, code=0)
    one("push", code=0)
    one.work(b"2")
    (key_file,) = Path(one.home).rglob("remotes/*/key") if source == "file" else [one.place / "key"]
    key_file.write_text(KEYS[key])
    s3.reset()
    for line in (*NEED_KEY, "push --auto", "remote key --add"):
        assert one.does(line, "without a terminal").code in (0, 17, 64), line
    assert s3.counts().requests == {}
    key_file.write_text(OWN)
    one("push", code=0)
    assert s3.counts().requests["PUT"] == 1
