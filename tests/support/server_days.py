"""A remote whose server has a clock of its own, and machines whose clocks are wrong: no test waits for a day to pass."""

from contextlib import contextmanager
from pathlib import Path

from casrewind.remote import days
from support.machines import Machine

DAY = 86_400_000_000_000
BEGIN = 20_000 * DAY + 5
"""A moment in October 2024, from which on days are counted."""


class Calendar:
    """The days that pass, by the server's clock: `put_new` and `replace` note when an object was put, and a list says that."""

    def __init__(self, patch):
        self.day, self.times, self.asked, self.wrong = 0.0, {}, [], 0
        patch.setattr(days, "now_ns", lambda: self.now() + int(self.wrong * DAY))

    def now(self):
        return BEGIN + int(self.day * DAY)

    def clock(self, wrong):
        """The machine that works now has a clock that is wrong by so many days."""
        self.wrong = wrong

    def of(self, objects):
        return Dated(objects, self)


class Dated:
    """Objects of a remote whose server has the clock of a calendar."""

    def __init__(self, objects, calendar):
        self._objects, self._calendar = objects, calendar

    def __getattr__(self, name):
        return getattr(self._objects, name)

    def put_new(self, name, data):
        if is_new := self._objects.put_new(name, data):
            self._calendar.times[name] = self._calendar.now()
        return is_new

    def replace(self, name, data):
        self._objects.replace(name, data)
        self._calendar.times[name] = self._calendar.now()

    def list(self, prefix="", *rest):
        self._calendar.asked.append(prefix)
        times = self._calendar.times
        return [info._replace(modified_ns=times.get(info.name, BEGIN)) for info in self._objects.list(prefix, *rest)]


class Clocked(Machine):
    """A machine of such a remote, whose own clock is `wrong` by so many days."""

    def __init__(self, calendar, *arguments, **named):
        super().__init__(*arguments, **named)
        self.calendar, self.wrong, self.tampered = calendar, 0, calendar.of

    @contextmanager
    def open(self):
        before = self.calendar.wrong
        self.calendar.clock(self.wrong)
        try:
            with super().open() as workspace:
                yield workspace
        finally:
            self.calendar.clock(before)


def crowd(url):
    """5,000 objects that nobody lists but who lists every object."""
    place = Path(url.removeprefix("file://")) / "x"
    place.mkdir()
    for number in range(5000):
        (place / str(number)).touch()
