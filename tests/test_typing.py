"""Named tuples without typing: what they do, `typing.NamedTuple` does."""

import copy
import pickle
import typing

import pytest

from casrewind import _typing


class Ours(_typing.NamedTuple):
    """What it is."""

    kind: int
    new: str = "a"
    under: _typing.Any = None

    def twice(self):
        return self.kind * 2

    @property
    def other(self):
        return self._replace(kind=9)

    @classmethod
    def of(cls, number):
        return cls(number, under="of")


class Heir(Ours):
    """One more."""

    def twice(self):
        return super().twice() + 1


Theirs = typing.NamedTuple("Ours", [("kind", int), ("new", str), ("nothing", typing.Any)])
Theirs.__new__.__defaults__ = ("a", None)


def outcome(work):
    try:
        return work()
    except (TypeError, ValueError) as error:
        return type(error)


@pytest.mark.parametrize(
    "arguments, named",
    [((1,), {}), ((1, "b"), {}), ((), {"kind": 3}), ((1,), {"new": "c"}), ((), {}), ((1, 2, 3, 4), {}), ((1,), {"kind": 2}), ((1,), {"x": 2})],
)
def test_they_are_made_or_refused_alike(arguments, named):
    mine, other = outcome(lambda: Ours(*arguments, **named)), outcome(lambda: Theirs(*arguments, **named))
    assert mine == other and type(mine) in (Ours, type)


def test_they_are_tuples_with_names():
    one = Ours(1)
    assert one == (1, "a", None) and isinstance(one, tuple) and hash(one) == hash((1, "a", None)) and (one.kind, one.new, one.under) == one
    assert repr(one) == "Ours(kind=1, new='a', under=None)" and Ours.__doc__ == "What it is." and type(Ours) is type
    assert one._replace(new="z") == (1, "z", None) and one._asdict() == {"kind": 1, "new": "a", "under": None} and Ours._make("abc") == ("a", "b", "c")
    assert Ours._fields == ("kind", "new", "under") == Ours.__match_args__ and Ours._field_defaults == {"new": "a", "under": None}
    assert one.twice() == 2 and one.other.kind == 9 and Ours.of(4) == (4, "a", "of") and Ours.__annotations__["kind"] is int
    with pytest.raises(AttributeError):
        one.kind = 2
    with pytest.raises(AttributeError):
        one.more = 2
    for wrong in (lambda: one._replace(x=1), lambda: Ours._make("ab")):
        with pytest.raises((TypeError, ValueError)):
            wrong()
    match one:
        case Ours(kind, new):
            assert (kind, new) == (1, "a")


def test_they_are_copied_and_inherited_from():
    assert copy.copy(Ours(1)) == Ours(1) == pickle.loads(pickle.dumps(Ours(1)))
    heir = Heir(3)
    assert (heir.twice(), type(heir), type(heir._replace(new="x")), Heir.of(2)) == (7, Heir, Heir, (2, "a", "of"))


def test_a_field_without_a_default_behind_one_that_has_it_is_refused():
    with pytest.raises(TypeError):

        class _(_typing.NamedTuple):
            one: int = 1
            two: int


def test_annotations_that_are_a_function_are_the_fields():
    """As Python 3.14 gives them; this test runs on every Python."""
    body = {"__annotate_func__": lambda format: {"kind": int, "new": str} if format == 1 else None, "new": "a", "__classdictcell__": None}
    late = type(_typing.NamedTuple)("Late", (_typing.NamedTuple,), body)
    assert late(1) == (1, "a") and late._fields == ("kind", "new") and late.__annotations__ == {"kind": int, "new": str}
    assert not hasattr(late, "__classdictcell__")
