"""Labels and headers of published documents in English and in Chinese."""

from __future__ import annotations

_FIELDS: dict[str, tuple[str, str]] = {
    "machine": ("machine", "机器型号"),
    "accelerator": ("accelerator", "加速卡型号"),
    "cpu": ("CPU", "CPU型号"),
    "interconnect": ("interconnect", "多机网络类型、带宽"),
    "host_memory": ("host memory", "主机内存"),
    "os": ("OS", "OS版本"),
    "kernel": ("kernel", "OS kernel版本"),
    "driver": ("driver", "加速卡驱动版本"),
    "docker": ("Docker", "Docker 版本"),
    "framework": ("training framework", "训练框架版本"),
    "dependencies": ("dependencies", "依赖软件版本"),
    "technique": ("technique", "并行技术"),
    "implementer": ("implemented by", "实施者"),
    "details": ("details", "实施细节"),
    "scheme": ("scheme", "优化方案"),
    "task": ("task", "任务类别"),
    "model": ("model", "模型"),
    "dataset": ("dataset", "数据集"),
    "configuration_file": ("configuration file", "配置文件"),
    "precision": ("precision", "数据精度"),
    "changes": ("changed hyper-parameters", "超参修改"),
    "device": ("device", "硬件设备简称"),
    "item": ("item", "指标名称"),
    "value": ("value", "指标值"),
    "remark": ("remark", "特殊说明"),
    "configuration": ("configuration", "配置"),
    "aligned": ("aligned", "是否精度对齐"),
}
"""Labels and headers by what they mean, in English and in Chinese."""

_METRICS = {
    "fix_hp": ("changed hyper-parameters", "超参修改"),
    "parallel": ("parallel strategy", "并行策略"),
    "memory": ("memory", "硬件存储使用"),
    "throughput": ("throughput", "吞吐量"),
    "loss": ("loss", "损失值"),
    "mfu": ("MFU", "计算使用率"),
}
"""Labels of the general table that differ from the headers of columns."""


def header(name: str | None, printed: str, language: str) -> str:
    """A label or header in a language; as printed where its meaning is not known or has one word in both."""
    return _FIELDS[name][language == "zh"] if name in _FIELDS else printed


def metric(name: str | None, printed: str, language: str) -> str:
    """A label of the general table in a language."""
    return _METRICS[name][language == "zh"] if name in _METRICS else header(name, printed, language)
