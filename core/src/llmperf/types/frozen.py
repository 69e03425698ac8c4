"""`dataclass` for the types of documents: as of the standard library, and made when its class is first used.

The standard library compiles six methods of each class, a quarter of the time of `llmperf validate FILE`. Here all
classes share these methods, and a class gets its constructor and its fields from the standard library when one of them
is first asked for. A constructor takes longer, so that modules whose objects are created in every step, such as
`llmperf.types.records`, use the decorator of the standard library.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass
else:
    import dataclasses
    from functools import partial
    from operator import attrgetter

    def dataclass(*, frozen, slots, kw_only=False):
        """Decorator of frozen classes with slots, without dataclasses as bases."""
        assert frozen
        assert slots

        def decorated(cls):
            body = {name: value for name, value in vars(cls).items() if name not in ("__dict__", "__weakref__")}
            names = tuple(body.get("__annotations__", ()))
            others = {name: value for name, value in body.items() if name not in names}
            made = type(cls)(cls.__name__, cls.__bases__, {**others, **_METHODS, "__slots__": names})

            def settle(init=False):
                kind = type(cls)(cls.__name__, cls.__bases__, dict(body))
                kind = dataclasses.dataclass(init=init, eq=False, repr=False, frozen=True, kw_only=kw_only)(kind)
                kind._compared = attrgetter(*(field.name for field in dataclasses.fields(kind) if field.compare))
                kind.__signature__ = None  # that of the constructor
                for name in ("__init__", "__signature__", *_LATER) if init else _LATER:
                    setattr(made, name, vars(kind)[name])

            def construct(self, *values, **fields):
                settle(init=True)
                made.__init__(self, *values, **fields)

            made.__init__ = construct
            for name in _LATER:
                setattr(made, name, _Later(name, settle))
            made.__signature__ = _Later("__signature__", partial(settle, init=True))
            return made

        return decorated

    class _Later:
        """An attribute of a class that is set when it is first read."""

        def __init__(self, name, settle):
            self.name = name
            self.settle = settle

        def __get__(self, instance, owner):
            self.settle()
            return getattr(owner, self.name)

    def _set(self, name, value):
        """Set a field once, as unpickling does."""
        if hasattr(self, name):
            raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")
        object.__setattr__(self, name, value)

    def _delete(self, name):
        raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")

    def _equal(self, other):
        if other.__class__ is not self.__class__:
            return NotImplemented
        return self._compared(self) == other._compared(other)

    def _hash(self):
        return hash(self._compared(self))

    def _text(self):
        values = (f"{field.name}={getattr(self, field.name)!r}" for field in dataclasses.fields(self) if field.repr)
        return f"{self.__class__.__qualname__}({', '.join(values)})"

    _METHODS = {"__setattr__": _set, "__delattr__": _delete, "__eq__": _equal, "__hash__": _hash, "__repr__": _text}
    _LATER = ("__dataclass_fields__", "__dataclass_params__", "_compared")
