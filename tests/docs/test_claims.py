"""Every command that a document names is one that the parser takes, and every promise in one has a test that is there."""

import argparse
import ast
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from casrewind import agents, errors
from casrewind.agents.client_versions import TRIED
from casrewind.cli.grammar import argparse_form as grammar
from casrewind.cli.grammar.command_line import CommandLine

TOP = Path(__file__).resolve().parent.parent.parent
DOCS = TOP / "docs"
INTERNALS = DOCS / "internals"
READ = [TOP / "README.md", *sorted((DOCS / "guides").glob("*.md")), *sorted(DOCS.glob("*.md")), INTERNALS / "durability.md"]
EVERY = [TOP / "README.md", TOP / "CONTRIBUTING.md", *sorted(DOCS.rglob("*.md"))]
STANDS_FOR = {"REF": "last", "PATH": "a", "DIR": "d", "OLD": "../old", "AGENT": "claude", "COMMAND": "save", "N": "1", "LABEL": "x", "MESSAGE": "x"}
FORMAT = "casrewind store 2"
"""No command, but what stands in a file."""
NOT_OURS = {"--refresh", "--binary", "--run-long", "--run-release"}
"""Options of the tests' own, and git's."""


def parts(text):
    """(text without fenced blocks and comments, the fenced blocks)."""
    blocks = re.findall(r"^```\w*\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    return re.sub(r"^```.*?^```|<!--.*?-->", "", text, flags=re.MULTILINE | re.DOTALL), blocks


def inline(text):
    """What stands between backticks in running text; a line may be broken in it."""
    return [" ".join(code.replace(r"\|", "|").split()) for code in re.findall(r"(?<!`)`([^`]+)`(?!`)", parts(text)[0])]


def command_lines(text):
    """Every command line of casrewind's in a document, as it stands there."""
    typed = [re.sub(r"^\$ ", "", line) for block in parts(text)[1] for line in block.splitlines() if re.match(r"(\$ )?casrewind\b(?! \(|:)", line)]
    return [line for line in [*inline(text), *typed] if re.match(r"casrewind( |$)", line)]


def forms(line):
    """A command line without what a reader leaves out, and, where it shows what is optional, with all of that, too."""
    line = re.sub(r"\s+#( .*)?$", "", line)
    line = re.sub(r"\s(?:>>?|<)\s*\S+|\s2>&1", "", line)
    line = re.sub(r"([\w-]+)(?:\|[\w-]+)+", r"\1", line).replace("...", "")
    found = {line}
    if "[" in line:
        bare, full = line, line.replace("[", "").replace("]", "")
        while bare != (bare := re.sub(r"\[[^\[\]]*\]", "", bare)):
            pass
        found = {bare, full}
    return [[re.sub(r"\b[A-Z]+\b", lambda word: STANDS_FOR.get(word[0], word[0]), part) for part in shlex.split(each)] for each in sorted(found)]


def takes(words):
    """Whether the parser takes a command line; raises UsageError where it does not."""
    program, *arguments = words
    assert program == "casrewind"
    if arguments[:1] == ["hook"] or not arguments:
        return  # what clients call, and the picker
    assert CommandLine(arguments).parse_line().command


def commands():
    (found,) = [action for action in grammar.build_parser()._actions if isinstance(action, argparse._SubParsersAction)]
    return dict(found.choices)


def test_every_command_line_in_a_document_is_one_that_the_parser_takes(capsys):
    found = [(document, line) for document in EVERY for line in command_lines(document.read_text()) if line != FORMAT]
    assert {document for document, _ in found} >= {TOP / "README.md", *DOCS.glob("guides/*.md")} and len(found) > 100
    for document, line in found:
        for words in forms(line):
            try:
                takes(words)
            except errors.UsageError as error:
                pytest.fail(f"{document.name} says `{line}`: {error}")


@pytest.mark.parametrize("line", ["casrewind save --mesage x", "casrewind back --twice [N]", "casrewind nonsense", "casrewind restore 2 [--everything]"])
def test_a_command_line_that_there_is_not_would_be_noticed(line):
    with pytest.raises(errors.UsageError):
        for words in forms(line):
            takes(words)


def test_every_option_that_a_document_names_is_one():
    known = commands()
    everywhere = {option for command in [grammar.build_parser(), *known.values()] for action in command._actions for option in action.option_strings}
    wrong = []
    for document in READ:
        for code in inline(document.read_text()):
            words = code.split()
            name, options = words[0], {word.partition("=")[0] for word in words if word.startswith("--") and len(word) > 2}
            if name in known:  # `gc --max-size`, where the sentence names the program
                there = {option for action in known[name]._actions for option in action.option_strings}
                wrong += [(document.name, code) for _ in options - there]
            elif len(words) == 1 and options - everywhere - NOT_OURS:
                wrong.append((document.name, code))
    assert wrong == []


def sections(text):
    return re.split(r"^## ", text, flags=re.MULTILINE)


def figures(section):
    """What was measured: times, sizes, numbers of files. What stands between backticks is an option's value."""
    text = re.sub(r"(?<!`)`[^`]+`(?!`)", "", section)
    return re.findall(r"\b\d[\d,.]* ?(?:ms|s|min|KiB|MiB|GiB|MB|GB|%|files)\b", text)


def is_here(word):
    module = TOP / word.replace(".", "/")
    return (TOP / word).exists() or module.with_suffix(".py").exists() or (module / "__main__.py").exists()


def ways_to_see_them(section):
    """The commands in a section that are of this repository: a script, or a module that is run."""
    found = re.findall(r"`((?:sh|python -m) [^`]+)`", section)
    return [line for line in found if any(is_here(word) for word in line.split()[1:])]


def test_every_figure_in_the_readme_says_how_to_see_it():
    for section in (each for each in sections((TOP / "README.md").read_text()) if figures(each)):
        assert ways_to_see_them(section), f"no command reproduces {figures(section)}"


def test_a_figure_without_a_command_would_be_noticed():
    assert figures("it takes 12 ms and `--max-age 30 s`") == ["12 ms"] and figures("it takes no time") == []
    assert ways_to_see_them("`sh tests/run.sh -k x`") and ways_to_see_them("`python -m benchmarks.compare`")
    assert not ways_to_see_them("`sh tests/gone.sh`, `casrewind save`, `python -m nothing.there`")


def claims():
    """[(document, its words, the test)]."""
    found = []
    for row in re.findall(r"^\| (.+) \|$", (TOP / "tests" / "docs" / "claims.md").read_text(), re.MULTILINE):
        cells = row.split(" | ")
        if cells[-1].startswith("`tests/"):
            found.append((TOP / "README.md" if len(cells) == 2 else DOCS / cells[0], cells[-2], cells[-1].strip("`")))
    return found


def said(document):
    return " ".join(parts(document.read_text())[0].replace(r"\|", "|").split())


def test_every_claim_is_said_where_it_is_said_to_be():
    assert len(claims()) > 70
    assert [(document.name, words) for document, words, _ in claims() if words not in said(document)] == []


def test_every_claim_has_a_test_that_is_there():
    there = {}
    for _, _, node in claims():
        path, _, name = node.partition("::")
        if path not in there and (TOP / path).exists():
            assert re.search(r"/test_\w+\.py$", path), path
            tree = ast.parse((TOP / path).read_text())
            there[path] = {item.name for item in tree.body if isinstance(item, ast.FunctionDef)}
        assert name in there.get(path, ()), node


@pytest.mark.long
def test_every_test_of_a_claim_is_collected():
    nodes = sorted({node for *_, node in claims()})
    done = subprocess.run([sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider", *nodes], cwd=TOP, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]


def test_every_line_of_the_readmes_promises_has_a_claim():
    text = (TOP / "README.md").read_text()
    words = [words for document, words, _ in claims() if document.name == "README.md"]
    table = re.findall(r"^\| `casrewind.*\|$", text, re.MULTILINE)
    points = re.findall(r"^\* \*\*.*?(?=^\* |^$)", text, re.MULTILINE | re.DOTALL)
    assert len(table) == 9 and len(points) >= 10
    assert [line for line in [*table, *points] if not any(said in " ".join(line.split()) for said in words)] == []


def test_every_promise_of_the_design_is_in_the_table_that_names_its_tests():
    promises = set(re.findall(r"^\| P\d+ \| (.+?) \|", (INTERNALS / "design.md").read_text(), re.MULTILINE))
    stated = set(re.findall(r"^\| ([^|]+?) \| [A-Za-z][^|]+ \| `", (INTERNALS / "durability.md").read_text(), re.MULTILINE))
    assert len(promises) >= 10
    assert {promise.replace("exact restore", "exact") for promise in promises} - stated == set()


def test_the_versions_of_clients_stand_in_one_table():
    page = (INTERNALS / "clients.md").read_text()
    table = page.partition("## Versions of the clients")[2].partition("\n\nnpm ")[0]
    rows = re.findall(r"^\| ([A-Z][^|]+) \| ([0-9.]+) \| ([0-9.]+) \| [^|]+ \|$", table, re.MULTILINE)
    assert sorted(rows) == sorted((agents.load_client(name).title, *tried) for name, tried in TRIED.items())
    numbers = {number for tried in TRIED.values() for number in tried}
    samples = {f"  program     /usr/local/bin/{name}, version {tried.tests}" for name, tried in TRIED.items()}
    pages = {path: path.read_text() for path in (*DOCS.rglob("*.md"), DOCS.parent / "README.md", DOCS.parent / "CONTRIBUTING.md")}
    pages[INTERNALS / "clients.md"] = page.replace(table, "")
    for path, text in pages.items():
        named = [line for line in text.splitlines() if numbers & set(re.findall(r"\d+\.\d+\.\d+", line))]
        assert [line for line in named if line not in samples] == [], path
