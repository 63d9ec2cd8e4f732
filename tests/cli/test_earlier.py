"""Settings that earlier versions wrote, recorded: each is named, replaced by install, and taken out by uninstall without a trace."""

import os
from pathlib import Path

import pytest

from support.settings import hooks, ours, put, read
from support.trees import plant

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


def test_status_names_them_and_what_renews_them(casrewind, place, root):
    plant(root, {"f": b""})
    casrewind("save", code=0)
    there = put_there(place)
    found = casrewind.json("status")
    outdated = [reason for reason in found["reasons"] if "are outdated" in reason]
    assert len(outdated) == 1 and "UserPromptSubmit" in outdated[0] and f"casrewind install {place.agent}" in outdated[0]
    assert found["protected"], "they work as long as what they name is there"
    posted = [reason for reason in found["reasons"] if "are posted to a URL" in reason]
    assert len(posted) == (SECRET in there) and all("Stop" in reason and place.path in reason for reason in posted)
    casrewind("install", place.agent, code=0)
    assert casrewind.json("status")["reasons"] == []


def test_status_says_that_their_files_are_gone(casrewind, place, root):
    plant(root, {"f": b""})
    casrewind("save", code=0)
    found = casrewind.json("status")
    assert not found["protected"] and any("which is missing" in reason or "which are missing" in reason for reason in found["reasons"])


def test_doctor_runs_nothing_of_them_and_names_them(casrewind, place):
    there = put_there(place)
    problems = casrewind.json("doctor", place.agent, code=16)["agents"][place.agent]["problems"]
    assert any("was not tried" in problem for problem in problems)
    assert any("are posted to a URL" in problem for problem in problems) == (SECRET in there)


def put_there(place):
    """Have the recorded settings name an interpreter and a script that are there, and do nothing; the settings."""
    script = put(os.path.join(os.path.dirname(place.path), "bin", "casrewind", "__main__.py"), "")
    text = read(place.path)
    for name in (b"/home/you/.local/share/uv/tools/casrewind/bin/python", rb"""'/home/a person'\"'\"'s/my tools/python3'"""):
        text = text.replace(name, b"/bin/true")
    for name in (
        b"/home/you/.local/share/uv/tools/casrewind/lib/python3.12/site-packages/casrewind/__main__.py",
        rb"""'/home/a person'\"'\"'s/my tools/casrewind/__main__.py'""",
    ):
        text = text.replace(name, script.encode())
    put(place.path, text)
    return text


def test_hooks_that_others_post_stay(casrewind, home):
    place = Place(home, "claude-posted.json")
    casrewind("install", "claude", code=0)
    assert b'{"type": "http", "url": "http://127.0.0.1:1/other"}' in read(place.path)
