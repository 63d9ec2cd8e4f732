"""cat REF:PATH: the bytes of one file as a checkpoint holds it, and nothing else on standard output."""

import collections.abc
import hashlib
import os
import random
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from casrewind import errors
from casrewind.store import registry
from support import forked_command
from support.command import Command
from support.command_in_process import InProcess
from support.picture import picture
from support.trees import Fifo, Link, plant

NOISE = random.Random(5).randbytes(3_500_000)
FILES = {
    "empty": b"",
    "no newline": b"abc",
    "crlf": b"a\r\nb\r\n",
    "every byte": bytes(range(256)) * 3,
    "zeros": bytes(5000),
    "large": NOISE,
    "large zeros": bytes(2_000_000),
    "d/e/deep": b"deep\n",
    "with:colon": b"colon",
    "a\nb": b"newline in the name",
    b"na\xffme": b"odd name",
    "-dash": b"dash",
    "last": b"a file called last",
}
LINKS = {"link": "d/e/deep", "dangling": "no/where\nelse", b"odd\xfelink": b"to \xff", "to-dir": "d"}


class Raw(Command):
    """The command, with its output as bytes."""

    def __call__(self, *arguments, code=None, cwd=None, **variables):
        words = [*(["-C", self.root] if cwd is None else []), *arguments]
        found, out, err = forked_command.call(words, {**self.environment, **variables}, cwd=cwd)
        assert code is None or found == code, (found, out, err)
        return out if code == 0 else err.decode()


@pytest.fixture
def raw(root, home):
    return Raw(root, home)


@pytest.fixture
def point(casrewind, root):
    """A checkpoint of everything odd; the worktree is another one since."""
    plant(root, {**FILES, **{name: Link(target) for name, target in LINKS.items()}, "pipe": Fifo(), "node_modules/m": b"m"})
    made = casrewind.json("save")["checkpoint"]
    for name in FILES:
        os.unlink(os.path.join(os.fsencode(root), os.fsencode(name)))
    plant(root, {"empty": b"not empty any more", "new": b"new"})
    return made


def reference(before, path):
    return os.fsencode(before) + b":" + os.fsencode(path)


@pytest.mark.parametrize("name", FILES, ids=repr)
def test_the_bytes_are_those_of_the_checkpoint(raw, point, name):
    assert raw("cat", reference("last", name), code=0) == FILES[name]


@pytest.mark.parametrize("name", LINKS, ids=repr)
def test_of_a_link_its_target_is_written_without_a_newline(raw, point, name):
    assert raw("cat", reference(point, name), code=0) == os.fsencode(LINKS[name])


def test_nothing_else_is_written_and_nothing_is_changed(casrewind, root, raw, point):
    store = casrewind.json("status")["store"]
    before = picture(root, mtimes=True, inodes=True), (Path(store) / "ledger").read_bytes(), os.listdir(Path(store) / "packs")
    done = raw("cat", f"{point}:large", code=0)
    assert done == NOISE
    assert before == (picture(root, mtimes=True, inodes=True), (Path(store) / "ledger").read_bytes(), os.listdir(Path(store) / "packs"))


@pytest.mark.parametrize("path", ["d", "d/e", "d/", "", ".", "./", "node_modules/..", "d/.."])
def test_a_directory_is_15_and_says_what_to_do(casrewind, point, path):
    found = casrewind("cat", f"last:{path}", code=15)
    assert "is a directory" in found.err and f"casrewind show {point}" in found.err and "--to DIR" in found.err
    assert found.out == ""


@pytest.mark.parametrize("path", ["nope", "new", "d/nope", "empty/below", "link/below", "to-dir/e", "nope/nope", "\x1b[31m"])
def test_a_path_that_is_not_in_it_is_15_and_says_how_to_look(casrewind, point, path):
    found = casrewind("cat", f"last:{path}", code=15)
    assert point in found.err and "casrewind show" in found.err and "not captured" not in found.err
    assert found.out == "" and "\x1b" not in found.err


def test_a_path_that_was_skipped_says_why(casrewind, point):
    assert "pipe was not captured (special file)" in casrewind("cat", "last:pipe", code=15).err
    for path in ("node_modules", "node_modules/m"):
        assert "node_modules was not captured (built-in exclude)" in casrewind("cat", f"last:{path}", code=15).err


def test_the_path_is_relative_to_where_one_is(casrewind, root, home, raw, point):
    assert InProcess(root / "d" / "e", home)("cat", "last:deep", code=0).out == "deep\n"
    assert InProcess(root / "d", home)("cat", "last:e/deep", code=0).out == "deep\n"
    assert InProcess(root / "d", home)("cat", "last:../no newline", code=0).out == "abc"
    assert raw("cat", "last:deep", code=0, cwd=root / "d" / "e") == b"deep\n"
    assert casrewind("cat", f"last:{root}/d/e/deep", code=0).out == "deep\n"
    assert "is a directory" in InProcess(root / "d", home)("cat", "last:", code=15).err
    InProcess(root / "d", home)("cat", "last:d/e/deep", code=15)


@pytest.mark.parametrize("path", ["../x", "/etc/passwd", "d/../../x", ".git/config", "d/.GIT/x"])
def test_a_path_outside_of_the_root_or_of_version_control_is_14(casrewind, point, path):
    assert casrewind("cat", f"last:{path}", code=14).out == ""


def test_without_a_path_or_a_reference(casrewind, point):
    assert "REF:PATH" in casrewind("cat", "last", code=64).err
    assert "REF:PATH" in casrewind("cat", "", code=64).err
    assert "no turn '7'" in casrewind("cat", "7:empty", code=15).err
    assert "'nope'" in casrewind("cat", "nope:empty", code=15).err
    assert "'nope'" in casrewind("cat", "nope:with:colon", code=15).err
    casrewind("cat", ":empty", code=15)
    casrewind("cat", "--", "last:empty", code=0)  # it only ends the options
    for arguments in ((), ("last:empty", "last:crlf")):
        casrewind("cat", *arguments, code=64)


def test_without_a_store_it_is_10(casrewind):
    assert "casrewind save" in casrewind("cat", "last:f", code=10).err


def test_the_first_colon_counts_that_has_a_reference_before_it(casrewind, root):
    plant(root, {"f": b"one", "b:f": b"one's b:f"})
    casrewind("save", "-m", "x:y", code=0)
    plant(root, {"f": b"two", "b:f": b"two's b:f", "y:f": b"two's y:f"})
    casrewind("save", "-m", "a", code=0)
    plant(root, {"f": b"three"})
    casrewind("save", "-m", "a:b", code=0)
    assert casrewind("cat", "x:y:f", code=0).out == "one"
    assert casrewind("cat", "x:y:b:f", code=0).out == "one's b:f"
    assert casrewind("cat", "a:f", code=0).out == "two"
    assert casrewind("cat", "a:b:f", code=0).out == "two's b:f"  # a comes first, although a:b is a label too
    casrewind("pin", "a", "elsewhere", code=0)
    assert casrewind("cat", "a:b:f", code=0).out == "three"
    assert casrewind("cat", "prev:y:f", code=0).out == "two's y:f"
    assert "'a'" in casrewind("cat", "a:c:f", code=15).err


def test_of_equal_labels_the_newest_is_meant_and_the_first_colon_counts(casrewind, root):
    made = []
    for n in range(2):
        plant(root, {"f": b"%d" % n})
        made.append(casrewind.json("save", "-m", "twice")["checkpoint"])
    assert casrewind("cat", "twice:f", code=0).out == "1"
    casrewind("cat", "twice:x:f", code=15)
    casrewind("pin", made[0], "twice:x", code=0)
    casrewind("pin", made[1], "y", code=0)
    assert casrewind("cat", "twice:x:f", code=0).out == "0"


def test_safety_checkpoints_have_files_too(casrewind, root, point):
    safety = casrewind.json("restore", "last", "--yes")["safety"]
    assert casrewind("cat", f"{safety}:empty", code=0).out == "not empty any more"


def test_a_damaged_blob_is_20_and_its_bytes_are_not_written(casrewind, root, raw):
    plant(root, {"small": random.Random(1).randbytes(5000), "large": NOISE})
    casrewind("save", code=0)
    (pack,) = (Path(casrewind.json("status")["store"]) / "packs").iterdir()
    sound = pack.read_bytes()
    content = bytearray(sound)
    content[sound.index(NOISE[-1000:-900])] ^= 1  # the noise is stored as it is
    pack.write_bytes(content)
    done = subprocess.run(
        [sys.executable, "-m", "casrewind", "-C", str(root), "cat", "last:large"], env=raw.environment, capture_output=True
    )
    assert done.returncode == 20 and b"casrewind verify" in done.stderr and b"Traceback" not in done.stderr
    assert 0 < len(done.stdout) < len(NOISE) and NOISE.startswith(done.stdout)
    pack.write_bytes(sound)
    assert raw("cat", "last:large", code=0) == NOISE


@pytest.mark.parametrize("name", ["large", "d/e/deep"])
def test_a_reader_that_has_seen_enough_is_no_error(raw, point, name):
    command = f"set -o pipefail; {shlex.quote(sys.executable)} -m casrewind -C {raw.root} cat last:{name} | head -c1"
    done = subprocess.run(["bash", "-c", command], env=raw.environment, capture_output=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, FILES[name][:1], b"")


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no /dev/full here")
@pytest.mark.parametrize("name", ["large", "d/e/deep"])
def test_no_space_for_the_output_is_13(raw, point, name):
    with open("/dev/full", "wb") as full:
        done = subprocess.run(
            [sys.executable, "-m", "casrewind", "-C", raw.root, "cat", f"last:{name}"], env=raw.environment, stdout=full,
            stderr=subprocess.PIPE,
        )  # fmt: skip
    assert done.returncode == 13 and b"no space left" in done.stderr


MEASURED = """
import sys
from casrewind.cli.main import main
code = main(sys.argv[1:])
with open("/proc/self/status") as file:
    peak = next(line for line in file if line.startswith("VmHWM:"))
sys.stderr.write(peak)
sys.exit(code)
"""


@pytest.mark.turns(3)
@pytest.mark.skipif(not os.path.exists("/proc/self/status"), reason="needs /proc")
def test_the_memory_for_a_large_file_is_bounded(root, casrewind, raw):
    megabytes = 150
    chance, digest = random.Random(3), hashlib.sha256()
    with open(root / "big", "wb") as file:
        for _ in range(megabytes):
            part = chance.randbytes(1 << 20)
            digest.update(part)
            file.write(part)
    raw("save", code=0)
    os.unlink(root / "big")
    child = subprocess.Popen(
        [sys.executable, "-c", MEASURED, "-C", str(root), "cat", "last:big"], env=raw.environment,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    got = hashlib.sha256()
    while part := child.stdout.read(1 << 20):
        got.update(part)
    said = child.stderr.read().decode()
    child.stdout.close()
    child.stderr.close()
    assert child.wait() == 0, said
    assert got.digest() == digest.digest()
    peak = int(said.split()[1]) // 1024
    print(f"cat of {megabytes} MB: at most {peak} MB in memory")
    assert peak < 100


def test_the_python_door_gives_pieces_and_refuses_at_once(workspace, root):
    plant(root, {"d/large": NOISE, "l": Link("d")})
    made = workspace.save().checkpoint
    pieces = workspace.cat(made, b"d/large")
    assert isinstance(pieces, collections.abc.Iterator)
    parts = list(pieces)
    assert b"".join(parts) == NOISE and len(parts) > 1
    assert b"".join(workspace.cat(made, b"l")) == b"d"
    for path in (b"", b"d", b"nope"):
        with pytest.raises(errors.PathNotFound):
            workspace.cat(made, path)


def test_pieces_that_nobody_takes_hold_up_nothing(workspace, root):
    """What keeps gc out while a file is read goes with the reader."""
    plant(root, {"large": NOISE})
    made = workspace.save().checkpoint
    pieces = workspace.cat(made, b"large")
    next(pieces)
    with pytest.raises(errors.StoreBusy), registry.hold_alone(workspace.store_path, 0.05):
        pass
    del pieces
    with registry.hold_alone(workspace.store_path, 0.05):
        pass
