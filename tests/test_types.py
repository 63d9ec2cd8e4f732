"""The type checker sees what the command line gets: a misspelt attribute is an error, and `Any` is rare."""

import ast
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

TOP = Path(__file__).parent.parent
MOST = 18
"""Uses of `Any` in the package: values of JSON and of libraries without types, and fields for `_replace`."""
MISSPELT = [
    ("cli/commands/back_and_rewrite_chat.py", "target.prompt.text"),
    ("cli/commands/save_run_pin_cat.py", "report.faults"),
    ("cli/commands/doctor.py", "settings.data"),
    ("cli/commands/install.py", "options.plugin"),
    ("cli/commands/list.py", "context.root.key"),
    ("cli/commands/restore.py", "options.skip_damaged"),
    ("cli/commands/status_and_config.py", "context.store.path"),
    ("cli/commands/stores_and_adopt.py", "options.prune_missing"),
    ("cli/picker/timeline.py", "self._context.root"),
    ("cli/picker/view.py", "self.state.is_opened"),
    ("hook/handler.py", "job.event.command"),
]
"""(module of a command, the picker or the hook; an attribute that it uses)."""


def uses_of_any():
    """(module, line, True if a reason stands there) of each use. Imports, and the substitute for `typing`, do not count.

    A reason is a comment on the line, or the text behind an alias of the module.
    """
    for path in (TOP / "casrewind").rglob("*.py"):
        if path.name == "_typing.py":
            continue
        text = path.read_text("utf-8")
        tree, lines = ast.parse(text), text.splitlines()
        texts = {
            alias.lineno for alias, behind in zip(tree.body, tree.body[1:])
            if isinstance(alias, ast.Assign) and isinstance(behind, ast.Expr) and isinstance(behind.value, ast.Constant)
        }  # fmt: skip
        for node in ast.walk(tree):
            is_name = isinstance(node, ast.Name) and node.id == "Any"
            quoted = node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""
            if is_name or quoted == "Any" or re.fullmatch(r"\w+\[.*\bAny\b.*\]", quoted):
                yield str(path.relative_to(TOP)), node.lineno, "  # " in lines[node.lineno - 1] or node.lineno in texts


def test_any_is_rare_and_each_has_its_reason():
    found = list(uses_of_any())
    assert ("casrewind/fastjson.py", True) in {(name, reason) for name, _, reason in found}
    assert len(found) <= MOST, found
    assert [(name, line) for name, line, reason in found if not reason] == []


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
