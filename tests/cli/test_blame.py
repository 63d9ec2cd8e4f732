"""casrewind blame: who wrote each line, as a person and a program read it."""

import pytest

from support.agent_turns import AgentTurns
from support.terminal_in_process import on_terminal
from support.trees import plant


def write(root, *lines):
    plant(root, {"till.py": "".join(f"{line}\n" for line in lines).encode()})


@pytest.fixture
def shop(casrewind, workspace, root):
    """Lines of the start, of two turns, of a person, and of somebody behind Esc."""
    write(root, "start", "old")
    casrewind("save", code=0)
    told = AgentTurns(workspace, root)
    told.prompt("a", "round to cents\nand more")
    write(root, "start", "one", "old")
    told.stop("a")
    write(root, "start", "one", "mine", "old")
    told.prompt("b", "give change")
    write(root, "start", "one", "mine", "two")
    told.stop("b")
    return told


def labels(out):
    return [(line.split()[0], line.split()[-1]) for line in out.splitlines()]


def test_each_line_has_its_maker_its_number_and_its_text(shop, casrewind):
    lines = casrewind("blame", "till.py", code=0).out.splitlines()
    assert [line[:27].rstrip() for line in lines] == ["older", "@2     round to cents", "you", "@1     give change"]
    assert [line[39:] for line in lines] == ["  1  start", "  2  one", "  3  mine", "  4  two"]
    assert [line[27:39].strip().endswith(" ago") for line in lines] == [False, True, True, True]
    assert labels(casrewind("blame", "till.py", "@1", code=0).out) == [("older", "start"), ("@2", "one"), ("you", "mine"), ("older", "old")]
    assert labels(casrewind("blame", "till.py", "-L", "2,3", code=0).out) == [("@2", "one"), ("you", "mine")]
    assert labels(casrewind("blame", "till.py", "-L", "3,+1", code=0).out) == [("you", "mine")]
    assert labels(casrewind("blame", "till.py", "-L", "4,", code=0).out) == labels(casrewind("blame", "-L", "4", "till.py", code=0).out) == [("@1", "two")]


def test_a_prompt_has_the_columns_that_the_lines_leave(shop, casrewind, root):
    shop.prompt("c", "round all the prices of the till to cents, please")
    write(root, "start", "one", "mine", "two", "three")
    shop.stop("c")

    def prompt(columns):
        return next(line for line in on_terminal(casrewind, ["blame", "till.py"], columns=columns, NO_COLOR="1").out.splitlines() if "three" in line)

    assert "round all the prices of the till to cents, please    " in prompt(100) and "round all the prices of the till to cents, please  5" in prompt(80)
    assert prompt(50).startswith("@1     round all the prices of the till…  5") and len(prompt(50)) <= 50
    assert prompt(30).startswith("@1     round all the price…  5")
    assert "@1     round all the price…   " in casrewind("blame", "till.py", code=0).out, "for a program it stays as it is"


def test_a_line_that_was_taken_back_and_came_again_is_of_whoever_wrote_it(shop, casrewind, workspace):
    before = labels(casrewind("blame", "till.py", code=0).out)
    workspace.revert([1])
    assert labels(casrewind("blame", "till.py", code=0).out) == [*before[:3], ("older", "old")]
    workspace.undo()
    assert labels(casrewind("blame", "till.py", code=0).out) == before


def test_behind_an_end_that_nobody_saw_both_are_named(shop, casrewind, root):
    shop.prompt("c", "go on")
    write(root, "start", "one", "mine", "two", "whose?")
    shop.tell("SessionStart", source="resume")
    casrewind("save", code=0)
    assert labels(casrewind("blame", "till.py", code=0).out)[-1] == ("@1?", "whose?")
    (run,) = casrewind.json("blame", "till.py", "-L", "5")["runs"]
    assert run["by"] == "unknown" and run["you"] and [turn["prompt"] for turn in run["turns"]] == ["go on"]


def test_a_file_that_an_agent_moved_keeps_its_makers(shop, casrewind, root):
    before = labels(casrewind("blame", "till.py", code=0).out)
    shop.prompt("c", "move it")
    (root / "till.py").rename(root / "shop.py")
    (root / "shop.py").write_bytes((root / "shop.py").read_bytes() + b"three\n")
    shop.stop("c")
    moved = [(name.replace("@2", "@3").replace("@1", "@2"), text) for name, text in before]
    assert labels(casrewind("blame", "shop.py", code=0).out) == [*moved, ("@1", "three")]


def test_a_file_that_a_restore_brought_back_and_that_was_moved_then_keeps_its_makers(shop, casrewind, root, workspace):
    before = labels(casrewind("blame", "till.py", code=0).out)
    shop.prompt("c", "empty it")
    write(root, "nothing")
    last = shop.stop("c")
    workspace.restore("@1")
    (root / "till.py").rename(root / "shop.py")
    found = labels(casrewind("blame", "shop.py", code=0).out)
    assert last.id and found == [(name.replace("@2", "@3").replace("@1", "@2"), text) for name, text in before]


def test_what_a_take_brought_names_its_directory(shop, casrewind, root, workspace, tmp_path):
    workspace.materialise("last", tmp_path / "try")
    place = tmp_path / "try" / "till.py"
    place.write_bytes(place.read_bytes() + b"tried\n")
    workspace.take(tmp_path / "try")
    assert labels(casrewind("blame", "till.py", code=0).out)[-1] == (str(tmp_path / "try"), "tried")


def test_a_program_gets_runs_of_lines(shop, casrewind):
    runs = casrewind.json("blame", "till.py")["runs"]
    assert [(run["first"], run["last"], run["by"], [turn["n"] for turn in run["turns"]]) for run in runs] == [
        (1, 1, "older", []), (2, 2, "turn", [2]), (3, 3, "you", []), (4, 4, "turn", [1]),
    ]  # fmt: skip
    assert runs[1]["turns"][0]["prompt"] == "round to cents\nand more" and runs[1]["turns"][0]["session"] == "s1" and runs[1]["at"]


@pytest.mark.parametrize("data", [b"a\0b", b"x\n" * (3 << 20)])
def test_a_file_without_lines_has_one_maker(shop, casrewind, root, data):
    shop.prompt("c", "draw")
    plant(root, {"picture": data})
    shop.stop("c")
    assert labels(casrewind("blame", "picture", code=0).out) == [("@1", "author)")]
    assert casrewind.json("blame", "picture")["is_whole"]


@pytest.mark.parametrize("arguments, code, said", [
    (("nope",), 15, "no file nope here"), ((".",), 15, "no file . here"), (("till.py", "-L", "9"), 64, "till.py has 4 lines"),
    (("till.py", "-L", "3,2"), 64, "'3,2' is no range of lines"), (("till.py", "@9"), 15, "no turn '@9'"), (("nope", "last"), 15, "no nope in"),
])  # fmt: skip
def test_what_cannot_be_answered_says_why(shop, casrewind, arguments, code, said):
    found = casrewind("blame", *arguments)
    assert found.code == code and said in found.err


def test_on_a_terminal_the_names_that_do_not_explain_themselves_are_explained(shop, casrewind):
    shown = on_terminal(casrewind, ["blame", "till.py"], NO_COLOR="1", PAGER="cat").out.replace("\r", "").splitlines()
    assert shown[4:] == ["older: there before the first checkpoint", "you: edited outside of turns"]
    assert on_terminal(casrewind, ["blame", "till.py", "-L", "2"], NO_COLOR="1", PAGER="cat").out.count("\n") == 1
    assert casrewind("blame", "till.py", code=0).out.count("\n") == 4, "a program reads the lines of the file"


def test_hostile_bytes_of_a_line_do_not_command_a_terminal(shop, casrewind, root):
    plant(root, {"evil": b"\x1b]0;owned\x07\xff\r\n"})
    assert casrewind("blame", "evil", code=0).out.splitlines()[0].startswith("you")
