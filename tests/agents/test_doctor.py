"""What stands in a client's settings, and what is wrong there, is found whoever wrote it; programs cannot hold doctor up."""

import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import time

import pytest

from casrewind import __version__, agents
from casrewind import programs
from casrewind.agents import claude_plugin as plugin
from casrewind.agents import event, trial_event, run_program, hook_checks, settings_edit, settings_files
from casrewind.agents import install as installs
from casrewind.agents.client import TIERS
from support.client_settings import FOREIGN, hooks, put, read
from support.picture import picture
from support import real_clients
from support.real_clients import claude, droid
from support.trees import Dir, Fifo, plant

ALL = {client.name: client for client in agents.load_clients()}

CLAUDE, DROID = ALL["claude"], ALL["droid"]
FIRST = {"claude": (".claude/settings.json", "hooks"), "droid": (".factory/hooks.json", "")}
STRANGER = "/elsewhere/bin/python3 -P -m casrewind hook claude"


class Place:
    """A client's settings in a home of the test's own."""

    def __init__(self, home, root, agent="claude"):
        self.client, self.home, self.root = ALL[agent], home, root
        name, self.key = FIRST[agent]
        self.user, self.project = str(home / name), str(root / name)

    def install(self, tier="balanced", *, project=False):
        target = installs.make_target(self.client, str(self.root) if project else None, str(self.home), {})
        return installs.install(target, tier, {"PATH": "/nowhere"})

    def look(self, tier="balanced", root=True, environ=None):
        before = picture(self.home), picture(self.root)
        found = hook_checks.read_and_check_hooks(self.client, str(self.root) if root else None, str(self.home), environ or {}, tier)
        assert (picture(self.home), picture(self.root)) == before, "looking changes nothing"
        return found

    def edit(self, change, path=None):
        """Let `change(events)` loose on the object with the events."""
        document = json.loads(read(path or self.user))
        change(document[self.key] if self.key else document)
        put(path or self.user, json.dumps(document, indent=2))

    def only_problem(self, *words, **options):
        """There is one problem, which holds all these words; gives what was found."""
        found = self.look(**options)
        assert len(found.problems) == 1, found.problems
        for word in words:
            assert word in found.problems[0], found.problems
        return found


@pytest.fixture
def place(home, root):
    return Place(home, root)


@pytest.fixture(params=sorted(FIRST))
def either(home, root, request):
    return Place(home, root, request.param)


def hooked(command, **more):
    return {"hooks": [{"type": "command", "command": command, **more}]}


# -- what is there


def test_without_settings_there_is_nothing_and_nothing_is_wrong(either):
    assert either.look() == hook_checks.ClientHooks(either.client, (), (), (), None, (), ())
    assert os.listdir(either.home) == [] == os.listdir(either.root)


@pytest.mark.parametrize("tier", TIERS)
def test_a_fresh_installation_is_found_with_its_tier_and_nothing_is_wrong(either, tier):
    either.install(tier)
    found = either.look(tier)
    events = tuple(hook.event for hook in either.client.hooks_of(tier))
    assert found.scopes == (hook_checks.HookScope("user", either.user, tier, events, ()),)
    assert found.hooks == found.tried and [hook.event for hook in found.hooks] == list(events)
    assert {hook.line for hook in found.hooks} == {hooks(either.user, either.key)["SessionStart"][0][1]["command"]}
    assert {hook.words for hook in found.hooks} == {tuple(settings_edit.hook_command(either.client.name))}
    assert found.problems == found.notes == ()
    assert found.command == (str(either.home / ".claude/commands/casrewind.md") if either.client is CLAUDE else None)


def test_hooks_with_a_word_of_an_earlier_version_are_tried_and_only_noted(place):
    installs.install(installs.make_target(CLAUDE, None, str(place.home), {}), "balanced", {"PATH": "/nowhere"})
    text = read(place.user)
    put(place.user, text.replace(b" 2>/dev/null", b" --resident 2>/dev/null"))
    found = place.look()
    assert len(found.tried) == len(found.hooks) == 7 and found.scopes[0].missing == ()
    assert [problem for problem in found.problems if "/casrewind is missing" not in problem] == []
    assert any("not as this casrewind writes them" in note and "casrewind install claude" in note for note in found.notes)


def test_variables_and_projects_are_looked_into(either, tmp_path):
    variable = either.client.places.home_variable or either.client.places.home_moved_by
    put(str(tmp_path / "moved" / FIRST["claude"][0][8:]), json.dumps({"hooks": {"Stop": [hooked(STRANGER)]}}))
    put(str(tmp_path / "moved" / FIRST["droid"][0]), json.dumps({"Stop": [hooked(STRANGER.replace("claude", "droid"))]}))
    assert either.look().scopes == ()
    assert either.look(environ={variable: str(tmp_path / "moved")}).scopes[0].events == ("Stop",)
    either.install("minimal", project=True)
    found = either.look("minimal")
    assert [(scope.scope, scope.settings) for scope in found.scopes] == [("project", either.project)] and found.problems == ()
    assert either.look(root=False).scopes == ()


def test_a_home_that_is_a_project_is_looked_into_once(place):
    place.install()
    found = hook_checks.read_and_check_hooks(CLAUDE, str(place.home), str(place.home), {}, "balanced")
    assert [scope.scope for scope in found.scopes] == ["user"] and found.problems == ()


@pytest.mark.parametrize(
    "events, tier, missing",
    [
        ("SessionStart UserPromptSubmit", "minimal", ""),
        ("UserPromptSubmit", "partly", "SessionStart"),
        ("Stop", "partly", "SessionStart UserPromptSubmit SubagentStop PreCompact SessionEnd SubagentStart"),
        ("SessionStart UserPromptSubmit Stop SubagentStop PreCompact SessionEnd", "partly", "SubagentStart"),
        ("SessionStart UserPromptSubmit Stop SubagentStop PreCompact SessionEnd SubagentStart", "balanced", ""),
        ("SessionStart UserPromptSubmit Stop SubagentStop PreCompact SessionEnd SubagentStart PreToolUse", "partly", "PostToolBatch"),
        ("SessionStart UserPromptSubmit Notification", "minimal", ""),
    ],
)
def test_which_tier_events_make_up(place, events, tier, missing):
    put(place.user, json.dumps({"hooks": {event: [hooked(STRANGER)] for event in events.split()}}))
    assert [(scope.tier, scope.missing) for scope in place.look().scopes] == [(tier, tuple(missing.split()))]


# -- what is wrong


def test_an_event_that_was_taken_out_by_hand_is_named(either):
    either.install()
    either.edit(lambda events: events.pop("Stop"))
    found = either.only_problem("no hook for Stop", either.user, f"casrewind install {either.client.name} puts it back")
    assert (found.scopes[0].tier, found.scopes[0].missing) == ("partly", ("Stop",)) and {hook.event for hook in found.tried} == {hook.event for hook in either.client.hooks_of("balanced")} - {"Stop"}


def test_the_advice_keeps_the_tier_that_was_chosen(place):
    place.install("aggressive")
    place.edit(lambda events: events.pop("PostToolBatch"))
    found = place.look("balanced")
    assert "casrewind install claude --tier aggressive puts it back" in found.problems[0]
    place.only_problem("casrewind install claude puts it back", tier="aggressive")


def test_hooks_of_a_tier_that_is_not_configured_do_nothing_and_that_is_said(either):
    either.install("aggressive")
    tools = "PreToolUse, PostToolBatch" if either.client is CLAUDE else "PreToolUse, PostToolUse"
    either.only_problem("Stop, ", tools, "configured tier is minimal", 'tier = "aggressive"', "--tier minimal", tier="minimal")
    either.only_problem(tools, "configured tier is balanced", 'tier = "aggressive"', "config.toml", "--tier balanced")
    assert either.look("aggressive").problems == ()


def test_an_interpreter_that_is_gone_is_named_and_not_run(place):
    place.install()
    put(place.user, read(place.user).replace(sys.executable.encode(), b"/elsewhere/bin/python3"))
    found = place.only_problem("/elsewhere/bin/python3, which is missing", "casrewind install claude rewrites them")
    assert found.tried == () and len(found.hooks) == 7
    place.install()
    assert place.look().problems == ()


def test_an_environment_that_is_gone_is_one_problem(place):
    place.install()
    gone = "/elsewhere/bin/python3 -I -S /elsewhere/casrewind/__main__.py hook claude"
    place.edit(lambda events: events.update(Stop=[hooked(gone)]))
    found = place.only_problem("/elsewhere/bin/python3 and /elsewhere/casrewind/__main__.py, which are missing")
    assert "Stop" not in [hook.event for hook in found.tried] and len(found.tried) == 6


def test_a_package_that_is_gone_is_named(place):
    line = f"{shlex.quote(sys.executable)} -I -S /elsewhere/casrewind/__main__.py hook claude"
    place.install()
    place.edit(lambda events: events.update({event: [hooked(line)] for event in events}))
    assert place.only_problem("/elsewhere/casrewind/__main__.py, which is missing").tried == ()


def test_hooks_of_another_installation_are_described_and_not_tried(place, tmp_path):
    other = put(str(tmp_path / "bin" / "python3"), "#!/bin/sh\n", mode=0o755)
    place.install()
    place.edit(lambda events: events.update(Stop=[hooked(f"{other} -P -m casrewind hook claude 2>/dev/null || :", timeout=30)]))
    found = place.only_problem("was not tried", "does not run this casrewind", str(other), "casrewind install claude")
    assert "Stop" not in [hook.event for hook in found.tried] and len(found.tried) == 6


def test_hooks_that_were_edited_are_noted_and_tried(place):
    place.install()
    place.edit(lambda events: events["Stop"][0]["hooks"][0].update(timeout=31))
    found = place.look()
    assert found.problems == () and len(found.notes) == 1 and "Stop in" in found.notes[0] and "casrewind install claude" in found.notes[0]
    assert len(found.tried) == 7


def test_hooks_without_the_guard_are_noted(place):
    place.install()
    place.edit(lambda events: events["Stop"][0]["hooks"][0].update(command=settings_edit.without_guard(events["Stop"][0]["hooks"][0]["command"])))
    found = place.look()
    assert found.problems == () and len(found.notes) == 1 and "Stop in" in found.notes[0] and "casrewind install claude" in found.notes[0]
    assert len(found.tried) == 7


@pytest.mark.parametrize("timeout", [True, -1, 0, "30", None, 1e300])
def test_whatever_stands_for_a_timeout_a_trial_ends(place, timeout):
    put(place.user, json.dumps({"hooks": {"Stop": [hooked(STRANGER, timeout=timeout)]}}))
    assert 0 < place.look().hooks[0].timeout == (1e300 if timeout == 1e300 else 60)


@pytest.mark.parametrize("where", ["user", "project", "local"])
def test_hooks_that_are_switched_off_are_a_problem_wherever_that_stands(place, where):
    place.install()
    path = {"user": place.user, "project": place.project, "local": str(place.root / ".claude/settings.local.json")}[where]
    document = json.loads(read(path)) if where == "user" else {}
    put(path, json.dumps({**document, "disableAllHooks": True}))
    place.only_problem('"disableAllHooks" is true', path, "runs no hooks at all", "set it to false")
    put(path, json.dumps({**document, "disableAllHooks": False}))
    assert place.look().problems == ()


@pytest.mark.parametrize(
    "text, word",
    [
        (b'{"hooks": {"Stop": [{"hooks"', "not strict JSON"), (b"\xff\xfe{}", "not UTF-8"), (b"[]", "not a JSON object"),
        (b'{"hooks": []}', "not a JSON object"), (b'{"hooks": {"Stop": {}}}', "not a list of hooks"), (b'{"a": [' + b"[" * 99999, "nested too deeply"),
        (b'{"hooks": {}, "hooks": {}}', "occurs twice"),
    ],
)  # fmt: skip
def test_settings_that_cannot_be_read_are_a_problem_and_no_more(place, text, word):
    put(place.user, text)
    found = place.only_problem(word, place.user, "try again")
    assert "nothing was changed" not in found.problems[0]
    place.install("minimal", project=True)
    assert [scope.scope for scope in place.look("minimal").scopes] == ["project"], "the others are looked at all the same"


@pytest.mark.parametrize("thing", [Dir(), Fifo()])
def test_something_that_is_no_file_is_a_problem(place, thing):
    plant(place.home, {".claude/settings.json": thing})
    place.only_problem("is not a file", place.user)


def test_settings_that_say_nothing_of_hooks_may_be_of_any_form(home, root):
    place = Place(home, root, "droid")
    put(str(home / ".factory/settings.json"), '{"model": "x", // mine\n}')
    assert place.look().problems == ()


def test_a_hook_that_stands_twice_is_a_problem(place):
    place.install()
    place.edit(lambda events: events["Stop"].append(events["Stop"][0]))
    place.only_problem("more than one hook", "Stop", place.user, "casrewind install claude leaves one")


def test_hooks_for_the_user_and_the_project_are_a_problem(place):
    place.install()
    place.install(project=True)
    place.only_problem("more than once", place.user, place.project, "casrewind uninstall claude --scope project")


def test_hooks_in_local_settings_are_found(place):
    local = str(place.root / ".claude/settings.local.json")
    put(local, json.dumps({"hooks": settings_edit.make_hook_entries(CLAUDE, "minimal") and {e: [g] for e, g in settings_edit.make_hook_entries(CLAUDE, "minimal").items()}}))
    place.install("minimal")
    found = place.only_problem("more than once", local, "by hand", tier="minimal")
    assert [(scope.scope, scope.tier) for scope in found.scopes] == [("user", "minimal"), ("local", "minimal")]


def test_scopes_that_share_no_event_are_not_there_twice(place):
    place.install("minimal")
    put(place.project, json.dumps({"hooks": {"Stop": [hooked(settings_edit.make_hook_entries(CLAUDE, "balanced")["Stop"]["hooks"][0]["command"])]}}))
    assert not any("more than once" in problem for problem in place.look().problems)


def test_the_command_of_the_client(place):
    place.install()
    path = place.home / ".claude/commands/casrewind.md"
    path.unlink()
    assert place.only_problem("/casrewind is missing in Claude Code", "casrewind install claude puts it there").command is None
    path.write_text("mine")
    found = place.look()
    assert found.problems == () and found.command is None and "a command of your own" in found.notes[0]
    path.unlink()
    path.mkdir()
    assert any("is not a file" in problem for problem in place.look().problems)


def test_droid_does_not_run_what_another_file_hides(home, root):
    place = Place(home, root, "droid")
    place.install()
    settings = str(home / ".factory/settings.json")
    put(settings, read(place.user).replace(b"{", b'{"hooks": {', 1) + b"}")
    put(place.user, json.dumps({"Stop": [{"hooks": [FOREIGN]}]}))
    found = place.only_problem("does not run the hooks of Stop", settings, place.user, "casrewind install droid")
    assert "Stop" not in [hook.event for hook in found.hooks] and found.scopes[0].missing == ("Stop",)


def test_droid_does_not_read_a_file_that_is_instead_of_another(home, root):
    place = Place(home, root, "droid")
    place.install()
    os.makedirs(home / ".factory/hooks", exist_ok=True)
    os.rename(place.user, home / ".factory/hooks/hooks.json")
    assert place.look().problems == (), "alone it counts"
    put(place.user, "{}")
    assert place.only_problem("does not read", "hooks/hooks.json", "casrewind install droid").hooks == ()


# -- plugins


def plugged(place, *, enabled=True, tier="balanced"):
    """What Claude Code 2.1.329 leaves behind when it installs a plugin."""
    directory = place.home / ".claude/plugins/cache/mine/casrewind/0.1.0"
    plugin.write_plugin(str(directory), CLAUDE, tier, __version__)
    entry = {"scope": "user", "installPath": str(directory), "version": "0.1.0"}
    listing = str(place.home / ".claude/plugins/installed_plugins.json")
    put(listing, json.dumps({"version": 2, "plugins": {"casrewind@mine": [entry], "other@mine": [{**entry, "installPath": "/x"}]}}))
    document = json.loads(read(place.user)) if os.path.exists(place.user) else {}
    put(place.user, json.dumps({**document, "enabledPlugins": {"casrewind@mine": enabled, "other@mine": True}}))
    return str(directory), listing


def test_the_plugin_is_a_scope_of_its_own(place):
    directory, _ = plugged(place)
    found = place.look()
    assert [(scope.scope, scope.tier, scope.settings) for scope in found.scopes] == [("plugin", "balanced", directory + "/hooks/hooks.json")]
    assert found.problems == () and found.command == directory + "/commands/casrewind.md" and len(found.tried) == 7


def test_a_plugin_that_is_disabled_or_not_listed_is_none(place):
    directory, listing = plugged(place, enabled=False)
    assert place.look().scopes == ()
    plugged(place)
    for data in (b"", b"[]", b'{"plugins": {"casrewind@mine": 3}}', b'{"plugins": {"casrewind@mine": [{}]}}', b"\xff"):
        put(listing, data)
        assert place.look().scopes == (), data
    plugged(place)
    shutil.rmtree(directory)
    assert place.look().scopes == ()


def test_a_plugin_whose_launcher_is_edited_or_missing_is_named_and_not_tried(place):
    directory, _ = plugged(place)
    launcher = os.path.join(directory, plugin.LAUNCHER)
    put(launcher, read(launcher) + b"# mine\n")
    found = place.only_problem("was not tried", plugin.LAUNCHER, "casrewind install claude --plugin DIR")
    assert found.tried == ()
    os.unlink(launcher)
    assert place.only_problem(launcher, "is missing", "casrewind install claude --plugin DIR").tried == ()


def test_hooks_and_plugin_both_are_a_problem(place):
    place.install()
    plugged(place)
    place.only_problem("more than once", "(plugin)", "to fix that: casrewind uninstall claude")
    place.install(project=True)
    place.only_problem("casrewind uninstall claude and casrewind uninstall claude --scope project", "(plugin)")


def test_a_plugin_that_the_real_client_installed_is_found(place, tmp_path):
    binary = claude()
    plugin.write_plugin(str(tmp_path / "shelf" / "casrewind"), CLAUDE, "minimal", __version__)
    listing = {"name": "mine", "owner": {"name": "me"}, "plugins": [{"name": "casrewind", "source": "./casrewind"}]}
    put(str(tmp_path / "shelf" / ".claude-plugin" / "marketplace.json"), json.dumps(listing))
    environ = {"HOME": str(place.home), "PATH": "/usr/bin:/bin", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1", "DISABLE_TELEMETRY": "1",
               "DISABLE_ERROR_REPORTING": "1", "DISABLE_AUTOUPDATER": "1"}  # fmt: skip

    def client(*words):
        done = subprocess.run([binary, "plugin", *words], env=environ, cwd=tmp_path, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stdout + done.stderr

    client("marketplace", "add", str(tmp_path / "shelf"))
    client("install", "casrewind@mine")
    found = place.look("minimal")
    assert [(scope.scope, scope.tier) for scope in found.scopes] == [("plugin", "minimal")] and len(found.tried) == 2
    assert found.problems == () and found.command == os.path.join(os.path.dirname(found.scopes[0].settings), "..", "commands", "casrewind.md").replace("hooks/../", "")
    client("disable", "casrewind@mine")
    assert place.look("minimal").scopes == ()


# -- what may be run of settings that may come with a clone


def evil(place):
    planted = place.root / "bin" / "python3"
    own = settings_edit.make_hook_entries(CLAUDE, "minimal")["SessionStart"]["hooks"][0]["command"]
    return [
        "touch /tmp/x; casrewind hook claude", "./casrewind hook claude", f"{planted} -P -m casrewind hook claude", own + "\nhook claude",
        f"{shlex.quote(sys.executable)} -I -S {place.root}/casrewind/__main__.py hook claude", f"$(touch x) {own}", f"{own} && casrewind hook claude",
        f"{shlex.quote(sys.executable)} -c 'import os' casrewind hook claude", "unclosed ' casrewind hook claude", f"X=1 {own}",
        f"/elsewhere/../{planted} -P -m casrewind hook claude",
        own.replace(" ", "\n", 1), f"{own} || touch x; casrewind hook claude 2>/dev/null || :", f"{planted} -P -m casrewind hook claude --resident",
    ]  # fmt: skip


@pytest.mark.parametrize("number", range(14))
def test_a_line_of_a_projects_settings_that_is_not_ours_to_the_letter_is_not_tried(place, number):
    plant(place.root, {"bin/python3": b"", "casrewind/__main__.py": b""})
    line = evil(place)[number]
    put(place.project, json.dumps({"hooks": {"SessionStart": [hooked(line)], "UserPromptSubmit": [hooked(line)]}}))
    found = place.look("minimal")
    assert found.tried == () and len(found.hooks) == 2
    assert any("was not tried" in problem or "which is missing" in problem or "which are missing" in problem for problem in found.problems), found.problems


def test_arguments_of_their_own_are_not_tried(place):
    put(place.project, json.dumps({"hooks": {"Stop": [hooked("/bin/sh", args=["-c", "touch x; casrewind hook claude"])]}}))
    assert place.look().tried == ()


@pytest.mark.parametrize("where", ["user", "project"])
def test_a_program_that_came_along_beside_the_project_is_not_tried(place, tmp_path, where):
    """A submodule has a root of its own: what the clone has beside it is not inside of that."""
    script = put(str(tmp_path / "clone" / "casrewind" / "__main__.py"), "")
    line = f"{shlex.quote(sys.executable)} -I -S {script} hook claude"
    put(getattr(place, where), json.dumps({"hooks": {"Stop": [hooked(line), hooked(f"{line} 2>/dev/null || :")]}}))
    found = place.look()
    assert found.tried == () and sum("was not tried" in problem for problem in found.problems) == 2


# -- programs


def program(tmp_path, text):
    return put(str(tmp_path / "bin" / "claude"), "#!/bin/sh\n" + text, mode=0o755)


def version(path, **environ):
    return run_program.ask_version(path, {"PATH": "/usr/bin:/bin", **environ})


@pytest.mark.parametrize(
    "said, found",
    [("2.1.329 (Claude Code)", "2.1.329"), ("0.225.2", "0.225.2"), ("v1.2", "1.2"), ("droid 3.0.0-beta.1", "3.0.0-beta.1"), ("\\n\\n 1.0.44", "1.0.44")],
)
def test_a_version_is_found_in_what_a_client_says(tmp_path, said, found):
    assert version(program(tmp_path, f"printf '{said}\\n'")) == (found, "")


@pytest.mark.parametrize(
    "text, why",
    [
        ("", "prints no version"), ("echo hello", "prints no version: hello"), ("head -c 100000 /dev/zero", "prints no version"),
        ("printf '\\033[2J1.2.3'", "prints no version"), ("echo 2.1.329; exit 3", "ends with 3"), ("echo 1.2.3 >&2; kill -9 $$", "ends with -9"),
        ("printf '1.%0100d\\n' 1", "prints no version"), ("printf '\\377\\376 1.2.3'", "prints no version"), ("cat", "prints no version"),
    ],
)  # fmt: skip
def test_what_is_no_version_is_not_taken_for_one(tmp_path, text, why):
    found, wrong = version(program(tmp_path, text))
    assert found is None and wrong.startswith(why) and len(wrong) < 400


def test_a_program_that_cannot_be_started_is_no_error(tmp_path):
    assert version(put(str(tmp_path / "x"), b"\x7fELF garbage", mode=0o755)) == (None, "cannot be started: Exec format error")
    assert version(put(str(tmp_path / "y"), "#!/no/such/interpreter\n", mode=0o755))[0] is None
    assert version(str(tmp_path))[0] is None


def run(path, seconds=1.0, data=b""):
    return run_program.run_briefly([path], cwd="/", environ={"PATH": "/usr/bin:/bin"}, seconds=seconds, data=data)


@pytest.mark.parametrize("text", ["sleep 600", "trap '' TERM HUP INT; while :; do :; done", "yes 2.1.329", "exec >&- 2>&-; sleep 600"])
def test_a_program_that_does_not_end_is_ended_with_its_children(tmp_path, text):
    mark = str(tmp_path / "pid")
    ran = run(program(tmp_path, f"sh -c 'echo $$ > {mark}; exec sleep 600' &\nwhile [ ! -s {mark} ]; do :; done\n{text}"))
    assert ran.code is None and ran.trouble == "did not end within 1 s" and len(ran.out) <= 64 << 10
    assert not is_running(int(read(mark)))


def is_running(pid):
    """A child of nobody's is taken down by the system a moment after its kill."""
    end = time.monotonic() + 10
    while time.monotonic() < end:
        try:
            with open(f"/proc/{pid}/stat") as file:
                if file.read().rpartition(")")[2].split()[0] == "Z":
                    return False
        except (FileNotFoundError, ProcessLookupError):  # the file is gone, or its process while it is read
            return False
        time.sleep(0.02)
    return True


@pytest.mark.skipif(shutil.which("setsid") is None, reason="needs setsid of util-linux")
def test_who_holds_the_pipes_in_a_session_of_its_own_is_not_waited_for(tmp_path):
    mark = str(tmp_path / "pid")
    ran = run(program(tmp_path, f"setsid sh -c 'echo $$ > {mark}; exec sleep 600' &\nwhile [ ! -s {mark} ]; do :; done\necho 1.2.3\n"), seconds=60)
    assert (ran.code, ran.out, ran.trouble) == (0, b"1.2.3\n", "")
    assert ran.milliseconds < 50_000
    os.kill(int(read(mark)), signal.SIGKILL)


def test_what_is_given_is_read_and_what_is_not_read_is_no_error(tmp_path):
    assert run(program(tmp_path, "cat"), data=b"x" * 3000).out == b"x" * 3000
    assert run(program(tmp_path, "exec <&-; echo done"), data=b"x" * 3000).out == b"done\n"


def test_relative_entries_of_the_path_find_nothing(tmp_path, monkeypatch):
    found = program(tmp_path, "")
    monkeypatch.chdir(tmp_path / "bin")
    for path in ("", ".", "bin:.", ":"):
        assert programs.find_program("claude", {"PATH": path}) is None
    assert programs.find_program("claude", {"PATH": f".:{tmp_path}/bin"}) == found
    os.chmod(found, 0o644)
    assert programs.find_program("claude", {"PATH": f"{tmp_path}/bin"}) is None and programs.find_program("claude", {}) is None


@pytest.mark.parametrize("agent", sorted(ALL))
def test_a_payload_is_read_as_the_event_that_it_is_for(agent):
    client = ALL[agent]
    for name, trigger in client.events.triggers.items():
        data = trial_event.trial_payload(client, name, "session", "/project", "/project/x.jsonl")
        environ = trial_event.trial_environment(client, {"CLAUDE_PID": "7", "CLAUDE_ENV_FILE": "/e", "HOME": "/h", "PATH": "/p"}, "/project", "/data")
        found = event.read_event(client, data, environ)
        root, path = "/project" if client.events.root_variables else None, "/project/x.jsonl" if client.events.fields["transcript"] else ""
        assert (found.name, found.trigger, found.session, found.root, found.transcript) == (name, trigger, "session", root, path)
        assert found.cwd == "/project"
        assert event.makes_checkpoint(client, found, "aggressive") and found.env_file == "" and found.command is None
        assert found.pid == (0 if agent == "claude" else found.pid)
        assert environ["CASREWIND_HOME"] == "/data" and environ["HOME"] == "/h" and environ["PATH"] == "/usr/bin:/bin"


def test_the_real_clients_tell_their_versions():
    assert version(claude(), HOME="/nowhere") == (real_clients.CLAUDE, "")
    if sys.platform == "linux":
        assert run_program.ask_version(droid(), {"PATH": "/usr/bin:/bin", "HOME": "/nowhere"}) == (real_clients.DROID, "")
