"""Claude Code in an open session while casrewind is moved away, broken and brought back: prompts go through, nothing is shown."""

import os
from types import SimpleNamespace

import pytest

from support import real_clients
from support.installed import Installed
from support.trees import plant

pytestmark = [pytest.mark.xdist_group("client-gone"), *real_clients.at_times("gone")]


@pytest.fixture(scope="module")
def told(start, tmp_path_factory):
    client = start()
    client.environment["CASREWIND_SESSION_LINE"] = "no"  # nothing of casrewind's may be on the screen
    plant(client.project, {"kept.txt": b"kept"})
    casrewind = Installed(tmp_path_factory.mktemp("i"), client.project, client.home)
    casrewind.run("install", "claude")
    found = SimpleNamespace(client=client, points={}, screens={}, requests={})
    terminal = client.terminal()
    number = 0

    def turn(name):
        """A prompt without casrewind, to the end of the model's answer."""
        nonlocal number
        number += 1
        before = len(client.model.requests)
        client.model.script[f"turn {number}"] = [[f"Answer {number}."]]
        terminal.type(f"do turn {number}")
        terminal.wait_for(f"Answer {number}.")
        terminal.wait_until_idle()
        found.screens[name] = terminal.screen()
        found.requests[name] = len(client.model.requests) - before
        found.points[name] = client.points()

    away, hook = f"{casrewind.package}.away", casrewind.package / "hook" / "handler.py"
    terminal.say("hello")
    found.points["before"] = client.points()
    os.rename(casrewind.package, away)
    turn("package")
    os.rename(away, casrewind.package)
    os.rename(casrewind.python, f"{casrewind.python}.away")
    turn("interpreter")
    os.rename(f"{casrewind.python}.away", casrewind.python)
    good = hook.read_text()
    hook.write_text("def (:\n" + good)
    turn("syntax")
    hook.write_text(good)
    terminal.say("good to have you back")
    found.points["after"] = client.points()
    found.answer = terminal.ask("/casrewind list -n 2")
    return found


@pytest.mark.parametrize("gone", ["package", "interpreter", "syntax"])
def test_prompts_go_through_and_nothing_is_shown(told, gone):
    assert told.requests[gone] == 1
    assert "hook" not in told.screens[gone].lower() and "casrewind" not in told.screens[gone]
    assert told.points[gone] == told.points["before"]


def test_with_it_back_all_is_well(told):
    new = told.points["after"][len(told.points["before"]) :]
    assert [(point["trigger"], point["prompt"]) for point in new] == [("prompt", "good to have you back"), ("turn_end", "good to have you back")]
    assert "good to have you back" in told.answer
