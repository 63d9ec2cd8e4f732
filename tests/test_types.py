"""The type checker sees what the command line gets: `Any` is rare, and each has its reason."""

import ast
import re
from pathlib import Path

TOP = Path(__file__).parent.parent
MOST = 18
"""Uses of `Any` in the package: values of JSON and of libraries without types, and fields for `_replace`."""


def uses_of_any():
    """(module, line, True if a reason stands there) of each use. Imports, and the substitute for `typing`, do not count.

    A reason is a comment on the line, or the text behind an alias of the module.
    """
    for path in (TOP / "casrewind").rglob("*.py"):
        if path.name == "_typing.py":
            continue
        text = path.read_text("utf-8")
        if "Any" not in text:
            continue
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
