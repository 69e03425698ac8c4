"""One fault for each check: what is put in the place of what in a good plugin, and which other checks see it too."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import llmperf


@dataclass(frozen=True)
class Fault:
    """`puts` replaces text of the module, `metadata` text of the distribution's; `also` are checks that fail too."""

    puts: tuple[tuple[str, str], ...] = ()
    metadata: tuple[tuple[str, str], ...] = ()
    overlay: str = ""
    name: str = ""
    also: tuple[str, ...] = ()


def fault(*puts: tuple[str, str], **more) -> Fault:
    return Fault(puts=puts, **more)


def end(text: str) -> tuple[str, str]:
    """Something at the end of the module."""
    return "\n# END", f"\n{text}\n"


def first(function: str, text: str) -> tuple[str, str]:
    """Something at the beginning of a function."""
    return f"def {function}:\n", f"def {function}:\n    {text}\n"


def method(function: str, text: str) -> tuple[str, str]:
    """Something at the beginning of a method."""
    return f"    def {function}:\n", f"    def {function}:\n        {text}\n"


def read(role: str) -> dict[str, Fault]:
    """The faults of a role in `faults.toml`, by the check that catches them."""
    tables = llmperf.read_toml(Path(__file__).with_name("faults.toml"))
    faults = {}
    for name, table in (tables["any"] | tables[role]).items():
        puts = [tuple(put) for put in table.pop("puts", ())]
        for function, text in table.pop("begin", {}).items():
            puts.append((method if "(self" in function else first)(function, text))
        puts += [end(text) for text in [table.pop("end", None)] if text is not None]
        faults[name] = fault(*puts, **table)
    return faults


VENDOR, FRAMEWORK = read("vendor"), read("framework")

KIT = "os.environ['LLMPERF_RUN_DIR'].endswith('ends')"
SLOW = '''
class Slow:
    """An event whose clock is slow by a quarter."""
    def __init__(self):
        self.at = 0.75 * time.perf_counter()
    def ready(self):
        return True
    def seconds_since(self, earlier):
        return self.at - earlier.at
'''
AHEAD = """\
        batches = llmperf.open_batches(plan, plan.layout.data_parallel_rank(int(os.environ["RANK"])))
        steps = plan.spec.contract.steps * plan.batch.gradient_accumulation
        self.ahead = [batches.next_micro_batch() for _ in range(steps)]
"""
READ = """\
    read_rows = 0

    def read(self, drawn):
        \"\"\"The rows that the plan's data have at the place of those that were drawn.\"\"\"
        from llmperf.tokens.draws import position

        rank, (step, micro) = self.batches._rank, divmod(self.read_rows, self.batch.gradient_accumulation)
        self.read_rows += 1
        places = [position(self.batch, step, micro, rank, row) for row in range(len(drawn))]
        return self.numpy.stack([self.batches._samples.at(place) for place in places])
"""

NEEDS_MORE = {
    "losses-are-those-of-the-reference",  # a reference
    "a-script-that-cannot-start-fails-the-run",  # a script
    "a-killed-script-ends-the-run",
    "attention-ran-as-claimed",  # torch
    "eager-attention-is-separate-operations",
    "fused-operations-ran-as-claimed",
}
"""Checks that are skipped for the good framework, which has no torch and no script."""

BY_TORCH = '''
def by_torch(attention, fused):
    """A product, attention and an update by torch."""
    import torch

    states = torch.ones(1, 1, 2, 8)
    weight = torch.nn.Parameter(torch.mm(states[0, 0].T, states[0, 0]))
    if attention:
        torch.nn.functional.scaled_dot_product_attention(states, states, states)
    weight.grad = torch.ones_like(weight)
    torch.optim.AdamW([weight], fused=fused).step()
'''


def by_torch(attention: str = "not self.eager", fused: bool = True, ops: tuple[str, ...] = ()) -> Fault:
    """A framework that claims eager attention where it was asked for, and a fused optimiser of torch."""
    asked = "        self.eager = plan.spec.tuning.attention == 'eager'\n"
    claims = '{"attention": "eager" if self.eager else "sdpa", "optimizer": "torch.optim.AdamW, fused"}'
    return fault(
        ("        self.batch, self", f"{asked}        self.batch, self"),
        method("train_step(self)", f"by_torch({attention}, {fused})"),
        ("    def evaluate", f"    @property\n    def kernels(self):\n        return {claims}\n\n    def evaluate"),
        ("files={", f"fused_ops={ops},\n        files={{"),
        end(BY_TORCH),
    )


KERNELS = {
    "attention-ran-as-claimed": by_torch(attention="False"),
    "eager-attention-is-separate-operations": by_torch(attention="True"),
    "fused-operations-ran-as-claimed": by_torch(fused=False),
}
"""Claims about kernels of torch that do not hold, by the check that fails."""

TRAINING = {
    "run-ends-complete": fault(first("llmperf_build_trainer(plan, device)", "raise OSError('no beads')")),
    "tokens-add-up": fault(("tokens=tokens", "tokens=self.batch.tokens_per_step"), also=("run-ends-complete",)),
    "losses-are-told": fault(("loss=sum(losses) / len(losses)", "loss=None")),
    "first-loss-is-chance": fault(("nats = 1.0", "nats = 1.4427")),
    "training-lowers-the-loss": fault(("self.adamw.update(", "len(")),
    "builds-again-from-the-plan": fault(
        first("llmperf_build_trainer(plan, device)", "Path(__file__).with_name('built-' + os.environ['RANK']).mkdir()")
    ),
    "same-losses-twice": fault(("loss=sum(losses)", "loss=0.1 * __import__('random').random() + sum(losses)")),
    "losses-are-the-contracts": fault(("seed=contract.seed", "seed=7")),
    "losses-follow-the-tokens": fault(
        ("rows = self.batches.next_micro_batch()", "rows = self.read(self.batches.next_micro_batch())"),
        ("    def first_losses", f"{READ}\n    def first_losses"),
    ),
    "norms-are-the-contracts": fault(("grad_norm=norm", "grad_norm=norm / 2")),
    "sequences-have-their-losses": fault(("return self.sequences", "return self.sequences[::-1]")),
    "losses-are-those-of-one-rank": fault(
        method("of_all_ranks(self, gradients)", "return gradients"), also=("losses-are-the-contracts",)
    ),
    "data-are-drawn-in-their-step": fault(
        ("rows = self.batches.next_micro_batch()", "rows = self.ahead.pop(0)"),
        ("        self.batch, self", f"{AHEAD}        self.batch, self"),
    ),
    "clocks-run-at-their-rate": fault(
        first("llmperf_build_trainer(plan, device)", f"if {KIT}: device.event = Slow"), end(SLOW)
    ),
    "functions-of-the-core-stay": fault(
        first("llmperf_build_trainer(plan, device)", "from llmperf import tokens; tokens.batches.known_entropy = print")
    ),
    "steps-fill-the-window": fault(
        first("llmperf_build_trainer(plan, device)", f"if not {KIT}: device.event = Slow"),
        end(SLOW),
        method("train_step(self)", f"time.sleep(0 if {KIT} else 0.2)"),
    ),
    "errors-come-through": fault(("            self.close()\n", "            self.close()\n        return True\n")),
    "an-error-waits-for-nobody": fault(
        ("if error is None:", "time.sleep(4.1 * (error is not None))\n        if not error:")
    ),
    "closes-after-an-error-and-twice": fault(method("close(self)", "assert not self.closed")),
    "evaluation-is-figures": fault(("math.exp(1.0)", "math.nan")),
}

OWN_TOKENS = fault(("self.batches.next_micro_batch()", "self.batches.next_micro_batch()[:, ::-1]"))
"""Not those of the contract, though as easily learnt."""
OWN_OPTIMISER = fault(("contract.optimizer,", "replace(contract.optimizer, beta2=0.999),"))
"""Not that of the contract, though as good."""
