"""The type checker sees what the command line gets: a misspelt attribute is an error, and `Any` is rare."""

import ast
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

TOP = Path(__file__).parent.parent
MOST = 60
"""Uses of `Any` in the package: values of JSON and of libraries without types, and fields for `_replace`."""
MISSPELT = [
    ("cli/commands/back.py", "target.prompt.text"),
    ("cli/commands/checkpoints.py", "report.faults"),
    ("cli/commands/doctor.py", "settings.data"),
    ("cli/commands/install.py", "options.resident"),
    ("cli/commands/list.py", "context.root.key"),
    ("cli/commands/restore.py", "options.skip_damaged"),
    ("cli/commands/status.py", "context.store.path"),
    ("cli/commands/stores.py", "options.prune_missing"),
    ("cli/picker/timeline.py", "self._context.root"),
    ("cli/picker/view.py", "self.state.is_opened"),
    ("hook/handler.py", "job.event.command"),
    ("hook/helper.py", "context.store.sessions"),
]
"""(module of a command, the picker or the hook; an attribute that it uses)."""


def test_any_is_rare():
    """Imports, and the substitute for `typing`, do not count."""
    found = {}
    for path in (TOP / "casrewind").rglob("*.py"):
        if path.name == "_typing.py":
            continue
        nodes = list(ast.walk(ast.parse(path.read_text("utf-8"))))
        names = [node.id for node in nodes if isinstance(node, ast.Name)]
        quoted = [node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)]
        names += ["Any" for text in quoted if text == "Any" or re.fullmatch(r"\w+\[.*\bAny\b.*\]", text)]
        found[str(path.relative_to(TOP))] = names.count("Any")
    assert found["casrewind/fastjson.py"] > 0
    assert sum(found.values()) <= MOST, {name: count for name, count in found.items() if count}


@pytest.mark.long
def test_the_type_checker_finds_every_misspelt_attribute(tmp_path):
    """mypy reads the whole package without its cache, which takes longer than a push may."""
    pytest.importorskip("mypy")
    shutil.copytree(TOP / "casrewind", tmp_path / "casrewind", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(TOP / "pyproject.toml", tmp_path)
    for name, right in MISSPELT:
        path = tmp_path / "casrewind" / name
        text, count = re.subn(rf"\b{re.escape(right)}\b", f"{right}x", path.read_text("utf-8"), count=1)
        assert count == 1, (name, right)
        path.write_text(text, "utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(tmp_path / "cache")], cwd=tmp_path, capture_output=True, text=True
    )
    lines = [line for line in done.stdout.splitlines() if "has no attribute" in line]
    unseen = [
        (name, right) for name, right in MISSPELT
        if not any(line.startswith(f"casrewind/{name}:") and f'"{right.rpartition(".")[2]}x"' in line for line in lines)
    ]  # fmt: skip
    assert unseen == [], done.stdout
