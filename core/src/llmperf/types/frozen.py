"""`dataclass` for the types of documents: that of the standard library, made in a third of the time.

The standard library compiles six methods of each class, a quarter of the time of `llmperf validate FILE`. Here only
the constructor is compiled; all classes share the other methods. A constructor takes longer, so that modules whose
objects are created in every step, such as `llmperf.types.records`, use the decorator of the standard library.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass
else:
    import dataclasses
    from operator import attrgetter

    def dataclass(*, frozen, slots, kw_only):
        """Decorator of frozen classes with slots and keyword-only fields, without dataclasses as bases."""
        assert all((frozen, slots, kw_only))

        def decorated(cls):
            for name, method in _METHODS.items():
                setattr(cls, name, method)
            cls = dataclasses.dataclass(eq=False, repr=False, slots=True, kw_only=True)(cls)
            cls.__dataclass_params__.frozen = True  # for dataclasses derived from it
            cls._compared = attrgetter(*(field.name for field in dataclasses.fields(cls) if field.compare))
            return cls

        return decorated

    def _set(self, name, value):
        """Set a field once, as the constructor and unpickling do."""
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
