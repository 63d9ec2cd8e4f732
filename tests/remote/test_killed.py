"""SIGKILL at each request of push, pull and clone, before the server gets it and after it has answered: a real process, a real server."""

import itertools
import os
import signal

import pytest

from casrewind.remote.piece import MOST_EMPTY
from casrewind.remote import collect
from casrewind.remote.piece_names import all_pieces_of
from casrewind.remote.objects import Objects
from support import forked_command, sample_start
from support.command import Command
from support.machines import KEY, Machine, chains_of
from support.s3_server import S3Server
from support.sample_start import by_turns

PROGRAM = """
import itertools, os, signal, sys
from casrewind.remote import collect, old_chains, push
from casrewind.remote.objects import Objects
find_old = old_chains.find_old
old_chains.find_old = lambda remote, keep: find_old(remote, -1.0)  # all chains but the own are old, whatever the server's clock says
number, when = int(sys.argv[1]), sys.argv[2]
push.MOST, collect.EVERY = 1 << 19, int(os.environ.get("PIECES", "64"))
count = itertools.count(1)

def dying(call):
    def asked(*arguments):
        is_last = next(count) == number
        if is_last and when == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        found = call(*arguments)
        if is_last:
            os.kill(os.getpid(), signal.SIGKILL)
        return found
    return asked

for name in ("put_new", "replace", "get", "list", "delete"):
    setattr(Objects, name, dying(getattr(Objects, name)))
from casrewind.cli.main import main
sys.exit(main(sys.argv[3:]))
"""


@pytest.fixture(scope="module")
def server():
    with S3Server() as started:
        yield started


@pytest.fixture
def url(server, monkeypatch):
    for name, value in server.variables.items():
        monkeypatch.setenv(name, value)
    return server.bucket()


def made(tmp_path, url, name="sandbox-4"):
    machine = Machine(tmp_path / name, url, name)
    machine.add_remote()
    return machine


def run(machine, number, when, *words, cwd=None, pieces=64):
    """The exit code of a command that is killed at its Nth request. A push rolls up every so many `pieces`."""
    bucket = {name: value for name, value in os.environ.items() if name.startswith("AWS_")}
    environment = Command(machine.root, machine.home, PIECES=str(pieces), CASREWIND_REMOTE_KEEP="90d", CASREWIND_REMOTE_KEY=KEY, **bucket).environment
    code, _, err = forked_command.call([str(number), when, "-C", str(cwd or machine.root), *words], environment, program=PROGRAM, timeout=120)
    assert code in (0, -signal.SIGKILL), err.decode()
    return code


def until_it_ends(machine, when, *words, **options):
    """Run a command again and again, each time killed one request later, until it ends by itself; how often it was killed."""
    number = 1
    while run(machine, number, when, *words, **options) != 0:
        number += 1
        assert number < 60
    return number - 1


@pytest.mark.turns(3)
@pytest.mark.parametrize("when", by_turns(["before", "after"], 1))
def test_each_kill_leaves_what_the_next_command_completes(tmp_path, url, when):
    first = made(tmp_path, url)
    random = os.urandom(1_200_000)
    saved = [first.save({"a": b"1", "large": random, "d/b": b"2"}), first.save({"a": b"2", "large": random + b"x"})]
    assert until_it_ends(first, when, "push") >= (2 if when == "before" else 1)
    reader = made(tmp_path, url, "laptop")
    assert until_it_ends(reader, when, "pull") >= 2
    for point in saved:
        assert reader.tree(point.id) == first.tree(point.id)
        assert reader.points()[point.id].more.machine == "sandbox-4"
    assert len(reader.points()) == 2 and not reader.problems() and not first.problems()
    assert first.push().requests == 0


@pytest.mark.parametrize("when", by_turns(["after", "before"], 1))
def test_a_killed_clone_can_be_made_again(tmp_path, url, when):
    first = made(tmp_path, url)
    point = first.save({"a": b"1", "large": os.urandom(1_200_000), "d/b": b"2"})
    first.push()
    place = tmp_path / "clones"
    place.mkdir()
    machine = Machine(tmp_path / "two", url, "two")
    number = 1
    while run(machine, number, when, "clone", url, f"try{number}", "--machine", "two", cwd=place) != 0:
        number += 1
        assert number < 60
    assert number > 2
    machine.root = place / f"try{number}"
    assert machine.tree(point.id) == first.tree(point.id) and not machine.problems()
    assert (machine.root / "large").read_bytes() == (first.root / "large").read_bytes()


@pytest.mark.turns(3)
@pytest.mark.parametrize("when", [pytest.param("before", marks=pytest.mark.long), "after"])
def test_each_kill_of_a_roll_up_leaves_a_remote_that_is_read_and_completed(tmp_path, url, when, monkeypatch):
    """Each push is killed one request later: at its piece, then at each request of the roll-up; a push of ours takes every other one. The
    next push completes it."""
    every = 1 if sample_start.takes_all else 2
    machine, points = made(tmp_path, url), []
    for number in itertools.count(1 + sample_start.start_below(every), every):
        for step in range(3):
            points.append(machine.save({"a": b"%d %d" % (number, step), f"d/{step}": b"x" * number}))
            if step < 2:
                machine.push()
        was_killed = run(machine, number, when, "push", pieces=3) != 0
        if number % 4 in (0, 1) or not was_killed:
            reader = made(tmp_path, url, f"laptop{number}")
            assert not reader.pull().problems
            sent = points[:-1] if (number, when) == (1, "before") else points  # the first request is the piece
            assert {point.id for point in sent} <= set(reader.points())
            assert reader.tree(sent[-1].id) == machine.tree(sent[-1].id) and not reader.problems()
        if not was_killed:
            break
        points.append(machine.save({"a": b"completed %d" % number}))
        with monkeypatch.context() as patch:
            patch.setattr(collect, "EVERY", 1)
            machine.push()
        shown = [info for pieces in chains_of(Objects(url).list()).values() for info in pieces]
        assert len(shown) < 6 and len([info for info in Objects(url).list() if info.size > MOST_EMPTY]) == len(shown), "all others are empty"
        assert number < 60
    assert number > 8, "the piece, the list, the right, the pieces, the roll-up, and each that is emptied"


@pytest.mark.long
@pytest.mark.parametrize("when", ["before", "after"])
def test_each_kill_of_a_remote_gc_loses_nothing_and_the_next_one_completes_it(tmp_path, server, url, when):
    """Each kill has a remote of its own: gc asks for each chain that was ever removed, so its requests on one remote grow as fast as `number`."""
    for number in itertools.count(1):
        url, place = server.bucket(), tmp_path / f"{number}"
        old, keeper = made(place, url), made(place, url, "keeper")
        old.save({"a": b"first"})
        old.push()
        chains = set(chains_of(Objects(url).list()))
        mine = [old.save({"a": b"%d %d" % (number, step)}) for step in range(2)]
        old.push()
        kept = keeper.save({"b": b"%d" % number})
        keeper.push()
        was_killed = run(keeper, number, when, "remote", "gc", "-y") != 0
        if was_killed:
            assert run(keeper, 99, when, "remote", "gc", "-y") == 0
        found = chains_of(Objects(url).list())
        assert {chain for chain, pieces in found.items() if max(piece.size for piece in pieces) > MOST_EMPTY} == {keeper.chain()}
        assert found.keys() >= chains, "no name becomes free"
        later = old.save({"a": b"later %d" % number})
        assert old.push().checkpoints == len(old.points()), "it begins anew"
        reader = made(place, url, "laptop")
        assert not reader.pull().problems and {later.id, kept.id} | {point.id for point in mine} <= set(reader.points())
        assert reader.tree(kept.id) == keeper.tree(kept.id) and reader.tree(later.id) == old.tree(later.id)
        if not was_killed:
            break
        assert number < 60
    assert number > 10


@pytest.mark.long
@pytest.mark.parametrize("when", by_turns(["before", "after"], 1))
def test_each_kill_of_a_push_after_a_purge_leaves_nothing_of_it_after_the_next_push(tmp_path, url, when):
    machine, reader = made(tmp_path, url), made(tmp_path, url, "laptop")
    for number in itertools.count(1):
        saved = [machine.save({"a": b"%d %d" % (number, step), "secret": os.urandom(500)}) for step in range(2)]
        machine.push()
        last = machine.save({"a": b"last %d" % number})
        machine.push()
        old = machine.chain()
        with machine.open() as workspace:
            workspace.purge([b"secret"])
        was_killed = run(machine, number, when, "push") != 0
        assert not machine.push().left
        sizes = {chain: max(piece.size for piece in pieces) for chain, pieces in all_pieces_of(Objects(url).list()).items()}
        assert machine.chain() != old and {chain for chain, size in sizes.items() if size > MOST_EMPTY} == {machine.chain()}, number
        taken = reader.pull()
        assert not taken.problems and {point.id for point in (*saved, last)} <= set(reader.points())
        assert reader.tree(last.id) == machine.tree(last.id) and not reader.problems() and not machine.problems()
        if not was_killed:
            break
        assert number < 60
    assert number > 6, "the pieces, the end, what is about to go, the list, each that is emptied"
