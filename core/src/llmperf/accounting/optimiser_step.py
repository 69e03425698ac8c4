"""Batch arithmetic: global batch = micro batch x gradient accumulation x data parallel."""

from __future__ import annotations

from dataclasses import dataclass

from llmperf.types.layout import Batch
from llmperf.types.problems import Problem
from llmperf.types.spec import Contract, Tuning


@dataclass(frozen=True)
class Settled:
    """What the batch arithmetic comes to."""

    global_batch: int
    gradient_accumulation: int
    problem: Problem | None = None


def settle(contract: Contract, tuning: Tuning, data_parallel: int, touched: set[str]) -> Settled:
    """Global batch and gradient accumulation that agree, given which of them (`touched`) somebody set.

    The global batch is contract and stands, unless only the gradient accumulation was set: then that one gives the
    global batch, as the published rows do (`GAS=512`), and the contract changes.
    """
    accumulation = tuning.gradient_accumulation
    set_accumulation = accumulation if "tuning.gradient_accumulation" in touched else None
    per_round = tuning.micro_batch * data_parallel
    if set_accumulation is not None and "contract.global_batch" not in touched:
        return Settled(per_round * set_accumulation, set_accumulation)
    rounds, rest = divmod(contract.global_batch, per_round)
    if set_accumulation is not None and (rest or set_accumulation != rounds):
        return Settled(contract.global_batch, set_accumulation, _disagreement(contract, per_round, set_accumulation))
    if rest or rounds == 0:
        return Settled(contract.global_batch, max(rounds, 1), _remainder(contract, tuning, data_parallel))
    return Settled(contract.global_batch, rounds)


def _disagreement(contract: Contract, per_round: int, accumulation: int) -> Problem:
    return Problem(
        code="batch_contradiction",
        where="tuning.gradient_accumulation",
        message=f"micro batch x data parallel = {per_round}, times gradient accumulation {accumulation} is"
        f" {per_round * accumulation}, but global_batch is {contract.global_batch}; set only one of the two",
    )


def _remainder(contract: Contract, tuning: Tuning, data_parallel: int) -> Problem:
    per_round = tuning.micro_batch * data_parallel
    nearest = max(round(contract.global_batch / per_round), 1) * per_round
    fitting = contract.global_batch // data_parallel if contract.global_batch % data_parallel == 0 else 0
    smaller = next((one for one in range(min(tuning.micro_batch, fitting), 0, -1) if fitting % one == 0), None)
    ways = [f"--set micro_batch={smaller}"] if smaller else []
    ways.append(f"--set global_batch={nearest} (a variant of the case)")
    return Problem(
        code="batch_not_divisible",
        where="tuning.micro_batch",
        message=f"global batch {contract.global_batch} is no multiple of micro batch {tuning.micro_batch}"
        f" x data parallel {data_parallel} = {per_round}; nearest: {' or '.join(ways)}",
    )


def batch_of(contract: Contract, tuning: Tuning, data_parallel: int) -> Batch:
    """The batch arithmetic of a spec whose figures fit together."""
    accumulation = tuning.gradient_accumulation or settle(contract, tuning, data_parallel, set()).gradient_accumulation
    return Batch(
        micro_batch=tuning.micro_batch,
        gradient_accumulation=accumulation,
        data_parallel=data_parallel,
        global_batch=contract.global_batch,
        seq_len=contract.seq_len,
        tokens_per_step=contract.global_batch * contract.seq_len,
    )
