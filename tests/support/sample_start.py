"""What a sample has in it, the product's own bytes decide: a push looks at other places after every change of the product,
and at the same ones for the same product."""

import functools
import hashlib
import sys
import zlib
from pathlib import Path

import pytest

takes_all = False
"""tests/conftest.py sets it before it collects."""
PRODUCT = Path(__file__).resolve().parents[2] / "casrewind"


@functools.cache
def _number():
    seed = hashlib.sha256()
    for path in sorted(PRODUCT.rglob("*.py")):
        seed.update(path.read_bytes())
    return int.from_bytes(seed.digest()[:8], "big")


def start_below(limit):
    """A number from 0 to below `limit`."""
    return _number() % limit


def is_its_turn(name, place, turns):
    """True if a push runs this case of a test that takes turns: the one at this place of several. Tests of other names have other turns. The
    upper half of the number says it: what a test draws with `start_below` has the lower one, and each choice meets each turn."""
    return (_number() // 2**32 + zlib.crc32(name.encode()) + place) % turns == 0


def examples(number):
    """How many examples Hypothesis makes: `--run-long` has all, a push a third."""
    return number if takes_all else -(-number // 3)


def some(values, number):
    """`number` values that follow each other, other ones after every change of the product; with `--run-long` all."""
    start = 0 if takes_all else start_below(len(values))
    return values if takes_all else [values[(start + place) % len(values)] for place in range(number)]


def marks_of(name, names, number):
    """The marks of a module or a test that is called `name`: a push runs `number` of `names`, others after a change of the product."""
    return [] if name in some(names, number) else [pytest.mark.long]


def by_turns(values, number):
    """Values to parametrise with: a push takes `number` that follow each other, `--run-long` takes all."""
    start = start_below(len(values))
    return [
        pytest.param(*value, marks=[pytest.mark.long] if (place - start) % len(values) >= number else [])
        for place, value in enumerate(value if isinstance(value, tuple) else (value,) for value in values)
    ]


def crossed(values, ways):
    """(value, way) to parametrise with: a push takes each value in one of the ways, in another one after a change of the product;
    `--run-long` takes each in all."""
    start = start_below(len(ways))
    return [
        pytest.param(*(value if isinstance(value, tuple) else (value,)), way, marks=[] if (number + place - start) % len(ways) == 0 else [pytest.mark.long])
        for number, value in enumerate(values)
        for place, way in enumerate(ways)
    ]


if __name__ == "__main__":  # for .ci/run: every Nth test module of some directories
    modules = sorted(str(module) for place in sys.argv[2:] for module in Path(place).rglob("test_*.py"))
    print("\n".join(modules[start_below(int(sys.argv[1])) :: int(sys.argv[1])]))
