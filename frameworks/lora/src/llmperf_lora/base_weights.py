"""The frozen weights, one whole parameter at a time: from a local checkpoint, or drawn from the seed."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any

import torch
from llmperf.types import RunSpec
from llmperf_torchkit.weights import fill_parameter
from safetensors import safe_open

from llmperf_lora.base_folder import stored_files
from llmperf_lora.options import read_options
from llmperf_lora.stored_weights import stored_names


class BaseWeights:
    """Where the frozen weights come from; a context manager that holds the files open."""

    def __init__(self, spec: RunSpec) -> None:
        self._spec = spec
        self._stack = ExitStack()
        self._files: dict[str, Any] = {}
        folder = read_options(spec).base_folder
        if folder is not None:
            for path in stored_files(folder):
                file = self._stack.enter_context(safe_open(str(path), framework="pt", device="cpu"))
                self._files |= dict.fromkeys(file.keys(), file)

    @property
    def drawn(self) -> bool:
        """They are drawn from the seed."""
        return not self._files

    @torch.no_grad()
    def fill(self, name: str, parameter: torch.Tensor) -> None:
        """Set one parameter, by its name in the model; experts are read one by one."""
        if self.drawn:
            fill_parameter(name, parameter, self._spec.model, self._spec.contract.seed)
            return
        stored = stored_names(name, self._spec.model)
        parts = parameter.unbind() if len(stored) > 1 else (parameter,)
        for stored_name, part in zip(stored, parts, strict=True):
            part.copy_(self._files[stored_name].get_tensor(stored_name))

    def __enter__(self) -> BaseWeights:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()
