"""How the columns of the picker's timeline share a row: the prompt comes first."""

import pytest

import casrewind as api
from support.agent_turns import AgentTurns
from support.picker_screen import run_picker
from support.trees import plant
from support.unchanged import unchanged

from .test_same_words import Story

PROMPT = "refactor the errors of the till when the database is locked so that nobody waits for it"
QUESTION = "explain what happens with a price that is not in the list of prices"


@pytest.fixture
def story_of_two(root, home):
    """Two sessions: a turn that changed something and was taken back, one that was cut short, and one that changed nothing."""
    settings = api.default_settings()._replace(data=str(home / "data"), home=str(home))
    plant(root, {f"old/{number:03}": b"1" for number in range(120)})
    with api.open(root, settings) as workspace:
        first, second = AgentTurns(workspace, root, "aaaa-1"), AgentTurns(workspace, root, "bbbb-2")
        second.prompt("p0", "begin")
        plant(root, {"begun": b"1"})
        second.stop("p0")
        first.prompt("p1", PROMPT)
        plant(root, {"till.py": b"1\n"})
        first.prompt("p2", "and then")
        first.stop("p2")
        workspace.restore("@2")
        first.prompt("p3", QUESTION)
        first.stop("p3")
        first.prompt("p4", "clean up")
        for number in range(120):
            (root / f"old/{number:03}").unlink()
        plant(root, {f"new/{number:03}": b"1" for number in range(1200)})
        first.stop("p4")


def shown_letters(text, prompt):
    """How many letters of a prompt a screen shows."""
    return max(length for length in range(len(prompt) + 1) if prompt[:length] in text)


@pytest.mark.parametrize("size, letters, ended", [((80, 24), 48, 26), ((120, 35), 72, 48), ((40, 20), 18, 0)])
def test_a_prompt_has_most_of_the_row(story_of_two, root, home, size, letters, ended):
    async def story(stage):
        await stage.shows("@5", "no change")
        text = stage.text()
        assert shown_letters(text, QUESTION) >= min(letters, len(QUESTION)), text
        assert shown_letters(text, PROMPT) >= ended, text
        assert all(len(line) <= size[0] for line in text.split("\n"))
        assert size[0] < 80 or ("(cut short, taken back)" in text and "aaaa" in text and "bbbb" in text), text

    with unchanged(root, home / "data"):
        run_picker(root, home, story, size=size)


def test_beside_an_open_row_a_prompt_has_more_than_its_numbers(story_of_two, root, home):
    async def story(stage):
        await stage.shows("@5", "no change")
        await stage.press("enter")
        await stage.shows("this turn:", "esc back")
        assert shown_letters(stage.text(), QUESTION) >= 28, stage.text()

    with unchanged(root, home / "data"):
        run_picker(root, home, story, size=(120, 35))


@pytest.mark.parametrize("size", [(40, 20), (80, 24), (120, 35)])
def test_numbers_are_never_cut(story_of_two, root, home, size):
    async def story(stage):
        await stage.shows("+1200 -120")

    with unchanged(root, home / "data"):
        run_picker(root, home, story, size=size)


def test_no_row_is_wider_than_its_columns():
    """Rows of every kind, of years ago."""
    pytest.importorskip("textual")
    from casrewind.cli.picker import coloured_lines, picker_rows

    story = Story(60)
    timeline = picker_rows.PickerTimeline([], story.points, story.marks, {}, story.sides, {"aaaa": 0, "bbbb": 1}, 115, [], [], True)
    for row in (picker_rows.row_of(item, story.points, "") for item in story.rows):
        for width in (38, 43, 48, 78, 98, 118, 158):
            text = coloured_lines.timeline_row(timeline, row, width, is_base=True, is_unfolded=False)
            assert text.cell_len <= width, (width, text.plain)
            counts = picker_rows.change_counts(row)
            assert counts is None or all(str(number) in text.plain for number in counts if number), text.plain


def test_a_turn_that_changed_nothing_is_dim_and_one_that_did_is_not(story_of_two, root, home):
    async def story(stage):
        await stage.shows("@5", "no change")
        dim = {}
        for strip in stage.app.screen._compositor.render_strips(stage.app.size):
            line = "".join(segment.text for segment in strip)
            for words in ("begin", "explain what"):
                if words in line:
                    dim[words] = any(words in segment.text and segment.style is not None and segment.style.dim for segment in strip)
        assert dim == {"begin": False, "explain what": True}, stage.text()

    with unchanged(root, home / "data"):
        run_picker(root, home, story, size=(80, 24))
