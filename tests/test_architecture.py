"""The architecture: imports go down only, one module imports each library, and no module grows too long."""

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from house import statements

TOP = Path(__file__).parent.parent
LIMIT = 500
EXCEPTIONS = {"workspace.py": (545, "a method of few lines for each operation; the class is one name for programs")}
"""{file below casrewind/: (lines allowed, why it may be longer)}."""


def modules():
    return sorted((TOP / "casrewind").rglob("*.py"))


def test_every_import_contract_is_kept(tmp_path):
    pytest.importorskip("importlinter")
    command = [sys.executable, "-c", "from importlinter.cli import lint_imports_command as run; run()", "--no-cache"]
    done = subprocess.run(
        [*command, "--config", str(TOP / "pyproject.toml")], cwd=tmp_path, capture_output=True, text=True,
        env={"PATH": "/usr/bin:/bin", "PYTHONPATH": str(TOP), "NO_COLOR": "1", "COLUMNS": "200", "LANG": "C.UTF-8"},
    )  # fmt: skip
    contracts = tomllib.loads((TOP / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"Contracts: {len(contracts)} kept, 0 broken" in done.stdout
    assert len(contracts) >= 5


def test_a_broken_contract_would_be_noticed(tmp_path):
    """The same command on a copy with one import that goes up, and a command that uses the Python API."""
    pytest.importorskip("importlinter")
    for path in modules():
        copy = tmp_path / path.relative_to(TOP)
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_bytes(path.read_bytes())
    with open(tmp_path / "casrewind/model/diff.py", "a") as file:
        file.write("\nfrom ..store import packs\n")
    with open(tmp_path / "casrewind/cli/commands/words.py", "a") as file:
        file.write("\nfrom ...workspace import Workspace\n")
    command = [sys.executable, "-c", "from importlinter.cli import lint_imports_command as run; run()", "--no-cache"]
    done = subprocess.run(
        [*command, "--config", str(TOP / "pyproject.toml")], cwd=tmp_path, capture_output=True, text=True,
        env={"PATH": "/usr/bin:/bin", "PYTHONPATH": str(tmp_path), "NO_COLOR": "1", "COLUMNS": "200", "LANG": "C.UTF-8"},
    )  # fmt: skip
    assert done.returncode == 1 and "casrewind.model.diff -> casrewind.store.packs" in done.stdout
    assert "casrewind.cli.commands.words -> casrewind.workspace" in done.stdout


def test_no_module_is_too_long():
    lengths = {str(path.relative_to(TOP / "casrewind")): len(path.read_text("utf-8").splitlines()) for path in modules()}
    assert {name: lines for name, lines in lengths.items() if lines > EXCEPTIONS.get(name, (LIMIT, ""))[0]} == {}
    assert {name for name in EXCEPTIONS if lengths.get(name, 0) <= LIMIT} == set(), "no longer an exception"


def test_every_module_has_a_docstring():
    import ast

    for path in modules():
        assert ast.get_docstring(ast.parse(path.read_text("utf-8"))), path


def test_commands_take_no_name_of_the_python_api_but_the_version():
    """The contracts do not see it: `from .. import open` imports no module."""
    import ast

    import casrewind

    for path in (TOP / "casrewind" / "cli").rglob("*.py"):
        above = len(path.relative_to(TOP).parts) - 1
        for node in statements(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.ImportFrom) and node.level == above and node.module is None:
                assert {alias.name for alias in node.names} & set(casrewind.__all__) <= {"__version__"}, path


SHARED = {"cursor"}
"""A name that two modules share: a position in a transcript, and the client Cursor, whose module has the client's name."""


def test_a_name_of_a_module_means_one_module():
    """But for the modules of commands, which have the names of what they call."""
    found = {}
    for path in modules():
        if path.name != "__init__.py" and path.parent.name != "commands":
            found.setdefault(path.stem, []).append(str(path.relative_to(TOP)))
    assert len(found) > 100
    assert {name for name, paths in found.items() if len(paths) > 1} == SHARED


def test_a_name_of_a_class_means_one_class():
    """Private and inner ones too."""
    import ast

    found = {}
    for path in modules():
        for node in statements(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.ClassDef):
                found.setdefault(node.name, []).append(f"{path.relative_to(TOP)}:{node.lineno}")
    assert len(found) > 200
    assert {name: places for name, places in found.items() if len(places) > 1} == {}


def test_no_file_is_excused_from_the_rule_on_private_names():
    """Only lines are, and few: each says why (SLF001: another module's private name)."""
    lint = tomllib.loads((TOP / "pyproject.toml").read_text())["tool"]["ruff"]["lint"]
    assert lint["select"] == ["ALL"] and not any("SLF001".startswith(rule) for rule in lint["ignore"])
    product = {files: rules for files, rules in lint["per-file-ignores"].items() if files.startswith("casrewind")}
    assert not any("SLF001".startswith(rule) or rule == "ALL" for rules in product.values() for rule in rules)
    texts = [path.read_text("utf-8") for path in modules()]
    assert not any("ruff: noqa" in text or "flake8: noqa" in text for text in texts)
    assert sum(text.count("noqa: SLF001") for text in texts) <= 5


def imports():
    """{module: the modules of ours that it imports, anywhere in it}."""
    import ast

    names = {}
    for path in modules():
        parts = path.relative_to(TOP).with_suffix("").parts
        names[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    found = {}
    for module, path in names.items():
        package = module.split(".") if path.name == "__init__.py" else module.split(".")[:-1]
        wanted = set()
        for node in statements(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.ImportFrom):
                above = package[: len(package) - node.level + 1] if node.level else []
                base = ".".join([*above, *(node.module or "").split(".")]).rstrip(".")
                wanted |= {name if (name := f"{base}.{alias.name}") in names else base for alias in node.names}
            elif isinstance(node, ast.Import):
                wanted |= {alias.name for alias in node.names}
        found[module] = (wanted & names.keys()) - {module}
    return found


def test_no_module_imports_one_that_imports_it():
    """Not even late, or for the type checker alone: whoever reads one of a circle has to read all of it."""
    left = imports()
    assert len(left) > 100 and "casrewind.worktree.scan" in left["casrewind.upkeep.save"]
    while free := [module for module, wanted in left.items() if not wanted & left.keys()]:
        for module in free:
            del left[module]
    assert sorted(left) == []
