"""A fork that scans some of a first save: what comes of it is what comes of one process, whatever becomes of the fork."""

import errno
import itertools
import marshal
import os
import random
import signal
import socket
import subprocess
import sys
import time

import pytest

from casrewind import errors
from casrewind.model import domain as domains
from casrewind.model import manifest
from casrewind.store.apart import Apart
from casrewind.store.store import Store
from casrewind.worktree import beside as besides
from casrewind.worktree import directory as directories
from casrewind.worktree import fork as forks
from casrewind.worktree import scan as scans
from casrewind.worktree.files import Worktree
from casrewind.worktree.ignore import RuleFile
from casrewind.worktree.passes import Options
from support.residents import children
from support.scanner import settle
from support.trees import Dir, Fifo, Link, plant

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="forks are for Linux")


ALONE = scans.is_alone


def LONG(*values):  # noqa: N802 - reads as the mark that it is
    return pytest.param(*values, marks=pytest.mark.long)


@pytest.fixture(autouse=True)
def alone(monkeypatch):
    """Whoever runs the tests in several processes has a thread in each, which does nothing."""
    monkeypatch.setattr(scans, "is_alone", lambda: True)


@pytest.fixture(scope="module")
def odd(tmp_path_factory):
    """A tree with everything in it that a scan has an opinion on, in directories of every size. Who changes it puts it back."""
    root = tmp_path_factory.mktemp("beside") / "project"
    rng = random.Random(5)
    tree = {
        ".gitignore": b"*.o\n/build/\n!keep.o\n",
        "build/x": b"ignored",
        "a/.gitignore": b"*.log\n!important.log\n",
        "a/x.log": b"ignored",
        "a/b/.casrewindignore": b"!x.log\nprivate\n",
        "a/b/x.log": b"not ignored",
        "a/b/private/p": b"ignored",
        "a/b/c/important.log": b"kept",
        "a/b/c/.gitignore": Link("../../x.log"),
        "cache/CACHEDIR.TAG": b"Signature: 8a477f597d28d172789f06886806bc55",
        "cache/x": b"1",
        "node_modules/m/i.js": b"1",
        "sub/.git/config": b"never",
        "sub/.git/objects/o": b"never",
        "sub/file": b"1",
        "links/good": Link("../a"),
        "links/dangling": Link("nowhere"),
        "links/\udcff\n": Link("x"),
        "special/fifo": Fifo(),
        "special/x": b"",
        "empty/empty/empty": Dir(),
        "large/two": rng.randbytes(2 << 20),
        "large/over": b"o" * (5 << 20),
        "large/z": b"behind it",
        "modes/x": b"1",
        "inner/store": Dir(0o700),
        "inner/store/FORMAT": b"casrewind store 1\n",
        "inner/store/ledger": b"CRLG and so on",
        "inner/store/packs/p": b"never",
    }
    for number in range(200):
        tree[f"many/{number % 40:02}/{number % 7}/f{number}"] = b"%d\n" % (number // 2) * (number % 90)
    for number in range(0, 40, 3):
        tree[f"many/{number:02}/.gitignore"] = b"f1*7\n"
        tree[f"many/{number:02}/2/pipe"] = Fifo()
    for number in range(80):
        tree[f"wide/f{number}.py"] = rng.randbytes(rng.randrange(3000))
    tree["/".join(["deep"] * 40) + "/f"] = b"deep"
    plant(root, tree)
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(root / "special/socket"))
    os.link(root / "sub/file", root / "links/hard")
    os.chmod(root / "modes/x", 0o755)
    with open(root / "large/sparse", "wb") as file:
        file.truncate(3 << 20)
    settle()
    return root


@pytest.fixture
def seen(odd, tmp_path, monkeypatch):
    """seen(processes): all that a scan comes to, and how many parts another process did of it."""
    monkeypatch.setattr(scans, "_WORTH_A_FORK", 20)
    stores = itertools.count()
    taken = []
    take = besides.Beside.take

    def counted(self, path):
        part = take(self, path)
        taken.extend([path] * (part is not None))
        return part

    monkeypatch.setattr(besides.Beside, "take", counted)

    def run(processes, before=lambda session: None, **changes):
        taken.clear()
        others = children()
        options = Options(
            processes=processes, max_file_size=4 << 20, outside=(RuleFile(b"", "exclude", b"*.tmp\n"),), **changes
        )
        with (
            Store(str(tmp_path / f"store{next(stores)}"), create=True) as store,
            store.session() as session,
            Worktree(str(odd)) as tree,
        ):
            before(session)
            apart = Apart(session) if processes > 1 else None
            found = scans.scan(tree, session, session.load_tree, options, apart=apart)
            contents = {
                path: b"".join(session.content(entry))
                for path, entry in manifest.walk(session.load_tree, found.tree)
                if entry.kind == manifest.FILE
            }
            rules = {rule: session.read(rule.digest) for rule in found.domain.rules}
        assert children() <= others  # nobody is left
        found = found._replace(domain=domains.encode(found.domain))
        return (found, contents, rules), list(taken)

    return run


def never(_, __):
    return False


def test_two_processes_find_what_one_finds(seen, monkeypatch):
    alone, none = seen(1)
    assert none == [] and len(alone[1]) > 250
    assert domains.Skip(b"inner/store", domains.STORE) in domains.decode(alone[0].domain).skipped
    monkeypatch.setattr(forks._Fork, "_is_enough", never)  # it does all that it is given
    for count in (1, 1000):
        monkeypatch.setattr(forks, "_TOGETHER", count)
        together, taken = seen(2)
        assert together == alone
        assert len(taken) > 5


@pytest.mark.parametrize("cases", [[(1, 10), (5, 1), (30, 100_000)], LONG([(n, m) for n in range(1, 40) for m in (1, 10, 100_000)])])
def test_breaking_off_at_any_time_changes_nothing(seen, monkeypatch, cases):
    alone, _ = seen(1)
    for every, together in cases:
        asked = []

        def enough(_, __, asked=asked, every=every):
            asked.append(1)
            return len(asked) % every == 0

        monkeypatch.setattr(forks, "_TOGETHER", together)
        monkeypatch.setattr(forks._Fork, "_is_enough", enough)
        assert seen(2)[0] == alone, (every, together)


def test_it_is_asked_for_the_rest_when_nothing_else_is_left(seen, monkeypatch):
    alone, _ = seen(1)
    monkeypatch.setattr(forks, "_LIGHT", 10_000)
    assert seen(2)[0] == alone


def garbage(fork, *_):
    os.write(fork._writer, b"\xff" * 30)
    os._exit(0)


def half(fork, *_):
    data = marshal.dumps((forks.PARTS, [b"x" * 100]))
    os.write(fork._writer, forks.FRAME.pack(len(data)) + data[:50])
    os._exit(0)


def nonsense(fork, *_):
    os.write(fork._writer, forks.FRAME.pack(30) + b"\xff" * 30)
    os._exit(0)


def killed(*_):
    os.kill(os.getpid(), signal.SIGKILL)


def stopped(*_):
    os.kill(os.getpid(), signal.SIGSTOP)


def failing(*_):
    raise OSError(5, "for a test")


def lacking(*_):
    raise MemoryError


FATES = (garbage, half, nonsense, killed, failing, lacking)
PLACES = ("_share", "_tell_of", "_send", "_new", "_rules_of")


@pytest.mark.parametrize(
    "cases",
    [
        list(zip(FATES, ("_tell_of", "_send", "_tell_of", "_new", "_share", "_send"), (1, 2, 3, 9, 2, 4), strict=True)),
        LONG([(fate, place, count) for fate in FATES for place in PLACES for count in (1, 2, 3, 7, 20)]),
    ],
)
def test_a_fork_that_comes_to_nothing_is_made_up_for(seen, monkeypatch, cases):
    alone, _ = seen(1)
    for fate, place, count in cases:
        with monkeypatch.context() as patched:
            usual, calls = getattr(forks._Fork, place), []

            def fated(self, *arguments, calls=calls, usual=usual, fate=fate, count=count):
                calls.append(1)
                if len(calls) == count:
                    fate(self)
                return usual(self, *arguments)

            patched.setattr(forks._Fork, place, fated)
            patched.setattr(forks._Fork, "_is_enough", never)
            assert seen(2)[0] == alone, (fate, place, count)


@pytest.mark.parametrize("place", ["_tell_of", LONG("_share"), LONG("_new"), LONG("_send")])
def test_a_fork_that_is_stopped_is_not_waited_for(seen, monkeypatch, place):
    alone, _ = seen(1)
    usual = getattr(forks._Fork, place)
    monkeypatch.setattr(forks._Fork, place, lambda self, *arguments: (stopped(), usual(self, *arguments))[1])
    assert seen(2)[0] == alone


def test_a_fork_that_is_stopped_when_it_is_not_needed_any_more_is_not_waited_for(seen, monkeypatch):
    alone, _ = seen(1)
    usual, give, given = forks._Fork._send, besides.Beside._give, []

    def send(self, kind, told):
        usual(self, kind, told)
        if kind == forks.FINISHED:
            stopped()

    def once(self, directory):
        given.append(directory)
        return len(given) == 1 and give(self, directory)

    monkeypatch.setattr(forks._Fork, "_send", send)
    monkeypatch.setattr(forks._Fork, "_is_enough", never)
    monkeypatch.setattr(besides.Beside, "_give", once)
    assert seen(2)[0] == alone
    assert len(given) > 1


def test_a_fork_that_says_nothing_is_given_up(seen, monkeypatch):
    alone, _ = seen(1)
    monkeypatch.setattr(besides, "_PATIENCE", 1)
    monkeypatch.setattr(forks._Fork, "_share", lambda *_: time.sleep(600))
    assert seen(2)[0] == alone


@pytest.mark.parametrize("number", [errno.EACCES, LONG(errno.EIO), LONG(errno.ENOENT), LONG(errno.EPERM)])
def test_what_cannot_be_opened_is_told_by_both_alike(seen, monkeypatch, number):
    usual = os.open

    def refusing(path, *arguments, **named):
        if path in (b"f7", b"f11.py", b"6", b"38", b".casrewindignore", b"deep"):
            raise OSError(number, os.strerror(number))
        return usual(path, *arguments, **named)

    monkeypatch.setattr(os, "open", refusing)
    monkeypatch.setattr(forks._Fork, "_is_enough", never)
    alone, _ = seen(1)
    together, taken = seen(2)
    assert together == alone and len(taken) > 5
    assert b"many/38" not in alone[0].stamps


def test_too_few_descriptors_are_an_error_with_a_fork_as_without(seen, monkeypatch):
    usual = os.open

    def refusing(path, *arguments, **named):
        if path == b"f7":
            raise OSError(errno.EMFILE, "for a test")
        return usual(path, *arguments, **named)

    monkeypatch.setattr(os, "open", refusing)
    for processes in (1, 2):
        with pytest.raises(OSError, match="for a test"):
            seen(processes)


def test_files_that_do_not_hold_still_are_looked_at_again_whoever_read_them(seen, odd, monkeypatch):
    monkeypatch.setattr(forks._Fork, "_is_enough", never)
    usual, look = directories.read_stable, scans._look_again

    def moving(name, *arguments):
        found = usual(name, *arguments)
        return found._replace(stable=False) if name in (b"f8", b"f30") else found

    def changed(*arguments):
        for number in range(40, 60):
            path = odd / f"many/{number % 40:02}/{number % 7}/f{number}"
            path.write_bytes(b"other")
            os.utime(path, ns=(0, 0))
        os.unlink(odd / "wide/f3.py")
        return look(*arguments)

    monkeypatch.setattr(directories, "read_stable", moving)
    monkeypatch.setattr(scans, "_look_again", changed)
    kept = (odd / "wide/f3.py").read_bytes()

    def put_back():
        for number in range(40, 60):
            plant(odd, {f"many/{number % 40:02}/{number % 7}/f{number}": b"%d\n" % (number // 2) * (number % 90)})
        plant(odd, {"wide/f3.py": kept})
        settle()

    try:
        alone, _ = seen(1)
        put_back()
        (together, contents, rules), taken = seen(2)
    finally:
        put_back()
    assert list(alone[1].values()).count(b"other") == 20
    assert contents == alone[1] and rules == alone[2] and len(taken) > 5
    assert together.domain == alone[0].domain and together.stamps.keys() == alone[0].stamps.keys()
    forgotten = {path for path, record in together.stamps.items() if record is None}
    assert forgotten == {path for path, record in alone[0].stamps.items() if record is None} and len(forgotten) > 5


def test_without_a_fork_it_is_done_here(seen, monkeypatch):
    alone, _ = seen(1)

    def fork():
        raise BlockingIOError(11, "too many processes")

    monkeypatch.setattr(os, "fork", fork)
    together, taken = seen(2)
    assert together == alone and taken == []


def test_where_a_thread_runs_nothing_is_forked(seen, monkeypatch):
    import threading

    monkeypatch.setattr(os, "fork", None)
    monkeypatch.setattr(scans, "is_alone", ALONE)
    alone, _ = seen(1)
    done = threading.Event()
    thread = threading.Thread(target=done.wait)
    thread.start()
    try:
        assert seen(2)[0] == alone
    finally:
        done.set()
        thread.join()


def test_what_cannot_be_stored_is_told_and_leaves_nobody(seen, monkeypatch):
    monkeypatch.setattr(forks._Fork, "_is_enough", never)

    def full(session):
        def add(_):
            raise OSError(28, "No space left on device")

        session._writer.add = add

    others = children()
    with pytest.raises(errors.StoreFull):
        seen(2, full)
    assert children() <= others


def test_an_interrupt_leaves_nobody(seen, monkeypatch):
    calls = []

    def interrupted(session):
        usual = session.put_tree

        def put(data):
            calls.append(1)
            if len(calls) == 5:
                raise KeyboardInterrupt
            return usual(data)

        session.put_tree = put

    others = children()
    with pytest.raises(KeyboardInterrupt):
        seen(2, interrupted)
    assert children() <= others


def test_a_file_that_only_the_writer_can_decide_on_is_left_to_it(seen, monkeypatch):
    monkeypatch.setattr("casrewind.store.session._LARGE", 1 << 20)
    monkeypatch.setattr(forks._Fork, "_is_enough", never)
    alone, _ = seen(1)
    together, taken = seen(2)
    assert together == alone and taken != [] and b"large" not in taken


SAVER = """
import os, sys, time
sys.path[:0] = {paths!r}
from casrewind.store.apart import Apart
from casrewind.store.store import Store
from casrewind.worktree import beside, fork, scan
from casrewind.worktree.files import Worktree
from casrewind.worktree.passes import Options
scan._WORTH_A_FORK = 20
usual, begin = fork._Fork._share, beside.Beside.__init__
def told(self, *arguments):
    begin(self, *arguments)
    print(self._pid, flush=True)
def share(self, *arguments):
    usual(self, *arguments)
    while {busy}:
        self._send(fork.RECORDS, [])
fork._Fork._share, beside.Beside.__init__ = share, told
with Store({store!r}, create=True) as store, store.session() as session, Worktree({root!r}) as tree:
    put = session.put_tree
    session.put_tree = lambda data: (time.sleep(0.2), put(data))[1]
    scan.scan(tree, session, session.load_tree, Options(processes=2), apart=Apart(session))
"""


@pytest.mark.parametrize(("busy", "number"), [(False, signal.SIGKILL), (True, signal.SIGTERM), LONG(True, signal.SIGKILL)])
def test_a_fork_whose_process_is_killed_ends_by_itself(odd, tmp_path, busy, number):
    code = SAVER.format(paths=sys.path, busy=busy, store=str(tmp_path / "store"), root=str(odd))
    saver = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
    try:
        pid = int(saver.stdout.readline())
        assert pid != saver.pid
        saver.send_signal(number)
        saver.wait(30)
        deadline = time.monotonic() + 60
        while alive(pid):
            assert time.monotonic() < deadline, "it is still there"
            time.sleep(0.01)
    finally:
        saver.kill()
        saver.wait()
        saver.stdout.close()


def alive(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False
