"""The state of the house in figures: how large it is, and how much of what is to go is still there. `python tests/house.py` prints them.

Each figure has a bound. Who gets below it lowers it: `tests/test_house.py` asks for that. Only a new feature raises the bounds of lines and
modules, in its own commit, which says what a person gets for them. No other bound is raised.
"""

import ast
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

TOP = Path(__file__).resolve().parent.parent

ASKING = {"confirm", "choose", "agree", "keeper"}
"""Parameters that are given a function which asks a person; `AskPassphrase` is the type of one more."""
ENTRIES = ("__main__", "cli.main", "cli.commands.save", "cli.commands.list", "cli.commands.status", "cli.commands.diff", "cli.commands.restore")
"""What a person or an agent starts all day; the modules of hook/ belong to them."""
CHANGES_FILES = {f"change.{name}" for name in ("back_without_chat", "keep_edits", "restore", "restore_to", "revert", "rewind", "take", "undo")}
"""Operations that change the user's files, as do all modules of change/."""
NAMES = ("_MOST", "_SHOWN", "_STEP", "_LONGEST")
"""Names of constants that say nothing without their module. No constant has one."""
TRACERS = {"history.path_history", "change.keep_edits"}
"""What says whose an edit is, beside history/provenance.py."""


class House:
    """The modules of the package, parsed."""

    def __init__(self, package: Path) -> None:
        self.paths: dict[str, Path] = {}
        for path in sorted(package.rglob("*.py")):
            parts = path.relative_to(package).with_suffix("").parts
            self.paths[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
        self.texts = {name: path.read_text("utf-8") for name, path in self.paths.items()}
        self.trees = {name: ast.parse(text) for name, text in self.texts.items()}

    def imports(self, name: str, *, late: bool) -> set[str]:
        """The modules of ours that a module imports at its top; with `late` also those inside of functions. Not those for types alone."""
        return {found for node in imports_of(self.trees[name], late=late) for found in self.targets(name, node)}

    def targets(self, name: str, node: ast.stmt) -> Iterator[str]:
        """The modules of ours that one import statement names."""
        if not isinstance(node, ast.ImportFrom) or not node.level:
            return
        package = name.split(".") if self.paths[name].name == "__init__.py" and name else name.split(".")[:-1]
        base = [*package[: len(package) - node.level + 1], *(node.module or "").split(".")]
        place = ".".join(part for part in base if part)
        if place in self.paths:
            yield place
        yield from (found for alias in node.names if (found := f"{place}.{alias.name}".lstrip(".")) in self.paths)

    def functions(self, names: set[str]) -> Iterator[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef]]:
        """(module, function) of all functions and methods."""
        for name in sorted(names):
            for node in statements(self.trees[name]):
                if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                    yield name, node

    @cached_property
    def entries(self) -> set[str]:
        """The modules on the path of the entry commands: what they and the modules of hook/ import at their top."""
        found: set[str] = set()
        left = {name for name in self.paths if name in ENTRIES or name.startswith("hook.")}
        while left:
            name = left.pop()
            found.add(name)
            left |= self.imports(name, late=False) - found
        return found


def statements(node: ast.AST) -> Iterator[ast.stmt]:
    """The statements inside of a module or of another statement, each before its own. A walk over all nodes takes ten times as long."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.stmt):
            yield child
        if isinstance(child, (ast.stmt, ast.excepthandler, ast.match_case)):
            yield from statements(child)


def imports_of(node: ast.AST, *, late: bool) -> Iterator[ast.stmt]:
    """The import statements of a module, but for those that a type checker alone reads; with `late` also those inside of functions."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, (ast.Import, ast.ImportFrom)):
            yield child
        elif isinstance(child, ast.expr) or (isinstance(child, ast.If) and ast.unparse(child.test) == "TYPE_CHECKING"):
            continue
        elif late or not isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield from imports_of(child, late=late)


def _parameters(node: ast.FunctionDef | ast.AsyncFunctionDef) -> set[str]:
    given = node.args
    return {one.arg for one in (*given.posonlyargs, *given.args, *given.kwonlyargs)}


def lines_of_code(house: House) -> list[str]:
    """Lines that are no blank line, no docstring, no comment and no import."""
    return [f"{name}:{number}" for name in house.paths for number in sorted(_code_lines(house.texts[name], house.trees[name]))]


def _code_lines(text: str, tree: ast.Module) -> set[int]:
    found = {number for number, line in enumerate(text.splitlines(), 1) if line.strip() and not line.strip().startswith("#")}
    for node in statements(tree):
        is_text = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
        if is_text or isinstance(node, (ast.Import, ast.ImportFrom)):
            found -= set(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    return found


def modules(house: House) -> list[str]:
    """Files of Python."""
    return list(house.paths)


def shared_command_files(house: House) -> list[str]:
    """Files in cli/commands that are not one command: no `COMMAND` in them."""
    files = [name for name in house.paths if name.startswith("cli.commands.")]
    return [name for name in files if not any("COMMAND" in _targets(node) for node in house.trees[name].body)]


def _targets(node: ast.stmt) -> set[str]:
    """The names that an assignment sets."""
    places = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
    names = [one for place in places for one in (place.elts if isinstance(place, ast.Tuple) else [place])]
    return {one.id for one in names if isinstance(one, ast.Name)}


def asking_callbacks(house: House) -> list[str]:
    """Functions below cli with a parameter that is given a function which asks."""
    below = {name for name in house.paths if not name.startswith("cli")}
    found = house.functions(below)
    return [f"{name}.{node.name}" for name, node in found if _parameters(node) & ASKING or "AskPassphrase" in ast.unparse(node.args)]


def answers(house: House) -> list[str]:
    """Exceptions that are a person's answer: `Declined`, and what is derived from it."""
    classes = {node.name: (name, node) for name, tree in house.trees.items() for node in statements(tree) if isinstance(node, ast.ClassDef)}
    found: dict[str, str] = {name: place for name, (place, _) in classes.items() if name == "Declined"}
    while more := {
        name: place
        for name, (place, node) in classes.items()
        if name not in found and any(ast.unparse(base).rpartition(".")[2] in found for base in node.bases)
    }:
        found |= more
    return [f"{place}.{name}" for name, place in sorted(found.items())]


def dry_runs(house: House) -> list[str]:
    """Functions with `dry_run` in what changes the user's files."""
    changing = {name for name in house.paths if name in CHANGES_FILES or name.startswith("change.")}
    return [f"{name}.{node.name}" for name, node in house.functions(changing) if "dry_run" in _parameters(node)]


def late_imports(house: House) -> list[str]:
    """Imports inside functions, in modules that are not on the path of the entry commands."""
    found = []
    for name in sorted(house.paths.keys() - house.entries):
        top = set(map(id, imports_of(house.trees[name], late=False)))
        found += [f"{name}:{node.lineno}" for node in imports_of(house.trees[name], late=True) if id(node) not in top]
    return found


def constants_named(house: House, *wanted: str) -> list[str]:
    """Modules with a constant of one of these names."""
    return [f"{name}.{one}" for name, tree in house.trees.items() for node in tree.body for one in sorted(_targets(node) & set(wanted))]


def shared_numbers(house: House) -> list[str]:
    """Constants that are numbers, whose name several modules have for a number of their own."""
    found = [(name, one) for name, tree in house.trees.items() for node in tree.body if _is_number(node) for one in _targets(node)]
    times = Counter(one for _, one in found if one.isupper())
    return [f"{name}.{one}" for name, one in found if times[one] > 1]


def _is_number(node: ast.stmt) -> bool:
    if not isinstance(node, (ast.Assign, ast.AnnAssign)) or node.value is None:
        return False
    return not any(isinstance(part, (ast.Name, ast.Call, ast.Attribute)) for part in ast.walk(node.value)) and any(
        isinstance(part, ast.Constant) and type(part.value) in (int, float) for part in ast.walk(node.value)
    )


def long_names(house: House) -> list[str]:
    """Functions whose name has more than four words."""
    found = house.functions(set(house.paths))
    return [f"{name}.{node.name}" for name, node in found if len(list(filter(None, node.name.split("_")))) > 4]


def importers(house: House, wanted: set[str]) -> list[str]:
    """Modules that import one of these, anywhere in them."""
    return sorted(name for name in house.paths.keys() - wanted if house.imports(name, late=True) & wanted)


class Figure(NamedTuple):
    """What is counted, and its bound: today's value. None: it may grow."""

    name: str
    find: Callable[[House], list[str]]
    bound: int | None


FIGURES = [
    Figure("lines of code", lines_of_code, 43_500),
    Figure("modules", modules, 396),
    Figure("files in cli/commands that are not one command", shared_command_files, 2),
    Figure("functions below cli that take a callback which asks", asking_callbacks, 23),
    Figure("exceptions that are answers", answers, 1),
    Figure("functions with dry_run in what changes the worktree", dry_runs, 3),
    Figure("imports inside functions, outside the entry commands' path", late_imports, 179),
    *(Figure(f"constants named {name}", lambda house, name=name: constants_named(house, name), 0) for name in NAMES),
    Figure("number constants that share their name with another module's", shared_numbers, 193),
    Figure("functions whose name has more than four words", long_names, 55),
    Figure("modules that import provenance", lambda house: importers(house, {"history.provenance"}), None),
    Figure("modules that import another tracer", lambda house: importers(house, TRACERS), 3),
]


def main() -> None:
    """Print the table; with `--list NAME` what a figure counts, one a line."""
    house = House(TOP / "casrewind")
    if sys.argv[1:2] == ["--list"]:
        chosen = [figure for figure in FIGURES if " ".join(sys.argv[2:]) in figure.name]
        print("\n".join(f"{figure.name}: {one}" for figure in chosen for one in figure.find(house)))
        return
    print("| figure | today | bound |\n|---|---|---|")
    for figure in FIGURES:
        print(f"| {figure.name} | {len(figure.find(house)):,} | {'-' if figure.bound is None else f'{figure.bound:,}'} |")


if __name__ == "__main__":
    main()
