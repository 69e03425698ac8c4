"""One rank of Hugging Face Trainer on the plan's model, weights, data, batch and optimiser."""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any


def main() -> None:
    folder = Path(sys.argv[1])
    configuration = folder / "files" / "ds_config.json"
    if configuration.exists():
        import deepspeed  # noqa: F401  (importing it binds deepspeed.comm.torch)

        sys.modules["deepspeed.comm.torch"].build_shm_op = lambda: None  # type: ignore[attr-defined]
    import torch
    from llmperf import open_batches
    from llmperf.files.json_files import load
    from llmperf.types import Plan
    from llmperf_huggingface.export import huggingface_config
    from llmperf_torchkit.weights import fill_weights
    from transformers import LlamaConfig, LlamaForCausalLM, Trainer, TrainerCallback, TrainingArguments

    plan = load(folder / "plan.json", Plan)
    contract = plan.spec.contract
    rank = int(os.environ["RANK"])

    class Sequences(torch.utils.data.Dataset[dict[str, Any]]):
        """This rank's sequences in the plan's order."""

        def __init__(self) -> None:
            batches = open_batches(plan, plan.layout.data_parallel_rank(rank))
            rounds = contract.steps * plan.batch.gradient_accumulation
            self.rows = [row for _ in range(rounds) for row in batches.next_micro_batch()]

        def __len__(self) -> int:
            return len(self.rows) * plan.layout.data_parallel

        def __getitem__(self, index: int) -> dict[str, Any]:
            row = torch.from_numpy(self.rows[index // plan.layout.data_parallel])
            return {"input_ids": row[:-1], "labels": row[:-1]}

    class Stopwatch(TrainerCallback):
        """Reads the clocks at the edges of the measured window."""

        start = end = (0.0, 0.0)

        def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            if state.global_step == contract.warmup_steps:
                self.start = (time.perf_counter(), time.process_time())
            if state.global_step == contract.steps:
                self.end = (time.perf_counter(), time.process_time())

    arguments = TrainingArguments(
        output_dir=str(folder / "hf"),
        per_device_train_batch_size=plan.batch.micro_batch,
        gradient_accumulation_steps=plan.batch.gradient_accumulation,
        max_steps=contract.steps,
        learning_rate=contract.optimizer.lr,
        weight_decay=contract.optimizer.weight_decay,
        max_grad_norm=contract.optimizer.clip_norm or 0.0,
        lr_scheduler_type="constant",
        deepspeed=json.loads(configuration.read_text()) if configuration.exists() else None,
        ddp_find_unused_parameters=False,
        use_cpu=not torch.cuda.is_available(),
        report_to=[],
        save_strategy="no",
        logging_strategy="no",
        disable_tqdm=True,
        dataloader_pin_memory=False,
    )
    watch = Stopwatch()
    config = LlamaConfig(**huggingface_config(plan.spec.model), attn_implementation="sdpa")
    model = LlamaForCausalLM(config)
    fill_weights(model, plan.spec.model, contract.seed)
    if contract.lora is not None:
        from llmperf_lora.adapters import peft_config
        from peft import get_peft_model

        model = get_peft_model(model, peft_config(contract.lora, "CAUSAL_LM"))
    Trainer(model=model, args=arguments, train_dataset=Sequences(), callbacks=[watch]).train()
    seconds, cpu_seconds = (late - early for early, late in zip(watch.start, watch.end, strict=True))
    print(json.dumps({"seconds": seconds, "cpu_seconds": cpu_seconds}))


if __name__ == "__main__":
    main()
