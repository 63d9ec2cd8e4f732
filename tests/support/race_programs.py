"""Programs that use one store at the same time: `python -m support.race_programs ROLE ROOT STORE SECONDS SEED MORE`.

`saver` changes its part of a project and saves it, over and over; for every acknowledged checkpoint it writes one line
of JSON with what its part held (sha256 by path), taken by plain means. MORE is that part: a directory below the root,
or "." when all of it is its own; with "+command" behind it every save is a process of its own. `collector` runs gc,
`reader` looks at what is there. Each prints a JSON object of counts; "wrong" lists what should not have been.
"""

import collections
import hashlib
import json
import os
import random
import shutil
import subprocess
import sys
import time

from casrewind import errors
from casrewind.model.retention import Limits
from casrewind.workspace import Settings
from casrewind.workspace import open as opened

KEPT = 3
NAMES = [f"{directory}{name}" for directory in ("", "d/", "d/e/", "other/") for name in "abc"]


def contents(place):
    """{path: sha256} of every file below a directory."""
    found = {}
    for top, _, names in os.walk(place):
        for name in names:
            path = os.path.join(top, name)
            with open(path, "rb") as file:
                found[os.path.relpath(path, place)] = hashlib.sha256(file.read()).hexdigest()
    return found


class Saver:
    def __init__(self, root, settings, chance, part, records):
        self.root, self.settings, self.chance, self.records = root, settings, chance, records
        self.part, _, how = part.partition("+")
        self.alone = self.part == "."
        self.place = os.path.normpath(os.path.join(root, self.part))
        self.aside = f"{root}.aside.{self.part.strip('.')}"
        self.through_command = how == "command"
        self.counts, self.wrong, self.last, self.last_id = collections.Counter(), [], {}, ""

    def change(self):
        chance = self.chance
        for name in chance.sample(NAMES, chance.randrange(1, 5)):
            path = os.path.join(self.place, name)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            if chance.random() < 0.2 and os.path.exists(path):
                os.unlink(path)
                continue
            version = chance.randrange(12)  # few versions: what was garbage comes back, in other roots too
            size = 1_100_000 if chance.random() < 0.03 else 500 + version * 2000
            with open(path, "wb") as file:
                file.write(random.Random(f"{name} {version} {size}").randbytes(size))
        if chance.random() < 0.15 and os.path.isdir(f"{self.place}/d") and not os.path.exists(self.aside):
            os.rename(f"{self.place}/d", self.aside)
        elif chance.random() < 0.3 and os.path.exists(self.aside) and not os.path.exists(f"{self.place}/d"):
            os.rename(self.aside, f"{self.place}/d")  # inner directories come back with their old stamps

    def round(self):
        self.change()
        pin = self.chance.random() < 0.02
        held = contents(self.place)
        try:
            identity, seq, created = self.save(pin)
        except errors.StoreBusy:
            self.counts["busy saves"] += 1
            return
        self.counts["saves" if created else "saves of nothing new"] += 1
        record = {"id": identity, "seq": seq, "root": self.root, "part": self.part, "files": held, "pinned": pin}
        self.records.write(json.dumps(record) + "\n")
        self.records.flush()
        if created and self.alone and not self.through_command and self.chance.random() < 0.08:
            self.go_back_and_forth(held)
        self.last, self.last_id = held, identity

    def save(self, pin):
        if self.through_command:
            words = ["save", "--json", *(["--pin"] if pin else [])]
            done = command(self.root, self.settings.store, *words)
            if done.returncode == 11:
                raise errors.StoreBusy
            assert done.returncode == 0, done.stderr.decode()
            answer = json.loads(done.stdout)
            return answer["checkpoint"], 0, answer["created"]
        with opened(self.root, self.settings) as workspace:
            saved = workspace.save(pin=pin)
            return saved.checkpoint.id, saved.checkpoint.seq, saved.created

    def go_back_and_forth(self, held):
        """A restore and its undo, while gc and the others run."""
        try:
            with opened(self.root, self.settings) as workspace:
                if len(workspace.checkpoints()) > 1:
                    point = workspace.checkpoint("prev")
                    if point.id != self.last_id:  # gc was faster: "2" is an older one, which may well be as things are now
                        self.counts["the one before was gone"] += 1
                        return
                    report = workspace.restore(point)
                    self.counts["restores"] += 1
                    if not report.actions:
                        newest = [(p.seq, p.id, p.tree.hex()[:8]) for p, _ in workspace.checkpoints()[:4]]
                        same = held == self.last, contents(self.place) == self.last
                        self.wrong.append(f"a restore of {point.seq} {point.tree.hex()[:8]} did nothing: {report.kept}, {newest}, {same}")
                        return
                    if contents(self.place) != self.last:
                        self.wrong.append(f"a restore made something else: {self.root}")
                    workspace.undo()
                    if contents(self.place) != held:
                        self.wrong.append(f"an undo made something else: {self.root}")
        except errors.StoreBusy:
            self.counts["busy restores"] += 1


def saver(root, settings, seconds, chance, part):
    with open(f"{settings.store}.records.{os.getpid()}", "w") as records:
        work = Saver(root, settings, chance, part, records)
        while time.monotonic() < seconds:
            work.round()
    shutil.rmtree(work.aside, ignore_errors=True)
    return {**work.counts, "wrong": work.wrong}


def collector(root, settings, seconds, chance, _):
    counts, wrong = collections.Counter(), []
    while time.monotonic() < seconds:
        with opened(root, settings) as workspace:
            try:
                found = workspace.gc(Limits(0.0 if chance.random() < 0.3 else None, KEPT, KEPT))
                counts["gcs"] += 1
                counts["dropped"] += len(found.dropped)
                counts["gcs that dropped"] += bool(found.dropped)
                if found.damaged:
                    wrong.append(f"damaged packs: {found.damaged}")
            except errors.StoreBusy:
                counts["busy gcs"] += 1
        time.sleep(chance.random() * 0.05)
    return {**counts, "wrong": wrong}


def command(root, store, *words):
    program = [sys.executable, "-m", "casrewind", "-C", root, "--store", store, *words]
    return subprocess.run(program, capture_output=True, stdin=subprocess.DEVNULL, check=False)


def reader(root, settings, seconds, chance, _):
    counts, wrong = collections.Counter(), []
    while time.monotonic() < seconds:
        done = command(root, settings.store, "list", "--json", "--all")
        points = json.loads(done.stdout)["checkpoints"] if done.returncode == 0 else []
        asked = [("list", done)]
        if points:
            identity = chance.choice(points)["id"]
            asked.append(("show", command(root, settings.store, "show", "--json", identity)))
            asked.append(("diff", command(root, settings.store, "diff", "--json", identity)))
            asked.append(("status", command(root, settings.store, "status", "--json")))
        if chance.random() < 0.5:
            asked.append(("verify", command(root, settings.store, "verify", "--json")))
        for what, done in asked:
            counts[what] += 1
            if done.returncode == 15 and what in ("show", "diff"):
                counts["gone meanwhile"] += 1  # forgotten between list and show: said so
            elif done.returncode == 11:
                counts["busy readers"] += 1
            elif done.returncode != 0:
                wrong.append(f"{what}: exit {done.returncode}: {(done.stderr or done.stdout).decode()[-600:]}")
    return {**counts, "wrong": wrong}


def looker(root, settings, seconds, chance, _):
    """As reader, without a start of the interpreter for every look."""
    counts, wrong = collections.Counter(), []
    while time.monotonic() < seconds:
        with opened(root, settings) as workspace:
            try:
                point = None
                points = [found for found, _ in workspace.checkpoints(every_worktree=True)]
                counts["lists"] += 1
                if chance.random() < 0.3:
                    counts["verifies"] += 1
                    wrong += [f"verify: {problem}" for problem in workspace.verify().problems]
                    continue
                point = chance.choice(points)
                place = f"{root}.looked.{os.getpid()}"
                try:
                    report = workspace.materialise(point, place)
                    counts["looks"] += 1
                    written = sum(os.path.getsize(f"{top}/{name}") for top, _, names in os.walk(place) for name in names)
                    named = sum(entry.size for _, entry in workspace.entries(point) if entry.kind == "file")
                    if report.kept:
                        raise errors.StoreDamaged(str(report.kept[0]))
                    if written != named:
                        wrong.append(f"{point.id} of {point.root}: {written} bytes of {named} ({point.size})")
                    if named != point.size:
                        wrong.append(f"{point.id} of {point.root}: {named} bytes, said to be {point.size}, {point.skipped} skipped")
                finally:
                    shutil.rmtree(place, ignore_errors=True)
            except errors.StoreBusy:
                counts["busy readers"] += 1
            except (errors.CheckpointNotFound, errors.StoreDamaged) as error:
                if point is None or point.id in {found.id for found, _ in workspace.checkpoints(every_worktree=True)}:
                    wrong.append(f"{point and point.id}: {error}")
                counts["gone while it was read"] += 1
    return {**counts, "wrong": wrong}


def main():
    role, root, store, seconds, seed, part = sys.argv[1:]
    home = os.environ["HOME"]
    settings = Settings(home=home, data=f"{home}/data", store=store, environ={"HOME": home}, deadline=30.0)
    until = time.monotonic() + float(seconds)
    work = {"saver": saver, "collector": collector, "reader": reader, "looker": looker}[role]
    print(json.dumps(work(root, settings, until, random.Random(int(seed)), part)))


if __name__ == "__main__":
    main()
