"""`CASREWIND_TEST_AS=macos`: the package is on a Mac and nothing else is, in each process that the interpreter runs."""

import os
import subprocess
import sys

import pytest

from support import as_macos

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="it is Linux that stands in for a Mac")


@pytest.fixture(scope="module")
def python():
    return sys.executable if as_macos.is_on() else as_macos.make_interpreter()


def on_mac(python, code, cwd="/"):
    done = subprocess.run([python, "-I", "-c", code], env={}, cwd=cwd, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout.split("\n")[:-1]


def test_the_package_alone_is_on_a_mac_whatever_the_environment(python):
    code = (
        "import os, sys, casrewind.fsio as fsio, casrewind.environment as environment\n"
        "print(sys.platform, hasattr(os, 'O_PATH'), os.path.isdir('/proc/self'))\n"
        "print(fsio.sys.platform, hasattr(fsio.os, 'O_PATH'), hasattr(fsio.os, 'getxattr'))\n"
        "try: fsio.os.stat('/proc/self')\n"
        "except FileNotFoundError: print('no /proc')\n"
        "print(environment.data_directory())"
    )
    tests, package, absent, data = on_mac(python, code)
    assert (tests, package, absent) == ("linux True True", "darwin False False", "no /proc")
    assert data.endswith("/Library/Application Support/casrewind")


def test_the_package_renames_and_syncs_by_the_calls_of_macos(python, tmp_path):
    (tmp_path / "a").write_text("a")
    (tmp_path / "b").write_text("b")
    code = (
        "import errno, os, casrewind.fsio as fsio, casrewind.worktree.safe_rename as safe_rename\n"
        "fd = os.open('.', os.O_RDONLY)\n"
        "print(safe_rename.exchange_names(fd, b'a', b'b'))\n"
        "try: safe_rename.rename_without_replacing(fd, b'a', b'b')\n"
        "except FileExistsError: print('exists')\n"
        "fsio.sync_fd(fd), fsio.sync_tree(fd), print(fsio.fcntl.F_FULLFSYNC)\n"
    )
    assert on_mac(python, code, cwd=tmp_path) == ["True", "exists", "51"]
    assert ((tmp_path / "a").read_text(), (tmp_path / "b").read_text()) == ("b", "a")


def test_a_command_is_on_a_mac_in_each_way_in_which_tests_start_it(python, casrewind, root, home):
    """By a fork of a process, by a start, and as a hook starts it."""
    if not as_macos.is_on():
        pytest.skip("the session is not on a Mac")
    for command in (casrewind, type(casrewind)(root, home, LC_ALL="C.UTF-8")):
        assert "Application Support" in command("config", code=0).out
    script = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "casrewind", "__main__.py")
    done = subprocess.run([python, "-I", script, "-C", root, "config"], env=casrewind.environment, capture_output=True, text=True, check=True)
    assert "Application Support" in done.stdout
