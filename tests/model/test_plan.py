"""Plans: what a restore may never do, stated as laws."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from casrewind import errors
from casrewind.model import diff as diffs
from casrewind.model import digest as digests
from casrewind.model import manifest, paths, plan, respelled
from casrewind.model.diff import Change
from casrewind.model.plan import Action, Kept
from support import random_values
from support.sample_start import examples

RUN = settings(derandomize=True, deadline=None, max_examples=examples(80), suppress_health_check=[HealthCheck.too_slow])


def file(content=b"x", mode=0o644):
    return manifest.Entry(manifest.FILE, mode, len(content), 0, digests.of(content))


DIRECTORY = manifest.Entry(manifest.DIR, 0o755, digest=digests.of(b"tree"))
names = st.sampled_from([b"a", b"b", b"c"])
leaves = st.sampled_from([file(b"1"), file(b"2"), manifest.link_entry(b"t"), manifest.link_entry(b"u")])
worlds = st.recursive(
    st.dictionaries(names, leaves, max_size=3),
    lambda below: st.dictionaries(names, st.one_of(leaves, below), max_size=3),
    max_leaves=10,
)


def flat(world, prefix=b""):
    found = {}
    for name, node in world.items():
        path = paths.join(prefix, name)
        if isinstance(node, dict):
            found[path] = DIRECTORY
            found.update(flat(node, path))
        else:
            found[path] = node
    return found


def changes_between(one, other):
    return [
        Change(path, one.get(path), other.get(path))
        for path in sorted(one.keys() | other.keys())
        if not manifest.same_for_restore(one.get(path), other.get(path))
    ]


def within(path, place):
    return (path + b"/").startswith(place + b"/")


def nothing_unknown(path, entry):
    return None


@RUN
@given(worlds, worlds)
def test_a_plan_does_exactly_what_differs_when_everything_is_known(one, other):
    changes = changes_between(flat(one), flat(other))
    made = plan.build_plan(changes, nothing_unknown)
    assert [(a.path, a.before, a.after) for a in made.actions] == [(c.path, c.old, c.new) for c in changes]
    assert made.kept == ()
    assert all(action.source == action.path for action in made.actions)


@RUN
@given(worlds, worlds, st.sets(names))
def test_no_path_that_may_have_been_there_unknown_is_removed_nor_a_directory_above_it(one, other, unknown):
    present, target = flat(one), flat(other)

    def why_unknown(path, entry):
        return "ignored then" if path.rpartition(b"/")[2] in unknown else None

    made = plan.build_plan(changes_between(present, target), why_unknown)
    removed = {action.path for action in made.actions if action.after is None}
    kept = {item.path for item in made.kept}
    for path in present.keys() - target.keys():
        replaced_above = any(p in target and target[p].kind != "dir" for p in paths.parents(path))
        if why_unknown(path, present[path]) and not replaced_above:
            assert path in kept
            assert path not in removed
            assert not removed & set(paths.parents(path))
    assert not removed & kept
    assert removed | kept >= present.keys() - target.keys()


@RUN
@given(worlds, worlds, st.sets(st.sampled_from([b"a", b"b", b"a/a", b"a/b", b"b/c"]), min_size=1))
def test_a_scoped_plan_touches_nothing_outside_but_missing_parents(one, other, scope):
    present, target = flat(one), flat(other)
    try:
        made = plan.build_plan(changes_between(present, target), nothing_unknown, sorted(scope))
    except errors.ContentInTheWay:
        return
    for action in made.actions:
        if not any(within(action.path, place) for place in scope):
            assert action.before is None
            assert action.after == DIRECTORY
            assert any(within(other.path, action.path) for other in made.actions if other is not action)


def test_a_scoped_plan_refuses_when_something_outside_would_have_to_give_way():
    changes = changes_between({b"a": file()}, {b"a": DIRECTORY, b"a/b": file()})
    with pytest.raises(errors.ContentInTheWay, match="in the way"):
        plan.build_plan(changes, nothing_unknown, [b"a/b"])


@RUN
@given(worlds, worlds, st.sets(names))
def test_keeping_more_paths_keeps_the_directories_above_them(one, other, extra):
    present, target = flat(one), flat(other)
    made = plan.build_plan(changes_between(present, target), nothing_unknown)
    more = [Kept(a.path, "edited", benign=False) for a in made.actions if a.path.rpartition(b"/")[2] in extra]
    less = plan.keep_paths(made, more)
    assert {a.path for a in less.actions} <= {a.path for a in made.actions} - {item.path for item in more}
    removed = {a.path for a in less.actions if a.after is None}
    for item in more:
        assert not removed & set(paths.parents(item.path))
    assert {item.path for item in less.kept} >= {item.path for item in more}
    assert {a.path for a in less.actions} | {item.path for item in less.kept} == {a.path for a in made.actions}
    assert list(less.actions) == sorted(less.actions, key=lambda action: action.path)


def test_a_purged_entry_is_never_restored_and_never_a_reason_to_delete():
    purged = manifest.Entry(manifest.PURGED, 0o644, 5)
    made = plan.build_plan([Change(b"secret", file(), purged), Change(b"gone", None, purged)], nothing_unknown)
    assert made.actions == ()
    assert [item.path for item in made.kept] == [b"gone", b"secret"]
    assert not any(item.benign for item in made.kept)


@RUN
@given(st.lists(random_values.actions, max_size=6, unique_by=lambda action: action.path))
def test_reversing_twice_gives_the_same_actions(actions):
    ordered = tuple(sorted(actions, key=lambda action: action.path))
    assert plan.reverse(plan.reverse(ordered)) == ordered
    for action in ordered:
        back = action.reversed()
        assert (back.path, back.source, back.before, back.after) == (
            action.source, action.path, action.after, action.before
        )


@RUN
@given(st.lists(random_values.actions, max_size=9, unique_by=lambda action: action.path), st.booleans())
def test_packed_actions_are_what_a_tuple_of_them_is(actions, ordered):
    """Also those of a plan whose actions came in another order than that of their paths."""
    if ordered:
        actions.sort(key=lambda action: action.path)
    packed = plan.decode(plan.encode(actions))
    assert packed == tuple(actions)
    assert tuple(actions) == packed
    assert (len(packed), hash(packed), packed[:2]) == (len(actions), hash(tuple(actions)), tuple(actions[:2]))
    assert packed != (*actions, Action(b"one/more", None, None, b"one/more"))
    for number in [*range(len(actions)), *reversed(range(len(actions)))]:
        assert packed.index_of(actions[number].path) == number
        assert packed.get(actions[number].path) == packed[number] == actions[number]
    assert packed.index_of(b"none/of/these") is None
    in_order = tuple(sorted(actions, key=lambda action: action.path))
    assert plan.sort_and_pack(packed) == in_order == plan.sort_and_pack(iter(actions))
    left = {action.path for action in actions[::2]}
    assert plan.without(actions, left) == tuple(action for action in in_order if action.path not in left)


@RUN
@given(worlds, worlds)
def test_a_plan_and_its_reverse_meet(one, other):
    there = plan.build_plan(changes_between(flat(one), flat(other)), nothing_unknown)
    back = plan.build_plan(changes_between(flat(other), flat(one)), nothing_unknown)
    assert plan.reverse(there.actions) == back.actions


def test_two_spellings_of_one_name_become_a_rename_where_names_fold():
    made = plan.Plan(
        (Action(b"README", None, file(b"new"), b"README"), Action(b"Readme", file(b"old"), None, b"Readme")), ()
    )
    folded = respelled.join_respelled(made, {b"README": b"Readme"}, lambda _: file())
    assert folded.actions == (Action(b"README", file(b"old"), file(b"new"), b"Readme"),)
    (back,) = plan.reverse(folded.actions)
    assert back == Action(b"Readme", file(b"new"), file(b"old"), b"README")


def test_folding_leaves_what_has_no_twin_alone():
    made = plan.Plan((Action(b"a", None, file(), b"a"), Action(b"b", file(), None, b"b")), (Kept(b"c", "why", benign=True),))
    assert respelled.join_respelled(made, {}, file) == respelled.join_respelled(made, {b"x": b"y"}, lambda _: None) == made


def test_a_name_that_is_taken_by_a_file_that_stays_is_kept():
    made = plan.Plan((Action(b"README", None, file(b"new"), b"README"), Action(b"d", None, DIRECTORY, b"d")), ())
    found = respelled.join_respelled(made, {b"README": b"Readme"}, lambda _: file())
    assert [action.path for action in found.actions] == [b"d"]
    assert found.kept == (Kept(b"README", "Readme stays, and is the same file on this disk", benign=False),)


@pytest.mark.parametrize(("one", "other"), [("A", "a"), ("é", "e\u0301"), ("dir/X", "DIR/x")])
def test_a_target_whose_paths_fold_together_is_refused(one, other):
    with pytest.raises(errors.UnsafePath, match="same name"):
        respelled.refuse_paths_with_one_name([one.encode(), other.encode()])


def test_what_needs_bytes_and_what_needs_only_a_mode():
    def differs(before, after):
        return plan.content_differs(Action(b"p", before, after, b"p"))

    assert differs(None, file())
    assert differs(file(b"1"), file(b"2"))
    assert differs(manifest.link_entry(b"a"), manifest.link_entry(b"b"))
    assert differs(DIRECTORY, file())
    assert not differs(file(), file(mode=0o755))
    assert not differs(file(), None)
    assert not differs(None, DIRECTORY)


def test_a_plan_built_from_a_real_diff_is_sorted_by_path():
    blobs = {}

    def store(data):
        blobs[digests.of(data)] = data
        return digests.of(data)

    below = store(manifest.encode_tree([(b"f", file())]))
    old = store(manifest.encode_tree([(b"a", manifest.Entry(manifest.DIR, 0o755, digest=below)), (b"a-", file())]))
    new = store(manifest.encode_tree([]))
    changes = list(diffs.diff(lambda digest: manifest.decode_tree(blobs[digest]), old, new))
    assert [change.path for change in changes] == [b"a", b"a-", b"a/f"]
    assert [action.path for action in plan.build_plan(changes, nothing_unknown).actions] == [b"a", b"a-", b"a/f"]
