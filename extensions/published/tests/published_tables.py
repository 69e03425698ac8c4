"""Published documents as tests write them, and values of their rows by path."""

from collections.abc import Mapping
from pathlib import Path

from llmperf import library
from llmperf.validation.check import findings
from llmperf_published.reading.document import import_document
from llmperf_published.reading.library_match import Known
from llmperf_published.rules.machine import machine_of
from llmperf_published.rules.verdicts import judged
from llmperf_published.types.document import Published
from llmperf_published.types.row import Figure

KNOWN = Known.of(library())
DATA = Path(__file__).parents[1] / "src/llmperf_published/data"
SOURCES = {path.stem: path for path in sorted((Path(__file__).parent / "published_documents").glob("*.md"))}
A100 = """# NVIDIA results
## Hardware environment
- Accelerator: NVIDIA A100-SXM4-80GB
## General metrics
| item | value | remark |
| --- | --- | --- |
| model | llama2_7b | |
| precision | bf16 | |
## Performance metrics"""
"""The beginning of a document whose rows are on an A100."""
X1 = "### Vendor 配置与运行信息参考\n#### 环境配置\n- ##### 硬件环境\n  - 加速卡型号: X1\n"
"""The beginning of one by a vendor that nobody knows."""
MY_LLAMA = Path(__file__).with_name("my_llama.toml").read_text()
"""A model that no installed package has."""


def read(text: str) -> Published:
    return import_document(text.encode("utf-8", "surrogatepass"), "README.md", KNOWN)


def markdown(header: str, *rows: str, above: str = "# Results") -> str:
    lines = [header, "|".join(["---"] * (header.count("|") + 1)), *rows]
    return "\n".join([above, "", *(f"| {line} |" for line in lines), ""])


def table(header: str, *rows: str, above: str = "# Results") -> Published:
    return read(markdown(header, *rows, above=above))


def unread(published: Published) -> list[str]:
    return [f"{item.reason}: {item.text}" for item in published.unread if item.reason != "expected a known heading"]


def codes(published: Published, severity: str = "") -> list[str]:
    return [item.code for item in findings("published", published) if item.severity.startswith(severity)]


def errors(published: Published) -> list[str]:
    found = (item for item in findings("published", published) if item.severity == "error")
    return [f"{item.code}: {item.message}" for item in found]


def value(published: Published, path: str) -> object:
    """A value of a document by its path from the first row, a figure as its number; or what follows from all of it."""
    if path.startswith("LP"):
        return path in codes(published)
    if path in ("unread", "errors"):
        return {"unread": unread, "errors": errors}[path](published)
    if path in ("outcomes", "why"):
        verdicts = judged(published)[1]
        return verdicts[0].why[0] if path == "why" else [verdict.outcome for verdict in verdicts]
    if path == "devices":
        machine = machine_of(published, published.rows[0])
        return [device.model for device in machine.devices] if machine else []
    inner: object = published if path.startswith(("vendor", "rows", "tables")) else published.rows[0]
    for part in path.split("."):
        if isinstance(inner, Mapping):
            inner = inner.get(part)
        else:
            inner = inner[int(part)] if isinstance(inner, tuple) else getattr(inner, part)
        if inner is None:
            return None
    return inner.value if isinstance(inner, Figure) else inner
