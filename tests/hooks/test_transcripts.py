"""The conversation's bytes in the store: whole at every checkpoint, and a turn costs about what it added."""

import os
from pathlib import Path

from casrewind.settings import Settings
from support.fake_client import Client
from support.stores import nth_newest
from casrewind.workspace import Workspace
from support.trees import plant


def test_a_long_conversation_is_stored_once_and_whole_at_every_checkpoint(casrewind, root):
    plant(root, {"f": b"1"})
    client = Client(casrewind, root)
    beginning = client.transcript.read_bytes()
    line = b'{"type":"assistant","uuid":"%d","message":{"role":"assistant","content":[{"type":"text","text":"%s"}]}}\n'
    client.send(client.payload("SessionStart.startup"))
    client.wait_for(1)
    states, sizes = [], []
    for turn in range(12):
        # what does not compress, so that sizes say what was stored
        client.transcript.write_bytes((states[-1] if states else beginning) + line % (turn, os.urandom(20_000).hex().encode()))
        states.append(client.transcript.read_bytes())
        client.send(client.payload("Stop.plain"))
        sizes.append(sum(path.stat().st_size for path in (Path(casrewind.json("status")["store"]) / "packs").iterdir()))
    added = [after - before for before, after in zip(sizes, sizes[1:], strict=False)]
    print(f"a transcript of {len(states[-1]):,} bytes, 40,000 more a turn: at most {max(added):,} bytes more in the store")
    assert max(added) < 64_000 + 10_000, "the last piece, and no more"
    home = casrewind.home
    with Workspace(str(root), Settings(home=home, data=os.path.join(home, "data")), create=False) as workspace:
        for number, state in enumerate(reversed(states), start=1):
            point = nth_newest(workspace, number)
            assert b"".join(workspace._context.store.content(point.transcript)) == state
    assert casrewind.json("verify")["ok"]
    casrewind("gc", "--max-count", "3", code=0)
    assert casrewind.json("verify")["ok"]
