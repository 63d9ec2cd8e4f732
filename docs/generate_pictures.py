"""Draw docs/picker*.svg: the picker in a small project after a day with two sessions of an agent. Look at them afterwards.

`python docs/generate_pictures.py` needs textual; ids differ from run to run, and nothing else should.
"""

import asyncio
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent))
TILL = '"""The till."""\n\n\ndef total(prices):\n    return sum(prices)\n'
BETTER = TILL.replace("return sum(prices)", "return round(sum(prices), 2)\n\n\ndef change(given, due):\n    return given - due")
STORY = (
    ("prompt", "a71c", "write a till that adds up prices", {"till.py": TILL, "prices.csv": "apple,1\n"}, 310),
    ("turn_end", "a71c", "", {"till.py": BETTER, "tests/test_till.py": "from till import total\n"}, 300),
    ("prompt", "a71c", "now round to cents, and give change", {}, 95),
    ("turn_end", "a71c", "", {"prices.csv": "apple,1.10\npear,0.85\n"}, 90),
    ("prompt", "f02b", "clean up: remove what is not needed", {}, 12),
)


def moment(trigger, session, prompt, root):
    """What a client's hook says."""
    from casrewind.agents.event import Event

    return Event(
        agent="claude", name=trigger, trigger=trigger, tier="minimal", session=session * 9, transcript="", prompt_id="", message_id="",
        turn_id="", tool_use_id="", prompt=prompt, tools=(), source="", reason="", root=root, cwd=root, parent="", subagent=False,
        background=False, command=None, env_file="", pid=0, budget=20.0, partial=False,
    )  # fmt: skip


def prepare(root, settings):
    """The project as the agent left it."""
    import casrewind
    from casrewind.ops import agent_event
    from casrewind.workspace import context_of

    with casrewind.open(root, settings) as workspace:
        for trigger, session, prompt, files, minutes in STORY:
            for name, text in files.items():
                (root / name).parent.mkdir(exist_ok=True)
                (root / name).write_text(text)
            agent_event.record(context_of(workspace), moment(trigger, session, prompt, str(root)), time.time_ns(), (), transcripts=False)
        workspace.pin("4", "first version")
    (root / "till.py").write_text("# cleaned up\n")
    (root / "tests/test_till.py").unlink()
    (root / "notes.md").write_text("all done!\n")


async def draw(root, settings):
    """Play with the picker, and draw it three times."""
    from casrewind.cli.picker import ProgressRelay, app, timeline, worker
    from casrewind.cli import output
    from casrewind.cli.output import age
    from casrewind.workspace import Workspace

    ages = [minutes * 60_000_000_000 for *_, minutes in STORY]  # as if the day had been as long as one
    with Workspace(str(root), settings, create=False) as workspace:
        made = {point.created_ns: ages.pop() for point, _ in workspace.checkpoints()}
    output.age = timeline.age = lambda created: age(created - made.get(created, 0))

    relay = ProgressRelay()
    with Workspace(str(root), settings._replace(processes=1), create=False, progress=relay) as workspace:
        work, clerk = timeline.TimelineModel(workspace), worker.Worker(relay)
        picker = app.Picker(work, clerk, relay, "shop")
        clerk.put(worker.LIST, work.timeline, picker.fill)
        try:
            async with picker.run_test(size=(120, 32)) as pilot:
                for name, keys in (("picker", ("tab", "down", "down")), ("picker-plan", ("c",)), ("picker-done", ("y",))):
                    await pilot.pause(1)
                    for key in keys:
                        await pilot.press(key)
                        await pilot.pause(0.5)
                    (HERE / f"{name}.svg").write_text(picker.export_screenshot(title="casrewind"), "utf-8")
        finally:
            picker.release()
            clerk.close()


def main():
    """Everything in a directory that goes away again."""
    import casrewind

    with tempfile.TemporaryDirectory() as scratch:
        root = Path(scratch, "shop")
        root.mkdir()
        settings = casrewind.default_settings()._replace(home=scratch, data=scratch + "/data")
        prepare(root, settings)
        asyncio.run(draw(root, settings))


if __name__ == "__main__":
    main()
