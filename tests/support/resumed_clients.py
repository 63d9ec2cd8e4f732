"""The real clients, each started, asked and resumed in one way: for tests that say the same of several of them."""

from casrewind import agents
from support import chat_model, claude_model, codex_gemini_model
from support.claude_client import ClaudeClient, wait
from support.codex_client import CodexClient
from support.copilot_client import CopilotClient
from support.droid_client import DroidClient
from support.gemini_client import GeminiClient
from support.opencode_client import OpencodeClient
from support.pi_client import PiClient


class Claude:
    """How the client is started, asked and resumed. `shell` is its tool for commands, `call` a call of that."""

    make, shell, call = ClaudeClient, "Bash", staticmethod(claude_model.bash)

    def __init__(self, directory):
        self.client = self.make(directory)

    def install(self):
        self.client.casrewind("install", type(self).__name__.lower(), code=0)

    def say(self, prompt):
        return self.client.say(prompt)

    def resume_line(self, session):
        """The client's own words for going on in a session."""
        return agents.load_conversation_client(type(self).__name__.lower()).sessions.resume.format(session=session)

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
