"""What the power is cut under: casrewind's own work, and writers that are wrong on purpose."""

import importlib
import json
import os
import pkgutil
import random

from support.command import Command
from support.command_in_process import InProcess
from support.fake_client import Client
from support.picture import differences, digest_of, picture
from support.store_checks import leftovers
from support.trees import plant
from support.two_states import NOW, THEN, build

WITHOUT_SYNCS = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "faults", "power", "without_syncs")
IGNORED = b"cache.tmp"
_LEFT_OUT = ("trace.log", "build.log")  # in no tree here: what is captured is then the same under both sets of rules
_THEN, _NOW = (
    {**{name: what for name, what in tree.items() if name not in _LEFT_OUT}, "cache.tmp": b"ignored\n"} for tree in (THEN, NOW)
)


class Casrewind:
    """Every kind of work that changes a store or a project. The judge asks the command itself, and takes its own pictures."""

    def __init__(self, *, syncs=True):
        """Without `syncs` the command makes nothing durable, and the story is three saves and nothing else."""
        self._syncs = syncs

    def ready(self):
        """Import all that the judge's children will have use for."""
        import casrewind

        for module in pkgutil.walk_packages(casrewind.__path__, "casrewind."):
            if not module.name.endswith("__main__"):
                importlib.import_module(module.name)

    def prepare(self, point):
        for name in ("w", "h"):
            os.mkdir(f"{point}/{name}")
        os.mkdir(f"{point}/h/.claude")

    # -- the story

    def tell(self, teller):
        self.teller, self.root, self.home = teller, f"{teller.point}/w", f"{teller.point}/h"
        spoilt = {} if self._syncs else {"PYTHONPATH": os.pathsep.join([WITHOUT_SYNCS, os.environ["PYTHONPATH"]])}
        self.command = Command(self.root, self.home, **spoilt)
        self.known = set()
        build(self.root, _THEN)
        self._quiet()
        then = self._save("first save", "-m", "then")
        self._edit(_NOW)
        now = self._save("save of a changed tree", "-m", "now")
        self._edit({"large.bin": noise(1, 3_000_000), "src/edited.py": b"once more\n" * 100})
        self._save("save of a large file")
        if self._syncs:
            self._rest_of_it(then, now)

    def _rest_of_it(self, then, now):
        large = noise(1, 3_000_000)
        self._edit({"large.bin": large[:1_000_000] + b"an insertion" + large[1_000_000:]})
        self._save("save of an insertion")
        client = Client(self.command, self.root)
        whole, session, prompts = _conversation(client.transcript)
        for number, prompt in enumerate(prompts):
            client.transcript.write_bytes(whole[: prompt.start])
            self._hook(f"hook at prompt {number + 1}", client, lambda p=prompt: client.prompt(session, p))
            self._edit({"src/edited.py": b"turn %d\n" % number, f"turn-{number}.txt": b"%d" % number})
            client.transcript.write_bytes(whole if number == len(prompts) - 1 else whole[: prompts[number + 1].start])
            stop = client.payload("Stop.plain", session_id=session)
            self._hook(f"hook at the end of turn {number + 1}", client, lambda s=stop: client.send(s))
            if number == 0:
                _, step = self.teller.step("pin", lambda: self.command("pin", then, "keep this", code=0))
                step["pinned"] = {then: "keep this"}
        self._edit({"src/edited.py": b"wrecked\n"})
        self._quiet()
        self._change("restore", "restore", then, "--yes", reverse="undo")
        self._change("undo", "undo", "--yes", reverse="redo")
        self._change("redo", "redo", "--yes", reverse="undo")
        self._change("undo again", "undo", "--yes", reverse="redo")
        self._edit(_NOW)
        self._quiet()
        original = {str(client.transcript): digest_of(client.transcript)}
        self._change("back --both", "back", "1", "--both", "--yes", reverse="undo", untouched=original)
        for number in range(24):  # something for gc to leave out of the ledger
            InProcess(self.root, self.home)("pin", now, "a long label " * 30 + str(number), code=0)
            InProcess(self.root, self.home)("unpin", now, code=0)
        self._collect()
        self._edit({"after.txt": b"after gc\n"})
        self._save("save after gc")
        self._quiet()
        self._change("restore after gc", "restore", then, "--yes", reverse="undo")

    def _look(self):
        return picture(self.root, mtimes=True)

    def _quiet(self):
        self.teller.sync()
        self.teller.tree(self._look())

    def _edit(self, tree):
        self.teller.tree(None)
        (build if "cache.tmp" in tree else plant)(self.root, tree)

    def _listed(self):
        return [point["id"] for point in self.command.json("list", "--all")["checkpoints"]]

    def _captured(self):
        return {path: what for path, what in self._look().items() if path != IGNORED}

    def _save(self, name, *arguments):
        saved, step = self.teller.step(name, lambda: self.command.json("save", *arguments))
        step["ids"] = {saved["checkpoint"]: self._captured()}
        self.known.add(saved["checkpoint"])
        return saved["checkpoint"]

    def _hook(self, name, client, work):
        said = client.transcript.read_bytes()
        _, step = self.teller.step(name, work)
        [made] = set(self._listed()) - self.known
        self.known.add(made)
        step["ids"], step["transcripts"] = {made: self._captured()}, {made: said}

    def _change(self, name, *arguments, reverse, untouched=()):
        old, held = self._look(), self._captured()
        work = lambda: self.command.json(*arguments)  # noqa: E731
        facts = {"old": old, "new": None, "reverse": reverse, "again": arguments, "untouched": dict(untouched)}
        done, step = self.teller.step(name, work, **facts)
        step["new"] = self._look()
        step["ids"] = {done["safety"]: held}
        self.known.add(done["safety"])
        if done.get("fork"):
            step["files"] = {done["fork"]["path"]: digest_of(done["fork"]["path"])}

    def _collect(self):
        before = set(self._listed())
        ledger = f"{self.command.json('status')['store']}/ledger"
        size = os.path.getsize(ledger)
        _, step = self.teller.step("gc", lambda: self.command("gc", "--max-count", "5", code=0))
        step["dropped"] = before - set(self._listed())
        assert step["dropped"], "gc forgot nothing"
        assert os.path.getsize(ledger) < size * 0.9, (size, os.path.getsize(ledger))

    # -- the judge

    def judge(self, told, cut, point, scratch):
        """What there was to see, in words; raises AssertionError."""
        self.root, self.home = f"{point}/w", f"{point}/h"
        kind = Command if cut.number % 16 == 0 else InProcess
        self.command = kind(self.root, self.home)
        steps = told["steps"]
        ended = [steps[number] for number in cut.ended]
        flying = next((steps[number] for number in cut.begun if number not in cut.ended), {})
        seen = ["in a step" if flying else "behind a step"]
        must, may, holds = self._expected(ended, flying)
        got = self.command("list", "--all", "--json")
        if got.code == 10 and not ended:
            seen.append("no store yet")
        else:
            assert got.code == 0, got
            points = {entry["id"]: entry for entry in got.json["checkpoints"]}
            assert points.keys() >= must, f"lost: {must - points.keys()}"
            assert points.keys() <= must | may, f"came out of nowhere: {points.keys() - must - may}"
            seen += ["unacknowledged checkpoint there"] * bool(points.keys() & flying.get("ids", {}).keys())
            self._verify()
            for identity in self._chosen(points, cut):
                self._reads_as(identity, holds[identity], f"{scratch}/{identity}")
            self._conversations(points, [*ended, flying])
            for step in ended:
                for identity, label in step.get("pinned", {}).items():
                    assert points[identity]["pinned"] and points[identity]["label"] == label, points[identity]
        for step in ended:
            for path, digest in step.get("files", {}).items():
                assert os.path.exists(path), f"the fork is gone: {path}"
                assert digest_of(path) == digest, f"the fork has other bytes: {path}"
                assert os.stat(path).st_mode & 0o777 == 0o600
        for number in cut.begun:
            for path, digest in steps[number].get("untouched", {}).items():
                assert digest_of(path) == digest, f"not as it was: {path}"
        seen += self._worktree(cut, flying, ended)
        assert not leftovers(self.root), leftovers(self.root)
        self._life_goes_on()
        return seen

    def _expected(self, ended, flying):
        """(ids that must be there, that may be there, {id: what it holds})."""
        must, holds = set(), {}
        for step in ended:
            holds |= step.get("ids", {})
            must = (must | step.get("ids", {}).keys()) - step.get("dropped", set())
        holds |= flying.get("ids", {})
        dropped = flying.get("dropped", set())
        return must - dropped, flying.get("ids", {}).keys() | dropped, holds

    def _chosen(self, points, cut):
        """The newest two and a third one: verify reads all of them."""
        listed = list(points)
        return listed if cut.number % 8 == 0 else {*listed[:2], listed[cut.number % len(listed)]} if listed else ()

    def _verify(self):
        found = self.command.json("verify")
        assert found["ok"] and not found["problems"], found

    def _reads_as(self, identity, held, directory):
        self.command("restore", identity, "--to", directory, code=0)
        there = picture(directory, mtimes=True)
        assert there == held, (identity, differences(there, held))

    def _conversations(self, points, steps):
        from casrewind.workspace import Settings, Workspace

        said = {identity: data for step in steps for identity, data in step.get("transcripts", {}).items() if identity in points}
        if not said:
            return
        settings = Settings(home=self.home, data=f"{self.home}/data", environ={"HOME": self.home})
        with Workspace(self.root, settings, create=False) as workspace:
            for identity, data in said.items():
                entry = workspace.checkpoint(identity).transcript
                assert b"".join(workspace._context.store.content(entry)) == data, f"{identity} has another conversation"

    def _worktree(self, cut, flying, ended):
        """The worktree is as it was, or as it should become, or a restore is open and leads to either."""
        got = self.command("status", "--json")
        journal = got.code == 0 and got.json["journal"] is not None
        if "new" not in flying:
            assert not journal, "a restore is open, and none was under way"
            if cut.tree is None:
                return []
            assert self._look() == cut.tree, differences(self._look(), cut.tree)
            last = ended[-1] if ended and "new" in ended[-1] else None
            if last is None or last["new"] != cut.tree:
                return ["worktree known"]
            self.command.json(last["reverse"], "--yes")
            assert self._look() == last["old"], differences(self._look(), last["old"])
            return ["worktree known", "taken back"]
        old, new = flying["old"], flying["new"]
        if journal:
            forward = cut.number % 2 == 0
            self.command.json("restore", "--continue" if forward else "--abort")
            wanted = new if forward else old
            assert self._look() == wanted, differences(self._look(), wanted)
            if forward:
                self.command.json(flying["reverse"], "--yes")
                assert self._look() == old, differences(self._look(), old)
            elif flying["name"] != "back --both":
                self.command.json(*flying["again"])
                assert self._look() == new, differences(self._look(), new)
            return ["restore continued" if forward else "restore taken back"]
        here = self._look()
        assert here in (old, new), f"to old: {differences(here, old)}; to new: {differences(here, new)}"
        if here == new:
            self.command.json(flying["reverse"], "--yes")
            assert self._look() == old, differences(self._look(), old)
        return ["new tree" if here == new else "old tree"]

    def _life_goes_on(self):
        plant(self.root, {"later.txt": b"written after the cut\n"})
        made = self.command.json("save", "-m", "life goes on")["checkpoint"]
        assert made == self._listed()[0]
        self._verify()


def noise(seed, size):
    return random.Random(seed).randbytes(size)


def _conversation(path):
    from casrewind.agents.claude import CLIENT as claude

    whole = path.read_bytes()
    session = json.loads(whole.splitlines()[0]).get("sessionId") or "s"
    return whole, session, claude.prompts(whole)


class Lines:
    """A writer that appends lines to a file and says of each that it is there."""

    def __init__(self, *, syncs):
        self._syncs = syncs

    def ready(self):
        pass

    def prepare(self, point):
        with open(f"{point}/lines", "wb"):
            pass

    def tell(self, teller):
        with open(f"{teller.point}/lines", "ab", buffering=0) as file:
            for number in range(12):
                _, step = teller.step(f"line {number}", lambda n=number: self._append(file, n))
                step["line"] = b"%d\n" % number * 500

    def _append(self, file, number):
        file.write(b"%d\n" % number * 500)
        if self._syncs:
            os.fsync(file.fileno())

    def judge(self, told, cut, point, _scratch):
        with open(f"{point}/lines", "rb") as file:
            there = file.read()
        expected = b"".join(told["steps"][number]["line"] for number in cut.ended)
        assert there.startswith(expected), f"lost: {len(expected)} bytes were acknowledged, {len(there)} are there"
        return []


STORIES = {
    "casrewind": Casrewind(),
    "casrewind without its syncs": Casrewind(syncs=False),
    "lines": Lines(syncs=True),
    "lines without syncs": Lines(syncs=False),
}
