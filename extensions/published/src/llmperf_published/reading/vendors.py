"""Vendors by the words that name them in a text."""

from __future__ import annotations

import re

from llmperf_published.reading.cell_text import normal

_VENDORS = {
    "nvidia": r"nvidia|geforce|tesla|英伟达",
    "kunlunxin": r"昆仑芯|kunlun",
    "ascend": r"昇腾|ascend|huawei|华为|(?<![a-z])atlas\s?\d{3}",
    "rocm": r"(?<![a-z])amd(?![a-z])|instinct",
    "iluvatar": r"天数|iluvatar",
    "metax": r"沐曦|metax|曦云",
    "moore threads": r"摩尔线程|moore ?threads|mthreads",
    "hygon": r"海光|hygon",
    "cambricon": r"寒武纪|cambricon|(?<![a-z])mlu(?![a-z])",
    "biren": r"壁仞|biren",
    "enflame": r"燧原|enflame",
}
"""Names of vendors as headings and accelerators give them, by the plugin's name where there is one."""


def vendors_named(text: str) -> list[str]:
    """Every vendor that a text names, each once."""
    words = normal(text).lower()
    return [name for name, pattern in _VENDORS.items() if re.search(pattern, words)]
