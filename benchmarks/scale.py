"""python -m benchmarks.scale: what a day of 1,000 people, 1,000,000 checkpoints and 100,000 sandboxes asks of a bucket.

The code that runs is that of casrewind: save, push, pull, clone. The bucket is in memory, and what stands before it counts. Some
sandboxes and readers do their work for real, and one project has 100,000 chains for real. The day is multiplied from these counts.
The tables say which figures are counted and which are multiplied.
"""

import argparse
import gc
import json
import os
import statistics
import sys
import threading
import time
from pathlib import Path
from typing import NamedTuple

from . import trees
from .checked_options import refuse_missing_tree, refuse_too_few
from .compare import contenders
from .scratch import USAGE, in_scratch

PRICES = {"PUT": 0.005 / 1000, "LIST": 0.005 / 1000, "GET": 0.0004 / 1000, "DELETE": 0.0, "GB-month": 0.023, "GB to the Internet": 0.09}
"""Dollars: the list prices of S3 Standard in us-east-1, as published, noted on 26 November 2026. Within the region bytes cost nothing."""
LATENCY = 0.1
"""Seconds that a request or a page of a LIST takes. Assumed; Amazon's guide to S3 names tens of milliseconds as the median of small ones."""
RATES = {"PUT": 3500, "GET": 5500}
"""Requests a second that S3 takes for one prefix, at least, by Amazon's guide. DELETE counts as PUT, LIST as GET."""
PEOPLE, CHECKPOINTS, SANDBOXES = 1000, 1_000_000, 100_000
"""A day. Each sandbox is a chain of its own and makes ten checkpoints."""
PULLS = 8
"""Pulls of each person in a day."""
KEPT = 30
"""Days that the bucket has when it is looked at."""
EACH, ONCE = "each turn", "at the end"
BATCHES = {EACH: 1, "two turns at once": 2, ONCE: None}
"""How many checkpoints a push has. A person with 1,000 checkpoints in eight hours makes two in a minute."""
MEMORY = 100e6
"""Bytes that a command may need."""
PAGE = 1000
WORKED = 20


class Counts(NamedTuple):
    """As those of the S3 server of the tests. `waits`: requests that waited for the end of another one, about."""

    requests: dict
    received: int
    sent: int
    waits: int


class CountingBucket:
    """The functions of obstore, which count what they are asked. A memory:// store is behind them. LIST has pages, as S3 has."""

    def __init__(self, hold=0.0):
        """Each request takes `hold` seconds at least, so that `waits` can be counted: S3 answers many at the same time."""
        self._hold, self._lock = hold, threading.Lock()
        self.reset()

    def __enter__(self):
        import obstore

        self._library, self._real = obstore, {name: getattr(obstore, name) for name in ("put", "get", "list", "delete")}
        for name in self._real:
            setattr(obstore, name, getattr(self, f"_{name}"))
        return self

    def __exit__(self, *_):
        for name, real in self._real.items():
            setattr(self._library, name, real)

    def reset(self):
        self._requests, self._received, self._sent, self._spans = {}, 0, 0, []

    def counts(self):
        waits, end = 0, -1.0
        for last, first in sorted((last, first) for first, last in self._spans):
            if first >= end:
                waits, end = waits + 1, last
        return Counts(dict(self._requests), self._received, self._sent, waits)

    def _asked(self, verb, first, *, received=0, sent=0):
        if self._hold:
            time.sleep(self._hold)
        with self._lock:
            self._requests[verb] = self._requests.get(verb, 0) + 1
            self._received += received
            self._sent += sent
            if self._hold:
                self._spans.append((first, time.monotonic()))

    def _put(self, store, name, data, **more):
        first = time.monotonic()
        try:
            return self._real["put"](store, name, data, **more)
        finally:
            self._asked("PUT", first, received=len(data))

    def _get(self, store, name, **more):
        first, size = time.monotonic(), 0
        try:
            found = self._real["get"](store, name, **more)
            size = found.range[1] - found.range[0]
            return found
        finally:
            self._asked("GET", first, sent=size)

    def _list(self, store, prefix=None, **more):
        pages = iter(self._real["list"](store, prefix, **more))
        first, page = time.monotonic(), next(pages, [])
        while True:
            self._asked("LIST", first)
            if page:
                yield page
            if len(page) < PAGE:
                return
            first, page = time.monotonic(), next(pages, [])
            if not page:
                return

    def _delete(self, store, names):
        first = time.monotonic()
        try:
            return self._real["delete"](store, names)
        finally:
            self._asked("DELETE", first)


class Cost(NamedTuple):
    """What one step cost, counted: requests by method, bytes up and down, requests after each other, processor seconds, and the bytes by
    which the process grew."""

    step: str
    requests: dict
    up: float
    down: float
    waits: int
    processor: float
    memory: int

    def number(self, *verbs):
        return sum(self.requests.get(verb, 0) for verb in verbs)

    def dollars(self):
        return sum(PRICES[verb] * number for verb, number in self.requests.items())


def options(argv):
    """The options in `argv`, checked."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.scale", description="What a thousand people ask of a bucket.", allow_abbrev=False)
    parser.error = lambda message: parser.exit(USAGE, f"scale: {message}\n")
    parser.add_argument("tree", metavar="PATH", nargs="?", help="a real project to copy; else one is generated")
    parser.add_argument("--files", metavar="N", type=int, default=1000, help="files of the generated project (1000)")
    parser.add_argument("--sandboxes", metavar="N", type=int, default=5, help="sandboxes that work for real, for each way to push (5)")
    parser.add_argument("--pushes", metavar="N", type=int, default=200, help="pushes of one machine, with roll-ups and without (200)")
    parser.add_argument("--chains", metavar="N", type=int, default=SANDBOXES, help=f"chains of the project that is listed for real ({SANDBOXES})")
    parser.add_argument("--pulled", metavar="N", type=int, default=1000, help="chains that one pull takes for real (1000)")
    parser.add_argument("--hold", metavar="MS", type=float, default=5, help="how long a request takes, so that those which wait can be counted (5)")
    parser.add_argument("--json", metavar="FILE", help="write every figure")
    given = parser.parse_args(argv)
    refuse_too_few(parser, given, files=WORKED, sandboxes=1, pushes=3, pulled=2, chains=3)
    refuse_missing_tree(parser, given)
    return given


class Sample:
    """Machines that work for real, and what each step cost them. `bucket` counts: a CountingBucket, or an S3 server of the tests."""

    def __init__(self, place, tree, bucket, url):
        """`place`: a directory for the machines. `url`: that of an empty project; the machines of other projects add to it."""
        self.place, self.tree, self.bucket, self.url = Path(place), tree, bucket, url
        self._numbers = iter(range(10**9))

    def machine(self, url, name="sandbox", *, has_files=True):
        from support.machines import Machine

        made = Machine(self.place / f"machine{next(self._numbers)}", url, name)
        if has_files:
            made.root.rmdir()
            trees.copy(self.tree, str(made.root))
        return made

    def measured(self, step, call):
        from casrewind import heap

        gc.collect()
        heap.return_freed_memory()
        before = _memory(reset=True)
        self.bucket.reset()
        start = time.process_time()
        call()
        taken = time.process_time() - start
        counts = self.bucket.counts()
        return Cost(step, counts.requests, counts.received, counts.sent, getattr(counts, "waits", 0), taken, max(0, _memory() - before))

    def sandbox(self, url, batch, turns):
        """A sandbox's life: the costs of its first push, and of each later one."""
        made = self.machine(url)
        paths = [os.path.relpath(os.path.join(at, name), made.root) for at, _, names in os.walk(made.root) for name in names]
        worked = trees.pick(sorted(path for path in paths if os.path.getsize(os.path.join(made.root, path))), WORKED)
        made.add_remote()
        made.save()
        first = self.measured("first push", made.push)
        later = []
        for turn in range(turns - 1):  # the first checkpoint is one of them
            trees.work(str(made.root), worked, turn)
            made.save()
            if (turn + 2) % (batch or turns) == 0 or turn == turns - 2:
                later.append(self.measured("push", made.push))
        return made, first, later

    def reader(self, url):
        """What a laptop asks of a project with one sandbox."""
        made = self.machine(url, "laptop", has_files=False)
        made.add_remote()
        return made


def _memory(*, reset=False):
    """The resident bytes now with `reset`, else the most since then. 0 where the system does not say."""
    try:
        if reset:
            with open("/proc/self/clear_refs", "w") as file:
                file.write("5")
        with open("/proc/self/status") as file:
            rows = dict(line.split(":", 1) for line in file)
    except OSError:
        return 0
    return int(rows["VmRSS" if reset else "VmHWM"].split()[0]) * 1024


def mean(step, costs):
    """One cost: the median of bytes and times, the requests of the first. All have the same."""
    return Cost(
        step, costs[0].requests, statistics.median(one.up for one in costs), statistics.median(one.down for one in costs),
        costs[0].waits, statistics.median(one.processor for one in costs), max(one.memory for one in costs),
    )  # fmt: skip


def sandbox_costs(sample, number, turns):
    """{way to push: (cost of a first push, cost of a later push, pushes after the first, bytes of a whole chain)}."""
    found = {}
    for words, batch in BATCHES.items():
        firsts, laters, pushes, size = [], [], 0, 0
        for count in range(number):
            _, first, later = sample.sandbox(f"{sample.url}-{batch}-{count}", batch, turns)
            firsts.append(first)
            laters += later
            pushes, size = len(later), size + first.up + sum(one.up for one in later)
        found[words] = mean("first push", firsts), mean(f"push, {words}", laters), pushes, size / number
    return found


def reader_costs(sample, turns):
    """The costs of a laptop, in a project with the chain of one sandbox that pushed each turn, and then of others like it."""
    url = f"{sample.url}-read"
    sandbox, _, _ = sample.sandbox(url, 1, turns)
    laptop, newest = sample.reader(url), sample.reader(url)
    clones = []
    costs = [
        sample.measured("clone of the newest", lambda: clones.append(sandbox.clone_to(sample.place / "clone"))),
        sample.measured("clone of all", lambda: sandbox.clone_to(sample.place / "clone-all", everything=True)),
        sample.measured("pull --newest, the first", lambda: newest.pull(newest=True)),
        sample.measured("pull, the first", laptop.pull),
        sample.measured("pull, nothing new", laptop.pull),
    ]
    for made in (sandbox, clones[0]):
        with open(made.root / "more.txt", "w") as file:
            file.write("one more line\n")
        made.save()
    sandbox.push()
    costs.append(sample.measured("pull of one checkpoint", laptop.pull))
    costs.append(sample.measured("first push of the clone of the newest", clones[0].push))
    laptop.pull()
    newest.pull(newest=True)
    for batch, words in ((1, EACH), (None, ONCE)):
        sample.sandbox(url, batch, turns)
        costs.append(sample.measured(f"pull of one more sandbox, pushed {words}", laptop.pull))
        costs.append(sample.measured(f"pull --newest of it, pushed {words}", lambda: newest.pull(newest=True)))
    return costs


def long_costs(sample, pushes):
    """The costs of a machine that pushes many times, and of a laptop that comes late: with roll-ups, and without them."""
    from casrewind.remote import collect

    every, costs = collect.EVERY, []
    for words in ("without roll-ups", "with roll-ups"):
        collect.EVERY = every if words == "with roll-ups" else pushes + 1
        try:
            url = f"{sample.url}-{words.replace(' ', '-')}"
            made, first, later = sample.sandbox(url, 1, pushes)
        finally:
            collect.EVERY = every
        asked = {}
        for one in (first, *later):
            for verb, number in one.requests.items():
                asked[verb] = asked.get(verb, 0) + number
        costs += [
            Cost(
                f"{pushes:,} pushes, {words}", asked, sum(one.up for one in (first, *later)), sum(one.down for one in (first, *later)),
                first.waits + sum(one.waits for one in later), first.processor + sum(one.processor for one in later),
                max(one.memory for one in (first, *later)),
            ),
            sample.measured(f"clone of the newest, {words}", lambda made=made, words=words: made.clone_to(sample.place / words)),
            sample.measured(f"clone of all, {words}", lambda made=made, words=words: made.clone_to(sample.place / f"all {words}", everything=True)),
            sample.measured(f"pull, the first, {words}", sample.reader(url).pull),
        ]  # fmt: skip
    return costs


class ManyChains:
    """A project with very many chains, each of one small piece, made by the code that makes the pieces of a push."""

    def __init__(self, sample, url, number):
        self.sample, self.url = sample, url
        self.owner = sample.machine(url, "owner", has_files=False)
        self.owner.add_remote()
        self.owner.save({f"d{at % 5}/f{at}": b"line %d\n" % at * 20 for at in range(40)})
        self.owner.push()
        self.chains, self.size = [], 0
        self._opened()
        for _ in range(number - 1):
            self.add()

    def _opened(self):
        from casrewind.remote.chain import open_piece
        from casrewind.remote.objects import Objects
        from casrewind.remote.piece_names import all_pieces_of
        from casrewind.remote.remote_config import key_of
        from casrewind.remote.seal import Keys, identity_of_head

        self._objects = Objects(self.url)
        master = key_of(self.owner.environ["CASREWIND_REMOTE_KEY"], "the environment")
        self._keys = Keys(master, identity_of_head(self._objects.get("casrewind")))
        (pieces,) = all_pieces_of(self._objects.list()).values()  # hints and names lie beside them
        info = pieces[0]
        reader = open_piece(self._objects, self._keys, info.name, info.size)
        self._blobs, self._records = list(reader.blobs({blob.digest for blob in reader.table.blobs})), reader.records()

    def add(self):
        """One more chain."""
        from casrewind.model import checkpoint as checkpoints
        from casrewind.remote.piece_names import piece_name
        from casrewind.remote.piece import FIRST, PieceBuilder
        from casrewind.store import ledger

        builder, chain = PieceBuilder(self._keys), os.urandom(16).hex()
        for digest, use, data in self._blobs:
            builder.add(digest, use, data)
        builder.add_records(
            (kind, seq, checkpoints.encode(checkpoints.decode(0, payload)._replace(id=os.urandom(8).hex())) if kind == ledger.CHECKPOINT else payload)
            for kind, seq, payload in self._records
        )
        name = piece_name(chain, 1)
        data, mac = builder.finish(name, FIRST, os.urandom(16), "sandbox")
        self._objects.put_new(name, data)
        self.chains.append((chain, mac))
        self.size = len(data)

    def know(self, machine, number):
        """Let a machine know the first `number` chains, as if it had pulled them."""
        from casrewind.remote.sync_state import ReadChain

        with machine.open() as workspace:
            files = machine.remote(workspace).files
            chains = {chain: ReadChain(f"sandbox.{chain[:12]}", 1, mac) for chain, mac in self.chains[:number]}
            files.save(files.state._replace(chains=chains))

    def costs(self, pulled):
        """The costs in the project with all chains. `pulled` chains are new to a machine that knows the others."""
        sample = self.sample
        writer = sample.machine(self.url, "writer", has_files=False)
        writer.add_remote()
        writer.push()  # the first one asks four things more
        writer.save({"a": b"1"})
        found = [
            sample.measured("push of one checkpoint", writer.push),
            sample.measured("clone of the newest of all", lambda: self.owner.clone_to(sample.place / "one-of-many")),
        ]
        reader = sample.reader(self.url)
        self.know(reader, len(self.chains))
        reader.pull()  # the chains of owner, writer and clone
        found.append(sample.measured("pull, nothing new", reader.pull))
        self.add()
        found.append(sample.measured("pull, one chain is new", reader.pull))
        for newest in (False, True):
            for share in (pulled // 2, pulled):
                late = sample.reader(self.url)
                self.know(late, len(self.chains) - share)
                words = f"pull{' --newest' if newest else ''}, {share:,} chains are new"
                found.append(sample.measured(words, lambda late=late, newest=newest: late.pull(newest=newest)))
        return found


def day(pushing, steps):
    """The rows of a day, multiplied: [(what, requests, dollars, dollars when the bucket has KEPT days, bytes up, bytes down)]. Each person takes
    each new chain of the project once."""
    rows = []
    for words, (first, later, pushes, size) in pushing.items():
        number = SANDBOXES * (sum(first.requests.values()) + pushes * later.number("PUT"))
        price = SANDBOXES * (first.dollars() + pushes * later.dollars())
        rows.append((f"pushes, {words}", number, price, price, SANDBOXES * size, 0))
    clone = steps["clone of the newest"]
    price = SANDBOXES * clone.dollars()
    rows.append(("a clone in each sandbox", SANDBOXES * sum(clone.requests.values()), price, price, 0, SANDBOXES * clone.down))
    first, later, pushes, size = pushing[EACH]
    of_clone = steps["first push of the clone of the newest"]
    number = SANDBOXES * (sum(of_clone.requests.values()) + pushes * later.number("PUT"))
    price = SANDBOXES * (of_clone.dollars() + pushes * later.dollars())
    rows.append((f"pushes of these clones, {EACH}", number, price, price, SANDBOXES * (size - first.up + of_clone.up), 0))
    for projects, words in ((many, words) for many in (1, PEOPLE) for words in (EACH, ONCE)):
        first, later, pushes, _ = pushing[words]
        objects = SANDBOXES * (2 + pushes * later.number("PUT")) // projects  # a hint, and the pieces
        lists, late = (PEOPLE * PULLS * -(-days * objects // PAGE) for days in (1, KEPT))
        for step in ("pull of one more sandbox", "pull --newest of it"):
            one = steps[f"{step}, pushed {words}"]
            chains = PEOPLE * SANDBOXES // projects
            what = f"{'pull --newest' if 'newest' in step else 'pull'}, {'one project' if projects == 1 else f'{projects:,} projects'}, pushed {words}"
            got = chains * one.number("GET")
            price, later_price = (number * PRICES["LIST"] + got * PRICES["GET"] for number in (lists, late))
            rows.append((what, lists + got, price, later_price, 0, chains * one.down))
    return rows


def breaks(pushing, steps, share, chains):
    """What breaks, multiplied: [(what, when)]."""
    first, _, _, size = pushing[EACH]
    one, taken = steps[f"pull of one more sandbox, pushed {EACH}"], steps[f"pull, {share:,} chains are new"]
    room = [(f"{what} needs more than {_bytes(MEMORY)} of memory", steps[step].memory / chains) for what, step in (
        ("a clone in a project with many objects", "clone of the newest of all"), ("a pull in a project with many chains", "pull, nothing new"),
    )]  # fmt: skip
    everybody = PEOPLE * SANDBOXES
    return [
        ("everybody pulls all of one project", f"{_bytes(everybody * one.down)} and {everybody * one.number('GET') * PRICES['GET']:,.0f} $ of GET a day"),
        (f"one person pulls {SANDBOXES:,} chains", f"{SANDBOXES * one.number('GET') * LATENCY / 8 / 3600:,.1f} h, eight requests at a time; "
         f"{SANDBOXES * taken.processor / share / 60:,.0f} min of processor time for the smallest chains"),
        *((what, f"at {MEMORY / each:,.0f}, {each:.0f} bytes each" if each else "not measured") for what, each in room),
        ("each sandbox sends the project again", f"{first.up / size:.0%} of the bytes of a chain of ten checkpoints"),
        ("S3 takes no more PUT for one prefix", f"at {RATES['PUT'] * 86400 / CHECKPOINTS:,.0f} times this day, if it is spread evenly"),
    ]  # fmt: skip


def lines_of(costs):
    """The rows of a table for people, in Markdown."""
    yield "| step | requests | up | down | after each other | at 0.1 s each | processor | memory |"
    yield "|---|---|---|---|---|---|---|---|"
    for cost in costs:
        asked = ", ".join(f"{number:,} {verb}" for verb, number in sorted(cost.requests.items())) or "none"
        yield (
            f"| {cost.step} | {asked} | {_bytes(cost.up)} | {_bytes(cost.down)} | {cost.waits:,} | {cost.waits * LATENCY:.1f} s"
            f" | {cost.processor:.2f} s | {cost.memory / 1e6:.0f} MB |"
        )


def _bytes(size):
    for unit, words in ((1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "KB")):
        if size >= unit:
            return f"{size / unit:,.1f} {words}"
    return f"{size:.0f} B"


def main(argv=None):
    """Simulate, print; the exit code."""
    given = options(argv)
    sys.path.append(os.path.join(contenders.TOP, "tests"))
    return in_scratch("scale", _simulate, given)


def _simulate(given, scratch):
    tree = trees.given_or_generated(given.tree, scratch, given.files)
    turns = CHECKPOINTS // SANDBOXES
    with CountingBucket(given.hold / 1000) as bucket:
        sample = Sample(os.path.join(scratch, "machines"), tree, bucket, "memory://scale")
        _say(f"{given.sandboxes} sandboxes for each way to push")
        pushing = sandbox_costs(sample, given.sandboxes, turns)
        reading = reader_costs(sample, turns)
        _say(f"{given.pushes:,} pushes of one machine, twice")
        long = long_costs(sample, given.pushes)
    with CountingBucket() as bucket:
        sample.bucket = bucket
        _say(f"{given.chains:,} chains in one project")
        many = ManyChains(sample, "memory://scale-many", given.chains)
    share = min(given.pulled, given.chains - 2)
    with CountingBucket(given.hold / 1000) as bucket:
        sample.bucket = bucket
        _say(f"pulls of {share:,} chains")
        listed = many.costs(share)
    files, size = trees.count(tree)
    steps = {cost.step: cost for cost in (*reading, *listed)}
    rows = day(pushing, steps)
    record = {
        "kind": "scale", "format": 1, "files": files, "bytes": size, "chains": given.chains, "pulled": share, "piece": many.size,
        "sandbox": [cost._asdict() for way in pushing.values() for cost in way[:2]], "reading": [cost._asdict() for cost in reading],
        "long": [cost._asdict() for cost in long],
        "listed": [cost._asdict() for cost in listed], "day": rows, "breaks": breaks(pushing, steps, share, given.chains),
        "stored": {row[0].removeprefix("pushes, "): row[4] * KEPT for row in rows if row[4]},
    }  # fmt: skip
    print(*table(record, pushing, reading, long, listed), sep="\n")
    if given.json is not None:
        with open(given.json, "w", encoding="utf-8") as file:
            file.write(json.dumps(record, indent=1) + "\n")
    return 0


def table(record, pushing, reading, long, listed):
    """The lines of all tables."""
    yield f"Counted: a sandbox with {record['files']:,} files, {_bytes(record['bytes'])}. Medians of its pushes."
    yield ""
    yield from lines_of([way[0]._replace(step=f"first push, {words}") for words, way in pushing.items()] + [way[1] for way in pushing.values()])
    yield from ("", "Counted: a laptop, in a project with that chain of ten pieces", "")
    yield from lines_of(reading)
    yield from ("", "Counted: one machine that pushes many times, and a laptop that comes late", "")
    yield from lines_of(long)
    yield from ("", f"Counted: one project with {record['chains']:,} chains of one piece of {_bytes(record['piece'])}", "")
    yield from lines_of(listed)
    yield from ("", f"Multiplied: a day of {PEOPLE:,} people, {CHECKPOINTS:,} checkpoints, {SANDBOXES:,} sandboxes, {PULLS} pulls by each person", "")
    yield f"| what | requests | price | price on day {KEPT} | up | down |"
    yield "|---|---|---|---|---|---|"
    for words, number, dollars, late, up, down in record["day"]:
        yield f"| {words} | {number:,.0f} | {dollars:,.2f} $ | {late:,.2f} $ | {_bytes(up)} | {_bytes(down)} |"
    yield from ("", f"Multiplied: the bucket after {KEPT} such days", "", "| pushed | bytes | price of a month |", "|---|---|---|")
    for words, size in record["stored"].items():
        yield f"| {words} | {_bytes(size)} | {size / 1e9 * PRICES['GB-month']:,.0f} $ |"
    yield from ("", "| what breaks | when |", "|---|---|")
    for what, when in record["breaks"]:
        yield f"| {what} | {when} |"


def _say(text):
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
