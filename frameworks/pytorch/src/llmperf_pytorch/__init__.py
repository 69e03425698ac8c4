"""Shared code of trainers built with torch. A framework of your own may import the names of this module, and no others.

| Name | Purpose |
|---|---|
| `common_problems`, `used_fused_ops` | planning: what torch frameworks cannot run, and fused operations |
| `TorchTrainer` | a `Trainer` that keeps the losses of the first step and names its kernels |
| `Feed` | batches as tensors on the rank's device, copied ahead |
| `build_model`, `Kernels`, `fill_weights`, `count_parameters` | a model by its facts, with its initial weights |
| `rest_dtype`, `set_matmul_precision` | the dtype of autocast, and TF32 on or off |
| `mean_cross_entropy`, `StepSums`, `deferred` | losses, and figures that are read when they have arrived |
| `adamw`, `parameter_groups`, `set_learning_rate`, `adamw_kernel` | the contract's optimiser |
| `torch_device`, `join_ranks`, `joined`, `leave_ranks`, `meeting_point` | the rank's device and process group |
| `traced_step`, `BucketedModule` | a step without data, for `llmperf estimate`, and its stand-in for DDP |
| `profiled_steps`, `TorchOperations` | answers to `llmperf_profile_steps` and `llmperf_timed_operations` |

Each name is imported when it is first used; planning needs no torch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from llmperf.lazy import lazily

if TYPE_CHECKING:
    from llmperf_torchkit.losses import StepSums as StepSums
    from llmperf_torchkit.losses import deferred as deferred
    from llmperf_torchkit.losses import mean_cross_entropy as mean_cross_entropy
    from llmperf_torchkit.operations import TorchOperations as TorchOperations
    from llmperf_torchkit.precision import adamw as adamw
    from llmperf_torchkit.precision import adamw_kernel as adamw_kernel
    from llmperf_torchkit.precision import parameter_groups as parameter_groups
    from llmperf_torchkit.precision import rest_dtype as rest_dtype
    from llmperf_torchkit.precision import set_learning_rate as set_learning_rate
    from llmperf_torchkit.precision import set_matmul_precision as set_matmul_precision
    from llmperf_torchkit.processes import join_ranks as join_ranks
    from llmperf_torchkit.processes import joined as joined
    from llmperf_torchkit.processes import leave_ranks as leave_ranks
    from llmperf_torchkit.processes import meeting_point as meeting_point
    from llmperf_torchkit.processes import torch_device as torch_device
    from llmperf_torchkit.profiling import profiled_steps as profiled_steps
    from llmperf_torchkit.tracing.data_parallel import BucketedModule as BucketedModule
    from llmperf_torchkit.trainer import Feed as Feed
    from llmperf_torchkit.trainer import TorchTrainer as TorchTrainer
    from llmperf_torchkit.weights import count_parameters as count_parameters
    from llmperf_torchkit.weights import fill_weights as fill_weights

    from llmperf_pytorch.kernel_limits import used_fused_ops as used_fused_ops
    from llmperf_pytorch.kernels.choice import Kernels as Kernels
    from llmperf_pytorch.limits import common_problems as common_problems
    from llmperf_pytorch.models import build_model as build_model
    from llmperf_pytorch.tracing import traced_step as traced_step

_MOVED: dict[str, str] = {}
"""Replacements of the names that this module once had."""

__all__, __getattr__ = lazily(globals(), _MOVED, keep=False)
