"""The story that each client is told: a file created, edited, and a shell command; then `back 1`, and on in the fork.

The tests of a client have the same names as far as they ask the same. What differs stays in their modules.
"""

from pathlib import Path
from types import SimpleNamespace

from support.picture import differences, picture
from support.trees import Exec

PROMPTS = ["please create alpha", "please edit alpha", "please run it"]
FILES = {"kept.txt": b"kept", "bin/tool": Exec(b"#!/bin/sh\n"), "gone.txt": b"to be removed"}
"""The project before the first turn."""
EFFECTS = "mkdir made; echo made > made/by_hand; rm gone.txt; sed -i s/v2/v3/ alpha.txt; chmod 644 bin/tool"
"""What the shell command of the third turn does."""


def turns(create, edit, shell):
    """The three turns as a request has them in short; `edit` are the names of all calls of the second turn."""
    return [
        ["user: please create alpha", "assistant: Creating.", f"call {create}", "result", "assistant: It is there."],
        ["user: please edit alpha", *(word for name in edit for word in (f"call {name}", "result")), "assistant: Edited."],
        ["user: please run it", f"call {shell}", "result", "assistant: Ran."],
    ]


def script(create, edit, shell):
    """The model's answers, with these calls."""
    return {
        "create alpha": [["Creating.", create], ["It is there."]],
        "edit alpha": [*([call] for call in edit), ["Edited."]],
        "run it": [[shell], ["Ran."]],
    }


def tell(client, take):
    """Take the three turns by `take(prompt, number)`; pictures of the project before them and after each."""
    pictures = [picture(client.project)]
    for number, prompt in enumerate(PROMPTS):
        take(prompt, number)
        pictures.append(picture(client.project))
    return pictures


def go_back(client, told, go_on, *more):
    """`casrewind back 1 --both`, and the client resumed by `go_on(what is known so far)`, which gives its answer."""
    transcript = client.transcript(told.session)
    found = SimpleNamespace(original=transcript.read_bytes())
    found.report = client.casrewind.json("back", "1", "--both", "--yes", *more)
    found.picture = picture(client.project)
    found.id, found.path = found.report["fork"]["session_id"], Path(found.report["fork"]["path"])
    found.fork = found.path.read_bytes()
    found.modes = {path.name: path.stat().st_mode & 0o777 for path in found.path.parent.glob(f"{found.path.stem}*")}
    found.answer = go_on(found)
    found.request = client.model.requests[-1]
    found.points = client.points()[len(told.points) :]
    found.original_after = transcript.read_bytes()
    return found


def triggers(points):
    return [point["trigger"] for point in points]


def check_script(told, wanted):
    """The client did what the script says: its last request, which has all `turns` but the last answer, and four states of the files."""
    assert told.requests[-1].told == sum(wanted, [])[:-1]
    assert len({str(each) for each in told.pictures}) == 4


def check_list(told):
    """The list has a row for each turn with its change."""
    found = told.listed["turns"][::-1]
    assert [turn["prompt"] for turn in found] == PROMPTS
    paths = [turn["paths"] for turn in found]
    assert paths[:2] == [["alpha.txt"]] * 2 and {"alpha.txt", "bin/tool", "gone.txt"} < set(paths[2])
    assert not any(turn["running"] or turn["cut_short"] or turn["mixed"] for turn in found)
    assert {row["row"] for row in told.listed["rows"]} == {"turn"}


def check_points(told, agent):
    """Every prompt and every turn is a checkpoint of that session."""
    for trigger in ("prompt", "turn_end"):
        assert [point["prompt"] for point in told.points if point["trigger"] == trigger] == PROMPTS
    assert {(point["agent"], point["session"]) for point in told.points} == {(agent, told.session)}
    assert {point["label"] for point in told.points} == {None}, "nothing else changed a file"


def check_files(client, told, turn, directory, left_out=()):
    """The checkpoints of a turn's prompt and of its end have the files of their moment, but for the names `left_out`."""
    prompts, ends = ([point for point in told.points if point["trigger"] == trigger] for trigger in ("prompt", "turn_end"))
    for point, wanted in ((prompts[turn], told.pictures[turn]), (ends[turn], told.pictures[turn + 1])):
        place = directory / point["id"]
        client.casrewind("restore", point["id"], "--to", str(place), code=0)
        assert {path for path in differences(picture(place), wanted) if path.partition(b"/")[0] not in left_out} == set(), point


def check_undo(client, told, *more):
    """After `back 1`, undo has the files of after the third turn, and redo those of before it."""
    for command, wanted in (("undo", told.pictures[3]), ("redo", told.pictures[2])):
        client.casrewind(command, "--yes", *more, code=0)
        assert differences(picture(client.project), wanted) == {}


def check_moved(client, told, go_on):
    """A project that moved keeps its checkpoints and its conversation. `go_on(report)` resumes the client with "moved on"."""
    old = client.project
    count, moved = len(client.points()), old.with_name("moved")
    old.rename(moved)
    client.project, client.casrewind.root = moved, str(moved)
    try:
        report = client.casrewind.json("back", "--yes", "--session", told.session)
        assert len(client.points()) >= count
        go_on(report)
        request = client.model.requests[-1].told
        assert request[-1] == "user: moved on" and report["prompts"][0] not in str(request) and PROMPTS[0] in request[0]
    finally:
        moved.rename(old)
        client.project, client.casrewind.root = old, str(old)
    assert len(client.points()) >= count


def check_whole(client):
    """No hook failed, and the store is whole."""
    assert client.casrewind("status", code=0).err == ""
    assert client.casrewind.json("verify")["ok"]
