"""docs/cli.md is written from the parser; it says what the parser says, and its table of exit codes is the errors' own."""

import re
import subprocess
import sys
from pathlib import Path

from casrewind import errors

DOCS = Path(__file__).parent.parent.parent / "docs"


def test_the_page_is_what_the_parser_says():
    done = subprocess.run([sys.executable, str(DOCS / "generate_cli.py"), "--check"], capture_output=True)
    assert done.returncode == 0, "docs/cli.md is stale: run python docs/generate_cli.py"


def test_a_stale_page_is_noticed(tmp_path):
    script = (DOCS / "generate_cli.py").read_text().replace("Path(__file__).parent.parent", f"Path({str(DOCS.parent)!r})")
    (tmp_path / "generate_cli.py").write_text(script)
    run = [sys.executable, str(tmp_path / "generate_cli.py")]
    assert subprocess.run(run, capture_output=True).returncode == 0
    page = (tmp_path / "cli.md").read_text()
    assert page == (DOCS / "cli.md").read_text()
    (tmp_path / "cli.md").write_text(page.replace("--rehash", "--again"))
    assert subprocess.run([*run, "--check"], capture_output=True).returncode == 1


def test_every_exit_code_of_an_error_is_in_the_table():
    def codes(kind):
        return {kind.exit_code}.union(*(codes(below) for below in kind.__subclasses__()))

    table = {int(number) for number in re.findall(r"^\| (\d+) \|", (DOCS / "cli.md").read_text(), re.MULTILINE)}
    assert table == codes(errors.CasrewindError) | {0, 3, 70, 130}
    assert 2 not in table
