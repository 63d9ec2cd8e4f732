"""Fixtures. No test may reach the real home or the real store: a guard makes that an error, and a test proves it."""

import contextlib
import ctypes
import gc
import itertools
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from support import absent_packages

absent_packages.take_away_from_session()

from casrewind.workspace import Settings, Workspace
from support import as_macos, late_tests, sample_start
from support.command import Command
from support.command_in_process import InProcess
from support.pulled_machine import PulledMachine
from support.s3_server import S3Server
from support.shim import CLOCK, compile_shim, seconds


def pytest_addoption(parser):
    parser.addoption("--run-long", action="store_true", help="run the tests marked long, too")
    parser.addoption("--run-release", action="store_true", help="run the tests marked long and those marked release, too")
    parser.addoption("--on-disk", action="store_true", help="no test in memory; a failed test keeps its directory (also with --run-long)")
    parser.addoption("--roots", metavar="DIR", help="where the projects of tests lie (the fixture root): a directory on another file system")


def pytest_configure(config):
    if os.environ.get("CASREWIND_TEST_AS") == "macos" and not as_macos.is_on():
        raise pytest.UsageError("CASREWIND_TEST_AS is for `sh tests/run.sh`, which makes an interpreter for it (tests/support/as_macos.py)")
    sys.dont_write_bytecode = False  # else each worker compiles all tests; the commands under test are told by their environment
    config.option.run_long |= config.option.run_release
    config.option.on_disk |= config.option.run_long
    sample_start.takes_all = config.option.run_long
    late_tests.pytest_configure(config)
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:  # what a shell starts in the background is deaf to it, and so its children
        signal.signal(signal.SIGINT, signal.default_int_handler)
    with contextlib.suppress(AttributeError, OSError):
        _see_nobody_elses_mounts()


def _see_nobody_elses_mounts():
    """What tests of another worker mount is not seen in this one, and what this one leaves mounted is gone with it. Where
    that is not allowed (not root, not Linux), nothing changes."""
    library = ctypes.CDLL(None, use_errno=True)
    if os.geteuid() == 0 and library.unshare(0x20000) == 0:  # CLONE_NEWNS
        library.mount(None, b"/", None, 0x4000 | 1 << 18, None)  # MS_REC | MS_PRIVATE


@pytest.hookimpl(tryfirst=True)  # before its fixtures
def pytest_runtest_setup(item):
    """A command that was called in this process has limited its memory. A client that a later test starts would not run."""
    most = resource.getrlimit(resource.RLIMIT_AS)[1]
    resource.setrlimit(resource.RLIMIT_AS, (most, most))
    _Places.module = item.path


SIZES = {"long": 1800, "release": 7200}
"""Seconds that a test of a size may take."""


@pytest.hookimpl(tryfirst=True)  # before xdist reads the groups
def pytest_collection_modifyitems(config, items):
    """Three sizes: what runs at every push, `long` (minutes each), `release` (ten minutes and more). One process says of each test of
    another size that it is skipped. Several leave them out: to say it of four thousand takes half a minute."""
    if not any("::" in name for name in config.args):  # a test that is named runs: for a person, or to kill a mutant
        _take_turns(items)
    for size, most in SIZES.items():
        skip = pytest.mark.skip(reason=f"{size}: needs --run-{size}")
        for item in items:
            if size in item.keywords:
                if item.get_closest_marker("timeout") is None:
                    item.add_marker(pytest.mark.timeout(most))
                if not config.getoption(f"--run-{size}"):
                    item.add_marker(skip)
    if as_macos.is_on() or not sys.platform.startswith("linux"):
        for item in items:
            if mark := item.get_closest_marker("linux_only"):
                item.add_marker(pytest.mark.skip(reason=f"only Linux: {mark.args[0]}"))


    if getattr(config.option, "loadgroup", False):
        items[:] = [item for item in items if not any(item.get_closest_marker(size) and not config.getoption(f"--run-{size}") for size in SIZES)]
        _keep_modules_together(items)
        items[:] = _waiting_beside_working(items)


IN_TURNS = "agents/ change/ cli/ docs/ faults/ fidelity/ history/ hooks/ remote/ store/ upkeep/ worktree/".split()
"""Tests that cost something. Those of rules and of the model cost less than it takes to choose among them."""
MANY, VERY_MANY = 8, 16


def _take_turns(items):
    """A test of many cases of one kind has a third of them in a push, one of very many a quarter, other ones after another change of the
    product; one that says itself which of its cases are long is left as it is. The marker `turns` says it of a test or of a module."""
    here, cases = Path(__file__).parent, {}
    for item in items:
        node, mark = next(item.iter_markers_with_node("turns"), (item, None))
        if mark or ("[" in item.name and str(item.path.relative_to(here)).startswith(tuple(IN_TURNS))):
            cases.setdefault((node.nodeid.partition("[")[0], node is not item, mark.args[0] if mark else None), []).append(item)
    for (name, is_whole, turns), found in cases.items():
        if turns is None and (len(found) < MANY or any("long" in item.keywords for item in found)):
            continue
        for place, item in enumerate(found):
            if not sample_start.is_its_turn(name, 0 if is_whole else place, turns or (6 if len(found) >= VERY_MANY else 4)):
                item.add_marker(pytest.mark.long)


def pytest_make_parametrize_id(val):
    """A name is in each report, three times in the memory of each worker, and in the environment: two megabytes of it were."""
    return f"{ascii(val[:60])} and more" if isinstance(val, (bytes, str)) and len(val) > 300 else None


HEAVY = ("tests/faults/", "tests/property/", "tests/real/", "tests/scale/")


def _keep_modules_together(items):
    """What a module shares is made once: its tests are run by one worker."""
    for item in items:
        fixtures = item._fixtureinfo.name2fixturedefs.values()
        if item.get_closest_marker("xdist_group") is None and any(found[-1].scope == "module" for found in fixtures):
            item.add_marker(pytest.mark.xdist_group(item.nodeid.partition("::")[0]))


def _waiting_beside_working(items):
    """The order of a run in several workers. A test with a real client waits most of its time, and a heavy one works: they run
    beside each other, and first, so that no long one is left for the end."""
    groups, heavy, others = {}, [], []
    for item in items:
        mark = item.get_closest_marker("xdist_group")
        if mark is not None:
            groups.setdefault(mark.args[0], []).append(item)
        else:
            (heavy if item.nodeid.startswith(HEAVY) else others).append(item)
    order, share = [], -(-len(heavy) // (len(groups) or 1))
    for _, group in sorted(groups.items(), key=lambda named: (not named[0].startswith("client-"), -len(named[1]))):
        order += group + heavy[:share]
        del heavy[:share]
    return order + heavy + others


def pytest_collection_finish(session):
    """Tests of one recorded session must all be run by one worker: pytest 9.2 with xdist 3.8 spreads them silently."""
    gc.collect()
    gc.freeze()  # ten thousand tests: the garbage collector of each forked process would copy them all
    if getattr(session.config.option, "loadgroup", False):
        spread = [item.nodeid for item in session.items if item.get_closest_marker("xdist_group") and "@" not in item.nodeid]
        if spread:
            raise pytest.UsageError(f"this pytest does not keep the tests of a group together, {spread[0]} among them")


@pytest.fixture(scope="session", autouse=True)
def no_real_home(tmp_path_factory):
    """HOME and every casrewind and XDG variable point nowhere real for the whole run."""
    nowhere = tmp_path_factory.mktemp("nowhere")
    patch = pytest.MonkeyPatch()
    for name in list(os.environ):
        if name.startswith(("CASREWIND_", "XDG_", "GIT_")):
            patch.delenv(name)
    patch.setenv("HOME", str(nowhere / "you-forgot-to-choose-a-home"))
    patch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    yield nowhere
    assert not any(nowhere.iterdir()), "a test wrote to the home directory"
    patch.undo()


IN_MEMORY = (
    "agents/ benchmarks/ change/ cli/ client/ docs/ faults/attack/ faults/clock/ faults/damage/ gitignore/ history/ hooks/ model/ "
    "property/test_blame property/test_laws property/test_path_histories property/test_rule_changes property/test_session_revert remote/ "
    "scale/test_long_timelines store/test_damage store/test_index store/test_merge_packs store/test_store upkeep/"
).split()
"""Tests whose directories are in memory: a store syncs sixty times in a test, and these tests ask nothing of the disk. The
others (scans, changes of the worktree, the store's files, kills, full disks) have a real file system."""


@pytest.fixture(scope="session")
def memory(request):
    """A directory in memory, or None where there is little room for it."""
    shm = "/dev/shm"
    if request.config.option.on_disk or not os.access(shm, os.W_OK) or shutil.disk_usage(shm).free < 2 << 30:
        yield None
        return
    with tempfile.TemporaryDirectory(prefix="tests-", dir=shm, ignore_cleanup_errors=True) as place:
        yield Path(place)


@pytest.fixture(scope="session", autouse=True)
def nothing_stays_closed(tmp_path_factory, memory):
    """What tests closed is opened at the end: pytest removes it, in this run or in one to come, and a plain user may not else."""
    yield
    places = [str(place) for place in (tmp_path_factory.getbasetemp(), memory) if place]
    subprocess.run(["chmod", "-R", "u+rwX", *places], capture_output=True, check=False)


def _is_in_memory(memory, module):
    """True if a module's directories are in memory."""
    return memory is not None and str(module.relative_to(Path(__file__).parent)).startswith(tuple(IN_MEMORY))


class _Places:
    """pytest's own tmp_path_factory. What the tests of a module in memory share is there, too."""

    module = None
    """The file of the test that runs."""

    def __init__(self, given, memory):
        self._given, self._memory = given, memory

    def mktemp(self, name, numbered=True):
        if not _is_in_memory(self._memory, self.module):
            return self._given.mktemp(name, numbered)
        place = self._memory / f"{name}{next(_numbers)}"
        place.mkdir(mode=0o700)
        return place

    def getbasetemp(self):
        return self._given.getbasetemp()


@pytest.fixture(scope="session")
def tmp_path_factory(tmp_path_factory, memory):
    return _Places(tmp_path_factory, memory)


_numbers = itertools.count()
_FAILED = pytest.StashKey[bool]()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item):
    report = yield
    item.stash[_FAILED] = item.stash.get(_FAILED, False) or report.failed
    return report


@pytest.fixture
def tmp_path(request, memory, tmp_path_factory):
    """pytest's own reads, for each test, the names of the directories of all tests before it."""
    in_memory = _is_in_memory(memory, request.path)
    name = re.sub(r"\W", "_", request.node.name)[:30]
    place = memory / f"test-{next(_numbers)}" if in_memory else tmp_path_factory.getbasetemp() / f"{name}{next(_numbers)}"
    place.mkdir(mode=0o700)
    yield place
    if in_memory or not request.node.stash.get(_FAILED, False):
        shutil.rmtree(place, ignore_errors=True)


@pytest.fixture
def home(tmp_path):
    place = tmp_path / "home"
    place.mkdir()
    return place


@pytest.fixture
def at(home):
    """at(place) is the command, in that place."""
    return lambda place: InProcess(place, home)


@pytest.fixture
def root(request, tmp_path):
    """An empty project directory."""
    elsewhere = request.config.option.roots
    above = Path(tempfile.mkdtemp(dir=elsewhere)) if elsewhere else tmp_path
    place = above / "project"
    place.mkdir()
    yield place
    if elsewhere:
        shutil.rmtree(above, ignore_errors=True)


@pytest.fixture
def casrewind(root, home):
    """The command, called in this process in the project."""
    return InProcess(root, home)


@pytest.fixture
def process(root, home):
    """The command in a process of its own (support/forked_command.py): for signals, streams, limits, locales, other users."""
    return Command(root, home)


@pytest.fixture
def settings(home):
    return Settings(home=str(home), data=str(home / "data"), environ={"HOME": str(home), "GIT_CONFIG_NOSYSTEM": "1"})


@pytest.fixture
def workspace(root, settings):
    """The project's workspace, opened through the Python API."""
    with Workspace(str(root), settings, create=True) as opened:
        yield opened


@pytest.fixture(scope="module")
def s3():
    """An S3 server on loopback: `s3.bucket()` is a URL, `s3.variables` the environment of who uses it, `s3.counts()` what was asked."""
    with S3Server() as server:
        yield server
@pytest.fixture
def machines(tmp_path):
    """machines("sandbox-4"): another machine, with a project and a store of its own."""
    made = []

    def make(name="sandbox-4", **more):
        made.append(PulledMachine(tmp_path, name, **more))
        return made[-1]

    yield make
    for one in made:
        one.workspace.close()


@pytest.fixture(scope="session")
def clock(tmp_path_factory):
    """clock("-10y"): the variables under which a process takes it for that time; or clock(file="path"), which holds seconds."""
    if not sys.platform.startswith("linux"):
        pytest.skip("the clock shim is written for Linux")
    made = compile_shim(str(tmp_path_factory.mktemp("clock")), CLOCK)
    if made is None:
        pytest.skip("no C compiler for the clock shim")

    def work(when="+0", *, file=None):
        return {"LD_PRELOAD": made, **({"CLOCK_OFFSET": str(seconds(when))} if file is None else {"CLOCK_FILE": str(file)})}

    return work


_FIGURES = ("tests/faults/", "tests/property/", "tests/scale/", "tests/real/", "tests/gitignore/test_rules_against_git.py", "tests/store/test_index.py")


def pytest_terminal_summary(terminalreporter):
    """Print the figures of the tests that count something: how many calls were counted, how many points fired ..."""
    lines = []
    for report in terminalreporter.getreports("passed"):
        if report.when == "call" and report.nodeid.startswith(_FIGURES):
            lines += [f"{report.nodeid.partition('::')[2]}: {line}" for line in report.capstdout.splitlines() if line.strip()]
    if lines:
        terminalreporter.section("figures")
        for line in sorted(lines):
            terminalreporter.write_line(line)


@pytest.fixture
def mac():
    """macOS's library, as Linux can answer for it."""
    from support import fake_libsystem

    with fake_libsystem.installed() as found:
        yield found
    assert not found.acls, "an ACL was not freed"
