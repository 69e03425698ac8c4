"""The decorator of documents' types behaves as that of the standard library."""

from __future__ import annotations

import copy
import dataclasses
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


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Theirs:
    """The same type by the standard library."""

    first: int
    second: tuple[str, ...] = ()
    third: typing.Mapping[str, int] | None = dataclasses.field(default=None, compare=False, repr=False)


@pytest.mark.parametrize("kind", [Ours, Theirs])
def test_values_decide_equality_hash_and_text(kind):
    one = kind(first=1, second=("a",))
    assert one == kind(first=1, second=("a",), third={"b": 2})
    assert one != kind(first=2, second=("a",))
    assert one != (1, ("a",), None)
    assert len({one, kind(first=1, second=("a",)), kind(first=2)}) == 2
    assert repr(one) == f"{kind.__name__}(first=1, second=('a',))"
    assert str(dataclasses.asdict(one)) == "{'first': 1, 'second': ('a',), 'third': None}"


@pytest.mark.parametrize("kind", [Ours, Theirs])
def test_nothing_can_be_changed(kind):
    one = kind(first=1)
    for change in (lambda: setattr(one, "first", 2), lambda: delattr(one, "first")):
        with pytest.raises(dataclasses.FrozenInstanceError):
            change()
    with pytest.raises((AttributeError, TypeError)):
        one.fourth = 4
    with pytest.raises(TypeError):
        kind(1)
    assert one == kind(first=1)


@pytest.mark.parametrize("kind", [Ours, Theirs])
def test_copies_are_equal(kind):
    one = kind(first=1, second=("a",), third={"b": 2})
    assert one == copy.deepcopy(one) == pickle.loads(pickle.dumps(one)) == dataclasses.replace(one)
    assert msgspec.convert(msgspec.to_builtins(one), kind) == one
    assert dataclasses.replace(one, first=3).first == 3


@pytest.mark.parametrize("kind", [Ours, Theirs])
def test_a_frozen_dataclass_derives_from_it(kind):
    @dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
    class Derived(kind):
        fourth: int

    one = Derived(first=1, fourth=4)
    assert one == Derived(first=1, fourth=4) != Derived(first=1, fourth=5)
    with pytest.raises(dataclasses.FrozenInstanceError):
        one.fourth = 5
