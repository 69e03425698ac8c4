"""The columns of the page's table, and what the page says, in English and in Chinese."""

from __future__ import annotations

from dataclasses import dataclass

from llmperf import reporting


@dataclass(frozen=True, slots=True, kw_only=True)
class PageColumn:
    """One column of the table of runs."""

    field: str
    """Name in the page's data."""
    key: str
    """Key of the row of a sheet that is shown."""
    title: str
    """English title."""
    width: int
    """Smallest width in pixels; all columns together fit 1,400 pixels."""
    number: bool = False
    """Whether it is sorted by number."""
    paper: bool = True
    """Whether it is printed."""
    rare: bool = False
    """Whether it is shown only if some run has a value other than 0."""
    grows: bool = False
    """Whether it takes more than its share of the remaining width."""
    filter: bool = False
    """Whether it has a filter of its own."""


COLUMNS = (
    PageColumn(field="model", key="model", title="model", width=108, filter=True, grows=True),
    PageColumn(field="device", key="device", title="device", width=114, filter=True, grows=True),
    PageColumn(field="throughput", key="tokens_per_second_per_device", title="token/p/s", width=92, number=True),
    PageColumn(field="mfu", key="mfu_nominal", title="MFU (nominal)", width=92, number=True),
    PageColumn(field="loss", key="final_loss", title="loss", width=64, number=True),
    PageColumn(field="memory", key="device_memory_used_bytes", title="memory of a device, GiB", width=78, number=True),
    PageColumn(field="layout", key="layout", title="layout", width=114, filter=True, grows=True),
    PageColumn(field="case", key="case", title="case", width=104, filter=True, grows=True),
    PageColumn(field="fix_hp", key="fix_hp", title="fix_hp", width=100, grows=True),
    PageColumn(field="status", key="status", title="status", width=80, filter=True),
    PageColumn(field="power", key="power_watts", title="power, W", width=58, number=True, paper=False, rare=True),
    PageColumn(field="repeats", key="repeats", title="repeats: median, spread", width=84, paper=False, rare=True),
    PageColumn(field="created", key="created", title="made", width=84, paper=False),
    PageColumn(field="run", key="run_id", title="run", width=100, grows=True),
)

LABELS = {
    "step_seconds_median": "step, s",
    "rank_peak_bytes": "memory of a rank, GiB",
    "joules_per_token": "energy, J a token",
}
"""Labels of compared figures that no run of a report may have."""
MEMORY = ("rank_peak_bytes", "device_memory_used_bytes")
"""Keys of figures whose ratio to a published figure means nothing: documents do not say what theirs count."""

WORDS = {
    "loss": "loss",
    "step": "step",
    "loss_axis": "loss, nats per token",
    "step_seconds": "step time",
    "step_seconds_axis": "step time, s",
    "memory_bytes": "memory in use on a device",
    "memory_bytes_axis": "memory, GiB",
    "power_watts": "power of a device",
    "power_watts_axis": "power, W",
    "utilisation_percent": "utilisation of a device",
    "utilisation_percent_axis": "utilisation, %",
    "since_window": "seconds since the window began",
    "since_sample": "seconds since the first sample",
    "entropy": "known entropy of the data",
    "warmup": "warm-up: not measured",
    "outside": "outside the measured window",
    "band_ranks": "5 % to 95 % of ranks",
    "band_devices": "5 % to 95 % of devices",
    "both_ranks": "range of both ranks",
    "both_devices": "range of both devices",
    "neighbours": "range of neighbouring points",
    "findings": "Findings",
    "no_findings": "No findings.",
    "contracts_differ": "The contracts differ, so the figures measure different things: no ratio. They differ in",
    "settings_differ": "They were run differently:",
    "not_told": "Not stated, so it is unknown whether it is the same:",
    "not_complete": "Not complete, so no ratio is shown:",
    "memory_unlike": "No ratio of memory: documents do not say what their figures count.",
    "one_each": "One run each has no spread: whether a difference is significant is unknown "
    "(llmperf run --repeat 4, llmperf compare).",
    "figure": "figure",
    "open": "open",
    "back": "Back to the overview",
    "compare": "compare",
    "compare_two": "Compare the two chosen runs",
    "chosen": "{chosen} chosen: choose two.",
    "shown": "{shown} of {all} runs",
    "filter": "filter",
    "search": "Search",
    "search_hint": "model, device, framework, case, run ...",
    "skip": "Skip to the runs",
    "as_table": "as a table",
    "lowest": "lowest",
    "highest": "highest",
    "below": "{value}, below this chart",
    "above": "{value}, above this chart",
    "close_curve": "A and B differ by {value} at most, so one covers the other",
    "same_curve": "A and B have the same curve, so one covers the other",
    "overview": "runs",
    "nothing": "No run fits.",
}

NO_LOSS = "No curves: there is no loss and there are no records."
TOO_LARGE = "No curves: with them the report would be too large."
NO_RECORDS = "No curves: an imported row has no records."
"""What the page says, by the name that its scripts use."""

_CHINESE = {
    "{shown} of {all} runs": "{all} 次运行中的 {shown} 次",
    "power, W": "功耗（W）",
    "repeats: median, spread": "重复：中位数，离散程度",
    "loss, nats per token": "损失值（nats/token）",
    "step time": "单步时间",
    "step time, s": "单步时间（s）",
    "memory in use on a device": "单卡已用存储",
    "memory, GiB": "存储（GiB）",
    "power of a device": "单卡功耗",
    "utilisation of a device": "设备利用率",
    "seconds since the window began": "测量窗口开始后的秒数",
    "seconds since the first sample": "首个采样后的秒数",
    "warm-up: not measured": "预热：不计入测量",
    "outside the measured window": "测量窗口之外",
    "5 % to 95 % of ranks": "各进程的 5 % 至 95 %",
    "5 % to 95 % of devices": "各设备的 5 % 至 95 %",
    "range of both ranks": "两个进程的范围",
    "range of both devices": "两个设备的范围",
    "range of neighbouring points": "相邻各点的范围",
    "The contracts differ, so the figures measure different things: no ratio. They differ in":
        "测例约定不同，指标含义不同，因此不给出比值。不同之处",
    "They were run differently:": "运行方式不同：",
    "Not stated, so it is unknown whether it is the same:": "未说明，无法判断是否相同：",
    "Not complete, so no ratio is shown:": "运行未完成，因此不给出比值：",
    "No ratio of memory: documents do not say what their figures count.":
        "不给出存储的比值：已发布数据未说明其统计范围。",
    "One run each has no spread: whether a difference is significant is unknown "
    "(llmperf run --repeat 4, llmperf compare).":
        "各只有一次运行，离散程度未知，无法判断差异是否显著（llmperf run --repeat 4，llmperf compare）。",
    "figure": "指标",
    "open": "打开",
    "Back to the overview": "返回总览",
    "Compare the two chosen runs": "对比所选的两次运行",
    "{chosen} chosen: choose two.": "已选 {chosen} 次：请选择两次。",
    "filter": "筛选",
    "Search": "搜索",
    "model, device, framework, case, run ...": "模型、设备、框架、测例、运行……",
    "Skip to the runs": "跳到运行列表",
    "as a table": "以表格显示",
    "lowest": "最低",
    "highest": "最高",
    "{value}, below this chart": "{value}，低于图中范围",
    "{value}, above this chart": "{value}，高于图中范围",
    "A and B differ by {value} at most, so one covers the other": "A 与 B 最多相差 {value}，因此相互重叠",
    "A and B have the same curve, so one covers the other": "A 与 B 的曲线相同，因此相互重叠",
    "llmperf report: {summary}, {made}": "llmperf 报告：{summary}，{made}",
    "written {made}": "生成于 {made}",
    "No run fits.": "没有符合条件的运行。",
    "No curves: there is no loss and there are no records.": "无曲线：没有损失值，也没有记录。",
    "No curves: with them the report would be too large.": "无曲线：否则报告过大。",
    "No curves: an imported row has no records.": "无曲线：导入的数据行没有记录。",
}  # fmt: skip
"""Words of the page; other labels are translated by llmperf."""


def word(english: str, language: str) -> str:
    """A word of the page or a label of a sheet in a language."""
    if language == "zh" and english in _CHINESE:
        return _CHINESE[english]
    return reporting.word(english, language)
