"""Who is running, on a Mac: the agents do not say which process they are, so the hook finds it out, and commands ask for it again.

The danger prevented here: a conversation is cut under an agent that writes on in it, or a rewind for one agent takes along, unsaid,
what another one is doing.
"""

import os
import signal
import socket
import sys
import traceback
from pathlib import Path

import pytest

from casrewind.agents import client_process
from casrewind.hook import handler
from support import fake_libsystem
from support.trees import plant

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="Linux answers for the Mac's library")


class AgentOnMac:
    """A process of its own that calls hooks through a shell, until it ends. Its hooks take this system for a Mac, as the test does."""

    def __init__(self, client):
        self._ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.pid = os.fork()
        if self.pid == 0:
            self._ours.close()
            self._run(lambda: self._serve(theirs, {**client.casrewind.environment, "CLAUDE_PROJECT_DIR": str(client.root)}))
        theirs.close()

    def tell(self, payload):
        """An event's hook, until it has ended."""
        self._ours.send(payload)
        assert self._ours.recv(64) == b"0"

    def end(self):
        if self.pid:
            self._ours.close()
            assert os.waitpid(self.pid, 0)[1] == 0
            self.pid = 0

    @staticmethod
    def _run(work):
        code = 1
        try:
            work()
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)

    def _serve(self, asked, environment):
        while payload := asked.recv(1 << 20):
            shell = os.fork()
            if shell == 0:
                self._run(lambda: self._call_by_shell(payload, environment))
            asked.send(b"%d" % os.waitpid(shell, 0)[1])

    def _call_by_shell(self, payload, environment):
        Path("/proc/self/comm").write_text("zsh")
        hook = os.fork()
        if hook == 0:
            self._run(lambda: self._hook(payload, environment))
        assert os.waitpid(hook, 0)[1] == 0

    def _hook(self, payload, environment):
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        os.environ.clear()
        os.environ.update(environment)
        os.chdir("/")
        given = os.memfd_create("in")
        os.write(given, payload)
        os.lseek(given, 0, os.SEEK_SET)
        os.dup2(given, 0)
        handler.handle_and_exit(["claude"])


@pytest.fixture
def mac(told):
    with fake_libsystem.installed() as found:
        yield found


@pytest.fixture
def agents(told, mac):
    """Starts an agent."""
    made = []

    def start():
        made.append(AgentOnMac(told[0]))
        return made[-1]

    yield start
    for agent in made:
        agent.end()


def session_of(client):
    return client.transcript.stem


def test_the_hook_finds_its_agent_behind_a_shell(told, casrewind, mac, agents):
    client, agent = told[0], agents()
    agent.tell(client.payload("Stop.plain", session_id=session_of(client)))
    refused = casrewind("rewrite-chat", "last", code=16).err
    assert f"still runs (process {agent.pid})" in refused
    assert casrewind.json("status")["agents"]["claude"]["running"] is True
    agent.end()
    assert casrewind.json("status")["agents"]["claude"]["running"] is False


GONE = {
    "the agent has ended": lambda mac, agent: agent.end(),
    "its number is another process's": lambda mac, agent: mac.started.update({agent.pid: (fake_libsystem.EPOCH, 1)}),
    "its number is another user's process's": lambda mac, agent: mac.of_others.add(agent.pid),
}


@pytest.mark.parametrize("how", GONE)
def test_a_conversation_is_cut_in_place_when_its_agent_is_gone_and_not_before(told, casrewind, mac, agents, how):
    client, agent, words = told[0], agents(), ("back", "1", "--chat", "--in-place", "--yes")
    agent.tell(client.payload("Stop.plain", session_id=session_of(client)))
    whole = client.transcript.read_bytes()
    assert "still runs" in casrewind(*words, code=16).err
    mac.hidden_by_sandbox.add(agent.pid)
    assert "still runs" in casrewind(*words, code=16).err, "unknown is not gone"
    mac.hidden_by_sandbox.clear()
    assert client.transcript.read_bytes() == whole
    GONE[how](mac, agent)
    assert casrewind.json(*words)["fork"]["mode"] == "in_place"


def test_of_two_agents_in_one_tree_a_rewind_for_one_names_what_the_other_does(told, root, casrewind, mac, agents):
    client, other = told[0], agents()
    session = {"session_id": "other", "transcript_path": "/nowhere.jsonl"}
    client.send(client.payload("Stop.plain", session_id=session_of(client)))
    count = len(client.points())
    other.tell(client.payload("UserPromptSubmit.prompt", prompt="hm", **session))
    client.wait_for(count + 1)
    plant(root, {"theirs": b"1"})
    found = casrewind.json("back", "--both", "--yes", "--session", session_of(client))
    assert found["foreign"] == ["theirs"]
    casrewind("undo", "--yes", code=0)
    assert (root / "theirs").read_bytes() == b"1"


def test_a_turn_runs_while_its_agent_does(told, root, casrewind, mac, agents):
    client, agent, count = told[0], agents(), len(told[0].points())
    agent.tell(client.payload("UserPromptSubmit.prompt", session_id=session_of(client), prompt="go on", prompt_id="7"))
    client.wait_for(count + 1)
    plant(root, {"half": b"1"})
    assert [turn["running"] for turn in casrewind.json("list")["turns"]][0] is True
    agent.end()
    assert [turn["running"] for turn in casrewind.json("list")["turns"]][0] is False


def test_a_process_that_does_not_tell_its_start_is_no_agent(mac):
    """A person who tries the hook in a terminal: behind the shell is login, which is root's."""
    mac.of_others.add(os.getpid())
    assert client_process.caller_behind_shell(os.getpid()) is None
    mac.of_others.clear()
    assert client_process.caller_behind_shell(os.getpid()).pid == os.getpid()
