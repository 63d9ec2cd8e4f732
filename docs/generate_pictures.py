"""Draw docs/images/picker-*.svg and docs/picker.svg: the picker in a made-up project with 241 checkpoints of nine sessions. Look at them afterwards.

`python docs/generate_pictures.py` needs textual; ids differ from run to run, and nothing else should. With a directory it makes
the project and its store there, and draws nothing: `casrewind -C DIR/shop` with CASREWIND_HOME=DIR/data is then the picker.
"""

import asyncio
import random
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent))
TILL = '"""The till."""\n\n\ndef total(prices):\n    return sum(prices)\n'
BETTER = TILL.replace(
    "return sum(prices)",
    '"""The sum, rounded to cents."""\n    return round(sum(prices), 2)\n\n\ndef change(given, due):\n    # in cents, to be exact\n    return round(given - due, 2)',
)
SESSIONS = 9
CHECKPOINTS = 241
PROMPTS = (
    "add a discount for regular customers", "why is the total wrong for empty lists?", "write tests for the receipt",
    "rename price to amount everywhere", "make the import of prices faster", "explain what stock.py does",
    "handle a file that is missing", "use decimals instead of floats", "add a command line", "show the receipt as a table",
    "fix the failing test", "split till.py, it is too long", "document the format of prices.csv", "log every sale",
)  # fmt: skip
LAST = (
    "clean up: remove what is not needed\n\n* keep the API of till.py as it is\n* nothing may depend on legacy/ any more\n"
    "* say what you removed, and why"
)


class Story:
    """Checkpoints of a project, made as hooks make them, at times in the past."""

    def __init__(self, workspace, root):
        self.workspace, self.root, self.random = workspace, root, random.Random(7)
        self.now = self.began = 0
        self.turns = 0

    def write(self, files):
        for name, text in files.items():
            place = self.root / name
            if text is None:
                place.unlink()
                continue
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(text)

    def record(self, trigger, session, prompt="", prompt_id=""):
        from casrewind.agents.event import Event
        from casrewind.upkeep import agent_event

        names = {"prompt": "UserPromptSubmit", "turn_end": "Stop", "session_start": "SessionStart", "session_end": "SessionEnd"}
        event = Event(
            agent="claude", name=names[trigger], trigger=trigger, tier="balanced", session=session, transcript="", prompt_id=prompt_id,
            message_id="", turn_id="", tool_use_id="", prompt=prompt, tools=(), source="", reason="", root=str(self.root), cwd=str(self.root),
            parent="", subagent="", command=None, env_file="", pid=0, budget=20.0, partial=False,
        )  # fmt: skip
        agent_event.record_event(self.workspace._context, event, time.time_ns(), (), transcripts=False, tells_ends=True)

    def turn(self, session, prompt, files, *, ends=True):
        self.turns += 1
        identity = f"00000000-0000-4000-8000-{self.turns:012x}"
        self.record("prompt", session, prompt, identity)
        self.write(files)
        if ends:
            self.record("turn_end", session, "", identity)

    def some_files(self):
        """What a turn of no importance changes: nothing in one of four."""
        names = self.random.sample(["till.py", "stock.py", "receipt.py", "tests/test_till.py", "tests/test_stock.py", "README.md"], 2)
        count = self.random.choice((0, 1, 1, 2))
        return {name: f"# {self.turns}\n" + TILL * self.random.randint(1, 3) for name in names[:count]}


def prepare(root, settings):
    """The project as the agent left it; every third minute of a week has something happen in it."""
    import casrewind

    clock = time.time_ns
    start, left = clock(), [CHECKPOINTS]
    with casrewind.open(root, settings) as workspace:
        story = Story(workspace, root)

        def moment():
            """Earlier and earlier steps back from now, as the number of checkpoints that are still to come shrinks."""
            return start - int(2 * 60e9) - int((max(left[0], 0) ** 1.7) * 50e9)

        time.time_ns = moment
        record, save = story.record, workspace.save

        def recorded(*words):
            record(*words)
            left[0] -= 1

        story.record = recorded
        try:
            tell(story, lambda label: (save(label), left.__setitem__(0, left[0] - 1)), left)
        finally:
            time.time_ns = clock
        made = len(workspace.checkpoints())
        sessions = len({point.session for point, _ in workspace.checkpoints() if point.session})
    assert (made, sessions) == (CHECKPOINTS, SESSIONS), (made, sessions)
    story.write({"notes.md": "all done!\n"})


def tell(story, save, left):
    """The whole story; its end is what the pictures show."""
    sessions = [f"{name}-0000-4000-8000-000000000000" for name in
                ("a71c22f0", "f02b9d13", "355c4eec", "9381b3aa", "5ac0ffee", "c4a11b1e", "e77e0d1c", "b8a1ab05", "01c243ca")]  # fmt: skip
    story.write({"till.py": TILL, "prices.csv": "apple,1\n", "stock.py": TILL, "README.md": "# Shop\n", "tests/test_till.py": "from till import total\n"})
    story.write({f"legacy/report_{number:02}.py": TILL for number in range(24)} | {f"legacy/old/{name}.csv": "1\n" for name in "abc"})
    save("before the agents")
    ending = 13
    for number, session in enumerate(sessions[:-1]):
        story.record("session_start", session)
        until = CHECKPOINTS - 1 - (CHECKPOINTS - ending - 2) * (number + 1) // (len(sessions) - 1)
        while CHECKPOINTS - left[0] < CHECKPOINTS - until:
            story.turn(session, story.random.choice(PROMPTS), story.some_files())
    while left[0] > ending:
        story.record("session_end", sessions[-2])
    last, other = sessions[-1], sessions[-2]
    story.record("session_start", last)
    story.turn(last, "write a till that adds up prices", {"till.py": TILL, "prices.csv": "apple,1\n"})
    story.write({"all_stores.txt": "by a person\n"})
    story.turn(last, "now round to cents, and give change", {"till.py": BETTER, "prices.csv": "apple,1.10\npear,0.85\n"})
    save("it works")
    story.turn(other, "explain what stock.py does", {})
    story.turn(last, "refactor the errors when the database is locked so that nobody waits", {"stock.py": BETTER}, ends=False)
    gone = {f"legacy/report_{number:02}.py": None for number in range(24)} | {f"legacy/old/{name}.csv": None for name in "abc"}
    cleaned = BETTER.replace('"""The till."""', '"""The till: cleaned up."""').replace("# in cents, to be exact\n    ", "")
    story.turn(last, LAST, {**gone, "till.py": cleaned, "README.md": "# Shop\n\nTidy.\n"})
    story.turn(last, "thanks!", {})


SCENES = {
    "timeline": (),
    "turn": ("enter", "J", "down", "down"),
    "unfolded": ("right",),
    "hunks": ("v", "enter", "G", "enter", "space"),
    "plan": ("c",),
    "help": ("question_mark",),
}
"""Pictures and the keys that lead to them from the start."""
SIZES = (80, 24), (160, 50)
FRONT = (120, 32)
"""The size of docs/picker.svg, which README shows: the scene "turn"."""


async def draw(root, settings):
    """Every scene at every size, and the front page's."""
    from casrewind.cli.picker import app, timeline, worker
    from casrewind.cli.picker.progress_relay import ProgressRelay
    from casrewind.workspace import Workspace

    places = {(name, size): HERE / "images" / f"picker-{name}-{size[0]}x{size[1]}.svg" for name in SCENES for size in SIZES}
    for (name, size), place in {**places, ("turn", FRONT): HERE / "picker.svg"}.items():
        keys = SCENES[name]
        relay = ProgressRelay()
        with Workspace(str(root), settings, create=False, progress=relay) as workspace:
            model, jobs = timeline.TimelineModel(workspace._context), worker.Worker()
            picker = app.Picker(model, jobs, relay, "shop")
            jobs.put_job(worker.LIST, model.first_timeline, picker.fill)
            try:
                async with picker.run_test(size=size) as pilot:
                    await pilot.pause(1.5)
                    for key in keys:
                        await pilot.press(key)
                        await pilot.pause(0.4)
                    place.write_text(picker.export_screenshot(title="casrewind"), "utf-8")
            finally:
                picker.refuse_questions()
                jobs.close()


def main():
    """Everything in a directory that goes away again, if none is given."""
    import casrewind

    with tempfile.TemporaryDirectory() as scratch:
        place = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(scratch)
        root = place / "shop"
        root.mkdir(parents=True)
        settings = casrewind.default_settings()._replace(home=str(place), data=str(place / "data"))
        prepare(root, settings)
        if len(sys.argv) == 1:
            (HERE / "images").mkdir(exist_ok=True)
            asyncio.run(draw(root, settings))


if __name__ == "__main__":
    main()
