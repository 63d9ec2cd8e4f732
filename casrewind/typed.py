"""What modules take from `typing`, without it: importing that, and having it make named tuples, is a sixth of an unchanged save.

The danger prevented here: a hook that is felt, for the sake of names that only a type checker reads. A type checker sees the real
ones. What runs is a named tuple with the methods of `collections.namedtuple`, whose constructor is compiled when many were made
(of most kinds that a command imports there are none, or a few), and nothing behind all else.
"""

__all__ = ["TYPE_CHECKING", "Any", "ClassVar", "Literal", "NamedTuple", "NoReturn", "Protocol", "TextIO", "TypeVar", "overload"]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, ClassVar, Literal, NamedTuple, NoReturn, Protocol, TextIO, TypeVar, overload
else:
    from _collections import _tuplegetter

    class _Nothing:
        """A name of which nothing is asked but to stand there."""

        def __getitem__(self, _):
            return self

        def __or__(self, _):
            return self

        __ror__ = __or__

    Any = ClassVar = Literal = NoReturn = TextIO = _Nothing()

    _MANY = 500
    """Named tuples of one kind from which a constructor of its own is worth compiling."""

    class Protocol:
        """A class of which only the type checker knows what it asks for."""

    def TypeVar(name, *_, **__):
        """A name of which only the type checker knows what it stands for."""
        return _Nothing()

    def overload(_):
        """A signature that only the type checker reads."""

    def _constructor(kind):
        """`__new__` of a kind of named tuple, with its fields' names and defaults, as a function that calls the tuple's own."""
        names = ", ".join(kind._fields)
        known = {"_new_": tuple.__new__, "__builtins__": {}, "__name__": f"casrewind_{kind.__name__}"}
        code = f"lambda _kind_, {names}: _new_(_kind_, ({names}{',' if names else ''}))"
        new = eval(code, known)  # the names are those of a class body, and none is ours
        new.__defaults__ = tuple(kind._field_defaults.values()) or None
        new.__name__ = new.__qualname__ = "__new__"
        return new

    def _slowly(fields, defaults):
        """`__new__` of a kind of which only a few are made: to compile one takes as long as some hundred calls of this."""
        made = 0

        def __new__(kind, /, *values, **named):  # noqa: N807
            nonlocal made
            made += 1
            if made == _MANY:
                _compile(kind)
            left = fields[len(values) :]
            if left:
                known = {**defaults, **named}
                values += tuple([known[field] for field in left if field in known])
                named = {name: value for name, value in named.items() if name not in left}
            if named or len(values) != len(fields):
                raise TypeError(f"{kind.__name__} has the fields {', '.join(fields)}")
            return tuple.__new__(kind, values)

        return __new__

    def _compile(kind):
        """Have what is made from now on made by a constructor of its own."""
        owner = next(base for base in kind.__mro__ if "_field_defaults" in base.__dict__)
        owner.__new__ = staticmethod(_constructor(owner))

    def _make(kind, values):
        """One of an iterable of values. Raises TypeError for another number of them."""
        made = tuple.__new__(kind, values)
        if len(made) != len(kind._fields):
            raise TypeError(f"{kind.__name__} has {len(kind._fields)} fields, not {len(made)}")
        return made

    def _replace(self, /, **changes):
        """The same with other values. Raises ValueError for a name that is no field's."""
        made = self._make(map(changes.pop, self._fields, self))
        if changes:
            raise ValueError(f"{type(self).__name__} has no such fields: {', '.join(changes)}")
        return made

    def _asdict(self):
        return dict(zip(self._fields, self, strict=True))

    def _repr(self):
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in zip(self._fields, self, strict=True))})"

    class _Kind(type):
        def __new__(cls, name, _, body):
            fields = tuple(body.get("__annotations__", ()))
            defaults = {field: body.pop(field) for field in fields if field in body}
            if fields[len(fields) - len(defaults) :] != tuple(defaults):
                raise TypeError(f"{name}: a field without a default behind one that has it")
            body |= {field: _tuplegetter(at, None) for at, field in enumerate(fields)}
            ours = {
                "__slots__": (), "_fields": fields, "_field_defaults": defaults, "__match_args__": fields,
                "__new__": _slowly(fields, defaults), "_compile": classmethod(_compile),
                "_make": classmethod(_make), "_replace": _replace, "_asdict": _asdict, "__getnewargs__": lambda self: tuple(self),
            }  # fmt: skip
            body.setdefault("__repr__", _repr)
            return type(name, (tuple,), body | ours)

    class _Parent:
        """What stands between the brackets of a class statement."""

        def __mro_entries__(self, _):
            return (type.__new__(_Kind, "NamedTuple", (), {}),)

    NamedTuple = _Parent()


def compile_all(package: str) -> None:
    """Compile the constructors of all named tuples in the modules of a package: for who forks, so that no fork has to."""
    for kind in tuple.__subclasses__():
        if kind.__module__.startswith(package) and hasattr(kind, "_compile"):
            kind._compile()  # noqa: SLF001 - ours
