"""docs/api.md is run: its blocks in their order, in one namespace, beside a project, with every output that it shows."""

import doctest
import json
import os
import re
from pathlib import Path

import pytest

import casrewind
from casrewind.agents.claude import CLIENT as claude
from support.command import Command
from support.fake_client import Client
from support.trees import plant

PAGE = Path(__file__).resolve().parent.parent / "docs" / "api.md"
FLAGS = doctest.ELLIPSIS | doctest.REPORT_NDIFF


def blocks_of(text):
    """(line, source) of every block of Python on a page."""
    return [(text.count("\n", 0, found.start()) + 1, found[1]) for found in re.finditer(r"^```python\n(.*?)^```$", text, re.M | re.S)]


def run(text):
    """Run a page; one report for each example that fails, and how many examples there were."""
    namespace, failures, count = {"__name__": "__main__"}, [], 0
    for line, source in blocks_of(text):
        examples = doctest.DocTestParser().get_examples(source)
        if not examples:
            exec(compile(source, f"api.md:{line}", "exec"), namespace)
            count += 1
            continue
        test = doctest.DocTest(examples, {}, f"api.md:{line}", str(PAGE), line, source)
        test.globs = namespace
        doctest.DocTestRunner(optionflags=FLAGS, verbose=False).run(test, out=failures.append, clear_globs=False)
        count += len(examples)
    return failures, count


@pytest.fixture
def beside_a_shop(tmp_path, monkeypatch):
    """The project of the page in the current directory, a home elsewhere."""
    (tmp_path / "home").mkdir()
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    place = tmp_path / "work"
    (place / "shop" / "src").mkdir(parents=True)
    monkeypatch.chdir(place)
    files = {"README.md": "# The shop\n", "prices.csv": "apple,1\n", "src/till.py": "print('till')\n", ".gitignore": "*.log\n"}
    for name, text in files.items():
        (place / "shop" / name).write_text(text)
        os.chmod(place / "shop" / name, 0o644)
    os.chmod(place / "shop" / "src", 0o755)
    converse(place / "website", tmp_path / "home")
    return tmp_path


def converse(website, home):
    """A project in which Claude Code answered three prompts, as far as its hooks and its transcript tell."""
    website.mkdir()
    command = Command(website, home, CASREWIND_HOME=str(home / ".local" / "share" / "casrewind"))
    command("save", code=0)
    client = Client(command, website)
    whole = client.transcript.read_bytes()
    session = json.loads(whole.splitlines()[0])["sessionId"]
    for prompt, effect in zip(claude.prompts(whole), (b"alpha v1\n", b"alpha v2\n", None), strict=True):
        client.transcript.write_bytes(whole[: prompt.start])  # as the hook finds it
        client.prompt(session, prompt)
        client.transcript.write_bytes(whole)
        if effect is None:
            (website / "alpha.txt").unlink()
        else:
            plant(website, {"alpha.txt": effect})
        client.send(client.payload("Stop.plain", session_id=session, prompt_id=prompt.prompt_id))


def test_every_block_of_the_page_does_what_the_page_says(beside_a_shop):
    failures, count = run(PAGE.read_text())
    assert failures == [], "\n".join(failures)
    assert count > 60
    assert sorted(os.listdir(beside_a_shop)) == ["home", "work"]
    assert sorted(os.listdir(beside_a_shop / "work")) == ["copy-of-shop", "market", "stores-of-the-night-shift", "try1", "try2", "website"]


@pytest.mark.parametrize("change", [("(True, 4, 'manual')", "(True, 5, 'manual')"), (">>> workspace.save().created\nFalse", ">>> workspace.save().created")])
def test_a_page_that_shows_what_is_not_so_is_found_out(beside_a_shop, change):
    text = PAGE.read_text()
    assert text.count(change[0]) == 1
    text = text.replace(*change)
    text = text[: text.index("## Listing")]
    failures, _ = run(text)
    assert len(failures) == 1


def test_every_block_is_python_that_is_run():
    text = PAGE.read_text()
    assert len(re.findall(r"^```", text, re.M)) == 2 * len(blocks_of(text)) > 20


def test_every_exported_name_says_what_it_is():
    """The page sends its readers to `help()`."""
    names = [name for name in casrewind.__all__ if name != "__version__"]
    assert len(names) > 60 and [name for name in names if len((getattr(casrewind, name).__doc__ or "").split("\n")[0]) <= 5] == []


def test_every_verb_is_on_the_page():
    text = PAGE.read_text()
    verbs = [name for name in vars(casrewind.Workspace) if not name.startswith("_")]
    hidden = {"checkpoint_and_path", "marks"}  # for the command; `help` tells of them
    assert [verb for verb in verbs if not re.search(rf"\b{verb}\b", text) and verb not in hidden] == []
