"""On a terminal, a line that is too long is broken between words; for a program, a line is a line."""

import re

import pytest

from casrewind.cli.show.text import Line, column_width, folded_line, styled
from support.terminal_in_process import on_terminal
from support.trees import plant

LONG = "a sentence of a plan that is longer than the terminal is wide, with a path/of/a/file.py in it"


@pytest.mark.parametrize("width", range(12, 100, 7))
@pytest.mark.parametrize("text", [LONG, f"  {LONG}", "wörter und ein 漢字漢字漢字 dazwischen, das zwei Spalten breit ist"])
def test_no_word_is_broken_and_no_line_is_too_long(text, width):
    found = [each.text for each in folded_line(Line(text), width)]
    assert " ".join(" ".join(found).split()) == " ".join(text.split())
    indent = len(text) - len(text.lstrip())
    assert all(column_width(each) <= width or len(each.split()) == 1 for each in found)
    assert [len(each) - len(each.lstrip()) for each in found] == [indent, *[indent + 4] * (len(found) - 1)]


def test_a_command_of_ours_stays_in_one_piece():
    text = "  (undo without --all keeps them; casrewind restore c0123 -- 'a b' c; --json has all)"
    found = [each.text for each in folded_line(Line(text), 40)]
    assert found == ["  (undo without --all keeps them;", "      casrewind restore c0123 -- 'a b' c;", "      --json has all)"]


def test_colours_stay_on_their_words():
    line = styled("back to before a prompt: ", ("12 written", "32"), ", ", ("3 REMOVED", "1;31"))
    parts = [[(text, style) for text, style in each.parts() if style] for each in folded_line(line, 33)]
    assert parts == [[("12", "32")], [("written", "32"), ("3 REMOVED", "1;31")]], folded_line(line, 33)


def shown(casrewind, *words, columns):
    found = on_terminal(casrewind, [*words], columns=columns, typed="n\n").out
    lines = re.sub("\x1b\\[[0-9;?]*[A-Za-z]", "", found).replace("\r\n", "\n").splitlines()
    return [each for each in lines if "━" not in each]  # a slow command shows a bar of its progress meanwhile


def test_what_stands_beside_a_name_goes_on_below_itself():
    text = "  rules        5 private rules of casrewind include and exclude: !a, !b, !c and more"
    found = [each.text for each in folded_line(Line(text), 60)]
    assert found == ["  rules        5 private rules of", "               casrewind include and exclude: !a, !b, !c and more"]
    assert [each.text for each in folded_line(Line(text), 24)][1].startswith("      "), "a narrow terminal has no room for that"


@pytest.mark.parametrize("line", ["status", "install claude", "doctor claude", "config", "save", "restore --abort", "init"])
@pytest.mark.parametrize("columns", [50, 80])
def test_no_command_leaves_it_to_the_terminal_to_break_a_word(casrewind, root, line, columns):
    if line == "status":
        plant(root, {f"d{number}/.env": b"1" for number in range(9)} | {".gitignore": b".env\n", "f": b"1"})
        for number in range(9):
            casrewind("include", f"d{number}/.env", code=0)
    lines = shown(casrewind, *line.split(), columns=columns)
    wide = [each for each in lines if column_width(each) > columns]
    assert lines and [each for each in wide if len(each.split()) > 1 and "casrewind " not in each] == []


def test_a_plan_and_an_error_fit_on_a_narrow_terminal(casrewind, root):
    plant(root, {"a": b"1"})
    casrewind("save", "-m", "a long label that says what was done before it all went wrong", code=0)
    plant(root, {"a": b"2"})
    lines = shown(casrewind, "restore", "last", columns=60)
    at = next(at for at, line in enumerate(lines) if line.startswith("restore to"))
    title, rest = lines[at : at + 2]
    assert title.startswith("restore to 'a long label") and len(title) <= 60 and rest.startswith("    ") and "1 written" in rest
    refused = [line for line in shown(casrewind, "show", "@7", columns=40) if line != "n"]
    assert len(refused) > 2 and max(map(len, refused)) <= 40 and all(line.startswith(" ") for line in refused[1:]), refused
    piped = casrewind("show", "@7", code=15).err
    assert piped.count("\n") == 1 and piped.replace(";", "").split() == " ".join(refused).replace(";", "").split()
