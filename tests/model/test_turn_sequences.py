"""Every recorded sequence gives the rows that are written down with it."""

import json
import os

import pytest

from casrewind.model.turn_records import PastOperation, Forgotten, Outside, Point, Reset, SavedRow, Turn
from casrewind.model.turns import Outline
from support.dict_differ import DictDiffer, letters

PLACE = os.path.join(os.path.dirname(__file__), "data", "turns")
FILES = sorted(name for name in os.listdir(PLACE) if name.endswith(".json"))
DESCRIBED = 4


def read(name):
    with open(os.path.join(PLACE, name)) as file:
        return json.load(file)


def input_of(sequence, worktree):
    """(records, differ) of one worktree, as a store would give them."""
    gone = {one for record in sequence["records"] if record["kind"] == "forget" for one in record["checkpoints"]}
    mine = [record for record in sequence["records"] if record.get("worktree", worktree) == worktree]
    asked = {
        (one["session"], one["prompt_id"]): one["prompt"]
        for one in mine
        if one["kind"] == "checkpoint" and one["id"] in gone and one["trigger"] == "prompt"
    }
    records, trees, plans = [], {}, {}
    for one in mine:
        if one["kind"] == "checkpoint" and one["id"] not in gone and "files" in one:
            tree = one["id"].encode()
            trees[tree] = one["files"]
            prompt = one["prompt"] or (one["trigger"] == "turn_end" and asked.get((one["session"], one["prompt_id"]))) or ""
            label = "" if one["flags"] & DESCRIBED else one["label"]
            words = one["label"].split() if one["trigger"] == "safety" else []
            records.append(Point(
                one["seq"], one["id"], one["created_ns"], one["parent"], one["trigger"], tree, label, prompt, one["agent"],
                one["session"], one["prompt_id"], files=len(one["files"]), op=words[1] if words else "", target=words[3] if words else "",
            ))
        elif one["kind"] in ("restore", "undo", "redo"):
            plan = str(one["seq"]).encode()
            plans[plan] = (trees[one["safety"].encode()], one["wrote"])
            records.append(PastOperation(one["kind"], one["created_ns"], one["target"], one["safety"], plan))
    return records, DictDiffer(trees, plans)


def short(row):
    """A row in the form of `expected`."""
    if isinstance(row, Turn):
        return {
            "row": "turn", "n": row.n, "prompt": row.prompt, "session": row.session, "before": row.before,
            "after": "now" if row.to_now else row.after, "cut_short": row.cut_short, "end_unseen": row.end_unseen,
            "running": row.running, "also": list(row.also), "changes": letters(row.changes),
            "shared": [path.decode() for path, _ in row.shared],
        }  # fmt: skip
    if isinstance(row, Outside):
        if row.kind == "background":
            return {"row": "background", "in": [], "changes": letters(row.changes)}
        return {"row": "outside", "in": [], "typed": row.kind == "typed", "changes": letters(row.changes)}
    if isinstance(row, SavedRow):
        return {"row": "saved", "in": list(row.during), "label": row.label}
    assert isinstance(row, Reset)
    name = {"restored": "restore", "undone": "undo", "redone": "redo"}[row.kind]
    return {"row": name, "in": list(row.during), "changes": letters(row.changes)}


def test_there_are_sequences():
    assert len(FILES) == 34


@pytest.mark.parametrize("name", FILES)
def test_rows_of_a_recorded_sequence(name):
    sequence = read(name)
    keys = {one["root"]: one["worktree"] for one in sequence["records"] if one["kind"] == "checkpoint"}
    assert set(keys) == set(sequence["expected"]) == set(sequence["worktree_now"])
    alive = {("claude", session) for session in sequence["alive"]}
    for root, expected in sequence["expected"].items():
        records, differ = input_of(sequence, keys[root])
        differ.now = sequence["worktree_now"][root]
        found = [row for row in Outline(records, alive, now=True).rows(differ) if not isinstance(row, Forgotten)]
        assert [short(row) for row in found] == expected


@pytest.mark.parametrize("name", FILES)
def test_without_the_worktree_only_what_lies_behind_the_newest_checkpoint_is_unknown(name):
    sequence = read(name)
    for key in {one["worktree"] for one in sequence["records"] if one["kind"] == "checkpoint"}:
        records, differ = input_of(sequence, key)
        differ.now = {}
        known = [row for row in Outline(records, (), now=True).rows(differ) if isinstance(row, Turn)]
        blind = [row for row in Outline(records, ()).rows(differ) if isinstance(row, Turn)]
        assert [row for row in blind if not row.to_now] == [row for row in known if not row.to_now]
        assert all(row.changes is None for row in blind if row.to_now)


@pytest.mark.parametrize(("seconds", "has_turn_ids", "is_its"), [(0.2, False, True), (6, False, False), (0.2, True, False)])
def test_a_session_s_start_beside_its_first_prompt_ends_no_turn(seconds, has_turn_ids, is_its):
    """Copilot runs both hooks at once. A start much later, or after anything else, is a client that was started again."""
    told = [("prompt", 0, "go"), ("session_start", seconds, ""), ("tool_batch", seconds + 1, ""), ("turn_end", seconds + 2, "")]
    trees = {b"t0": {}, b"t1": {"a": "1"}}
    points = [
        Point(
            at, f"p{at}", int(moment * 1e9), f"p{at - 1}" if at else "", trigger, b"t0" if at < 2 else b"t1", prompt=prompt,
            agent="copilot", session="s", has_turn_ids=has_turn_ids, event="x",
        )  # fmt: skip
        for at, (trigger, moment, prompt) in enumerate(told)
    ]
    (turn,) = (row for row in Outline(points, ()).rows(DictDiffer(trees, {})) if isinstance(row, Turn))
    assert ((turn.after, letters(turn.changes), turn.cut_short) == ("p3", {"a": "A"}, False)) is is_its
