"""Runs as the result sections of FlagPerf's READMEs: one section for each model, framework, device and precision."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from llmperf.errors import UserError
from llmperf.reporting import markdown_text, sheet_values
from llmperf.types import Sheet

Values = Mapping[str, str | int | float | bool | None]
HEADERS = ("配置", "parallel", "fix_hp", "token/p/s", "loss", "mem", "MFU")
GROUP = ("vendor", "device_model", "framework", "model", "precision")
SPEED = "tokens_per_second_per_device"
FRAMEWORKS = {"zero": "deepspeed", "megatron_deepspeed": "megatron-deepspeed", "megatron_core": "megatron"}
"""FlagPerf's names of frameworks that have another one here."""
GIB = 2**30


def readme(sheets: Sequence[Sheet]) -> str:
    """The document. UserError if no sheet is of a complete run with a device for each rank: the table has no others."""
    groups: dict[tuple[str, ...], list[Values]] = {}
    for sheet in sheets:
        values = sheet_values(sheet)
        if values.get("status") == "complete" and values.get("device_share") in (None, 1) and values.get(SPEED):
            groups.setdefault(tuple(str(values.get(name)) for name in GROUP), []).append(values)
    if not groups:
        raise UserError(
            "--format flagperf: expected a complete run with a throughput, a device for each rank, found none"
        )
    return "\n".join(line for group in groups.values() for line in _section(group))


def _section(runs: Sequence[Values]) -> Iterable[str]:
    first = runs[0]
    vendor, device, framework, model, precision = (_plain(first.get(name)) for name in GROUP)
    version = first.get(f"version_{'torch' if framework == 'pytorch' else framework}") or first.get("version_llmperf")
    yield f"### {vendor} 配置与运行信息参考"
    yield from ("#### 环境配置", f"- ##### {vendor} 硬件环境", f"    - 加速卡型号: {device}", "")
    yield from (
        f"- ##### {vendor} 软件环境",
        f"    - 训练框架版本: {FRAMEWORKS.get(framework, framework)} {_plain(version)}",
        "",
    )
    yield from ("### 运行情况", "", "* 通用指标", "", "| 指标名称 | 指标值 | 特殊说明 |", "| --- | --- | --- |")
    yield f"| 模型 | {model} | |"
    yield f"| 数据精度 | {precision} | |"
    yield "| 超参修改 | fix_hp,见“性能指标” | LBS: micro batch, MPE: 序列长度, GAS: 梯度累加步数, GBS: 全局批尺寸 |"
    yield f"| 硬件设备简称 | {device} | |"
    yield "| 硬件存储使用 | mem,见“性能指标” | 单位为GiB |"
    yield "| 计算使用率 | MFU,见“性能指标” | 6 x 模型参数量 |"
    yield "| **吞吐量** | **token/p/s,见“性能指标”** | 平均单卡每秒处理的token数 |"
    yield from ("", "* 性能指标", "", f"| {' | '.join(HEADERS)} |", "|" + " --- |" * len(HEADERS))
    for values in runs:
        yield f"| {' | '.join(_row(values))} |"
    yield ""


def _row(values: Values) -> Sequence[str]:
    degrees = {name: int(values.get(f"{name}_parallel") or 1) for name in ("tensor", "pipeline", "data")}
    parallel = f"TP{degrees['tensor']}PP{degrees['pipeline']}DP{degrees['data']}"
    if stage := values.get("sharding_stage"):
        parallel = f"TP{degrees['tensor']}PP{degrees['pipeline']}SH{stage}SP{values.get('sharding_degree')}"
    names = {"LBS": "micro_batch", "MPE": "seq_len", "GAS": "gradient_accumulation", "GBS": "global_batch"}
    changes = ",".join(f"{short}={values[name]}" for short, name in names.items() if values.get(name))
    used, total = values.get("device_memory_used_bytes"), values.get("device_memory_total_bytes")
    memory = f"{float(used) / GIB:.1f}/{float(total) / GIB:.0f}" if used and total else "/"
    loss, mfu, speed = (values.get(name) for name in ("final_loss", "mfu_nominal", SPEED))
    machine = f"{_plain(values.get('device_model'))} {values.get('nodes')}x{values.get('devices_per_node')}"
    return (
        *(machine, parallel, changes, f"{float(speed or 0):.1f}"),
        *("/" if loss is None else f"{loss:.3f}", memory, "/" if mfu is None else f"{100 * float(mfu):.1f}%"),
    )


def _plain(value: object) -> str:
    return "/" if value is None else markdown_text(str(value))
