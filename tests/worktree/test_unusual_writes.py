"""Files that are written in ways in which no name of theirs is opened, or nothing is: the next save has them all the same."""

import ctypes
import os
import platform
import shutil
import struct
import subprocess
import sys

import pytest

from support.scanner import settle
from support.trees import plant

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the ways are Linux's")
TREE = {f"d{n}/e{m}/f{k}": b"%d" % (n * m * k) for n in range(6) for m in range(3) for k in range(3)}


@pytest.fixture
def saved(casrewind, root):
    """The command in a project whose files are all known by their stamps."""
    plant(root, {**TREE, ".gitignore": b"ignored/\n", "ignored/x": b"x"})
    os.link(root / "d0/e0/f0", root.parent / "before")
    os.link(root / "d1/e0/f0", root / "d2/e0/twin")
    os.link(root / "d3/e0/f0", root / "d4/e0/twin")
    settle()
    casrewind("save", code=0)
    return casrewind


def captured(casrewind, name):
    casrewind("save", code=0)
    return casrewind("cat", f"last:{name}", code=0).out


def unnamed(directory, name):
    """A file that has no name in `directory`, linked to `name`; a descriptor of it."""
    fd = os.open(directory, os.O_TMPFILE | os.O_RDWR, 0o644)
    os.write(fd, b"at first")
    os.link(f"/proc/self/fd/{fd}", name, src_dir_fd=fd, follow_symlinks=True)  # with a descriptor: only then does it follow
    return fd


def renamed(outside, name, *, move):
    """A file whose first name is gone, and whose second one is `name`; a descriptor opened by the first."""
    fd = os.open(outside, os.O_CREAT | os.O_RDWR, 0o644)
    os.write(fd, b"at first")
    if move:
        os.link(outside, f"{outside}-2")
        os.rename(f"{outside}-2", name)
    else:
        os.link(outside, name)
    os.unlink(outside)
    return fd


def test_what_is_written_by_a_name_that_is_gone_is_in_the_next_checkpoint(saved, root):
    outside = root.parent / "outside"
    outside.mkdir()
    held = {
        "d0/e0/f0": os.open(root.parent / "before", os.O_RDWR),
        "d1/e0/f0": os.open(root / "d2/e0/twin", os.O_RDWR),
        "d3/e0/f0": os.open(root / "d4/e0/twin", os.O_RDWR),
    }
    os.unlink(root.parent / "before")
    os.unlink(root / "d2/e0/twin")
    shutil.rmtree(root / "d4/e0")
    held |= {
        "d5/e0/outside": unnamed(outside, root / "d5/e0/outside"),
        "d5/e1/ignored": unnamed(root / "ignored", root / "d5/e1/ignored"),
        "d5/e2/linked": renamed(outside / "w", root / "d5/e2/linked", move=False),
        "d0/e1/moved": renamed(outside / "w", root / "d0/e1/moved", move=True),
    }
    settle()
    saved("save", code=0)
    for name, fd in held.items():
        os.pwrite(fd, b"written: " + name.encode(), 0)
    assert [name for name in held if captured(saved, name) != (root / name).read_text()] == [], "while they are open"
    for name, fd in held.items():
        os.pwrite(fd, b"again: " + name.encode(), 0)
        os.close(fd)
    assert [name for name in held if captured(saved, name) != (root / name).read_text()] == [], "closed"


def submit(fd, data):
    """Write with io_submit, as databases do."""
    numbers = {"x86_64": (206, 209, 208), "aarch64": (0, 2, 4)}.get(platform.machine())
    if numbers is None:
        pytest.skip("the system calls of this machine are not known here")
    libc = ctypes.CDLL(None, use_errno=True)
    setup, send, events = numbers
    context = ctypes.c_ulong(0)
    if libc.syscall(setup, 1, ctypes.byref(context)):
        pytest.skip("io_setup: " + os.strerror(ctypes.get_errno()))
    buffer = ctypes.create_string_buffer(data, len(data))
    block = ctypes.create_string_buffer(
        struct.pack("<QIiHhIQQqQII", 0, 0, 0, 1, 0, fd, ctypes.addressof(buffer), len(data), 0, 0, 0, 0), 64
    )
    pointer = (ctypes.c_void_p * 1)(ctypes.addressof(block))
    assert libc.syscall(send, context, ctypes.c_long(1), pointer) == 1, os.strerror(ctypes.get_errno())
    done = ctypes.create_string_buffer(32)
    assert libc.syscall(events, context, ctypes.c_long(1), ctypes.c_long(1), done, None) == 1
    assert struct.unpack_from("<QQqq", done.raw)[2] == len(data)


def test_an_asynchronous_write_to_an_open_file_is_in_the_next_checkpoint(saved, root):
    fd = os.open(root / "d0/e2/f0", os.O_RDWR)
    try:
        submit(fd, b"asynchronous")
        assert captured(saved, "d0/e2/f0") == "asynchronous"
    finally:
        os.close(fd)


@pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("losetup"), reason="needs root and losetup")
def test_a_write_through_a_loop_device_is_in_the_next_checkpoint(saved, root):
    image = root / "d0/e2/image"
    image.write_bytes(b"a" * 4096)
    made = subprocess.run(["losetup", "-f", "--show", str(image)], capture_output=True, text=True, check=False)
    if made.returncode:
        pytest.skip(made.stderr)
    device = made.stdout.strip()
    try:
        assert captured(saved, "d0/e2/image") == "a" * 4096
        with open(device, "r+b", buffering=0) as file:
            file.write(b"b" * 4096)
            os.fsync(file.fileno())
        assert captured(saved, "d0/e2/image") == "b" * 4096
    finally:
        subprocess.run(["losetup", "-d", device], check=True)
