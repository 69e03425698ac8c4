"""`meter` in the loops of other programs: a callback of Hugging Face Trainer. Imports transformers when it is made."""

from __future__ import annotations

from typing import Any

from llmperf_watch.metering import Meter


def trainer_callback(sequence_length: int, **facts: Any) -> Any:
    """A `transformers.TrainerCallback` that meters a training on sequences of one length; `facts` as for `meter`.

    Tokens of a step are sequences of a device x accumulation x processes x length. A training that ends with an error
    writes no document.
    """
    from transformers import TrainerCallback

    class Metered(TrainerCallback):  # type: ignore[misc]
        def on_train_begin(self, args: Any, *_: Any, **__: Any) -> None:
            sequences = args.per_device_train_batch_size * args.gradient_accumulation_steps * args.world_size
            self.tokens = sequences * sequence_length
            self.meter = Meter(sequence_length=sequence_length, **{"devices": args.world_size, **facts}).__enter__()

        def on_step_end(self, *_: Any, **__: Any) -> None:
            self.meter.step(tokens=self.tokens)

        def on_train_end(self, *_: Any, **__: Any) -> None:
            self.meter.__exit__(None, None, None)

    return Metered()
