"""Hints that a chain has news: a reader with many objects lists days and the chains with news, and whatever clocks say it misses nothing for long."""

from pathlib import Path

import pytest

from casrewind.model.retention import Limits
from casrewind.remote import collect
from support.machines import Machine, Requests, Stop, stopping
from support.server_days import BEGIN, DAY, Calendar, crowd

pytest.importorskip("obstore")

@pytest.fixture
def calendar(monkeypatch):
    return Calendar(monkeypatch)


@pytest.fixture
def url(tmp_path):
    return f"file://{tmp_path}/bucket"


@pytest.fixture
def machine_of(tmp_path, url, calendar):
    def make(name):
        made = Machine.with_remote(tmp_path / name, url, name)
        made.tampered = calendar.of
        return made

    return make


@pytest.fixture
def pusher(machine_of):
    return machine_of("sandbox")


@pytest.fixture
def reader(machine_of, pusher, url):
    """A reader of a remote with so many objects that it asks for days, where it has read what `pusher` has."""
    crowd(url)
    saved(pusher)
    reader = machine_of("laptop")
    assert reader.pull().checkpoints == {"sandbox": 1}
    return reader


def saved(machine, **options):
    point = machine.save({"a": b"%d" % len(machine.points())})
    machine.push(**options)
    return point


def asked_by(calendar, work):
    """(What was listed, the result) of this work."""
    calendar.asked.clear()
    result = work()
    return calendar.asked[:], result


def test_a_reader_lists_days_and_the_chains_that_are_named_there(machine_of, calendar, url):
    machines = [machine_of(f"m{number}") for number in range(9)]
    crowd(url)
    for one in machines:
        saved(one)
    reader = machine_of("laptop")
    assert len(reader.pull().checkpoints) == 9
    calendar.day = 3
    saved(machines[0])
    reader.pull()
    calendar.day = 5
    for one in machines[:3]:
        saved(one)
    asked, taken = asked_by(calendar, reader.pull)
    assert asked == ["days", *sorted(one.chain() for one in machines[:3])]
    assert taken.checkpoints == {"m0": 1, "m1": 1, "m2": 1} and taken.requests == 1 + 3 + 3
    calendar.day = 6
    asked, taken = asked_by(calendar, lambda: reader.pull(everything=True))
    assert asked == [""] and not taken.checkpoints


def test_a_small_remote_is_listed_as_a_whole(machine_of, pusher, calendar):
    reader = machine_of("laptop")
    for day in range(3):
        calendar.day = day
        saved(pusher)
        asked, taken = asked_by(calendar, reader.pull)
        assert asked == [""] and taken.checkpoints == {"sandbox": 1}


@pytest.mark.parametrize("wrong", [-2, -1.5, 0, 1, 366])
def test_a_push_over_midnight_and_a_wrong_clock_are_seen_at_once(pusher, reader, machine_of, calendar, wrong):
    late = machine_of("late")
    calendar.day = 3
    saved(pusher)
    reader.pull()
    calendar.day = 3.4
    calendar.clock(wrong)
    saved(late)
    calendar.clock(0)
    asked, taken = asked_by(calendar, reader.pull)
    assert asked == ["days", *sorted((late.chain(), pusher.chain()))] and taken.checkpoints == {"late": 1}


def test_a_clock_of_a_year_hides_no_other_machine(pusher, reader, machine_of, calendar):
    other = machine_of("other")
    calendar.day = 3
    calendar.clock(365)
    saved(other)
    calendar.clock(0)
    reader.pull()
    calendar.day = 4
    saved(pusher)
    asked, taken = asked_by(calendar, reader.pull)
    assert asked[0] == "days" and taken.checkpoints == {"sandbox": 1}


def test_a_server_that_is_a_year_ahead_hides_no_machine(pusher, reader, machine_of, calendar):
    """In a directory the time of an object is that of whoever wrote it."""
    other = machine_of("other")
    calendar.day = 3
    saved(other)
    calendar.times = {name: time + 365 * DAY if "days/" in name and other.chain() in name else time for name, time in calendar.times.items()}
    seen = reader.pull()
    assert seen.checkpoints == {"other": 1}
    with reader.open() as workspace:
        files = reader.remote(workspace).files
        files.save(files.state._replace(listed=files.state.listed._replace(all_newest_ns=BEGIN + 365 * DAY)))  # a pull of these days
    calendar.day = 4
    saved(pusher)
    asked, taken = asked_by(calendar, reader.pull)
    assert asked[0] == "days" and taken.checkpoints == {"sandbox": 1}


def test_what_a_lying_clock_hides_is_found_within_seven_days(pusher, reader, machine_of, calendar):
    calendar.day = 4
    saved(pusher)
    reader.pull()
    calendar.clock(-10)
    point = saved(machine_of("late"))
    calendar.clock(0)
    for calendar.day in (4, 5, 6.9):
        assert not reader.pull().checkpoints
    calendar.day = 7.1
    asked, taken = asked_by(calendar, reader.pull)
    assert asked == [""] and point.id in reader.points() and taken.checkpoints == {"late": 1}


def test_a_reader_whose_clock_stands_still_lists_all_by_the_times_of_the_server(pusher, reader, calendar):
    calendar.day = 8
    saved(pusher)
    calendar.clock(-8)
    asked, taken = asked_by(calendar, reader.pull)
    assert asked == ["days", ""] and taken.checkpoints == {"sandbox": 1}


def test_a_look_gives_the_days_of_the_server_a_hint(pusher, reader, machine_of, calendar, url):
    calendar.day = 5
    saved(pusher)
    reader.pull()
    calendar.clock(-10)
    point = saved(machine_of("late"), by_hand=True)
    calendar.clock(0)
    asked, taken = asked_by(calendar, reader.pull)
    assert asked[0] == "days" and taken.checkpoints == {"late": 1} and point.id in reader.points()


def test_a_name_with_other_digits_asks_for_nothing(pusher, reader, machine_of, calendar, url):
    other = machine_of("other")
    calendar.day = 3
    saved(other)
    reader.pull()
    calendar.day = 4
    saved(pusher)
    (name,) = (Path(url.removeprefix("file://")) / "days" / "2024-10-08").iterdir()
    name.rename(name.with_name(name.name[:-1] + ("0" if name.name[-1] != "0" else "1")))
    asked, taken = asked_by(calendar, reader.pull)
    assert asked == ["days", other.chain()] and not taken.checkpoints


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_wherever_a_push_is_cut_no_piece_is_without_its_hint(pusher, reader, machine_of, calendar, after):
    calendar.day = 3
    saved(machine_of("other"))
    reader.pull()
    calendar.day = 4
    point, number = pusher.save({"a": b"news"}), 1
    while True:
        pusher.tampered = lambda found, number=number: Requests(calendar.of(found), stopping(number, after=after))
        try:
            pusher.push()
        except Stop:
            number += 1
        else:
            break
        asked, taken = asked_by(calendar, reader.pull)
        assert asked[0] == "days" and taken.problems == ()
        assert (point.id in reader.points()) == any(name.startswith(pusher.chain()) and time > BEGIN + 3.5 * DAY for name, time in calendar.times.items())
    assert number > 2
    reader.pull()
    assert point.id in reader.points()


def test_a_pull_that_is_cut_lists_the_same_days_again(pusher, reader, machine_of, calendar):
    calendar.day = 3
    point = saved(pusher)
    calendar.day = 6
    saved(machine_of("other"))
    for number in range(1, 4):
        reader.tampered = lambda found, number=number: Requests(calendar.of(found), stopping(number, after=True))
        with pytest.raises(Stop):
            reader.pull()
    reader.tampered = calendar.of
    assert reader.pull().problems == () and point.id in reader.points()


def test_what_could_not_be_taken_is_named_by_each_pull(pusher, reader, calendar, url):
    calendar.day = 3
    saved(pusher)
    (Path(url.removeprefix("file://")) / pusher.chain() / "0000000002-0000000002").write_bytes(b"CRR2 damaged")
    found = [reader.pull().problems]
    calendar.day = 6
    found.append(reader.pull().problems)
    assert len(found[0]) == 1 and found[0] == found[1]


def test_what_newest_left_unread_the_next_pull_takes(pusher, reader, calendar):
    calendar.day = 2
    points = [saved(pusher) for _ in range(3)]
    assert reader.pull(newest=True).checkpoints == {"sandbox": 1}
    calendar.day = 6
    asked, taken = asked_by(calendar, reader.pull)
    assert asked == ["days", pusher.chain()] and taken.checkpoints == {"sandbox": 2} and {point.id for point in points} <= set(reader.points())


def test_a_content_that_is_here_no_more_comes_from_the_pieces_before(pusher, reader, calendar):
    pusher.save({"kept": b"long ago" * 99})
    pusher.push()
    calendar.day = 1
    pusher.save({"kept": b"other"})
    pusher.push()
    reader.pull()
    with reader.open() as workspace:
        workspace.gc(Limits(None, 1, 0, None))
    calendar.day = 2
    point = pusher.save({"kept": b"long ago" * 99})
    pusher.push()
    asked, taken = asked_by(calendar, reader.pull)
    assert asked[:2] == ["days", pusher.chain()] and taken.problems == ()
    assert reader.tree(point.id) == pusher.tree(point.id)


def test_a_roll_up_over_what_was_read_hides_nothing(pusher, reader, calendar, monkeypatch):
    monkeypatch.setattr(collect, "EVERY", 4)
    for calendar.day in (1, 1.1, 1.2, 1.3, 1.4):
        point = saved(pusher)
    asked, taken = asked_by(calendar, reader.pull)
    assert asked[0] == "days" and taken.problems == () and point.id in reader.points()
    assert taken.checkpoints == {"sandbox": 5}
