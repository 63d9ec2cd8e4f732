"""The shim does what the fault tests believe that it does."""

import os
import signal
import subprocess
import sys

CODE = """
import ctypes, os
os.mkdir("d"); fd = os.open("d/f", os.O_WRONLY | os.O_CREAT, 0o600); os.write(fd, b"0123456789"); os.fsync(fd)
os.utime(fd, ns=(5, 5)); os.fchmod(fd, 0o644); os.ftruncate(fd, 20); os.rename("d/f", "d/g")
here = os.open("d", os.O_RDONLY)
library = ctypes.CDLL(None, use_errno=True)
assert library.renameat2(here, b"g", here, b"h", 1) == 0 and library.syncfs(here) == 0
os.link("h", "i", src_dir_fd=here, dst_dir_fd=here); os.symlink("h", "l", dir_fd=here); os.unlink("l", dir_fd=here)
os.pwrite(fd, b"xx", 3); os.chmod("d/h", 0o600); os.sync(); os.makedirs("e/e"); os.rmdir("e/e")
for of in (fd, "d/h"):
    for change in (os.setxattr, os.removexattr):
        try: change(of, "user.note", *[b"x"] if change is os.setxattr else [])
        except OSError: pass  # no file system need have them
"""
CALLS = (
    "mkdir open write fsync futimens fchmod ftruncate64 rename renameat2 syncfs linkat symlinkat unlinkat pwrite chmod "
    "sync mkdir mkdir rmdir fsetxattr fremovexattr setxattr removexattr"
).split()


def run(shim, directory, code=CODE, **variables):
    os.makedirs(directory, exist_ok=True)
    return subprocess.run(
        [sys.executable, "-I", "-c", code], cwd=directory, capture_output=True, text=True, env={"LD_PRELOAD": shim, **variables}
    )


def test_every_changing_call_is_counted_and_nothing_else(shim, tmp_path):
    log = tmp_path / "log"
    assert run(shim, tmp_path / "w", SHIM_LOG=str(log)).returncode == 0
    lines = [line.split() for line in log.read_text().splitlines()]
    assert [line[1] for line in lines] == CALLS
    assert [int(line[0]) for line in lines] == list(range(1, len(CALLS) + 1))


def test_kill_comes_before_the_call(shim, tmp_path):
    for at in range(1, len(CALLS) + 1):
        place = tmp_path / str(at)
        assert run(shim, place, SHIM_AT=str(at), SHIM_ACT="kill").returncode == -signal.SIGKILL
        assert (place / "d").is_dir() == (at > 1)
        assert (place / "d/f").exists() == (2 < at <= 8)
    assert run(shim, tmp_path / "all", SHIM_AT=str(len(CALLS) + 1), SHIM_ACT="kill").returncode == 0


def test_failing_once_and_from_then_on(shim, tmp_path):
    code = "import os\nfor name in 'abc':\n try: os.mkdir(name)\n except OSError as error: print(name, error.errno)"
    assert run(shim, tmp_path / "1", code, SHIM_AT="2", SHIM_ACT="fail", SHIM_ERRNO="28").stdout == "b 28\n"
    done = run(shim, tmp_path / "2", code, SHIM_AT="2", SHIM_ACT="fail", SHIM_ERRNO="5", SHIM_FOREVER="1")
    assert done.stdout == "b 5\nc 5\n"


def test_half_a_write_and_a_torn_one(shim, tmp_path):
    code = "import os; fd = os.open('f', os.O_WRONLY | os.O_CREAT); print(os.write(fd, b'0123456789'))"
    assert run(shim, tmp_path / "half", code, SHIM_AT="2", SHIM_ACT="half").stdout == "5\n"
    assert run(shim, tmp_path / "torn", code, SHIM_AT="2", SHIM_ACT="tear").returncode == -signal.SIGKILL
    assert (tmp_path / "half/f").read_bytes() == (tmp_path / "torn/f").read_bytes() == b"01234"


def test_whole_seconds_in_every_stat(shim, tmp_path):
    code = """
import os
os.mkdir("d"); open("d/f", "w").close(); os.symlink("f", "d/l")
os.utime("d/f", ns=(10**18 + 7, 10**18 + 7))
here = os.open("d", os.O_RDONLY)
found = [os.stat("d/f"), os.lstat("d/l"), os.stat("f", dir_fd=here), os.stat("l", dir_fd=here, follow_symlinks=False)]
found += [os.fstat(os.open("d/f", os.O_RDONLY)), os.fstat(here)]
found += [entry.stat(follow_symlinks=False) for entry in os.scandir(here)]
print(sum(s.st_mtime_ns % 10**9 != 0 or s.st_ctime_ns % 10**9 != 0 for s in found), len(found), os.stat("d/f").st_mtime_ns)
"""
    assert run(shim, tmp_path / "1", code, SHIM_SECONDS="1").stdout == f"0 8 {10**18}\n"
    assert run(shim, tmp_path / "2", code).stdout != run(shim, tmp_path / "3", code, SHIM_SECONDS="1").stdout
