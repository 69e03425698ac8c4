"""Headings and labels of the Markdown report in English and in Chinese, as the published READMEs word them."""

from __future__ import annotations

_CHINESE = {
    "Configuration and results": "配置与运行信息参考",
    "Environment": "环境配置",
    "Hardware": "硬件环境",
    "Software": "软件环境",
    "accelerator": "加速卡型号",
    "device": "硬件设备简称",
    "nodes x devices": "机器数 x 卡数",
    "share of a device per rank": "每进程占用设备份额",
    "CPU": "CPU型号",
    "host memory, GiB": "主机内存（GiB）",
    "device memory, GiB": "加速卡存储（GiB）",
    "interconnect": "多机网络类型、带宽",
    "driver": "加速卡驱动版本",
    "OS": "OS版本",
    "kernel": "OS kernel版本",
    "dependencies": "依赖软件版本",
    "plugins": "插件版本",
    "environment variables": "环境变量",
    "Parallelism": "并行策略",
    "technique": "并行技术",
    "implemented by": "实施者",
    "details": "实施细节",
    "none": "无",
    "Optimisation strategy": "优化策略",
    "Batch": "输入批尺寸",
    "micro batch (LBS)": "local_batchsize（LBS）",
    "sequence length (MPE)": "seq_length（MPE）",
    "gradient accumulation (GAS)": "gradient_accumulate_steps（GAS）",
    "global batch (GBS)": "global_batchsize（GBS）",
    "tokens per step": "每步token数",
    "General": "通用指标",
    "item": "指标名称",
    "value": "指标值",
    "case": "测例",
    "variant of the case": "测例变体",
    "model": "模型",
    "dataset": "数据集",
    "precision": "数据精度",
    "optimiser": "优化器",
    "steps": "训练步数",
    "seed": "随机种子",
    "status": "运行状态",
    "provenance": "数据来源",
    "Performance": "性能指标",
    "configuration": "配置",
    "Evaluation in parts": "各科目评测结果",
    "part": "科目",
    "MFU under every convention": "各口径计算使用率（MFU）",
    "convention": "口径",
    "FLOPs per token": "每token浮点运算数",
    "formula": "公式",
    "leaves out": "未计入",
    "peak, FLOP/s": "峰值算力（FLOP/s）",
    "peak's source": "峰值来源",
    "Changes from the case (fix_hp)": "超参修改（fix_hp）",
    "parameter": "参数",
    "in the case": "测例值",
    "here": "实际值",
    "origin": "来由",
    "Memory of each rank": "各进程存储使用",
    "rank": "进程",
    "pipeline stage": "流水线阶段",
    "peak, GiB": "峰值（GiB）",
    "reserved, GiB": "预留（GiB）",
    "How the figures were made": "指标说明",
    "Findings": "校验结果",
    "No findings.": "未发现问题。",
    "The run failed; nothing else was found.": "运行失败；未发现其他问题。",
    "Failure": "失败原因",
    "Notes": "补充说明",
    "Not understood": "未识别内容",
    "line": "行",
}

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
"""Labels and headers of published documents by what they mean, in English and in Chinese."""

_METRICS = {
    "fix_hp": ("changed hyper-parameters", "超参修改"),
    "parallel": ("parallel strategy", "并行策略"),
    "memory": ("memory", "硬件存储使用"),
    "throughput": ("throughput", "吞吐量"),
    "loss": ("loss", "损失值"),
    "mfu": ("MFU", "计算使用率"),
}
"""The same of the general table, whose words for columns differ from the columns' own."""


def header(name: str | None, printed: str, language: str) -> str:
    """A label or header in a language; as printed where its meaning is not known or has one word in both."""
    return _FIELDS[name][language == "zh"] if name in _FIELDS else printed


def metric(name: str | None, printed: str, language: str) -> str:
    """A label of the general table in a language."""
    return _METRICS[name][language == "zh"] if name in _METRICS else header(name, printed, language)


def word(english: str, language: str) -> str:
    """A heading or label in a language; what has no translation stays English."""
    return _CHINESE.get(english, english) if language == "zh" else english
