"""The host of the controller, for the record."""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping
from pathlib import Path

from llmperf.files.redaction import without_secrets
from llmperf.runfolder.endings import Host

ALLOWED_NAMES = (
    "OMP_NUM_THREADS",
    "OMP_PROC_BIND",
    "OMP_PLACES",
    "MKL_NUM_THREADS",
    "KMP_AFFINITY",
    "KMP_BLOCKTIME",
    "LD_PRELOAD",
    "MALLOC_CONF",
    "TOKENIZERS_PARALLELISM",
    "HF_HUB_OFFLINE",
    "DS_ACCELERATOR",
    "CUDA_VISIBLE_DEVICES",
    "CUDA_DEVICE_MAX_CONNECTIONS",
    "CUDA_DEVICE_ORDER",
    "CUBLAS_WORKSPACE_CONFIG",
    "NVIDIA_TF32_OVERRIDE",
    "PYTORCH_ALLOC_CONF",
    "PYTORCH_CUDA_ALLOC_CONF",
    "XPU_VISIBLE_DEVICES",
    "HIP_VISIBLE_DEVICES",
    "ROCR_VISIBLE_DEVICES",
    "PYTORCH_HIP_ALLOC_CONF",
    "ASCEND_RT_VISIBLE_DEVICES",
    "PYTORCH_NPU_ALLOC_CONF",
    "TASK_QUEUE_ENABLE",
)
ALLOWED_PREFIXES = (
    *("MALLOC_", "NCCL_", "GLOO_", "UCX_", "BKCL_", "HCCL_", "RCCL_", "XCCL_", "FLAGS_", "TORCH_NCCL_"),
    *("XPU_", "XDNN_", "XMLIR_", "XBLAS_", "HSA_"),
)
MAX_VALUE = 200


def recorded_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """Of an environment, what changes how a run goes: an allow-list of names, with values of at most 200 characters.

    Names that say they hold a secret (`redaction.SECRET_NAME`) are left out.
    """
    safe = sorted(without_secrets(environment))
    allowed = (name for name in safe if name in ALLOWED_NAMES or name.startswith(ALLOWED_PREFIXES))
    return _short({name: environment[name] for name in allowed})


def _short(environment: Mapping[str, str]) -> dict[str, str]:
    return {name: _printable(value)[:MAX_VALUE] for name, value in environment.items()}


def _printable(value: str) -> str:
    return "".join(one if one.isprintable() else "?" for one in value)


def this_host(planned: Mapping[str, str]) -> Host:
    """What this host is. The `planned` variables, those that plugins set for the ranks, are recorded whatever their
    names, but for secrets: the plan has them too. Of the others, which may be anybody's, the allow-list.
    """
    return Host(
        os=_os_name(),
        kernel=f"{platform.system()} {platform.release()}",
        python=platform.python_version(),
        cpu=_cpu_name(),
        memory_bytes=_memory_bytes(),
        environment=dict(sorted({**recorded_environment(os.environ), **_short(without_secrets(planned))}.items())),
    )


def _os_name() -> str:
    try:
        return platform.freedesktop_os_release().get("PRETTY_NAME", platform.system())
    except OSError:
        return platform.system()


def _cpu_name() -> str | None:
    try:
        lines = Path("/proc/cpuinfo").read_text(errors="replace").splitlines()
    except OSError:
        return platform.processor() or None
    found = (line.split(":", 1)[1].strip() for line in lines if line.startswith("model name") and ":" in line)
    return next(found, None) or platform.processor() or None


def _memory_bytes() -> int | None:
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (ValueError, OSError):
        return None
