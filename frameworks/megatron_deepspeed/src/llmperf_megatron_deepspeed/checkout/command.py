"""The whole command line of `pretrain_gpt.py`, and DeepSpeed's configuration for it, from the case."""

from __future__ import annotations

import json

from llmperf.types import Layout, Probe, RunSpec

CONFIG = "ds_config.json"
NEVER = 2**31 - 1
SCALE_POWER = 12
"""The loss scale of fp16 begins at 2 to this power. From DeepSpeed's 16 the first steps would be skipped until one
fits, and the script does not print the losses of these."""
BUCKET = 5_000_000
"""Elements in one reduction, as in the published configuration."""


def ds_config(spec: RunSpec, layout: Layout) -> str:
    """The text of `ds_config.json`. DeepSpeed clips by it, not by `--clip-grad`."""
    contract, tuning = spec.contract, spec.tuning
    share = contract.global_batch // (tuning.micro_batch * layout.data_parallel)
    config = {
        "train_batch_size": contract.global_batch,
        "train_micro_batch_size_per_gpu": tuning.micro_batch,
        "gradient_accumulation_steps": tuning.gradient_accumulation or max(1, share),
        "gradient_clipping": contract.optimizer.clip_norm or 0.0,
        "zero_optimization": {
            "stage": tuning.sharding_stage,
            "contiguous_gradients": False,
            "overlap_comm": False,
            "reduce_bucket_size": BUCKET,
            "allgather_bucket_size": BUCKET,
        },
        "bf16": {"enabled": contract.precision == "bf16", "check_grad_overflow": False},
        "fp16": {"enabled": True, "initial_scale_power": SCALE_POWER}
        if contract.precision == "fp16"
        else {"enabled": False},
        "zero_allow_untested_optimizer": True,
        "zero_force_ds_cpu_optimizer": False,
        "steps_per_print": NEVER,
        "timers": {"throughput": {"enabled": False}},
    }
    return json.dumps(config, indent=2) + "\n"


DATA = "{data}"
"""Stands for the folder of the token files, which a rank fills in (`data.py`)."""

DEFAULT_SEED = 1234
"""The script's own, for seed 0: it takes no seed below 1."""

DEFAULT_THETA = 10000
"""Base of the rotary encoding unless another is asked for; older checkouts have no option for it."""


def pretrain_arguments(spec: RunSpec, probe: Probe, layout: Layout) -> tuple[str, ...]:
    """All options of `pretrain_gpt.py`; `{run_dir}` and `{data}` are left to be filled in."""
    model, contract, tuning, adam = spec.model, spec.contract, spec.tuning, spec.contract.optimizer
    theta = model.rope_theta or DEFAULT_THETA
    recomputed = ("--checkpoint-activations", "--deepspeed-activation-checkpointing")
    return (
        *("--tensor-model-parallel-size", str(layout.tensor_parallel)),
        *("--pipeline-model-parallel-size", str(layout.pipeline_parallel)),
        *("--num-layers", str(model.layers)),
        *("--hidden-size", str(model.hidden_size)),
        *("--ffn-hidden-size", str(model.intermediate_size)),
        *("--num-attention-heads", str(model.attention_heads)),
        *("--num-key-value-heads", str(model.kv_heads)),
        *("--max-position-embeddings", str(model.max_positions)),
        "--use-rotary-position-embeddings",
        *(("--rotary-position-embeddings-theta", str(int(theta))) if theta != DEFAULT_THETA else ()),
        *("--normalization", "rmsnorm", "--layernorm-epsilon", repr(model.norm_eps)),
        *("--swiglu", "--disable-bias-linear"),
        *(() if model.tied_embeddings else ("--untie-embeddings-and-output-weights",)),
        *("--init-method-std", repr(model.initializer_std)),
        *("--attention-dropout", "0", "--hidden-dropout", "0"),
        *vocabulary(model.vocab_size),
        *("--micro-batch-size", str(tuning.micro_batch)),
        *("--global-batch-size", str(contract.global_batch)),
        *("--seq-length", str(contract.seq_len)),
        *("--train-iters", str(contract.steps)),
        *("--seed", str(DEFAULT_SEED + contract.seed)),
        # our own token files with the order they are in: the script shuffles nothing, and evaluates nothing
        *("--data-path", f"{DATA}/tokens", "--data-impl", "mmap", "--split", "100,0,0"),
        *("--train-desc-path", f"{DATA}/train.dsc"),
        *("--train-doc-idx-path", f"{DATA}/documents.npy"),
        *("--train-sample-idx-path", f"{DATA}/samples.npy"),
        *("--train-shuffle-idx-path", f"{DATA}/order.npy"),
        *("--eval-iters", "0"),
        *("--optimizer", "adam", *(() if uses_apex(probe) else ("--cpu-optimizer", "--cpu_torch_adam"))),
        *("--adam-beta1", repr(adam.beta1), "--adam-beta2", repr(adam.beta2), "--adam-eps", repr(adam.eps)),
        *("--weight-decay", repr(adam.weight_decay), "--clip-grad", repr(adam.clip_norm or 0.0)),
        *("--lr", repr(adam.lr), "--min-lr", repr(adam.min_lr), "--lr-decay-style", adam.schedule),
        *("--lr-warmup-iters", str(adam.warmup_steps)),
        *((f"--{contract.precision}",) if contract.precision in ("bf16", "fp16") else ()),
        "--no-query-key-layer-scaling",
        # without the script's compiled kernels: they are built into the checkout
        *("--no-masked-softmax-fusion", "--no-gradient-accumulation-fusion"),
        *(("--use-flash-attn-v2",) if tuning.attention == "flash" else ()),
        *(recomputed if tuning.gradient_checkpointing else ()),
        *("--log-interval", "1"),
        *("--distributed-backend", probe.offers.collective_backend),
        *("--deepspeed", "--deepspeed_config", f"{{run_dir}}/files/{CONFIG}"),
        *("--zero-stage", str(tuning.sharding_stage)),
        *(() if layout.pipeline_parallel > 1 else ("--no-pipeline-parallel",)),
    )


def vocabulary(rows: int) -> tuple[str, ...]:
    """An embedding of exactly that many rows: the tokeniser that only counts adds one id, and nothing is padded."""
    return (
        *("--tokenizer-type", "NullTokenizer", "--vocab-size", str(rows - 1)),
        *("--make-vocab-size-divisible-by", "1"),
    )


def uses_apex(probe: Probe) -> bool:
    """Check whether the script takes AdamW from apex, as it does on CUDA; else an option selects torch's."""
    return probe.offers.collective_backend == "nccl" and not probe.on_cpu
