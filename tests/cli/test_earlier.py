"""Settings that earlier versions wrote, recorded: each is named, replaced by install, and taken out by uninstall without a trace."""

import os
from pathlib import Path

import pytest

from support.settings import hooks, ours, put, read

EARLIER = Path(__file__).parent.parent / "agents" / "data" / "earlier"
RECORDED = sorted(path.name for path in EARLIER.glob("*.json"))
SECRET = b"_FhEsu8QEMwm2Ay-LZPpF597BisIE54axW79SIIx_-g"
PLACES = {"claude": ".claude/settings.json", "droid": ".factory/hooks.json"}


class Place:
    """A home with recorded settings and what else that version left."""

    def __init__(self, home, name):
        self.agent = name.partition("-")[0]
        self.key = "hooks" if self.agent == "claude" else ""
        self.before = read(EARLIER / f"{self.agent}.before")
        self.path = put(str(home / PLACES[self.agent]), read(EARLIER / name), mode=0o600)
        put(self.path + ".casrewind-backup", self.before, mode=0o600)
        self.address = home / "data" / "watch" / "address"
        if SECRET in read(self.path):
            put(str(self.address), b"30213\n" + SECRET + b"\n", mode=0o600)
            os.chmod(self.address.parent, 0o700)

    def events(self):
        """The events that have hooks, others' included."""
        return set(hooks(self.path, self.key))


@pytest.fixture(params=RECORDED)
def place(request, home):
    return Place(home, request.param)


def test_install_replaces_them(casrewind, home, place):
    events = place.events()
    resident = b"--resident" in read(place.path)
    tier = "minimal" if events == {"SessionStart", "UserPromptSubmit", "Stop"} else "aggressive" if "PreToolUse" in events else "balanced"
    found = casrewind.json("install", place.agent, "--tier", tier)
    assert found["changed"] and found["resident"] == resident
    now = read(place.path)
    assert b"/home/you" not in now and b"/home/a person" not in now and b"X-Casrewind" not in now and b"--http" not in now
    assert set(ours(place.path, place.key)) == {hook["event"] for hook in found["hooks"]}
    assert b"/usr/bin/notify --done" in now
    assert not place.address.exists()
    assert casrewind("uninstall", place.agent, code=0) and read(place.path) == place.before


def test_uninstall_removes_them(casrewind, home, place):
    found = casrewind.json("uninstall", place.agent)
    assert found["settings"][0]["restored"] and read(place.path) == place.before
    assert os.listdir(os.path.dirname(place.path)) == [os.path.basename(place.path)]
    assert not place.address.exists()


@pytest.mark.parametrize("name", [name for name in RECORDED if "posted" in name])
def test_doctor_names_hooks_that_are_posted(casrewind, home, root, name):
    place = Place(home, name)
    found = casrewind.json("doctor", "claude", code=16)
    said = [problem for problem in found["agents"]["claude"]["problems"] if "are posted to a URL" in problem]
    assert len(said) == 1 and "Stop" in said[0] and place.path in said[0] and "casrewind install claude" in said[0]


def test_hooks_that_others_post_stay(casrewind, home):
    place = Place(home, "claude-posted.json")
    casrewind("install", "claude", code=0)
    assert b'{"type": "http", "url": "http://127.0.0.1:1/other"}' in read(place.path)
