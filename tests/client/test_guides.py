"""Four guides of docs/guides/cloud-sandbox.md, as they stand there: a CI job, a devcontainer, a container whose shell ends with the agent, and
an image with a store. Each machine has the page's variables and no others. It goes away, and the real Claude Code goes on at home.

The steps of the runner, of docker and of the devcontainer tools are taken by this module: the page names them as not run."""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest
import yaml

from support import guide_page, real_clients
from support.claude_model import Model, bash
from support.containers import first_process
from support.held_proxy import HeldProxy
from support.model_server import PATIENCE
from support.s3_server import S3Server
from support.sample_start import marks_of
from support.trees import plant

pytestmark = pytest.mark.xdist_group("client-guides")

GUIDES = ("ci_job", "devcontainer", "container", "image")
PROMPT = "make the tests pass"
SIZE = 300_000
"""Bytes of the project that no start of an image sends again."""


def in_turn(name):
    """A push runs one of the guides, another one after a change of the product."""
    return pytest.mark.long if marks_of(name, GUIDES, 1) else (lambda test: test)


class World:
    """A bucket with the remote of the page, a model, and a network that has nothing else."""

    def __init__(self, tmp_path):
        self.tmp_path, self.binary, self.model = tmp_path, real_clients.claude(), Model()
        self.server = S3Server()
        self.server.ask("PUT", "/team")
        self.proxy = HeldProxy(self.server.endpoint, self.model.network, after=0)
        self.box = tmp_path / "box"
        """Where a container sees what it has."""
        self.box.mkdir()
        self.project = {"app.py": b"broken\n", "assets": os.urandom(SIZE), "install-agent.sh": self._installer()}
        self.shell = {"AWS_ACCESS_KEY_ID": "testing", "AWS_SECRET_ACCESS_KEY": "testing", "AWS_REGION": "us-east-1", "ANTHROPIC_API_KEY": "dummy"}
        home = Machine(self, "home", **self.shell)
        home.run("../shop/install-agent.sh")
        home.run(guide_page.block("sh", "at home, once: an empty project makes the remote and its key"))
        (key,) = home.home.rglob("remotes/*/key")
        self.key = self.shell["CASREWIND_REMOTE_KEY"] = key.read_text().strip()

    def stop(self):
        self.proxy.__exit__()
        self.server.stop()
        self.model.stop()
        assert self.model.strangers == [], "the client wanted something else than its model"

    def _installer(self):
        """A person's own script: the client, with this world's model instead of the usual one, and casrewind."""
        told = {
            "ANTHROPIC_BASE_URL": self.model.address, "NO_PROXY": "*", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1", "DISABLE_TELEMETRY": "1",
            "DISABLE_ERROR_REPORTING": "1", "DISABLE_AUTOUPDATER": "1", "CLAUDE_CODE_TMPDIR": "$HOME",
        }  # fmt: skip
        settings = " ".join(f'{name}="{value}"' for name, value in told.items())
        lines = {"claude": f'exec env {settings} {shlex.quote(self.binary)} "$@"', "casrewind": f'exec "{sys.executable}" -m casrewind "$@"'}
        made = [f"printf '%s\\n' '#!/bin/sh' {shlex.quote(line)} >~/.local/bin/{name}" for name, line in lines.items()]
        return "\n".join(["#!/bin/sh", "set -e", "mkdir -p ~/.local/bin", *made, "chmod +x ~/.local/bin/*", ""]).encode()

    def go_on_at_home(self, reference=""):
        """What the page says for the laptop, then the line that clone printed with one more prompt: what the client asked its model, and the
        new project."""
        laptop = Machine(self, "laptop", **self.shell)
        laptop.run("../shop/install-agent.sh")
        said = laptop.run(f"{guide_page.block('sh', 'on the laptop').rstrip()} {reference}").stdout
        assert "conversation exact" in said
        (line,) = re.findall("^continue the conversation: (claude .*)$", said, re.MULTILINE)
        asked = len(self.model.requests)
        laptop.run(f'cd shop; {line} -p "and now"')
        assert len(self.model.requests) == asked + 1
        return self.model.requests[-1], laptop.home / "shop"


class Machine:
    """A home, a project, and a shell that has what the page gives it. In a box it is a container: its shell is the first process."""

    def __init__(self, world, name, *, in_box=False, **variables):
        self.world, self.place, self.in_box = world, world.tmp_path / name, in_box
        self.home, self.project = self.place / "home", self.place / "shop"
        if not self.place.exists():
            self.home.mkdir(parents=True)
            plant(self.project, world.project)
            (self.project / "install-agent.sh").chmod(0o755)
        self.variables = {
            **variables, "LANG": "C.UTF-8", "PYTHONDONTWRITEBYTECODE": "1",
            "AWS_ENDPOINT_URL": world.proxy.endpoint, "AWS_METADATA_ENDPOINT": "http://127.0.0.1:1",  # a server of one's own has an address
            **{name: os.environ[name] for name in ("PYTHONPATH",) if name in os.environ},
        }  # fmt: skip

    def run(self, lines, directory="home", *, shell=("sh", "-euc"), code=0):
        at = self.world.box if self.in_box else self.place
        enter = f"cd {shlex.quote(str(at / directory))} && exec \"$@\""
        before = ["sh", "-c", enter, "sh"]
        if self.in_box:
            before = [*first_process(), "sh", "-c", f"mount --bind {shlex.quote(str(self.place))} {shlex.quote(str(at))} && {enter}", "sh"]
        environment = {**self.variables, "HOME": f"{at}/home", "PATH": f"{at}/home/.local/bin:{os.environ['PATH']}"}
        done = subprocess.run(
            [*self.world.model.inside, *before, *shell, lines], env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True,
            timeout=PATIENCE, check=False,
        )  # fmt: skip
        assert code is None or done.returncode == code, (lines, done)
        return done

    def started(self, name, **variables):
        """Another container of what this one has."""
        subprocess.run(["cp", "-a", str(self.place), str(self.world.tmp_path / name)], check=True)
        return Machine(self.world, name, in_box=True, **variables)


@pytest.fixture
def world(tmp_path):
    made = World(tmp_path)
    yield made
    made.stop()


def image_of(world, **secrets):
    """The image of the page."""
    image = Machine(world, "image", in_box=True, **secrets)
    image.run(guide_page.word(r"`RUN (\./[^`]+)`"), "shop")
    return image


def run_as_the_page_says(world, image, name):
    """The page's `docker run`: a container of the image, with the variables and the command that are named there."""
    given, command = guide_page.container()
    variables = {name: world.shell[name] if value is None else value for name, value in given.items()}
    return image.started(name, **variables).run(command[-1], "shop", shell=command[:-1])


@in_turn("ci_job")
def test_a_ci_job_that_failed_goes_on_at_home(world):
    """Its agent is killed in the middle of a turn, as where a job is cancelled."""
    job = yaml.safe_load(guide_page.block("yaml", ".github/workflows/agent.yml"))["jobs"]["agent"]
    given = {name: re.sub(r"\$\{\{ secrets\.(\w+) \}\}", lambda secret: world.shell[secret[1]], value) for name, value in job["env"].items()}
    runner = Machine(world, "runner", **given, CI="true", GITHUB_RUN_ID="77")
    kill = "until grep -q '\"tool_result\"' ~/.claude/projects/*/*.jsonl; do sleep 0.1; done; kill -9 $PPID; sleep 9"  # the client writes late
    world.model.script = {PROMPT: [[bash("echo mended > app.py")], [bash(kill)], ["Not reached."]]}
    failed = 0
    for step in job["steps"]:
        if "run" in step and (not failed or step.get("if") == "always()"):
            code = runner.run(step["run"], "shop", shell=("bash", "-ec"), code=None).returncode
            failed = failed or code
        assert "run" in step or step["uses"].startswith("actions/checkout@")
    assert failed
    shutil.rmtree(runner.place)
    request, project = world.go_on_at_home("77")
    assert request.prompts == [PROMPT, "and now"] and "call Bash" in request.told
    assert (project / "app.py").read_text() == "mended\n"


@in_turn("devcontainer")
def test_a_devcontainer_in_which_nobody_pushes_goes_on_at_home(world):
    (told,) = [json.loads(text) for text in guide_page.blocks("json") if "containerEnv" in text]
    given = {name: re.sub(r"\$\{localEnv:(\w+)\}", lambda local: world.shell[local[1]], value) for name, value in told["containerEnv"].items()}
    container = Machine(world, "devcontainer", in_box=True, **given, ANTHROPIC_API_KEY="dummy")
    world.model.script = {"first": [[bash("echo one > app.py")], ["One."]], "second": [[bash("echo two > app.py")], ["Two."]]}
    container.run("\n".join([
        told["onCreateCommand"], told["postCreateCommand"], "claude -p first --allowedTools Bash", "claude -p second --continue --allowedTools Bash",
        "until casrewind list --all | grep -c 'session end' | grep -q 2; do sleep 0.1; done",
        "until casrewind status | grep -q 'all checkpoints are pushed'; do sleep 0.1; done",
    ]), "shop")  # fmt: skip
    shutil.rmtree(container.place)
    request, project = world.go_on_at_home()
    assert request.prompts == ["first", "second", "and now"] and (project / "app.py").read_text() == "two\n"


@in_turn("container")
def test_a_container_that_ends_with_the_agent_goes_on_at_home(world):
    image = image_of(world)
    world.model.script = {PROMPT: [[bash("echo mended > app.py")], ["Done."]]}
    said = run_as_the_page_says(world, image, "first").stdout
    assert "all checkpoints are on s3://team/shop" in said
    shutil.rmtree(world.tmp_path / "first")
    request, project = world.go_on_at_home()
    assert request.prompts == [PROMPT, "and now"] and (project / "app.py").read_text() == "mended\n"


@in_turn("image")
def test_two_starts_of_an_image_with_a_store_send_nothing_of_it_again_and_go_on_at_home(world):
    image = image_of(world, **world.shell)
    image.run(guide_page.block("sh", "in the image, while it is built, in the project"), "shop")
    assert not [path for path in image.place.rglob("*") if path.is_file() and world.key.encode() in path.read_bytes()], "the key is in the image"
    before = world.server.objects("s3://team/shop")
    assert sum(map(len, before.values())) > SIZE
    world.server.reset()
    world.model.script = {PROMPT: [[bash("echo mended > app.py")], ["Done."]]}
    with ThreadPoolExecutor() as pool:
        said = [*pool.map(lambda name: run_as_the_page_says(world, image, name).stdout, ("first", "second"))]
    assert all("all checkpoints are on s3://team/shop" in one for one in said)
    counts, after = world.server.counts(), world.server.objects("s3://team/shop")
    new = sum(len(data) for name, data in after.items() if name not in before)
    print(f"two starts sent {counts.received:,} bytes in {counts.requests}, {len(after) - len(before)} objects of {new:,} bytes")
    assert counts.received < SIZE / 2 and new < SIZE / 2
    request, project = world.go_on_at_home()
    assert request.prompts == [PROMPT, "and now"] and (project / "app.py").read_text() == "mended\n"
    laptop = Machine(world, "laptop", **world.shell)
    names = re.findall(r"^  (image\.\w+) ", laptop.run("casrewind clone s3://team/shop --list").stdout, re.MULTILINE)
    assert len(names) == 2
    for name in names:
        assert "conversation exact, 1 prompt" in laptop.run(f"casrewind clone s3://team/shop {name} {name}").stdout
