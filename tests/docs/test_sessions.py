"""The terminal sessions in the documents show what the commands really show: they are run again, in order, as a reader would."""

import html
import re
from pathlib import Path

import pytest

from support import real_trees
from support.generate_sessions import sessions

TOP = Path(__file__).resolve().parent.parent.parent
STORE_OF_SHOP = "/home/you/.local/share/casrewind/stores/shop-0123456789ab"


def test_no_document_with_a_session_is_left_out():
    with_sessions = {path for path in [TOP / "README.md", *(TOP / "docs").rglob("*.md")] if "```console" in path.read_text()}
    assert with_sessions == set(sessions.SESSIONS)


@pytest.mark.turns(3)
@pytest.mark.parametrize("document", sessions.SESSIONS, ids=lambda path: path.stem)
def test_what_a_document_shows_is_what_the_commands_show(document):
    text, problems = document.read_text(), []
    assert sessions.played(text, problems) == text and problems == [], "python docs/generate_sessions.py writes what is shown now"


@pytest.mark.long
def test_the_session_on_the_real_django(tmp_path):
    text, problems = (TOP / "docs" / "faq.md").read_text(), []
    tree = real_trees.django(str(tmp_path))
    assert "<!-- project: Django-5.2 -->" in text
    assert sessions.played(text, problems, {"Django-5.2": tree}) == text and problems == []


def test_a_session_that_is_not_true_any_more_is_noticed_and_mended():
    stale = "```console\n$ mkdir a && cd a && echo x > f\n$ casrewind save\nsaved c0123456789abcd: 2 files, 2 B (+1 ~0 -0) in 0.01 s\n```\n"
    problems = []
    fresh = sessions.played(stale, problems)
    assert len(problems) == 1 and "1 file, 2 B" in problems[0] and "1 file, 2 B" in fresh and "2 files" not in fresh
    problems.clear()
    assert sessions.played(fresh, problems) == fresh and problems == []
    sessions.played("```console\n$ casrewind nonsense\n```\n", problems)
    assert "ends with 64" in problems[0]


def test_only_what_differs_from_run_to_run_is_forgiven():
    one = f"saved c0123456789abcd: 1 file in 0.01 s\n{STORE_OF_SHOP} (80.0 KiB of 5.0 GiB)\n1   c0   59 s ago   x"
    assert sessions.plain(one) == sessions.plain(one.replace("789abcd", "789abce").replace("0.01", "12.50").replace("80.0", "90.1").replace("   x", " x"))
    for old, new in (("1 file", "2 files"), ("5.0 GiB", "6.0 GiB"), ("saved", "kept"), ("x", "y")):
        assert sessions.plain(one) != sessions.plain(one.replace(old, new))


@pytest.mark.parametrize("shown, real, wanted", [
    ("a b", "a b", True), ("a b", "a c", False), ("a", "a b", False), ("a b", "a", False), ("", "", True), ("", "a", False),
    ("a ... d", "a b c d", True), ("a ... d", "a d", True), ("a ... d", "a b c", False), ("...", "a b", True), ("... d", "a", False),
])  # fmt: skip
def test_three_dots_stand_for_any_lines(shown, real, wanted):
    assert sessions.fits(shown.split(), real.split()) is wanted


def test_the_picture_shows_the_tutorial():
    text = (TOP / "docs" / "tutorial.md").read_text()
    picture = html.unescape(re.sub(r"<[^>]+>", "", (TOP / "docs" / "tutorial.svg").read_text())).replace("\xa0", " ")
    lines = sessions.pictured(text)
    assert lines[0] == "$ mkdir shop && cd shop" and "$ casrewind undo --yes" in lines
    missing = [line for line in lines if line[:90].rstrip() not in picture]
    assert missing == [], "python docs/generate_sessions.py draws it anew"


def test_what_the_tables_of_the_guides_say_to_type_can_be_typed(tmp_path):
    """In a project with two turns behind it; where there is a question, the answer is yes."""
    lines = []
    for guide in (TOP / "docs" / "guides").glob("*.md"):
        for row in re.findall(r"^\|.*\|$", guide.read_text(), re.MULTILINE):
            lines += [line.replace("DIR", "../plugin") for line in re.findall(r"`(casrewind [^`]+)`", row)]
    lines = [line for line in dict.fromkeys(lines) if "--in-place" not in line and " 10m" not in line]  # the client lives, and nothing is so old
    assert len(lines) > 10
    scratch = sessions.Scratch(tmp_path)
    try:
        scratch.plant()
        assert scratch.run("casrewind install claude")[1] == 0
        client = scratch.client("claude")
        for prompt in ("round to cents", "clean up, please"):
            client.turn(prompt)
        wrong = {}
        for line in lines:
            line += " --older" if line.split()[1] == "undo" else ""  # the lines are run one after the other, some are --chat
            asks = line.split()[1] in ("restore", "revert", "jump", "back", "undo", "redo", "take") and "--to" not in line
            words = line.replace("restore 2 --", "restore 2 --yes --") if " -- " in line else f"{line}{' --yes' if asks else ''}"
            shown, code = scratch.run(words)
            if code and "is taken back already; nothing was changed" not in shown:  # by a line above it
                wrong[words] = (code, shown)
        assert wrong == {}
    finally:
        scratch.close()
