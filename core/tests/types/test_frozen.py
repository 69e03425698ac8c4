"""The decorator of documents' types behaves as that of the standard library."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import pickle
import typing

import msgspec
import pytest
from llmperf.types.frozen import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Ours:
    """A type."""

    first: int
    second: tuple[str, ...] = ()
    third: typing.Mapping[str, int] | None = dataclasses.field(default=None, compare=False, repr=False)


def test_values_decide_equality_hash_and_text_and_nothing_can_be_changed():
    one = Ours(first=1, second=("a",), third={"b": 2})
    assert one == Ours(first=1, second=("a",)) != Ours(first=2, second=("a",))
    assert one != (1, ("a",), None)
    assert len({one, Ours(first=1, second=("a",)), Ours(first=2)}) == 2
    assert repr(one) == "Ours(first=1, second=('a',))"
    assert one == copy.deepcopy(one) == pickle.loads(pickle.dumps(one)) == dataclasses.replace(one)
    assert msgspec.convert(msgspec.to_builtins(one), Ours) == one
    for change in (lambda: setattr(one, "first", 2), lambda: delattr(one, "first")):
        with pytest.raises(dataclasses.FrozenInstanceError):
            change()
    with pytest.raises((AttributeError, TypeError)):
        one.fourth = 4
    with pytest.raises(TypeError):
        Ours(1)


def test_a_frozen_dataclass_derives_from_it():
    @dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
    class Derived(Ours):
        fourth: int

    one = Derived(first=1, fourth=4)
    assert one == Derived(first=1, fourth=4) != Derived(first=1, fourth=5)
    with pytest.raises(dataclasses.FrozenInstanceError):
        one.fourth = 5


def test_the_signature_is_that_of_the_fields():
    parameters = inspect.signature(Ours).parameters.values()
    assert [(each.name, each.kind) for each in parameters] == [
        (name, inspect.Parameter.KEYWORD_ONLY) for name in ("first", "second", "third")
    ]
