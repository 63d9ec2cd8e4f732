"""Substitutes for `typing`: its import costs a hook 12 ms.

A type checker sees the real `typing`. At run time `NamedTuple` makes what `collections.namedtuple` makes, in a quarter of the
time: a command makes some seventy. All other names are placeholders.
"""

__all__ = ["TYPE_CHECKING", "Any", "ClassVar", "Literal", "NamedTuple", "NoReturn", "Protocol", "TextIO", "TypeVar", "overload"]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, ClassVar, Literal, NamedTuple, NoReturn, Protocol, TextIO, TypeVar, overload
else:
    from _collections import _tuplegetter

    class _Placeholder:
        """A name in an annotation, perhaps with brackets. Annotations with `|` are quoted."""

        def __getitem__(self, _):
            return self

    Any = ClassVar = Literal = NoReturn = TextIO = _Placeholder()

    class Protocol:
        """The base class of a protocol. It has no run-time checks."""

    def TypeVar(name, *_, **__):
        """A placeholder for the type variable."""
        return _Placeholder()

    def overload(_):
        """The result is ignored: the implementation, defined last, replaces it."""

    class _Named(tuple):
        """What all named tuples can do."""

        __slots__ = ()

        @classmethod
        def _make(cls, values):
            made = tuple.__new__(cls, values)
            if len(made) != len(cls._fields):
                raise TypeError(f"Expected {len(cls._fields)} arguments, got {len(made)}")
            return made

        def _replace(self, /, **others):
            made = self._make(map(others.pop, self._fields, self))
            if others:
                raise ValueError(f"Got unexpected field names: {list(others)!r}")
            return made

        def _asdict(self):
            return dict(zip(self._fields, self, strict=True))

        def __repr__(self):
            values = ", ".join(f"{name}={value!r}" for name, value in zip(self._fields, self, strict=True))
            return f"{self.__class__.__name__}({values})"

        def __getnewargs__(self):
            return tuple(self)

    _makers = {}

    def _maker(fields, defaults):
        """The `__new__` of a named tuple. Only one for each number of fields is compiled: this takes most of the time."""
        made = _makers.get(len(fields))
        if made is None:
            values = "".join(f"_{number}, " for number in range(len(fields)))
            made = _makers[len(fields)] = eval(f"lambda _cls, {values}: new(_cls, ({values}))", {"new": tuple.__new__})  # noqa: S307 - of our own words
        code = made.__code__.replace(co_varnames=("_cls", *fields))
        return type(made)(code, made.__globals__, "__new__", tuple(defaults))

    _VALUE = 1
    """The annotations themselves: annotationlib.Format.VALUE."""

    class _NamedTupleType(type):
        def __new__(cls, name, bases, body):
            if not bases:
                return super().__new__(cls, name, bases, body)
            annotate = body.pop("__annotate_func__", None)
            if annotate is not None:  # from Python 3.14 on, a class body has a function in place of the annotations
                body["__annotations__"] = annotate(_VALUE)
            body.pop("__classdictcell__", None)  # what that function needs
            fields = tuple(body.get("__annotations__", ()))
            has_default = [field in body for field in fields]
            if has_default != sorted(has_default):
                raise TypeError(f"{name}: a field without a default follows a field with one")
            defaults = {field: body.pop(field) for field in fields if field in body}
            body.update({field: _tuplegetter(at, "") for at, field in enumerate(fields)})
            body.update(__slots__=(), __match_args__=fields, _fields=fields, _field_defaults=defaults)
            body["__new__"] = _maker(fields, defaults.values())
            return type(name, (_Named,), body)  # of a subclass with the methods alone, creating one is 50 % slower

    class NamedTuple(metaclass=_NamedTupleType):
        """The base class of a named tuple."""
