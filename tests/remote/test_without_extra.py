"""What needs no remote works where its libraries are not installed."""

import os
import subprocess
import sys

import pytest

from support.terminal import Session
from support.trees import plant

CODE = """
import sys
for name in ("obstore", "cryptography"):
    sys.modules[name] = None
from casrewind.cli.main import main
sys.exit(main(sys.argv[1:]))
"""
"""What None stands for in the table of modules cannot be imported, as if it were not installed."""


@pytest.mark.parametrize("line", ["--help", "help --all", "save", "list", "status", "restore last --yes", "gc", "doctor"])
def test_a_command_that_needs_no_remote(casrewind, root, line):
    plant(root, {"f": b"1"})
    casrewind("save", code=0)
    done = subprocess.run(
        [sys.executable, "-c", CODE, "-C", str(root), *line.split()], env=casrewind.environment, capture_output=True, text=True, timeout=120
    )
    assert "Traceback" not in done.stderr and done.returncode in (0, 1), done.stderr


@pytest.mark.parametrize("line", ["remote add file:///{}/bucket", "clone file:///{}/bucket there"])
def test_what_is_missing_is_said_before_anything_is_asked_for(casrewind, root, tmp_path, line):
    session = Session([sys.executable, "-c", CODE, "-C", str(root), *line.format(tmp_path).split()], casrewind.environment)
    code, shown = session.end()
    assert (code, shown) == (17, b"casrewind: remote commands need casrewind[remote]\r\n  uv tool install 'casrewind[remote]'\r\n")
    assert not (tmp_path / "bucket").exists()


def test_without_the_libraries_a_remote_says_what_to_install():
    code = 'import sys; sys.modules["obstore"] = None\nfrom casrewind.remote.objects import Objects\nObjects("s3://team/shop")'
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd="/", env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)})
    assert done.stderr.splitlines()[-1].endswith("RemoteError: remote commands need casrewind[remote]; uv tool install 'casrewind[remote]'")


def test_status_and_doctor_say_once_that_nothing_can_be_pushed_and_a_hook_says_nothing(casrewind, root, tmp_path):
    plant(root, {"f": b"1"})
    casrewind("save", code=0)
    casrewind("remote", "add", "--new", f"file://{tmp_path}/bucket", code=0)

    def said(*words):
        line = [sys.executable, "-c", CODE, "-C", str(root), *words]
        done = subprocess.run(line, env=casrewind.environment, capture_output=True, text=True, timeout=120)
        assert "Traceback" not in done.stderr and done.stderr == "", done.stderr
        return done.stdout

    assert said("push", "--auto") == ""
    for command in ("status", "doctor"):
        why = "  ! nothing can be pushed: remote commands need casrewind[remote]: uv tool install 'casrewind[remote]'\n"
        assert said(command).count(why) == said(command).count("casrewind[remote]: ") == 1
    assert "1 checkpoint not pushed" in said("status") and "failed" not in said("status")
