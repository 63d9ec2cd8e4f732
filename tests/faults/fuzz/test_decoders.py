"""Decoders are given mutated real bytes: our own errors come out, within two seconds, in memory that is bounded.

The seeds (support/decoders.py) are what a store holds, a restore left in its middle among it, the recorded hooks and
transcripts, and configuration files.
"""

import random
import signal
import time
import tracemalloc
from contextlib import contextmanager

import pytest

from casrewind import config, errors
from support.decoders import seeds

WATCHDOG = 2
LONG = 480  # seconds


@contextmanager
def watched():
    """What takes longer than WATCHDOG seconds is stopped."""

    def ring(*_):
        raise AssertionError("no answer within the watchdog's time")

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, WATCHDOG)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def mutate(data, chance):
    data = bytearray(data)
    for _ in range(chance.choice((1, 1, 2, 4))):
        at = chance.randrange(len(data) + 1)
        how = chance.randrange(6)
        if how == 0 and at < len(data):
            data[at] ^= 1 << chance.randrange(8)
        elif how == 1:
            del data[at : at + chance.choice((1, 4, 1 << 20))]
        elif how == 2:
            data[at:at] = chance.randbytes(chance.randrange(1, 9))
        elif how == 3:  # a count or a length that claims far more than there is
            data[at : at + 4] = chance.choice((b"\xff\xff\xff\xff", b"\xff\xff\xff\x7f", b"\0\0\0\0"))
        elif how == 4:
            data[at:at] = data[at : at + chance.randrange(1, 400)] * chance.choice((1, 2, 8))
        else:
            data[at:at] = chance.choice((b"[" * 3000, b'{"a":' * 2000, b"9" * 5000, b"\xff\xfe", b"\0" * 64, b'"', b"\n", b"[["))
    return bytes(data)


def fuzz(found, count, until=None, seed=7):
    """Over the decoders by turns; (inputs, refused, largest part of the allowed memory)."""
    by_name = {}
    for name, decoder, data in found:
        by_name.setdefault(name, []).append((decoder, data))
    chance, done, refused, most = random.Random(seed), dict.fromkeys(by_name, 0), 0, 0.0

    tracemalloc.start()
    try:
        number = 0
        while number < count if until is None else time.monotonic() < until:
            name = list(by_name)[number % len(by_name)]
            decoder, real = chance.choice(by_name[name])
            data = mutate(real, chance)
            number += 1
            tracemalloc.reset_peak()
            held = tracemalloc.get_traced_memory()[0]
            try:
                with watched():
                    decoder(data)
            except errors.CasrewindError:
                refused += 1
            except BaseException as error:
                raise AssertionError(f"{name}, input {number}: {type(error).__name__}: {error}: {data[:300]!r}") from error
            peak = tracemalloc.get_traced_memory()[1] - held
            allowed = 20 * len(data) + (2 << 20)
            assert peak < allowed, (name, peak, len(data))
            most = max(most, peak / allowed)
            done[name] += 1
    finally:
        tracemalloc.stop()
    return done, refused, most


LENGTHS = {"digits": "9" * 60_000, "parts": "1d " * 20_000 + "x", "spaces": "5" + " " * 60_000 + "!"}


@pytest.mark.parametrize("what", LENGTHS)
@pytest.mark.parametrize("parse", [config.parse_age, config.parse_size])
def test_a_size_or_an_age_of_any_length_is_refused_at_once(parse, what):
    """Of 60 kB of digits that took a minute: the patterns try every start, or every split of the spaces."""
    with watched(), pytest.raises(errors.UsageError, match="retention"):
        parse(LENGTHS[what], "retention")


def said(done, refused, most):
    print(f"{sum(done.values())} mutated inputs over {len(done)} decoders, at least {min(done.values())} each: {refused} refused, "
          f"0 other exceptions; memory at most {most:.0%} of 20 x input + 2 MiB")


@pytest.mark.turns(2)
def test_decoders_refuse_or_answer(root, settings, tmp_path):
    done, refused, most = fuzz(seeds(root, settings, tmp_path / "files"), 2_500)
    said(done, refused, most)
    assert min(done.values()) > 60
    assert refused > 500


@pytest.mark.long
@pytest.mark.timeout(LONG + 120)
def test_decoders_for_eight_minutes(root, settings, tmp_path):
    said(*fuzz(seeds(root, settings, tmp_path / "files"), 0, time.monotonic() + LONG, seed=time.time_ns()))
