"""The state of the picker and its keys, without a terminal: what is listed, shown and chosen."""

import pytest

from casrewind import errors
from casrewind.agents import session_files
from casrewind.change import preflight, revert, rewind
from casrewind.cli.picker import patch_lines
from casrewind.cli.picker.state import PickerState, error_in_words, hint_with_keys
from casrewind.cli.picker.timeline import HERE, TURN, TimelineModel
from casrewind.history import conversation
from support.agent_turns import AgentTurns
from support.trees import plant


@pytest.fixture
def model(workspace, root):
    """Turns of two sessions, an edit between them, and edits since."""
    agent, other = AgentTurns(workspace, root), AgentTurns(workspace, root, "bbbbbbbb-2222-4333-8444-555555555555")
    plant(root, {"till": b"1\n", "src/a": b"a\n", "src/b": b"b\n"})
    agent.prompt("p1", "write a till")
    plant(root, {"till": b"2\n", "src/a": b"A\n"})
    agent.stop("p1")
    plant(root, {"mine": b"m\n"})
    other.prompt("p2", "look around")
    other.stop("p2")
    return TimelineModel(agent.context)


def listed(model):
    state = PickerState("project")
    state.timeline = model.scan_worktree()
    state.stale = False
    return state, state.list_rows(None)


def texts(state):
    return [row.key.split()[0] for row in state.rows]


def test_the_cursor_starts_at_the_newest_turn_that_changed_something(model):
    state, at = listed(model)
    assert texts(state) == ["turn", "outside", "turn"] and at == 2
    state.unfolded.add(state.rows[2].key)
    chosen = state.rows[2]
    assert state.list_rows(chosen) == 2 and texts(state)[3] == "point", "a row keeps the cursor when others come"
    assert state.turn_around(3) == 2
    state.words = "around"
    assert state.list_rows(chosen) == 0 and texts(state) == ["turn"] and state.totals_in_words() == "1 row with 'around'"


def test_the_next_session_is_found_in_both_directions(model):
    state, _ = listed(model)
    assert state.other_session(0, 1) == 2 and state.other_session(2, -1) == 0
    assert state.other_session(2, 1) is None


def test_only_the_preview_of_the_row_at_the_cursor_is_taken(model):
    state, at = listed(model)
    row = state.rows[at]
    found = model.preview(row, TURN, None)
    assert not state.set_preview(found, state.rows[0], "") and state.preview is None
    state.switch_preview()
    assert not state.set_preview(found, row, ""), "it was asked for another kind"
    assert state.set_preview(model.preview(row, HERE, None), row, "") and state.has_choice()
    assert state.preview_heading(row, state.preview, 80).startswith("to here: 1 go, 2 change")
    state.forget_preview_and_choice(row, state.tree.lines[-1])
    assert state.preview is None and state.wanted == state_file(model, row)


def state_file(model, row):
    """The last file of the row's restore."""
    state, _ = listed(model)
    state.switch_preview()
    state.set_preview(model.preview(row, HERE, None), row, "")
    return state.tree.lines[-1].change.path


def test_a_file_is_chosen_whole_or_in_parts(model):
    state, at = listed(model)
    row = state.rows[at]
    state.switch_preview()
    state.set_preview(model.preview(row, HERE, None), row, "")
    state.toggle_choice({b"till", b"mine"})
    assert state.choice_in_words() == "2 chosen: only these are restored"
    state.choose_parts(b"till", {0})
    assert state.checked == {b"mine"} and state.choice_in_words() == "1 chosen, 1 hunk chosen: only these are restored"
    state.toggle_choice({b"till"}, only_add=True)
    assert state.parts == {} and state.checked == {b"till", b"mine"}
    state.toggle_choice({b"till", b"mine"})
    assert state.choice_in_words() == ""
    change = next(change for change in state.tree.changes if change.path == b"till")
    state.patch = patch_lines.change_as_lines(state.preview.found, change)
    hunk = next(at for at, line in enumerate(state.patch) if line.sign == "@")
    assert state.other_hunk(0, 1) == hunk and state.other_hunk(hunk, 1) == hunk


def test_a_second_comparison_with_the_same_row_ends_it(model):
    state, at = listed(model)
    assert state.toggle_base(state.rows[at]) and state.base == state.rows[at]
    assert not state.toggle_base(state.rows[at]) and state.base is None


def test_the_status_says_what_runs_before_what_a_key_said():
    state = PickerState("project")
    assert state.status_line() == "reading the timeline ..."
    state.busy, state.said = "", "q quits"
    assert state.status_line() == "q quits"
    state.unfinished = ["some paths"]
    assert state.status_line().startswith("a restore is half done")


def test_a_hint_of_the_picker_names_no_option():
    for hint in (conversation.FILES_ALONE, session_files.FORK_INSTEAD, rewind.END_OR_FORK, revert.ADD_RUNNING, preflight.OTHER_PATHS,
                 preflight.SKIP_DAMAGED, preflight.STOP_IT, preflight.FINISH_FIRST, rewind.CHAT_ALONE, rewind.NEAREST):
        assert "--" in hint and "--" not in hint_with_keys(hint), hint
    assert error_in_words(errors.AgentError("it cannot be had", conversation.FILES_ALONE)) == "it cannot be had; c restores the files alone"
    assert error_in_words(ValueError("a bug")) == "a bug"


def test_every_key_has_its_function():
    pytest.importorskip("textual")
    from casrewind.cli.picker.actions import PickerActions
    from casrewind.cli.picker.app import KEYS
    from casrewind.cli.picker.keys import PickerKeys

    for key, action in KEYS:
        kind, _, rest = action.partition("('")
        part = {"look": PickerKeys, "change": PickerActions}[kind]
        assert callable(getattr(part, rest.partition("'")[0])), key
