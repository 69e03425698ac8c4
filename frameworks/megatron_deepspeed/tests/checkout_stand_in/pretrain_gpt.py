"""A stand-in for Megatron-DeepSpeed's `pretrain_gpt.py`, made for these tests: it trains nothing.

It reads the tokens by the index files it is given, as Megatron's data set does, and prints lines of the published form,
from the last rank, in which the loss is the mean token of the step / 260, about what a loss is. FAULT in the
environment says what goes wrong.
"""

import os
import signal
import sys
import time

import numpy as np
from megatron import fused_kernels, optimizer
from megatron.data.dataset_utils import compile_helper

RANK, LAST = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"]) - 1
FAULT = os.environ.get("FAULT", "")
SECONDS = 0.05
LATE = 3


def option(name):
    return sys.argv[sys.argv.index(name) + 1]


def samples():
    """Each sample in the order that the index files give."""
    length, dtype = int(option("--seq-length")) + 1, "<u2" if int(option("--vocab-size")) < 65499 else "<i4"
    tokens = np.fromfile(option("--data-path") + ".bin", dtype)
    bounds, order = np.load(option("--train-sample-idx-path")), np.load(option("--train-shuffle-idx-path"))
    for place in order:
        (first, begin), (last, end) = bounds[place], bounds[place + 1]
        assert first == last
        yield tokens[first * length + begin : first * length + end + 1]


def line(iteration, loss):
    pairs = [
        f"iteration {iteration:8d}/{int(option('--train-iters')):8d}",
        f" consumed samples: {iteration * int(option('--global-batch-size')):12d}",
        f" elapsed time per iteration (ms): {SECONDS * 1000:.1f}",
        " learning rate: 3.000E-04",
        *([] if loss is None else [f" lm loss: {loss:.6E}"]),
        " number of skipped iterations:   0",
        " number of nan iterations:   0 |",
    ]
    return " " + " |".join(pairs)


def tell(text):
    if RANK == LAST:
        print(text, flush=True)


def go_wrong():
    if FAULT == "killed" and RANK == 0:
        os.kill(os.getpid(), signal.SIGKILL)
    if FAULT == "hangs":
        time.sleep(600)
    if FAULT == "raises" and RANK == LAST:
        raise ValueError("the stand-in has had enough")


compile_helper()
fused_kernels.load(None)
assert optimizer.torch.__name__ == "torch"
batch = iter(samples())
for iteration in range(1, int(option("--train-iters")) + 1):
    mean = float(np.mean([next(batch) for _ in range(int(option("--global-batch-size")))]))
    time.sleep(SECONDS)
    if iteration == LATE:
        go_wrong()
        print("[2026-01-01] [INFO] step=3, | lr: x | nonsense: 1.2.3.4 |\x1b[0m", flush=True)
    tell(line(iteration, None if FAULT == "nan" and iteration == LATE else mean / 260))
    if iteration == 1:
        print(
            f"[Rank {RANK}] (after 1 iterations) memory (MB) | allocated: 1.0 | max allocated: {2.0 + RANK}", flush=True
        )
