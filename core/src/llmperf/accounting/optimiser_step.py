"""One optimiser step: its learning rate, and global batch = micro batch x gradient accumulation x data parallel."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from llmperf.types.layout import Batch
from llmperf.types.plan_checks import Problem
from llmperf.types.spec import Contract, Tuning

if TYPE_CHECKING:
    from llmperf.types.spec import Optimizer


def settle(
    contract: Contract, tuning: Tuning, data_parallel: int, touched: set[str]
) -> tuple[int, int, Problem | None]:
    """A global batch and a gradient accumulation that agree, or the reason why they do not.

    The global batch belongs to the contract and is kept, unless only the accumulation was `touched` by the user or an
    overlay: then it determines the global batch, as in the published rows.
    """
    batch, per_round = contract.global_batch, tuning.micro_batch * data_parallel
    accumulation = tuning.gradient_accumulation if "tuning.gradient_accumulation" in touched else None
    if accumulation is not None and "contract.global_batch" not in touched:
        return per_round * accumulation, accumulation, None
    rounds, rest = divmod(batch, per_round)
    if accumulation is not None and (rest or accumulation != rounds):
        message = (
            f"micro batch x data parallel = {per_round}, times gradient accumulation {accumulation} is"
            f" {per_round * accumulation}, but global_batch is {batch}; set only one of the two"
        )
        where = "tuning.gradient_accumulation"
        return batch, accumulation, Problem(code="batch_contradiction", where=where, message=message)
    if rounds and not rest:
        return batch, rounds, None
    nearest = max(round(batch / per_round), 1) * per_round
    fitting = batch // data_parallel if batch % data_parallel == 0 else 0
    smaller = next((size for size in range(min(tuning.micro_batch, fitting), 0, -1) if fitting % size == 0), None)
    ways = [f"--set micro_batch={smaller}"] if smaller else []
    ways.append(f"--set global_batch={nearest} (a variant of the case)")
    message = (
        f"global batch {batch} is not a multiple of micro batch {tuning.micro_batch}"
        f" x data parallel {data_parallel} = {per_round}; nearest: {' or '.join(ways)}"
    )
    return batch, max(rounds, 1), Problem(code="batch_not_divisible", where="tuning.micro_batch", message=message)


def batch_of(contract: Contract, tuning: Tuning, data_parallel: int) -> Batch:
    """The batch sizes of a contract and tuning that agree."""
    accumulation = tuning.gradient_accumulation or settle(contract, tuning, data_parallel, set())[1]
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
