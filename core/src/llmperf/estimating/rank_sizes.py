"""The sizes of one rank's part of a model, on which the formulas of the analytic trace depend."""

from __future__ import annotations

from dataclasses import dataclass

from llmperf.accounting.parameters import lora_parameters, stage_parameters
from llmperf.types.plan import Plan

HALF = ("bf16", "fp16")
"""Precisions of 16 bits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RankSizes:
    """One rank of a pipeline stage, in one micro batch."""

    plan: Plan
    """Of the run."""
    stage: int
    """Pipeline stage of the rank, from 0."""
    first: bool
    """Whether the stage has the embedding."""
    last: bool
    """Whether the stage has the head and the loss."""
    blocks: int
    """Transformer blocks of the stage."""
    recomputed_blocks: int
    """Those whose activations are computed again during the backward pass."""
    in_flight: int
    """Micro batches whose activations the stage holds at once."""
    micro_batch: int
    """Sequences."""
    seq_len: int
    """Tokens of a sequence on this rank."""
    context_len: int
    """Tokens of a whole sequence: the keys that a query may see."""
    hidden: int
    """Width of the residual stream."""
    query_width: int
    """All query heads of the rank together."""
    key_value_width: int
    """All key heads of the rank together; as many values."""
    heads: int
    """Query heads."""
    inner: int
    """Feed-forward columns."""
    vocabulary: int
    """Rows of the embedding and the head."""
    sequence_parts: int
    """Ranks that divide the sequence in norms and in the residual stream."""
    compute_bytes: int
    """Of an element in matrix products."""
    weight_bytes: int
    """Of an element of a weight."""
    stream_bytes: int
    """Of an element of the residual stream."""
    parameters: int
    """On this rank, before sharding."""
    trained: int
    """Of them, those that are trained."""
    adapter_targets: tuple[str, ...]
    """Projections with adapters; empty if all weights are trained."""

    @property
    def tokens(self) -> int:
        """Of a micro batch on this rank."""
        return self.micro_batch * self.seq_len

    @property
    def kept_blocks(self) -> int:
        """Blocks whose activations are kept."""
        return self.blocks - self.recomputed_blocks

    @property
    def casts(self) -> bool:
        """Whether weights are held in float32 and cast to 16 bits where they are used."""
        return self.weight_bytes > self.compute_bytes

    @property
    def frozen(self) -> bool:
        """Whether only adapters are trained."""
        return bool(self.adapter_targets)

    @property
    def block_matrices(self) -> int:
        """Parameters of one block's matrix products on this rank."""
        return self.hidden * (2 * self.query_width + 2 * self.key_value_width + 3 * self.inner)

    @property
    def sharding(self) -> int:
        """Ranks that share optimiser states."""
        return self.plan.layout.sharding_degree if self.plan.layout.sharding_stage else 1


def rank_sizes(plan: Plan, rank: int) -> RankSizes:
    """The sizes of one rank of a plan."""
    spec, layout, batch = plan.spec, plan.layout, plan.batch
    model, tuning, lora = spec.model, spec.tuning, spec.contract.lora
    stage, stages, ways = layout.coordinate(rank, "pipeline"), layout.pipeline_parallel, layout.tensor_parallel
    head_width = model.hidden_size // model.attention_heads
    compute = 2 if spec.contract.precision in HALF else 4
    weight = 4 if plan.worker.weights_in_fp32 and lora is None else compute
    blocks = model.layers // stages
    parameters = -(-stage_parameters(model, stages)[stage] // ways)
    trained = parameters if lora is None else -(-lora_parameters(model, lora) // stages)
    return RankSizes(
        plan=plan,
        stage=stage,
        first=stage == 0,
        last=stage == stages - 1,
        blocks=blocks,
        recomputed_blocks=-(-blocks // tuning.recompute_every) if tuning.gradient_checkpointing else 0,
        in_flight=min(batch.gradient_accumulation, stages - stage),
        micro_batch=batch.micro_batch,
        seq_len=-(-batch.seq_len // layout.context_parallel),
        context_len=batch.seq_len,
        hidden=model.hidden_size,
        query_width=model.hidden_size // ways,
        key_value_width=model.kv_heads * head_width // ways,
        heads=model.attention_heads // ways,
        inner=-(-model.intermediate_size // ways),
        vocabulary=-(-model.vocab_size // ways),
        sequence_parts=ways if layout.sequence_parallel else 1,
        compute_bytes=compute,
        weight_bytes=weight,
        stream_bytes=weight,
        parameters=parameters + (0 if lora is None else trained),
        trained=trained,
        adapter_targets=() if lora is None else tuple(dict.fromkeys(lora.target_modules)),
    )
