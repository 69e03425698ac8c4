"""Texts of the pages of a site, in English and Chinese."""

from __future__ import annotations

from llmperf_html.words import word as reported

COMPARABLE = "The figures of one table have one contract and can be compared. Tables differ in what was measured."
BARS = (
    "Bars of MFU go from 0 to 100 %, others to the largest value of their contract. A line over a bar is the range of"
    " its repeats; hatched bars are imported figures, which llmperf did not measure."
)
_CHINESE = {
    "Leaderboard": "排行榜",
    "llmperf results": "llmperf 结果",
    "Devices": "设备",
    "Vendors": "厂商",
    "Frameworks": "框架",
    "Changes": "更新记录",
    "Feed": "订阅",
    "Skip to the content": "跳到正文",
    "Pages": "页面",
    "signed by {name}": "已由 {name} 签名",
    "signature not checked": "签名未检查",
    "not signed": "未签名",
    "no valid signature": "无有效签名",
    "Results: {runs}; models: {models}; devices: {devices}": "{models} 个模型、{devices} 种设备、共 {runs} 条结果",
    "no date": "无日期",
    "results": "结果",
    "Everything that was fixed ({count})": "全部约定（{count} 项）",
    "All {count} entries": "全部 {count} 条",
    COMPARABLE: "同一表中的数据测量约定相同，可以比较；不同表的测量内容不同。",
    BARS:
        "MFU 的条形为 0 到 100 %，其余相对于同一约定中的最大值。"
        "条上的细线为重复运行的范围；斜纹条为导入数据，并非由 llmperf 测得。",
    "This row was imported from a document. llmperf did not measure it.": "本行由文献导入，并非由 llmperf 测得。",
    "Same contract": "相同测量约定",
    "Curves": "曲线",
    "The curves need JavaScript.": "显示曲线需要 JavaScript。",
    "name": "名称",
    "Made by llmperf {version}.": "由 llmperf {version} 生成。",
    "Device": "设备",
    "Vendor": "厂商",
    "Framework": "框架",
}  # fmt: skip


def word(english: str, language: str) -> str:
    """A text of a page, a label or a value, in a language; English without a translation."""
    if language == "zh" and english in _CHINESE:
        return _CHINESE[english]
    return reported(english, language)
