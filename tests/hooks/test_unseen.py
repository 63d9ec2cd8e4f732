"""Changes of which the kernel tells nobody who watches the file's directory: the helper finds them all the same, or documents how
late it does."""

import ctypes
import os
import platform
import shutil
import signal
import struct
import subprocess
import sys
import time

import pytest

from support.fake_client import Client
from support.helper_processes import Helper
from support.scanner import settle
from support.trees import plant

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the helper is for Linux only")
TREE = {f"d{n}/e{m}/f{k}": b"%d" % (n * m * k) for n in range(12) for m in range(3) for k in range(3)}
PATIENCE = 120


@pytest.fixture
def client(casrewind, root):
    plant(root, {**TREE, ".gitignore": b"ignored/\n", "ignored/x": b"x"})
    os.link(root / "d0/e0/f0", root.parent / "before")  # in front of the helper, and unlinked behind it
    os.link(root / "d1/e0/f0", root / "d2/e0/twin")
    os.link(root / "d3/e0/f0", root / "d4/e0/twin")
    settle()
    casrewind("save", code=0)
    found = Client(casrewind, root)
    found.helper = Helper(found)
    assert "watching" in found.helper.said and "not its files" not in found.helper.said
    yield found
    found.helper.end(signal.SIGKILL)


def hook(client, number):
    """An edit elsewhere, and a hook."""
    plant(client.root, {f"d{6 + number % 6}/e2/f2": os.urandom(9)})
    client.send(client.payload("Stop.plain", prompt_id=f"turn {number}"))


def forget(client, *places):
    """So much is edited elsewhere that the helper's page of what it knows is made anew: it looks into these directories no more."""
    for number in range(3):
        plant(client.root, {f"{place}/f2": os.urandom(9) for place in {name.rpartition("/")[0] for name in TREE} - set(places)})
        client.send(client.payload("Stop.plain", prompt_id=f"all but {number}"))
    for number in range(2):
        hook(client, number)


def captured(client, name):
    return client.casrewind("cat", f"last:{name}", code=0).out


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


def test_what_is_written_by_a_name_that_is_gone_is_in_the_next_checkpoint(client, root):
    outside = root.parent / "outside"
    outside.mkdir()
    held = {
        "d0/e0/f0": os.open(root.parent / "before", os.O_RDWR),
        "d1/e0/f0": os.open(root / "d2/e0/twin", os.O_RDWR),
        "d3/e0/f0": os.open(root / "d4/e0/twin", os.O_RDWR),
    }
    for number in range(2):
        hook(client, number)
    os.unlink(root.parent / "before")
    os.unlink(root / "d2/e0/twin")
    shutil.rmtree(root / "d4/e0")
    held |= {
        "d5/e0/outside": unnamed(outside, root / "d5/e0/outside"),
        "d5/e1/ignored": unnamed(root / "ignored", root / "d5/e1/ignored"),
        "d5/e2/linked": renamed(outside / "w", root / "d5/e2/linked", move=False),
        "d0/e1/moved": renamed(outside / "w", root / "d0/e1/moved", move=True),
    }
    forget(client, *(name.rpartition("/")[0] for name in held))
    for name, fd in held.items():
        os.pwrite(fd, b"written: " + name.encode(), 0)
    hook(client, 4)
    wrong = [name for name in held if captured(client, name) != (root / name).read_text()]
    assert wrong == [], "while they are open"
    for name, fd in held.items():
        os.pwrite(fd, b"again: " + name.encode(), 0)
        os.close(fd)
    hook(client, 5)
    assert [name for name in held if captured(client, name) != (root / name).read_text()] == [], "closed"
    assert client.casrewind("verify").code == 0


def in_time(client, name, wanted):
    """Hooks until a checkpoint has what is wanted; whether a save by hand had to be asked for."""
    end, number = time.monotonic() + PATIENCE, 0
    while captured(client, name) != wanted:
        assert time.monotonic() < end, "nobody ever looked"
        hook(client, number)
        number += 1
        time.sleep(0.4)


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


def test_an_asynchronous_write_to_an_open_file_is_found_by_a_save_and_by_a_later_hook(client, root):
    fd = os.open(root / "d0/e2/f0", os.O_RDWR)
    try:
        forget(client, "d0/e2")
        submit(fd, b"asynchronous")
        client.casrewind("save", code=0)
        assert captured(client, "d0/e2/f0") == "asynchronous"
        forget(client, "d0/e2")
        submit(fd, b"ASYNCHRONOUS")
        in_time(client, "d0/e2/f0", "ASYNCHRONOUS")
    finally:
        os.close(fd)


@pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("losetup"), reason="needs root and losetup")
def test_a_write_through_a_loop_device_is_found_by_a_save_and_by_a_later_hook(client, root):
    image = root / "d0/e2/image"
    image.write_bytes(b"a" * 4096)
    made = subprocess.run(["losetup", "-f", "--show", str(image)], capture_output=True, text=True, check=False)
    if made.returncode:
        pytest.skip(made.stderr)
    device = made.stdout.strip()

    def write(data):
        with open(device, "r+b", buffering=0) as file:
            file.write(data * 4096)
            os.fsync(file.fileno())

    try:
        forget(client, "d0/e2")
        write(b"b")
        client.casrewind("save", code=0)
        assert captured(client, "d0/e2/image") == "b" * 4096
        forget(client, "d0/e2")
        write(b"c")
        in_time(client, "d0/e2/image", "c" * 4096)
    finally:
        subprocess.run(["losetup", "-d", device], check=True)
