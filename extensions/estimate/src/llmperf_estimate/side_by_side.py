"""`llmperf estimate --on A,B,C`: one case on several machines, ranked."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from itertools import product
from math import inf
from pathlib import Path
from typing import Any

from llmperf import catalogued_names, planned_case
from llmperf.errors import LlmperfError, UserError
from llmperf.reporting import AMOUNT, PERCENT, Column, money, printable, rounded, sentence, word
from llmperf.types import Plan, PlannedCase
from llmperf_compare.cost import Costing
from llmperf_compare.page import MAX_LINE, Line, Page

from llmperf_estimate.any_model import SIZE
from llmperf_estimate.estimate import EstimateOptions, estimate
from llmperf_estimate.types import Estimate, ExpectedError

ALL = "all"
STAGES = (0, 1, 2, 3)
MOST_MICRO_BATCHES = 6
"""Sizes of micro batches that `--tuned` tries: 1, 2, 4, ..."""
AS_FAST = 0.99
"""Share of the highest throughput from which a tuning counts as fast."""
TIGHT = 0.05
"""Share of the memory that an estimate should leave free: so large is its error, and allocators fragment."""
MOST_NAMED = 3
"""Machines that a sentence names."""
GIB = 2**30


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """One machine, and the estimate of the case on it."""

    machine: str
    """As `--on` names it: `H800:1x8`."""
    settings: tuple[str, ...]
    """Tuning that was chosen for this machine, as `--set` takes it."""
    estimate: Estimate | None
    """None where the case cannot run, with its cost where that is known."""
    problem: str | None
    """The reason why there is no figure; None if there is one."""

    @property
    def speed(self) -> float | None:
        """Tokens per second of all devices together."""
        known = self.estimate
        if known is None or known.tokens_per_second_per_device is None:
            return None
        return known.tokens_per_second_per_device * known.layout.world_size


def machines(on: str) -> list[str]:
    """The machines of `--on A,B:1x8`, or of `all:1x8`; a name alone has the numbers of the next one, or 1x8."""
    named = [part.strip() for part in on.split(",")]
    if not all(named):
        raise UserError(f"--on {on}: expected MODEL:NODESxDEVICES, MODEL, ...; found an empty name")
    size, sized = SIZE, list[str]()
    for name in reversed(named):
        model, colon, own = name.rpartition(":")
        model, size = (model, own) if colon else (name, size)
        models = sorted(names[0] for names in catalogued_names()) if model == ALL else [model]
        sized += [f"{one}:{size}" for one in reversed(models)]
    return list(dict.fromkeys(reversed(sized)))


def side_by_side(
    options: dict[str, Any],
    on: str,
    how: EstimateOptions,
    costing: Costing | None,
    tuned: bool,
    progress: Callable[[str], None],
) -> list[Candidate]:
    """The case on each machine: the cheapest first where devices have prices, otherwise the fastest; then the others.

    Settings of overlays for single devices are set back; `tuned` takes the fastest tuning that fits, by formulas.
    """
    candidates = []
    for machine in machines(on):
        progress(f"estimating {machine}")
        try:
            candidates.append(_candidate(options, machine, how, costing, tuned, progress))
        except LlmperfError as error:
            if machine.rpartition(":")[0] in on:
                raise
            candidates.append(Candidate(machine=machine, settings=(), estimate=None, problem=str(error)))
    priced = costing is not None and costing.prices is not None

    def place(one: Candidate) -> tuple[float, float]:
        cost = None if one.estimate is None or one.estimate.cost is None else one.estimate.cost.cost_per_million_tokens
        return (inf if cost is None else cost) if priced else 0.0, -inf if one.speed is None else -one.speed

    return sorted(candidates, key=lambda one: (one.speed is None, *place(one)))


def _candidate(
    options: dict[str, Any],
    machine: str,
    how: EstimateOptions,
    costing: Costing | None,
    tuned: bool,
    progress: Callable[[str], None],
) -> Candidate:
    def planned(settings: Mapping[str, object]) -> PlannedCase:
        words = (f"{path}={'null' if value is None else str(value).lower()}" for path, value in settings.items())
        return planned_case({**options, "settings": (*options["settings"], *words)}, machine)

    case, settings = planned({}), dict[str, object]()
    if case.plan is not None:
        own = tuple(f"overlay {Path(path)}" for path in options["overlays"])
        changes = [one for one in case.plan.spec.changes if one.origin.startswith("overlay ")]
        back = {one.path: one.case_value for one in changes if not one.origin.startswith(own or ("-",))}
        if back:
            case = planned(back)
        if tuned and case.plan is not None:
            given = {setting.partition("=")[0].removeprefix("tuning.") for setting in options["settings"]}
            settings = _fastest(case.plan, lambda tuning: planned({**back, **tuning}), given, how)
            case = planned({**back, **settings})
    words = tuple(f"{path.removeprefix('tuning.')}={str(value).lower()}" for path, value in settings.items())
    made = estimate(case, how, progress)
    if made is None or case.plan is None:
        reason = "; ".join(problem.message for problem in case.problems[:1]) or "no plan"
        return Candidate(machine=machine, settings=words, estimate=None, problem=reason)
    if costing is not None:
        from llmperf_estimate.cost import cost_document, cost_rows_of

        rows = cost_rows_of(made, costing, case.plan.device_share, machine.rpartition(":")[0])
        made = replace(made, cost=None if made.fits is False else cost_document(rows))
    problem: str | None = made.time_problem
    if made.fits is False:
        total, capacity = max((stage.total_bytes, stage.capacity_bytes or 0) for stage in made.memory)
        nearest = made.nearest
        advice = f"; nearest that fits: --set {' --set '.join(nearest.settings)}" if nearest else ""
        problem = f"does not fit: {total / GIB:.1f} of {capacity / GIB:.1f} GiB{advice}"
    return Candidate(machine=machine, settings=words, estimate=made, problem=problem)


def _fastest(
    plan: Plan, planned: Callable[[Mapping[str, object]], PlannedCase], given: Set[str], how: EstimateOptions
) -> dict[str, object]:
    """Settings with which the case is fastest here and fits, otherwise smallest, by formulas; those in `given` stay.

    Of those that are as fast, the one with the least memory.
    """
    by_formulas, fitting = replace(how, analytic=True), list[tuple[float, int, dict[str, object]]]()
    least, smallest = inf, dict[str, object]()
    for stage, recomputes in product(STAGES, (False, True)):
        for size in (2**power for power in range(MOST_MICRO_BATCHES)):
            tuning = {"sharding_stage": stage, "gradient_checkpointing": recomputes, "micro_batch": size}
            changed = {
                f"tuning.{name}": value
                for name, value in tuning.items()
                if name not in given and value != getattr(plan.spec.tuning, name)
            }
            case = planned(changed)
            made = None if case.problems else estimate(case, by_formulas, lambda _: None)
            if made is None or made.tokens_per_second_per_device is None:
                if made is not None and (total := max(one.total_bytes for one in made.memory)) < least:
                    least, smallest = total, changed
                break  # a larger micro batch takes more memory
            fitting.append((made.tokens_per_second_per_device, max(one.total_bytes for one in made.memory), changed))
    if not fitting:
        return smallest
    best = max(speed for speed, _, _ in fitting)
    fast = [one for one in fitting if one[0] >= AS_FAST * best]
    return min(fast, key=lambda one: (one[1], -one[0]))[2]


def ranking_page(candidates: Sequence[Candidate], tuned: bool, language: str, electricity: bool = False) -> Page:
    """The ranked table, what it says in a sentence, and what is not known."""
    known = [one for one in candidates if one.problem is None and one.estimate is not None]
    titles = {"machine": 1, "tokens/s": 2, "expected": 3, "MFU": 6, "memory, GiB": 7, "days": 4, "cost": 2, "tuning": 5}
    wraps = {"machine": 16, "tuning": 20}
    columns = [Column(title="", importance=1, right=True)]
    columns += [
        Column(title=word(title, language), importance=place, right=title not in wraps, wraps=wraps.get(title))
        for title, place in titles.items()
    ]
    rows = [(str(place), *_cells(one, language)) for place, one in enumerate(known, 1)]
    kept = [place for place in range(len(columns)) if any(row[place] for row in rows)]
    reasons: dict[str, list[str]] = {}
    for one in candidates:
        if one.problem is not None:  # in words that are the same for other devices with the like
            model = one.machine.rpartition(":")[0] if one.estimate is None else one.estimate.device_model
            reason = str(one.problem).removeprefix(f"{model}: ").replace(repr(model), "it")
            reasons.setdefault(reason, []).append(one.machine)
    return Page(
        title=word("Estimates side by side", language),
        about=tuple(Line(text=text) for text in _about(candidates, tuned, language)),
        answers=tuple(Line(text=text) for text in _answers(known, candidates, tuned, language)),
        columns=tuple(columns[place] for place in kept),
        rows=tuple(tuple(row[place] for place in kept) for row in rows),
        warnings=tuple(
            Line(text=printable(f"{', '.join(machines)}: {reason}", MAX_LINE), tone="warning")
            for reason, machines in reasons.items()
        ),
        notes=tuple(Line(text=text) for text in _unknown(known, language, electricity)),
    )


def _cells(one: Candidate, language: str) -> Iterator[str]:
    """The cells of a row; empty where unknown."""
    made = one.estimate
    assert made is not None
    assert one.speed is not None
    error, cost = made.expected_error, made.cost
    yield _machine(made)
    yield f"{one.speed:,.0f}"
    if error is None:
        yield word("unknown", language)
    else:
        low, high = (f"{end:,.0f}" for end in error.throughputs(one.speed))
        yield sentence("{low} to {high}", language, low=low, high=high) + (" *" if error.outside else "  ")
    mfu = next((mfu.value for mfu in made.mfu if mfu.headline), None)
    yield "" if mfu is None else rounded(mfu, PERCENT)
    total, capacity = max((stage.total_bytes, stage.capacity_bytes) for stage in made.memory)
    known = {"used": f"{total / GIB:.0f}", "capacity": "?" if capacity is None else f"{capacity / GIB:.0f}"}
    tight = capacity is not None and total > (1 - TIGHT) * capacity
    yield sentence("{used} of {capacity}, tight" if tight else "{used} of {capacity}", language, **known)
    yield "" if cost is None or cost.train_seconds is None else rounded(cost.train_seconds / 86400, AMOUNT)
    if cost is None or cost.train_cost is None:
        yield ""
    else:
        yield money(cost.train_cost, cost.price_currency or "") + _around(error)
    yield " ".join(one.settings)


def _around(error: ExpectedError | None) -> str:
    return "" if error is None else f" +-{error.throughput_largest:.0%}"


def _machine(made: Estimate) -> str:
    return f"{made.layout.nodes} x {made.layout.devices_per_node} {made.device_model}"


def _about(candidates: Sequence[Candidate], tuned: bool, language: str) -> Iterator[str]:
    made = next((one.estimate for one in candidates if one.estimate is not None), None)
    if made is None:
        return
    contract, tuning = made.spec.contract, made.spec.tuning
    known = {name: getattr(contract, name) for name in ("model", "precision", "seq_len", "global_batch")}
    text = "{model}: {precision}, sequence {seq_len}, global batch {global_batch}; case {case}, framework {framework}"
    yield sentence(text, language, **known, case=made.spec.case, framework=tuning.framework)
    if tuned:
        text = "each machine at the fastest tuning that fits: sharding stage, recomputation, micro batch"
        yield word(text, language)
    else:
        recomputes = word("with recomputation" if tuning.gradient_checkpointing else "no recomputation", language)
        known = {"size": tuning.micro_batch, "recomputes": recomputes, "stage": tuning.sharding_stage}
        text = (
            "one tuning for all: micro batch {size}, {recomputes}, sharding stage {stage} (--tuned: each at its best)"
        )
        yield sentence(text, language, **known)
    if made.cost is not None and made.cost.train_tokens is not None:
        text = "a training of {tokens}B tokens; nothing fails, every step is as fast"
        yield sentence(text, language, tokens=f"{made.cost.train_tokens / 1e9:,g}")


def _answers(known: Sequence[Candidate], all_of: Sequence[Candidate], tuned: bool, language: str) -> Iterator[str]:
    """The first, and those that an estimate cannot tell from it."""
    if not known:
        yield word("no machine has a figure", language)
        return
    made = known[0].estimate
    assert made is not None
    cost = made.cost
    by_cost = cost is not None and cost.cost_per_million_tokens is not None
    priced = sum(one.estimate is not None and one.estimate.cost is not None
                 and one.estimate.cost.cost_per_million_tokens is not None for one in known)  # fmt: skip
    text = "cheapest: {machine}" if by_cost else "fastest: {machine}"
    if by_cost and priced < len(known):
        text = "cheapest of the {count} that have a price: {machine}"
    text = sentence(text, language, machine=_machine(made), count=priced)
    if cost is not None and cost.train_cost is not None and cost.train_seconds is not None:
        values = {
            "cost": money(cost.train_cost, cost.price_currency or ""),
            "days": f"{cost.train_seconds / 86400:,.3g}",
        }
        text += sentence(", {cost} and {days} days", language, **values)
    near = [_machine(other.estimate) for other in known[1:] if other.estimate and _overlap(known[0], other, by_cost)]
    if near:
        named = ", ".join(near[:MOST_NAMED])
        if len(near) > MOST_NAMED:
            named += sentence(" and {count} more", language, count=len(near) - MOST_NAMED)
        advice = "; the expected error is larger than its lead over {named}: measure both"
        several = "; the expected error is larger than its lead over {named}: measure them all"
        text += sentence(advice if len(near) == 1 else several, language, named=named)
    yield text
    if len(known) < len(all_of):
        one_tuning = "{count} of {all} machines have a figure with this tuning (--tuned: each at its best)"
        counted = "{count} of {all} machines have a figure" if tuned else one_tuning
        yield sentence(counted, language, all=len(all_of), count=len(known))


def _overlap(first: Candidate, other: Candidate, by_cost: bool) -> bool:
    """The figures of both may be equal at the expected errors of both."""
    ends = []
    for one, sign in ((first, 1), (other, -1)):
        made = one.estimate
        assert made is not None
        assert one.speed is not None
        if made.expected_error is None:
            return True
        figure = made.cost.cost_per_million_tokens if by_cost and made.cost is not None else 1 / one.speed
        if figure is None:
            return False
        ends.append(figure * max(0.0, 1 + sign * made.expected_error.throughput_largest))
    return ends[0] >= ends[1]


def _unknown(known: Sequence[Candidate], language: str, electricity: bool) -> Iterator[str]:
    """What is not known of these machines; `electricity` has a price."""
    made = [one.estimate for one in known if one.estimate is not None]
    errors = [one.expected_error for one in made if one.expected_error is not None]
    if outside := list(dict.fromkeys(name for error in errors for name in error.outside)):
        text = "* a larger error is likely, as no published throughput has {parts}: ask for a measurement"
        yield sentence(text, language, parts=", ".join(outside))
    if any(one.expected_error is not None and one.expected_error.method == "analytic" for one in made):
        yield word("by formulas: traces of the trainer's own step are closer (the same without --analytic)", language)
    costs = [(one.device_model, one.cost) for one in made if one.cost is not None]
    priced = [
        f"{device} {one.price:,g} {one.price_currency} ({one.price_source}, {one.price_date})"
        for device, one in costs
        if one.price is not None
    ]
    if priced:
        yield sentence("prices of a device for an hour: {prices}", language, prices="; ".join(priced))
    unpriced = [device for device, cost in costs if cost.price is None and cost.price_file is not None]
    if unpriced:
        values = {"devices": ", ".join(unpriced), "file": costs[0][1].price_file}
        yield sentence("no price of {devices} in {file}", language, **values)
    currencies = sorted({cost.price_currency for _, cost in costs if cost.price_currency is not None})
    if len(currencies) > 1:
        text = "costs in {currencies} are not converted: their order means nothing"
        yield sentence(text, language, currencies=", ".join(currencies))
    without, unused = (
        "energy is unknown: an estimate has none",
        "energy is unknown: an estimate has none, and the price of electricity is not used",
    )
    yield word(unused if electricity else without, language)
