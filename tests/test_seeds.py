"""tests/seeds.md has an answer for every behaviour of the earlier systems, and every test that it names exists."""

import ast
import functools
import re
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent.parent
PAGE = HERE / "tests" / "seeds.md"

LISTS = {"SZ-": 41, "P-": 17, "T-": 8, "E-": 7, "C-": 14, "SZ-R": 8}
"""How many behaviours there are of each kind. This list is closed."""
IDS = [f"{kind}{number}" for kind, count in LISTS.items() for number in range(1, count + 1)]

PARTS = 4
WORDS = ("Kept", "Differs", "Left out")
TEST = re.compile(r"`(tests/[\w/]+\.py)::(test_\w+)`")
REASON = re.compile(r"not done: (.+)")


def items_of(text):
    """The parts of every item, [id, behaviour, answer, tests or reason]: the id and the behaviour share a line."""
    found = re.findall(r"^\* \*\*([A-Z]+-\w+)\*\*(.*(?:\n  .*)*)", text, re.MULTILINE)
    return [[identity, *(line.strip() for line in rest.split("\n"))] for identity, rest in found]


@functools.cache
def functions_of(path):
    """The names of the functions that a test file defines at its top level."""
    found = ast.parse(path.read_text(), str(path)).body
    return {node.name for node in found if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}


def read(shown):
    """The contents of the last part of an item: (tests, reason)."""
    reason = REASON.fullmatch(shown)
    if reason:
        return [], reason[1]
    tests = []
    for part in shown.split(", "):
        test = TEST.fullmatch(part)
        if test is None:
            raise ValueError(f"neither a test nor a reason: {part!r}")
        tests.append(test.groups())
    return tests, ""


def problems_of(text, here=HERE):
    """Everything that is wrong with a page, one line each."""
    items, found = items_of(text), []
    ids = [item[0] for item in items]
    found += [f"{identity}: {ids.count(identity)} items" for identity in IDS if ids.count(identity) != 1]
    found += [f"{identity}: unknown" for identity in ids if identity not in IDS]
    for item in items:
        if len(item) != PARTS or not all(item):
            found.append(f"{item[0]}: an empty or a missing part")
            continue
        identity, _, claim, shown = item
        try:
            tests, reason = read(shown)
        except ValueError as error:
            found.append(f"{identity}: {error}")
            continue
        word = claim.partition(":")[0]
        fits = {"Kept": tests, "Differs": tests, "Left out": len(reason.split()) >= 4}
        if word not in WORDS or not claim.partition(":")[2].strip():
            found.append(f"{identity}: {claim!r} begins with none of {', '.join(WORDS)}")
        elif not fits[word]:
            found.append(f"{identity}: {word!r} does not fit to {shown!r}")
        for file, name in tests:
            if not (here / file).is_file():
                found.append(f"{identity}: no file {file}")
            elif name not in functions_of(here / file):
                found.append(f"{identity}: no {name} in {file}")
    return found


def test_every_behaviour_of_the_earlier_systems_has_its_answer_and_every_test_named_exists():
    assert problems_of(PAGE.read_text()) == []


RIGHT = "`tests/test_docs.py::test_every_exception_is_on_the_tree`"


def page(**items):
    """A page that is right but for some items: SZ_7 = the text in place of that of SZ-7."""
    lines = {identity: f"* **{identity}** something\n  Kept: as it is\n  {RIGHT}" for identity in IDS}
    lines |= {identity.replace("_", "-"): item for identity, item in items.items()}
    return "# A page\n\n" + "\n".join(lines.values())


@pytest.mark.parametrize(
    ("item", "problem"),
    [
        ("", "SZ-7: 0 items"),
        (f"* **SZ-7** x\n  Kept: x\n  {RIGHT}\n" * 2, "SZ-7: 2 items"),
        (f"* **SZ-7** x\n  Kept: x\n  {RIGHT}\n* **SZ-42** x\n  Kept: x\n  {RIGHT}", "SZ-42: unknown"),
        (f"* **SZ-7**\n  Kept: x\n  {RIGHT}", "SZ-7: an empty or a missing part"),
        ("* **SZ-7** x\n  Kept: x\n  ", "SZ-7: an empty or a missing part"),
        ("* **SZ-7** x\n  Kept: x", "SZ-7: an empty or a missing part"),
        (f"* **SZ-7** x\n  Perhaps: x\n  {RIGHT}", "SZ-7: 'Perhaps: x' begins with none of"),
        (f"* **SZ-7** x\n  Kept:\n  {RIGHT}", "SZ-7: 'Kept:' begins with none of"),
        ("* **SZ-7** x\n  Kept: x\n  `tests/test_docs.py::test_no_such_thing`", "SZ-7: no test_no_such_thing in tests/test_docs.py"),
        ("* **SZ-7** x\n  Kept: x\n  `tests/test_no_such_file.py::test_x`", "SZ-7: no file tests/test_no_such_file.py"),
        ("* **SZ-7** x\n  Kept: x\n  `tests/test_docs.py`", "SZ-7: neither"),
        ("* **SZ-7** x\n  Kept: x\n  tests/test_docs.py::test_x", "SZ-7: neither"),
        ("* **SZ-7** x\n  Kept: x\n  later", "SZ-7: neither"),
        (f"* **SZ-7** x\n  To come: x\n  {RIGHT}", "SZ-7: 'To come: x' begins with none of"),
        (f"* **SZ-7** x\n  In part: x\n  {RIGHT}", "SZ-7: 'In part: x' begins with none of"),
        ("* **SZ-7** x\n  Left out: x\n  not done: three words only", "SZ-7: 'Left out' does not fit"),
        ("* **SZ-7** x\n  Kept: x\n  not done: as nobody would want it", "SZ-7: 'Kept' does not fit"),
        (f"* **SZ-7** x\n  Left out: x\n  {RIGHT}", "SZ-7: 'Left out' does not fit"),
    ],
)  # fmt: skip
def test_a_page_that_is_wrong_is_found_out(item, problem):
    (found,) = problems_of(page(SZ_7=item))
    assert found.startswith(problem)


@pytest.mark.parametrize(
    "rest",
    [f"Kept: x\n  {RIGHT}", f"Differs: x\n  {RIGHT}, {RIGHT}", "Left out: x\n  not done: as no person would, in the end, want it"],
)
def test_a_page_that_is_right_is_let_through(rest):
    assert problems_of(page(SZ_7=f"* **SZ-7** x\n  {rest}")) == []


def test_a_function_is_only_found_where_a_test_runner_finds_it(tmp_path):
    """Neither in a text, nor inside of another function."""
    (tmp_path / "one.py").write_text('"""def test_in_a_text(): ..."""\ndef test_here():\n    def test_inside(): ...\n# def test_remark\n')
    assert functions_of(tmp_path / "one.py") == {"test_here"}
