"""What holds for every story: no change is lost or charged twice, numbers close up, ids stay, and gc moves no other turn."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from casrewind.model.diff import Change
from casrewind.model.manifest import same_for_restore
from casrewind.model.turn_records import PastOperation, Forgotten, Outside, Point, Reset, Turn
from casrewind.model.turns import Outline
from support.dict_differ import DictDiffer, compared, entry
from support.sample_start import examples
from support.turn_stories import SESSIONS, Story

ALIVE = {session[:2] for session in SESSIONS[:1]}


def told(seed, length):
    story = Story(seed)
    for _ in range(length):
        story.step()
    story.edit()
    return story


def viewed(story, records=None):
    differ = DictDiffer(story.trees, story.plans, story.files)
    return Outline(story.records if records is None else records, ALIVE, now=True), differ


def edges(story):
    """For each step the files in front of it and the tree at its end; the last one ends at the worktree."""
    points = story.points()
    for at in range(1, len(points) + 1):
        yield at, story.states[at - 1], story.trees[points[at].tree] if at < len(points) else story.files


def naive(story, outline, turn):
    """A turn's change put together step by step, as it is defined."""
    order = outline._boundaries
    number = len(outline.turns) - turn.n
    whole, shared, dropped = {}, set(), {}
    acc = {}

    def drop(change):
        """It was written outside of the turn; what brings back what the turn had left counts again."""
        path = change.path
        sides = [known.pop(path) for known in (whole, acc) if path in known]
        if sides:
            dropped[path] = (sides[0][0], sides[-1][1], path in shared)
        shared.discard(path)
        if path in dropped and same_for_restore(dropped[path][1], change.new):
            whole[path] = dropped[path][:2]
            shared.update([path] if dropped[path][2] else [])

    points = story.points()
    operations = {}
    for record in story.records:
        if isinstance(record, PastOperation):
            operations.setdefault(record.safety, []).append(record)
    for span in order.turns[number].spans:
        acc.clear()
        for at, old, new in edges(story):
            if not span.first < at <= span.last:
                continue
            running = [one for one, other in enumerate(order.turns) if any(s.first < at <= s.last for s in other.spans)]
            assert number in running and tuple(running) == outline._runners[at]
            behind = points[at - 1]
            is_loose = behind.trigger == "safety" and behind.id not in operations and order.own.get(at - 1) not in outline._runners[at - 1]
            for change in compared(old, new):
                if is_loose:
                    drop(change)
                    continue
                first = acc[change.path][0] if change.path in acc else change.old
                acc[change.path] = (first, change.new)
                if len(running) > 1:
                    shared.add(change.path)
            if at < span.last and at < len(points):
                for done in operations.get(points[at].id, []):
                    before, wrote = story.plans[done.plan]
                    own = order.own.get(at) == number
                    for change in compared(before, {k: v for k, v in {**before, **wrote}.items() if v is not None}):
                        if own:
                            acc[change.path] = (acc[change.path][0] if change.path in acc else change.old, change.new)
                        else:
                            drop(change)
        for path, (old, new) in acc.items():
            if not same_for_restore(old, new):
                whole[path] = (whole[path][0] if path in whole else old, new)
            elif path not in whole:
                shared.discard(path)
    found = tuple(Change(path, *sides) for path, sides in sorted(whole.items()) if not same_for_restore(*sides))
    return found, tuple(change.path for change in found if change.path in shared)


def check_story(story):
    outline, differ = viewed(story)
    rows = list(outline.rows(differ))
    shown = [row for row in rows if isinstance(row, Turn)]
    assert [turn.n for turn in shown] == list(range(1, len(shown) + 1))
    assert len({turn.id for turn in shown}) == len(shown)
    assert not any(isinstance(row, Forgotten) for row in rows)

    for turn in shown:  # each is what its definition says
        if turn.before is None:
            assert turn.changes is None
            continue
        changes, shared = naive(story, outline, turn)
        assert turn.changes == changes
        assert tuple(path for path, _ in turn.shared) == shared
        assert all(turn.n not in others and others for _, others in turn.shared)
        for path, others in turn.shared:  # with the number of the other turn
            assert all(1 <= other <= len(shown) for other in others)

    covered = {}  # each step is in one row, or in the turns that run in it
    points = story.points()
    halves = {one.opened for one in outline._boundaries.turns if one.before is None}
    for slot in outline._all_rows_without_changes:
        if isinstance(slot.row, (Outside, Reset)) and slot.first >= 0:
            for at in range(slot.first + 1, slot.last + 1):
                covered.setdefault(at, []).append(slot)
    for at in range(1, len(points) + 1):
        owners = covered.get(at, [])
        if outline._runners[at]:
            assert all(isinstance(slot.row, Reset) for slot in owners)
            assert len(owners) <= 1
        elif at in halves and not owners:
            pass  # the start of that turn is missing: its change is unknown
        else:
            assert len(owners) == 1

    for at, old, new in edges(story):  # what was written in a step stands in no row but those of that step
        for change in compared(old, new):
            if change.new is None:
                continue
            content = change.new.digest
            for row in rows:
                if getattr(row, "changes", None) is None or isinstance(row, Reset):
                    continue
                has = any(one.new is not None and one.new.digest == content and one.path == change.path for one in row.changes)
                if isinstance(row, Turn) and has:
                    assert len(shown) - row.n in outline._runners[at] or restored(story, change)
                elif has:
                    assert not outline._runners[at] or restored(story, change)


def restored(story, change):
    """True when an operation wrote this content once more: then more than one step may have written it."""
    return any(entry(content) == change.new for path, content in story.put_back if path == change.path.decode())


def check_growth(story, random_):
    """A turn's id stays when more records come."""
    records = story.records
    cut = random_.randint(0, len(records))
    early = {turn.id: turn for turn in Outline(records[:cut], ALIVE).turns}
    late = {turn.id: turn for turn in Outline(records, ALIVE).turns}
    assert set(early) <= set(late)
    for identity, turn in early.items():
        assert (turn.session, turn.before, turn.prompt) == (late[identity].session, late[identity].before, late[identity].prompt)


def with_fields(story):
    """The records with the fields that later versions write."""
    outline, _ = viewed(story)
    order = outline._boundaries
    of = {}
    for number, turn in enumerate(order.turns):
        for at in turn.inside:
            of.setdefault(at, number)
        if turn.before is not None:
            of[turn.before] = number
    points = {point.id: at for at, point in enumerate(story.points())}
    ended = {one for turn in order.turns for one in turn.inside}
    found = []
    newest = {}
    for record in story.records:
        if isinstance(record, PastOperation):
            is_own = points[record.safety] in order.own
            found.append(record if is_own else record._replace(agent="", session=""))
            continue
        at = points[record.id]
        session = (record.agent, record.session)
        if record.trigger == "prompt":
            opened = next((n for n, turn in enumerate(order.turns) if turn.before == at), None)
            waits = newest.get(session) if opened is None or order.turns[opened].prompt != record.prompt else None
            if opened is not None and waits is None and not was_waiting(story, at, order):
                newest[session] = record.id
                record = record._replace(turn=record.id)
            else:
                record = record._replace(turn=newest.get(session, ""))
        elif record.trigger in ("turn_end", "tool_batch", "compact") and at in ended:
            owners = [turn for turn in order.turns if at in turn.inside and turn.before != at]
            if owners:
                turn = owners[0]
                record = record._replace(turn=story.points()[turn.opened].id, prompt=turn.prompt)
        elif record.trigger in ("manual", "safety"):
            mine = order.own.get(at)
            record = record._replace(turn=story.points()[order.turns[mine].opened].id) if mine is not None else record._replace(agent="", session="")
        found.append(record._replace(no_prompt=not record.prompt, tells_ends=tells(story, record)))
    return found


def was_waiting(story, at, order):
    point = story.points()[at]
    return point.prompt.startswith("waiting") and any(
        turn.before == at and turn.prompt_id != point.turn_id for turn in order.turns
    )


def tells(story, record):
    if record.trigger not in ("prompt", "turn_end", "tool_batch"):
        return None
    mine = [one for one in story.points() if (one.agent, one.session) == (record.agent, record.session)]
    return any(
        one.trigger in ("turn_end", "tool_batch", "compact", "session_end")
        and not (one.trigger == "turn_end" and one.has_turn_ids and not one.turn_id)
        for one in mine
    )


FIXED = ("id", "session", "prompt", "before", "after", "running", "cut_short", "end_unseen", "changes")


def check_fields(story):
    """The fields of later versions say what the order says."""
    plain, differ = viewed(story)
    told_, _ = viewed(story, with_fields(story))
    for one, other in zip(plain.turns, told_.turns, strict=True):
        for name in FIXED:
            assert getattr(plain.with_its_changes(one, differ), name) == getattr(told_.with_its_changes(other, differ), name), name


def check_gc(story, random_):
    """After whole turns were forgotten, the others are as before."""
    records = with_fields(story)
    whole, differ = viewed(story, records)
    if not whole.turns:
        return
    turns_ = whole._boundaries.turns
    newest = {(turn.agent, turn.session): number for number, turn in enumerate(turns_)}  # gc leaves the newest of each session
    gone = {number for number in range(len(turns_)) if number not in newest.values() and random_.random() < 0.5}
    points = story.points()
    # a prompt that waited and cut the turn in front short goes with that turn only
    gone -= {n for n in gone for at in [turns_[n].before] if at is not None and points[at].turn_id != turns_[n].prompt_id}
    kept = {number for number in range(len(turns_)) if number not in gone}
    stay = {at for number in kept for at in turns_[number].inside}
    stay |= {end for number in kept for span in turns_[number].spans for end in span if end < len(points)}
    spans = [span for number in kept for span in turns_[number].spans]
    for at, point in enumerate(points):  # what was restored while a turn ran is a part of what it is understood from
        if point.trigger == "safety" and any(span.first < at < span.last for span in spans):
            stay |= {at, at + 1}
    dropped = {at for number in gone for at in turns_[number].inside} - stay
    left = [record for record in records if not isinstance(record, Point) or int(record.id[1:]) not in dropped]
    rest, _ = viewed(story, left)
    after = {turn.id: turn for turn in rest.turns}
    for number in kept:
        old = whole.with_its_changes(whole.turns[len(turns_) - 1 - number], differ)
        new = rest.with_its_changes(after[old.id], differ)
        for name in FIXED:
            assert getattr(old, name) == getattr(new, name), (name, old, new)
    known = {("restored", differ.plan(plan).changes) for plan in story.plans}
    assert all((row.kind, row.changes) in known for row in rest.rows(differ) if isinstance(row, Reset) and not row.loose)


CHECKS = [check_story, check_fields]
WITH_CHANCE = [check_growth, check_gc]
STORY = {"seed": st.integers(0, 2**40), "length": st.integers(0, 40)}
FEW = settings(max_examples=examples(150), derandomize=True, deadline=None)
MANY = settings(max_examples=20_000, deadline=None)


def run(seed, length, check):
    story = told(seed, length)
    check(story) if check in CHECKS else check(story, random.Random(seed))


@pytest.mark.parametrize("check", [*CHECKS, *WITH_CHANCE])
def test_every_story(check):
    @FEW
    @given(**STORY)
    def work(seed, length):
        run(seed, length, check)

    work()


@pytest.mark.long
@pytest.mark.parametrize("check", [*CHECKS, *WITH_CHANCE])
def test_many_stories(check):
    @MANY
    @given(**STORY)
    def work(seed, length):
        run(seed, length, check)

    work()
