"""Run the terminal sessions that stand in the documents, and write into them what was really shown; draw docs/tutorial.svg.

`python docs/generate_sessions.py` does it for all of SESSIONS, `--check` only says where something else is shown now. In a document:

* ```console: the lines that begin with `$ ` are run in order, by one shell in a scratch home; below each is what it shows, standard
  error included. A line `...` stands for any lines. `# exit N` at a command's end says that it does not end with 0.
* ```sh: the same without output, if it has a command of casrewind's (not the blocks that install it: tests/client/test_newcomer.py).
* ```text that begins with `> /casrewind`: typed in the client, and what that shows (the hook's answer). A line with `yes` and a code
  is typed with the code that the answer above it has.
* `<!-- project -->`: from here on a new home, and a small project in it; `<!-- project: NAME -->`: a tree of that name, and no
  command of the document is run where that is not given. `<!-- claude: PROMPT -->`: the client takes a turn, by the
  hooks that are installed at that moment; what it changes is in TURNS. `<!-- program: NAME -->`: an agent that cannot be connected.
* `<!-- run: COMMAND -->`: a command that is run and not shown.

Ids, times, ages and the size of the store differ from run to run; text that differs in nothing else is left as it is.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import uuid
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from casrewind.agents.client_versions import TRIED  # noqa: E402

HERE = Path(__file__).resolve().parent
TOP = HERE.parent
SESSIONS = (TOP / "README.md", *(path for path in sorted([*HERE.glob("*.md"), *HERE.glob("guides/*.md")]) if "```console" in path.read_text("utf-8")))
HOME = "/home/you"
TILL = "def total(prices):\n    return sum(prices)\n"
PROJECT = {"till.py": TILL, "prices.csv": "apple,1.10\npear,0.85\n", "notes.md": "# Shop\n"}
TURNS = {
    "round to cents": {"till.py": TILL.replace("sum(prices)", "round(sum(prices), 2)")},
    "give change, too": {"till.py": TILL + "\n\ndef change(given, due):\n    return given - due\n", "test_till.py": "import till\n"},
    "clean up": {"till.py": "# cleaned up\n", "prices.csv": None, "notes.md": None, "old/till.py": TILL},
}
"""What the stand-in for a client does to the files at a prompt that has these words in it; None: the file goes."""
VERSIONS = {"claude": f"{TRIED['claude'].tests} (Claude Code)", "droid": TRIED["droid"].tests}
_INSTALLS = re.compile(r"\.local/casrewind|^(uv|pipx) ", re.MULTILINE)
_CODE = re.compile(r"\byes [0-9a-z]{1,4}-[0-9a-f]{4}$", re.MULTILINE)
_BLOCK = re.compile(r"^<!-- (project|\w+: [^\n]*) -->$|^```(console|text|sh)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


class Scratch:
    """A home directory with a project in it, a shell, and clients that never ask a model."""

    def __init__(self, place):
        self.place = Path(place).resolve()
        self.home = self.place / "home"
        self.home.mkdir()
        (self.place / "bin").mkdir()
        self.script("casrewind", f'exec "{sys.executable}" -m casrewind "$@"')
        for name, version in VERSIONS.items():
            self.script(name, f"echo '{version}'")
        self.environment = {
            "PATH": f"{self.place / 'bin'}:/usr/local/bin:/usr/bin:/bin", "HOME": str(self.home), "LANG": "C.UTF-8",
            "PYTHONPATH": str(TOP), "PYTHONDONTWRITEBYTECODE": "1", "GIT_CONFIG_NOSYSTEM": "1",
        }  # fmt: skip
        self.clients = {}
        self.shell = subprocess.Popen(
            ["sh"], cwd=self.home, env=self.environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        )

    def script(self, name, line):
        path = self.place / "bin" / name
        path.write_text(f"#!/bin/sh\n{line}\n")
        path.chmod(0o755)

    def close(self):
        self.shell.stdin.close()
        self.shell.kill()
        self.shell.wait()
        self.shell.stdout.close()

    def plant(self, tree=None):
        """The small project, or a copy of another one, and the shell in it."""
        if tree is not None:
            shutil.copytree(tree, self.home / "shop", symlinks=True)
        (self.home / "shop").mkdir(exist_ok=True)
        for name, text in PROJECT.items() if tree is None else ():
            (self.home / "shop" / name).write_text(text)
        self.run("cd shop")

    def run(self, command):
        """(what a command line shows, its exit code)."""
        mark = uuid.uuid4().hex
        self.shell.stdin.write(f"{{ {command}\n}} </dev/null\nprintf '%s %d\\n' {mark} $?\n".encode())
        self.shell.stdin.flush()
        shown = b""
        while mark.encode() not in shown:
            line = self.shell.stdout.readline()
            assert line, (command, shown)
            shown += line
        text, _, code = shown.decode("utf-8", "replace").rpartition(mark)
        return self.told(text), int(code)

    def told(self, text):
        """Text as it is shown in a document."""
        text = text.replace(str(self.home), HOME).replace(str(self.place / "bin"), "/usr/local/bin")
        return text.replace(sys.executable, f"{HOME}/.local/casrewind/bin/python")

    def client(self, agent):
        if agent not in self.clients:
            self.clients[agent] = Client(self, agent)
        return self.clients[agent]


class Client:
    """As much of a coding agent's client as its hooks can see."""

    def __init__(self, scratch, agent):
        from casrewind import agents

        self.scratch, self.agent, self.client = scratch, agent, agents.load_client(agent)
        self.project = scratch.home / "shop"
        self.session, self.last = "", None
        self.code = ""  # the answer to the newest plan
        self.directory = scratch.home / self.client.places.home / self.client.sessions.directory / str(self.project).replace("/", "-")

    @property
    def transcript(self):
        return self.directory / f"{self.session}.jsonl"

    def turn(self, prompt):
        """A prompt, what is done for it, and the end of the turn."""
        if not self.session:
            self.session = str(uuid.uuid4())
            self.directory.mkdir(parents=True)
            self.transcript.write_text("")
            if self.agent == "droid":
                self.write(type="session_start", id=self.session, title="Shop", version=2, cwd=str(self.project))
            self.hook("SessionStart", source="startup")
            self.wait_for(1)
        name, before = str(uuid.uuid4()), self.checkpoints()
        ids = {"prompt_id" if self.agent == "claude" else "message_id": name}
        self.hook("UserPromptSubmit", prompt=prompt, **ids)
        self.wait_for(before + 1)
        self.say("user", prompt, name)
        for words, files in TURNS.items():
            for path, text in files.items() if words in prompt else ():
                place = self.project / path
                place.parent.mkdir(exist_ok=True)
                place.unlink(missing_ok=True) if text is None else place.write_text(text)
        self.say("assistant", "Done.", name)
        self.hook("Stop", **ids)
        self.wait_for(before + 2)

    def say(self, role, text, prompt):
        """A line of the transcript, in the client's own words."""
        name = str(uuid.uuid4())
        stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime()) + f".{time.time_ns() // 1_000_000 % 1000:03d}Z"
        content = [{"type": "text", "text": text}]
        if self.agent == "droid":
            name = prompt if role == "user" else name
            self.write(type="message", id=name, timestamp=stamp, message={"role": role, "content": content}, parentId=self.last)
        else:
            more = {"promptId": prompt, "promptSource": "typed", "origin": {"kind": "human"}} if role == "user" else {}
            message = {"role": role, "content": text if role == "user" else content, **({} if role == "user" else {"id": name})}
            self.write(
                type=role, uuid=name, parentUuid=self.last, message=message, timestamp=stamp, sessionId=self.session,
                cwd=str(self.project), version=TRIED["claude"].tests, isSidechain=False, **more,
            )  # fmt: skip
        self.last = name

    def write(self, **line):
        with self.transcript.open("a") as file:
            file.write(json.dumps(line) + "\n")

    def hook(self, event, **more):
        """Call the hook that the client's settings have for an event; what it prints."""
        for file in self.client.settings.files:
            path = self.scratch.home / self.client.places.home / file.name
            found = json.loads(path.read_text()) if path.exists() else {}
            groups = (found.get(file.key, {}) if file.key else found).get(event)
            if groups:
                break
        else:
            return ""
        said = {"session_id": self.session, "transcript_path": str(self.transcript), "cwd": str(self.project), "hook_event_name": event}
        done = subprocess.run(
            ["sh", "-c", groups[0]["hooks"][0]["command"]], input=json.dumps({**said, **more}).encode(), cwd=self.project,
            env={**self.scratch.environment, self.client.events.root_variables[0]: str(self.project)}, capture_output=True, check=True,
        )  # fmt: skip
        assert done.stderr == b"", done
        return done.stdout.decode()

    def ask(self, line):
        """What the client shows when a `/casrewind` line is typed in it."""
        answer = json.loads(self.hook("UserPromptSubmit", prompt=_CODE.sub(self.code, line)))
        text = self.scratch.told(next(answer[key] for key, value in self.client.events.refusal.items() if value == ""))
        self.code = (_CODE.findall(text) or [""])[-1]
        return text

    def checkpoints(self):
        """How many there are by now."""
        import casrewind

        data, home = str(self.scratch.home / ".local" / "share" / "casrewind"), str(self.scratch.home)
        settings = casrewind.default_settings()._replace(home=home, data=data, environ={})
        try:
            with casrewind.open(self.project, settings, create=False) as workspace:
                return len(workspace.checkpoints())
        except casrewind.CasrewindError:
            return 0

    def wait_for(self, count):
        """On a slow machine, and for the first save of a project, the hook leaves the work to a process of its own."""
        end = time.monotonic() + 60
        while self.checkpoints() < count:
            assert time.monotonic() < end, "no checkpoint was made"
            time.sleep(0.02)


def plain(text):
    """Text without what differs from run to run."""
    text = re.sub(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", "UUID", text)
    text = re.sub(r"\b(claude|droid) [0-9a-f]{8}\b", r"\1 SESSION", text)
    text = re.sub(r"\b(claude|droid) [0-9a-f]{4}$", r"\1 SESSION", text, flags=re.MULTILINE)
    text = re.sub(r"^( +@\d+  .*  )[0-9a-f]{4}$", r"\1SESSION", text, flags=re.MULTILINE)
    text = re.sub(r"(: /resume .*) [0-9a-f]{4}$", r"\1 SESSION", text, flags=re.MULTILINE)
    text = re.sub(r"\bc[0-9a-f]{14}\b", "ID", text)
    text = _CODE.sub("yes CODE", text)
    text = re.sub(r"\b\d{4}-\d\d-\d\dT[\d:.]+Z\b", "TIME", text)
    text = re.sub(r"\b\d{4}-\d\d-\d\d \d\d:\d\d(?: to (?:\d{4}-\d\d-\d\d )?\d\d:\d\d)?", "TIME", text)
    text = re.sub(r"(\((?:(?:after:)?@\d+; )?)(?:yesterday )?\d\d:\d\d, ", r"\1CLOCK, ", text)
    text = re.sub(r"\b\d+ (?:s|min|h|d) ago\b|\bin [\d.]+ m?s\b", "AGO", text)
    text = re.sub(r"/stores/(\w+)-[0-9a-f]{12}\b", r"/stores/\1-DIGEST", text)
    text = re.sub(r"/remotes/[0-9a-f]{32}\b", "/remotes/REMOTE", text)
    text = re.sub(r"(\d blobs, |^pulled .* \()[\d.]+ \w+\)", r"\1SIZE)", text, flags=re.MULTILINE)
    text = re.sub(r"((?:blob read|pieces?), )[\d.]+ \w+(?= in |, )", r"\1SIZE", text)
    text = re.sub(r"\(since \d\d:\d\d\)", "(since CLOCK)", text)
    text = re.sub(r"\([\d.]+ \w+ of ([\d.]+ GiB)", r"(SIZE of \1", text)
    return [re.sub(r"([ ─-])\1+", r"\1", line).rstrip() for line in text.splitlines()]


def fits(shown, real):
    """Whether lines in a document, where `...` stands for any lines, are what was really shown."""
    if not shown:
        return not real
    if shown[0].strip() == "...":
        return any(fits(shown[1:], real[at:]) for at in range(len(real) + 1))
    return bool(real) and shown[0] == real[0] and fits(shown[1:], real[1:])


def commands(block):
    """[(command line, what is shown below it)] of a block; the first line of a block begins a command."""
    found = []
    for line in block.splitlines(keepends=True):
        if line.startswith(("$ ", "> ")):
            found.append([line.rstrip("\n"), ""])
        else:
            found[-1][1] += line
    return found


def played(text, problems, trees=None, *, anew=False):
    """A document's text with what its commands show now, where that is something else; sentences on these go to `problems`.

    `anew`: all that a run shows is taken, so that its ids agree; but not for `...`.
    `trees`: {name: directory} of the trees that are at hand for `<!-- project: NAME -->`.
    """
    scratch = place = agent = None
    skips, code_shown = False, ""

    def play(match):
        nonlocal agent, skips
        directive, kind, block = match.groups()
        if directive == "project":
            skips = False
            start().plant()
        elif directive and directive.startswith("project: "):
            skips = directive.removeprefix("project: ") not in (trees or {})
            if not skips:
                start().plant(trees[directive.removeprefix("project: ")])
        elif skips:
            return match[0]
        elif directive and directive.startswith("program: "):
            scratch.script(directive.removeprefix("program: "), "echo 'on it'; echo '# faster' >> till.py")
        elif directive and directive.startswith("run: "):
            shown, code = scratch.run(directive.removeprefix("run: "))
            if code:
                problems.append(f"{directive!r} ends with {code}: {shown}")
        elif directive:
            agent, _, prompt = directive.partition(": ")
            scratch.client(agent).turn(prompt)
        elif kind == "console" or block.startswith("> /casrewind"):
            if scratch is None:
                start()
            return f"```{kind}\n{''.join(answered(*found) for found in commands(block))}```"
        elif kind == "sh" and "casrewind " in block and not _INSTALLS.search(block) and scratch is not None:
            for line in block.splitlines():
                shown, code = scratch.run(line)
                if code:
                    problems.append(f"{line!r} ends with {code}: {shown}")
        return match[0]

    def start():
        nonlocal scratch, place
        end()
        place = tempfile.mkdtemp(prefix="casrewind-docs-")
        scratch = Scratch(place)
        return scratch

    def end():
        if scratch is not None:
            scratch.close()
            shutil.rmtree(place)

    def answered(line, shown):
        nonlocal code_shown
        if line.startswith("> "):
            line = _CODE.sub(code_shown, line) if code_shown else line
            real, code = scratch.client(agent).ask(line[2:]) + "\n", 0
        else:
            real, code = scratch.run(line[2:])
        wanted = int(re.search(r"# exit (\d+)$|$", line)[1] or 0)
        if code != wanted:
            problems.append(f"{line!r} ends with {code}: {real}")
        if fits(plain(shown), plain(real)) and not (anew and "\n...\n" not in f"\n{shown}"):
            code_shown = (_CODE.findall(shown) or [""])[-1]
            return f"{line}\n{shown}"
        if not anew:
            problems.append(f"{line!r} shows\n{real}and not\n{shown}")
        code_shown = (_CODE.findall(real) or [""])[-1]
        return f"{line}\n{real}"

    try:
        return _BLOCK.sub(play, text)
    finally:
        end()


def pictured(text):
    """The console blocks of the tutorial up to the first undo, as lines of a terminal."""
    lines = []
    for _, kind, block in _BLOCK.findall(text.partition("<!-- end of the picture -->")[0]):
        lines += [*block.splitlines(), ""] if kind == "console" else []
    return lines[:-1]


def draw(lines):
    """The picture of a terminal, as SVG."""
    from rich.console import Console
    from rich.text import Text

    console = Console(record=True, width=116, file=open(os.devnull, "w"), force_terminal=True, color_system="truecolor")  # noqa: SIM115
    for line in lines:
        console.print(Text(line, style="bold green" if line.startswith("$ ") else ""), soft_wrap=False)
    return console.export_svg(title="casrewind", unique_id="tutorial")


def main(arguments):
    """Run all of them; the exit code."""
    checks = "--check" in arguments
    wrong = 0
    for document in [Path(name).resolve() for name in arguments if name != "--check"] or SESSIONS:
        problems, text = [], document.read_text("utf-8")
        fresh = played(text, problems)
        for problem in problems:
            print(f"{document.name}: {problem}")
        wrong += len(problems)
        if not checks and problems:
            fresh = played(text, problems, anew=True)
            document.write_text(fresh, "utf-8")
        if not checks and document.name == "tutorial.md":
            document.with_suffix(".svg").write_text(draw(pictured(fresh)), "utf-8")
    return 1 if checks and wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
