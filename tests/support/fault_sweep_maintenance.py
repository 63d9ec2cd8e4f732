"""What support/fault_sweep.py does to the commands that people work with, done to upkeep: gc and verify --repair.

A store with everything in it that upkeep has to do with is made once. After each fault a fresh process goes on without
help: nothing that must stay is lost, what was forgotten is whole or gone, and the next upkeep finishes and leaves what
an uninterrupted one leaves. What checkpoints hold is compared with pictures that were taken when they were made.
"""

import hashlib
import os
import random
import shutil

from support import fault_sweep
from support.fault_sweep import cli, forked, keep_copy, restore_copy, run_with_fault
from support.picture import differences, picture
from support.shim import KILL
from support.store_checks import leftovers, read_everything
from support.trees import Dir, Exec, Link, plant
from support.two_states import build

FULL, SMALL, LARGE, RECORD = 70_000, 20_000, 100_000, 132_000
"""Bytes: where a pack is closed, below which one is merged, from which a file is cut in chunks (a small part of what they
are), the longest record."""
SLACK = 2_000
"""Bytes by which packs may differ that were collected in one go and in two: heads, and the part that may stay."""
CUT, OLD = "ledger.cut-100-0123abcd", 1_000_000_000
"""The name of a torn tail of a ledger, and when it was cut off (seconds since 1970)."""


def noise(seed, size):
    """Bytes that do not compress."""
    return random.Random(seed).randbytes(size)


TREE = {
    "stays.bin": noise(1, 10_000),
    "doc/one.txt": b"of no importance\n" * 40,
    b"doc/na\xffme \n.txt": b"an odd name\n",
    "run.sh": Exec(b"#!/bin/sh\n"),
    "link": Link("doc/one.txt"),
    "hollow": Dir(0o750),
    "big.bin": noise(2, 200_000),
}
BIG = noise(2, 200_000)[:90_000] + b"an insertion" + noise(2, 200_000)[90_000:]
LATER = [
    {"version.bin": noise(10, 15_000)},
    {"version.bin": noise(11, 15_500), "was.txt": b"only here"},
    {"version.bin": noise(12, 4_000), "pinned.bin": noise(13, 10_000)},
    {"big.bin": BIG},
    {"version.bin": noise(14, 5_000), "big.bin": TREE["big.bin"]},
    {"version.bin": noise(15, 24_000), "run.sh": b"#!/bin/sh\nno more\n"},
    {"version.bin": noise(16, 30_000), "link": Link("hollow")},
    {"version.bin": noise(17, 6_000)},
    {"version.bin": noise(18, 6_000), "came/with/its/directories": b"7"},
]


def remarkable(complaints):
    """What a command complained of, but for the notes that tell of an open restore."""
    return "".join(line for line in complaints.splitlines(keepends=True) if not line.startswith("casrewind: note: "))


class Upkeep:
    """A store and two worktrees, and one command of upkeep."""

    code, is_open = 0, False

    def __init__(self, operation):
        """Prepare; the result is stashed under the operation's name."""
        from casrewind.model import manifest
        from casrewind.store import packs
        from casrewind.store import sweep as sweeping

        packs.MAX_SIZE, sweeping.SMALL, manifest.LARGE = FULL, SMALL, LARGE
        self.operation = operation
        self.store, self.second = f"{fault_sweep.HOME}/store", f"{fault_sweep.HOME}/second"
        self.pictures, self.drafts = {}, set()
        fault_sweep.repeat_names(11)
        fault_sweep._empty(fault_sweep.HOME)
        build(fault_sweep.ROOT, TREE)
        self.prepare()
        keep_copy(operation)

    def run(self, at, act, error=0, *, forever=False):
        """In a child: the command, with something going wrong at call `at`."""
        answer = run_with_fault(self.arguments, at, act, error, forever=forever)
        drafts = set(os.listdir(f"{self.store}/tmp")) - self.drafts
        assert forever or not drafts, f"it went on to the end, exit {answer['code']}, and left a draft: {answer['err']}"
        return {**answer, "err": remarkable(answer["err"])}

    def command(self, *arguments, root=None):
        """(exit code, what it printed, what it complained of) of a command with this store."""
        return cli("--store", self.store, *arguments, root=root)

    def need(self, code, *arguments, root=None):
        """The JSON that a command printed that must exit with `code`."""
        got, out, err = self.command(arguments[0], "--json", *arguments[1:], root=root)
        assert got == code, f"{' '.join(arguments)}: exit {got}, {err.strip() or out}"
        return fault_sweep.json.loads(out) if out else {}

    # -- making what is there

    def save(self, tree, *arguments, root=None):
        """Plant, save, remember the picture; the checkpoint's id."""
        place = root or fault_sweep.ROOT
        plant(place, tree)
        identity = self.need(0, "save", *arguments, root=root)["checkpoint"]
        self.pictures[identity] = picture(place)
        return identity

    def restored(self, *arguments):
        """A restore, undo or redo; the picture before it is that of its safety checkpoint."""
        before, known = picture(fault_sweep.ROOT), set(self.ids())
        self.need(0, *arguments)
        [safety] = set(self.ids()) - known
        self.pictures[safety] = before

    def fill(self):
        """Checkpoints of two worktrees: plain, pinned and labelled ones, restores; the ids: (plain ones, pinned, labelled)."""
        plain = [self.save(tree) for tree in LATER[:2]]
        pinned = self.save(LATER[2], "--pin")
        plain.append(self.save(LATER[3]))
        labelled = self.save(LATER[4], "-m", "kept for its label")
        plain.append(self.save(LATER[5]))
        self.restored("restore", pinned, "--yes")
        self.restored("undo", "--yes")
        self.restored("redo", "--yes")
        plain += [self.save(tree) for tree in LATER[6:]]
        os.makedirs(self.second)
        for number in range(4):
            self.save({"stays.bin": TREE["stays.bin"], "other.bin": noise(30 + number, 4_000)}, root=self.second)
        return plain, pinned, labelled

    def interrupt(self, target):
        """Kill a restore in the middle of its changes; the pictures before it and of what it leads to."""
        from_, to = picture(fault_sweep.ROOT), self.pictures[target]
        arguments = ("--store", self.store, "restore", target, "--yes")
        keep_copy("before the cut")
        status, total = forked(lambda: run_with_fault(arguments, 0, 0, seed=12)["counted"])
        assert status == 0, total
        for at in sorted(range(1, total + 1), key=lambda at: abs(at - total * 2 // 3)):
            restore_copy("before the cut")
            forked(lambda at=at: run_with_fault(arguments, at, KILL, seed=12))
            if leftovers(fault_sweep.ROOT):
                for point in self.ids():
                    self.pictures.setdefault(point, from_)  # its safety checkpoint
                return from_, to
        raise AssertionError("a restore cannot be interrupted in its middle")

    # -- looking

    def listing(self):
        """All that is told of all checkpoints."""
        return self.need(0, "list", "--all")["checkpoints"]

    def ids(self):
        return [point["id"] for point in self.listing()]

    def journal(self):
        return self.need(0, "status")["journal"] is not None

    def packs(self, *directories):
        """Bytes in the packs, and in other directories of the store, as du has them but to the byte."""
        found = 0
        for name in ("packs", *directories):
            with os.scandir(os.path.join(self.store, name)) as entries:
                found += sum(entry.stat(follow_symlinks=False).st_size for entry in entries)
        return found

    def opened(self):
        from casrewind.settings import from_environment
        from casrewind.workspace import Workspace

        settings = from_environment(store=self.store)[0]
        return Workspace(fault_sweep.ROOT, settings, create=False)

    def holds(self, *, written):
        """The ids of all checkpoints. Each has the bytes that it was made of; `written`: and everything else of it, when
        it is written out."""
        with self.opened() as workspace:
            found = read_everything(workspace)
            for identity, files in found.items():
                wanted = {path: what[2] for path, what in self.pictures[identity].items() if what[0] == "file"}
                there = {path: hashlib.sha256(data).hexdigest() for path, data in files.items() if data is not None}
                assert there == wanted, (identity, sorted(there.keys() ^ wanted.keys()))
            for point, _ in workspace.checkpoints(every_worktree=True) if written else ():
                assert self.written(workspace, point) == ({}, []), point.id
        return set(found)

    def written(self, workspace, point, **how):
        """(differences between a checkpoint that is written out and its picture, paths that could not be written)."""
        place = f"{fault_sweep.BASE}/written"
        shutil.rmtree(place, ignore_errors=True)
        report = workspace.materialise(point, place, **how)
        lost = sorted(item.path for item in report.kept)
        here = picture(place)
        return {path: d for path, d in differences(here, self.pictures[point.id]).items() if path not in lost}, lost

    def index_is_disposable(self):
        """Without the index, everything is told in the same words."""
        before = self.listing()
        shutil.rmtree(f"{self.store}/index")
        assert self.listing() == before

    def life_goes_on(self, target):
        """A save in each worktree, a restore, an undo."""
        for place in (None, self.second) if os.path.isdir(self.second) else (None,):
            self.save({"later.txt": b"written after the fault\n"}, root=place)
        here = picture(fault_sweep.ROOT)
        self.restored("restore", target, "--yes")
        assert picture(fault_sweep.ROOT) == self.pictures[target], differences(picture(fault_sweep.ROOT), self.pictures[target])
        self.restored("undo", "--yes")
        assert picture(fault_sweep.ROOT) == here, differences(picture(fault_sweep.ROOT), here)


class Collecting(Upkeep):
    """gc: with much to forget, with nothing to forget, beside a restore that was interrupted."""

    wanted = "collected"

    def prepare(self):
        """Checkpoints, a ledger worth compacting, and everything that interrupted processes leave behind."""
        plain, self.target, labelled = self.fill()
        self.need(0, "pin", plain[0], "kept for its mark")
        for number in range(16):  # marks of a checkpoint that goes
            self.need(0, "pin", plain[1], "a long label " * 30 + f"{number}")
            self.need(0, "unpin", plain[1])
        self.is_open = self.operation == "gc during a restore"
        if self.is_open:
            self.old, self.new = self.interrupt(self.target)
        self.before = self.ids()
        self.litter()
        self.drafts = set(os.listdir(f"{self.store}/tmp"))
        many = "100" if self.operation == "gc with nothing to forget" else "2"
        self.arguments = ("--store", self.store, "gc", "--max-count", many)
        self.size = self.packs("tmp")
        ledger = os.path.getsize(f"{self.store}/ledger")
        keep_copy(self.operation)
        code, _, err = cli(*self.arguments)
        assert (code, remarkable(err)) == (0, ""), err
        self.told, self.after = self.listing(), self.packs()
        self.kept = {point["id"] for point in self.told}
        assert {self.target, labelled, plain[0]} <= self.kept
        assert (set(self.before) == self.kept) == (many == "100")
        assert self.after < self.size - 40_000
        if many == "2":
            assert len(self.kept) <= len(self.before) - 6
            assert os.path.getsize(f"{self.store}/ledger") < ledger * 0.7, "the ledger was not compacted"
        self.nothing_lies_about()
        restore_copy(self.operation)

    def litter(self):
        """A pack twice, a pack and a draft that nobody knows of, an index that was thrown away, a cut ledger tail."""
        from casrewind import fsio
        from casrewind.model import digest
        from casrewind.store.packs import FILE, PackWriter

        largest = max(os.scandir(f"{self.store}/packs"), key=lambda entry: (entry.stat().st_size, entry.name))
        shutil.copy2(largest.path, f"{self.store}/packs/{'d' * 20}.pack")

        def killed():
            fault_sweep.repeat_names(13)
            writer = PackWriter(f"{self.store}/packs", f"{self.store}/tmp")
            writer.append(FILE, [(digest.of(noise(40, 20_000)), noise(40, 20_000))])
            writer.sync_and_name_packs()
            _, fd = fsio.create_draft(f"{self.store}/tmp", ".pack")
            fsio.write_all(fd, noise(41, 5_000))

        status, _ = forked(killed)
        assert status == 0
        os.mkdir(f"{self.store}/index.old-0123abcd", 0o700)
        with open(f"{self.store}/index.old-0123abcd/data.mdb", "wb") as file:
            file.write(noise(42, 1_000))
        with open(f"{self.store}/{CUT}", "wb") as file:
            file.write(noise(43, 50))
        os.utime(f"{self.store}/{CUT}", (OLD, OLD))

    def nothing_lies_about(self):
        """Nothing is left that nobody has need of."""
        from casrewind.store import packs

        place = f"{self.store}/packs"
        assert os.listdir(f"{self.store}/tmp") == []
        assert not [name for name in os.listdir(self.store) if name.startswith("index.")]
        assert not os.path.exists(f"{self.store}/{CUT}")  # one that this fault has torn off is kept for a month
        assert self.packs() <= self.after + SLACK, (self.packs(), self.after)
        blobs = [digest for name in packs.pack_names(place) for digest, _ in packs.records_of_pack(place, name)]
        assert len(blobs) == len(set(blobs)), "a blob stands in two packs"

    def check(self, *, thorough, back):
        """After a fault. What was left is in the stash."""
        assert self.packs("tmp") <= self.size + FULL + RECORD, "it took more than one pack of space"
        listed = set(self.ids())
        assert self.kept <= listed, f"lost: {self.kept - listed}"
        is_small = self.packs() <= self.after + SLACK
        state = "before" if listed != self.kept else "collected" if is_small else "forgotten"
        assert self.need(0, "verify")["ok"]
        self.holds(written=thorough)
        if thorough:
            assert self.journal() == self.is_open
            self.index_is_disposable()
            self.at_the_restore("--abort") if self.is_open else self.life_goes_on(self.target)
            assert self.need(0, "verify")["ok"]
        if thorough or back:
            restore_copy("left")
        self.collects(thorough=thorough)
        return {"journal": self.is_open, "state": state}

    def collects(self, *, thorough):
        """The next gc does all that is left to do, and the one after it nothing."""
        self.need(0, *self.arguments[2:])
        assert self.holds(written=False) == self.kept
        self.nothing_lies_about()
        if not thorough:
            return
        assert self.need(0, "verify")["ok"]
        self.index_is_disposable()
        assert self.listing() == self.told
        assert self.need(0, *self.arguments[2:])["dropped"] == 0
        self.nothing_lies_about()
        self.holds(written=True)
        self.at_the_restore("--continue") if self.is_open else self.life_goes_on(self.target)
        assert self.need(0, "verify")["ok"]

    def at_the_restore(self, how):
        """The restore that was open all the while leads to where it led."""
        assert self.command("restore", self.target, "--yes")[0] == 11
        self.need(0, "restore", how)
        wanted = self.new if how == "--continue" else self.old
        assert picture(fault_sweep.ROOT) == wanted, differences(picture(fault_sweep.ROOT), wanted)
        assert not leftovers(fault_sweep.ROOT), leftovers(fault_sweep.ROOT)
        if how == "--continue":
            self.restored("undo", "--yes")
            assert picture(fault_sweep.ROOT) == self.old, differences(picture(fault_sweep.ROOT), self.old)


class Repairing(Upkeep):
    """verify --repair: of a store with one damage, with all of them, with none."""

    wanted = "repaired"

    def prepare(self):
        """A store, damaged; and what an uninterrupted repair makes of it."""
        plain, self.target, _ = self.fill()
        self.middle = plain[2]
        what = self.operation.removeprefix("repair").strip()
        self.what = DAMAGES if what == "everything" else () if what == "sound" else (what,)
        if "journal" in self.what:
            self.interrupt(self.target)
        sound = self.listing()
        self.hurt = {}  # file below the store: its bytes, which nothing may throw away
        for name in self.what:
            getattr(self, "damage_" + name.replace(" ", "_"))()
        self.arguments = ("--store", self.store, "verify", "--repair")
        keep_copy(self.operation)
        self.code, out, err = cli(*self.arguments)
        assert remarkable(err) == "", err
        assert out.count("repaired: ") >= len(self.what), out
        self.sound = self.verified()
        self.there, self.lost = self.listing(), self.losses()
        assert (self.code == 20) == ("pack" in self.what) == bool(self.lost)
        ids = [point["id"] for point in sound]
        assert {point["id"] for point in self.there} == set(ids) - ({self.middle} if "ledger no index" in self.what else set())
        self.nothing_was_thrown_away()
        restore_copy(self.operation)

    # -- damage

    def keep(self, name):
        with open(f"{self.store}/{name}", "rb") as file:
            data = file.read()
        self.hurt[name] = data
        return data

    def write(self, name, data):
        with open(f"{self.store}/{name}", "wb") as file:
            file.write(data)
        self.keep(name)

    def damage_pack(self):
        """A bit is flipped in a file that two checkpoints hold, and bytes stand behind the last record of another pack."""
        from casrewind.model import digest
        from casrewind.store import packs

        wanted = digest.of(LATER[2]["pinned.bin"])
        places = [
            place
            for pack in packs.pack_names(f"{self.store}/packs")
            for found, place in packs.records_of_pack(f"{self.store}/packs", pack)
            if found == wanted
        ]
        [place] = places
        name = f"packs/{place.pack}.pack"
        data = bytearray(self.keep(name))
        data[place.offset + place.length // 2] ^= 4
        self.write(name, data)
        other = min(n for n in os.listdir(f"{self.store}/packs") if n != f"{place.pack}.pack")
        self.write(f"packs/{other}", self.keep(f"packs/{other}") + noise(50, 100))

    def damage_ledger(self):
        """A bit is flipped in the record of a checkpoint in the middle."""
        data = bytearray(self.keep("ledger"))
        at = data.find(self.middle.encode())
        assert len(data) * 0.1 < at < len(data) * 0.7, (at, len(data))
        data[at + 3] ^= 1
        self.write("ledger", data)

    def damage_ledger_no_index(self):
        """And nothing remembers it."""
        self.damage_ledger()
        shutil.rmtree(f"{self.store}/index")

    def damage_journal(self):
        """A bit is flipped in the journal of an interrupted restore."""
        [name] = os.listdir(f"{self.store}/journals")
        data = bytearray(self.keep(f"journals/{name}"))
        data[len(data) // 2] ^= 16
        self.write(f"journals/{name}", data)

    def damage_FORMAT(self):  # noqa: N802 - the file's name
        """It is gone."""
        os.unlink(f"{self.store}/FORMAT")

    # -- what must be true

    def verified(self):
        """What a look at the store says is wrong, and how much is sound."""
        return {key: value for key, value in self.need(self.code, "verify").items() if key != "repaired"}

    def losses(self):
        """{checkpoint: paths that cannot be had}; all else is as it was."""
        found = {}
        with self.opened() as workspace:
            for point, _ in workspace.checkpoints(every_worktree=True):
                different, lost = self.written(workspace, point, skip_damaged=True)
                assert different == {}, (point.id, different)
                if lost:
                    found[point.id] = lost
        return found

    def nothing_was_thrown_away(self):
        """The damaged bytes are somewhere in the store still."""
        there = set()
        for place, _, names in os.walk(self.store):
            for name in names:
                with open(os.path.join(place, name), "rb") as file:
                    there.add(file.read())
        assert not [name for name, data in self.hurt.items() if data not in there]

    def check(self, *, thorough, back):
        """After a fault. What was left is in the stash."""
        self.nothing_was_thrown_away()
        code, out, err = self.command("verify", "--json")
        assert code in (0, 20), f"verify: exit {code}: {err}"
        found = fault_sweep.json.loads(out) if out else {}
        state = "repaired" if all(found.get(key) == value for key, value in self.sound.items()) else "damaged"
        if thorough:
            for arguments in (("list",), ("save",), ("status",)):
                code, _, err = self.command(*arguments)
                assert code in (0, 11, 20), f"{arguments}: exit {code}: {err}"
        if thorough or back:
            restore_copy("left")
        self.repairs(thorough=thorough)
        if thorough:
            self.index_is_disposable()
            for path in leftovers(fault_sweep.ROOT):  # without its journal nobody knows whose they are
                os.unlink(path)
            self.life_goes_on(self.middle if self.lost else self.target)
            self.save(LATER[2])  # the project holds again what was lost
            assert self.need(0, "verify")["ok"]
            self.need(0, "gc", "--max-count", "100")
            assert os.listdir(f"{self.store}/tmp") == []
            self.holds(written=True)
        return {"journal": False, "state": state}

    def repairs(self, *, thorough):
        """Repaired once more, it is what an uninterrupted repair makes of it."""
        found = self.need(self.code, "verify", "--repair")
        assert {key: value for key, value in found.items() if key != "repaired"} == self.sound
        assert self.listing() == self.there
        self.nothing_was_thrown_away()
        assert all("damaged" in name for name in os.listdir(f"{self.store}/journals"))
        if thorough:
            assert self.losses() == self.lost
            assert not self.journal()
            assert self.need(self.code, "verify", "--repair")["repaired"] == []
            assert self.verified() == self.sound


DAMAGES = ("journal", "ledger", "pack", "FORMAT")
GC = ("gc", "gc with nothing to forget", "gc during a restore")
REPAIRS = ("repair everything", "repair pack", "repair ledger", "repair ledger no index", "repair journal", "repair FORMAT", "repair sound")
CASES = {**dict.fromkeys(GC, Collecting), **dict.fromkeys(REPAIRS, Repairing)}
