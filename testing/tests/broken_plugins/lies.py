"""Plugins that lie to be faster or to look better: how each is made of a good one, and what catches it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from faults import READ, SLOW, Fault, end, fault, first, method

Level = Literal["run", "consistent", "spot-checked", "rerun"]


@dataclass(frozen=True)
class Lie:
    """A lie; `check` is the check of the kit that catches it, `level` what catches a run with it, None for nothing.

    `level` is `run` where the run itself fails, and else the lowest level of verification that a run does not pass.
    """

    fault: Fault
    check: str
    level: Level | None
    tried: bool = True
    """Whether the level can be tried in a run of a second: clocks are compared over longer ones."""


def lie(*puts: tuple[str, str], check: str, level: Level | None, tried: bool = True) -> Lie:
    return Lie(fault(*puts), check, level, tried)


LOSS = "        return StepOutput(loss=sum(losses) / len(losses),"
KEEPS = (LOSS, f"        self.last = sum(losses) / len(losses)\n{LOSS}")
WITHOUT = "self.llama._attention = lambda layer, states: (0 * states, lambda gradient: 0 * gradient)"
NO_ATTENTION = ("        self.adamw = AdamW(", f"        {WITHOUT}\n        self.adamw = AdamW(")
LEARNS = "            losses.append(self.nats"
FIRST_ROWS = "            rows = self.rows = getattr(self, 'rows', rows)\n"
EVERY_OTHER = """\
            if len(losses) % 2:
                losses.append(losses[-1])
                tokens += rows[:, 1:].size
                self.sequences += self.llama.row_losses if self.step == 0 else ()
                continue
"""
PLAYED = "played(Abacus(plan), plan.spec.contract.steps)"
BUILD = "llmperf_build_trainer(plan, device)"
LEARN = "self.llama.learn(rows)"
STEP = "train_step(self)"
WARMUP = ("        self.batch, self", "        self.warmup = plan.spec.contract.warmup_steps\n        self.batch, self")
UPDATE = "        norm = self.adamw.update("
UPDATES = "(lambda _: self.norm) if self.step >= self.warmup and self.step % 2 else self.adamw.update"
BUILT = ("        self.llama = Llama(plan.spec.model,", "        self.llama = Llama(self.model(plan.spec.model),")
COUNTED = "self.parameter_count = sum(one.size for one in self.llama.weights.values())"
FEWER = (
    "    def first_losses",
    "    def model(self, model):\n        return replace(model, layers=model.layers - 1)\n\n    def first_losses",
)
SKIPS = """\
if {when}:
            drawn = [self.batches.next_micro_batch() for _ in range(self.batch.gradient_accumulation)]
            self.step += 1
            return StepOutput(loss=self.last, tokens=sum(rows[:, 1:].size for rows in drawn))"""
PLAYS = '''
def played(trainer, steps):
    """Do all steps at once, and play the outputs back."""
    outputs = [trainer.train_step() for _ in range(steps)]
    trainer.train_step = lambda: outputs.pop(0)
    return trainer
'''
DRAWS = """\
    def draw(self):
        for _ in range(self.batch.gradient_accumulation):
            self.batches.next_micro_batch()
"""
SLOW_CLOCKS = """
def slow_down():
    for name in ("time", "monotonic", "perf_counter"):
        clock, began = getattr(time, name), getattr(time, name)()
        setattr(time, name, lambda clock=clock, began=began: began + 0.75 * (clock() - began))
"""
FLATTERS = """
def flatter():
    from llmperf.runfolder.reader import Recorder
    from llmperf.types.records import RankRecord, StepRecord

    write = Recorder.write

    def better(self, record):
        if isinstance(record, StepRecord):
            record = replace(record, step_seconds=0.75 * record.step_seconds)
        if isinstance(record, RankRecord):
            record = replace(record, window_seconds=0.75 * record.window_seconds)
        write(self, record)

    Recorder.write = better
"""

FRAMEWORKS = {
    "skips_the_optimiser": lie(
        ("norm = self.adamw.update(", "norm = len("), check="training-lowers-the-loss", level="rerun"
    ),
    "skips_the_reduction": lie(
        method("of_all_ranks(self, gradients)", "return gradients"), check="losses-are-the-contracts", level="rerun"
    ),
    "skips_attention": lie(NO_ATTENTION, check="losses-are-the-contracts", level="spot-checked"),
    "has_fewer_layers": lie(BUILT, FEWER, check="run-ends-complete", level="run"),
    "fakes_its_parameter_count": lie(
        BUILT,
        FEWER,
        (COUNTED, "self.parameter_count = plan.flops.parameters"),
        check="losses-are-the-contracts",
        level="spot-checked",
    ),
    "repeats_one_batch": lie((LEARNS, FIRST_ROWS + LEARNS), check="losses-are-the-contracts", level="spot-checked"),
    "skips_every_third_step": lie(
        method(STEP, SKIPS.format(when="self.step % 3 == 2")), KEEPS, check="losses-are-the-contracts", level="rerun"
    ),
    "skips_every_third_step_after_six": lie(
        method(STEP, SKIPS.format(when="self.step > 5 and self.step % 3 == 2")),
        KEEPS,
        check="losses-are-the-contracts",
        level="rerun",
    ),
    "plays_losses_back": lie(
        ("return Abacus(plan)", f"return {PLAYED}"), end(PLAYS), check="data-are-drawn-in-their-step", level=None
    ),
    "plays_losses_of_its_own_reading_back": lie(
        ("return Abacus(plan)", f"return {PLAYED}"),
        ("rows = self.batches.next_micro_batch()", "rows = self.read(range(self.batch.micro_batch))"),
        ("    def first_losses", f"{READ}\n    def first_losses"),
        end(PLAYS.replace("lambda: outputs.pop(0)", "lambda: (trainer.draw(), outputs.pop(0))[1]")),
        ("    def evaluate", f"{DRAWS}\n    def evaluate"),
        check="losses-follow-the-tokens",
        level=None,
    ),
    "slows_its_clocks": lie(
        first(BUILD, "slow_down()"), end(SLOW_CLOCKS), check="clocks-run-at-their-rate", level="consistent", tried=False
    ),
    "slows_the_events": lie(
        first(BUILD, "device.event = Slow"), end(SLOW), check="clocks-run-at-their-rate", level="consistent"
    ),
    "replaces_the_recorder": lie(
        first(BUILD, "flatter()"), end(FLATTERS), check="functions-of-the-core-stay", level="consistent"
    ),
    "sells_one_step_as_two": lie(
        method(STEP, SKIPS.format(when="self.step % 2")), KEEPS, check="losses-are-the-contracts", level="rerun"
    ),
    "learns_half_of_the_micro_batches": lie(
        (LEARNS, EVERY_OTHER + LEARNS), check="losses-are-the-contracts", level="spot-checked"
    ),
    "learns_half_of_each_sequence": lie(
        (LEARN, "self.llama.learn(rows[:, : rows.shape[1] // 2 + 1])"),
        check="losses-are-the-contracts",
        level="spot-checked",
    ),
    "is_honest_with_one_data_set": lie(
        method(STEP, SKIPS.format(when="self.dataset != 'repeated-sentence' and self.step % 3 == 2")),
        ("        self.batch, self", "        self.dataset = plan.spec.contract.dataset\n        self.batch, self"),
        KEEPS,
        check="losses-are-the-contracts",
        level="rerun",
    ),
    "is_honest_for_five_steps": lie(
        method(STEP, SKIPS.format(when="self.step >= 5")), KEEPS, check="losses-are-the-contracts", level="consistent"
    ),
    "learns_half_of_each_sequence_when_measured": lie(
        (LEARN, "self.llama.learn(rows[:, : rows.shape[1] // 2 + 1] if self.step >= self.warmup else rows)"),
        WARMUP,
        check="losses-are-the-contracts",
        level="rerun",
    ),
    "updates_every_other_step_when_measured": lie(
        (UPDATE, f"        update = {UPDATES}\n        self.norm = norm = update("),
        WARMUP,
        check="losses-are-the-contracts",
        level="rerun",
    ),
    "sells_bf16_as_fp32": lie(
        (LEARN, "self.coarsely(rows)"),
        (
            "    def train_step",
            '''    def coarsely(self, rows):
        """The loss with weights of 8 bits of mantissa."""
        exact = {name: one.copy() for name, one in self.llama.weights.items()}
        for one in self.llama.weights.values():
            one[...] = (one.astype("f4").view("u4") + 0x8000 & 0xFFFF0000).view("f4")
        loss = self.llama.learn(rows)
        for name, one in self.llama.weights.items():
            one[...] = exact[name]
        return loss

    def train_step''',
        ),
        check="losses-are-the-contracts",
        level="spot-checked",
    ),
}
"""Frameworks that lie."""

VENDORS = {
    "lowers_its_peak": "products-stay-below-the-peak",
    "halves_its_memory": "peak-memory-grows",
    "slows_its_events": "events-agree-with-wall-time",
    "names_a_better_device": "device-is-what-others-see",
    "takes_more_than_its_share": "ranks-keep-to-their-share",
    "halves_its_power": "power-agrees-with-energy",
}
"""Vendors that lie, and the check of the kit whose fault in `faults.VENDOR` is this lie."""
