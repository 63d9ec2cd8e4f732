"""What support/fault_sweep_maintenance.py does to gc and repair, done to purge: of a directory, and of a text.

After each fault a fresh process goes on without help: either nothing is purged, or nothing is named any more that was to be
purged, and the next purge, or gc, removes the rest of it to the last byte. Everything else is what it was all the time.
"""

import hashlib
import json
import os
import shutil

from support import fault_sweep
from support.fault_sweep import cli, restore_copy
from support.fault_sweep_maintenance import TREE, Upkeep, noise, remarkable
from support.picture import differences, picture
from support.secret_search import hits, secret
from support.trees import Link, plant

VAULT = {"vault/key": noise(60, 3_000), "vault/big": noise(61, 160_000), "vault/link": Link("to/the-hidden-place-0815"), "copied": noise(60, 3_000)}
LATER_VAULT = {"vault/key": noise(62, 3_000), "vault/big": noise(61, 90_000) + b"!" + noise(61, 160_000)[90_000:]}
ONLY_PLAN = {"vault/key": noise(63, 3_000)}
WORD = secret("swept", odd='"\\')


def excerpts(tree):
    """Parts of what must go: each is long enough to be no accident."""
    found = []
    for what in tree.values():
        data = what if isinstance(what, bytes) else os.fsencode(what.target)
        found += [data[at : at + 20] for at in range(0, len(data), 7_919) if len(data[at : at + 20]) == 20]
    return found


class Purging(Upkeep):
    """purge of a directory whose bytes are elsewhere, too, in two worktrees, in chunks and in the plans of undo steps."""

    wanted = "purged"
    arguments_of = ("purge", "vault", "--yes")

    def prepare(self):
        self.named = {b"vault/key", b"vault/big", b"vault/link", b"copied"}
        self.parts = excerpts(VAULT) + excerpts(LATER_VAULT) + excerpts(ONLY_PLAN)
        first = self.save({**TREE, **VAULT}, "-m", "first")
        self.target = self.save({"version.bin": noise(10, 15_000), **LATER_VAULT})
        self.save({"version.bin": noise(11, 15_500), **ONLY_PLAN})
        self.restored("restore", first, "--yes")
        self.restored("undo", "--yes")
        os.makedirs(self.second)
        self.save({"stays.bin": TREE["stays.bin"], **VAULT}, root=self.second)
        shutil.rmtree(f"{fault_sweep.ROOT}/vault")
        os.unlink(f"{fault_sweep.ROOT}/copied")
        shutil.rmtree(f"{self.second}/vault")
        os.unlink(f"{self.second}/copied")
        self.save({"version.bin": noise(15, 24_000)})
        self.finish()

    def finish(self):
        """Litter that holds the same bytes; then what an uninterrupted purge makes of it."""
        self.before = self.ids()
        self.litter()
        self.drafts = set(os.listdir(f"{self.store}/tmp"))
        self.arguments = ("--store", self.store, *self.arguments_of)
        self.size = self.packs("tmp", "damaged")
        self.told_before = self.listing()
        assert self.leaks() > 0, "the judge sees nothing"
        fault_sweep.keep_copy(self.operation)
        self.run_it()
        self.told = self.listing()
        self.is_gone()
        assert self.need(0, "verify")["ok"]
        restore_copy(self.operation)

    def run_it(self):
        code, _, err = cli(*self.arguments)
        assert (code, remarkable(err)) == (0, ""), err

    def litter(self):
        """Everything that somebody who was interrupted may have left, each with bytes that must go."""
        part = self.parts[0]
        largest = max(os.scandir(f"{self.store}/packs"), key=lambda entry: (entry.stat().st_size, entry.name))
        shutil.copy2(largest.path, f"{self.store}/packs/{'d' * 20}.pack")
        for name in ("damaged", "index.old-0123abcd"):
            os.mkdir(f"{self.store}/{name}", 0o700)
        for name in ("ledger.cut-100-0123abcd", "ledger.damaged-0123abcd", "damaged/x.pack", "index.old-0123abcd/data.mdb",
                     "journals/00.damaged-0123abcd"):  # fmt: skip
            with open(f"{self.store}/{name}", "wb") as file:
                file.write(part)
        with open(f"{self.store}/tmp/casrewind-draft-abcdef012345.pack", "wb") as file:
            file.write(part)

    # -- looking

    def leaks(self):
        """How many parts of what must go are somewhere in the store."""
        return sum(hits(self.store, self.parts).values())

    def unfinished(self):
        return os.path.exists(f"{self.store}/purging")

    def is_gone(self):
        """Not one byte is left, nor anything that nobody has need of."""
        assert hits(self.store, self.parts) == {}
        assert not self.unfinished()
        assert os.listdir(f"{self.store}/tmp") == os.listdir(f"{self.store}/damaged") == os.listdir(f"{self.store}/journals") == []
        assert not [name for name in os.listdir(self.store) if name.startswith(("index.", "ledger."))]

    def contents(self):
        """{checkpoint: {path: sha256 of a file, None of a purged one}} of what checkpoints have to do with files."""
        found = {}
        with self.opened() as workspace:
            for point, _ in workspace.checkpoints(every_worktree=True):
                files = found[point.id] = {}
                for path, entry in workspace.entries(point):
                    if entry.kind == "file":
                        files[path] = hashlib.sha256(b"".join(workspace.cat(point, path))).hexdigest()
                    elif entry.kind in ("purged", "link"):
                        files[path] = None if entry.kind == "purged" else entry.target
            for history in workspace._context.store.histories().values():
                for step in (*history.undo, *history.redo):
                    workspace._context.store.plan(step.plan)
        return found

    def is_purged(self):
        """Whether it counts: nothing is named any more that was to go. All else is what it was when it was made."""
        found = self.contents()
        assert set(found) >= set(self.before), "a checkpoint is lost"
        answers = set()
        for identity, files in found.items():
            seen = self.pictures[identity]
            there = {path: what[2 if what[0] == "file" else 1] for path, what in seen.items() if what[0] in ("file", "link")}
            assert set(files) == set(there), identity
            for path, what in files.items():
                if path in self.named:
                    answers.add(what is None)
                if what is not None:
                    assert what == there[path], (identity, path)
        assert len(answers) == 1, "some of it is purged, some is not"
        return answers.pop()

    # -- after a fault

    def check(self, *, thorough, back):
        assert self.packs("tmp", "damaged") <= self.size + 70_000 + 200_000, "it took more space than one pack and a file"
        assert self.need(0, "verify")["ok"]
        purged = self.is_purged()
        listed = self.listing()
        assert listed == (self.told if purged else self.told_before)
        reasons = " ".join(self.need(0, "status")["reasons"])
        assert ("a purge was interrupted" in reasons) == self.unfinished()
        if not purged:
            state = "before"
        else:
            state = "begun" if self.unfinished() else "purged"
        if state == "purged":
            self.is_gone()
        if thorough:
            self.index_is_disposable()
            self.life(purged)
            restore_copy("left")
        if back:
            self.collects(purged)
            restore_copy("left")
        self.run_it()
        self.is_gone()
        assert self.is_purged()
        assert self.listing() == self.told
        assert self.need(0, "verify")["ok"]
        if thorough:
            self.index_is_disposable()
            self.life(purged=True)
            assert self.need(0, "verify")["ok"]
        return {"journal": False, "state": state}

    def collects(self, purged):
        """gc finishes what has begun, and says what has not."""
        code, _, err = self.command("gc", "--max-count", "100")
        assert code == 0, err
        assert not self.unfinished()
        if purged:
            self.is_gone()
        assert self.is_purged() == purged
        assert self.need(0, "verify")["ok"]

    def life(self, purged):
        """Save, restore, undo, redo, in a project that does not have it any more."""
        plant(fault_sweep.ROOT, {"later.txt": b"written after the fault\n"})
        self.need(0, "save")
        here = picture(fault_sweep.ROOT)
        found = self.need(3 if purged else 0, "restore", self.target, "--yes")
        assert bool(found["skipped"]) == purged
        wanted = {path: what for path, what in self.pictures[self.target].items() if not purged or path not in self.named}
        assert picture(fault_sweep.ROOT) == wanted, differences(picture(fault_sweep.ROOT), wanted)
        self.need(0, "undo", "--yes")
        assert picture(fault_sweep.ROOT) == here, differences(picture(fault_sweep.ROOT), here)


class PurgingText(Purging):
    """purge --text: a word in labels, marks, prompts, conversations and the log."""

    arguments_of = ("purge", "--text", "-", "--yes")

    def prepare(self):
        from casrewind.upkeep.save import Moment, save

        self.named, self.parts = set(), [WORD[:20].encode(), WORD[-20:].encode()]
        self.transcript = f"{fault_sweep.HOME}/session.jsonl"
        self.save({**TREE}, "-m", f"the word is {WORD}")
        self.target = self.save({"version.bin": noise(10, 15_000)})
        self.need(0, "pin", self.target, f"it was {WORD}")
        lines = [json.dumps({"uuid": n, "text": noise(70 + n, 9_000).hex() + WORD + json.dumps(WORD)}) + "\n" for n in range(12)]
        for number in (3, 7, 12):
            with open(self.transcript, "w") as file:
                file.write("".join(lines[:number]))
            with self.opened() as workspace:
                size = os.path.getsize(self.transcript)
                moment = Moment("prompt", prompt=f"{number} {WORD}", agent="claude", session="s", transcript=(self.transcript, size))
                self.pictures[save(workspace._context, moment).checkpoint.id] = picture(fault_sweep.ROOT)
        os.unlink(self.transcript)
        for name in ("log", "log.old"):
            with open(f"{self.store}/{name}", "w") as file:
                file.write(f"2026-01-01T00:00:00Z {WORD}\n" * 3)
        with open(f"{self.store}/log.seen", "w") as file:
            file.write(str(os.path.getsize(f"{self.store}/log")))
        self.words = self.told_of()
        self.finish()

    def run(self, at, act, error=0, *, forever=False):
        with fed(WORD):
            return super().run(at, act, error, forever=forever)

    def run_it(self):
        with fed(WORD):
            super().run_it()

    def told_of(self):
        """{checkpoint: (its prompt, its label, the bytes of its transcript)}, {log: its length}, which no purge may change."""
        with self.opened() as workspace:
            found = {}
            for point, _ in workspace.checkpoints(every_worktree=True):
                data = None if point.transcript is None else b"".join(workspace._context.store.content(point.transcript))
                found[point.id] = (point.prompt, point.label, data)
        return found, {name: os.path.getsize(f"{self.store}/{name}") for name in ("log", "log.old")}

    def is_purged(self):
        assert self.contents().keys() >= set(self.before)
        points, logs = self.told_of()
        assert logs == self.words[1]
        with open(f"{self.store}/ledger", "rb") as file:
            purged = WORD.encode() not in file.read()
        for identity, (prompt, label, data) in self.words[0].items():
            wanted = ("***" if WORD in prompt else prompt, "***" if WORD in label else label, None) if purged else (prompt, label, data)
            assert points[identity] == wanted, identity
        return purged

    def life(self, purged):
        super().life(purged=False)


class fed:
    """A text on standard input."""

    def __init__(self, text):
        import io

        self._stream = io.TextIOWrapper(io.BytesIO(text.encode()))

    def __enter__(self):
        import sys

        self._before, sys.stdin = sys.stdin, self._stream

    def __exit__(self, *_):
        import sys

        sys.stdin = self._before


CASES = {"purge": Purging, "purge text": PurgingText}
