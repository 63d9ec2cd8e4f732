"""A stopped process holds a lock of the store: a hook is late by its budget and no more, and says nothing but in the log."""

import os
import signal
import time

import pytest

from casrewind.workspace import Workspace
from support.client import Client
from support.stores import Holder
from support.trees import plant

BUDGETS = {"SessionEnd.other": 1.0, "UserPromptSubmit.prompt": 5.0}
SPARE = 3.0  # for a loaded machine: what is measured is printed


@pytest.mark.parametrize("lock", ["gate", "store", "publish", "index", "gc", "restore", "turn"])
def test_a_hook_behind_a_stopped_holder_comes_back_by_its_budget(casrewind, root, settings, lock):
    plant(root, {"f": b"first"})
    client = Client(casrewind, root)
    client.send(client.payload("SessionStart.startup"))
    client.wait_for(1)
    store = casrewind.json("status")["store"]
    with Workspace(str(root), settings, create=False) as workspace:
        key = workspace._site.root.key.hex()
    name = f"{lock}-{key}" if lock in ("restore", "turn") else lock
    waits = lock not in ("gc", "restore", "turn")
    took = {}
    budgets = BUDGETS if lock == "gate" else {"SessionEnd.other": 1.0}
    casrewind("list", code=0)
    with Holder(os.path.join(store, "locks", name), stopped=True) as holder:
        for number, (event, budget) in enumerate(budgets.items()):
            plant(root, {"f": b"%s %d" % (lock.encode(), number)})
            began = time.monotonic()
            client.send(client.payload(event))  # asserts: exit 0, nothing printed
            took[event] = time.monotonic() - began
            assert took[event] < budget + SPARE, (lock, event, took)
        if lock == "gate":
            refused = casrewind("save", code=11)
            assert "gate lock" in refused.err
        holder.process.send_signal(signal.SIGCONT)
    with open(os.path.join(store, "log"), "ab+") as file:
        file.seek(0)
        told = [line for line in file.read().splitlines() if b"StoreBusy" in line]
    assert len(told) == (len(budgets) if waits else 0), told
    print(f"{lock}: " + ", ".join(f"{event} with {BUDGETS[event]:g} s back after {seconds:.1f} s" for event, seconds in took.items()))
    casrewind("save", code=0)
    client.send(client.payload("Stop.plain"))
    casrewind("verify", code=0)
