"""`meter`: what a call costs, and one training seen by `llmperf watch` and by a callback: the ratio of their rates.

./dev python benchmarks/meter.py cost
./dev python benchmarks/meter.py trainer
./dev python benchmarks/meter.py lightning
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

BATCH, LENGTH = 2, 64


def cost() -> None:
    """Print the time of one call as a share of a step of 10 ms."""
    from llmperf_watch import meter

    with tempfile.TemporaryDirectory() as folder, meter(out=folder, devices=1) as run:
        begin = time.perf_counter()
        for number in range(100_000):
            run.step(tokens=2048, loss=1 / (number + 1))
        seconds = (time.perf_counter() - begin) / 100_000
    print(f"meter.step: {1e6 * seconds:.2f} us, {seconds / 0.01:.4%} of a step of 10 ms")


def train(program: str, steps: int, folder: str) -> None:
    """Train a small model, metered."""
    import torch
    from llmperf_watch import lightning_callback, trainer_callback
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.set_num_threads(1)
    model = LlamaForCausalLM(LlamaConfig(hidden_size=128, intermediate_size=512, num_hidden_layers=4,
                                         num_attention_heads=4, vocab_size=2048))  # fmt: skip
    data = [{"input_ids": row, "labels": row} for row in torch.randint(0, 2048, (BATCH * steps, LENGTH))]
    if program == "trainer":
        from transformers import Trainer, TrainingArguments

        arguments = TrainingArguments(output_dir=folder, per_device_train_batch_size=BATCH, max_steps=steps,
                                      logging_steps=20, report_to=[], save_strategy="no", use_cpu=True)  # fmt: skip
        callback = trainer_callback(sequence_length=LENGTH, out=folder)
        Trainer(model=model, args=arguments, train_dataset=data, callbacks=[callback]).train()
        return
    import lightning.pytorch as lightning
    from lightning.pytorch.callbacks import TQDMProgressBar

    class Module(lightning.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.model = model

        def training_step(self, batch: dict[str, torch.Tensor], _: int) -> torch.Tensor:
            loss: torch.Tensor = self.model(**batch).loss
            self.log("train_loss", loss, prog_bar=True)
            return loss

        def configure_optimizers(self) -> torch.optim.Optimizer:
            return torch.optim.AdamW(self.parameters(), 1e-4)

    callbacks = [lightning_callback(BATCH * LENGTH, sequence_length=LENGTH, out=folder), TQDMProgressBar()]
    lightning.Trainer(max_steps=steps, accelerator="cpu", devices=1, logger=False, enable_checkpointing=False,
                      callbacks=callbacks).fit(Module(), torch.utils.data.DataLoader(data, BATCH))  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", choices=("cost", "trainer", "lightning"))
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--train", metavar="DIR", help=argparse.SUPPRESS)
    words = parser.parse_args()
    if words.program == "cost":
        return cost()
    if words.train:
        return train(words.program, words.steps, words.train)
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "llmperf", "watch", "--out", f"{folder}/watched", "--devices", "1",
                   "--sequence-length", str(LENGTH), "--global-batch", str(BATCH), "--", sys.executable, __file__,
                   words.program, "--train", f"{folder}/metered", "--steps", str(words.steps)]  # fmt: skip
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        means = {}
        for name in ("watched", "metered"):
            (path,) = Path(folder, name).glob("*/watched.json")
            document = json.loads(path.read_text())
            means[name] = document["figures"]["tokens_per_second_per_device"]["mean"]
            lines, seconds = len(document["steps"]["at"]), document["steps"]["at"][-1] - document["steps"]["at"][0]
            print(f"{name}: {means[name]:.1f} token/p/s, {lines} steps have a line, {seconds:.0f} s")
    print(f"{words.program}: watched / metered {means['watched'] / means['metered']:.4f}")


if __name__ == "__main__":
    main()
