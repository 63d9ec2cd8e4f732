"""What modules take from `typing`, without importing it: that import costs a hook 12 ms, for names that only a type checker reads.

A type checker sees the names of `typing`. At run time `NamedTuple` makes a `collections.namedtuple`, and every other name is a
placeholder.
"""

__all__ = ["TYPE_CHECKING", "Any", "ClassVar", "Literal", "NamedTuple", "NoReturn", "Protocol", "TextIO", "TypeVar", "overload"]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, ClassVar, Literal, NamedTuple, NoReturn, Protocol, TextIO, TypeVar, overload
else:
    from collections import namedtuple

    class _Placeholder:
        """A name in an annotation, which is never evaluated for its meaning."""

        def __getitem__(self, _):
            return self

        def __or__(self, _):
            return self

        __ror__ = __or__

    Any = ClassVar = Literal = NoReturn = TextIO = _Placeholder()

    class Protocol:
        """The base class of a protocol, which is never asked whether an object follows it."""

    def TypeVar(name, *_, **__):
        """A placeholder for the type variable."""
        return _Placeholder()

    def overload(_):
        """No function: the implementation, defined last, takes the name."""

    class _NamedTupleType(type):
        def __new__(cls, name, _, body):
            fields = list(body.get("__annotations__", ()))
            has_default = [field in body for field in fields]
            if has_default != sorted(has_default):
                raise TypeError(f"{name}: a field without a default follows a field with one")
            made = namedtuple(name, fields, defaults=[body.pop(field) for field in fields if field in body])
            for key, value in body.items():  # into the class itself: a subclass of it takes half as long again to make
                setattr(made, key, value)
            return made

    class _NamedTupleBase:
        def __mro_entries__(self, _):
            return (type.__new__(_NamedTupleType, "NamedTuple", (), {}),)

    NamedTuple = _NamedTupleBase()
