"""A question is open in a terminal, in the picker and in a client at once: nobody waits for an answer, and nothing is lost that was not shown."""

import pytest

from support.command import Command
from support.picker_screen import run_picker
from support.picture import picture
from support.terminal import Session, with_patience
from support.trees import plant

from .test_back_turns import processes  # noqa: F401 - a fixture
from .test_typed_plans import line_of, shop, typed  # noqa: F401 - a fixture

ANOTHER = "another restore, undo or redo was made here since that plan was shown"


@pytest.fixture
def process(root, home):
    return Command(root, home)


@pytest.fixture
def asking(process):
    """A restore to before @3 that asks in a terminal."""
    session = Session(with_patience(process, 3600, "restore", "@3"), process.environment)
    session.read_until(b"/d] ")
    yield session
    if session.process.poll() is None:
        session.process.kill()
        session.process.wait()


def test_work_goes_on_beside_three_questions_and_after_the_first_restore_the_others_ask_again(shop, root, home, process, asking):  # noqa: F811
    first, pictures = shop
    line = line_of(typed(first, "/casrewind back 2"))

    async def story(stage):
        await stage.shows("give change", "+1 ~1")
        await stage.press("c")
        await stage.shows('Restore files to before "give change"', "Go on?")
        first.turn("ask something")  # a hook
        plant(root, {"later.md": b"not shown to anybody"})
        process("save", code=0)
        process("gc", code=0)
        await stage.press("y")
        await stage.shows("Not all of it was done", "u takes this back")

    run_picker(root, home, story)
    assert picture(root) == pictures[0] | {b"later.md": picture(root)[b"later.md"]}, "what appeared since the question stays"

    assert "nothing was changed" in typed(first, line)
    assert picture(root) == pictures[0] | {b"later.md": picture(root)[b"later.md"]}

    asking.type("y")
    asking.read_until(ANOTHER.encode())
    asking.read_until(b"/d] ", 2)
    before = picture(root)
    asking.type("y")
    asking.read_until(b"undo takes this back")
    assert asking.end()[0] == 0
    assert picture(root) == pictures[2], "the second plan named later.md"
    assert b"later.md" in asking.shown.partition(ANOTHER.encode())[2]
    process("undo", "-y", code=0)
    assert picture(root) == before
