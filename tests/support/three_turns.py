"""The story that each real client is told: a file created, edited, and a shell command; then `back 1`, undo, redo, and on in the fork.

tests/client/test_contract.py asks the same of every client that went through it.
"""

from pathlib import Path
from types import SimpleNamespace

from support.claude_client import wait
from support.picture import picture
from support.trees import Exec, plant

PROMPTS = ["please create alpha", "please edit alpha", "please run it"]
FILES = {"kept.txt": b"kept", "bin/tool": Exec(b"#!/bin/sh\n"), "gone.txt": b"to be removed"}
"""The project before the first turn."""
EFFECTS = (
    "mkdir made; echo made > made/by_hand; python3 -c \"open('made/by_program','w').write('x')\"; rm gone.txt; "
    "sed -i s/v2/v3/ alpha.txt; chmod 644 bin/tool"
)
"""What the shell command of the third turn does."""


def turns(person):
    """The three turns as a request has them in short."""
    create, edit = person.files("alpha.txt")
    return [
        ["user: please create alpha", "assistant: Creating.", f"call {create['name']}", "result", "assistant: It is there."],
        ["user: please edit alpha", *(word for one in edit for word in (f"call {one['name']}", "result")), "assistant: Edited."],
        ["user: please run it", f"call {person.shell}", "result", "assistant: Ran."],
    ]


def script(person):
    """The model's answers."""
    create, edit = person.files(str(person.client.project / "alpha.txt"))
    return {
        "create alpha": [["Creating.", create], ["It is there."]],
        "edit alpha": [*([call] for call in edit), ["Edited."]],
        "run it": [[person.call(EFFECTS)], ["Ran."]],
    }


def tell(person):
    """The three turns in one session, and pictures of the project before and after each."""
    client = person.client
    plant(client.project, FILES)
    client.model.script = script(person)
    client.model.requests.clear()
    pictures = [picture(client.project)]
    with person.talk() as talk:
        for prompt in PROMPTS:
            talk.say(prompt)
            pictures.append(picture(client.project))
    wait(lambda: triggers(client.points()), lambda found: person.last in found)
    return SimpleNamespace(
        session=talk.session, pictures=pictures, points=client.points(), listed=client.casrewind.json("list"), requests=list(client.model.requests),
    )  # fmt: skip


def go_back(person, told):
    """`casrewind back 1 --both`, undo and redo, and the client resumed by the line that was printed."""
    client = person.client
    found = SimpleNamespace(original=person.original(told.session))
    found.report = client.casrewind.json("back", "1", "--both", "--yes", "--session", told.session)
    found.picture = picture(client.project)
    for command in ("undo", "redo"):
        client.casrewind(command, "--yes", code=0)
        setattr(found, command, picture(client.project))
    found.id, path = found.report["fork"]["session_id"], Path(found.report["fork"]["path"])
    found.fork = person.fork(found.report)
    found.modes = {one.name: one.stat().st_mode & 0o777 for one in path.parent.glob(f"{path.stem}*")}
    found.answer = person.resume(found.report["fork"]["resume"], "what now")
    found.request = client.model.requests[-1]
    found.points = wait(lambda: client.points()[len(told.points) :], lambda points: person.last in triggers(points))
    found.original_after = person.original(told.session)
    return found


def triggers(points):
    return [point["trigger"] for point in points]
