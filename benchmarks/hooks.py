"""python -m benchmarks.hooks [TREE]: what a hook of a coding agent costs, beside git's mechanism on the very same tree.

Whole processes, in turn, on a project in which nothing changes; the conversation goes on by one turn before each hook, as
it does in life. The hooks are those that `casrewind install claude` writes, run as the client runs them: by `sh -c`, with
a payload that the real client once sent on standard input.
"""

import argparse
import datetime
import json
import os
import platform
import random
import shlex
import statistics
import sys
import uuid

from . import trees
from .checked_options import refuse_too_few
from .compare import contenders, measure
from .scratch import USAGE, in_scratch

BASE = "git"
TARGET = 1.5
"""How many times the cost of git's mechanism a hook may cost that makes a checkpoint of an unchanged project."""
PAYLOADS = os.path.join(contenders.TOP, "tests", "agents", "data", "claude_hooks")
SIZES = {"190 KB": 190_000, "5 MB": 5_000_000}
"""Transcripts: that of a short session, and that of a day."""
TURN = 6_000
"""Bytes that a turn adds to a transcript, about."""
_WORDS = "the file is read and then changed so that a test of it fails before it passes def return self import error".split()


def options(argv):
    """The options in `argv`, checked."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.hooks", description="What a hook costs.", allow_abbrev=False)
    parser.error = lambda message: parser.exit(USAGE, f"hooks: {message}\n")
    parser.add_argument("tree", metavar="TREE", nargs="?", help="measure on a copy of this directory")
    parser.add_argument("--files", metavar="N", type=int, help="without TREE: files of the generated tree (7000)")
    parser.add_argument("--rounds", metavar="N", type=int, default=15, help="rounds (15)")
    parser.add_argument("--turns", metavar="N", type=int, default=0, help="also: what N turns of a conversation take on disk (0)")
    parser.add_argument("--json", metavar="FILE", help="write every sample, and what it was measured with")
    given = parser.parse_args(argv)
    if given.tree is not None and (given.files is not None or not os.path.isdir(given.tree)):
        parser.error(f"TREE: {given.tree!r} is no directory" if given.files is None else "give TREE or --files, not both")
    given.files = 7000 if given.files is None else given.files
    refuse_too_few(parser, given, files=1, rounds=1, turns=0)
    if given.json is not None and not os.path.isdir(os.path.dirname(os.path.abspath(given.json))):
        parser.error(f"--json: {given.json!r} cannot be written: there is no directory to put it in")
    return given


def main(argv=None):
    """Measure, print a table; the exit code."""
    return in_scratch("hooks", _measure, options(argv))


def _measure(given, scratch):
    project = os.path.join(scratch, "project")
    if given.tree is None:
        trees.generate(project, given.files)
    else:
        trees.copy(given.tree, project)
    client = Client(project, scratch)
    lines = {
        **{f"prompt, transcript of {size}": client.hook("UserPromptSubmit.prompt", SIZES[size], given.rounds) for size in SIZES},
        **{f"turn end, transcript of {size}": client.hook("Stop.plain", SIZES[size], given.rounds) for size in SIZES},
        "git": git("git", project, scratch, client.environ),
        "git, core.fsync=all": git("git-fsync", project, scratch, client.environ),
        "casrewind save": lambda: (client.save, client.environ, b""),
        "tool that the tier leaves out": client.hook("PreToolUse.Write", SIZES["190 KB"], given.rounds),
        "event of no concern": client.hook("Notification.idle_prompt", SIZES["190 KB"], given.rounds),
        "python -c pass": lambda: ([sys.executable, "-c", "pass"], client.environ, b""),
    }
    if contenders.absent("git-fsync"):
        del lines["git, core.fsync=all"]
    samples = {name: [] for name in lines}
    before = client.checkpoints()
    for number in range(given.rounds + 1):
        for name, prepare in lines.items():
            command, environ, payload = prepare()
            os.sync()  # nobody waits for what another has left to be written
            done = measure.run(command, "/" if payload else project, environ, given=payload)
            if done.out and payload:
                raise measure.Failed(f"{name}: a hook said something: {done.out[:200]}")
            if number:  # the first round is not measured: nothing is the first of its kind
                samples[name].append((done.seconds, done.processor))
    made = client.checkpoints() - before
    if made != 2 * len(SIZES) * (given.rounds + 1):
        raise measure.Failed(f"{made} checkpoints were made by {2 * len(SIZES) * (given.rounds + 1)} hooks that make one")

    files, size = trees.count(project)
    what = "generated" if given.tree is None else os.path.basename(os.path.abspath(given.tree))
    print(f"{what}: {files} files, {size / 1e6:.1f} MB, nothing changed; {given.rounds} rounds", *table(samples), sep="\n")
    disk = [turns(client, count) for count in ([given.turns] if given.turns else [])]
    print(*(f"\n{d['turns']} turns: transcript {d['transcript'] / 1e3:.0f} KB, the store grew by {d['store'] / 1e3:.0f} KB" for d in disk))
    if given.json is not None:
        record = {
            "format": 1,
            "time": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
            "tree": {"name": what, "files": files, "bytes": size},
            "python": platform.python_version(),
            "platform": {"system": platform.platform(), "machine": platform.machine(), "processors": os.cpu_count()},
            "versions": {name: contenders.version(name) for name in ("casrewind", "git")},
            "command": client.commands,
            "samples": {name: [{"seconds": s, "processor_seconds": p} for s, p in taken] for name, taken in samples.items()},
            "turns": disk,
        }
        with open(given.json, "w", encoding="utf-8") as file:
            file.write(json.dumps(record, indent=1) + "\n")
    return 0


def table(samples):
    """The lines of a table for people."""
    medians = {name: statistics.median(seconds for seconds, _ in taken) for name, taken in samples.items()}
    yield ""
    yield f"{'':<34}{'median':>10}{'least':>10}{'processor':>11}{'x git':>8}"
    for name, taken in samples.items():
        least, processor = min(s for s, _ in taken), statistics.median(p for _, p in taken)
        mark = "" if medians[name] <= 1.5 * least else " ~"
        cells = f"{medians[name] * 1e3:>7.1f} ms{least * 1e3:>7.1f} ms{processor * 1e3:>8.1f} ms"
        yield f"  {name:<32}{cells}{medians[name] / medians[BASE]:>8.2f}{mark}"
    if any(medians[name] > 1.5 * min(s for s, _ in taken) for name, taken in samples.items()):
        yield "~ not steady: the median is over 1.5 times the least value; do not quote it"
    worst = max(medians[name] / medians[BASE] for name in samples if "transcript" in name)
    yield f"a checkpoint by a hook: {worst:.2f} x git at most; it should be {TARGET:g} x or less"


def turns(client, count):
    """What the store grows by while a conversation of `count` turns is saved at the end of each."""
    before, _ = measure.disk([client.kept])
    prepare = client.hook("Stop.plain", TURN, 0)
    for _ in range(count):
        command, environ, payload = prepare()
        measure.run(command, "/", environ, given=payload)
    return {"turns": count, "transcript": prepare.transcript.size, "store": measure.disk([client.kept])[0] - before}


class Client:
    """A stand-in for Claude Code with our hooks installed: its settings, its environment, its payloads."""

    def __init__(self, project, scratch):
        """Install, and make the first checkpoint; the next ones find a stat cache that is no longer racy."""
        self.kept = os.path.join(scratch, "kept")
        home = os.path.join(scratch, "home")
        self._sessions = os.path.join(home, ".claude", "projects", "-project")
        os.makedirs(self._sessions)
        self.environ = {
            "PATH": os.environ.get("PATH", os.defpath), "HOME": home, "TMPDIR": scratch, "LANG": "C.UTF-8", "TZ": "UTC",
            "NO_COLOR": "1", "CASREWIND_HOME": self.kept, "PYTHONPATH": contenders.TOP, "CLAUDE_PROJECT_DIR": project, "CASREWIND_TIER": "balanced",
        }  # fmt: skip
        self._project = project
        command = contenders.casrewind_command()
        self.save = [*command, "save"]
        self._list = [*command, "list", "--json"]
        measure.run([*command, "install", "claude"], project, self.environ)
        with open(os.path.join(home, ".claude", "settings.json"), encoding="utf-8") as file:
            hooks = json.load(file)["hooks"]
        self.commands = {event: _line(groups[0]["hooks"][0]) for event, groups in hooks.items()}
        for _ in range(2):
            measure.run(self.save, project, self.environ)

    def checkpoints(self):
        """How many there are."""
        return len(json.loads(measure.run(self._list, self._project, self.environ).out)["checkpoints"])

    def hook(self, name, size, rounds):
        """What prepares one hook after the other, with a session of its own whose transcript ends up with about `size`
        bytes after `rounds` of them: each gives (command, environment, payload)."""
        with open(os.path.join(PAYLOADS, f"{name}.json"), encoding="utf-8") as file:
            payload = json.load(file)["stdin"]
        session = str(uuid.UUID(int=random.Random(f"{name} {size}").getrandbits(128), version=4))
        transcript = Transcript(os.path.join(self._sessions, f"{session}.jsonl"), session, size - rounds * TURN)
        command = ["sh", "-c", self.commands.get(payload["hook_event_name"], self.commands["Stop"])]
        payload |= {"session_id": session, "transcript_path": transcript.path, "cwd": self._project}

        def prepare():
            transcript.go_on()
            return command, self.environ, json.dumps(payload).encode()

        prepare.transcript = transcript
        return prepare


def _line(hook):
    return shlex.join([hook["command"], *hook["args"]]) if "args" in hook else hook["command"]


class Transcript:
    """A conversation that goes on: lines in the shape of Claude Code's, words at random, the same every time."""

    def __init__(self, path, session, size):
        """Begin with at least `size` bytes, and one turn."""
        self.path, self.size = path, 0
        self._chance, self._session, self._last = random.Random(session), session, None
        while self.size < max(size, 1):
            self.go_on()

    def go_on(self):
        """One turn more."""
        with open(self.path, "ab") as file:
            start = self.size
            while self.size < start + TURN:
                kind = "user" if self.size == start or self._chance.random() < 0.4 else "assistant"
                text = " ".join(self._chance.choices(_WORDS, k=100)) + " %x" % self._chance.getrandbits(400)
                identity = str(uuid.UUID(int=self._chance.getrandbits(128), version=4))
                value = {
                    "parentUuid": self._last, "isSidechain": False, "type": kind,
                    "message": {"role": kind, "content": [{"type": "text", "text": text}]}, "uuid": identity,
                    "timestamp": "2026-11-20T23:31:06.967Z", "userType": "external", "entrypoint": "cli",
                    "cwd": "/home/dev/proj", "sessionId": self._session, "version": "2.1.329", "gitBranch": "HEAD",
                }  # fmt: skip
                line = json.dumps(value, separators=(",", ":")).encode() + b"\n"
                file.write(line)
                self._last, self.size = identity, self.size + len(line)


def git(name, project, scratch, environ):
    """What prepares git's mechanism as tools use it that keep checkpoints in git: a temporary index that is a copy of the
    repository's, so that git knows the files by their stamps, `add -A`, `write-tree`, `commit-tree`, `update-ref`."""
    place = contenders.Place(project, os.path.join(scratch, name), "")
    os.makedirs(place.kept)
    one = contenders.build(name, place, environ)
    index = os.path.join(one.environ["GIT_DIR"], "index")
    measure.run(one.make, project, one.environ)
    measure.run(one.first, project, {**one.environ, "GIT_INDEX_FILE": index})
    copy = shlex.join(["cp", index, one.environ["GIT_INDEX_FILE"]])
    command = [*one.save[:2], f"{copy} && {one.save[2]}"]
    return lambda: (command, one.environ, b"")


if __name__ == "__main__":
    sys.exit(main())
