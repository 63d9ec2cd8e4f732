"""Decoders are given mutated real bytes (not yet: sheet, FORMAT, session file, rewind): our own errors come out, within two seconds, in memory that is bounded.

The seeds are what a small store, the recorded hooks and transcripts, and configuration files hold.
"""

import json
import os
import random
import signal
import time
import tracemalloc
from pathlib import Path

import pytest

from casrewind import agents, config, errors
from casrewind.agents import event, lines
from casrewind.model import checkpoint, cursor, domain, manifest, operation, plan
from casrewind.store import chunker, journal, ledger, packs
from casrewind.worktree import gitconfig, statcache
from casrewind.workspace import Workspace
from support import transcripts
from support.stores import filled
from support.trees import plant

DATA = Path(__file__).parent.parent.parent / "agents" / "data"
WATCHDOG = 2
OURS = {ledger.CHECKPOINT: lambda data: checkpoint.decode(1, data)}
OPERATIONS = {ledger.RESTORE, ledger.UNDO, ledger.REDO}
BODIES = {packs.TREE: manifest.decode_tree, packs.CHUNK_LIST: chunker.decode_node, packs.DOMAIN: domain.decode, packs.PLAN: plan.decode}


def record(data):
    head = packs.decode_head(data)
    if head is not None:
        packs.check_record(data, head[2], "pack")


def book(data):
    position = 0
    while (found := ledger.decode(data, position)) is not None:
        position = found.end


def git(data):
    with open("/dev/shm/casrewind-fuzz-gitconfig" if os.path.isdir("/dev/shm") else "/tmp/casrewind-fuzz-gitconfig", "wb") as file:
        file.write(data)
    environ = {"GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": file.name}
    try:
        gitconfig.read(None, None, environ)
    finally:
        os.unlink(file.name)


def transcript(name):
    def work(data):
        agent = agents.get(name)
        for line in lines.lines(data):
            agent.kind_of(line.value)
        for prompt in agent.prompts(data, every=True):
            agent.cut(data, prompt)
        agent.title(data)

    return work


def seeds(root, settings):
    """[(name, decoder, real bytes)] of everything that is decoded."""
    plant(root, {"big": os.urandom(1_500_000), ".gitignore": b"*.tmp\n/x\n"})
    store = Path(filled(root, settings))
    found = []
    for path in (store / "packs").iterdir():
        data = path.read_bytes()
        for digest, place in packs.records(str(store / "packs"), path.stem):
            raw = data[place.offset : place.offset + place.length]
            if len(raw) < 20_000:
                found.append(("pack record", record, raw))
            decoder = BODIES.get(packs.decode_head(raw)[0])
            if decoder is not None:
                found.append((decoder.__module__.rpartition(".")[2], decoder, packs.check_record(raw, digest, "")))
    book_bytes = (store / "ledger").read_bytes()
    position = ledger.HEAD.size
    found.append(("ledger", book, book_bytes[position:]))
    while (row := ledger.decode(book_bytes, position)) is not None:
        if row.kind == ledger.CHECKPOINT:
            found.append(("checkpoint", lambda data: checkpoint.decode(1, data), row.payload))
            found.append(("cursor", cursor.decode, checkpoint.decode(1, row.payload).cursor))
        elif row.kind in OPERATIONS:
            found.append(("operation", operation.decode_operation, row.payload))
            found.append(("journal", journal.decode, journal.encode(operation.decode_operation(row.payload))))
        else:
            found.append(("mark", operation.decode_mark, row.payload))
        position = row.end
    with Workspace(str(root), settings, create=False) as workspace:
        site = workspace._site
        for path in (b"", b"d0", b"d1"):
            remembered = site.store.stamps(site.root.key).get(path)
            if remembered:
                found.append(("stat cache", statcache.decode, remembered))
    for path in sorted((DATA / "claude_hooks").glob("*.json"))[:8]:
        payload = json.dumps(json.loads(path.read_text())["stdin"]).encode()
        found.append(("hook", lambda data: event.read(agents.profile_of("claude"), data, {}), payload))
    for name, all_of in {"claude": [transcripts.claude(each) for each in transcripts.CLAUDE[:1]], "droid": [transcripts.droid()]}.items():
        found += [(f"transcript of {name}", transcript(name), data[:8_000]) for data in all_of]
    text = b'[retention]\nmax_age = "30d"\nmax_count = 2000\nmax_size = "5GiB"\n[capture]\ndefault_excludes = true\n[hooks]\ntier = "balanced"\n'
    found.append(("config.toml", lambda data: config.read(data.decode("utf-8", "surrogateescape"), "config.toml", {}), text))
    text = b'ignore = ["*.log", "/x"]\n[capture]\nmax_file_size = "1MiB"\n'
    found.append((".casrewind.toml", lambda data: config.read_project(data.decode("utf-8", "surrogateescape"), "f"), text))
    text = b'[core]\n\tignoreCase = true\n\texcludesFile = "~/x y" ; c\n[include]\n\tpath = other\n[includeIf "gitdir:~/a/**"]\n\tpath = b\n'
    found.append(("gitconfig", git, text))
    return found


def mutate(data, chance):
    data = bytearray(data)
    for _ in range(chance.choice((1, 1, 2, 4))):
        at = chance.randrange(len(data) + 1)
        how = chance.randrange(6)
        if how == 0 and at < len(data):
            data[at] ^= 1 << chance.randrange(8)
        elif how == 1:
            del data[at : at + chance.choice((1, 4, 1 << 20))]
        elif how == 2:
            data[at:at] = chance.randbytes(chance.randrange(1, 9))
        elif how == 3:  # a count or a length that claims far more than there is
            data[at : at + 4] = chance.choice((b"\xff\xff\xff\xff", b"\xff\xff\xff\x7f", b"\0\0\0\0"))
        elif how == 4:
            data[at:at] = data[at : at + chance.randrange(1, 400)] * chance.choice((1, 2, 8))
        else:
            data[at:at] = chance.choice((b"[" * 3000, b'{"a":' * 2000, b"9" * 5000, b"\xff\xfe", b"\0" * 64, b'"', b"\n", b"[["))
    return bytes(data)


def fuzz(found, count, until=None, seed=7):
    """Over the decoders by turns; (inputs, refused, largest part of the allowed memory)."""
    by_name = {}
    for name, decoder, data in found:
        by_name.setdefault(name, []).append((decoder, data))
    chance, done, refused, most = random.Random(seed), dict.fromkeys(by_name, 0), 0, 0.0

    def ring(*_):
        raise AssertionError("no answer within the watchdog's time")

    before = signal.signal(signal.SIGALRM, ring)
    tracemalloc.start()
    try:
        number = 0
        while number < count if until is None else time.monotonic() < until:
            name = list(by_name)[number % len(by_name)]
            decoder, real = chance.choice(by_name[name])
            data = mutate(real, chance)
            number += 1
            tracemalloc.reset_peak()
            held = tracemalloc.get_traced_memory()[0]
            signal.setitimer(signal.ITIMER_REAL, WATCHDOG)
            try:
                decoder(data)
            except errors.CasrewindError:
                refused += 1
            except BaseException as error:
                raise AssertionError(f"{name}, input {number}: {type(error).__name__}: {error}: {data[:300]!r}") from error
            finally:
                signal.setitimer(signal.ITIMER_REAL, 0)
            peak = tracemalloc.get_traced_memory()[1] - held
            allowed = 20 * len(data) + (2 << 20)
            assert peak < allowed, (name, peak, len(data))
            most = max(most, peak / allowed)
            done[name] += 1
    finally:
        tracemalloc.stop()
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    return done, refused, most


def test_decoders_refuse_or_answer(root, settings):
    done, refused, most = fuzz(seeds(root, settings), 20_000)
    print(f"{sum(done.values())} mutated inputs over {len(done)} decoders: {refused} refused, 0 other exceptions; memory at most {most:.0%} of 20 x input + 2 MiB")
    assert min(done.values()) > 500
    assert refused > 2000


@pytest.mark.long
@pytest.mark.timeout(1000)
def test_decoders_for_ten_minutes(root, settings):
    done, refused, most = fuzz(seeds(root, settings), 0, time.monotonic() + 600, seed=time.time_ns())
    print(f"{sum(done.values())} mutated inputs over {len(done)} decoders: {refused} refused, 0 other exceptions; memory at most {most:.0%} of what is allowed")
