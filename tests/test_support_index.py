"""tests/support/README.md has one line for each module beside it, and no other."""

import re
from pathlib import Path

SUPPORT = Path(__file__).parent / "support"


def test_each_module_has_one_line_and_each_line_a_module():
    rows = re.findall(r"^\| `(\w+)` \| (.+) \|$", (SUPPORT / "README.md").read_text("utf-8"), re.MULTILINE)
    assert sorted(name for name, _ in rows) == sorted(path.stem for path in SUPPORT.glob("*.py") if path.stem != "__init__")
    assert [name for name, words in rows if not words.strip()] == []
