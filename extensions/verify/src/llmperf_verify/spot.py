"""The spot check: losses of single sequences of step 1, computed from the plan alone and held against the records.

Initial weights are functions of seed, name and index, and so are the data of step 1. Anyone can compute the first loss
of a run of any size without its machine: forward only, on a CPU, one block of weights in memory.
"""

from __future__ import annotations

import math
import os
import random
import secrets
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np
from llmperf import check_model, count_parameters, decode, load_plan, open_batches, recorded
from llmperf.errors import LlmperfError
from llmperf.types import FurtherRecord, Plan, Result, StepRecord, Text
from llmperf.types.records import Record
from numpy.typing import NDArray

from llmperf_verify.documents import PLAN, Impossible, own_data
from llmperf_verify.first_losses import IGNORED, SequencesRecord
from llmperf_verify.verification import LevelCheck, Outcome

Figures = Mapping[str, float | int | str | None]

MOST_HOURS = 200
"""A check that would take longer is refused."""
MEMORY_SHARE = 0.8
"""Part of the host's memory that the check may take."""
SHOWN_SECONDS = 5.0
"""Progress of checks that are expected to take longer is shown, as often as this at most."""
FEWEST_FOR_MEAN = 4
"""Sequences from which the mean difference has a bound of its own."""
MEASURED_TOKENS = 128
"""Tokens of the sequences that bounds were measured with. Differences of shorter ones grow as 1 / sqrt(tokens)."""


BOUNDS = {
    "fp32": (5e-5, 1e-4),
    "tf32": (5e-4, 4e-3),
    "fp16": (5e-4, 4e-3),
    "bf16": (2e-3, 8e-3),
    "bf16_pure": (2e-3, 8e-3),
    "fp8_tensorwise": (2e-2, 4e-2),
    "fp8_rowwise": (2e-2, 4e-2),
    "fp8_blockwise": (2e-2, 4e-2),
}
"""Largest differences of a sequence's loss, in nats per token, by recipe: of dense models and of mixtures whose tokens
take experts by a table, and of mixtures with learned routing, where a rounded score sends some tokens to other experts.
tf32 rounds operands to as many digits as fp16."""


class Refuted(LlmperfError):
    """The records cannot be those of the plan."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Chosen:
    """A sequence of step 1."""

    rank: int
    """Data-parallel rank."""
    index: int
    """Among the sequences of that rank, by micro step, then row."""


def spot_check(
    folder: Path,
    result: Result,
    sequences: int = 3,
    *,
    seed: int | None = None,
    show: Callable[[str], None] | None = None,
) -> LevelCheck:
    """Check so many sequences of step 1 of a run folder, drawn over the data-parallel ranks, as `seed` repeats it."""
    from llmperf_verify.reference.decoder import pass_bytes

    seed = secrets.randbits(32) if seed is None else seed
    show = show or partial(print, file=sys.stderr, flush=True)
    figures: Figures = {"seed": seed}
    outcome: Outcome
    try:
        plan = load_plan(folder)
        _check_possible(plan, result)
        recorded = recorded_losses(folder, plan)
        chosen = choose(plan, sequences, seed)
        model, contract = plan.spec.model, plan.spec.contract
        needed, present = pass_bytes(model, len(chosen), contract.seq_len, np.float32), memory_bytes()
        if needed > MEMORY_SHARE * present:
            fewer = "" if len(chosen) == 1 else "; fewer sequences need less"
            template = (
                "{} sequences of {} tokens of {} need about {:,.0f} GiB of memory, of which this machine has {:,.0f}{}"
            )
            sizes = len(chosen), contract.seq_len, model.name, needed / 2**30, present / 2**30
            raise Impossible(Text(template, *sizes, fewer))
        tokens, learnt = _tokens(plan, result, chosen)
        of_tokens = _computed(plan, tokens, needed, show)
        computed = [float(loss) for loss in np.nanmean(of_tokens, axis=1)]
        spread = float(np.mean(np.nanstd(of_tokens, axis=1) / np.sqrt(learnt)))
        differences = [recorded[place.rank][place.index] - loss for place, loss in zip(chosen, computed, strict=True)]
        most = BOUNDS[contract.precision][model.mixture is not None and contract.routing == "learned"]
        bounds = [most * math.sqrt(max(1.0, MEASURED_TOKENS / count)) for count in learnt]
        outcome, message, figures = _judged(chosen, computed, differences, bounds, spread, seed)
        if sequences > len(chosen):
            message = Text("{}; asked for {}, step 1 has {}", message, sequences, len(chosen))
    except Refuted as error:
        outcome, message = "failed", error.args[0]
    except LlmperfError as error:
        outcome, message = "impossible", error.args[0]
    return LevelCheck(level="spot-checked", outcome=outcome, message=message, figures=figures)


def _judged(
    chosen: Sequence[Chosen],
    computed: Sequence[float],
    differences: Sequence[float],
    bounds: Sequence[float],
    spread: float,
    seed: int,
) -> tuple[Outcome, str, Figures]:
    """Each sequence against its bound, which is below the `spread`, the mean difference against half of it."""
    shares = [abs(difference) / bound for difference, bound in zip(differences, bounds, strict=True)]
    failing = sum(not share <= 1 for share in shares)  # NaN fails
    worst = next((place for place, share in enumerate(shares) if math.isnan(share)), shares.index(max(shares)))
    largest, bound = abs(differences[worst]), bounds[worst]
    mean, bound_of_mean = statistics.fmean(differences), statistics.fmean(bounds) / 2
    figures = {
        "seed": seed,
        "sequences": len(chosen),
        "ranks": len({place.rank for place in chosen}),
        "largest_difference": largest,
        "bound": bound,
        "mean_difference": mean,
        "spread": spread,
    }
    if failing:
        place, loss = chosen[worst], computed[worst]
        message = Text(
            "{} of {} sequences of step 1 have other losses than recorded: sequence {} of"
            " data-parallel rank {}: expected {:.6f} within {:.1e}, found"
            " {:.6f} (seed {})",
            *(failing, len(chosen), place.index, place.rank, loss, bound, loss + differences[worst], seed),
        )
        return "failed", message, figures
    if len(chosen) >= FEWEST_FOR_MEAN and abs(mean) > bound_of_mean:
        message = Text(
            "the recorded losses of {} sequences of step 1 differ by {:+.1e} in the mean, bound {:.1e} (seed {})",
            *(len(chosen), mean, bound_of_mean, seed),
        )
        return "failed", message, figures
    noun = Text("the loss of 1 sequence" if len(chosen) == 1 else "the losses of {} sequences", len(chosen))
    if not max(bounds) < spread:  # NaN is no spread
        message = Text(
            "{} of step 1 agree, but a guess would, too: the bound {:.1e} is not below the spread"
            " between sequences {:.1e}; ask for a run in fp32 (seed {})",
            *(noun, max(bounds), spread, seed),
        )
        return "impossible", message, figures
    message = Text(
        "{} of step 1 computed again: largest difference {:.1e}, bound {:.1e}, spread between sequences {:.1e}"
        " (seed {})",
        *(noun, largest, bound, spread, seed),
    )
    return "passed", message, figures


def recorded_losses(folder: Path, plan: Plan) -> dict[int, tuple[float, ...]]:
    """The recorded losses of the sequences of step 1 by data-parallel rank; Impossible without any, else Refuted."""
    expected = plan.batch.micro_batch * plan.batch.gradient_accumulation
    losses: dict[int, tuple[float, ...]] = {}
    for path, records in _of_ranks(folder):
        line = next((one.line for one in records if isinstance(one, FurtherRecord) and one.kind == "sequences"), None)
        record = None if line is None else decode(line, SequencesRecord, path.name)
        if record is None or not 0 <= record.rank < plan.layout.world_size:
            continue
        rank = plan.layout.data_parallel_rank(record.rank)
        if len(record.losses) != expected:
            found = Text("expected the losses of {} sequences of step 1, found {}", expected, len(record.losses))
            raise Refuted(Text("{}: {}", path.name, found))
        if losses.setdefault(rank, record.losses) != record.losses:
            message = Text("{}: other losses of step 1 than another rank of data-parallel rank {}", path.name, rank)
            raise Refuted(message)
    if not losses:
        files = _of_ranks(folder)
        silent = [path for path, records in files if not any(isinstance(record, StepRecord) for record in records)]
        why = Text("{} did not report them, or they were removed", plan.spec.tuning.framework)
        if len(files) < plan.layout.world_size:
            why = Text("expected the records of {} ranks, found {} files", plan.layout.world_size, len(files))
        elif silent:
            why = Text("{} has no steps", silent[0].name)
        elif "verify" not in plan.recorders:
            why = Text("llmperf-verify was not installed where it ran")
        raise Impossible(Text("no rank recorded the losses of its sequences of step 1: {}", why))
    if len(losses) != plan.batch.data_parallel or max(losses) >= plan.batch.data_parallel:
        template = "expected losses of step 1 of {} data-parallel ranks, found those of {}"
        raise Refuted(Text(template, plan.batch.data_parallel, len(losses)))
    return losses


def _of_ranks(folder: Path) -> list[tuple[Path, Iterator[Record]]]:
    return [(path, records) for path, records in recorded(folder) if path.name.startswith("rank-")]


def choose(plan: Plan, count: int, seed: int) -> list[Chosen]:
    """So many different sequences of step 1, or all; spread over as many data-parallel ranks as possible."""
    each, ranks = plan.batch.micro_batch * plan.batch.gradient_accumulation, plan.batch.data_parallel
    count = max(1, min(count, each * ranks))
    draw = random.Random(seed)
    drawn = draw.sample(range(ranks), min(count, ranks))
    base, more = divmod(count, len(drawn))
    return [
        Chosen(rank=rank, index=index)
        for place, rank in enumerate(drawn)
        for index in sorted(draw.sample(range(each), base + (place < more)))
    ]


def _check_possible(plan: Plan, result: Result) -> None:
    """Impossible for a plan whose first losses do not follow from the facts of its model."""
    from llmperf_verify.reference.decoder import uncovered

    spec = plan.spec
    if spec.model != result.model or spec.contract != result.contract:
        raise Refuted(Text("plan.json: its model or contract is not that of result.json"))
    check_model(spec.model, PLAN)
    if (reason := uncovered(spec.model, spec.contract)) is not None:
        raise Impossible(reason)
    counted = count_parameters(spec.model).total
    if plan.flops.parameters != counted:
        found = Text("{:,} counted by {}", plan.flops.parameters, plan.flops.counted_by)
        raise Impossible(
            Text(
                "model: expected {:,} parameters by its facts, found {}: its losses do not follow from the facts",
                *(counted, found),
            )
        )
    base = spec.framework.get("base_weights") if spec.contract.lora is not None else None
    if base is not None:
        message = Text("framework.base_weights: the weights are those of {}, which the plan does not determine", base)
        raise Impossible(message)


def memory_bytes() -> float:
    """Memory of this host; infinite if it is unknown."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (ValueError, OSError):
        return math.inf


def _tokens(plan: Plan, result: Result, chosen: Sequence[Chosen]) -> tuple[NDArray[np.int64], list[int]]:
    """The chosen sequences [sequences, seq_len + 1], and how many tokens are learnt; Impossible without the data."""
    data = replace(own_data(result), repeat=plan.spec.data.repeat)
    here, rows = replace(plan, spec=replace(plan.spec, data=data)), plan.batch.micro_batch
    tokens: dict[Chosen, NDArray[np.int64]] = {}
    for rank in {place.rank for place in chosen}:
        with open_batches(here, rank) as batches:
            if result.data_fingerprint not in (None, batches.fingerprint):
                raise Impossible(
                    Text(
                        "data set {!r} has other tokens here than in the run: expected the fingerprint {}, found {}",
                        *(plan.spec.contract.dataset, result.data_fingerprint, batches.fingerprint),
                    )
                )
            wanted = [place for place in chosen if place.rank == rank]
            for micro_step in range(max(place.index for place in wanted) // rows + 1):
                batch = batches.next_micro_batch()
                tokens |= {place: batch[place.index % rows] for place in wanted if place.index // rows == micro_step}
    stacked = np.stack([tokens[place] for place in chosen])
    return stacked, [int(count) for count in (stacked[:, 1:] != IGNORED).sum(axis=1)]


def _computed(plan: Plan, tokens: NDArray[np.int64], memory: int, show: Callable[[str], None]) -> NDArray[np.float64]:
    """The losses of all tokens [sequences, seq_len]; Impossible if it would take too long."""
    from llmperf_verify.reference.decoder import token_losses

    model = plan.spec.model
    begin = shown = time.monotonic()

    def progress(layers: int) -> None:
        nonlocal shown
        now = time.monotonic()
        left = (now - begin) / layers * (model.layers - layers)
        if left > MOST_HOURS * 3600:
            raise Impossible(Text("{} would take this machine about {:,.0f} hours", model.name, left / 3600))
        if now - shown >= SHOWN_SECONDS:
            if shown == begin:
                show(f"spot check of {model.name}: {len(tokens)} sequences, {memory / 2**30:.1f} GiB")
            pace = f"{left:.0f} s" if left < 100 else f"{left / 60:.0f} min" if left < 6000 else f"{left / 3600:.1f} h"
            show(f"layer {layers} of {model.layers}, about {pace} left")
            shown = now

    return token_losses(model, plan.spec.contract, tokens, progress=progress)
