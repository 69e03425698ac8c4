"""One HTML file that opens without a network: styles, scripts, data, and a policy that lets nothing else run."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from string import Template
from typing import Any

from llmperf import read_toml

LABELS = {
    "step_seconds_median": "step, s",
    "rank_peak_bytes": "memory of a rank, GiB",
    "joules_per_token": "energy, J a token",
    "cost_per_million_tokens": "cost per million tokens",
}
"""Labels of compared figures that no run of a report may have."""
MEMORY = ("rank_peak_bytes", "device_memory_used_bytes")
"""Keys of figures whose ratio to a published figure means nothing: documents do not say what theirs count."""
IN_USE_BY_ALL = "device_memory_used_bytes"
"""On a device that ranks share, such as a host, this counts other processes too: it gets no ratio."""

WORDS: Mapping[str, str] = read_toml(Path(__file__).with_name("web") / "words.toml")
"""By that name."""

NO_LOSS = "No curves: there is no loss and there are no records."
TOO_LARGE = "No curves: with them the report would be too large."
NO_RECORDS = "No curves: an imported row has no records."


WEB = Path(__file__).parent / "web"
CHARTS = "uplot/uPlot.iife.min.js"
STYLES = ("uplot/uPlot.min.css", "page.css", "bars.css", "table.css")


def document(
    *, title: str, language: str, body: str, data: Any, scripts: Sequence[str], styles: Sequence[str] = STYLES
) -> str:
    """The whole file: an escaped `body`, `scripts` and `styles` of `web/`, and `data` in the element `#data`."""
    sources = [library(name) for name in scripts]
    template = Template((WEB / "page.html").read_text(encoding="utf-8"))
    return template.substitute(
        language="zh-CN" if language == "zh" else language,
        title=escape(title),
        hashes=" ".join(map(_hash, sources)),
        style="\n".join(library(name) for name in styles),
        body=body,
        data=embedded(data),
        scripts="\n".join(f"<script>{source}</script>" for source in sources),
    )


def library(name: str) -> str:
    """A file of `web/`, without the pointer to its source map, which is not included."""
    text = (WEB / name).read_text(encoding="utf-8")
    return "\n".join(line for line in text.splitlines() if "sourceMappingURL=" not in line)


def _hash(script: str) -> str:
    digest = hashlib.sha256(script.encode("utf-8")).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"


def embedded(value: Any) -> str:
    """JSON that is safe in a script element, whatever its strings hold."""
    text = json.dumps(value, allow_nan=False, separators=(",", ":"))  # ASCII, so that no separator slips through
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
