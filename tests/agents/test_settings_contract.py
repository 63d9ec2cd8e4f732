"""What `casrewind install CLIENT` must do to every client's settings: in with the hooks of a tier, and out again byte for byte.

What is special about a client stands in tests/support/known_clients.py. test_install.py asks what depends on the file and not on the client.
"""

import json
import os
import re

import pytest

from casrewind import agents, errors, launch
from casrewind.agents import extension, hook_checks
from casrewind.agents import install as installs
from casrewind.agents.client import TIERS
from support import known_clients
from support.client_settings import FOREIGN, hooks, is_ours, others, ours, put, read
from support.known_clients import SETTINGS
from support.picture import picture

WITH_HOOKS = [name for name, known in SETTINGS.items() if known.key is not None]
EXTENSIONS = [name for name in SETTINGS if name not in WITH_HOOKS]
GROUP = {"matcher": "Bash", "hooks": [FOREIGN, FOREIGN]}
DOCUMENTS = {
    "empty": "", "blank": " \n\n", "braces": "{}", "a line": "{}\n", "roomy braces": "{ \n }", "minified": '{"model":"opus","env":{"A":"1"},"list":[1,2]}',
    "two": '{\n  "model": "opus",\n  "env": {\n    "A": "1"\n  }\n}\n', "tabs": '{\n\t"model": "opus",\n\t"list": [\n\t\t1\n\t]\n}\n',
    "windows": '{\r\n  "model": "opus"\r\n}\r\n', "byte order mark": '\ufeff{ }\r\n', "spaced": "{ }",
    "four": '{\n    "model": "opus",\n    "env": {}\n}', "a marker of no meaning": '{"note": "casrewind hook claude", "env": {"casrewind": "hook claude"}}',
    "twice": '{\n  "model": "a",\n  "model": "b",\n  "env": {"A": 1, "A": 2}\n}\n',
    "unlike json.dumps": '{ "n" : 1.50e+3 ,"u":"\\u00e9é\\/", "big": 123456789012345678901234567890,\n\n\n"t": true,"lone": "\\ud800" }',
}  # fmt: skip
"""Settings without hooks."""


class Place:
    """A client's settings in a home, or in a project, of the test's own."""

    def __init__(self, name, home, root=None):
        self.known, self.client, self.home, self.root = SETTINGS[name], agents.load_client(name), home, root
        self.target = installs.make_target(self.client, root and str(root), str(home), {})
        self.path = os.path.join(root or home, self.known.project if root else self.known.file)

    def install(self, tier="balanced"):
        return installs.install(self.target, tier, {"PATH": "/nowhere"})

    def uninstall(self):
        return installs.uninstall(self.target)

    def expected(self, tier):
        """{event: seconds} of a tier."""
        return {event: seconds for name in TIERS[: TIERS.index(tier) + 1] for event, seconds in getattr(self.known, name).items()}

    def installed(self):
        """{event: seconds} that are in the settings now, each with the right matcher."""
        if self.known.key is None:
            constants = dict(re.findall(r"^const ([A-Z]+) = ([\[{].*);$", read(self.path).decode(), re.MULTILINE))
            assert json.loads(constants["COMMAND"]) == launch.own_command()
            assert json.loads(constants.get("HARMLESS", "null")) == (self.known.tools and sorted(self.client.events.harmless_tools))
            return json.loads(constants["EVENTS"])
        found = ours(self.path, self.known.key)
        assert all(len(every) == 1 for every in found.values()), found
        document = json.loads(read(self.path).decode("utf-8-sig"))
        events = document[self.known.key] if self.known.key else document
        assert all(is_ours(events[event][-1]) is self.known.flat for event in found), "ours is the last, in a group or without"
        for event, ((matcher, _),) in found.items():
            assert matcher == (self.known.tools if event in self.known.aggressive and event != "PostToolBatch" else None)
        return {event: seconds / self.known.unit for event, ((_, seconds),) in found.items()}

    def look(self, tier="balanced"):
        return hook_checks.read_and_check_hooks(self.client, self.root and str(self.root), str(self.home), {}, tier)

    def documents(self):
        """Settings of many forms, with and without hooks of others."""
        first, last = list(self.known.minimal)[0], list(self.known.balanced)[0]
        others = [
            {}, {first: [], "Odd": 7}, {first: [GROUP], last: [GROUP, GROUP], "Odd": [1, {"hooks": 3}, {}]},
            {event: [GROUP] for event in self.expected("aggressive")},
        ]  # fmt: skip
        yield from DOCUMENTS.values()
        for events in others:
            for indent in (None, 3, "\t"):
                yield json.dumps({"a": 1.50, self.known.key: events, "z": []} if self.known.key else events, indent=indent)


def pytest_generate_tests(metafunc):
    for fixture, names in (("place", SETTINGS), ("hooked", WITH_HOOKS), ("extended", EXTENSIONS)):
        if fixture in metafunc.fixturenames:
            metafunc.parametrize(fixture, known_clients.ask(metafunc.function.__name__, names), indirect=True)


@pytest.fixture
def place(request, home):
    return Place(request.param, home)


hooked = extended = place


def test_every_client_is_asked():
    assert list(SETTINGS) == [name for name in agents.NAMES if name != "generic"]
    assert agents.load_client("generic").prints_hooks_only and not any(agents.load_client(name).prints_hooks_only for name in SETTINGS)


def test_each_tier_has_its_events_and_takes_the_place_of_another(place):
    for tier in ("aggressive", "minimal", "balanced", "aggressive", "balanced", "minimal"):
        found = place.install(tier)
        assert found.changed and place.installed() == place.expected(tier)
        assert {hook.event for hook in place.client.hooks_of(tier)} == set(place.expected(tier))
        assert place.known.key is None or set(hooks(place.path, place.known.key)) == set(place.expected(tier)), "an empty event stayed behind"
        assert not place.install(tier).changed


def test_a_fresh_installation_is_found_with_its_tier_and_nothing_is_wrong(place):
    for tier in TIERS:
        place.install(tier)
        found = place.look(tier)
        assert [(scope.scope, scope.tier, scope.missing, set(scope.events)) for scope in found.scopes] == [("user", tier, (), set(place.expected(tier)))]
        assert found.problems == found.notes == () and {hook.timeout for hook in found.hooks} <= {3, 5, 10, 15, 30}
        assert len(found.tried) == len(found.hooks) == (len(place.expected(tier)) if place.known.key is not None else len(found.hooks))


def test_without_settings_a_file_is_made_for_the_owner_alone_and_taken_away_again(place):
    found = place.install()
    assert [(item.path, item.changed) for item in found.written] == [(place.path, True)] and os.stat(place.path).st_mode & 0o777 == 0o600
    assert all(item.restored for item in place.uninstall().written)
    assert not os.path.exists(place.path) and not any(b"casrewind" in path for path in picture(place.home))
    assert place.uninstall().written == ()


@pytest.mark.turns(3)
def test_in_and_out_again_leaves_every_byte_and_nobody_else_s_hook_is_lost(hooked):
    for text in hooked.documents():
        put(hooked.path, text, mode=0o640)
        before = read(hooked.path)
        for tier in TIERS:
            assert hooked.install(tier).changed, text
            now = json.loads(read(hooked.path).decode("utf-8-sig"))
            assert hooked.installed() == hooked.expected(tier)
            old = json.loads(before.decode("utf-8-sig").strip() or "{}")
            assert others(now, hooked.known.key).items() >= others(old, hooked.known.key).items()
            assert not hooked.install(tier).changed
            assert all(item.restored for item in hooked.uninstall().written)
            assert read(hooked.path) == before and os.stat(hooked.path).st_mode & 0o777 == 0o640
            assert os.listdir(os.path.dirname(hooked.path)) == [os.path.basename(hooked.path)]


def test_ours_come_last_so_that_the_places_of_others_stay(hooked):
    """Codex knows a trusted hook by its place in the file."""
    events = {event: [GROUP] for event in hooked.known.minimal}
    put(hooked.path, json.dumps({hooked.known.key: events} if hooked.known.key else events))
    hooked.install("aggressive")
    document = json.loads(read(hooked.path))
    found = document[hooked.known.key] if hooked.known.key else document
    assert all(found[event][0] == GROUP and len(found[event]) == 2 for event in events)


def test_a_project_has_its_own(place, root):
    project = Place(place.client.name, place.home, root)
    place.install("minimal")
    assert [item.path for item in project.install().written] == [project.path]
    assert (place.installed(), project.installed()) == (place.expected("minimal"), project.expected("balanced"))
    project.uninstall()
    assert not os.path.exists(project.path) and place.installed() == place.expected("minimal")


def test_a_variable_moves_the_client_s_files(place):
    variable, moved = place.known.moved
    for value, wanted in (("/moved", moved), ("", place.target.directory)):
        assert installs.make_target(place.client, None, str(place.home), {variable: value, "UNKNOWN": "/x"}).directory == wanted
    assert installs.make_target(place.client, "/p", str(place.home), {variable: "/moved"}).directory.startswith("/p/")


def test_hooks_that_the_client_does_not_run_are_told_of(place):
    put(place.path, place.known.off)
    assert any("runs no hooks at all" in note for note in place.install().notes)
    (problem,) = place.look().problems
    assert re.search(r'"[\w.]+" is (true|false)', problem) and "set it to" in problem and place.path in problem
    put(place.path, "{}")
    assert not any("runs no hooks" in note for note in place.install().notes) and place.look().problems == ()


def test_an_extension_of_the_user_s_own_and_one_that_was_edited_are_left_alone(extended):
    put(extended.path, b"export default 1")
    other = put(os.path.join(os.path.dirname(extended.path), "other.js"), b"mine")
    with pytest.raises(errors.AgentError, match="of your own"):
        extended.install()
    assert extended.uninstall().written == () and read(extended.path) == b"export default 1"
    os.unlink(extended.path)
    extended.install()
    put(extended.path, read(extended.path) + b"// mine\n")
    edited = read(extended.path)
    for work in (lambda: extended.install("minimal"), extended.uninstall):
        with pytest.raises(errors.AgentError, match="was edited"):
            work()
    assert read(extended.path) == edited and read(other) == b"mine" and any("was edited" in problem for problem in extended.look("").problems)


def resealed(place, pattern, new):
    """The extension with another line, and the digest of an installation of then."""
    data = re.sub(pattern, new, read(place.path))
    put(place.path, re.sub(rb"// digest \w+", b"// digest " + extension._digest_without_own(data), data))


def test_the_extension_of_an_earlier_version_is_noted_and_replaced(extended):
    extended.install()
    resealed(extended, rb"(?m)^// digest", b"// of old\n// digest")
    assert extended.look("").notes and extended.install().changed and b"// of old" not in read(extended.path)


def test_a_program_of_an_extension_that_is_gone_is_told(extended):
    extended.install()
    resealed(extended, rb"const COMMAND = .*;", b'const COMMAND = ["/nowhere/python", "-I", "/nowhere/casrewind/__main__.py"];')
    is_connected, gone = hook_checks.find_missing_hook_files(extended.client, None, str(extended.home), {})
    assert is_connected and gone and "/nowhere/python" in gone[0]
