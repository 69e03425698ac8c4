"""Headings, labels, values and sentences in the language of a reader; labels as the published READMEs word them."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from llmperf.reporting.chinese import LABELS, SENTENCES
from llmperf.reporting.chinese_values import OWN, VALUES
from llmperf.reporting.finding_texts import finding_message
from llmperf.reporting.templates import TranslatedTemplates

if TYPE_CHECKING:
    from llmperf.types import Row

MAX_TEXT = 400
"""Characters of a finished text that is translated."""

_CHINESE = {
    "Configuration and results": "配置与运行信息参考",
    "Environment": "环境配置",
    "Hardware": "硬件环境",
    "Software": "软件环境",
    "accelerator": "加速卡型号",
    "device": "硬件设备简称",
    "nodes x devices": "机器数 x 卡数",
    "nodes x ranks": "机器数 x 进程数",
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
    "routing": "专家路由",
    "Expert load": "专家负载",
    "expert load, most / mean": "专家负载（最大/平均）",
    "status": "运行状态",
    "verified": "验证级别",
    "not rerun": "尚无人重跑",
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
    "confidence": "可信度",
    "date": "日期",
    "Changes from the case (fix_hp)": "超参修改（fix_hp）",
    "parameter": "参数",
    "in the case": "测例值",
    "here": "实际值",
    "origin": "来由",
    "Memory of each rank": "各进程存储使用",
    "Nodes": "节点",
    "node": "节点",
    "host": "主机",
    "hosts": "主机",
    "interface": "网络接口",
    "ranks": "进程",
    "coordinates": "并行坐标",
    "clock offset, s": "时钟偏差（s）",
    "differs from most nodes": "与多数节点的差异",
    "waits for communication": "通信等待",
    "Stragglers": "落后进程",
    "stragglers": "落后进程",
    "busy, s": "忙碌时间（s）",
    "longer than its peers, s": "比同级进程多（s）",
    "cost, s": "损失时间（s）",
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
    "{all} run": "{all} 次运行",
    "{all} runs": "{all} 次运行",
    "runs": "运行",
    "run": "运行",
    "the ends of long cells": "长单元格的末尾",
    "left out to fit the terminal: {columns} ({remedy})": "终端宽度不足，未显示：{columns}（{remedy}）",
    "framework": "框架",
    "layout": "并行布局",
    "validation errors": "校验错误数",
    "validation warnings": "校验警告数",
    "made": "生成时间",
    "loss": "损失值",
    "mem, GiB": "存储（GiB）",
    "memory of a rank, GiB": "单进程存储（GiB）",
    "memory of a device, GiB": "单卡存储（GiB）",
    "power of a device, W": "单卡功耗（W）",
    "energy, J a token": "每token能耗（J）",
    "energy of the devices": "设备能耗",
    "final loss": "最终损失值",
    "step, s": "单步时间（s）",
    "tokens/s of a whole device": "整卡 tokens/s",
    "tokens/s, all devices": "全部设备 tokens/s",
    "devices": "设备",
    "batch": "批尺寸",
    "throttling": "降频",
    "disturbed": "受干扰",
    "What else ran": "同时运行的其他负载",
    "before the start": "启动前",
    "cores used by others": "其他进程占用的核",
    "at most": "最高",
    "programs": "程序",
    "processes of others on the devices": "设备上的其他进程数",
    "time in which tasks waited": "任务等待时间占比",
    "least memory free, GiB": "最小可用内存（GiB）",
    "swapped, GiB": "交换量（GiB）",
    "clock by tenth of the window, MHz": "各十分之一时段的时钟（MHz）",
    "throttling by tenth of the window, % of the readings": "各十分之一时段的降频读数占比（%）",
    "peak": "峰值算力",
    "MFU (nominal)": "MFU（名义口径）",
    "step": "步",
    "utilisation, %": "利用率（%）",
    "known entropy of the data": "数据的已知熵",
    "compare": "对比",
    "best": "最高",
    "median": "中位数",
    "spread": "离散程度",
    "changes": "修改",
    "of baseline": "与基线之比",
    "baseline": "基线",
    "verdict": "结论",
    "median of": "中位数",
    "reference": "参考",
    "difference": "差值",
    "energy, J": "能耗（J）",
    "note": "说明",
    "vendor": "厂商",
    "best token/p/s": "最高 token/p/s",
    "agree": "一致",
    "rows": "数据行数",
    "its MFU": "对应 MFU",
    "MFU computed": "计算所得 MFU",
    "documents": "文档",
    "its verdict": "对应结论",
    "Cost of a training": "训练成本",
    "price of a device": "设备单价",
    "price of electricity": "电价",
    "precision, seq_len, batch": "精度、序列长度、批",
    "* computed by llmperf: the document prints none that is understood": "* 由 llmperf 计算：文献未给出可识别的 MFU",
    "cost per million tokens": "每百万token成本",
    "tokens of a training": "训练token总数",
    "device hours of a training": "训练所需卡时",
    "time of a training": "训练时长",
    "cost of a training": "训练成本",
    "energy of a training, kWh": "训练能耗（kWh）",
    "electricity of a training": "训练电费",
    "scaling efficiency": "扩展效率",
    "Scaling": "扩展性",
    "training, device hours": "训练卡时",
    "training, days": "训练天数",
    "assumed for the cost": "成本估算的假设",
}
_CHINESE |= LABELS | SENTENCES | {english: chinese for english, chinese in VALUES.items() if "{" not in english}


def word(english: str, language: str) -> str:
    """A heading, label or text of llmperf in a language; English if it has no translation.

    A finished text, such as `15 steps in 84.86 s`, is translated by its template. Texts of users, documents and
    machines must not be given: use `value_text` for the value of a row.
    """
    if language != "zh":
        return english
    return _CHINESE.get(english) or _of_template(english)


def value_text(row: Row, language: str) -> str:
    """The value of a row as every format shows it, in a language; only words of llmperf are translated."""
    from llmperf.reporting.cells import shown

    own = row.own_words or (isinstance(row.value, bool) and row.text is None)
    return word(shown(row), language) if own else shown(row)


def sentence(english: str, language: str, **values: object) -> str:
    """A template in a language, with its values."""
    return (_CHINESE.get(english, english) if language == "zh" else english).format(**values)


@lru_cache(maxsize=4096)  # reports of many runs show the same values again and again
def _of_template(english: str) -> str:
    """A finished text by the template that it matches; a list by those of its parts."""
    if len(english) > MAX_TEXT:
        return english
    if (chinese := _templates().translated(english)) is not None:
        return chinese
    for mark, chinese_mark in (("; ", "；"), (", ", "，")):
        first, *others = english.split(mark)
        if others and word(first, "zh") != first:
            return chinese_mark.join(word(part, "zh") for part in (first, *others))
    return english


@lru_cache(maxsize=1)
def _templates() -> TranslatedTemplates:
    own = dict.fromkeys(OWN, lambda part: word(part, "zh"))
    own["counts"] = lambda part: finding_message(part, "zh")  # in the words of the package that counts
    return TranslatedTemplates({**VALUES, **LABELS}, own)
