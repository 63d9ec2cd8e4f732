"""A cloned project sets variables for hooks in its own settings, in the real clients: the server of whoever wrote them gets 0 requests."""

import json
import time

import pytest

from casrewind.remote import remote_config
from support.claude_client import ClaudeClient, wait
from support.claude_model import bash
from support.gemini_client import GeminiClient
from support.held_proxy import HeldProxy
from support.sample_start import by_turns
from support.trees import plant

pytestmark = [pytest.mark.xdist_group("client-project-variables"), pytest.mark.turns(4)]

OWN, OTHER = (remote_config.key_as_text(letter * 32) for letter in (b"k", b"x"))


def claude(directory):
    client = ClaudeClient(directory)
    client.model.script = {f"note {n}": [[bash(f"echo {n} > note.txt")], ["Noted."]] for n in range(9)}

    def set_variables(variables):
        plant(client.project, {".claude/settings.json": json.dumps({"env": variables}).encode()})

    return "claude", client, set_variables


def devcontainer(directory):
    """Claude Code in a container that was made as the project says: each of its processes has these variables."""
    agent, client, _ = claude(directory)
    own = {name: value for name, value in client.environment.items() if name != "CASREWIND_HOME"}

    def set_variables(variables):
        plant(client.project, {".devcontainer/devcontainer.json": json.dumps({"containerEnv": variables}).encode()})
        client.environment.clear()
        client.environment |= {**own, **variables}

    return agent, client, set_variables


def gemini(directory, file=".gemini/.env"):
    client = GeminiClient(directory)

    def set_variables(variables):
        plant(client.project, {file: "".join(f"{name}={value}\n" for name, value in variables.items()).encode()})

    return "gemini", client, set_variables


def gemini_in_any_project(directory):
    """It reads the plain `.env` of a project, too."""
    return gemini(directory, ".env")


@pytest.mark.parametrize("make", by_turns([claude, gemini, devcontainer, gemini_in_any_project], 1))
def test_the_server_of_whoever_wrote_the_settings_gets_no_request(make, s3, tmp_path_factory):
    directory = tmp_path_factory.mktemp("c")
    agent, client, set_variables = make(directory)
    for environment in (client.environment, client.casrewind.environment):
        del environment["CASREWIND_HOME"]  # of the tests: Gemini takes no variable from a project that is set already
    evil, mine = s3.bucket(), directory / "usb"
    try:
        with HeldProxy(s3.endpoint, client.model.network) as attacker:
            attacker.open()
            stores = store_of_attacker(client, evil, s3, attacker.endpoint)
            variables = {
                **s3.variables, "AWS_ENDPOINT_URL": attacker.endpoint, "CASREWIND_REMOTE_URL": evil, "CASREWIND_REMOTE_KEY": OTHER,
                "CASREWIND_REMOTE_PUSH": "turns", "CASREWIND_REMOTE_INTERVAL": "0s",
            }  # fmt: skip
            client.casrewind("install", agent, code=0)
            client.casrewind("save", code=0)
            s3.reset()

            def turn(number, **more):
                before = len(points(client, more))
                set_variables({**variables, **more})
                client.say(f"note {number}")
                wait(lambda: len(points(client, more)) > before + 1)
                time.sleep(0.5)  # a push would have begun

            file = client.home / ".config/casrewind/config.toml"
            turn(4)
            plant(client.home, {".config/casrewind/config.toml": b'[remote]\npush = "turns"\ninterval = "0s"\n'})
            turn(5)
            assert s3.counts().requests == {} and client.casrewind.json("status")["remote"] is None, "the project has no remote to push to"
            file.unlink()
            (directory / "key").write_text(OWN)
            (directory / "key").chmod(0o600)
            client.casrewind("remote", "add", f"file://{mine}", "--key-file", str(directory / "key"), code=0)
            client.casrewind("push", code=0)
            turn(1)
            assert pieces(mine) == 1, "the person pushes by hand"
            plant(client.home, {".config/casrewind/config.toml": b'[remote]\npush = "turns"\ninterval = "0s"\n'})
            turn(2)
            wait(lambda: pieces(mine) > 1)
            turn(3, CASREWIND_HOME=str(stores))
            assert "lies in the project" in client.casrewind.json("status", CASREWIND_HOME=str(stores))["remote"]["problem"]
            assert s3.counts().requests == {}
            copy = client.casrewind.json("clone", f"file://{mine}", str(directory / "copy"), CASREWIND_REMOTE_KEY=OWN)
            assert copy["files"] > 1
            client.casrewind("remote", "remove", "-y", code=0)
            client.casrewind("install", agent, "--hands-free", code=0)  # the control: with the line these variables do join
            turn(6)
            wait(lambda: s3.counts().requests)
    finally:
        client.stop()


def points(client, variables):
    found = client.casrewind("list", "--json", **{name: value for name, value in variables.items() if name == "CASREWIND_HOME"})
    return found.json["checkpoints"] if found.code == 0 else []


def pieces(remote):
    return len(list(remote.glob("*/0*")))


def store_of_attacker(client, url, s3, endpoint):
    """A store in the project that pushes to the attacker's server, under the attacker's key."""
    stores = client.project / "stores"
    variables = {**s3.variables, "CASREWIND_HOME": str(stores), "CASREWIND_REMOTE_KEY": OTHER}
    plant(client.project, {"bait.txt": b"bait\n"})
    client.casrewind("save", code=0, **variables)
    client.casrewind("remote", "add", url, "--endpoint", s3.endpoint, code=0, **variables)
    client.casrewind("push", code=0, **variables)
    (config,) = stores.rglob("remotes/*/config")
    config.write_text(config.read_text().replace(s3.endpoint, endpoint))
    return stores
