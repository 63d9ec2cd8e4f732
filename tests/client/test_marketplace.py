"""The plugin in the real client: written as a marketplace, moved to another place, added and installed there, and at work."""

import shutil
import subprocess

import pytest

from support.claude_model import bash
from support.picture import differences, picture
from support.trees import plant

pytestmark = pytest.mark.xdist_group("client-marketplace")


def test_a_marketplace_folder_in_another_place_makes_checkpoints(start):
    client = start()
    plant(client.project, {"kept.txt": b"kept", "gone.txt": b"gone"})
    written, moved = client.project.parent / "written", client.project.parent / "team" / "agents tools"
    client.casrewind("install", "claude", "--plugin", str(written), code=0)
    moved.parent.mkdir()
    shutil.move(written, moved)
    program = client.install_command()

    def plugins(*words):
        done = subprocess.run([*client.command[:-2], "plugin", *words], env=client.environment, cwd=client.project, capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    assert "Validation passed" in plugins("validate", "--strict", str(moved))
    plugins("marketplace", "add", str(moved))
    plugins("install", "casrewind@casrewind")
    before = picture(client.project)
    client.model.script = {"clean up": [[bash("rm gone.txt; echo x > kept.txt")], ["Done."]]}
    client.say("please clean up")
    points = client.wait_for_more(0, 4)
    assert sorted(point["trigger"] for point in points) == ["prompt", "session_end", "session_start", "turn_end"]
    assert {point["agent"] for point in points} == {"claude"}
    client.casrewind("back", "1", "--yes", code=0)
    assert differences(picture(client.project), before) == {}
    found = client.casrewind("doctor", "claude", PATH=f"{program.parent}:{client.environment['PATH']}").out
    assert "plugin: balanced" in found and "casrewind.sh" not in found, found
