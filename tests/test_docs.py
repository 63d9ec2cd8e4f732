"""Documentation that cannot rot: what it names exists."""

import ast
import io
import re
import tokenize
from pathlib import Path

from house import statements

HERE = Path(__file__).resolve().parent.parent


def sources():
    return "".join(path.read_text() for path in sorted((HERE / "tests").rglob("*.py")))


def test_every_test_that_the_promises_name_exists():
    text = (HERE / "docs" / "internals" / "durability.md").read_text()
    named = re.findall(r"`(test_\w+)`", text)
    assert len(named) >= 8
    everything = sources()
    assert [name for name in named if f"def {name}(" not in everything] == []
    places = re.findall(r"`(tests/[\w/.]+)`", text)
    assert len(places) >= 15
    assert [place for place in places if not (HERE / place).exists()] == []


LINES = """install, doctor, three turns, turn list, wreck, back both, resume exact, original untouched, undo, compaction, cancelled turn,
two sessions, tool tier, lineage, moved project, another machine, uninstall exact, bad payloads, client upgraded, no network, hook cost"""


def test_each_client_has_the_same_lines_and_their_tests_exist():
    text = (HERE / "tests" / "client" / "README.md").read_text()
    tables = [part for part in text.split("\n## ") if "| line |" in part]
    assert len(tables) >= 3
    for table in tables:
        rows = re.findall(r"^\| ([a-z ]+) \| (.+) \|$", table, re.MULTILINE)[1:]
        assert ", ".join(name for name, _ in rows) == LINES.replace("\n", " "), table.partition("\n")[0]
    named = re.findall(r"`(tests/[\w/]+\.py)(?:::(test_\w+))?`", text)
    assert len(named) > 40
    assert [place for place, _ in named if not (HERE / place).exists()] == []
    assert [pair for pair in named if pair[1] and f"def {pair[1]}(" not in (HERE / pair[0]).read_text()] == []


SITE = "https://github.com/casrewind/casrewind/"


def anchors(document):
    """The anchors of a document's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.+)$", re.sub(r"^```.*?^```", "", document.read_text(), flags=re.MULTILINE | re.DOTALL), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_every_link_between_documents_leads_somewhere():
    broken = []
    others = ("README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md", "tests/docs/claims.md", "tests/seeds.md", "tests/client/README.md")
    for document in [*(HERE / name for name in others), *sorted((HERE / "docs").rglob("*.md"))]:
        for link in re.findall(r"\]\(([^)]+)\)", re.sub(r"`[^`\n]*`", "", document.read_text())):
            target, _, anchor = link.partition("#")
            if target.startswith(SITE):
                place = HERE / re.sub(r"^(blob|raw)/main/", "", target.removeprefix(SITE))
            elif ":" in target:
                continue
            else:
                place = document if not target else document.parent / target
            if not place.exists() or (anchor and anchor not in anchors(place)):
                broken.append((document.name, link))
    assert broken == []


def test_the_readme_reads_well_where_it_is_shown_alone():
    """The package index shows it without the files beside it."""
    links = re.findall(r"\]\(([^)]+)\)", (HERE / "README.md").read_text())
    assert [link for link in links if not link.startswith(("https://", "#"))] == [] and len(links) > 10
    assert any("configuration.md" in link for link in links)


def test_the_layout_names_every_package():
    layout = (HERE / "docs" / "internals" / "architecture.md").read_text().split("## Layout")[1].split("\n## ")[0]
    named = set(re.findall(r"^\| `([\w/]+)/` \|", layout, re.MULTILINE))
    assert named == {str(path.parent.relative_to(HERE)) for path in (HERE / "casrewind").rglob("__init__.py")}


def test_every_function_that_the_architecture_names_exists():
    text = (HERE / "docs" / "internals" / "architecture.md").read_text()
    source = "".join(path.read_text() for path in sorted((HERE / "casrewind").rglob("*.py")))
    named = set(re.findall(r"`(?:[a-z/]+/)?(?:\w+\.)?(\w+)`(?!/)", text)) - {"casrewind"}
    named = {name for name in named if "_" in name or not name.islower()}
    assert len(named) > 15
    assert named - set(re.findall(r"(?:def|class) (\w+)", source)) == set()


def test_every_module_that_a_maintainers_document_names_exists():
    """Decisions are history: they may name a module that is gone."""
    gone = []
    for document in [HERE / "CONTRIBUTING.md", *sorted((HERE / "docs" / "internals").glob("*.md"))]:
        for name in re.findall(r"`((?:casrewind/)?[a-z_]+/[a-z_/]+\.py)`", document.read_text()):
            if not any((HERE / top / name).exists() for top in ("", "casrewind")):
                gone.append((document.name, name))
    assert gone == []


def test_every_exception_is_on_the_tree():
    text = (HERE / "casrewind" / "errors.py").read_text()
    tree = text.split('"""')[1]
    names = re.findall(r"^class (\w+)\(", text, re.MULTILINE)
    assert len(names) > 15
    for name in names:
        assert name in tree, name


def test_the_scripts_that_the_readme_names_exist_and_can_run():
    text = (HERE / "README.md").read_text()
    scripts = re.findall(r"^sh (\S+)", text, re.MULTILINE)
    assert scripts == ["docs/try.sh", "tests/run.sh"]
    for script in scripts:
        assert (HERE / script).stat().st_mode & 0o100


NO_NAMES = {"udno", "Readme", "readme", "warnings"}
"""Words in backticks, or behind `as`, that name nothing of the package."""


def test_what_a_docstring_or_a_comment_names_is_in_the_package():
    """A renamed function left its old name in the docstrings of others."""
    known, texts = set(), []
    for path in sorted((HERE / "casrewind").rglob("*.py")):
        source = path.read_text()
        told = [node.value for node in statements(ast.parse(source)) if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)]
        texts += [(path.name, node.value) for node in told if isinstance(node.value, str)]
        starts = {(node.lineno, node.col_offset) for node in told}
        for token in tokenize.generate_tokens(io.StringIO(source).readline):
            if token.type == tokenize.COMMENT:
                texts.append((path.name, token.string))
            elif token.type == tokenize.NAME or (token.type == tokenize.STRING and token.start not in starts):
                known.update(re.findall(r"[A-Za-z_]\w*", token.string))
    named = re.compile(r"`([A-Za-z_][\w.]*)`|\b(?:see|as|in|by|of) ([a-z]+_[a-z_]+|[a-z_]+\.[a-z_]+)\b")
    found = [(name, one or other) for name, text in texts for one, other in named.findall(text)]
    assert len(found) > 500
    assert [(name, word) for name, word in found if not (set(word.split(".")) - {""}) <= known | NO_NAMES] == []
