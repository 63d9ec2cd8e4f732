"""The compiled comparison of stamps answers what the loop in Python answers, whatever the files, the limits and the signals are."""

import os
import random
import resource
import shutil
import signal
import subprocess
import sysconfig
import threading
import time
from importlib.machinery import ExtensionFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from casrewind.model import stamp as stamps
from casrewind.worktree import stat_index
from support import as_macos
from support.scanner import Scanner, settle
from support.trees import Dir, Fifo, Link, edit, plant

try:
    from casrewind.worktree import threaded_comparison
except ImportError:
    threaded_comparison = None
    HAS_COMPILER = shutil.which("cc") and os.path.exists(os.path.join(sysconfig.get_path("include"), "Python.h"))
    if os.environ.get("CI") and HAS_COMPILER and "CC" not in os.environ and not as_macos.is_on():  # .ci/run takes the compiler away once
        raise
    pytestmark = pytest.mark.skip(reason="casrewind/worktree/threaded_comparison.c was not compiled: pip install -e . does it")

SOURCE = Path(stat_index.__file__).with_name("threaded_comparison.c")
MANY = 5000
"""More rows than one thread compares alone."""
NAMES = [b"a", b"b/c", b"b", b"l", b"l/c", b"p", b"gone", b"gone/x", b"", b".", b"..", b"n\xff\n\x01", b"a/x", b"x" * 300, b"b/" * 2100 + b"c"]


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    top = tmp_path_factory.mktemp("place")
    plant(top, {"a": b"one", "b/c": b"two", "l": Link("b"), "p": Fifo(), os.fsdecode(b"n\xff\n\x01"): b"3", "e": Dir()})
    return top


@pytest.fixture(scope="module")
def root(place):
    fd = os.open(place, os.O_RDONLY)
    yield fd
    os.close(fd)


def stamp_of(root, name):
    try:
        return stamps.of(os.stat(name, dir_fd=root, follow_symlinks=False))
    except OSError:
        return stamps.NONE


def both(rows, root, *device):
    """The answer of both, for rows of (name, stamp)."""
    names, packed = b"\0".join([name for name, _ in rows]), b"".join([stamps.PACKED.pack(*stamp) for _, stamp in rows])
    found = threaded_comparison.positions_that_differ(names, packed, root, *device)
    assert found == stamps.positions_that_differ(names, packed, root, *device)
    return found


@st.composite
def changes(draw):
    """A row's name, and what is wrong with its stamp: (name, field, another value) or (name, None, None)."""
    name, field = draw(st.sampled_from(NAMES)), draw(st.sampled_from([None, None, *stamps.Stamp._fields]))
    low, high = (-(1 << 63), (1 << 63) - 1) if field and field.endswith("_ns") else (0, (1 << (32 if field == "mode" else 64)) - 1)
    return name, field, draw(st.integers(low, high)) if field else None


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rows=st.lists(changes(), max_size=30), device=st.sampled_from(["none", "own", "other", "huge"]))
def test_it_answers_as_the_loop_in_python(root, rows, device):
    made = []
    for name, field, value in rows:
        stamp = stamp_of(root, name)
        made.append((name, stamp if field is None else stamp._replace(**{field: value})))
    own = os.fstat(root).st_dev
    both(made, root, *{"none": (), "own": (own,), "other": (own + 1,), "huge": ((1 << 64) - 1,)}[device])


@pytest.mark.parametrize("field", stamps.Stamp._fields)
def test_each_bit_of_a_stamp_counts(root, field):
    right = stamp_of(root, b"a")
    assert both([(b"a", right)], root) == []
    top = {"size": 64, "ino": 64, "mode": 32}.get(field, 63)
    rows = [(b"a", right._replace(**{field: getattr(right, field) ^ (1 << bit)})) for bit in range(top)]
    assert both(rows, root) == list(range(top))


@pytest.mark.parametrize("seconds", [-(1 << 40), -(1 << 31), -1, 0, 1 << 33, 9223372036, 9223372037, 1 << 40])
def test_times_beyond_64_bits_have_no_stamp(root, place, seconds):
    file = place / "e" / "old"
    file.write_bytes(b"1")
    try:
        os.utime(file, (seconds, seconds))
    except OSError:
        pytest.skip("the file system has no such time")
    stamp = stamp_of(root, b"e/old")
    in_range = stamps.EARLIEST_NS < file.stat().st_mtime_ns < stamps.LATEST_NS
    assert both([(b"e/old", stamp)], root) == ([] if in_range else [0])


@pytest.mark.parametrize("names, rows", [(b"a", 0), (b"", 2), (b"a\0b", 1), (b"a\0b", 3), (b"a\0", 1), (b"a" * 600, 300)])
def test_names_without_stamps_are_an_error(root, names, rows):
    for function in (threaded_comparison.positions_that_differ, stamps.positions_that_differ):
        with pytest.raises(ValueError):
            function(names, bytes(stamps.PACKED.size * rows), root)


def many(root):
    """Many rows, some of them wrong: (rows, the positions that are wrong)."""
    chance, good = random.Random(7), [(name, stamp_of(root, name)) for name in (b"a", b"b/c", b"l", b"p")]
    wrong = sorted({0, 255, 256, MANY - 1, *chance.sample(range(MANY), 40)})
    return [(name, stamps.NONE if row in wrong else stamp) for row, (name, stamp) in enumerate(good * (MANY // 4))], wrong


def threads():
    return len(os.listdir("/proc/self/task"))


def wait_for_threads(count):
    """The kernel lists a thread for a moment after it was joined. Only the timeout of the test ends this if one is left."""
    while threads() > count:
        time.sleep(0.001)


def test_two_threads_answer_as_one_and_are_gone(root):
    rows, wrong = many(root)
    before = threads()
    assert all(both(rows, root) == wrong for _ in range(5))
    wait_for_threads(before)


def in_child(work):
    """True if `work` is true in a fork."""
    pid = os.fork()
    if pid == 0:
        try:
            os._exit(0 if work() else 1)
        finally:
            os._exit(2)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_where_no_thread_may_start_the_calling_thread_does_it_all(root, place):
    rows, wrong = many(root)
    os.chmod(place, 0o755)

    def limited():
        resource.setrlimit(resource.RLIMIT_NPROC, (1, 1))
        if os.geteuid() == 0:  # this limit is not for root
            os.setresuid(65534, 65534, 65534)
        try:
            threading.Thread(target=lambda: None).start()
        except RuntimeError:
            return both(rows, root) == wrong
        return False

    assert in_child(limited)


def test_a_signal_stops_it(root):
    class Stop(Exception):
        pass

    def stop(*_):
        raise Stop

    names, packed = b"\0".join([b"a"] * 400_000), stamps.PACKED.pack(*stamp_of(root, b"a")) * 400_000
    before, usual = threads(), signal.signal(signal.SIGPROF, stop)
    try:
        with pytest.raises(Stop):
            signal.setitimer(signal.ITIMER_PROF, 0.02)  # processor time, which only the comparison needs here
            threaded_comparison.positions_that_differ(names, packed, root)
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, usual)
    wait_for_threads(before)
    assert both([(b"a", stamp_of(root, b"a"))], root) == []


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")  # of Python 3.12 and later
def test_another_thread_of_the_program_may_fork_meanwhile(root):
    rows, wrong = many(root)
    ended = threading.Event()
    found = []
    other = threading.Thread(target=lambda: [found.append(both(rows, root) == wrong) for _ in iter(ended.is_set, True)])
    other.start()
    try:
        assert all(in_child(lambda: threaded_comparison.positions_that_differ(b"a", bytes(36), root) == [0]) for _ in range(5))
    finally:
        ended.set()
        other.join()
    assert all(found)


@pytest.mark.parametrize("seed", range(3))
def test_the_stat_file_is_the_same_byte_for_byte(tmp_path, monkeypatch, seed):
    """Two indexes of one tree, brought up to date from scan to scan: one with the module, one without."""
    chance = random.Random(seed)
    plant(tmp_path, {f"d{n}/e{m}/f{k}": b"%d" % n for n in range(4) for m in range(3) for k in range(3)} | {"d0/.gitignore": b"*.o\n"})
    settle()
    scans = [(Scanner(tmp_path), found.positions_that_differ) for found in (threaded_comparison, stamps)]
    for _ in range(8):
        answers = []
        for scan, function in scans:
            monkeypatch.setattr(stat_index, "positions_that_differ", function)
            answers.append((scan().tree, scan.index.value))
        assert answers[0] == answers[1]
        for _ in range(chance.randrange(4)):
            edit(tmp_path, chance)
        settle()


MAC = {
    "sys/stat.h": "#define st_mtim st_mtimespec\n#define st_ctim st_ctimespec\n#include_next <sys/stat.h>\n#undef st_mtim\n#undef st_ctim\n",
    "sched.h": "#include_next <sched.h>\n#define sched_getaffinity macos_has_none\n#undef CPU_COUNT\n",
}
"""What headers say there: the times of a file have other names, and no process is bound to processors."""


def test_the_source_that_macos_compiles_answers_the_same(place, root, tmp_path):
    """With Linux's headers, changed as far as the source sees a difference. Whether Apple's compiler takes it, only a Mac can tell."""
    if not shutil.which("cc"):
        pytest.skip("there is no compiler")
    for name, text in MAC.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    built = tmp_path / "threaded_comparison.abi3.so"
    command = ["cc", "-D__APPLE__", "-I", tmp_path, "-isystem", sysconfig.get_path("include"), *"-Wall -Werror -O2 -fPIC -shared -pthread -o".split()]
    subprocess.run([*command, built, SOURCE], check=True)
    loader = ExtensionFileLoader("threaded_comparison", str(built))
    loader.exec_module(module := module_from_spec(spec_from_loader("threaded_comparison", loader)))
    rows = [(name, stamp) for name in NAMES for stamp in (stamp_of(root, name), stamps.NONE)] * 500
    names, packed = b"\0".join([name for name, _ in rows]), b"".join([stamps.PACKED.pack(*stamp) for _, stamp in rows])
    found = module.positions_that_differ(names, packed, root)
    assert found == stamps.positions_that_differ(names, packed, root) and 0 < len(found) < len(rows)
