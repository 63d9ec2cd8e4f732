"""Keys that are typed faster than the picker works through them are done in the order in which they were typed."""

import shutil

import pytest

from support.picker_screen import run_picker
from support.picker_window import Window
from support.trees import plant


@pytest.mark.parametrize("keys, wanted", [(("down", "down", "down", "c"), "the second"), (("j", "k", "down", "c"), "the third"), (("end", "c"), "the first")])
def test_a_restore_is_of_the_row_that_the_keys_before_it_went_to(casrewind, root, home, keys, wanted):
    pytest.importorskip("textual")
    from textual import events

    for name in ("the first", "the second", "the third"):
        plant(root, {"f": name.encode()})
        casrewind.json("save", "-m", name)
    plant(root, {"f": b"wrecked"})

    async def story(stage):
        await stage.shows("edited since")
        for key in keys:  # all of them at once, as a terminal hands them on that was not read for a moment
            stage.app.post_message(events.Key(key, key if len(key) == 1 else None))
        await stage.shows("Go on?")
        assert wanted in stage.text().partition("Restore")[2].partition("Go on?")[0], stage.text()
        await stage.press("y")
        await stage.shows("Done")
        await stage.press("enter", "q")

    run_picker(root, home, story)
    assert (root / "f").read_text() == wanted


@pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux is not installed")
def test_keys_typed_before_the_screen_is_up_are_keys_and_no_words_of_a_filter(casrewind, root, tmp_path):
    """They wait in the terminal until the picker reads them. Its filter is hidden then, and none of them may end in it."""
    plant(root, {"f": b"1"})
    casrewind.json("save", "-m", "it works")
    window = Window(casrewind, tmp_path / "tmux", (80, 24))
    try:
        window.press("v", "j", "n", "?")
        window.shows("Keys", "one step back")
        window.press("Escape")
        shown = window.shows("1 checkpoint", "saved: it works", "v this turn")
        assert "with" not in shown.partition("\n")[0] and "no older turn" not in shown, "that was not known yet"
        window.press("q")
        window.shows("ended with 0")
    finally:
        window.end()
