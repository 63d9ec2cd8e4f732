"""The receipt of a clone and of a restore from another machine: each lack is named, and nothing that is there.

The lacks are planted in what the clients recorded: a program, an ignored file, a changed file, lost lines of the conversation, a path.
"""

import json
import os
import shutil
import sys
from pathlib import Path

import pytest

from casrewind.agents import transcript
from casrewind.model import checkpoint as checkpoints
from casrewind.store import ledger
from casrewind.store.arrivals import read_arrival, record_arrival
from support import opencode_database
from support.command import Command
from support.other_machine import context_of
from support.recorded_session import DATA, RECORDED, Session, rows
from support.trees import plant

KEY = {"CASREWIND_REMOTE_KEY": "crk1-" + "5a" * 32}
RUN = """cd {root}/src && FOO=1 zz-build test 2>&1 | sort > zz-out; "zz-quoted" ; zz-query -c 'zz-inner; x' <<E
zz-heredoc
E
for one in zz-word; do echo "$one"; done; ./zz-own; {root}/bin/zz-path # zz-comment
"""
PLANTED = ["zz-build", "zz-query"]
VERSIONS = {"claude": "2.1.329", "codex": "0.169.0", "copilot": "1.0.102", "opencode": "1.18.33"}
"""The clients whose conversations name their version."""
IMPORT = """import json, os, sys
from pathlib import Path
sys.path[:0] = [{path!r}]
from support import opencode_database
if sys.argv[1:] == ["--version"]:
    print({version!r})
else:
    found = json.loads(Path(sys.argv[-1]).read_text())
    place = Path(os.environ["XDG_DATA_HOME"], "opencode")
    place.mkdir(parents=True, exist_ok=True)
    (place / "opencode.db").unlink(missing_ok=True)
    lines = [{{"type": "session", "id": found["info"]["id"], "info": found["info"]}}]
    lines += [{{"type": "message", "id": one["info"]["id"], "info": one["info"], "parts": one["parts"]}} for one in found["messages"]]
    opencode_database.write(place, Path({data!r}), lines)
"""


def install_client(directory, client, version):
    """A program of the client's name, which tells a version. OpenCode's imports a session, too."""
    directory.mkdir(parents=True, exist_ok=True)
    program = directory / client.program
    body = f'#!/bin/sh\necho "{version}"\n'
    if client.name == "opencode":
        body = f"#!{sys.executable}\n" + IMPORT.format(path=str(DATA.parents[1]), data=str(DATA), version=version)
    program.write_text(body)
    program.chmod(0o755)


def with_command(client, found, command):
    """The lines of a recording, whose first line of shell is another one."""
    data = "".join(json.dumps(row, separators=(",", ":")) + "\n" for row in found)
    old = transcript.commands_in_calls(data.encode(), client.sessions.shell)[0]
    once, new = json.dumps(old)[1:-1], json.dumps(command)[1:-1]
    twice, again = json.dumps(once)[1:-1], json.dumps(new)[1:-1]
    return [json.loads(line) for line in data.replace(twice, again).replace(once, new).splitlines()]


class Sandbox:
    """A machine whose agent worked, and that pushed. It is gone."""

    def __init__(self, tmp_path, agent, *options, files=()):
        self.root, home = tmp_path / "sandbox" / "shop", tmp_path / "sandbox" / "home"
        for place in (self.root, home):
            place.mkdir(parents=True)
        there = Command(self.root, home)
        self.session = session = Session(agent, there, self.root)
        install_client(home / "bin", session.client, "1.2.3")
        there.environment["PATH"] = f"{home / 'bin'}:{os.environ['PATH']}"
        plant(self.root, {"app.py": b"1", "src/x.py": b"x", ".gitignore": b".env\nnode_modules/\n*.log\nsecrets/\n"})
        (self.root / ".git").mkdir()
        plant(self.root, {".env": b"TOKEN=1", "node_modules/a.js": b"a", "x.log": b"l", "secrets/key": b"k", **dict(files)})
        there("save", code=0)
        session.write(with_command(session.client, rows(agent), RUN.format(root=self.root)))
        self.prompts = session.client.prompts(session.read())
        turn = {"turn_id": self.prompts[-1].message_id} if agent == "opencode" else {}
        leaf = {"leaf_id": self.prompts[-1].parent} if agent == "pi" else {}
        session.event("prompt", prompt=self.prompts[-1].text, **turn, **leaf)
        plant(self.root, {"app.py": b"2"})
        session.event("turn_end", **turn)
        self.url = f"file://{tmp_path}/bucket"
        there("remote", "add", self.url, "--machine", "sandbox-4", *options, code=0, **KEY)
        there("push", code=0)
        shutil.rmtree(tmp_path / "sandbox")


@pytest.fixture
def laptop(tmp_path):
    """Another home, whose clients have another version."""
    home = tmp_path / "laptop"
    home.mkdir()

    def make(client):
        install_client(home / "bin", client, "4.5.6")
        made = Command(home, home)
        made.environment["PATH"] = f"{home / 'bin'}:{os.environ['PATH']}"
        return made

    return make


def command_in(here, name):
    """The command in a project of the laptop."""
    made = Command(Path(here.home) / name, here.home)
    made.environment["PATH"] = here.environment["PATH"]
    return made


def arrival_in(shop):
    with context_of(shop) as context:
        return read_arrival(context.store.path, context.root.key)


def lose_last_lines(session, path, home):
    """Take the last message from a session here, and what follows it."""
    client = session.client
    if client.name == "opencode":
        found = [json.loads(line) for line in client.read_stored_transcript(path).splitlines()][:-1]
        os.unlink(os.path.join(home, ".local/share/opencode/opencode.db"))
        opencode_database.write(Path(home, ".local/share/opencode"), DATA, found)
        return
    lines = Path(path).read_bytes().splitlines(keepends=True)
    kinds = [client.kind_of_line(transcript.parse_object(line)) for line in lines]
    last = max(at for at, kind in enumerate(kinds) if kind not in (transcript.BOOKKEEPING, transcript.UNKNOWN))
    Path(path).write_bytes(b"".join(lines[:last]))


@pytest.mark.turns(3)
@pytest.mark.parametrize("agent", RECORDED)
def test_each_planted_lack_is_named_and_nothing_that_is_here(agent, tmp_path, laptop):
    sandbox = Sandbox(tmp_path, agent)
    client = sandbox.session.client
    here = laptop(client)
    found = here.json("clone", sandbox.url, "shop", **KEY)
    told = found["receipt"]
    chat = told["conversation"]
    assert (told["machine"], told["files"], told["exact"], told["whole"], found["complete"]) == ("sandbox-4", 3, 3, True, False)
    assert [one["path"] for one in told["not_here"]] == [".env", "secrets/"], "tools make the others again"
    assert told["programs"] == PLANTED
    named = [one["path"] for one in told["paths"]]
    assert {str(sandbox.root / "src"), str(sandbox.root / "bin/zz-path")} <= set(named)
    assert all(path.startswith(str(sandbox.root)) for path in named)
    assert (chat["agent"], chat["exact"], chat["why_not"], chat["prompts"]) == (agent, True, None, len(sandbox.prompts))
    assert chat["messages"] == chat["messages_here"] > len(sandbox.prompts)
    assert (chat["version_there"], chat["version_here"]) == (VERSIONS.get(agent, "1.2.3"), "4.5.6")

    root, shop = Path(found["root"]), command_in(here, "shop")
    assert shop.json("receipt") == {name: found[name] for name in ("receipt", "complete")}
    said = shop("receipt", code=0).out.splitlines()
    assert said[0] == "receipt: files 3 of 3 exact" and said[2] == "         not here: .env, secrets/ (ignored there, not sent)"
    assert said[1] == f"         conversation exact, {len(sandbox.prompts)} prompts ({agent} {chat['version_there']} there, 4.5.6 here)"
    assert said[3] == "         programs used there and not found here: zz-build, zz-query"
    assert said[4].startswith(f"         the conversation names {len(named)} paths of the other machine: {named[0]}") and len(said) == 5
    shop("receipt", "--strict", code=3)

    plant(root, {".env": b"mine", "secrets/x": b"y"})
    for name in PLANTED:
        (Path(here.home) / "bin" / name).symlink_to("/bin/true")
    whole = shop.json("receipt")
    assert (whole["complete"], whole["receipt"]["not_here"], whole["receipt"]["programs"]) == (True, [], [])
    shop("receipt", "--strict", code=0)

    plant(root, {"app.py": b"3"})
    (root / "src/x.py").unlink()
    assert "files 1 of 3 exact" in shop("receipt", code=3).out
    plant(root, {"app.py": b"2", "src/x.py": b"x"})
    lose_last_lines(sandbox.session, arrival_in(shop).transcript, here.home)
    done = shop("receipt", code=3)
    assert f"conversation not exact: {chat['messages'] - 1} of {chat['messages']} messages, " in done.out, done.out


@pytest.mark.parametrize("agent", ["claude", "pi"])
def test_what_is_not_to_be_sent_is_not(agent, tmp_path, laptop):
    """A remote without conversations gets no name of an ignored file either."""
    sandbox = Sandbox(tmp_path, agent, "--no-conversations")
    here = laptop(sandbox.session.client)
    found = here.json("clone", sandbox.url, "shop", **KEY)
    told = found["receipt"]
    assert (told["not_here"], told["programs"], told["paths"], found["resume"]) == ([], [], [], None)
    assert told["conversation"]["why_not"] == "it was not sent" and found["complete"] is False
    with context_of(command_in(here, "shop")) as context:
        assert not any(point.more.ignored_there or point.more.client_version for point, _ in context.store.checkpoints())


def test_a_project_that_nothing_came_into_says_so(tmp_path, laptop):
    here = laptop(Session("claude", Command(tmp_path, tmp_path), tmp_path).client)
    plant(Path(here.home) / "own", {"a": b"1"})
    own = command_in(here, "own")
    own("save", code=0)
    assert own.json("receipt") == {"receipt": None, "complete": None}
    assert own("receipt", code=0).out.startswith("nothing came from another machine with its conversation")


@pytest.mark.parametrize("agent", RECORDED)
@pytest.mark.parametrize("how", ["restore", "back", "again"])
def test_a_restore_with_the_conversation_shows_one(agent, how, tmp_path, laptop):
    """Also where the session is here already: then the conversation is a fork."""
    sandbox = Sandbox(tmp_path, agent)
    here = laptop(sandbox.session.client)
    root = Path(here.home) / "shop"
    plant(root, {"own": b"1", ".env": b"mine", ".gitignore": b".env\n"})
    (root / ".git").mkdir()
    shop = command_in(here, "shop")
    shop("save", code=0)
    shop("remote", "add", sandbox.url, "--machine", "laptop", code=0, **KEY)
    shop("pull", code=0)
    typed = ["back", "sandbox-4:@1"] if how == "back" else ["restore", "sandbox-4:last", "--both"]
    found = shop.json(*typed, "--yes")
    if how == "again":
        found = shop.json(*typed, "--yes")
        assert found["fork"]["mode"] == "fork"
    told = found["receipt"]
    assert (told["exact"], told["conversation"]["exact"]) == (told["files"], True)
    assert told["programs"] == PLANTED
    assert [one["path"] for one in told["not_here"]] == ["secrets/"], "this .env is here"
    assert "receipt: files" in shop("receipt", code=0).out
    assert "receipt" not in shop.json("restore", "last", "--yes")


def test_kept_edits_and_chosen_paths_are_no_lack(tmp_path, laptop):
    sandbox = Sandbox(tmp_path, "claude")
    here = laptop(sandbox.session.client)
    plant(Path(here.home) / "shop", {"app.py": b"mine"})
    shop = command_in(here, "shop")
    shop("save", code=0)
    shop("remote", "add", sandbox.url, "--machine", "laptop", code=0, **KEY)
    shop("pull", code=0)
    done = shop("restore", "sandbox-4:last", "--both", "--yes", "--", "src", code=0)
    assert "receipt: files 1 of 3 exact; not all were asked for, or edits were kept" in done.out


def test_a_purge_of_a_text_reaches_the_names_that_came(tmp_path, laptop):
    sandbox = Sandbox(tmp_path, "claude", files={".gitignore": b"hunt*\n.env\nsecrets/\nnode_modules/\n*.log\n", "hunter2-notes": b"n"})
    here = laptop(sandbox.session.client)
    found = here.json("clone", sandbox.url, "shop", **KEY)
    shop = command_in(here, "shop")
    assert "hunter2-notes" in [one["path"] for one in found["receipt"]["not_here"]]
    (tmp_path / "text").write_bytes(b"hunter2")
    with open(tmp_path / "text", "rb") as given:
        shop("purge", "--text", "-", "--yes", code=0, stdin=given)
    told = shop.json("receipt")["receipt"]
    assert "hunter2" not in json.dumps(told) and told["not_here"] == [{"path": "***"}]


def test_what_a_hostile_machine_names_is_bounded_and_harmless(tmp_path, laptop):
    sandbox = Sandbox(tmp_path, "claude")
    here = laptop(sandbox.session.client)
    here.json("clone", sandbox.url, "shop", **KEY)
    shop = command_in(here, "shop")
    names = ["../../etc/passwd", "/etc/passwd", "", "a" * 300, ".git/config", "a\x1b[31m\n", "..", *(f"n{number}" for number in range(5000))]
    arrival = arrival_in(shop)
    with context_of(shop) as context:
        point = context.store.checkpoint(arrival.checkpoint)
        more = point.more._replace(ignored_there="\0".join(names), client_version="\x1b[2J" + "9" * 5000)
        context.store.append(ledger.CHECKPOINT, checkpoints.encode(point._replace(id="c0dd", more=more)))
        record_arrival(context.store.path, context.root.key, arrival._replace(checkpoint="c0dd", machine="\x1b[2Jm"))
    done = shop("receipt", code=0)
    assert "\x1b" not in done.out and "passwd" not in done.out and "\\x1b[31m" in done.out and " and 36 more" in done.out
    assert len(shop.json("receipt")["receipt"]["not_here"]) == 44
