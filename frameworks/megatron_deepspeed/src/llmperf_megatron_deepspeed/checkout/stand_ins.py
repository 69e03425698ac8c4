"""Stand-ins for modules that the script imports and a language model does not use."""

from __future__ import annotations

import importlib
import sys
from contextlib import suppress
from importlib.machinery import ModuleSpec
from types import ModuleType

UNUSED = (
    "torchvision",
    "torchvision.transforms",
    "torchvision.datasets",
    "deepspeed.compression",
    "deepspeed.compression.compress",
)
"""torchvision is for its image models; DeepSpeed 0.19.7 took `compress` out."""


class StandIn(ModuleType):
    """A module in which every name is a class that cannot be made."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.__spec__ = ModuleSpec(name, None)
        self.__path__: list[str] = []

    def __getattr__(self, name: str) -> type:
        if name.startswith("__"):
            raise AttributeError(name)
        return type(name, (_Missing,), {"__module__": self.__name__})


class _Missing:
    def __init__(self, *_: object, **__: object) -> None:
        kind = type(self)
        raise ImportError(f"{kind.__module__}.{kind.__name__} is not installed here, and a language model needs none")


def provide() -> list[str]:
    """Put a stand-in wherever one of `UNUSED` is not installed; what is there stays. Returns the names replaced."""
    with suppress(ImportError):
        importlib.import_module("transformers")  # before it can take a stand-in for the real torchvision
    replaced = []
    for name in UNUSED:
        try:
            importlib.import_module(name)
        except ImportError:
            sys.modules[name] = StandIn(name)
            parent, _, child = name.rpartition(".")
            if parent:
                setattr(sys.modules[parent], child, sys.modules[name])
            replaced.append(name)
    return replaced
