"""The order in which gc changes the store, seen by strace: nothing is removed before what replaces it is durable.

A kill cannot show that, because what a killed process wrote stays in the page cache; a power cut would.
"""

import os
import re
import shutil

import pytest

from support.command import Command
from support.command_in_process import InProcess
from support.gc_checks import packs_of
from support.trees import plant

CALL = re.compile(r"^\d+ +(\w+)\((.*)\) += (-?\d+)")
NAMES = re.compile(r'"([^"]*)"')
DESCRIPTOR = re.compile(r"^\d+<([^>]*)>")
TRACED = "write,pwrite64,pwritev,fsync,fdatasync,rename,renameat,renameat2,unlink,unlinkat"


@pytest.fixture(scope="module")
def calls(tmp_path_factory):
    """[(what, path below the store)] of a gc that forgets, sweeps packs without anything reachable, merges, compacts."""
    if shutil.which("strace") is None:
        pytest.skip("needs strace")
    place = tmp_path_factory.mktemp("order")
    root, home, log = place / "project", place / "home", str(place / "calls")
    root.mkdir()
    home.mkdir()
    casrewind = InProcess(root, home)
    for number in range(12):
        plant(root, {"same.txt": b"same\n", "version.bin": os.urandom(20_000), f"from-{number}": b"%d" % number})
        if number > 8:
            (root / "version.bin").rename(root / f"stays-{number}.bin")
        casrewind("save", code=0)
    for number in range(14):
        casrewind("pin", casrewind.row(6), "a long label " * 30 + str(number), code=0)
        casrewind("unpin", casrewind.row(6), code=0)
    store = casrewind.json("status")["store"]
    before = packs_of(store)
    ledger = os.path.getsize(os.path.join(store, "ledger"))
    strace = ["strace", "-f", "--seccomp-bpf", "-qq", "-y", "-s", "300", "-e", f"trace={TRACED}", "-o", log]
    if Command(root, home)("gc", "--max-count", "1", prefix=strace).code != 0:
        pytest.skip("strace may not trace here")
    assert len(before) == 12
    assert len(packs_of(store)) == 1, "nothing was merged"
    assert os.path.getsize(os.path.join(store, "ledger")) < ledger / 2, "nothing was compacted"
    with open(log, errors="replace") as file:
        return list(_parsed(file, store + "/"))


def _parsed(lines, store):
    for line in lines:
        found = CALL.match(line)
        if found is None or int(found[3]) < 0:
            continue
        call, arguments = found[1], found[2]
        descriptor = DESCRIPTOR.match(arguments)
        if call.startswith(("rename", "unlink")):
            path = NAMES.findall(arguments)[-1]
        else:
            path = descriptor[1] if descriptor else ""
        what = {"fdatasync": "fsync", "unlinkat": "unlink", "pwrite64": "write", "pwritev": "write"}.get(call, call)
        if what.startswith("rename"):
            yield "renamed from", NAMES.findall(arguments)[0].removeprefix(store)
            what = "rename"
        if (path + "/").startswith(store):
            yield what, path.removeprefix(store).rstrip("/") if path + "/" != store else "."


def _last(calls, before, *wanted):
    """The place of the last call that is `wanted`, before a place; -1 = there is none."""
    return max((at for at, call in enumerate(calls[:before]) if call == wanted), default=-1)


def _first(calls, after, *wanted):
    """The place of the first call that is `wanted`, behind a place."""
    return min((at for at, call in enumerate(calls) if at > after and call == wanted), default=len(calls))


def _packs(calls, what):
    return [at for at, (call, path) in enumerate(calls) if call == what and path.startswith("packs/")]


def test_forgotten_durably_before_anything_is_removed(calls):
    removed = _packs(calls, "unlink")
    assert len(removed) == 12
    written = _first(calls, -1, "write", "ledger")
    synced = _first(calls, written, "fsync", "ledger")
    assert written < synced < removed[0]
    assert not any(written < at < synced for at in _packs(calls, "rename"))


def test_a_new_pack_is_durable_under_its_name_before_the_index_tells_of_it(calls):
    named = _packs(calls, "rename")
    assert len(named) == 1
    for at in named:
        draft = calls[at - 1]
        assert draft[0] == "renamed from"
        assert _last(calls, at, "fsync", draft[1]) > _last(calls, at, "write", draft[1]) > -1
        synced = _first(calls, at, "fsync", "packs")
        told = _first(calls, at, "write", "index/data.mdb")
        gone = min(place for place in _packs(calls, "unlink") if place > at)
        assert synced < told < gone


def test_the_index_has_let_go_of_a_pack_durably_before_it_is_removed(calls):
    removed = _packs(calls, "unlink")
    for at in removed:
        told = _last(calls, at, "write", "index/data.mdb")
        # LMDB syncs its pages, then writes the page that makes them count through a descriptor of its own that is synchronous
        assert told > -1
        assert _last(calls, told, "fsync", "index/data.mdb") > -1
        assert not any(told < place < at for place in _packs(calls, "rename"))
    assert _first(calls, removed[-1], "fsync", "packs") < len(calls)


def test_a_compacted_ledger_is_durable_before_and_after_it_takes_its_place(calls):
    placed = _first(calls, -1, "rename", "ledger")
    draft = calls[placed - 1]
    assert draft[0] == "renamed from"
    assert _last(calls, placed, "fsync", draft[1]) > _last(calls, placed, "write", draft[1]) > -1
    assert _first(calls, placed, "fsync", ".") < len(calls)
    assert _first(calls, placed, "write", "index/data.mdb") < len(calls)
