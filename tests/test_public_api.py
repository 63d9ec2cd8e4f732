"""What `casrewind` offers to Python programs, and how little it costs to import: hooks start it many times an hour."""

import ast
import contextlib
import functools
import importlib
import inspect
import itertools
import json
import os
import re
import subprocess
import sys
import textwrap
import typing
import zipfile
from pathlib import Path

import pytest

import casrewind
from casrewind.errors import UnsafePath
from support.picture import picture
from support.trees import plant


FUNCTIONS = "adopt adopt_moved clone default_settings open prune_missing stores"
VALUES = (
    "Action Adopted Author AuthoredLines Blame CameConversation Change Chat Checkpoint CheckpointUsage Circumstances Cloned Collected Comparison Counts Covered Domain Dropped Entry Forgotten Found Gone Holder Kept Merged "
    "Limits Logged Makers Marked Marking Materialised Moved OnlyCopy OpenFile Operation Outside PathChange PathUsage Place Plan Problem Pruned Pulled Purged Pushed Receipt RemoteConfig Reset Restored Reversed Review Rewound Root RuleRef Saved SavedRow SessionUsage Settings Skip "
    "Spared Status Stop TextPurged Timeline Turn Usage Verified WrittenDirectory"
)
EXCEPTIONS = (
    "AgentError CasrewindError CheckpointError ContentInTheWay DatabaseOpen Declined JournalOpen NothingToUndo StoreBusy StoreDamaged StoreError "
    "StoreFull UsageError WorkspaceError WorkspaceNotFound"
)


def test_the_names_at_the_door():
    assert casrewind.__all__ == sorted(f"{FUNCTIONS} {VALUES} {EXCEPTIONS} Workspace __version__".split())
    for name in VALUES.split():
        assert issubclass(getattr(casrewind, name), tuple) and getattr(casrewind, name)._fields, name
    for name in EXCEPTIONS.split():
        assert issubclass(getattr(casrewind, name), Exception), name
    for name in FUNCTIONS.split():
        assert inspect.isfunction(getattr(casrewind, name)), name
    for name in casrewind.__all__:
        assert getattr(casrewind, name) is getattr(importlib.import_module(casrewind._HOMES.get(name, "casrewind")), name)
    assert set(casrewind._HOMES) == set(casrewind.__all__) - {"__version__"}
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        casrewind.nonsense
    assert set(casrewind.__all__) <= set(dir(casrewind))


def test_what_type_checkers_are_told_of_the_door_is_what_is_there():
    tree = ast.parse(Path(casrewind.__file__).read_text())
    told = next(node for node in tree.body if isinstance(node, ast.If))
    imported = {name.name: f"casrewind.{node.module}" for node in told.body for name in node.names}
    assert imported == casrewind._HOMES


def callables():
    """(name, function) of everything public that can be called at the door or of what lies there."""
    for name in casrewind.__all__:
        found = getattr(casrewind, name)
        if inspect.isfunction(found):
            yield name, found
        elif inspect.isclass(found) and found.__module__.startswith("casrewind"):
            for member, value in vars(found).items():
                value = value.fget if isinstance(value, property) else value
                if inspect.isfunction(value) and (not member.startswith("_") or member == "__init__"):
                    yield f"{name}.{member}", value


def hints_of(thing):
    """The annotations of a function or class, those included that only type checkers import."""
    here = vars(sys.modules[thing.__module__])
    told = {name: getattr(casrewind, name) for name in casrewind.__all__}
    told |= {"Confirm": importlib.import_module("casrewind.change.worktree_change").Confirm}
    return typing.get_type_hints(thing, globalns={**told, **here})


def classes_in(hint):
    """The classes of this package that an annotation names, however deep."""
    if inspect.isclass(hint) and not typing.get_args(hint):
        return {hint} if hint.__module__.startswith("casrewind") else set()
    if isinstance(hint, list):
        return set().union(*map(classes_in, hint))
    return set().union(*map(classes_in, typing.get_args(hint)))


def test_every_class_that_a_signature_or_a_field_names_is_at_the_door():
    seen, wanted = set(), {("open", casrewind.open), ("Workspace", casrewind.Workspace)}
    wanted |= {(name, found) for name, found in callables() if not name.endswith("__init__")}
    wanted |= {(name, getattr(casrewind, name)) for name in VALUES.split()}
    for name, thing in wanted:
        for hint in hints_of(thing).values():
            seen |= {(name, found) for found in classes_in(hint)}
    assert len(seen) > 40
    assert {(name, found) for name, found in seen if getattr(casrewind, found.__name__, None) is not found} == set()


def test_every_signature_is_annotated_to_the_last_argument():
    found = dict(callables())
    assert len(found) > 30
    for name, function in found.items():
        signature = inspect.signature(function)
        arguments = [argument for argument in signature.parameters.values() if argument.name != "self"]
        bare = [argument.name for argument in arguments if argument.annotation is argument.empty]
        assert bare == [] and signature.return_annotation is not signature.empty, name


def test_everything_public_is_documented():
    for name, function in callables():
        assert inspect.getdoc(function), name
    for name in f"{VALUES} {EXCEPTIONS} Workspace".split():
        text = vars(getattr(casrewind, name)).get("__doc__") or ""
        assert len(text) > 10 and not text.startswith(f"{name}("), name  # a named tuple has a text of its own otherwise


def explained_fields(record):
    """Fields with a text under them."""
    body = ast.parse(textwrap.dedent(inspect.getsource(record))).body[0].body
    return [field.target.id for field, text in itertools.pairwise(body)
            if isinstance(field, ast.AnnAssign) and isinstance(text, ast.Expr) and isinstance(text.value, ast.Constant)]  # fmt: skip


def test_the_fields_that_need_units_or_explaining_are_in_the_texts():
    """Of the reports: what is not told by its name and type alone."""
    assert all(word in casrewind.Settings.__doc__ for word in casrewind.Settings._fields)
    told = {
        "Limits": "max_age seconds max_count keep_last", "Checkpoint": "created_ns nanoseconds size bytes parent changes",
        "Saved": "created changes skipped ignored", "Comparison": "changes sorted skipped old new", "Entry": "digest size bytes mtime_ns",
        "Restored": "actions kept target safety unchanged", "Collected": "kept dropped bytes_before bytes_after notes damaged",
        "Status": "checkpoints last label journal running reasons", "Found": "root size bytes used_ns problem", "Marking": "before changed",
        "Verified": "problems blobs checkpoints", "Root": "path key owner",
        "Usage": "bytes store_size packs_size unique shared other garbage trees gc_frees problems", "PathUsage": "is_directory versions",
        "SessionUsage": "unique transcripts newest_ns", "CheckpointUsage": "unique shared",
        "Logged": "changes sorted compare damaged", "PathChange": "before change counts reason",
    }  # fmt: skip
    for name, words in told.items():
        record = getattr(casrewind, name)
        text = f"{record.__doc__} {' '.join(explained_fields(record))}"
        assert [word for word in words.split() if not re.search(rf"\b{word}\b", text)] == [], name


def test_every_exception_that_a_text_names_exists():
    from casrewind import errors

    there = {name for name in vars(errors) if inspect.isclass(getattr(errors, name))} | {"Declined", "TypeError", "OSError"}
    families = "Workspace|Store|Checkpoint|Usage|Content|Journal|Nothing|Root|Unsafe|Path|Format|Ambiguous|Declined"
    named = 0
    for name, function in [*callables(), ("Workspace", casrewind.Workspace)]:
        for sentence in re.findall(r"\b(?:Raises|raise) ([^.]*)", inspect.getdoc(function)):
            found = re.findall(rf"\b((?:{families})[A-Z]\w+)", sentence)
            named += len(found)
            assert set(found) <= there | {"WorkspaceError"}, name
    assert named > 25


def test_the_package_says_that_it_is_typed():
    assert (Path(casrewind.__file__).parent / "py.typed").read_bytes() == b""


def test_the_settings_of_the_api_are_those_of_the_command_when_nothing_is_configured(home, monkeypatch):
    from casrewind.settings import from_environment

    monkeypatch.setattr(os, "environ", {"HOME": str(home)})
    assert casrewind.default_settings().data == str(home / ".local/share/casrewind")
    found, _ = from_environment()
    assert found == casrewind.default_settings()


@pytest.mark.parametrize("variables", [{"CASREWIND_HOME": "{}/stores"}, {"XDG_DATA_HOME": "{}/data"}, {}])
def test_a_program_and_the_command_use_one_store_whatever_moves_it(home, root, variables):
    plant(root, {"f": b"x"})
    environment = {"HOME": str(home), **{name: value.format(home) for name, value in variables.items()}}
    run = functools.partial(subprocess.run, cwd=root, env=environment, capture_output=True, text=True, check=True, timeout=60)
    program = "import casrewind\nwith casrewind.open() as w: print(w.store_path, w.save('by a program').checkpoint.id)"
    store, point = run([sys.executable, "-c", program]).stdout.split()
    listed = json.loads(run([sys.executable, "-m", "casrewind", "list", "--json"]).stdout)
    assert [row["id"] for row in listed["checkpoints"]] == [point]
    assert json.loads(run([sys.executable, "-m", "casrewind", "status", "--json"]).stdout)["store"] == store


def test_a_program_that_wants_a_store_of_its_own_names_it(home, root, monkeypatch):
    plant(root, {"f": b"x"})
    monkeypatch.setattr(os, "environ", {"HOME": str(home), "CASREWIND_HOME": str(home / "stores")})
    with casrewind.open(root, store=home / "own") as workspace:
        assert workspace.store_path == str(home / "own") and workspace.save().created
    with pytest.raises(casrewind.WorkspaceNotFound):
        casrewind.open(root, create=False)


SCRIPT = """
import casrewind
from casrewind import Change, Checkpoint, Limits, Saved
from pathlib import Path

def report(what: str, done: int, total: int) -> None:
    print(what, done, total)

def ask(plan: casrewind.Plan) -> bool:
    return all(action.after is not None for action in plan.actions) and not plan.kept

def main(place: Path) -> int:
    settings: casrewind.Settings = casrewind.default_settings()._replace(limits=Limits(max_age=60.0, max_count=None))
    with casrewind.open(place, settings, progress=report) as workspace:
        saved: Saved = workspace.save("a label", pin=True)
        point: Checkpoint = saved.checkpoint
        changes: tuple[Change, ...] = workspace.diff(point, "last", [b"src"]).changes
        sizes: dict[bytes, int] = {path: entry.size for path, entry in workspace.entries("last")}
        data: bytes = b"".join(workspace.cat(point, b"README.md"))
        try:
            restored: casrewind.Restored = workspace.restore("prev", workspace.scope(["src"], place), ask)
        except (casrewind.StoreBusy, casrewind.JournalOpen) as error:
            return error.exit_code
        except casrewind.Declined:
            return 1
        problems: list[str] = [problem.detail for problem in workspace.verify(quick=True).problems]
        freed: int = workspace.gc(dry_run=True).bytes_before - workspace.gc().bytes_after
        label: str = workspace.pin(point, "b").label
        where: str = workspace.root.path
        skipped: tuple[casrewind.Skip, ...] = workspace.status().skipped
    found: list[casrewind.Found] = casrewind.stores(settings)
    print(changes, sizes, data, restored.kept, problems, freed, label, where, skipped, found)
    return 0
"""
WRONG = {
    'workspace.save("a label", pin=True)': "workspace.save(pin=1, massage='')",
    '"last", [b"src"]': '"last", "src"',
    "except casrewind.Declined": "except casrewind.Declinde",
    "problem.detail": "problem.details",
    "max_age=60.0": "max_age='60'",
}


def test_mypy_strict_has_nothing_to_say_of_a_script_and_finds_what_is_wrong_in_one(tmp_path):
    """Both in one run, which costs seconds: each wrong line has to be found, and nothing in the right script."""
    pytest.importorskip("mypy")
    (tmp_path / "right.py").write_text(SCRIPT)
    wrong = SCRIPT
    for good, bad in WRONG.items():
        assert wrong.count(good) == 1, good
        wrong = wrong.replace(good, bad)
    (tmp_path / "wrong.py").write_text(wrong)
    (tmp_path / "mypy.ini").write_text("[mypy]\nstrict = true\n")
    here = os.path.dirname(os.path.dirname(casrewind.__file__))
    link = tmp_path / "site"
    link.mkdir()
    (link / "casrewind").symlink_to(os.path.join(here, "casrewind"))
    cache = Path(here) / ".mypy_cache" / "script"  # to read the stubs of Python takes three times as long as the rest
    with contextlib.suppress(OSError):
        cache.mkdir(parents=True, exist_ok=True)
    cache = cache if os.access(cache, os.W_OK) else tmp_path / "cache"
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--config-file", "mypy.ini", "--cache-dir", str(cache), "right.py", "wrong.py"],
        cwd=tmp_path, env={**os.environ, "MYPYPATH": str(link)}, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 1, done.stderr
    lines = done.stdout.splitlines()
    assert [line for line in lines if line.startswith("right.py")] == [], done.stdout
    bad = {number for number, line in enumerate(wrong.splitlines(), 1) if any(text in line for text in WRONG.values())}
    assert len(bad) == len(WRONG)
    assert {int(line.split(":")[1]) for line in lines if line.startswith("wrong.py") and "error:" in line} == bad, done.stdout


def test_a_star_import_brings_exactly_these():
    found = {}
    exec("from casrewind import *", found)
    assert set(found) - {"__builtins__"} == set(casrewind.__all__)


def test_the_version_is_a_literal_of_the_package():
    (line,) = re.findall(r'^__version__ = "(.+)"$', Path(casrewind.__file__).read_text(), re.MULTILINE)
    assert line == casrewind.__version__ and re.fullmatch(r"\d+\.\d+\.\d+\S*", line)


def test_open_save_restore_through_the_door(root, settings):
    plant(root, {"f": b"1"})
    with casrewind.open(root, settings) as workspace:
        assert isinstance(workspace, casrewind.Workspace)
        point = workspace.save("first").checkpoint
        assert isinstance(point, casrewind.Checkpoint)
        plant(root, {"f": b"2"})
        assert workspace.restore(workspace.checkpoint("last")).target == point.id
        assert (root / "f").read_bytes() == b"1"
        workspace.undo()
        assert (root / "f").read_bytes() == b"2"
        with pytest.raises(casrewind.CasrewindError, match="no checkpoint 'nope'"):
            workspace.checkpoint("nope")


def test_opening_without_create_makes_nothing(root, settings, home):
    with pytest.raises(casrewind.CasrewindError, match="casrewind save"):
        casrewind.open(root, settings, create=False)
    assert list(home.iterdir()) == []


def test_a_workspace_prints_nothing(root, settings, capfd):
    plant(root, {"f": b"1", "node_modules/m": b""})
    with casrewind.open(str(root), settings) as workspace:
        workspace.save()
        plant(root, {"f": b"2"})
        workspace.restore(workspace.checkpoint("last"))
        workspace.status()
    assert capfd.readouterr() == ("", "")


def test_a_reference_does_wherever_a_checkpoint_does(root, settings, tmp_path):
    plant(root, {"f": b"1"})
    with casrewind.open(root, settings) as workspace:
        point = workspace.save("first").checkpoint
        plant(root, {"f": b"2"})
        latest = workspace.save().checkpoint
        for name in ("first", "prev", point.id, point.id[:8]):
            assert workspace.checkpoint(name) == workspace.checkpoint(point) == point
            assert list(workspace.entries(name)) == list(workspace.entries(point)) != list(workspace.entries(latest))
            assert list(workspace.cat(name, b"f")) == [b"1"]
            assert workspace.domain(name) == workspace.domain(point)
            assert workspace.marks(name) == workspace.marks(point)
            assert workspace.diff(name).changes == workspace.diff(point, "last").changes == workspace.diff(point).changes != ()
            assert workspace.plan_restore(name) == workspace.plan_restore(point)
            workspace.materialise(name, tmp_path / f"at {name}")
            assert (tmp_path / f"at {name}" / "f").read_bytes() == b"1"
            assert workspace.pin(name).marked.pinned and not workspace.unpin(name).marked.pinned
        assert workspace.restore("first").target == point.id
        assert (root / "f").read_bytes() == b"1"


VERBS = {
    "entries": ["{}"], "cat": ["{}", b"f"], "pin": ["{}"], "unpin": ["{}"], "domain": ["{}"], "marks": ["{}"], "checkpoint": ["{}"],
    "diff": ["{}"], "plan_restore": ["{}"], "restore": ["{}"], "materialise": ["{}", "elsewhere"], "checkpoint_and_path": ["{}:f"],
}  # fmt: skip


@pytest.mark.parametrize("verb", VERBS)
def test_a_wrong_reference_is_an_error_of_one_family_whatever_is_done_with_it(workspace, root, verb, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    plant(root, {"f": b"1"})
    tokens, usual = iter(["aaaa1111111111", "aaaa2222222222"]), os.urandom
    monkeypatch.setattr(os, "urandom", lambda size: bytes.fromhex(next(tokens)) if size == 7 else usual(size))
    workspace.save("one")
    workspace.save("one")
    monkeypatch.setattr(os, "urandom", usual)
    before = picture(root)
    for reference, kind in (("nope", "CheckpointNotFound"), ("", "CheckpointNotFound"), ("caaaa", "AmbiguousReference")):
        with pytest.raises(casrewind.CheckpointError) as caught:
            getattr(workspace, verb)(*[item.format(reference) if isinstance(item, str) else item for item in VERBS[verb]])
        assert type(caught.value).__name__ == kind
    assert picture(root) == before and not (tmp_path / "elsewhere").exists()


@pytest.mark.parametrize("wrong", ["f", b"f", ["f"], b"", "", [b"f", "f"], [102], (None,), None])
def test_paths_that_are_no_paths_are_refused_before_anything_is_done(workspace, root, wrong):
    """One path in place of several would be taken for the bytes in it; "" and b"" for no path at all, which is everything."""
    plant(root, {"f": b"1"})
    workspace.save()
    plant(root, {"f": b"2"})
    for verb in (workspace.restore, workspace.plan_restore, lambda point, scope: workspace.diff(point, scope=scope)):
        with pytest.raises(TypeError):
            verb("last", wrong)
    assert (root / "f").read_bytes() == b"2" and len(workspace.checkpoints()) == 1


@pytest.mark.parametrize("wrong", [b"/f", b"./f", b"f/", b"d/../f", b"..", b"d//f", b".git/config"])
def test_paths_that_can_name_nothing_below_the_root_are_refused(workspace, root, wrong):
    plant(root, {"f": b"1"})
    workspace.save()
    plant(root, {"f": b"2"})
    for verb in (workspace.restore, workspace.plan_restore, lambda point, scope: workspace.diff(point, scope=scope)):
        with pytest.raises(UnsafePath):
            verb("last", [wrong])
    assert (root / "f").read_bytes() == b"2"


@pytest.mark.parametrize("scope", [[b"f"], (b"f",), {b"f"}, iter([b"f"]), [b""], []])
def test_paths_may_come_in_any_collection(workspace, root, scope):
    plant(root, {"f": b"1"})
    workspace.save()
    plant(root, {"f": b"2"})
    assert [action.path for action in workspace.restore("last", scope).actions] == [b"f"]
    assert (root / "f").read_bytes() == b"1"


def test_a_closed_workspace_says_so_and_holds_nothing(root, settings):
    plant(root, {"f": b"1"})
    before = set(os.listdir("/dev/fd"))
    workspace = casrewind.open(root, settings)
    point = workspace.save().checkpoint
    list(workspace.entries(point))
    workspace.close()
    workspace.close()
    assert set(os.listdir("/dev/fd")) == before
    for verb in (workspace.save, workspace.checkpoints, workspace.status, workspace.verify, workspace.gc, workspace.undo,
                 lambda: workspace.restore(point), lambda: workspace.entries(point), lambda: workspace.checkpoint("last")):  # fmt: skip
        with pytest.raises(casrewind.WorkspaceError, match="was closed; open it again"):
            verb()
    assert set(os.listdir("/dev/fd")) == before


def test_a_workspace_that_cannot_be_opened_holds_nothing(root, settings):
    plant(root, {"f": b"1"})
    with casrewind.open(root, settings) as workspace:
        store = workspace.store_path
    os.chmod(store, 0o777)
    before = set(os.listdir("/dev/fd"))
    with pytest.raises(casrewind.CasrewindError, match="others may write"):
        casrewind.open(root, settings)
    assert set(os.listdir("/dev/fd")) == before


def test_each_thread_with_a_workspace_of_its_own(root, settings):
    from concurrent.futures import ThreadPoolExecutor

    plant(root, {f"d{n}/f": b"0" for n in range(4)})

    def work(number):
        saved = []
        with casrewind.open(root, settings) as workspace:
            for turn in range(4):
                plant(root, {f"d{number}/f": b"%d" % turn})
                point = workspace.save(f"{number}-{turn}").checkpoint
                assert b"".join(workspace.cat(point, b"d%d/f" % number)) == b"%d" % turn
                saved.append(point.id)
        return saved

    with ThreadPoolExecutor(4) as pool:
        everything = [identity for saved in pool.map(work, range(4)) for identity in saved]
    with casrewind.open(root, settings, create=False) as workspace:
        assert {point.id for point, _ in workspace.checkpoints()} == set(everything) and len(set(everything)) == 16
        assert workspace.verify().problems == ()


def test_a_workspace_goes_on_in_a_forked_child_and_in_its_parent(workspace, root):
    plant(root, {"f": b"1"})
    workspace.save("before")
    child = os.fork()
    if child == 0:
        code = 1
        try:
            code = 0 if workspace.save("in the child").created and workspace.diff("before").changes == () else 2
        finally:
            os._exit(code)
    assert os.waitpid(child, 0)[1] == 0
    workspace.save("in the parent")
    assert [point.label for point, _ in workspace.checkpoints()] == ["in the parent", "in the child", "before"]
    assert workspace.verify().problems == ()


def test_what_a_progress_callback_raises_ends_a_save_and_harms_nothing(root, settings):
    class Enough(Exception):
        pass

    def stop(what, done, total):
        raise Enough

    plant(root, {"f": b"1"})
    with casrewind.open(root, settings) as workspace:
        kept = workspace.save().checkpoint
        plant(root, {"f": b"2"})
    with casrewind.open(root, settings, progress=stop) as workspace:
        for verb in (workspace.save, lambda: workspace.restore("last"), workspace.verify):
            with pytest.raises(Enough):
                verb()
    with casrewind.open(root, settings) as workspace:
        assert [point for point, _ in workspace.checkpoints()] == [kept] or workspace.is_interrupted()
        assert workspace.verify().problems == ()
    assert (root / "f").read_bytes() == b"2"


def test_the_wheel_holds_every_room_and_the_mark_of_types(tmp_path):
    builder = pytest.importorskip("hatchling.builders.wheel")
    here = Path(casrewind.__file__).parent.parent
    if not (here / "pyproject.toml").exists():
        pytest.skip("not run from the sources")
    (wheel,) = builder.WheelBuilder(str(here)).build(directory=str(tmp_path), versions=["standard"])
    with zipfile.ZipFile(wheel) as file:
        names = {name for name in file.namelist() if name.startswith("casrewind/") and not name.endswith(".so")}
    there = [path for path in (here / "casrewind").rglob("*") if path.is_file() and "__pycache__" not in path.parts and path.suffix not in (".c", ".so")]
    assert names == {str(path.relative_to(here)) for path in there} and "casrewind/py.typed" in names
