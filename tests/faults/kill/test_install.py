"""An installation that is killed, or meets a full disk, at any disk-changing call leaves the old settings or the new."""

import json
import os
import shutil

import pytest

from support.client_settings import others, ours, put, read
from support.command import Command
from support.sample_start import by_turns

BEFORE = '{\n  "model": "opus",\n  "hooks": {"Stop": [{"hooks": [{"type": "command", "command": "other"}]}]}\n}\n'
AFTER = ("SessionStart", "UserPromptSubmit", "Stop", "SubagentStop", "PreCompact", "SessionEnd", "SubagentStart")


def sweep(shim, scratch, command, act, error=0):
    """Run `command` with something going wrong at call 1, 2 ... up to the last; which settings each left behind."""
    home, root = scratch / "home", scratch / "project"
    os.makedirs(root, exist_ok=True)
    run, unharmed = Command(root, home, LD_PRELOAD=shim), Command(root, home)
    path, prepared = home / ".claude" / "settings.json", scratch / "prepared"

    def begin():
        shutil.rmtree(home)
        shutil.copytree(prepared, home, symlinks=True)

    put(str(path), BEFORE, mode=0o640)
    if command == "uninstall":
        unharmed("install", "claude", code=0)
    shutil.copytree(home, prepared, symlinks=True)
    log = scratch / "log"
    run(command, "claude", code=0, SHIM_LOG=str(log))
    states = []
    for at in range(1, len(log.read_text().splitlines()) + 1):
        begin()
        old = read(path)
        result = run(command, "claude", SHIM_AT=str(at), SHIM_ACT=act, SHIM_ERRNO=str(error))
        assert result.code in ((-9, 0) if act in ("kill", "tear") else (0, 1, 3, 13, 16)), result
        assert act != "kill" or result.code == -9
        assert result.err.count("\n") <= (result.code not in (0, 3)), "one line says what went wrong"
        now = read(path)
        states.append("old" if now == old else "new")
        mine = set(ours(path)) if now != BEFORE.encode() else set()
        assert mine in (set(), set(AFTER)), f"call {at}: half of the hooks"
        assert others(json.loads(now)) == others(json.loads(BEFORE)), f"call {at}: somebody else's settings"
        assert os.stat(path).st_mode & 0o777 == 0o640
        unharmed(command, "claude", code=0)  # the next one comes through, and clears away what the first left behind
        left = {name for _, _, names in os.walk(home / ".claude") for name in names}
        wanted = {"settings.json", "settings.json.casrewind-backup", "casrewind.md"} if command == "install" else {"settings.json"}
        assert left == wanted, f"call {at}"
        if command == "uninstall":
            assert read(path) == BEFORE.encode()
    return states


PUSHED = (("kill", 0, "install"), ("fail", 28, "uninstall"), ("kill", 0, "uninstall"), ("fail", 28, "install"))
OTHERS = [pytest.param(*fault, command, marks=pytest.mark.long) for fault in (("tear", 0), ("fail", 5)) for command in ("install", "uninstall")]


@pytest.mark.parametrize(("act", "error", "command"), [*by_turns(PUSHED, 1), *OTHERS])
def test_at_every_call_settings_are_the_old_or_the_new(shim, scratch, command, act, error):
    states = sweep(shim, scratch, command, act, error)
    print(f"{command}, {act} {error}: {len(states)} points, {states.count('old')} left the old settings, {states.count('new')} the new")
    assert len(states) >= 10 and states.count("old") >= 4
    if act == "kill":
        assert sorted(states, reverse=True) == states and "new" in states, "the settings went back and forth"
