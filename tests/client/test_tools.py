"""Claude Code with the aggressive tier: what a tool makes and the next tool of the same turn removes is not lost."""

import pytest

from support import real_clients
from support.claude_model import bash, call
from support.trees import plant

pytestmark = [pytest.mark.xdist_group("client-tools"), *real_clients.at_times("tools")]


def test_what_one_tool_made_and_the_next_removed_in_the_same_turn_comes_back(start):
    client = start()
    plant(client.project, {"kept.txt": b"kept"})
    client.casrewind("install", "claude", "--tier", "aggressive", code=0)
    client.casrewind("save", code=0)
    precious = client.project / "precious.txt"
    client.model.script = {
        "make and lose": [
            [call("Write", file_path=str(client.project / "first.txt"), content="first\n")],
            [call("Write", file_path=str(precious), content="precious\n")],
            [bash("sleep 2; rm precious.txt")],
            ["Done."],
        ]
    }
    client.say("make and lose")
    points = client.wait_for_more(1, 1, trigger="session_end")
    assert not precious.exists()
    before_rm = [point for point in points if point["trigger"] == "tool_batch"][-1]
    assert [row["checkpoint"]["id"] for row in client.casrewind.json("log", "precious.txt")["changes"]][-1] == before_rm["id"]
    client.casrewind("restore", before_rm["id"], "--yes", "--", "precious.txt", code=0)
    assert precious.read_text() == "precious\n"
    assert before_rm["changes"] == {"added": 1, "modified": 0, "removed": 0}
