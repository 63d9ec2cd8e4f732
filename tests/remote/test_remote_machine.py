"""Machines that share a remote, in any order of work, cuts and accidents: each checkpoint arrives exactly, and none is lost.

`CASREWIND_STEPS` sets how many steps the long test makes, `CASREWIND_SEED` other ones. The remote is in memory, the stores are
real. What is expected follows from the files alone.
"""

import collections
import os
import random
import shutil
import tempfile
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule, run_state_machine_as_test

from casrewind import errors
from casrewind.model import manifest
from casrewind.model.retention import Limits
from casrewind.remote import clone, collect, names, objects, old_chains, piece, push
from casrewind.remote.base_chain import BasePurged
from casrewind.remote.chain import ChainReader
from casrewind.remote.piece_names import all_pieces_of, holds_of
from support.machines import Machine, Requests
from support.server_days import Calendar, Clocked

pytest.importorskip("obstore")

STEPS = int(os.environ.get("CASREWIND_STEPS", "100000"))
SEED = int(os.environ.get("CASREWIND_SEED", "0"))
RUN = 25
"""Steps of one run."""
MOST_SITES = 5
SHM = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
PATHS = ["a", "b", "d/a", "d/x", "d/e/f", "g"]
DONE = collections.Counter()
"""What all runs together did."""

number = st.integers(0, 9999)
fault = st.one_of(st.tuples(st.one_of(st.integers(1, 4), st.integers(1, 14)), st.booleans(), st.sampled_from(["killed", "refused"])), st.none())
"""At which request, after its effect or before it, and what then happens."""


class Killed(BaseException):
    """The program ends here."""


def at_request(wanted, is_after, do, *, ends=False):
    """A function for `Requests` that calls `do` at one request, and if the program `ends` there, at all later ones."""

    def meet(number, after):
        if (number == wanted and after == is_after) or (ends and number > wanted):
            do()

    return meet


def content(which):
    """The bytes of a file: some are equal, some nearly, one is empty."""
    if which % 5 == 0:
        return [b"", b"one\n", b"two\n" * 300, b"\0" * 5000][which // 5 % 4]
    made = random.Random(which % 300)
    return made.randbytes(made.choice((10, 300, 3000))) * made.choice((1, 1, 3))


class Site:
    """A machine, and what is true of it: the ids of its own checkpoints, and of those that are surely on the remote.

    Copies of each other have one `line`. `chains`: those that it has pushed. `purged`: the next push empties the chain before. `shaken`: a copy's push may have
    deleted it, and only the push of a new checkpoint notices."""

    def __init__(self, machine):
        self.machine, self.own, self.pushed, self.line = machine, set(), set(), object()
        self.chains = set()
        self.forgets = self.purged = self.shaken = False

    def look(self):
        """What its store has as its own."""
        return {point.id for point in self.machine.points().values() if not point.more.machine}


class Machines(RuleBasedStateMachine):
    def __init__(self):
        super().__init__()
        self.top = Path(tempfile.mkdtemp(prefix="casrewind-machines-", dir=SHM))
        self.url = f"memory://{self.top.name}"
        self.truth = {}  # checkpoint: ({path: bytes}, label)
        self.purged = set()  # contents that a purge removed somewhere
        self.files = collections.defaultdict(dict)  # root: {path: bytes}
        self.sites, self.gone, self.copied, self.bases = [], [], set(), []
        self.patch = pytest.MonkeyPatch()
        self.calendar = Calendar(self.patch)
        self.count = 0

    # -- plumbing

    def place(self, what):
        self.count += 1
        return self.top / f"{what}{self.count}"

    def site(self, pick):
        return self.sites[pick % len(self.sites)]

    def new_site(self, name="sandbox"):
        site = Site(Clocked(self.calendar, self.place("machine"), self.url, name))
        site.machine.add_remote()
        return site

    @contextmanager
    def watching(self, site, meet):
        """While this lasts, `meet` is called around each request of a machine."""
        site.machine.tampered = lambda found: Requests(self.calendar.of(found), meet)
        try:
            yield
        finally:
            site.machine.tampered = self.calendar.of

    def with_fault(self, site, what, work):
        """Do this work, which a fault may end. Returns its result, or None."""
        if what is None:
            return work()
        wanted, after, kind = what

        def strike():
            DONE["cuts"] += 1
            raise Killed if kind == "killed" else errors.RemoteError("the remote cannot be reached")

        try:
            with self.watching(site, at_request(wanted, after, strike, ends=kind == "killed")):
                return work()
        except (Killed, errors.RemoteError) as error:
            assert isinstance(error, Killed) or "cannot be reached" in str(error), error
            return None

    def save(self, site, label=""):
        machine = site.machine
        files = self.files[machine.root]
        for path in [path for path in machine.root.rglob("*") if path.is_file()]:
            path.unlink()
        for path in sorted((path for path in machine.root.rglob("*") if path.is_dir()), reverse=True):
            path.rmdir()
        point = machine.save(files, label)
        DONE["saves"] += 1
        self.truth.setdefault(point.id, (dict(files), point.label))
        site.own.add(point.id)
        return point

    def is_true(self, identity, point, tree):
        """A checkpoint is what was saved, but for what was purged."""
        files, label = self.truth[identity]
        found = {os.fsdecode(path): data for path, data in tree.items() if data[:1] != ("dir",)}
        assert found.keys() == files.keys()
        for path, data in found.items():
            assert data == files[path] or (data[0] == manifest.PURGED and files[path] in self.purged), path
        assert point.label == label

    def check(self, site, known=()):
        """Every checkpoint of a store, but the known ones, is what was saved."""
        for identity, point in site.machine.points().items():
            if identity not in known:
                self.is_true(identity, point, site.machine.tree(identity))
                DONE["checked"] += 1

    def pushed(self, site, **options):
        """Push. If what the store rests on was purged, push again with what is still here."""
        try:
            return site.machine.push(**options)
        except BasePurged:
            DONE["purged bases"] += 1
            return site.machine.push(keep_purged=True, **options)

    def wrong(self, problems):
        """The problems of a pull, but for checkpoints that are here as they were before a purge of their machine."""
        return [one for one in problems if not (self.purged and "known here with other contents" in one)]

    def push_of(self, site, what=None, *, anew=False):
        """Push, with a fault; with `anew`, into a new chain."""
        site.purged |= anew
        if site.purged:  # the chain before may be deleted, with what was forgotten since
            for one in self.sites:
                one.pushed &= site.own if one.line is site.line else one.pushed
                one.shaken |= one is not site and one.line is site.line
            self.gone = [(line, ids & site.own if line is site.line else ids, chains) for line, ids, chains in self.gone]
        done = self.with_fault(site, what, lambda: self.pushed(site, anew=anew))
        site.chains.add(site.machine.chain())
        if done is not None:
            DONE["pushes"] += 1
            DONE["roll-ups"] += any("together" in note for note in done.notes)
            site.purged = False
            DONE["pushes anew"] += anew
            site.shaken &= not (anew or any("copied" in note or "purge" in note for note in done.notes))
            if not site.shaken:
                site.pushed |= site.own
        return done

    # -- work

    @initialize()
    def begin(self):
        DONE["runs"] += 1
        for _ in range(2):
            self.sites.append(self.new_site())
            self.files[self.sites[-1].machine.root]["a"] = b"first\n"
            self.save(self.sites[-1])

    @rule(pick=number, path=st.sampled_from(PATHS), which=number, label=st.sampled_from(["", "", "good"]))
    def edit_and_save(self, pick, path, which, label):
        site = self.site(pick)
        self.files[site.machine.root][path] = content(which)
        self.save(site, label)

    @rule(pick=number, path=st.sampled_from(PATHS))
    def remove_and_save(self, pick, path):
        site = self.site(pick)
        self.files[site.machine.root].pop(path, None)
        self.save(site)

    @rule(pick=number, which=number)
    def save_the_bytes_of_a_tree(self, pick, which):
        site = self.site(pick)
        with site.machine.open() as workspace:
            points = [point for point, _ in workspace.checkpoints()]
            data = workspace._context.store.read(points[which % len(points)].tree)
        self.files[site.machine.root]["g"] = data
        self.save(site)

    @rule(pick=number, most=st.integers(1, 3))
    def collect_garbage(self, pick, most):
        site = self.site(pick)
        with site.machine.open() as workspace:
            workspace.gc(Limits(None, most, 0, None))
        left = site.look()
        assert left <= site.own
        site.own, site.forgets = left, True
        DONE["gcs"] += 1

    @rule(pick=number, path=st.sampled_from(PATHS))
    def purge(self, pick, path):
        site = self.site(pick)
        held = {files[path] for files, _ in self.truth.values() if path in files}
        try:
            with site.machine.open() as workspace:
                workspace.purge([path.encode()])
        except errors.PathNotFound:
            return
        except errors.StoreError as error:  # a file with the bytes of a tree
            assert "needed by what checkpoints rest on themselves" in str(error)
            return
        self.purged |= held
        site.purged = True
        for root in {one.machine.root for one in self.sites}:
            self.files[root].pop(path, None)
        DONE["purges"] += 1

    @rule(pick=number, what=fault, anew=st.sampled_from([False, False, False, True]), wrong=st.sampled_from([0, 0, -1, 1, 365]))
    def push(self, pick, what, anew, wrong=0):
        """From now on the machine's clock is wrong by so many days. A pull finds all the same: a day is less than what a reader looks back, and
        a year ahead is read at once."""
        site = self.site(pick)
        site.machine.wrong = wrong
        done = self.push_of(site, what, anew=anew)
        if done is not None and not done.left:
            again = site.machine.push()
            assert (again.checkpoints, again.blobs, again.size) == (0, 0, 0), again

    @rule(pick=number, what=fault, newest=st.sampled_from([False, False, False, True]), passed=st.sampled_from([0, 0, 0.1, 0.9, 1.5, 4, 8]))
    def pull(self, pick, what, newest, passed=0):
        """So many days have passed since what was done before."""
        self.calendar.day += passed
        site = self.site(pick)
        known = set(site.machine.points())
        taken = self.with_fault(site, what, lambda: site.machine.pull(newest=newest))
        self.check(site, known)
        if taken is not None:
            assert self.wrong(taken.problems) == []
            assert sum(taken.checkpoints.values()) == len(set(site.machine.points()) - known)
            DONE["pulls"] += 1

    def has_alone(self, site):
        """True if a machine has pushed all, and its chain is no other one's: no copy went on with it, and no clone uses it."""
        if site.purged or site.shaken or self.push_of(site) is None or site.shaken:
            return False
        chain = site.machine.chain()
        others = [one.chains for one in self.sites if one is not site] + [chains for _, _, chains in self.gone]
        used = holds_of(objects.Objects(self.url).list()).values()
        return not any(chain in chains for chains in (*others, *used))

    def pieces_to_the_end(self, site):
        """The names of the pieces that a reader of a machine's chain follows, to the last one that the machine has put."""
        with site.machine.open() as workspace:
            remote = site.machine.remote(workspace)
            keys, chain, last = remote.keys, remote.files.state.chain, remote.files.state.next - 1
        remote = objects.Objects(self.url)
        found = [info for info, _ in ChainReader(remote, keys, all_pieces_of(remote.list(chain)).get(chain, [])).follow()]
        assert last == (found[-1].last if found else 0), "a reader finds less than was pushed"
        return [info.name for info in found]

    @rule(pick=number, saves=st.booleans(), which=number, everything=st.booleans())
    def owner_deletes_pieces(self, pick, saves, which, everything):
        """The owner of the bucket deletes pieces of a chain. A push of a person never says "pushed" then, and one anew sends all again."""
        site = self.site(pick)
        if not self.has_alone(site):
            return
        pieces = self.pieces_to_the_end(site)
        objects.Objects(self.url).delete(pieces if everything else [pieces[which % len(pieces)]])
        if saves:
            self.save(site)
        try:
            site.machine.push(by_hand=True)
        except errors.RemoteError as error:
            assert "not all that was pushed is on" in str(error), error
            assert self.push_of(site, anew=True) is not None
            DONE["deletions"] += 1
        else:  # what a roll-up had replaced was not emptied yet
            self.pieces_to_the_end(site)

    @rule(pick=number, saves=st.integers(1, 4), which=number, pushes_first=st.booleans())
    def put_back_from_a_backup(self, pick, saves, which, pushes_first):
        """A machine is put back as it was before its last pushes. One pull brings what it has pushed since, as another machine's."""
        site = self.site(pick)
        if not self.has_alone(site):
            return
        before, backup = set(site.own), self.place("backup")
        shutil.copytree(site.machine.home, backup)
        for step in range(saves):
            self.files[site.machine.root][PATHS[step]] = content(which + step)
            self.save(site)
            self.push_of(site)
        newer, site.own = site.own - before, before
        shutil.rmtree(site.machine.home)
        shutil.move(backup, site.machine.home)
        if pushes_first:
            self.save(site)
            self.push_of(site)
        taken = site.machine.pull()
        site.chains.add(site.machine.chain())
        assert self.wrong(taken.problems) == [] and (pushes_first or not newer or taken.notes)
        assert site.look() == site.own and newer <= set(site.machine.points())
        self.check(site)
        DONE["backups"] += bool(newer)

    @rule(pick=number, what=fault)
    def remove_old_chains(self, pick, what):
        """A collector removes the chains of all others, but for those that clones use: their machines may notice it at the next push."""
        site = self.site(pick)

        def work():
            with site.machine.open() as workspace:
                remote = site.machine.remote(workspace)
                old = [one for one in old_chains.find_old(remote, -1.0) if not one.kept.startswith("a clone uses it")]
                self.forget_pushed({one.chain for one in old}, site)
                return old_chains.remove(remote, old)

        done = self.with_fault(site, what, work)
        if done is not None:
            DONE["removals"] += bool(done.chains)
            assert not done.spared and (what is not None or not done.left)

    def forget_pushed(self, chains, site=None):
        """What these chains had is perhaps no longer on the remote."""
        for one in self.sites:
            if one.chains & chains:
                one.pushed, one.shaken = set(), one.shaken or one is not site
        self.gone = [(line, set() if of & chains else ids, of) for line, ids, of in self.gone]

    @rule(pick=number, first=st.one_of(st.integers(1, 12), st.integers(1, 10**10 - 1)), more=st.one_of(st.just(0), st.integers(0, 9), st.just(10**10)), which=number)
    def stranger(self, pick, first, more, which):
        """Somebody without the key puts an object with the name of a piece: random bytes, or a true piece as a roll-up from the first on."""
        remote = objects.Objects(self.url)
        chain = self.site(pick).machine.chain()
        true = [info.name for info in remote.list(chain) if "-" in info.name and "hold" not in info.name and "dead" not in info.name]
        data = random.Random(which).randbytes(20 + which % 500)
        if true and which % 3 == 0:
            first, data = 1, remote.get(true[which % len(true)])
            data = data[: len(data) // 2] if which % 2 else data
        last = min(first + more, 10**10 - 1)
        name = f"{chain}/{first:010}-{last:010}"
        own = {"".join(f"{number:010}-{number:010}") for number in range(1, 40)}
        if chain and not (which % 3 == 0 and (not true or first == last)) and name not in {info.name for info in remote.list(chain)}:
            DONE["strangers"] += remote.put_new(name, data) and (name[33:] in own or 1)

    # no preconditions below: at which request a fault strikes is not the same in each run, because ids are random

    @rule(pick=number, everything=st.booleans(), what=fault)
    def clone(self, pick, everything, what):
        if len(self.sites) >= MOST_SITES or not any(site.pushed for site in self.sites):
            return
        source = next(site for site in (*self.sites[pick % len(self.sites) :], *self.sites) if site.pushed)
        made = Site(Clocked(self.calendar, self.place("machine"), self.url))
        made.machine.root.rmdir()
        reference = sorted(source.pushed)[pick % len(source.pushed)]

        def work():
            machine = made.machine
            try:
                return clone.clone(
                    clone.RemoteConfig(self.url, "laptop"), str(machine.root), machine.settings, machine.environ,
                    reference=reference, everything=everything,
                )  # fmt: skip
            except errors.AmbiguousReference as error:  # one of two that have it has purged it
                assert self.purged and "different contents" in str(error)
                return None

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(clone, "Objects", lambda *a: made.machine.tampered(objects.Objects(*a)))
            done = self.with_fault(made, what, work)
        if done is None:
            assert not made.machine.root.exists(), "a clone that failed leaves nothing"
            return
        DONE["clones"] += 1
        assert done.problems == () and done.point.id == reference
        made.own = made.look()
        made.chains.add(made.machine.chain())
        assert reference in made.own and (everything or made.own == {reference})
        self.check(made)
        files = {path: data for path, data in self.truth[reference][0].items() if (made.machine.root / path).exists()}
        assert {str(path.relative_to(made.machine.root)): path.read_bytes() for path in made.machine.root.rglob("*") if path.is_file()} == files
        assert set(self.truth[reference][0].values()) - set(files.values()) <= self.purged
        self.files[made.machine.root] = files
        self.sites.append(made)

    @rule(pick=number, saves=st.booleans())
    def name_a_base(self, pick, saves):
        site = self.site(pick)
        if saves:
            self.save(site)
        self.push_of(site)
        self.calendar.day += 0.001  # of two in one second, any may count
        with site.machine.open() as workspace:
            said = names.put_names(workspace._context, site.machine.remote(workspace), [names.base_of("base")])
        assert bool(said) == (site.machine.wrong < -600 / 86_400)
        if not said:
            newest = max((point for point in site.machine.points().values() if not point.more.machine), key=lambda point: point.seq)
            self.bases.append((newest.id, site, site.machine.chain()))
            DONE["bases"] += 1

    def chosen(self, reference, *, by_names=True):
        """(What a clone by a name takes, what it says of the name); None for nothing."""
        config = clone.RemoteConfig(self.url, "laptop")
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(clone, "Objects", lambda *a: self.calendar.of(objects.Objects(*a)))
            if not by_names:
                patch.setattr(names, "find_entries", lambda *_: names.Entries(()))
            remote = clone.open_unjoined(config, self.sites[0].machine.environ, "", None)[0]
            try:
                found = clone._choose_checkpoint(remote, reference, None)
            except errors.CheckpointNotFound:
                return None, ""
            return found.point.id, "; ".join(found.notes)

    @rule(name=st.sampled_from(["sandbox", "sandbox", "laptop"]))
    def a_name_leads_to_what_a_list_of_all_finds(self, name):
        found, said = self.chosen(name)
        wanted, _ = self.chosen(name, by_names=False)
        assert found == wanted or "put by a clock" in said or "or more" in said, (found, wanted, said)
        DONE["names"] += "found among all" not in said

    @rule()
    def a_base_is_the_one_that_was_named_last(self):
        found, said = self.chosen("base")
        assert found is None or found in {identity for identity, _, _ in self.bases}
        if self.bases:
            identity, site, chain = self.bases[-1]
            if site in self.sites and site.line not in self.copied and site.machine.chain() == chain and not site.shaken:
                assert found == identity, said
                DONE["bases found"] += 1

    @rule(pick=number, other=number, path=st.sampled_from(PATHS), what=fault)
    def purge_elsewhere_and_push(self, pick, other, path, what):
        """One machine purges and pushes, then another one pushes, which may be a clone or a copy of it."""
        site, second = self.site(pick), self.site(other)
        self.purge(pick, path)
        self.push_of(site, what)
        if second is not site:
            self.save(second)
            self.push_of(second)

    @rule(pick=number)
    def copy(self, pick):
        """A machine is copied with all that it has: the same paths, the same state."""
        if len(self.sites) >= MOST_SITES:
            return
        site = self.site(pick)
        place = self.place("copy")
        place.mkdir()
        shutil.copytree(site.machine.home, place / "home")
        made = Site(Clocked(self.calendar, place, self.url, site.machine.name, root=site.machine.root))
        self.copied.add(site.line)
        made.own, made.pushed, made.line, made.chains = set(site.own), set(site.pushed), site.line, set(site.chains)
        made.forgets, made.purged, made.shaken = site.forgets, site.purged, site.shaken
        self.sites.append(made)
        DONE["copies"] += 1

    @rule(pick=number, name=st.sampled_from(["state", "sent"]), how=st.sampled_from(["gone", "cut", "garbled"]))
    def lose_state(self, pick, name, how):
        site = self.site(pick)
        for path in site.machine.home.glob(f"data/stores/*/remotes/*/{name}"):
            data = path.read_bytes()
            if how == "gone":
                path.unlink()
            elif how == "cut" or name == "sent":
                path.write_bytes(data[: len(data) // 2])
            else:
                path.write_bytes(bytes(len(data)))
            DONE["states lost"] += 1

    @rule(pick=number)
    def lose_machine(self, pick):
        if len(self.sites) < 4:
            return
        site = self.sites.pop(pick % len(self.sites))
        self.gone.append((site.line, site.pushed & site.own, site.chains))
        DONE["machines lost"] += 1

    @rule(pick=number, other=number, wanted=st.integers(1, 6), after=st.booleans(), does=st.sampled_from(["push", "pull"]), meanwhile=st.sampled_from(["push", "pull", "push after a purge"]))
    def two_at_once(self, pick, other, wanted, after, does, meanwhile):
        """Between two requests of one machine another one does all of its work."""
        site, second = self.site(pick), self.site(other)
        if site is second:
            return

        def work():
            DONE["at once"] += 1
            if meanwhile == "push after a purge":
                self.purge(other, PATHS[wanted % len(PATHS)])
            if meanwhile == "pull":
                second.machine.pull()
            else:
                self.push_of(second)

        known = set(site.machine.points())
        may_end = "purge" in meanwhile or second.purged
        if does == "push" and (site.purged or (site.line is second.line and (second.purged or "purge" in meanwhile))):
            return  # `push_of` knows what one push deletes, not what two do at once
        with self.watching(site, at_request(wanted, after, work)):
            if does == "push":
                self.pushed(site)
                site.chains.add(site.machine.chain())
                site.pushed |= set() if site.shaken else site.own
            else:
                for problem in self.wrong(site.machine.pull().problems):
                    assert may_end, problem
                    assert "deleted just now" in problem or "cannot be taken" in problem, problem
                self.check(site, known)

    # -- at the end

    def teardown(self):
        try:
            self.nothing_is_lost()
        finally:
            DONE["lists of days"] += self.calendar.asked.count("days")
            self.patch.undo()
            objects._memories.pop(self.url, None)
            shutil.rmtree(self.top)

    def nothing_is_lost(self):
        for count, site in enumerate(self.sites):  # a store whose chain a copy ended notices it at its next checkpoint
            self.files[site.machine.root]["end"] = b"%d" % count
            self.save(site)
        for site in self.sites:
            self.push_of(site)
            again = site.machine.push()
            assert again[:2] == (0, 0) and (again.size == 0 or again.left)  # what a clone uses is not emptied after a purge
            assert site.look() == site.own
        reader = self.new_site("reader")
        assert self.wrong(reader.machine.pull().problems) == []
        self.check(reader)
        wanted = set().union(*(ids for _, ids, _ in self.gone), *(site.own | site.pushed for site in self.sites))
        assert wanted <= set(reader.machine.points())
        for site in self.sites:
            assert self.wrong(site.machine.pull().problems) == []
            assert site.forgets or wanted <= set(site.machine.points())
            self.check(site)
            assert not site.machine.problems()


@pytest.fixture
def small_pieces(monkeypatch):
    monkeypatch.setattr(objects, "_PAGE", 1)  # a list of every object is long
    monkeypatch.setattr(push, "MOST", 6000)  # several pieces in a push
    monkeypatch.setattr(collect, "EVERY", 2)
    monkeypatch.setattr(collect, "_ROLL_UP_BYTES", 30_000)  # some pieces are too long for a roll-up
    monkeypatch.setattr(piece, "_FULL", {use: 2000 for use in piece._FULL})  # several frames in a piece
    monkeypatch.setattr(piece, "TAIL", 400)  # tables and frames by ranges
    monkeypatch.setattr(piece, "_NEAR", 200)


@pytest.mark.parametrize("which", [21, 22])
@pytest.mark.parametrize("is_first", [True, False])
@pytest.mark.parametrize("event", [Machines.owner_deletes_pieces, Machines.put_back_from_a_backup], ids=["the owner deletes", "a backup"])
def test_an_accident_between_pushes_loses_nothing(small_pieces, event, is_first, which):
    DONE.clear()
    machines = Machines()
    machines.begin()
    for step in range(4):
        for pick in range(2):
            machines.edit_and_save(pick, PATHS[step], step, "")
            machines.push(pick, None, False)
            machines.pull(1 - pick, None, False)
    for pick in range(2):
        event(machines, pick, 3, which, is_first)
        machines.pull(1 - pick, None, False)
    machines.teardown()
    assert DONE["deletions"] + DONE["backups"] == 2


@pytest.mark.turns(3)
@pytest.mark.timeout(0)
@pytest.mark.parametrize("steps", [160, pytest.param(STEPS, marks=pytest.mark.long)])
def test_whatever_machines_do_every_checkpoint_arrives_and_none_is_lost(steps, small_pieces):
    DONE.clear()
    run_state_machine_as_test(
        seed(SEED)(Machines) if SEED else Machines,
        settings=settings(
            max_examples=max(1, steps // RUN), stateful_step_count=RUN, deadline=None, database=None, print_blob=False,
            derandomize=not SEED, suppress_health_check=list(HealthCheck), phases=(Phase.generate, Phase.shrink) if steps < 1000 else (Phase.generate,),
        ),
    )  # fmt: skip
    print(", ".join(f"{number} {what}" for what, number in DONE.items()))
    often = min(DONE[what] for what in ("saves", "pushes", "checked", *(("pulls", "cuts") if steps >= 1000 else ())))
    rare = min(DONE["clones"], DONE["copies"], DONE["purges"], DONE["gcs"], DONE["states lost"], DONE["at once"], DONE["roll-ups"], DONE["pushes anew"], DONE["strangers"], DONE["deletions"], DONE["backups"], DONE["lists of days"], DONE["names"], DONE["bases"])
    assert often > 0 if steps < 1000 else (often > steps / 60 and rare > steps / 1000)
