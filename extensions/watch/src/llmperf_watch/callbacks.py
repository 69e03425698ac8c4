"""`meter` in the loops of other programs: callbacks of Hugging Face Trainer and Lightning, which it imports then."""

from __future__ import annotations

from typing import Any

from llmperf_watch.metering import Meter


def trainer_callback(sequence_length: int, **facts: Any) -> Any:
    """A `transformers.TrainerCallback` that meters a training on sequences of one length; `facts` as for `meter`.

    Tokens of a step are those of full batches: sequences x accumulation x data-parallel processes x length.
    A training that ends with an error writes no document.
    """
    from transformers import TrainerCallback

    class Metered(TrainerCallback):  # type: ignore[misc]
        def on_train_begin(self, args: Any, state: Any, control: Any, model: Any = None, **_: Any) -> None:
            layout, deepspeed = args.parallelism_config, getattr(args, "hf_deepspeed_config", None)
            split = 1 if layout is None else layout.cp_size * layout.sp_size
            if (degree := getattr(model, "_tp_size", None)) is not None:
                split *= degree
            elif deepspeed is not None:
                split *= deepspeed.config.get("tensor_parallel", {}).get("autotp_size", 1)
            elif layout is not None:
                split *= layout.tp_size
            batch = state.train_batch_size or args.train_batch_size
            self.tokens = batch * args.gradient_accumulation_steps * (args.world_size // split) * sequence_length
            devices = args.world_size * max(1, args.n_gpu)
            self.meter = Meter(sequence_length=sequence_length, **{"devices": devices, **facts}).__enter__()

        def on_step_end(self, *_: Any, **__: Any) -> None:
            self.meter.step(tokens=self.tokens)

        def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **_: Any) -> None:
            if "loss" in (logs or {}):
                self.meter.loss(float(logs["loss"]))

        def on_train_end(self, *_: Any, **__: Any) -> None:
            self.meter.__exit__(None, None, None)

    return Metered()


def lightning_callback(tokens: int, **facts: Any) -> Any:
    """A `lightning.pytorch.Callback` that meters `Trainer.fit`; `facts` as for `meter`.

    `tokens` are those of one optimiser step of all processes, accumulation included, which Lightning does not know. The
    loss is that of the last batch of a step on this process.
    """
    try:
        from lightning.pytorch import Callback
    except ImportError:
        from pytorch_lightning import Callback  # type: ignore[assignment]

    class Metered(Callback):
        meter: Meter | None = None

        def on_train_start(self, trainer: Any, module: Any) -> None:
            self.steps = trainer.global_step
            self.meter = Meter(**{"devices": trainer.world_size, **facts}).__enter__()

        def on_train_batch_end(self, trainer: Any, module: Any, outputs: Any, *_: Any) -> None:
            if self.meter is not None and trainer.global_step > self.steps:
                self.steps = trainer.global_step
                loss = outputs.get("loss") if isinstance(outputs, dict) else outputs
                # Lightning has divided it for the accumulation
                self.meter.step(tokens, None if loss is None else loss * trainer.accumulate_grad_batches)

        def on_train_end(self, trainer: Any, module: Any) -> None:
            self.end(None)

        def on_exception(self, trainer: Any, module: Any, exception: BaseException) -> None:
            self.end(exception)

        def end(self, error: BaseException | None) -> None:
            if self.meter is not None:
                meter, self.meter = self.meter, None
                meter.__exit__(type(error) if error else None, error, None)

    return Metered()
