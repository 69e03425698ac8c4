"""One optimiser step: its learning rate, and global batch = micro batch x gradient accumulation x data parallel."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from llmperf.types.frozen import dataclass
from llmperf.types.layout import Batch
from llmperf.types.plan_checks import Problem
from llmperf.types.spec import Contract, Tuning

if TYPE_CHECKING:
    from llmperf.types.spec import Optimizer


@dataclass(frozen=True, slots=True)
class Settled:
    """The result of the batch arithmetic."""

    global_batch: int
    gradient_accumulation: int
    problem: Problem | None = None


def settle(contract: Contract, tuning: Tuning, data_parallel: int, touched: set[str]) -> Settled:
    """A global batch and a gradient accumulation that agree; `touched` has the paths that the user or an overlay set.

    The global batch belongs to the contract and is kept, unless only the gradient accumulation was set. In that case
    the accumulation determines the global batch, as in the published rows (`GAS=512`), and the contract changes.
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
    smaller = next((size for size in range(min(tuning.micro_batch, fitting), 0, -1) if fitting % size == 0), None)
    ways = [f"--set micro_batch={smaller}"] if smaller else []
    ways.append(f"--set global_batch={nearest} (a variant of the case)")
    return Problem(
        code="batch_not_divisible",
        where="tuning.micro_batch",
        message=f"global batch {contract.global_batch} is not a multiple of micro batch {tuning.micro_batch}"
        f" x data parallel {data_parallel} = {per_round}; nearest: {' or '.join(ways)}",
    )


def batch_of(contract: Contract, tuning: Tuning, data_parallel: int) -> Batch:
    """The batch sizes of a contract and tuning that agree."""
    accumulation = tuning.gradient_accumulation or settle(contract, tuning, data_parallel, set()).gradient_accumulation
    return Batch(
        micro_batch=tuning.micro_batch,
        gradient_accumulation=accumulation,
        data_parallel=data_parallel,
        global_batch=contract.global_batch,
        seq_len=contract.seq_len,
        tokens_per_step=contract.global_batch * contract.seq_len,
    )


def learning_rate(optimizer: Optimizer, step: int, steps: int) -> float:
    """The rate of step `step` (from 1) of `steps`: linear warm-up to `lr`, then constant or a cosine to `min_lr`."""
    if step <= optimizer.warmup_steps:
        return optimizer.lr * step / optimizer.warmup_steps
    if optimizer.schedule == "constant":
        return optimizer.lr
    progress = min(1.0, (step - 1 - optimizer.warmup_steps) / max(1, steps - optimizer.warmup_steps))
    return optimizer.min_lr + (optimizer.lr - optimizer.min_lr) * (1 + math.cos(math.pi * progress)) / 2
