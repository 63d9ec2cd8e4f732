"""Our hooks go into a settings file and out again, whatever the file is: layouts, links, owners, damage, others who write it.

test_settings_contract.py asks every client the same."""

import contextlib
import json
import os
import shlex
import sys
import threading
from pathlib import Path

import pytest

from casrewind import agents, errors
from casrewind.agents import settings_files
from casrewind.agents.client import TIERS
from casrewind.agents.settings_edit import is_ours
from casrewind.agents import install as installs
from support import client_settings as judge
from support.client_settings import FOREIGN, hooks, ours, put, read
from support.picture import differences, picture
from support.trees import Dir, Fifo, Link, plant

ALL = {client.name: client for client in agents.load_clients()}

MINIMAL = {"SessionStart": [(None, 10)], "UserPromptSubmit": [(None, 30)]}
DROID = {**MINIMAL, "Stop": [(None, 30)], "SubagentStop": [(None, 30)], "PreCompact": [(None, 30)], "SessionEnd": [(None, 5)]}
BALANCED = {**DROID, "SubagentStart": [(None, 15)]}
AGGRESSIVE = {
    "claude": {**BALANCED, "PreToolUse": [("*", 15)], "PostToolBatch": [(None, 15)]},
    "droid": {**DROID, "PreToolUse": [("*", 15)], "PostToolUse": [("*", 15)]},
}
FILES = {"claude": (".claude/settings.json", "hooks"), "droid": (".factory/hooks.json", "")}
BACKUP = ".casrewind-backup"


class Place:
    """A client's files in a home of the test's own."""

    def __init__(self, home, agent="claude", root=None):
        self.client, self.home = ALL[agent], home
        name, self.key = FILES[agent]
        self.path = os.path.join(root or home, name)
        self.target = installs.make_target(self.client, root and str(root), str(home), {})
        self.command = os.path.join(os.path.dirname(self.path), "commands", "casrewind.md")

    def install(self, tier="balanced"):
        return installs.install(self.target, tier, {"PATH": "/nowhere"})

    def uninstall(self):
        return installs.uninstall(self.target)

    def ours(self):
        return ours(self.path, self.key)

    def refuses(self, what, *words):
        """Neither command changes anything, and both say why."""
        before = picture(self.home, inodes=True)
        for work in (self.install, what and self.uninstall):
            if work:
                with pytest.raises(errors.AgentError) as caught:
                    work()
                for word in words:
                    assert word in str(caught.value), str(caught.value)
        after = picture(self.home, inodes=True)
        assert after == before, differences(before, after)


@pytest.fixture
def place(home):
    return Place(home)


@pytest.fixture(params=sorted(FILES))
def either(home, request):
    return Place(home, request.param)


FOREIGN_TEXT = json.dumps(FOREIGN)
DOCUMENTS = {
    "minified": '{"model":"opus","env":{"A":"1"},"list":[1,2]}',
    "two": '{\n  "model": "opus",\n  "env": {\n    "A": "1"\n  }\n}\n',
    "four": '{\n    "model": "opus",\n    "env": {}\n}', "tabs": '{\n\t"model": "opus",\n\t"list": [\n\t\t1\n\t]\n}\n',
    "windows": '{\r\n  "model": "opus"\r\n}\r\n',
    "empty events": '{\n  "hooks": {\n    "Stop": [],\n    "Other": [ ]\n  }\n}\n',
    "hooks first": '{\n  "hooks": {\n    "Stop": [{"hooks": [' + FOREIGN_TEXT + ']}]\n  },\n  "z": 1\n}\n',
    "others on every event": json.dumps(
        {"hooks": {event: [{"matcher": "Bash", "hooks": [FOREIGN, FOREIGN]}] for event in AGGRESSIVE["claude"]}, "a": {}}, indent=2),
    "unlike json.dumps": '{ "n" : 1.50e+3 ,"u":"\\u00e9é\\/", "big": 123456789012345678901234567890,\n\n\n"t": true,'
                         '"lone": "\\ud800" , "hooks" :{ "Stop":[ ] ,"Other" : "odd", "Notification": [ 1, {"hooks": 3}, {} ] } }',
    "twice": '{\n  "model": "a",\n  "model": "b",\n  "env": {"A": 1, "A": 2}\n}\n',
}  # fmt: skip


def test_the_bytes_of_before_are_kept_beside_and_a_second_installation_writes_nothing(place):
    put(place.path, DOCUMENTS["two"], mode=0o640)
    before = read(place.path)
    assert [item.path for item in place.install().written] == [place.path] and read(place.path + BACKUP) == before
    held = picture(place.home, inodes=True)
    assert not place.install().changed and picture(place.home, inodes=True) == held
    assert set(place.uninstall().events) == set(BALANCED) and read(place.path) == before and not os.path.exists(place.path + BACKUP)


def test_every_hook_is_for_an_event_of_its_tier():
    for client in ALL.values():
        for number, tier in enumerate(TIERS):
            for hook in client.hooks_of(tier):
                assert TIERS.index(client.lowest_tier_of(hook.event)) <= number, hook
                assert hook.timeout > client.seconds_for(hook.event), f"{hook}: the client would kill it before its time"
        hooked = {hook.event for hook in client.hooks_of("aggressive")}
        known = {"StopFailure"} if client.name != "cursor" else set(ALL["claude"].events.triggers) | {"PostToolUse"}  # it calls those, too
        assert set(client.events.triggers) - hooked <= known, "older clients may refuse settings with an event they do not know"


def test_what_is_run_is_an_absolute_path_that_needs_no_path(place):
    place.install()
    commands = {hook["command"] for every in hooks(place.path).values() for _, hook in every}
    (command,) = commands
    words = shlex.split(command)
    assert os.path.isabs(words[0]) and words[0] == sys.executable and words[-5:] == ["hook", "claude", "2>/dev/null", "||", ":"]


def test_a_path_with_blanks_and_quotes_is_quoted_for_the_shell(place, monkeypatch):
    monkeypatch.setattr(sys, "executable", "/opt/my python's/bin/python3")
    place.install()
    (command,) = {hook["command"] for every in hooks(place.path).values() for _, hook in every}
    assert shlex.split(command)[0] == "/opt/my python's/bin/python3"
    assert not place.install().changed
    place.uninstall()
    assert not os.path.exists(place.path)


def test_an_interpreter_that_moved_is_replaced(place, monkeypatch):
    put(place.path, DOCUMENTS["others on every event"])
    before = read(place.path)
    monkeypatch.setattr(sys, "executable", "/old/venv/bin/python")
    place.install("aggressive")
    monkeypatch.undo()
    assert place.install("aggressive").changed
    assert b"/old/venv" not in read(place.path) and place.ours() == AGGRESSIVE["claude"]
    assert read(place.path + BACKUP) == before, "our own version was kept as the one of before"
    place.uninstall()
    assert read(place.path) == before


@pytest.mark.parametrize(
    ("hook", "answer"),
    [
        ({"type": "command", "command": "/v/bin/python -m casrewind hook claude"}, True),
        ({"type": "command", "command": "casrewind hook claude"}, True),
        ({"type": "command", "command": "'/a b/python3' -I -c 'import casrewind' hook  claude"}, True),
        ({"type": "command", "command": "/v/bin/casrewind hook claude SessionStart "}, True),
        ({"type": "command", "command": "/v/bin/python", "args": ["-m", "casrewind", "hook", "claude"]}, True),
        ({"type": "command", "command": "/v/bin/python -m casrewind hook claude --resident 2>/dev/null || :"}, True),
        ({"type": "command", "command": "/v/bin/python -m casrewind hook claude 2>/dev/null || true"}, False),
        ({"type": "command", "command": "/v/bin/python -m casrewind hook droid"}, False),
        ({"type": "command", "command": "/v/bin/python -m casrewind hook claudette"}, False),
        ({"type": "command", "command": "echo casrewind hook claude > /tmp/log"}, False),
        ({"type": "command", "command": "casrewind save -m hook"}, False),
        ({"type": "command", "command": "my-hook claude"}, False),
        ({"type": "prompt", "prompt": "casrewind hook claude"}, False),
        ({"type": "command", "command": 3, "args": [4]}, False),
        ("casrewind hook claude", False),
    ],
)
def test_whose_a_hook_is(hook, answer):
    assert is_ours(hook, "claude") is answer


def test_ours_among_others_in_one_group_goes_and_theirs_stays(place):
    run = {"type": "command", "command": "/old/python -m casrewind hook claude", "timeout": 3}
    put(place.path, json.dumps({"hooks": {
        "Stop": [{"hooks": [run, FOREIGN, run]}, {"hooks": [run]}], "Notification": [{"hooks": [FOREIGN, run]}], "PreCompact": [{"hooks": [run]}],
    }}, indent=2))  # fmt: skip
    place.install("minimal")
    assert hooks(place.path) == {
        "Stop": [(None, FOREIGN)], "Notification": [(None, FOREIGN)],
        **{event: [(None, hooks(place.path)[event][0][1])] for event in MINIMAL},
    }  # fmt: skip
    place.uninstall()
    assert json.loads(read(place.path)) == {"hooks": {"Stop": [{"hooks": [FOREIGN]}], "Notification": [{"hooks": [FOREIGN]}]}}


@pytest.mark.parametrize(("name", "step"), [("two", "  "), ("four", "    "), ("tabs", "\t")])
def test_the_layout_is_the_documents_own(place, name, step):
    put(place.path, DOCUMENTS[name])
    place.install("minimal")
    new = read(place.path).decode()
    assert f'\n{step}"hooks": {{\n{step * 2}"SessionStart": [\n{step * 3}{{\n{step * 4}"hooks": [\n' in new
    assert new.startswith(DOCUMENTS[name].rstrip("}\n")), "what was there stands where it stood"
    assert json.dumps(json.loads(new), indent=step).splitlines() == new.splitlines() or name == "four"


def test_lines_end_as_the_documents_do(place):
    put(place.path, DOCUMENTS["windows"])
    place.install()
    assert read(place.path).count(b"\n") == read(place.path).count(b"\r\n") > 20


def test_a_minified_document_stays_one_line(place):
    put(place.path, DOCUMENTS["minified"])
    place.install()
    text = read(place.path).decode()
    assert text == json.dumps(json.loads(text), separators=(",", ":"))


def test_what_the_client_wrote_anew_but_did_not_change_gets_its_bytes_back(place):
    put(place.path, DOCUMENTS["unlike json.dumps"].replace("1.50e+3", "1500").replace('"lone": "\\ud800"', '"lone": 1'))
    before = read(place.path)
    place.install()
    put(place.path, json.dumps(json.loads(read(place.path)), indent=2, ensure_ascii=False))
    assert [item.restored for item in place.uninstall().written] == [True]
    assert read(place.path) == before


def test_what_changed_since_is_kept_and_only_ours_goes(place):
    put(place.path, DOCUMENTS["empty events"])
    place.install("aggressive")
    document = json.loads(read(place.path))
    document["model"] = "new"
    document["hooks"]["Stop"].insert(0, {"hooks": [FOREIGN]})
    document["hooks"]["Notification"] = [{"hooks": [FOREIGN]}]
    put(place.path, json.dumps(document, indent=2) + "\n", mode=0o604)
    found = place.uninstall()
    wanted = {"hooks": {"Stop": [{"hooks": [FOREIGN]}], "Other": [], "Notification": [{"hooks": [FOREIGN]}]}, "model": "new"}
    assert read(place.path).decode() == json.dumps(wanted, indent=2) + "\n"
    assert os.stat(place.path).st_mode & 0o777 == 0o604
    assert [item.restored for item in found.written] == [False] and "was changed since" in found.notes[0]
    assert not os.path.exists(place.path + BACKUP)


def test_an_order_or_a_number_that_changed_is_a_change(place):
    for before, after in (('{"a": 1, "b": 2}', '{"b": 2, "a": 1}'), ('{"a": 1}', '{"a": 1.0}'), ('{"a": 1}', '{"a": true}')):
        put(place.path, before)
        place.install()
        changed = json.loads(read(place.path))
        put(place.path, after[:-1] + ', "hooks": ' + json.dumps(changed["hooks"]) + "}")
        place.uninstall()
        assert read(place.path).decode() == after


def test_without_the_backup_ours_still_goes(place):
    put(place.path, '{\n  "model": "opus"\n}\n')
    place.install("aggressive")
    os.unlink(place.path + BACKUP)
    place.uninstall()
    assert read(place.path) == b'{\n  "model": "opus"\n}\n'


def test_a_backup_that_is_nonsense_is_not_believed(place):
    put(place.path, '{\n  "model": "opus"\n}\n')
    place.install()
    put(place.path + BACKUP, b"\xff{nonsense")
    place.uninstall()
    assert read(place.path) == b'{\n  "model": "opus"\n}\n'
    assert read(place.path + BACKUP) == b"\xff{nonsense", "it is not what we wrote: it is not ours to remove"


def test_the_backup_is_of_the_first_installation_of_each_time(place):
    put(place.path, '{"a": 1}', mode=0o600)
    for tier in TIERS:
        place.install(tier)
        assert read(place.path + BACKUP) == b'{"a": 1}'
        assert os.stat(place.path + BACKUP).st_mode & 0o777 == 0o600
    put(place.path, '{"b": 2}')  # somebody put other settings in their place
    place.install()
    assert read(place.path + BACKUP) == b'{"b": 2}'
    place.uninstall()
    assert read(place.path) == b'{"b": 2}'


@pytest.mark.parametrize("what", ["settings.json", "commands"])
def test_a_link_to_where_no_directory_is_makes_none(place, tmp_path, what):
    path = os.path.join(os.path.dirname(place.path), what)
    os.makedirs(os.path.dirname(path))
    os.symlink(tmp_path / "nowhere" / "x.json", path)
    if what == "settings.json":
        place.refuses(None, path, str(tmp_path / "nowhere"), "whose directory is missing", "nothing was changed")
    else:
        found = place.install()
        assert "whose directory is missing" in found.failed[0] and place.ours() == BALANCED
    assert not (tmp_path / "nowhere").exists()
    (tmp_path / "nowhere").mkdir()
    place.install()
    assert place.ours() == BALANCED
    place.uninstall()
    assert os.path.islink(path)


@contextlib.contextmanager
def umask(mask):
    before = os.umask(mask)
    try:
        yield
    finally:
        os.umask(before)


def modes(top):
    """{path: mode} of everything below a directory."""
    found = (os.path.join(place, name) for place, *some in os.walk(top) for names in some for name in names)
    return {os.path.relpath(path, top): os.lstat(path).st_mode & 0o7777 for path in found}


@pytest.mark.parametrize("mask", [0, 0o002, 0o777])
@pytest.mark.parametrize("scope", ["user", "project"])
@pytest.mark.parametrize("agent", sorted(name for name, client in ALL.items() if not client.prints_hooks_only))
def test_nobody_else_may_write_to_what_an_installation_makes(home, root, agent, scope, mask):
    """Its files are run at every event. os.makedirs leaves the mode of parents to the umask."""
    (home / "kept").mkdir(mode=0o700)
    (home / "kept").chmod(0o777)
    with umask(mask):
        target = installs.make_target(ALL[agent], str(root) if scope == "project" else None, str(home), {})
        installs.install(target, "balanced", {"PATH": "/nowhere"})
    found = modes(home) | modes(root)
    assert found.pop("kept") == 0o777, "what was there is not touched"
    assert len(found) > 1
    open_to_others = {path: oct(mode) for path, mode in found.items() if mode & 0o022 or mode & 0o600 != 0o600}
    assert open_to_others == {}
    if scope == "user":
        first = os.path.relpath(target.directory, home).split(os.sep)[0]
        assert found[first] == 0o700, "the first level of a person's own settings is private"


@pytest.mark.parametrize("mask", [0, 0o002, 0o077, 0o777])
def test_nobody_else_may_write_to_what_a_plugin_holds(tmp_path, casrewind, mask):
    place = tmp_path / "far" / "away" / "plugin"
    with umask(mask):
        casrewind("install", "claude", "--plugin", str(place), code=0)
    found = modes(tmp_path / "far")
    assert "away/plugin/hooks/casrewind.sh" in found
    assert {path: oct(mode) for path, mode in found.items() if mode & 0o022 or mode & 0o600 != 0o600} == {}


@pytest.mark.parametrize("mask", [0, 0o777])
def test_the_directory_of_commands_is_the_owners_to_write(place, mask):
    with umask(mask):
        place.install()
    assert os.stat(os.path.dirname(place.command)).st_mode & 0o7777 == (0o700 if mask else 0o755)


def test_a_link_stays_a_link_and_its_target_is_written(place, tmp_path):
    real = put(tmp_path / "dotfiles" / "claude.json", DOCUMENTS["two"], mode=0o644)
    plant(place.home, {".claude/settings.json": Link(real)})
    place.install()
    assert os.readlink(place.path) == real and place.ours() == BALANCED
    assert os.listdir(os.path.dirname(real)) == ["claude.json"], "the backup belongs beside the link"
    place.uninstall()
    assert os.readlink(place.path) == real and read(real).decode() == DOCUMENTS["two"]


def test_a_dangling_link_is_filled_and_emptied_again(place, tmp_path):
    real = str(tmp_path / "dotfiles" / "claude.json")
    os.mkdir(os.path.dirname(real))
    plant(place.home, {".claude/settings.json": Link(real)})
    place.install()
    assert ours(real) == BALANCED and os.path.islink(place.path)
    place.uninstall()
    assert os.path.islink(place.path) and not os.path.lexists(real)


def test_a_linked_directory_stays_one(home, tmp_path):
    plant(tmp_path / "dotfiles", {"settings.json": b"{}", "commands": Dir()})
    os.symlink(tmp_path / "dotfiles", home / ".claude")
    before = picture(tmp_path / "dotfiles")
    place = Place(home)
    place.install()
    assert place.ours() == BALANCED and os.path.islink(home / ".claude")
    place.uninstall()
    assert picture(tmp_path / "dotfiles") == {path: what for path, what in before.items() if path != b"commands"}


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may give files away")
def test_the_owner_stays(place):
    put(place.path, DOCUMENTS["two"])
    os.chown(place.path, 65534, 65534)
    place.install()
    for path in (place.path, place.path + BACKUP):
        assert (os.stat(path).st_uid, os.stat(path).st_gid) == (65534, 65534)


BROKEN = {
    "a comment": ('{\n  // model\n  "model": "a"\n}', "not strict JSON"), "a trailing comma": ('{"a": 1,}', "not strict JSON"),
    "cut off": ('{"hooks": {"Stop": [', "not strict JSON"), "no number": ('{"a": NaN}', "not strict JSON"),
    "more behind it": ('{} {}', "not strict JSON"), "a control character": ('{"a": "\n"}', "not strict JSON"),
    "a list": ("[]", "not a JSON object"), "a string": ('"x"', "not a JSON object"),
    "hooks is a list": ('{"hooks": []}', '"hooks"'), "hooks is null": ('{"hooks": null}', '"hooks"'),
    "an event is an object": ('{"hooks": {"Stop": {"hooks": []}}}', '"Stop"'), "an event is null": ('{"hooks": {"Stop": null}}', '"Stop"'),
    "hooks twice": ('{"hooks": {}, "a": 1, "hooks": {}}', "twice"), "an event twice": ('{"hooks": {"Stop": [], "Stop": []}}', "twice"),
    "not UTF-8": (b'{"a": "\xff"}', "not UTF-8"), "UTF-16": ('{"a": 1}'.encode("utf-16"), "not UTF-8"),
    "too deep": ("[" * 200_000, "too deeply"), "too large": (b" " * (4 << 20) + b"{}", "larger than 4 MiB"),
}  # fmt: skip


@pytest.mark.parametrize("name", BROKEN)
def test_what_cannot_be_changed_safely_is_refused_and_not_touched(place, name):
    data, word = BROKEN[name]
    put(place.path, data)
    put(place.command, "mine")
    place.refuses(name == "too large", "settings.json", word)
    if name != "too large":
        assert place.uninstall().written == (), "there is nothing of ours in it: that much is certain"


def test_settings_that_broke_after_the_installation_are_not_touched(place):
    place.install()
    put(place.path, read(place.path)[:-3] + b"// done\n}")
    place.refuses(True, "settings.json", "not strict JSON")


@pytest.mark.parametrize("what", [Dir(), Fifo(), Link("settings.json"), Link("/dev/null")], ids=["directory", "fifo", "loop", "device"])
@pytest.mark.parametrize("which", ["settings.json", "settings.json" + BACKUP])
def test_what_is_no_file_is_refused(place, what, which):
    plant(place.home, {f".claude/{which}": what._replace(target=which) if what == Link("settings.json") else what})
    place.refuses(False, which)


def test_a_key_that_stands_twice_is_told_of_and_kept(place):
    put(place.path, DOCUMENTS["twice"])
    found = sorted(place.install().notes)
    assert len(found) == 2 and "'A' occurs twice" in found[0] and "'model' occurs twice" in found[1]


def test_what_somebody_wrote_meanwhile_is_not_overwritten(place):
    put(place.path, "{}")
    seen = settings_files.read_settings(place.path)
    put(place.path, '{"model": "new"}')
    for work in (lambda: settings_files.replace_if_unchanged(seen, b"{1}", 0o600), lambda: settings_files.remove_if_unchanged(seen)):
        with pytest.raises(settings_files.FileChanged):
            work()
    assert read(place.path) == b'{"model": "new"}' and os.listdir(os.path.dirname(place.path)) == ["settings.json"]


def test_settings_that_change_all_the_time_end_up_with_both(place):
    put(place.path, json.dumps({"count": 0}))
    stop = threading.Event()

    def write():
        """A client that keeps saving its settings, whole each time, with what it finds in them."""
        count = 0
        while not stop.is_set() and count < 300:
            count += 1
            document = {**json.loads(read(place.path)), "count": count}
            put(place.path + ".new", json.dumps(document, indent=2))
            os.rename(place.path + ".new", place.path)
            stop.wait(0.002)

    client = threading.Thread(target=write)
    client.start()
    try:
        for _ in range(20):
            try:
                place.install()
                place.uninstall()
            except errors.AgentError as error:
                assert "keeps writing" in str(error)
    finally:
        stop.set()
        client.join()
    assert json.loads(read(place.path))["count"] > 0, "what the client wrote is lost"
    place.install()
    assert place.ours() == BALANCED


def test_many_at_once_leave_one_set_of_hooks(place):
    put(place.path, DOCUMENTS["hooks first"])
    problems = []

    def work(tier):
        try:
            for _ in range(5):
                place.install(tier)
        except Exception as error:
            problems.append(error)

    threads = [threading.Thread(target=work, args=(tier,)) for tier in TIERS]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert problems == []
    assert place.ours() in (MINIMAL, BALANCED, AGGRESSIVE["claude"])
    place.uninstall()
    assert read(place.path).decode() == DOCUMENTS["hooks first"]


def test_drafts_of_the_dead_are_cleared_away_and_nothing_else(place):
    put(place.path, "{}")
    for name in ("casrewind-draft-00", ".settings.json.other", "2024-1-notes", "casrewind-notes"):
        put(os.path.join(os.path.dirname(place.path), name), "x")
    place.install()
    left = set(os.listdir(os.path.dirname(place.path)))
    assert left == {".settings.json.other", "2024-1-notes", "casrewind-notes", "settings.json", "settings.json" + BACKUP, "commands"}


def test_the_command_comes_and_goes(place):
    found = place.install()
    assert found.command == place.command and found.command_changed
    text = read(place.command).decode()
    head, _, body = text.removeprefix("---\n").partition("\n---\n")
    assert "disable-model-invocation: true" in head.splitlines() and "description: " in head
    assert "/casrewind back 1" in body and "Change nothing" in body
    put(place.command, text.replace("list", "List"))  # of another version
    assert place.install().command_changed and read(place.command).decode() == text
    assert place.uninstall().command == place.command
    assert not os.path.exists(os.path.dirname(place.command))


def test_a_command_of_somebody_elses_stays(place):
    put(place.command, "my own")
    found = place.install()
    assert found.command is None and "a command of your own" in found.notes[0] and place.ours() == BALANCED
    assert place.uninstall().command is None and read(place.command) == b"my own"


def test_other_commands_stay(place):
    other = put(os.path.join(os.path.dirname(place.command), "other.md"), "other")
    place.install()
    place.uninstall()
    assert read(other) == b"other" and os.listdir(os.path.dirname(place.command)) == ["other.md"]


def test_a_command_that_cannot_be_written_is_told_of_and_the_hooks_are_in(place):
    put(os.path.dirname(place.command), "a file where the directory should be")
    found = place.install()
    assert place.ours() == BALANCED and found.command is None
    assert len(found.failed) == 1 and "/casrewind command is missing" in found.failed[0]


# ---- Factory Droid: for each event it takes the first file that says something of it


def droid_files(home):
    return {name: os.path.join(home, ".factory", name) for name in ("hooks.json", "hooks/hooks.json", "settings.json")}


def effective(home):
    """What Droid makes of its files: hooks.json (the older place only where that is missing) over settings.json, by event."""
    paths = droid_files(home)
    first = paths["hooks.json"] if os.path.exists(paths["hooks.json"]) else paths["hooks/hooks.json"]
    found = hooks(paths["settings.json"]) if os.path.exists(paths["settings.json"]) else {}
    return {**found, **(hooks(first, "") if os.path.exists(first) else {})}


def group(command):
    return [{"hooks": [{"type": "command", "command": command}]}]


@pytest.mark.parametrize("tier", TIERS)
@pytest.mark.parametrize(
    "there",
    [
        {},
        {"settings.json": {"model": "m"}},
        {"settings.json": {"hooks": {"Stop": group("s-stop"), "Notification": group("s-note")}, "x": 1}},
        {"hooks.json": {"Stop": group("h-stop"), "hooksDisabled": False}},
        {"hooks.json": {"Stop": group("h-stop")}, "settings.json": {"hooks": {"Stop": group("idle"), "PreCompact": group("s-compact")}}},
        {"hooks.json": {"Stop": []}, "settings.json": {"hooks": {"Stop": group("idle"), "PreToolUse": group("s-pre")}}},
        {"hooks/hooks.json": {"Stop": group("old-stop")}, "settings.json": {"hooks": {"Stop": group("idle"), "SessionEnd": group("s-end")}}},
        {"hooks.json": {"SessionEnd": group("h-end")}, "hooks/hooks.json": {"Stop": group("idle")}},
    ],
    ids=["nothing", "settings", "settings with hooks", "hooks", "both", "an empty event", "the older place", "both places"],
)
def test_droid_runs_ours_and_everything_that_it_ran_before(home, there, tier):
    paths = droid_files(home)
    for name, document in there.items():
        put(paths[name], json.dumps(document, indent=2))
    os.makedirs(home / ".factory", exist_ok=True)
    before, ran = picture(home), effective(home)
    place = Place(home, "droid")
    found = place.install(tier)
    now = effective(home)
    wanted = {"minimal": MINIMAL, "balanced": DROID, "aggressive": AGGRESSIVE["droid"]}[tier]
    mine = {event: [(matcher, hook["timeout"]) for matcher, hook in every if judge.is_ours(hook)] for event, every in now.items()}
    assert {event: every for event, every in mine.items() if every} == wanted
    theirs = {event: [pair for pair in every if not judge.is_ours(pair[1])] for event, every in now.items()}
    assert {event: every for event, every in theirs.items() if every} == {event: every for event, every in ran.items() if every}
    assert {path for path, _ in found.hooks} == {item.path for item in found.written}
    assert not place.install(tier).changed
    place.uninstall()
    assert picture(home) == before


def test_droids_settings_with_comments_matter_only_where_they_speak_of_hooks(home):
    place = Place(home, "droid")
    path = droid_files(home)["settings.json"]
    put(path, '{\n  // the model\n  "model": "m"\n}')
    place.install()
    assert place.ours() == DROID
    place.uninstall()
    put(path, '{\n  // mine\n  "hooks": {}\n}')
    place.refuses(False, "settings.json", "not strict JSON")


def test_what_droid_copied_to_its_other_file_goes_from_both(home):
    """Its own editor writes all hooks, those of settings.json too, into hooks.json."""
    place, paths = Place(home, "droid"), droid_files(home)
    put(paths["settings.json"], json.dumps({"hooks": {"Stop": group("s-stop")}}, indent=2))
    place.install()
    put(paths["hooks.json"], json.dumps({**json.loads(read(paths["hooks.json"])), "Stop": json.loads(read(paths["settings.json"]))["hooks"]["Stop"]}))
    place.install()
    assert sum(judge.is_ours(hook) for path, key in ((paths["hooks.json"], ""), (paths["settings.json"], "hooks"))
               for every in hooks(path, key).values() for _, hook in every) == len(DROID)  # fmt: skip
    place.uninstall()
    assert b"casrewind" not in read(paths["hooks.json"]) + read(paths["settings.json"])


def test_each_agent_has_its_own(home):
    claude, droid = Place(home), Place(home, "droid")
    put(claude.path, DOCUMENTS["two"])
    before = picture(home)
    claude.install()
    both = picture(home)
    droid.install("aggressive")
    assert claude.ours() == BALANCED and droid.ours() == AGGRESSIVE["droid"]
    droid.uninstall()
    assert {path: what for path, what in picture(home).items() if path != b".factory"} == both
    claude.uninstall()
    assert {path: what for path, what in picture(home).items() if path != b".factory"} == before


IN_PROJECTS = sorted(name for name, client in ALL.items() if not client.prints_hooks_only)


def written_below(place):
    """{path: bytes} of everything below a directory."""
    return {path: path.read_bytes() for path in sorted(Path(place).rglob("*")) if path.is_file() and not path.is_symlink()}


@pytest.mark.parametrize("work", [lambda target: installs.install(target, "balanced", {}), installs.uninstall], ids=["install", "uninstall"])
@pytest.mark.parametrize("agent", IN_PROJECTS)
def test_a_clone_leads_no_installation_out_of_itself(home, root, tmp_path, agent, work):
    """Each place that an installation writes is a link to another directory, one at a time."""
    target = installs.make_target(ALL[agent], str(root), str(home), {})
    installs.install(target, "balanced", {})
    places = [target.directory, *map(str, sorted(Path(target.directory).rglob("*")))]
    assert any(os.path.isfile(place) for place in places)
    outside = tmp_path / "outside"
    for place in places:
        outside.mkdir()
        os.rename(place, outside / "there")
        os.symlink(outside / "there", place)
        before = written_below(outside), written_below(root)
        with pytest.raises(errors.UnsafePath) as refused:
            work(target)
        assert str(outside) in str(refused.value) and "out of the project" in str(refused.value)
        assert (written_below(outside), written_below(root)) == before
        os.unlink(place)
        os.rename(outside / "there", place)
        outside.rmdir()
    installs.uninstall(target)
    outside.mkdir()
    os.symlink(outside / "missing", target.directory)  # a link to what is not there yet
    with pytest.raises(errors.UnsafePath):
        installs.install(target, "balanced", {})
    assert os.listdir(outside) == []


@pytest.mark.parametrize("agent", IN_PROJECTS)
def test_links_within_a_project_and_those_of_a_user_are_followed(home, root, tmp_path, agent):
    for scope, above in ((None, home), (str(root), root)):
        target = installs.make_target(ALL[agent], scope, str(home), {})
        real = above / "dotfiles"
        real.mkdir(parents=True)
        os.makedirs(os.path.dirname(target.directory), exist_ok=True)
        os.symlink(real, target.directory)
        installs.install(target, "balanced", {})
        assert written_below(real) and os.path.islink(target.directory)
        installs.uninstall(target)
        assert not written_below(real)


def test_a_word_of_an_earlier_version_in_our_hooks_goes_with_the_next_installation(either):
    """Its hooks started a background helper, by an option at the end of their line."""
    place = either
    put(place.path, '{"model":  "opus"}')
    before = read(place.path)
    place.install("balanced")
    wanted = read(place.path)
    put(place.path, wanted.replace(b" 2>/dev/null", b" --resident 2>/dev/null"))
    assert b"--resident" in read(place.path) and place.install("balanced").changed
    assert json.loads(read(place.path)) == json.loads(wanted)
    put(place.path, wanted.replace(b" 2>/dev/null", b" --resident 2>/dev/null"))
    place.uninstall()
    assert read(place.path) == before
