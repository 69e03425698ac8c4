"""How the case's precision is computed: autocast, loss scaling, TF32."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

import paddle
from llmperf.types import RunSpec
from paddle.base import core

from llmperf_paddle.limits import amp_level

DTYPES = {"bf16": "bfloat16", "fp16": "float16"}


class Mixing:
    """Mixed precision of one run."""

    def __init__(self, spec: RunSpec) -> None:
        self._precision = spec.contract.precision
        self._level = amp_level(spec.framework, self._precision)

    @property
    def master_weights(self) -> bool:
        """Weights are 16 bits, with float32 copies for the optimiser."""
        return self._level == "O2"

    @contextmanager
    def making(self) -> Iterator[None]:
        """Make new parameters in their precision, so that a large model is never there in float32 first."""
        before = paddle.get_default_dtype()
        if self.master_weights:
            paddle.set_default_dtype(DTYPES[self._precision])
        try:
            yield
        finally:
            paddle.set_default_dtype(before)

    def computing(self) -> AbstractContextManager[None]:
        """Around the forward pass."""
        if self._level is None:
            return nullcontext()
        return paddle.amp.auto_cast(level=self._level, dtype=DTYPES[self._precision])

    def scaler(self) -> paddle.amp.GradScaler | None:
        """Loss scaler: only fp16 needs one."""
        return paddle.amp.GradScaler(init_loss_scaling=2.0**15) if self._precision == "fp16" else None


def allow_tf32(spec: RunSpec) -> None:
    """Allow cuBLAS to compute float32 products in TF32, if the case says so."""
    if hasattr(core, "set_cublas_switch"):  # builds for CUDA
        core.set_cublas_switch(spec.contract.precision == "tf32")
