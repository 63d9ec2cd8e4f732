"""What a server answers takes no memory: every answer has an end, and is looked at before it is taken. Commands are measured as processes."""

import sys

import pytest

from casrewind import errors
from casrewind.remote import objects as product
from casrewind.remote.objects import SMALL, Objects
from support import peak_memory
from support.command import Command
from support.machines import KEY, Machine
from support.odd_s3_server import OddS3Server

pytest.importorskip("obstore")

MOST = 300_000_000
"""Bytes that a command may have in memory, whatever the remote answers."""
HUGE = 1 << 40


@pytest.fixture
def server(monkeypatch):
    with OddS3Server() as server:
        for name, value in server.variables.items():
            monkeypatch.setenv(name, value)
        yield server


@pytest.fixture
def objects(server):
    made = Objects(server.url, patience=2.0)
    made.put_new("casrewind", b"head")
    made.put_new("chain/1", bytes(range(256)) * 400)
    return made


@pytest.fixture
def machine(tmp_path, server):
    made = Machine.with_remote(tmp_path / "one", server.url)
    made.save({"a": b"1"})
    made.push()
    return made


def measured(machine, server, *arguments):
    """What a command says that fails on a remote, with a limit on its memory."""
    with machine.open() as workspace:
        store = workspace._context.store.path
    command = Command(machine.root, machine.home, CASREWIND_REMOTE_KEY=KEY, **server.variables)
    peak, said = peak_memory.measured_program(
        ["sh", "-c", '"$@" 2>&1; echo $?', "-", sys.executable, "-m", "casrewind", "-C", command.root, "--store", store, *arguments],
        env=command.environment,
    )  # fmt: skip
    assert said.endswith("\n17\n") and peak.bytes < MOST, (peak, said)
    print(f"{arguments[:2]}: {peak}; {said}")
    return said


@pytest.mark.parametrize("claims", [HUGE, 5])
@pytest.mark.parametrize("more", [(), (0, 102_400, 102_400), (0, 102_400), (1000, 2000)], ids=["small", "whole", "from 0", "range"])
def test_an_object_that_claims_another_length_ends_in_words(objects, server, claims, more):
    server.claims = claims
    try:
        got = objects.get("chain/1" if more else "casrewind", *more)
    except errors.RemoteError as error:
        words = "its answer was cut", "1,099,511,627,776 bytes, and 1,048,576 at most belong there", "Requested 0..5, got 0..102400"
        assert any(one in str(error) for one in words)
    else:
        assert claims == 5 and len(got) <= 5, "a server's word that it has less"


@pytest.mark.parametrize("more, size", [((0, 102_400, 102_400), 102_400), ((1000, 2000), 1000), ((1000,), 101_400)])
def test_what_comes_behind_the_bytes_that_were_asked_for_is_not_taken(objects, server, more, size):
    server.more = 64 << 20
    if len(more) == 1:
        with pytest.raises(errors.RemoteError, match="at most belong there"):
            objects.get("casrewind")
        return
    assert objects.get("chain/1", *more) == (bytes(range(256)) * 400)[more[0] : more[0] + size]


def test_a_body_that_is_cut_is_asked_for_again_and_never_a_part(objects, server):
    server.cut_bodies = 1
    assert Objects(server.url, patience=60).get("chain/1", 0, 102_400, 102_400) == bytes(range(256)) * 400
    server.cut_bodies = 1000
    for more in ((0, 102_400, 102_400), (1000, 2000)):
        with pytest.raises(errors.RemoteError, match="cannot be reached: its answer was cut"):
            objects.get("chain/1", *more)


def test_a_list_that_is_cut_is_asked_for_again_while_there_is_patience(objects, server):
    server.objects |= {f"team/shop/b/{number:05}": b"x" for number in range(2500)}
    patient = Objects(server.url, patience=60)
    wanted = [info.name for info in patient.list()]
    assert len(wanted) == 2502
    for cuts in (1, 2):
        server.cut_lists = cuts
        assert [info.name for info in patient.list()] == wanted, "and no name twice"
    server.cut_lists = 10**9
    for patience in (0, 1.0):
        with pytest.raises(errors.RemoteError, match="cannot be reached: its answer was cut"):
            Objects(server.url, patience=patience).list()


@pytest.mark.parametrize("lists", ["pieces", "chains", "again"])
def test_a_list_without_end_ends(objects, server, monkeypatch, lists):
    monkeypatch.setattr(product, "_MOST_NAMES", 20_000)
    server.lists = lists
    said = f"{server.url} lists 20,001 objects and goes on: more than casrewind takes; look at the bucket with its own tools; a URL for each project keeps lists short"
    with pytest.raises(errors.RemoteError) as found:
        objects.list()
    assert str(found.value) == said
    walk, after = Objects(server.url), ""
    with pytest.raises(errors.RemoteError) as found:
        while page := walk.list("", after, 3000):
            after = page[-1].name
    assert str(found.value) == said, "those of all lists of a command count"


def test_a_head_of_gigabytes_in_a_directory_costs_nothing(tmp_path, server):
    machine = Machine.with_remote(tmp_path / "one", f"file://{tmp_path}/bucket")
    machine.save({"a": b"1"})
    with open(tmp_path / "bucket/casrewind", "r+b") as head:
        head.truncate(2_500_000_000)
    for words in (("push",), ("clone", machine.url, str(tmp_path / "two")), ("remote", "verify")):
        said = measured(machine, server, *words)
        assert f"the object casrewind of {machine.url} has 2,500,000,000 bytes, and {SMALL:,} at most belong there" in said


@pytest.mark.turns(3)
@pytest.mark.parametrize("switches", [{"claims": HUGE}, {"more": 1 << 32}], ids=["claimed", "sent"])
def test_no_answer_takes_the_memory_of_a_command(tmp_path, machine, server, switches):
    vars(server).update(switches)
    laptop = Machine(tmp_path / "two", server.url, "laptop")
    laptop.save({"b": b"1"})
    for words in (("clone", server.url, str(tmp_path / "three")), ("remote", "verify"), ("remote", "add", server.url)):
        said = measured(laptop if words[:2] == ("remote", "add") else machine, server, *words)
        assert f"the object casrewind of {server.url} has" in said and "at most belong there" in said


@pytest.mark.turns(3)
@pytest.mark.parametrize("words, lists", [
    (("remote", "verify"), "pieces"), pytest.param(("remote", "verify"), "chains", marks=pytest.mark.long),
    pytest.param(("pull",), "chains", marks=pytest.mark.long), pytest.param(("pull",), "pieces", marks=pytest.mark.long),
    pytest.param(("remote", "gc", "-y"), "chains", marks=pytest.mark.long),
])  # fmt: skip
def test_no_list_takes_the_memory_of_a_command(machine, server, words, lists):
    """On 2026-11-28 at most 275 MB and 8 s each, remote verify and gc; pull 264 MB."""
    server.lists = lists
    assert "and goes on: more than casrewind takes" in measured(machine, server, *words)


def test_a_request_of_another_thread_ends_no_list(tmp_path, monkeypatch):
    """A pull reads pieces while it lists: the memory of before the list counts, whatever the process has by then."""
    objects = Objects(f"file://{tmp_path}")
    for number in range(5):
        objects.put_new(f"a/{number}", b"x")
    rows = objects._place.list

    def list_and_get(*given):
        for row in rows(*given):
            objects.get("a/0")
            yield row

    monkeypatch.setattr(objects._place, "list", list_and_get)
    monkeypatch.setattr(product, "_PAGE", 1)
    monkeypatch.setattr(product.heap, "resident_bytes", lambda: 1 << 40)
    assert len(objects.list("a")) == 5
