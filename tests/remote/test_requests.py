"""The table of requests in docs/internals/remote-format.md is true: each row is done, and its requests are counted by the objects."""

import re
from pathlib import Path

import pytest

from casrewind.remote import clone, collect, days, names, objects, own_chain, pull
from support.machines import Machine
from support.server_days import DAY, Calendar, crowd

pytest.importorskip("obstore")

TEXT = (Path(__file__).parents[2] / "docs" / "internals" / "remote-format.md").read_text(encoding="utf-8")
TABLE = TEXT.partition("| what is done | requests |")[2].partition("\n\n")[0]
ROWS = dict(re.findall(r"^\| ([^|]+) \| ([A-Z0-9, ]+) \|", TABLE, re.MULTILINE))


class Counted(Machine):
    """A machine whose requests are counted, work by work."""

    def counted(self, work):
        kept = []

        def keep(objects):
            kept.append(objects)
            return objects

        self.tampered = keep
        work()
        self.tampered = lambda objects: objects
        return in_words(kept[-1].requests)

    def push_named(self, given):
        with self.open() as workspace:
            return names.put_names(workspace._context, self.remote(workspace), given)


def count_clones(monkeypatch):
    """A function that does a work which clones, and returns the requests of that clone in words."""
    kept = []

    def keep(*arguments, **options):
        kept.append(objects.Objects(*arguments, **options))
        return kept[-1]

    def counted(work):
        work()
        return in_words(kept[-1].requests)

    monkeypatch.setattr(clone, "Objects", keep)
    return counted


def in_words(requests):
    return ", ".join(f"{verb} {number}" for verb, number in sorted(requests.items()) if number)


@pytest.fixture
def url(tmp_path):
    return f"file://{tmp_path}/bucket"


def push_of(machine, **options):
    def work():
        machine.save({"a": str(len(machine.points())).encode()})
        machine.push(**options)

    return machine.counted(work)


def test_every_row_of_the_table_is_what_is_counted(tmp_path, url, monkeypatch):
    machine = Counted.with_remote(tmp_path / "one", url)
    found = {"the first push of a store": push_of(machine), "a later push by itself": push_of(machine)}
    found["a push of a person"] = push_of(machine, by_hand=True)
    found["a push of a person without news"] = machine.counted(lambda: machine.push(by_hand=True))
    with monkeypatch.context() as patch:
        patch.setattr(own_chain, "is_due", lambda state: True)
        found["a push by itself after a day or 64 pieces"] = push_of(machine)
    reader = Counted.with_remote(tmp_path / "two", url, "laptop")
    found["a pull of a chain of four pieces"] = reader.counted(reader.pull)
    found["a pull without news"] = reader.counted(reader.pull)
    others = [Machine.with_remote(tmp_path / f"m{n}", url, f"m{n}") for n in range(2)]
    for one in others:
        one.save({"x": one.name.encode()})
        one.push()
    machine.save({"a": b"news"})
    machine.push()
    found["a pull with one new piece of three chains"] = reader.counted(reader.pull)
    clone = Counted(tmp_path / "three", url, "clone")
    made = machine.clone_to(tmp_path / "four", "clone", reference="sandbox-4")
    clone.root, clone.home, clone.settings = made.root, made.home, made.settings
    found["the first push of a clone of five pieces"] = push_of(clone)
    found["a push of a person in that clone"] = push_of(clone, by_hand=True)
    found |= rows_of_names(tmp_path / "named", monkeypatch)
    monkeypatch.setattr(collect, "EVERY", 6)
    found["a push that makes a roll-up of six pieces"] = push_of(machine)
    with monkeypatch.context() as patch:
        later = days.now_ns() + DAY
        patch.setattr(days, "now_ns", lambda: later)
        patch.setattr(own_chain, "is_due", lambda state: False)
        found["the first push of a later day, by itself"] = push_of(machine)
    found |= rows_beside_many_objects(tmp_path / "many", monkeypatch)
    print(found)
    assert found == ROWS


def rows_of_names(place, monkeypatch):
    """The rows of names, on a remote with six machines."""
    url, counted = f"file://{place}/bucket", count_clones(monkeypatch)
    place.mkdir()

    def cloned(name, **options):
        return counted(lambda: machine.clone_to(place / name, **options))

    machines = [Counted.with_remote(place / f"m{n}", url, f"m{n // 2}") for n in range(6)]
    for number, one in enumerate(machines):
        one.save({"x": b"%d" % number})
        one.push()
    machine = Counted.with_remote(place / "machine", url, "sandbox-4")
    for _ in range(4):
        push_of(machine)
    named = machine.counted(lambda: machine.push_named([names.base_of("base")]))
    found = {"a push with `--as` or `--meta`, beside that of a person": named}
    found["a clone of that base, of four pieces"] = cloned("base", reference="base")
    found["a clone by the machine's name, of four pieces"] = cloned("name", reference="sandbox-4")
    machine = machines[1]
    for _ in range(3):
        push_of(machine)
    found["a clone by the name of one of two machines"] = cloned("two", reference="m0")
    return found


def rows_beside_many_objects(place, monkeypatch):
    """The rows of pulls where a list of every object is long."""
    url, calendar, found = f"file://{place}/bucket", Calendar(monkeypatch), {}
    place.mkdir()

    def pull_of_three(everything):
        for one in machines[:3]:
            one.save({"x": b"%d" % calendar.day})
            one.push()
        return reader.counted(lambda: calendar_pull(everything))

    def calendar_pull(everything):
        with reader.open() as workspace:
            remote = reader.remote(workspace)
            return pull.pull(workspace._context, remote._replace(objects=calendar.of(remote.objects)), everything=everything)

    machines = [Machine.with_remote(place / f"m{n}", url, f"m{n}") for n in range(9)]
    crowd(url)
    for one in machines:
        one.tampered = calendar.of
        one.save({"x": one.name.encode()})
        one.push()
    reader = Counted.with_remote(place / "reader", url, "laptop")
    calendar_pull(False)
    calendar.day = 3
    pull_of_three(False)
    calendar.day = 6
    found["the same beside 5,000 objects, six chains of them without news"] = pull_of_three(False)
    calendar.day = 9
    found["that pull with `--all`"] = pull_of_three(True)
    return found
