"""A conversation goes on in another home and at another path, in the real client: exactly the old turns, tools run there.

Home and project of the machine that worked first are removed before the second one begins.
"""

import os
import shutil
from types import SimpleNamespace

import pytest

from casrewind.agents.codex import CLIENT as codex
from casrewind.ops import conversation_rest, restore_to, rewind
from support import chat_model, claude_model, codex_gemini_model, real_clients
from support.claude_client import ClaudeClient, wait
from support.codex_client import CodexClient, Server
from support.copilot_client import CopilotClient
from support.droid_client import DroidClient
from support.gemini_client import GeminiClient
from support.opencode_client import OpencodeClient
from support.other_machine import bring, context_of, take_away
from support.picture import differences, picture
from support.pi_client import PiClient
from support.sample_start import by_turns

pytestmark = pytest.mark.xdist_group("client-hand-over")


class Claude:
    """How the client is started, asked and resumed. `shell` is its tool for commands, `call` a call of that."""

    make, shell, call = ClaudeClient, "Bash", staticmethod(claude_model.bash)

    def __init__(self, directory):
        self.client = self.make(directory)

    def install(self):
        self.client.casrewind("install", type(self).__name__.lower(), code=0)

    def say(self, prompt):
        return self.client.say(prompt)

    def resume(self, line, prompt):
        """Go on by the line that casrewind printed."""
        return self.client.resume(line, prompt)


class Pi(Claude):
    make, shell = PiClient, "bash"

    @staticmethod
    def call(command):
        return claude_model.call("bash", command=command)

    def say(self, prompt):
        return self.client.print(prompt)


class Codex(Claude):
    make, shell = CodexClient, "exec_command"

    @staticmethod
    def call(command):
        return codex_gemini_model.call("exec_command", cmd=command)

    def install(self):
        super().install()
        self.client.trust()

    def resume(self, line, prompt):
        assert line.startswith("codex resume ")
        return self.client.say(prompt, line.split()[-1])


class Gemini(Codex):
    make, shell = GeminiClient, "run_shell_command"

    @staticmethod
    def call(command):
        return codex_gemini_model.call("run_shell_command", command=command)

    install = Claude.install

    def resume(self, line, prompt):
        assert line.startswith("gemini --resume ")
        return self.client.say(prompt, line.split()[-1])


class Copilot(Claude):
    make, shell = CopilotClient, "bash"

    @staticmethod
    def call(command):
        return chat_model.call("bash", command=command, description="side effects")


class Opencode(Copilot):
    make = OpencodeClient


class Droid(Claude):
    make, shell = DroidClient, "Execute"

    @staticmethod
    def call(command):
        return claude_model.call("Execute", command=command, summary="x", riskLevel="low", riskLevelReason="small")

    def say(self, prompt):
        front = self.client.front()
        wait(self.client.points)
        front.say(prompt)
        front.close()

    def resume(self, line, prompt):
        """In print mode, which has no event for a prompt: a front end takes the model from a file that does not come along."""
        assert line.startswith("droid --resume ")
        return self.client.print(prompt, "-s", line.split()[-1])


@pytest.fixture(scope="module", params=[Claude, *by_turns([Codex, Pi, Copilot, Gemini, Opencode, Droid], 1)], ids=lambda kind: kind.__name__)
def told(request, tmp_path_factory):
    """One turn at the first place, which is gone then; at the second place the client is resumed and writes where it is."""
    directory = tmp_path_factory.mktemp("o")
    first = request.param(directory)
    first.install()
    first.client.model.script = {"note it": [[first.call("echo one > note.txt")], ["Noted."]]}
    first.client.casrewind("save", code=0)  # the first one of a project would be left to another process
    first.say("please note it")
    wait(first.client.points, lambda found: any(point["trigger"] == "turn_end" for point in found))
    with context_of(first.client.casrewind) as context:
        conversation_rest.store_rest(context, transcripts=True)  # Copilot writes its session when it ends
    store = take_away(first.client.casrewind, directory / "sent")
    first.client.stop()
    before = picture(first.client.project)
    for place in (first.client.home, first.client.project):
        shutil.rmtree(place)
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    second = request.param(elsewhere)
    second.install()
    here = second.client.casrewind
    point = bring(store, here)[-1]
    with context_of(here) as context:
        restore_to.materialise(context, point, str(elsewhere / "files"))
        shutil.copytree(elsewhere / "files", second.client.project, dirs_exist_ok=True)
        chat = rewind.hand_over(context, context.store.checkpoint(point.id))
    after = picture(second.client.project)
    second.client.model.script = {"where are we": [[second.call("pwd > where.txt")], ["There."]]}
    second.resume(chat.resume, "where are we")
    requests = list(second.client.model.requests)
    yield SimpleNamespace(first=first, second=second, before=before, after=after, chat=chat, point=point, requests=requests)
    second.client.stop()


def test_the_client_goes_on_with_exactly_the_old_turns(told):
    shell = told.second.shell
    old = ["user: please note it", f"call {shell}", "result", "assistant: Noted."]
    assert told.requests[0].told == [*old, "user: where are we"]
    assert told.chat.session == told.point.session
    if not isinstance(told.second, Opencode):  # it keeps its sessions in a database
        assert os.stat(told.chat.path).st_mode & 0o777 == 0o600


def test_its_tools_run_at_the_new_place(told):
    assert (told.second.client.project / "where.txt").read_text().strip() == os.path.realpath(told.second.client.project)


def test_back_goes_to_before_the_prompt_there(told):
    found = differences(told.before, told.after)
    assert {path for path in found if not path.startswith(b".git")} == set()
    words = ["restore", told.point.id] if isinstance(told.second, Droid) else ["back", "1"]
    report = told.second.client.casrewind.json(*words, "--both", "--yes")
    assert report["prompts"] == ["where are we"] and not (told.second.client.project / "where.txt").exists()
    told.second.resume(report["fork"]["resume"], "and now")
    assert told.second.client.model.requests[-1].told[-2:] == ["assistant: Noted.", "user: and now"]
    assert told.second.client.casrewind.json("verify")["ok"]


@real_clients.further("codex")
def test_codex_goes_on_in_a_session_that_was_rewound_in_it(tmp_path_factory):
    """It writes another file for the session. That file refers to the first one, which comes along."""
    first = CodexClient(tmp_path_factory.mktemp("x"))
    first.casrewind("install", "codex", code=0)
    first.trust()
    first.casrewind("save", code=0)
    session = first.say("first of three")
    for prompt in ("second of three", "third of three"):
        first.say(prompt, session)
    turn = codex.prompts(first.transcript(session).read_bytes())[1].prompt_id
    with Server(first) as server:
        server.ask("thread/resume", threadId=session)
        server.ask("thread/revert", threadId=session, beforeTurnId=turn)
    first.say("instead", session)
    store = take_away(first.casrewind, tmp_path_factory.mktemp("s") / "sent")
    first.stop()
    shutil.rmtree(first.home)
    second = CodexClient(tmp_path_factory.mktemp("x"))
    point = bring(store, second.casrewind)[-1]
    with context_of(second.casrewind) as context:
        assert rewind.hand_over(context, point).session == session
    second.say("and on", session)
    assert second.model.requests[-1].told == [
        "user: first of three", "assistant: OK.", "user: instead", "assistant: OK.", "user: and on",
    ]  # fmt: skip
    second.stop()
