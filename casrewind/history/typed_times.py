"""Times as a person types them: 10m, 2h ago, 14:30, yesterday, 2026-11-20 18:00. Each is one moment in local time."""

import re
import time
from datetime import datetime, timedelta

_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}
_NAMES = {"sec": "s", "second": "s", "min": "m", "minute": "m", "hour": "h", "hr": "h", "day": "d", "week": "w"}
_AGE = re.compile(r"(?:(\d{1,9}) ?([a-z]+) ?)+?(?:ago)?", re.ASCII)
_PART = re.compile(r"(\d{1,9}) ?([a-z]+)", re.ASCII)
_CLOCK = re.compile(r"(\d{1,2}):(\d{2})(?::(\d{2}))?", re.ASCII)
_DATE = re.compile(r"(?:(today|yesterday)|(\d{4})-(\d{1,2})-(\d{1,2}))(?:[ tT]+(\d{1,2}:\d{2}(?::\d{2})?))?", re.ASCII)


def parse_moment(text: str, now_ns: int | None = None) -> int | None:
    """The moment that a text means, in nanoseconds since 1970; None if it is not a time.

    A time of day that has not come yet today is yesterday's. A day without a time of day means its end.
    """
    now = time.time_ns() if now_ns is None else now_ns
    age = _seconds_of_age(text)
    if age is not None:
        return now - age * 1_000_000_000
    here = datetime.fromtimestamp(now // 1_000_000_000).astimezone()
    try:
        if _CLOCK.fullmatch(text):
            found = _moment_on_day(here, text)
            return _since_1970(found if found <= here else _moment_on_day(here - timedelta(days=1), text))
        match = _DATE.fullmatch(text)
        if match is None:
            return None
        word, year, month, day, clock = match.groups()
        date = here - timedelta(days=word == "yesterday") if word else here.replace(year=int(year), month=int(month), day=int(day))
        return _since_1970(_moment_on_day(date, clock)) if clock else _since_1970(_moment_on_day(date + timedelta(days=1), "00:00")) - 1
    except (ValueError, OverflowError, OSError):
        return None  # 25:00, say, or the 31st of February


def _seconds_of_age(text: str) -> int | None:
    """The seconds in 10m, 1h30m, 2 hours ago; None for anything else."""
    if not _AGE.fullmatch(text):
        return None
    seconds = 0
    for number, word in _PART.findall(text.removesuffix("ago")):
        unit = word if word in _UNITS else _NAMES.get(word.removesuffix("s"), "")
        if not unit:
            return None
        seconds += int(number) * _UNITS[unit]
    return seconds


def _moment_on_day(day: datetime, clock: str) -> datetime:
    """A time of day on a day. The offset from UTC is that of the day. Raises ValueError."""
    hour, minute, second = (int(part) for part in f"{clock}:00".split(":")[:3])
    return datetime(day.year, day.month, day.day, hour, minute, second).astimezone()


def _since_1970(moment: datetime) -> int:
    return int(moment.timestamp()) * 1_000_000_000
