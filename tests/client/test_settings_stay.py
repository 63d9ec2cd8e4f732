"""What a session was allowed does not go with its conversation: however it goes on, the real client allows what a new session may do.

The session is made with everything allowed, as in a sandbox, and its file says so wherever the format has a place for it. Where it goes
on, the client's own settings are strict, as at home. Each client is asked what it allows then: see the docstrings of the classes.
"""

import json
import os
import subprocess
import sys
import uuid

import pytest

from support import real_clients, resumed_clients
from support.claude_client import wait
from support.codex_client import Server
from support.droid_client import MODEL, Front
from support.model_server import PATIENCE
from support.offline_client import JsonProcess, OfflineClient
from support.sample_start import by_turns

pytestmark = [pytest.mark.xdist_group("client-settings-stay"), pytest.mark.turns(4)]

KEY = "crk1-" + "5a" * 32
NOT_DONE = "done.txt"
"""The file that the model's call in the measured prompt makes, if it is carried out."""


def lines_of(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def write_lines(path, lines):
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))


class Place:
    """A home with a client in it. `project`: where the measured prompt is said."""

    remembers = True
    """The client goes on with what the session was allowed, if its file is left as it is: so the measure can see it."""

    def __init__(self, directory):
        self.found = self.kind(directory)
        self.found.install()
        self.client, self.casrewind = self.found.client, self.found.client.casrewind
        self.client.model.script = {"note it": [[self.found.call("echo one > note.txt")], ["Noted."]], "try it": [self.tried(), ["Tried."]]}

    def tried(self):
        """What the model calls at the measured prompt."""
        return [self.found.call(f"echo > {NOT_DONE}")]

    def requested(self, run):
        """(names of the tools that the client offers its model, was the call carried out) at a measured prompt."""
        count, done = len(self.client.model.requests), self.client.project / NOT_DONE
        run()
        body = self.client.model.requests[count].body
        was_done = done.exists()
        done.unlink(missing_ok=True)
        return sorted(name for one in body["tools"] for name in self.names(one)), was_done

    @staticmethod
    def names(tool):
        return [tool["name"]]

    def at(self, project):
        self.client.project = project
        return self


class Claude(Place):
    """In print mode the client says its mode of permissions first, and the call is carried out or refused. Version 2.1.329 takes no mode
    from a session there, nor on a terminal."""

    kind, remembers = resumed_clients.Claude, False

    def loosen(self, session):
        path = self.client.transcript(session)
        lines = lines_of(path)
        for line in lines:
            line |= {"permissionMode": "bypassPermissions"} if line["type"] == "user" else {}
        last = next(line for line in reversed(lines) if line.get("uuid"))
        about = {name: last[name] for name in ("sessionId", "cwd", "version", "timestamp", "isSidechain")}
        allowed = {"type": "command_permissions", "allowedTools": ["Bash"]}
        lines.append({**about, "type": "attachment", "uuid": str(uuid.uuid4()), "parentUuid": last["uuid"], "attachment": allowed})
        for mode in ("acceptEdits", "auto", "bypassPermissions"):
            lines.append({"type": "permission-mode", "permissionMode": mode, "sessionId": session})
        write_lines(path, lines)

    def tighten(self):
        path = self.client.config / "settings.json"
        path.write_text(json.dumps({**json.loads(path.read_text()), "permissions": {"ask": ["Bash"], "defaultMode": "default"}}))

    def allowed(self, fork=None):
        resumed = ["--resume", fork["session_id"]] if fork else []
        words = [*self.client.model.inside, real_clients.claude(), "-p", "--output-format", "stream-json", "--verbose", *resumed, "--", "try it"]
        said = []

        def run():
            ran = subprocess.run(
                words, cwd=self.client.project, env=self.client.environment, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                timeout=PATIENCE, check=False,
            )  # fmt: skip
            said.extend(json.loads(line) for line in ran.stdout.splitlines())

        found = self.requested(run)
        return next(one["permissionMode"] for one in said if one.get("subtype") == "init"), found


class Codex(Place):
    """The client's own server says the policies of a session that it starts or resumes."""

    kind = resumed_clients.Codex

    def loosen(self, session):
        """Each of its turns has a context with `never` and `danger-full-access`: the client writes them."""
        assert '"danger-full-access"' in self.client.transcript(session).read_text()

    def tighten(self):
        path = self.client.config / "config.toml"
        text = path.read_text().replace('approval_policy = "never"', 'approval_policy = "on-request"')
        path.write_text(text.replace('sandbox_mode = "danger-full-access"', 'sandbox_mode = "read-only"'))

    def allowed(self, fork=None):
        with Server(self.client) as server:
            asked = ("thread/resume", {"threadId": fork["session_id"]}) if fork else ("thread/start", {})
            answer = server.ask(asked[0], cwd=str(self.client.project), **asked[1])
        return [answer["approvalPolicy"], answer["sandbox"]["type"], answer["approvalsReviewer"]]


class Opencode(Place):
    """On a terminal the client shows the agent that it goes on with, offers its model the tools of that, and asks before the call, or
    carries it out."""

    kind = resumed_clients.Opencode

    def loosen(self, session):
        import sqlite3
        from contextlib import closing

        rules = json.dumps([{"permission": "*", "pattern": "*", "action": "allow"}])
        with closing(sqlite3.connect(self.client.database)) as opened, opened:
            opened.execute("update session set permission = ? where id = ?", (rules, session))
            opened.execute("update message set data = json_set(data, '$.tools', json('{\"bash\": true}')) where data like '%\"user\"%'")

    def tighten(self):
        path = self.client.config / "opencode.json"
        path.write_text(json.dumps({**json.loads(path.read_text()), "permission": {"bash": "ask", "edit": "ask"}, "default_agent": "plan"}))

    @staticmethod
    def names(tool):
        return [tool["function"]["name"]]

    def allowed(self, fork=None):
        screens = []

        def run():
            terminal = self.client.terminal(*(["--session", fork["session_id"]] if fork else []))
            wait(terminal.screen, lambda screen: " · Mock Mock" in screen and (fork is None or "Noted." in screen), terminal.screen)
            terminal.type("try it")
            screens.append(terminal.until(terminal.screen, lambda screen: "Permission required" in screen or "Tried." in screen))
            terminal.kill()

        found = self.requested(run)
        return screens[0].rpartition("▣")[2].split()[0], found


class Gemini(Place):
    """In print mode the client offers its model the tools that need no question, and carries a call out, or refuses it; so it does with a
    file outside of the project. There it takes neither a mode nor directories from a session."""

    kind, remembers = resumed_clients.Gemini, False

    def loosen(self, session):
        path = self.client.transcript(session)
        first, *rest = lines_of(path)
        loose = {"approvalMode": "yolo", "directories": ["/"]}
        write_lines(path, [{**first, **loose}, *rest, {"$set": loose}])

    def tighten(self):
        """Its settings are strict but for the flag -y."""

    @staticmethod
    def names(tool):
        return [one["name"] for one in tool["functionDeclarations"]]

    def tried(self):
        return [self.found.call(f"echo > {NOT_DONE}"), resumed_clients.codex_gemini_model.call("read_file", file_path="/etc/hostname")]

    def allowed(self, fork=None):
        is_moved = fork is not None and "to" in self.client.project.parts
        session = [] if fork is None else ["--session-file", fork["path"]] if is_moved else ["-r", fork["session_id"]]
        words = ["-m", "gemini-2.5-flash", "-o", "json", *session, "-p", "try it"]
        found = self.requested(lambda: self.client.finish(OfflineClient.start(self.client, *words), None))
        return found, "Path not in workspace" in str(self.client.model.requests[-1].body["contents"][-1])


class Copilot(Place):
    """The tools that the client offers its model tell its mode (autopilot has one more), and the call is carried out or refused."""

    kind = resumed_clients.Copilot

    def loosen(self, session):
        path = self.client.transcript(session)
        lines = lines_of(path)
        approved = {"kind": "approved-for-session", "approval": {"kind": "commands", "commandIdentifiers": ["echo"]}}
        asked = {"kind": "shell", "fullCommandText": "echo", "intention": "x", "commands": [{"identifier": "echo", "readOnly": False}],
                 "possiblePaths": [], "possibleUrls": [], "hasWriteFileRedirection": True, "canOfferSessionApproval": True}  # fmt: skip
        planted = [
            ("session.mode_changed", {"previousMode": "interactive", "newMode": "autopilot"}),
            ("session.permissions_changed", {"previousMode": "manual", "mode": "allow-all"}),
            ("session.remote_steerable_changed", {"remoteSteerable": True}),
            ("session.mode_notice_delivered", {"mode": "autopilot"}),
            ("subagent.selected", {"agentName": "any", "agentDisplayName": "any", "tools": None}),
            ("permission.requested", {"requestId": "r", "permissionRequest": asked, "agentMode": "autopilot"}),
            ("permission.completed", {"requestId": "r", "result": approved}),
        ]
        at = next(at for at, line in enumerate(lines) if line["type"] == "assistant.turn_end") + 1
        after = lines[at]
        for kind, data in planted:
            line = {"type": kind, "data": data, "id": str(uuid.uuid4()), "timestamp": after["timestamp"], "parentId": after["parentId"]}
            lines.insert(at, line)
            at, after["parentId"] = at + 1, line["id"]
        for line in lines:
            if line["type"] == "user.message":
                line["data"]["agentMode"] = "autopilot"
        write_lines(path, lines)
        about = path.with_name("workspace.yaml")
        about.write_text(about.read_text() + "remote_steerable: true\npermission_mode: allow-all\n")

    def tighten(self):
        """Its settings are strict but for the flag --allow-all-tools."""

    @staticmethod
    def names(tool):
        return [tool["function"]["name"]]

    def allowed(self, fork=None):
        words = ["-p", "try it"] if fork is None else [f"--resume={fork['session_id']}", "-p", "try it"]
        return self.requested(lambda: self.client.finish(self.client.start(*words), None))


class Pi(Place):
    """The client asks for nothing. It offers its model the same tools."""

    kind, remembers = resumed_clients.Pi, False

    def loosen(self, session):
        path = self.client.transcript(session)
        lines = lines_of(path)
        loose = {"type": "custom", "customType": "gate", "data": {"permissionMode": "off"}, "id": "0a0a0a0a", "parentId": lines[-1]["id"],
                 "timestamp": lines[-1]["timestamp"]}  # fmt: skip
        write_lines(path, [{**lines[0], "trusted": True}, *lines[1:], loose])

    def tighten(self):
        """It has no such settings."""

    def allowed(self, fork=None):
        return self.requested(lambda: self.client.print("try it", *(["--session", fork["session_id"]] if fork else [])))[0]


class Droid(Place):
    """The client tells its front ends the settings of a session that it starts or loads."""

    kind = resumed_clients.Droid

    def loosen(self, session):
        """The session's own front end said that it may do all: the client writes it down."""
        path = self.client.transcript(session).with_suffix(".settings.json")
        held = json.loads(path.read_text())
        assert held["autonomyLevel"] == "high"
        path.write_text(json.dumps({**held, "allowSubagentsInScripts": True, "additionalToolIds": ["any"], "later": "any"}))

    def tighten(self):
        """Its settings are strict."""

    def allowed(self, fork=None):
        front = Front.__new__(Front)
        JsonProcess.__init__(front, self.client, "exec", "--input-format", "stream-jsonrpc", "--output-format", "stream-jsonrpc")
        front._asked = 0
        asked = ("load_session", {"sessionId": fork["session_id"]}) if fork else (
            "initialize_session", {"machineId": "test", "cwd": str(self.client.project), "modelId": MODEL}
        )  # fmt: skip
        held = front.ask(asked[0], **asked[1])["settings"]
        front.kill()
        return {name: one for name, one in held.items() if name not in ("modelId", "reasoningEffort")}


def ended(place, session):
    """The last checkpoint at the end of a turn of a session."""
    return wait(lambda: [one for one in place.client.points() if one["trigger"] == "turn_end" and one["session"] == session])[-1]


SORTS = [
    *by_turns([Codex, Gemini, Copilot, Pi, Droid], 1),
    pytest.param(Claude, marks=pytest.mark.long),  # it takes no mode from a session: see its docstring
    pytest.param(Opencode, marks=pytest.mark.long),  # 130 s, and half of that on an idle machine: its window starts ten times
]


@pytest.mark.parametrize("sort", SORTS, ids=lambda sort: sort.__name__)
def test_a_conversation_brings_no_permission_along(sort, tmp_path_factory):
    first, elsewhere = sort(tmp_path_factory.mktemp("s")), tmp_path_factory.mktemp("e")
    here = first.casrewind
    here("save", code=0)  # the first one of a project would be left to another process
    session = first.found.say("please note it")
    first.loosen(session)
    first.found.say("and more", session)
    point = ended(first, session)
    here("remote", "add", f"file://{elsewhere}/remote", "--machine", "sandbox", code=0, CASREWIND_REMOTE_KEY=KEY)
    here("push", code=0)
    words = [sys.executable, "-m", "casrewind", "-C", str(first.client.project), "export", "--plain"]
    with open(elsewhere / "all.export", "wb") as file:
        subprocess.run(words, env=here.environment, stdout=file, timeout=PATIENCE, check=True)
    first.found.say("something else")  # another session is the newest one
    made = {
        "back --session": here.json("back", here.turn("and more"), "--chat", "--yes", "--session", session)["fork"],
        "restore --both": here.json("restore", point["id"], "--both", "--yes")["fork"],
        "--to --both": here.json("restore", point["id"], "--to", str(elsewhere / "to"), "--both")["written"][0]["fork"],
    }

    first.tighten()
    project, new = first.client.project, first.allowed()
    for way, fork in made.items():
        assert first.at(elsewhere / "to" if way == "--to --both" else project).allowed(fork) == new, way
    own = first.at(project).allowed({"session_id": session})
    assert (own != new) is sort.remembers, "the session itself goes on as the client likes"
    first.client.stop()

    second = sort(tmp_path_factory.mktemp("s"))
    second.tighten()
    cloned = second.casrewind.json("clone", f"file://{elsewhere}/remote", str(elsewhere / "shop"), CASREWIND_REMOTE_KEY=KEY)
    assert cloned["problems"] == [] and cloned["resume"].endswith(session)
    new = second.at(elsewhere / "shop").allowed()
    assert second.allowed({"session_id": session}) == new, "clone"
    second.client.stop()

    third = sort(tmp_path_factory.mktemp("s"))
    third.tighten()
    third.casrewind("save", code=0)
    third.casrewind("import", str(elsewhere / "all.export"), code=0)
    brought = third.casrewind.json("restore", point["id"], "--both", "--yes")["fork"]
    assert brought["session_id"] == session and brought["mode"] == "handed_over"
    new = third.allowed()
    assert third.allowed(brought) == new, "import"
    third.client.stop()


@real_clients.further("codex")
def test_a_session_of_codex_that_continues_another_file_may_do_less_and_its_line_says_what_is_missing(tmp_path):
    """Codex takes the approval of the other file's last turn, which is its own and may do anything."""
    place = Codex(tmp_path)
    place.casrewind("save", code=0)
    session = place.found.say("please note it")
    with Server(place.client) as server:
        session = server.ask("thread/fork", threadId=session)["thread"]["id"]
    place.found.say("and more", session)
    place.found.say("and again", session)
    place.tighten()
    assert place.allowed({"session_id": session})[:2] == ["never", "dangerFullAccess"]
    made = place.casrewind.json("back", "1", "--both", "--yes", "--session", session)["fork"]
    assert made["resume"] == f"codex resume -a on-request -s read-only {made['session_id']}"
    assert place.allowed(made)[:2] == ["untrusted", "readOnly"]
    place.client.stop()
