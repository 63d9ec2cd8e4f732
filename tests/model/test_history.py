"""The undo history as a value: what a restore, an undo and a redo do to it."""

from hypothesis import given, settings
from hypothesis import strategies as st

from casrewind.model import undo_history
from casrewind.model.undo_history import NO_HISTORY, REDO, RESTORE, UNDO, UNDO_STEPS, Operation, history_after

KEY = bytes(16)


def done(op, number, current=None):
    name = f"c{number}"
    return Operation(op, number, KEY, name, f"safety{number}", number.to_bytes(32, "big"), name if current is None else current)


def plans(steps):
    return [int.from_bytes(step.plan, "big") for step in steps]


def test_a_restore_can_be_undone_and_remembers_what_was_current_before():
    history = history_after(NO_HISTORY._replace(current="c0"), done(RESTORE, 1))
    (step,) = history.undo
    assert (step.target, step.before, step.safety) == ("c1", "c0", "safety1")
    assert history.redo == ()
    assert history.current == "c1"


def test_undo_and_redo_walk_along_the_same_steps():
    history = NO_HISTORY._replace(current="c0")
    for number in (1, 2, 3):
        history = history_after(history, done(RESTORE, number))
    history = history_after(history, done(UNDO, 13, current="c2"))
    assert plans(history.undo) == [1, 2]
    assert plans(history.redo) == [13]  # the plan that the undo carried out, not the restore's
    history = history_after(history, done(UNDO, 12, current="c1"))
    assert plans(history.undo) == [1]
    assert plans(history.redo) == [13, 12]
    assert history.current == "c1"
    history = history_after(history, done(REDO, 22))
    assert plans(history.undo) == [1, 22]
    assert plans(history.redo) == [13]


def test_a_new_restore_ends_redo():
    history = history_after(history_after(NO_HISTORY, done(RESTORE, 1)), done(UNDO, 11))
    assert len(history.redo) == 1
    history = history_after(history, done(RESTORE, 2))
    assert history.redo == ()
    assert plans(history.undo) == [2]


def test_an_undo_of_nothing_is_no_crash():
    assert history_after(NO_HISTORY, done(UNDO, 1)).undo == ()
    assert history_after(NO_HISTORY, done(REDO, 1)).redo == ()


@settings(derandomize=True, deadline=None, max_examples=60)
@given(st.lists(st.sampled_from([RESTORE, RESTORE, UNDO, REDO]), max_size=160))
def test_after_any_sequence_the_stacks_are_those_of_a_plain_editor(sequence):
    """The judge: two lists of numbers, as every undo in every editor has them."""
    history, undo, redo = NO_HISTORY, [], []
    for number, op in enumerate(sequence, 1):
        if (op == UNDO and not undo) or (op == REDO and not redo):
            continue
        history = history_after(history, done(op, number))
        if op == RESTORE:
            undo, redo = [*undo, number][-UNDO_STEPS:], []
        elif op == UNDO:
            undo, redo = undo[:-1], [*redo, number][-UNDO_STEPS:]
        else:
            undo, redo = [*undo, number][-UNDO_STEPS:], redo[:-1]
        assert plans(history.undo) == undo
        assert plans(history.redo) == redo
        assert history.current == f"c{number}"
        assert undo_history.decode_history(undo_history.encode_history(history)) == history
    assert len(history.undo) <= UNDO_STEPS
