"""The real clients, each installed, asked, killed and resumed in one way. What is special about a client stands in its class.

`lacks` names the questions of tests/client/test_contract.py that a client is not asked, each with the reason: such a test is skipped
with these words, so that the gap is seen.
"""

import contextlib
import os
import re
import signal

from casrewind import agents
from support import chat_model, claude_model, codex_gemini_model, real_clients
from support.claude_client import ClaudeClient, wait
from support.codex_client import CodexClient, Server
from support.copilot_client import CopilotClient
from support.droid_client import DroidClient
from support.gemini_client import GeminiClient
from support.opencode_client import OpencodeClient
from support.pi_client import PiClient


class Claude:
    """A client that is a process for each prompt. `shell` is its tool for commands, `call` a call of that."""

    make, shell, call = ClaudeClient, "Bash", staticmethod(claude_model.bash)
    version = None
    """What `doctor` says of it; None = its program is not on the PATH."""
    settings = ("settings.json", b'{"theme" :  "dark",\n\t"env": {"A": "\\u00e9"},"hooks":{"Stop":[{"hooks":[{"type":"command","command":"true"}]}]}  }')
    """A file below the client's directory, and what the person had in it."""
    last = "session_end"
    """The last checkpoint of a prompt. It may be made when the client has ended."""
    own_lines = 1
    """Lines of a fork that are not the original's, but for the session's id."""
    stop = signal.SIGKILL
    """What ends a client in the middle of a tool."""
    calls_home = False
    """It asks its model's server for more than answers."""
    never_rewritten = ""
    """What is said where a session is not cut in place."""
    lacks = {"test_a_command_typed_in_the_client_is_answered_without_the_model": "it is typed on a terminal: test_typed.py"}

    def __init__(self, directory):
        self.client = self.make(directory)
        self.name = type(self).__name__.lower()
        self.adapter = agents.load_conversation_client(self.name)

    def files(self, alpha):
        """The calls that create a file, and the calls that edit it."""
        return (
            claude_model.call("Write", file_path=alpha, content="alpha v1\n"),
            [claude_model.call("Read", file_path=alpha), claude_model.call("Edit", file_path=alpha, old_string="v1", new_string="v2")],
        )

    def install(self, *more):
        return self.client.casrewind("install", self.name, *more, code=0).out

    def run(self, prompt, session=None):
        """One prompt, to its end; the session's id where the client says it."""
        return self.client.say(prompt, *([] if session is None else ["--resume", session]))["session_id"]

    def say(self, prompt, session=None):
        """The same, to the last checkpoint of it; the session's id."""
        ended = self._ended()
        found = self.run(prompt, session)
        wait(self._ended, lambda number: number > ended)
        return found or self.client.points()[-1]["session"]

    def _ended(self):
        return [point["trigger"] for point in self.client.points()].count(self.last)

    @contextlib.contextmanager
    def talk(self, session=None):
        """A session in which one prompt after another is said."""
        yield Talk(self, session)

    def kill(self, prompt, session, seen):
        """Say a prompt in a session, and end the client when `seen()`."""
        running = self.start(prompt, session)
        wait(seen)
        os.killpg(running.pid, self.stop)
        running.communicate(timeout=60)

    def start(self, prompt, session):
        return self.client.start(prompt, "--resume", session)

    def resume_line(self, session):
        """The client's own words for going on in a session."""
        return self.adapter.sessions.resume.format(session=session)

    def resume(self, line, prompt):
        """Go on by the line that casrewind printed; the session's id where the client says it."""
        return self.client.resume(line, prompt)["session_id"]

    def resume_moved(self, fork, prompt):
        """The same where the project has moved."""
        self.resume(fork["resume"], prompt)

    def original(self, session):
        """All that the client keeps of a session, to compare it."""
        return self.client.transcript(session).read_bytes()

    def prompts(self, session):
        return [prompt.text for prompt in self.adapter.prompts(self.original(session))]

    def fork(self, report):
        """The transcript of a fork."""
        with open(report["fork"]["path"], "rb") as file:
            return file.read()


class Talk:
    """A session of a client that is a process for each prompt."""

    def __init__(self, person, session):
        self._person, self.session = person, session

    def say(self, prompt):
        self.session = self._person.say(prompt, self.session)


class FrontTalk:
    """A session of a client that is one process."""

    def __init__(self, front, session):
        self.front, self.session, self.say = front, session, front.say


class Codex(Claude):
    make, shell, version = CodexClient, "exec_command", real_clients.CODEX
    settings = ("hooks.json", b'{ "hooks": {"Stop" :[{"hooks":[{"type":"command","command":"true","timeout":5}]}],\n\t"Interrupt":[]  } }')
    last, own_lines, stop = "turn_end", 0, signal.SIGINT
    never_rewritten = "leave --in-place out"
    lacks = {}

    @staticmethod
    def call(command):
        return codex_gemini_model.call("exec_command", cmd=command)

    def files(self, alpha):
        return self.call(f"echo alpha v1 > {alpha}"), [self.call(f"sed -i s/v1/v2/ {alpha}")]

    def install(self, *more):
        said = super().install(*more)
        self.client.trust()
        return said

    def run(self, prompt, session=None):
        return self.client.say(prompt, session)

    def start(self, prompt, session):
        return self.client.start(prompt, "resume", session)

    def resume(self, line, prompt):
        assert line.startswith("codex resume ")
        return self.client.say(prompt, line.split()[-1])

    def type_command(self, session, command):
        """What the client answers to a command typed in a session."""
        with Server(self.client) as server:
            server.ask("thread/resume", threadId=session)
            said = server.say(session, command)
        ran = [message["params"]["run"] for message in said if message.get("method") == "hook/completed"]
        return str([run for run in ran if run["eventName"] == "userPromptSubmit"])


class Gemini(Codex):
    make, shell, version = GeminiClient, "run_shell_command", real_clients.GEMINI
    settings = ("settings.json", None)  # it has one
    never_rewritten = ""

    @staticmethod
    def call(command):
        return codex_gemini_model.call("run_shell_command", command=command)

    def files(self, alpha):
        return codex_gemini_model.call("write_file", file_path=alpha, content="alpha v1\n"), [self.call(f"sed -i s/v1/v2/ {alpha}")]

    install = Claude.install

    def start(self, prompt, session):
        return self.client.start(prompt, "-r", session)

    def resume(self, line, prompt):
        assert line.startswith("gemini --resume ")
        return self.client.say(prompt, line.split()[-1])

    def resume_moved(self, fork, prompt):
        """The client finds sessions by the project's path, so there it is given the file."""
        self.client.finish(self.client.start(prompt, "--session-file", fork["path"]))

    def type_command(self, session, command):
        return str(self.client.answer(command, session)["warnings"])


class Copilot(Claude):
    make, shell, version = CopilotClient, "bash", real_clients.COPILOT
    settings = ("hooks/other.json", b'{"version": 1, "hooks": {}}')
    last, own_lines = "turn_end", 0
    lacks = {}

    @staticmethod
    def call(command):
        return chat_model.call("bash", command=command, description="side effects")

    def files(self, alpha):
        return chat_model.call("create", path=alpha, file_text="alpha v1\n"), [chat_model.call("edit", path=alpha, old_str="v1", new_str="v2")]

    def run(self, prompt, session=None):
        self.client.say(prompt, *([] if session is None else [f"--resume={session}"]))

    def start(self, prompt, session):
        return self.client.start("--allow-all-tools", f"--resume={session}", "-p", prompt)

    def resume(self, line, prompt):
        self.client.resume(line, prompt)

    def type_command(self, session, command):
        return self.client.say(command, f"--resume={session}", code=None)


class Opencode(Copilot):
    make, version = OpencodeClient, real_clients.OPENCODE
    settings = ("plugins/other.js", b"export const Other = async () => ({})\n")
    own_lines = None  # each message has a new id
    never_rewritten = "only it writes there"
    lacks = {
        "test_a_command_typed_in_the_client_is_answered_without_the_model": "it has no answer that withholds a prompt: /casrewind is one",
    }

    def files(self, alpha):
        return chat_model.call("write", filePath=alpha, content="alpha v1\n"), [
            chat_model.call("read", filePath=alpha), chat_model.call("edit", filePath=alpha, oldString="v1", newString="v2"),
        ]  # fmt: skip

    def run(self, prompt, session=None):
        self.client.say(prompt, *([] if session is None else ["--session", session]))

    def start(self, prompt, session):
        return self.client.start("run", "--session", session, prompt)

    def original(self, session):
        return self.client.rows(session)

    def prompts(self, session):
        return [prompt.text for prompt in self.adapter.prompts(self._read(f"{self.client.database}.sessions/{session}.jsonl"))]

    def fork(self, report):
        return self._read(report["fork"]["path"])

    def _read(self, path):
        return self.adapter.read_stored_transcript(str(path))


class Pi(Claude):
    make, shell, version = PiClient, "bash", real_clients.PI
    settings = ("extensions/other.js", b"export default () => {}\n")
    own_lines = 2  # its header, and its title
    lacks = {}

    @staticmethod
    def call(command):
        return claude_model.call("bash", command=command)

    def files(self, alpha):
        edit = claude_model.call("edit", path=alpha, edits=[{"oldText": "v1", "newText": "v2"}])
        return claude_model.call("write", path=alpha, content="alpha v1\n"), [edit]

    def run(self, prompt, session=None):
        self.client.print(prompt, *([] if session is None else ["--session", session]))

    @contextlib.contextmanager
    def talk(self, session=None):
        front = self.client.front(*([] if session is None else ["--session", session]))
        wait(self.client.points)  # the first save of a project is left to another process
        yield FrontTalk(front, front.session())
        front.close()

    def kill(self, prompt, session, seen):
        front = self.client.front("--session", session)
        front.send("prompt", message=prompt)
        wait(seen)
        front.kill()

    def resume(self, line, prompt):
        assert self.client.resume(line, prompt).strip(), "the client answers"

    def type_command(self, session, command):
        with self.talk(session) as talk:
            return talk.front.order(command)


class Droid(Claude):
    make, shell, version = DroidClient, "Execute", real_clients.DROID
    settings = ("hooks.json", b'{ "Stop" :[{"hooks":[{"type":"command","command":"true"}]}],\n\t"Notification":[]  }')
    calls_home, lacks = True, {}

    @staticmethod
    def call(command):
        return claude_model.call("Execute", command=command, summary="x", riskLevel="low", riskLevelReason="small")

    def files(self, alpha):
        return claude_model.call("Create", file_path=alpha, content="alpha v1\n"), [
            claude_model.call("Read", file_path=alpha), claude_model.call("Edit", file_path=alpha, old_str="v1", new_str="v2"),
        ]  # fmt: skip

    def run(self, prompt, session=None):
        """In print mode, which has no event for a prompt."""
        return self.client.print(prompt, *([] if session is None else ["-s", session]))["session_id"]

    def say(self, prompt, session=None):
        with self.talk(session) as talk:
            talk.say(prompt)
        return talk.session

    @contextlib.contextmanager
    def talk(self, session=None):
        front = self.client.front(session)
        wait(self.client.points)  # nobody waits for the first save of a project when a session starts
        yield FrontTalk(front, front.session)
        front.close()

    def kill(self, prompt, session, seen):
        front = self.client.front(session)
        front.send("add_user_message", text=prompt)
        wait(seen)
        front.kill()

    def resume(self, line, prompt):
        """In print mode: a front end takes the model from a file that does not come along."""
        assert re.fullmatch("droid --resume [0-9a-f-]+", line)
        return self.run(prompt, line.split()[-1])

    def type_command(self, session, command):
        with self.talk(session) as talk:
            return str(talk.say(command))


ALL = (Claude, Droid, Pi, Codex, Gemini, Copilot, Opencode)
