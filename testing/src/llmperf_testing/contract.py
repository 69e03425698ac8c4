"""The checks as pytest classes to subclass; the one module of the kit that imports pytest."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

import pytest
from llmperf.errors import PluginError
from llmperf.hookspecs import Role

from llmperf_testing.check import Check, ContractError, Skip
from llmperf_testing.running import checks_of, subject_of
from llmperf_testing.subject import Subject


def _parameters(role: Role) -> list[object]:
    marks = {True: (pytest.mark.slow,), False: ()}
    return [pytest.param(one, id=one.name, marks=marks[one.slow]) for one in checks_of(role)]


def _make(check: Check, subject: Subject) -> None:
    try:
        subject.run(check.function)
    except Skip as reason:
        pytest.skip(str(reason))
    except ContractError as error:
        repeat = f"\nrepeat it with seed = {subject.seed}" if subject.seed is not None and check.slow else ""
        pytest.fail(f"{check.name}: {check.meaning}\n{error}{repeat}", pytrace=error.__cause__ is not None)


class _Contract:
    plugin: ClassVar[str]
    """Name of the plugin, as its entry point has it."""
    role: ClassVar[Role]
    options: ClassVar[tuple[str, ...]] = ()
    """Class attributes that are arguments of `subject_of`."""

    @pytest.fixture(scope="class")
    @classmethod
    def subject(cls) -> Iterator[Subject]:
        """The installed plugin; all checks of a class share what is found out about it."""
        name = getattr(cls, "plugin", None)
        if not isinstance(name, str):
            pytest.fail(f'{cls.__name__}: expected plugin = "the name of the plugin"', pytrace=False)
        try:
            subject = subject_of(cls.role, name, **{name: getattr(cls, name) for name in cls.options})
        except PluginError as error:
            pytest.fail(str(error), pytrace=False)
        with subject:
            yield subject


class VendorContract(_Contract):
    """Contract of vendor plugins: subclass it and set `plugin`."""

    role = "vendor"

    @pytest.mark.parametrize("check", _parameters("vendor"))
    def test_contract(self, check: Check, subject: Subject) -> None:
        """One check."""
        _make(check, subject)


class FrameworkContract(_Contract):
    """Contract of framework plugins: subclass it and set `plugin`. Checks that train are marked `slow`."""

    role = "framework"
    options = ("vendor", "settings", "case", "reference", "seed")
    vendor: ClassVar[str | None] = None
    """Whose devices it is tried on; the best here if None."""
    settings: ClassVar[tuple[str, ...]] = ()
    """`PATH=VALUE` that the case needs with this plugin."""
    case: ClassVar[str | None] = None
    """Name or file of the case that is trained; a small Llama that is drawn if None."""
    reference: ClassVar[str | None] = None
    """Framework whose losses must be the same; only those of the NumPy reference are compared if None."""
    seed: ClassVar[int | None] = None
    """Seed of model, data and contract; drawn if None, and shown where a check fails."""

    @pytest.mark.parametrize("check", _parameters("framework"))
    def test_contract(self, check: Check, subject: Subject) -> None:
        """One check."""
        _make(check, subject)
