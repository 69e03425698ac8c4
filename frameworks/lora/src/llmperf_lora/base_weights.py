"""The frozen weights, one whole parameter at a time: from a local checkpoint, or drawn from the seed."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from llmperf_pytorch.weights import fill_parameter
from safetensors import safe_open

from llmperf_lora.base_folder import stored_files
from llmperf_lora.options import read_options

if TYPE_CHECKING:
    from llmperf.types import RunSpec


class BaseWeights:
    """Where the frozen weights come from; a context manager that holds the files open."""

    def __init__(self, spec: RunSpec) -> None:
        self._spec = spec
        self._stack = ExitStack()
        self._files: dict[str, Any] = {}
        folder = read_options(spec).base_folder
        if folder is not None:
            self._open(folder)

    def _open(self, folder: Path) -> None:
        for path in stored_files(folder):
            file = self._stack.enter_context(safe_open(str(path), framework="pt", device="cpu"))
            self._files |= dict.fromkeys(file.keys(), file)

    @torch.no_grad()
    def fill(self, name: str, parameter: torch.Tensor) -> None:
        """Set one parameter, by its name in published checkpoints."""
        if not self._files:
            fill_parameter(name, parameter, self._spec.model, self._spec.contract.seed)
            return
        parameter.copy_(self._files[name].get_tensor(name))

    def __enter__(self) -> BaseWeights:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()
