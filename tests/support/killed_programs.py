"""Programs that use one store at the same time and are killed in the middle of it: `python -m support.killed_programs ORDER`.

ORDER is JSON: {"role", "root", "home", "data", "seed", "over", "tokens", "acknowledged", "journal"}. A role goes on until the
file `over` is there. A role is a process
with everything imported, no store open and no thread; each thing that it does is done by a fork of it, which opens a
workspace, tells that it has begun, does one thing, and tells what came of it when that has returned. Now and then it is
a command that is started as people start it. `tokens` is a descriptor: who reads a byte there kills the process that it
starts next, after a part of the time that others of that kind took ("k"), or stops it for a moment ("s"). Of restores and
undos, half are killed when `journal` is there, which is when they change the worktree: that does not take them long.

What was acknowledged is appended to the file of that name, one line of JSON each, with what plain means saw in the
worktree before; beside it, in a file of that name and ".counts", is how often it did what by now. In the end one line of JSON on stdout: "counts", "kills", "longest" (seconds by kind), "wrong".
"""

import collections
import importlib
import json
import os
import pkgutil
import random
import select
import shutil
import signal
import subprocess
import sys
import time

import casrewind
from casrewind import errors
from casrewind.model.retention import Limits
from casrewind.workspace import Settings
from casrewind.workspace import open as opened
from support import race_programs

KEPT = 3
STUCK = 60.0
PAUSE = 0.3
"""The longest that a role does nothing between two rounds (seconds): two cores are few for so many."""
NAMES = [f"{directory}{name}" for directory in ("", "d/", "d/e/") for name in "abc"]
KILLED = "killed"


def import_everything():
    """What a fork would import else, each time again."""
    for module in pkgutil.walk_packages(casrewind.__path__, "casrewind."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
    for name in ("blake3", "lmdb", "pathspec", "pyfastcdc"):
        importlib.import_module(name)


def contents(root):
    """{path: the first half of its sha256} of every file below a worktree."""
    return {path: digest[:32] for path, digest in race_programs.contents(root).items() if not path.startswith(".git")}


def change(root, chance):
    for name in chance.sample(NAMES, 3):
        path = os.path.join(root, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        if chance.random() < 0.2 and os.path.exists(path):
            os.unlink(path)
            continue
        with open(path, "wb") as file:
            file.write(chance.randbytes(chance.choice((100, 3000, 40_000))))


def settings(home, data):
    return Settings(home=home, data=data, environ={"HOME": home}, deadline=30.0)


class Role:
    def __init__(self, order):
        self.role, self.root, self.home, self.data = order["role"], order["root"], order["home"], order["data"]
        self.chance = random.Random(order["seed"])
        self.over = order["over"]
        self.tokens, self.seed = order["tokens"], order["seed"]
        self.journal = order["journal"]
        self.acknowledged = open(order["acknowledged"], "a")
        self.counts, self.kills, self.wrong = collections.Counter(), collections.Counter(), []
        self.usual = collections.defaultdict(lambda: 0.02)  # seconds by kind
        self.longest = collections.Counter()
        self.token = ""

    # -- one thing, done by somebody who may be killed

    def work(self, kind, task, *, alone=False):
        """What `task(workspace)`, or `task()` when it opens one itself (`alone`), gave in a fork; KILLED, or None when the
        store was busy."""
        mine, theirs = os.pipe()
        begun = time.monotonic()
        process = os.fork()
        if process == 0:
            self._be_worker(theirs, mine, task, alone)
        os.close(theirs)
        stop = lambda number: os.kill(process, number)  # it is reaped below only
        said = self._attend(kind, stop, mine, kind not in ("look", "verify"))
        status = os.waitpid(process, 0)[1]
        return self._answer(kind, said, status, begun)

    def _be_worker(self, out, unused, task, alone):
        try:
            os.close(unused)
            try:
                if alone:
                    os.write(out, b"b")
                    found = task()
                else:
                    with opened(self.root, settings(self.home, self.data), create=False) as workspace:
                        os.write(out, b"b")
                        found = task(workspace)
                        os.write(out, json.dumps([found]).encode() + b"\n")
                    os._exit(0)
            except errors.CasrewindError as error:
                found = {"error": type(error).__name__, "says": str(error)[-300:]}
            except BaseException as error:
                import traceback

                found = {"error": type(error).__name__, "says": traceback.format_exc()[-900:]}
            os.write(out, json.dumps([found]).encode() + b"\n")
        finally:
            os._exit(0)

    def command(self, kind, *words):
        """(exit code or KILLED, stdout, stderr) of `casrewind` as people start it."""
        begun = time.monotonic()
        process = subprocess.Popen(
            [sys.executable, "-m", "casrewind", "-C", self.root, *words],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd="/",
        )  # fmt: skip
        out = self._attend(kind, process.send_signal, os.dup(process.stdout.fileno()), True)
        err = process.stderr.read()
        process.stdout.close()
        process.stderr.close()
        code = process.wait()
        if code == -signal.SIGKILL:
            self.kills[f"{kind}: at any moment"] += 1
            return KILLED, out, err
        self._note(kind, begun)
        if b"Traceback" in err or code in (20, 70) or code < 0:
            self.wrong.append(f"{words}: {code} {err.decode()[-500:]}")
        return code, out, err

    def _attend(self, kind, stop, fd, is_killed):
        """Everything that a process says; in the meantime it is killed, if a token was drawn."""
        often = 0.25 if kind == "gc" else 0.9  # else nobody might come to an end
        if is_killed and not self.token and self.chance.random() < often:
            try:
                self.token = os.read(self.tokens, 1).decode()
            except BlockingIOError:
                pass
        token = self.token if is_killed else ""
        now, part, said = time.monotonic(), self.chance.random() * self.usual[kind] * 1.1, b""
        stuck = now + STUCK
        due = now + part if token else stuck
        awaited = token == "k" and kind in ("restore", "undo", "resume") and self.chance.random() < 0.5
        while True:
            wait = 0.001 if awaited else max(min(due, stuck) - time.monotonic(), 0)
            if select.select([fd], [], [], wait)[0]:
                piece = os.read(fd, 1 << 16)
                if not piece:
                    break
                said += piece
            elif awaited and time.monotonic() < stuck:
                if os.path.exists(self.journal):
                    awaited, due = False, time.monotonic() + part / 4
            elif time.monotonic() >= stuck:
                self.wrong.append(f"stuck for {STUCK} s: {kind}")
                stop(signal.SIGKILL)
                due = stuck = time.monotonic() + STUCK
            elif token == "s":
                stop(signal.SIGSTOP)
                time.sleep(0.02 + self.chance.random() * 0.1)
                stop(signal.SIGCONT)
                self.counts["stops"] += 1
                self.token, token, due = "", "", stuck
            else:
                stop(signal.SIGKILL)
                self.token, token, due = "", "", stuck
        os.close(fd)
        return said

    def _note(self, kind, begun):
        took = time.monotonic() - begun
        self.usual[kind] = 0.9 * self.usual[kind] + 0.1 * min(took, 2.0)
        self.longest[kind] = max(self.longest[kind], took)

    def _answer(self, kind, said, status, begun):
        is_whole = said.endswith(b"\n")
        if os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL:
            when = "after its word" if is_whole else "in the middle" if said.startswith(b"b") else "before it began"
            self.kills[f"{kind}: {when}"] += 1
            if not is_whole:
                return KILLED
        elif status != 0 or not is_whole:
            self.wrong.append(f"{kind}: ended with status {status} and said {said[-300:]!r}")
            return None
        else:
            self._note(kind, begun)
        (found,) = json.loads(said.removeprefix(b"b"))
        if isinstance(found, dict) and "error" in found:
            if found["error"] == "StoreBusy":
                self.counts[f"busy: {kind}"] += 1
                return None
            if found["error"] not in ("NothingToUndo", "CheckpointNotFound"):
                self.wrong.append(f"{kind}: {found['error']}: {found['says']}")
                return None
        return found

    def goes_on(self):
        return not os.path.exists(self.over) and not self.wrong

    def acknowledge(self, identity, seq, held, *, pinned=False):
        print(json.dumps([self.root, identity, seq, held, pinned]), file=self.acknowledged, flush=True)
        if self.chance.random() < 0.15:
            self.look_again(identity, seq, held)

    def look_again(self, identity, seq, held):
        """What was acknowledged a moment ago is there as it was: what is left in the end is a small part of it all."""
        time.sleep(self.chance.random() * 0.5)
        target = f"{self.home}/again-{self.seed}"

        def find(workspace):
            points = {point.id: point for point, _ in workspace.checkpoints()}
            if identity not in points:
                return sum(point.seq > seq for point in points.values())
            assert not workspace.materialise(points[identity], target).kept
            return "there"

        found = self.work("look", find)
        if found == "there":
            if contents(target) != held:
                self.wrong.append(f"{identity} is not what it was a moment ago")
            self.counts["compared a moment later"] += 1
            shutil.rmtree(target)
        elif found is not None and found < KEPT:
            self.wrong.append(f"{identity} was lost a moment after it was acknowledged")

    # -- the roles

    def saver(self):
        change(self.root, self.chance)
        held, pinned = contents(self.root), self.chance.random() < 0.004
        if self.chance.random() < 0.03:
            code, out, err = self.command("save command", "save", "--json", *(["--pin"] if pinned else []))
            if code == 0:
                identity = json.loads(out)["checkpoint"]
                seq = self.work("look", lambda workspace: workspace.checkpoint(identity).seq)
                if isinstance(seq, int):  # else it was killed: then nobody counts it
                    self.acknowledge(identity, seq, held, pinned=pinned)
                    self.counts["saves by commands"] += 1
            elif code == 11:
                self.counts["busy: save command"] += 1
            elif code != KILLED:
                self.wrong.append(f"save: {code} {err.decode()[-300:]}")
            return

        def save(workspace):
            saved = workspace.save(pin=pinned)
            assert not saved.faults
            return [saved.checkpoint.id, saved.checkpoint.seq]

        found = self.work("save", save)
        if isinstance(found, list):
            self.acknowledge(*found, held, pinned=pinned)
            self.counts["saves"] += 1

    def hooker(self):
        """As a client's hook, which answers nothing: what it made is looked up by the prompt that it was told of."""
        from casrewind.hook import handler

        change(self.root, self.chance)
        held = contents(self.root)
        number = self.counts["events"] = self.counts["events"] + 1
        directory = f"{self.home}/.claude/projects/p{self.seed}"
        os.makedirs(directory, exist_ok=True)
        transcript, prompt = f"{directory}/s.jsonl", f"prompt {self.seed} {number}"
        with open(transcript, "w" if number % 200 == 1 else "a") as file:
            line = {"type": "user", "uuid": f"{self.seed}-{number}", "message": {"role": "user", "content": prompt}}
            file.write(json.dumps(line) + "\n")
        event = {"session_id": f"s{self.seed}", "cwd": self.root, "transcript_path": transcript, "hook_event_name": "Stop"}
        if number % 5:
            event |= {"hook_event_name": "UserPromptSubmit", "prompt": prompt, "prompt_id": f"id {number}"}

        def call_hook():
            given, taken = os.pipe()
            os.write(taken, json.dumps(event).encode())
            os.close(taken)
            os.dup2(given, 0)
            printed = os.open(f"{directory}/printed", os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600)
            os.dup2(printed, 1)
            os.dup2(printed, 2)
            handler.handle_or_log(["claude"])
            sys.stdout.flush()
            sys.stderr.flush()
            assert os.fstat(printed).st_size == 0, os.pread(printed, 500, 0)
            return "done"

        if self.work("hook", call_hook, alone=True) != "done":
            return

        def look(workspace):
            points = (point for point, _ in workspace.checkpoints() if point.prompt == prompt)
            return next(([point.id, point.seq] for point in points), "nothing")

        found = "done" if "prompt" not in event else self.work("look", look)
        if isinstance(found, list):
            self.acknowledge(*found, held)
            self.counts["hooks"] += 1
        elif found == "nothing":
            self.counts["hooks that were busy"] += 1  # the log says so: looked at in the end
        elif found == "done":
            self.counts["hooks at a turn's end"] += 1

    def restorer(self):
        """Restores of what was saved, killed and taken up again or taken back, and undone."""
        change(self.root, self.chance)
        held = contents(self.root)
        identity = self.work("save", lambda workspace: workspace.save().checkpoint.id)
        if not isinstance(identity, str) or identity == KILLED:
            return
        change(self.root, self.chance)
        present = contents(self.root)
        if self._carried("restore", lambda workspace: self._report(workspace.restore(identity)), held, present):
            self.counts["restores"] += 1
            if self.chance.random() < 0.5 and held != present:
                if self._carried("undo", lambda workspace: self._report(workspace.undo()), present, held):
                    self.counts["undos"] += 1

    @staticmethod
    def _report(report):
        assert not report.kept, report.kept
        return "done"

    def _carried(self, kind, task, wanted, before):
        """Do it until it is done, however often it is killed; whether the worktree then is what it should be."""
        attempts = 0
        while self.goes_on():
            found = self.work(kind, task)
            attempts += 1
            if found is None:
                continue
            while found == KILLED and self.goes_on():
                forward = self.chance.random() < 0.7
                there = contents(self.root)
                answer = self.work("resume", lambda workspace: self._report(workspace.finish_restore(forward=forward)))
                if answer in (KILLED, None):
                    continue
                if answer == "done":
                    self.counts["taken up again" if forward else "taken back"] += 1
                    if contents(self.root) != (wanted if forward else before):
                        self.wrong.append(f"a {kind} that was killed and then {'taken up' if forward else 'taken back'} made something else")
                        return False
                elif there not in (wanted, before):  # NothingToUndo: killed before the change, or behind it
                    self.wrong.append(f"a {kind} that was killed left something between, and no journal")
                found = "done" if contents(self.root) == wanted else ""
            if found == "done":
                if contents(self.root) != wanted:
                    self.wrong.append(f"a {kind} made something else")
                return not self.wrong
            if isinstance(found, dict):
                if found["error"] == "CheckpointNotFound" and attempts > 1:  # each attempt makes a safety checkpoint
                    self.counts["forgotten meanwhile"] += 1
                    return False
                self.wrong.append(f"{kind}: {found}")
        return False

    def collector(self):
        found = self.work("gc", lambda workspace: self._collected(workspace.gc(Limits(None, KEPT, KEPT))))
        if found in ("done", "dropped"):
            self.counts["gcs"] += 1
            self.counts["gcs that dropped"] += found == "dropped"

    @staticmethod
    def _collected(report):
        assert not report.damaged, report.damaged
        return "dropped" if report.dropped else "done"

    def looker(self):
        """Nobody kills this one."""
        time.sleep(5.0)
        problems = self.work("verify", lambda workspace: [str(problem) for problem in workspace.verify().problems[:3]])
        self.counts["verifies"] += 1
        if problems:
            self.wrong.append(f"verify: {problems}")

    def run(self):
        rounds = {"saver": self.saver, "hooker": self.hooker, "restorer": self.restorer, "collector": self.collector, "looker": self.looker}
        import_everything()
        while self.goes_on():
            rounds[self.role]()
            with open(f"{self.acknowledged.name}.counts", "w") as file:
                file.write(json.dumps({**self.counts, KILLED: sum(self.kills.values())}))
            time.sleep(self.chance.random() * (PAUSE / 10 if self.role == "collector" else PAUSE))
        print(json.dumps({"counts": self.counts, "kills": self.kills, "longest": self.longest, "wrong": self.wrong}))


if __name__ == "__main__":
    Role(json.loads(sys.argv[1])).run()
