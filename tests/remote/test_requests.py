"""The table of requests in docs/internals/remote-format.md is true: each row is done, and its requests are counted by the objects."""

import re
from pathlib import Path

import pytest

from casrewind.remote import collect, own_chain
from support.machines import Machine

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
        return ", ".join(f"{verb} {number}" for verb, number in sorted(kept[-1].requests.items()) if number)


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
    monkeypatch.setattr(collect, "EVERY", 6)
    found["a push that makes a roll-up of six pieces"] = push_of(machine)
    print(found)
    assert found == ROWS
