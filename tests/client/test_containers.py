"""Claude Code as the only process of a container: its end ends every other process. With automatic push on, slow servers, and the guide's
last line, the newest turn is on the remote after each session.

The container is a namespace of processes: what its first process leaves is killed with it, as in a container of any other tool."""

import os
import subprocess

import pytest

from casrewind.remote import remote_config
from support import guide_page, real_clients
from support.claude_model import bash
from support.command_in_process import InProcess
from support.containers import first_process
from support.held_proxy import HeldProxy
from support.model_server import PATIENCE
from support.s3_server import S3Server
from support.trees import plant

pytestmark = [pytest.mark.xdist_group("client-containers"), *real_clients.at_times("containers")]

KEY = remote_config.key_as_text(b"k" * 32)
SESSIONS = 3


class Contained:
    """A project whose agent runs in a container, with automatic push to a server that needs `seconds` for each request."""

    def __init__(self, client, server, proxy):
        self.client, self.url = client, server.bucket()
        client.casrewind.environment |= {**server.variables, "CASREWIND_REMOTE_KEY": KEY}
        plant(client.casrewind.home, {".config/casrewind/config.toml": b"[remote]\nfrom_environment = true\n"})  # the proxy is another place
        client.casrewind("install", "claude", code=0)
        client.casrewind("save", code=0)
        client.casrewind("remote", "add", self.url, "--machine", "sandbox-4", code=0)
        client.environment |= {
            **server.variables, "AWS_ENDPOINT_URL": proxy.endpoint, "CASREWIND_REMOTE_KEY": KEY, "CASREWIND_REMOTE_PUSH": "turns",
            "CASREWIND_REMOTE_INTERVAL": "0s", "PATH": f"{client.install_command().parent}:{os.environ['PATH']}",
        }  # fmt: skip
        client.model.script = {f"note {number}": [[bash(f"echo {number} >> note.txt")], ["Noted."]] for number in range(1, SESSIONS + 1)}

    def session(self, number, after=""):
        """One session, then what stands behind the client in the container's command. Returns its exit code and output."""
        said = ["-p", "--output-format", "json", "--", f"please note {number}"]
        client = self.client
        line = '"$@"' + after if after else 'exec "$@"'
        command = [*client.model.inside, *first_process(), "sh", "-c", line, "sh", client.binary, "--allowedTools", "Write,Edit,Read,Bash", *said]
        done = subprocess.run(
            command, cwd=client.project, env=client.environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=PATIENCE,
            check=False,
        )  # fmt: skip
        return done.returncode, done.stdout + done.stderr

    def not_pushed(self):
        return self.client.casrewind.json("remote")["not_pushed"]

    def note_elsewhere(self, place):
        """The file that the agent writes, as a clone has it now."""
        other = InProcess(place.parent, place.parent / f"home-{place.name}", CASREWIND_REMOTE_KEY=KEY, **self.variables)
        assert other("clone", self.url, place.name, code=0)
        return (place / "note.txt").read_text()

    @property
    def variables(self):
        return {name: value for name, value in self.client.casrewind.environment.items() if name.startswith("AWS_")}


@pytest.mark.parametrize("seconds", [0.05, pytest.param(0.4, marks=pytest.mark.long), pytest.param(1.0, marks=pytest.mark.long)])
def test_the_newest_turn_is_on_the_remote_after_the_last_line_of_the_guide(start, tmp_path, seconds):
    client = start()
    last = guide_page.last_line()
    assert last.startswith("casrewind push --wait ")
    with S3Server(SECONDS_OF_A_REQUEST=str(seconds)) as server, HeldProxy(server.endpoint, client.model.network, after=0) as proxy:
        contained = Contained(client, server, proxy)
        for number in range(1, SESSIONS + 1):
            code, said = contained.session(number, f"; {last}")
            assert code == 0, said
            assert f"all checkpoints are on {contained.url}" in said
            assert contained.note_elsewhere(tmp_path / f"copy{number}") == "".join(f"{one}\n" for one in range(1, number + 1))
            assert contained.not_pushed() == 0


@pytest.mark.parametrize("seconds", [0.4, pytest.param(0.05, marks=pytest.mark.long), pytest.param(1.0, marks=pytest.mark.long)])
def test_without_that_line_the_end_of_the_container_cuts_pushes_and_the_backlog_does_not_grow(start, tmp_path, seconds):
    client = start()
    with S3Server(SECONDS_OF_A_REQUEST=str(seconds)) as server, HeldProxy(server.endpoint, client.model.network, after=0) as proxy:
        contained = Contained(client, server, proxy)
        client.environment["CASREWIND_REMOTE_WAIT"] = "4s"
        waiting = []
        for number in range(1, SESSIONS + 1):
            code, said = contained.session(number)
            assert code == 0, said
            waiting.append(contained.not_pushed())
        print(f"{seconds} s a request, checkpoints that wait after each session: {waiting}")
        made = len(client.points()) // SESSIONS
        assert waiting[-1] <= 2 * made, (waiting, made)
        assert client.casrewind("push", code=0)
        assert contained.note_elsewhere(tmp_path / "copy") == "".join(f"{one}\n" for one in range(1, SESSIONS + 1))
