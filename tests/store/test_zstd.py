"""Whatever library is here for zstd, the same stores are read, and the same frames refused.

.ci/run also runs tests of this directory without zstandard (tests/support/absent_packages.py).
"""

import json
import os
import struct
import subprocess
import sys

import pytest

from support import absent_packages
from support.trees import plant

WITHOUT = {"PYTHONPATH": absent_packages.search_path("zstandard")}
TREE = {"text": b"a line of text\n" * 5_000, "random": os.urandom(300_000), "empty": b"", "large": b"0123456789" * 700_000, "d/one": b"1"}
PROGRAM = """
import json, sys
from casrewind import errors
from casrewind.store import packs
def outcome(frame, most, length):
    try:
        return len(packs.decompress(bytes.fromhex(frame), most, length))
    except errors.BlobCorrupt as error:
        return str(error)
print(json.dumps([packs.zstd.__name__, [outcome(*given) for given in json.load(sys.stdin)]]))
"""


def frame(window_log, size, blocks, sized=True):
    """A frame by RFC 8878, with blocks of (bytes) as they are: no compressor has to agree."""
    head = b"\x28\xb5\x2f\xfd" + bytes([0x80 if sized else 0, (window_log - 10) << 3]) + (struct.pack("<I", size) if sized else b"")
    last = len(blocks) - 1
    return head + b"".join(struct.pack("<I", len(data) << 3 | (number == last))[:3] + data for number, data in enumerate(blocks))


def same_bytes(value, count):
    """A block of `count` equal bytes, which takes four."""
    return struct.pack("<I", count << 3 | 2 | 1)[:3] + value


PART = b"x" * 100_000
SOUND = frame(20, 100, [b"x" * 100])
FRAMES = {  # a frame, the most bytes, the bytes that it has to have: what comes of it
    "sound": ((SOUND, 100, None), 100),
    "sound, of several blocks": ((frame(20, 300_000, [PART] * 3), 1 << 20, 300_000), 300_000),
    "empty": ((frame(20, 0, [b""]), 100, 0), 0),
    "declares more than the limit": ((frame(20, 2**31, [PART]), 1 << 20, None), "declares 2,147,483,648 bytes"),
    "declares another length": ((SOUND, 1000, 99), "declares 100 bytes"),
    "declares no size": ((frame(20, 0, [PART], sized=False), 1 << 20, None), "declares no size"),
    "has more than it declares": ((frame(20, 100, [b"x" * 101]), 1000, None), "does not decompress"),
    "has less than it declares": ((frame(20, 100, [b"x" * 99]), 1000, None), "a compressed frame"),
    "expands beyond what it declares": ((b"\x28\xb5\x2f\xfd\x80\x50" + struct.pack("<I", 10) + same_bytes(b"x", 1 << 17), 1000, None), "a compressed frame"),
    "ends early": ((SOUND[:-1], 1000, None), "does not decompress"),
    "has bytes behind it": ((SOUND + b"x", 1000, None), "does not decompress"),
    "has a frame behind it": ((SOUND + SOUND, 1000, None), "does not decompress"),
    "is none": ((b"no frame of zstd", 1000, None), "does not decompress"),
    "is nothing": ((b"", 1000, None), "does not decompress"),
}


def outcomes(variables):
    given = json.dumps([(data.hex(), most, length) for (data, most, length), _ in FRAMES.values()])
    done = subprocess.run([sys.executable, "-c", PROGRAM], input=given, env={**os.environ, **variables}, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


@pytest.mark.parametrize("variables", [{}, WITHOUT], ids=["as installed", "without zstandard"])
def test_a_frame_is_refused_by_every_library_for_the_same_reasons(variables):
    library, found = outcomes(variables)
    assert ("zstandard" in library) == (variables == {} and "zstandard" in outcomes({})[0]), library
    for name, result in zip(FRAMES, found, strict=True):
        expected = FRAMES[name][1]
        assert result == expected if isinstance(expected, int) else expected in str(result), (name, result)


def test_a_window_of_gigabytes_takes_no_memory():
    """The declared window is 2 GiB, the content 300,000 bytes: read, or refused as damage, under a limit of memory."""
    resource = pytest.importorskip("resource")
    given = json.dumps([(frame(31, 300_000, [PART] * 3).hex(), 1 << 20, 300_000)])
    for variables in ({}, WITHOUT):
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM], input=given, env={**os.environ, **variables}, capture_output=True, text=True,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (700 << 20, 700 << 20)),
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout)[1][0] in (300_000, "a compressed frame does not decompress")


@pytest.mark.parametrize(("wrote", "reads"), [({}, WITHOUT), (WITHOUT, {})], ids=["with, then without", "without, then with"])
def test_a_store_is_read_whichever_library_wrote_it(casrewind, root, wrote, reads):
    plant(root, TREE)
    casrewind("save", "-m", "one", code=0, **wrote)
    plant(root, {"text": b"other\n", "d/one": b"2"})
    casrewind("save", "-m", "two", code=0, **reads)
    casrewind("verify", code=0, **reads)
    casrewind("restore", "one", "-y", code=0, **reads)
    assert {name: (root / name).read_bytes() for name in TREE} == TREE
    casrewind("gc", code=0, **wrote)
    casrewind("verify", code=0, **wrote)
    assert casrewind("cat", "two:text", code=0, **wrote).out == "other\n"
