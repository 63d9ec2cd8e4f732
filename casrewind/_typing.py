"""Substitutes for `typing`: its import costs a hook 12 ms.

A type checker sees the real `typing`. At run time `NamedTuple` makes a `collections.namedtuple`, and all other names
are placeholders.
"""

__all__ = ["TYPE_CHECKING", "Any", "ClassVar", "Literal", "NamedTuple", "NoReturn", "Protocol", "TextIO", "TypeVar", "overload"]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, ClassVar, Literal, NamedTuple, NoReturn, Protocol, TextIO, TypeVar, overload
else:
    from collections import namedtuple

    class _Placeholder:
        """A name in an annotation, perhaps with brackets. Annotations with `|` are quoted."""

        def __getitem__(self, _):
            return self

    Any = ClassVar = Literal = NoReturn = TextIO = _Placeholder()

    class Protocol:
        """The base class of a protocol. It has no run-time checks."""

        def __class_getitem__(cls, _):
            return cls

    def TypeVar(name, *_, **__):
        """A placeholder for the type variable."""
        return _Placeholder()

    def overload(_):
        """The result is ignored: the implementation, defined last, replaces it."""

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
            fields = list(body.get("__annotations__", ()))
            has_default = [field in body for field in fields]
            if has_default != sorted(has_default):
                raise TypeError(f"{name}: a field without a default follows a field with one")
            made = namedtuple(name, fields, defaults=[body.pop(field) for field in fields if field in body])
            for key, value in body.items():  # set on the class itself: creating a subclass is 50 % slower
                setattr(made, key, value)
            return made

    class NamedTuple(metaclass=_NamedTupleType):
        """The base class of a named tuple."""
