"""Published documents as they might be: any vendor, either language, columns in any order, figures withheld."""

from dataclasses import dataclass, field

from hypothesis import strategies as st

VENDORS = (("Nvidia", "A100"), ("昆仑芯", "R300"), ("Iluvatar", "BI-V150"), ("AMD", "MI300X"), ("Metax", "C500"))
MODELS = ("llama2_7b", "mixtral_8x7b", "qwen1.5_moe", "llava1.5_13b", "aquila2_7b", "deepspeed-llama2-7b", "LLaMA-3 8B")
WITHHELD = ("/", "-", "--", "\\*", "", "／", "N/A")
HEADERS = {
    "configuration": ("配置", "configuration"),
    "fix_hp": ("fix_hp", "fix_hp"),
    "parallel": ("parallel", "parallel strategy"),
    "throughput": ("token/p/s", "tokens/p/s"),
    "loss": ("loss", "loss"),
    "aligned": ("是否精度对齐", "aligned"),
    "memory": ("mem", "memory"),
    "mfu": ("MFU", "**MFU**"),
    "evaluation": ("acc(MMLU)", "acc(MMLU)"),
}
_WIDE = {ord(char): ord(char) + 0xFEE0 for char in "0123456789,%=/()"}


@dataclass
class Row:
    """One row as it was meant; None is withheld."""

    nodes: int
    devices: int
    throughput: float | None
    digits: int
    mfu: float | None
    memory: tuple[int, int] | None
    loss: float | None
    aligned: bool | None
    accumulation: int | None
    layout: tuple[int, int, int]
    blank: str
    wide: bool


@dataclass
class Generated:
    """A document's text and what it was made from."""

    text: str
    rows: list[Row]
    columns: list[str]
    chinese: bool
    defaults: dict[str, int] = field(default_factory=dict)


def maybe(strategy):
    return st.none() | strategy


ROWS = st.builds(
    Row,
    nodes=st.integers(1, 128),
    devices=st.sampled_from([1, 4, 8, 16]),
    throughput=maybe(st.floats(1, 1e6)),
    digits=st.integers(0, 2),
    mfu=maybe(st.floats(0.1, 99)),
    memory=maybe(st.tuples(st.integers(1, 80), st.integers(80, 192))),
    loss=maybe(st.floats(0.1, 12)),
    aligned=maybe(st.booleans()),
    accumulation=maybe(st.integers(1, 4096)),
    layout=st.tuples(*(st.sampled_from([1, 2, 4, 8]) for _ in range(3))),
    blank=st.sampled_from(WITHHELD),
    wide=st.booleans(),
)


@st.composite
def documents(draw) -> Generated:
    """A document in the published form with the facts it was made from."""
    chinese = draw(st.booleans())
    optional = [name for name in HEADERS if name != "configuration"]
    columns = draw(st.permutations(["configuration", "throughput", *draw(st.sets(st.sampled_from(optional)))]))
    columns = list(dict.fromkeys(columns))
    rows = draw(st.lists(ROWS, min_size=1, max_size=5))
    vendor, device = draw(st.sampled_from(VENDORS))
    defaults = {"micro_batch": draw(st.integers(1, 64)), "seq_len": draw(st.sampled_from([512, 2048, 4096, 32768]))}
    parts = [
        *_environment(chinese, vendor, device),
        *_batch(chinese, defaults),
        *_general(chinese, draw(st.sampled_from(MODELS))),
        *_performance(chinese, device, columns, rows, draw(st.booleans())),
    ]
    return Generated(draw(st.sampled_from(["\n", "\r\n"])).join(parts), rows, columns, chinese, defaults)


def _environment(chinese, vendor, device):
    if chinese:
        return [f"### {vendor} 配置与运行信息参考", "#### 环境配置", "- ##### 硬件环境",
                f"  - 加速卡型号：{vendor} {device}", "- ##### 软件环境", "   - OS版本：Ubuntu 22.04",
                "### 运行情况"]  # fmt: skip
    return [f"# {vendor} configuration and running information", "## Hardware environment",
            f"- Accelerator: {vendor} {device}", "## Software environment", "* OS: Ubuntu 22.04"]  # fmt: skip


def _batch(chinese, defaults):
    micro, length = defaults["micro_batch"], defaults["seq_len"]
    if chinese:
        return ["* 输入批尺寸", f"  1. local_batchsize(micro_batchsize)，简写为LBS，在本case中默认为{micro}",
                f"  2. seqlength，简写为MPE，默认为{length}", ""]  # fmt: skip
    return ["## Batch size", f"1. micro batch (LBS): {micro}", f"2. sequence length (MPE), {length} by default", ""]


def _general(chinese, model):
    if chinese:
        return ["* 通用指标", "", "| 指标名称 | 指标值 | 特殊说明 |", "|---|:-:|---|", f"| 模型 | {model} | |",
                "| 硬件存储使用 | mem,见“性能指标” | 单位为GiB |", ""]  # fmt: skip
    return ["## General metrics", "", "item | value", "--- | ---", f"model | {model}", ""]


def _performance(chinese, device, columns, rows, grouped):
    heads = [HEADERS[name][not chinese] for name in columns]
    lines = ["* 性能指标" if chinese else "## Performance metrics", ""]
    lines += ["| " + " | ".join(heads) + " |", "| " + " | ".join("---" for _ in columns) + " |"]
    if grouped:
        lines.append("| some heading |" + " ---- |" * (len(columns) - 1))
    lines += ["| " + " | ".join(_cell(name, device, row, chinese) for name in columns) + " |" for row in rows]
    return lines


def _cell(name, device, row, chinese):
    if name == "configuration":
        words = f"{row.nodes}机{row.nodes * row.devices}卡" if chinese else f"{row.nodes} nodes"
        return f"{device} {words} ({row.nodes}x{row.devices})"
    text = _figure(name, row)
    if text is None:
        return row.blank
    return text.translate(_WIDE) if row.wide and name not in ("evaluation", "parallel", "aligned") else text


def _figure(name, row):
    if name == "parallel":
        return "TP{}PP{}DP{}".format(*row.layout)
    if name == "fix_hp":
        return None if row.accumulation is None else f"GAS={row.accumulation}"
    if name == "memory":
        return None if row.memory is None else f"{row.memory[0]}/{row.memory[1]}"
    value = {"throughput": row.throughput, "mfu": row.mfu, "loss": row.loss, "aligned": row.aligned}.get(name, 0.5)
    if value is None or name == "aligned":
        return None if value is None else str(value)
    return {"throughput": f"{value:,.{row.digits}f}", "mfu": f"{value:.1f}%"}.get(name, f"{value:.2f}")
