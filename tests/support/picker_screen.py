"""The picker's screen, driven by textual's pilot with a real workspace behind it."""

import asyncio
import time

import pytest

import casrewind as api
from casrewind.cli.picker import worker
from casrewind.cli.picker.progress_relay import ProgressRelay
from casrewind.cli.picker.timeline import TimelineModel
from casrewind.cli.picker.worker import Worker

PATIENCE = 60


class PickerScreen:
    """The picker with its screen: `press` keys, wait until the screen `shows` something."""

    def __init__(self, app, pilot):
        self.app, self.pilot = app, pilot

    def text(self):
        strips = self.app.screen._compositor.render_strips(self.app.size)
        return "\n".join("".join(segment.text for segment in strip).rstrip() for strip in strips)

    def rows(self):
        """The rows of the timeline on the screen, with single spaces."""
        lines = self.app.view.list_widget("#timeline")
        return [" ".join(line.replace("▌", " ").replace("▶", "▶ ").split()) for line in self.text().split("\n")[1 : 1 + min(lines.size.height, lines.count)]]

    async def until(self, seen):
        end = time.monotonic() + PATIENCE
        while not seen(self.text()):
            assert time.monotonic() < end, self.text()
            await self.pilot.pause(0.01)

    async def shows(self, *wanted):
        await self.until(lambda text: all(words in text for words in wanted))

    async def press(self, *keys):
        await self.pilot.press(*keys)

    async def type(self, text):
        await self.pilot.press(*("space" if c == " " else {"/": "slash", ".": "full_stop"}.get(c, c) for c in text))


def run_picker(root, home, story, *, size=(110, 30), store=None):
    """Run the picker for a story, a coroutine of the stage; the app when it has ended."""
    screen = pytest.importorskip("casrewind.cli.picker.app")
    settings = api.default_settings()._replace(data=str(home / "data"), home=str(home), store=str(store) if store else None)

    async def run():
        relay = ProgressRelay()
        with api.workspace.Workspace(str(root), settings, create=False, progress=relay) as workspace:
            board, clerk = TimelineModel(workspace._context), Worker()
            app = screen.Picker(board, clerk, relay, "project")
            clerk.put_job(worker.LIST, board.first_timeline, app.fill)
            try:
                async with app.run_test(size=size) as pilot:
                    await story(PickerScreen(app, pilot))
            finally:
                app.refuse_questions()
                clerk.close()
            return app

    return asyncio.run(run())
