"""docs/guides/cloud-sandbox.md is run: every command, each on its machine, against an S3 server."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from support.s3_server import S3Server
from support.trees import plant

PAGE = Path(__file__).resolve().parents[2] / "docs" / "guides" / "cloud-sandbox.md"
BLOCK = re.compile(r"^```sh\n# (at home|in the sandbox|on the laptop)([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@pytest.mark.turns(3)
def test_each_command_of_the_page_does_what_the_page_says(tmp_path):
    blocks = BLOCK.findall(PAGE.read_text("utf-8"))
    assert len(blocks) == PAGE.read_text("utf-8").count("```sh") - 2 == 5, "tests/client/test_guides.py runs the container's and the image's"
    program = tmp_path / "bin" / "casrewind"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m casrewind "$@"\n')
    program.chmod(0o755)
    project = tmp_path / "sandbox" / "shop"
    plant(project, {"app.py": b"one\n", "lib/x.py": b"x\n"})
    shown = []
    with S3Server() as server:
        url = server.bucket("shop")
        key = ""

        def run(machine, where, lines):
            nonlocal key
            home = tmp_path / machine.split()[-1]
            home.mkdir(exist_ok=True)
            place = {"the sandbox": project, "laptop": home / ("shop" if "in the project" in where else "")}.get(
                machine.removeprefix("in ").removeprefix("on the "), home
            )
            environment = {
                **server.variables, "HOME": str(home), "PATH": f"{program.parent}:{os.environ['PATH']}", "LC_ALL": "C.UTF-8",
                **({"CASREWIND_REMOTE_KEY": key} if key else {}),
            }  # fmt: skip
            # no terminal is here on which the restore asks
            typed = lines.replace("s3://team/shop", url).replace("restore sandbox-4:last", "restore sandbox-4:last --yes")
            done = subprocess.run(["sh", "-euc", typed], cwd=place, env=environment, capture_output=True, text=True, timeout=240)
            assert done.returncode == 0, (lines, done)
            shown.append(done.stdout)
            if not key:
                (found,) = home.rglob("remotes/*/key")
                key = found.read_text().strip()

        for number, (machine, where, lines) in enumerate(blocks):
            if number == 2:  # the agent has worked
                plant(project, {"app.py": b"two\n"})
                run("in the sandbox", "", "casrewind save\ncasrewind push")
            if number == 3:  # another push, then the sandbox goes away
                plant(project, {"app.py": b"three\n"})
                run("in the sandbox", "", "casrewind save\ncasrewind push")
                shutil.rmtree(tmp_path / "sandbox")
            run(machine, where, lines)
            if number == 2:
                assert (tmp_path / "laptop" / "shop" / "app.py").read_bytes() == b"two\n"
    assert (tmp_path / "laptop" / "shop" / "app.py").read_bytes() == b"three\n"
    assert not (tmp_path / "laptop" / "drill").exists()
    assert any("receipt: files 2 of 2 exact\n" in one for one in shown)
    assert "sound: 3 checkpoints" in shown[-1] and f"sound: 1 machine on {url} (each blob read, " in shown[-1]
    assert "  sandbox-4: 3 checkpoints, " in shown[-1]
