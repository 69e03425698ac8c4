"""Scope of a throughput, by the words of its header or unit: tokens of one device, of one node, or of all."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from typing import Literal

from llmperf_published.reading.markdown import normal, plain

Scope = Literal["device", "node", "all", "unclear"]

_WORDS: dict[str, str] = {
    "per": "per each every a one single / 每 单",
    "device": "gpu gpus npu npus xpu xpus hpu hpus dcu dcus gcu gcus mlu mlus tpu tpus card cards device devices chip "
    "chips accelerator accelerators 加速卡 加速器 计算卡 显卡 卡 芯片 设备",
    "node": "node nodes machine machines host hosts server servers 节点 服务器 主机 机器 机 台",
    "tokens": "token tokens tok toks ktoken ktokens ktok mtok 词元",
    "second": "s sec secs second seconds 秒",
    "total": "total overall aggregate aggregated combined global cluster all across sum 总 集群 全部 所有 合计 整体",
    "throughput": "throughput throughputs 吞吐量 吞吐率 吞吐",
    "neutral": "speed rate performance training train pretraining trained average avg mean "
    "median measured processed processing number of in for the at as is are by k m million thousand unit "
    "units higher better 速度 速率 性能 训练 预训练 平均 均值 实测 单位 处理 数量 数 量 的 万 千 百万 个 为 越高越好",
    "precision": "bf16 fp16 fp8 fp32 tf32 amp mixed precision",
}
"""Kind of each word; any other is unknown."""
_PIECE = re.compile(r"[a-z][a-z0-9]*|\d+|[\u4e00-\u9fff]+|[/*·()]")


@dataclass(frozen=True, slots=True, kw_only=True)
class ThroughputWords:
    """Words of a text about a throughput."""

    named: bool
    """They name a throughput, and nothing else such as a variant: `tokens/s`, but not `With CP tokens/s`."""
    rate: bool
    """They contain tokens and seconds: `tokens/s`."""
    scope: Scope | None
    """`unclear` if a rate stands beside words that are not known; None if the text says nothing on it."""


@cache
def throughput_words(text: str, prose: bool = False) -> ThroughputWords:
    """The scope of a header or a unit; in prose, words that are not known have no effect."""
    pieces = _pieces(normal(plain(text[:400])).lower())
    kinds: set[str] = set()
    per, by_time, single = False, False, False
    for index, (word, kind) in enumerate(pieces):
        following = pieces[index + 1][0] if index + 1 < len(pieces) else ""
        if word == "tgs":
            kinds |= {"tokens", "per second", "per device"}
        elif word == "tps":
            kinds |= {"tokens", "per second", "ambiguous"}
        elif (word == "t" and following == "/") or kind == "tokens":
            kinds.add("tokens")
        elif word == "p" and per:
            kinds.add("per device")
        elif kind == "per":
            per, single = True, word in ("单", "single", "one")
            continue
        elif word in "*·" and by_time:  # tokens/(s*GPU)
            per = True
            continue
        elif word == "(" or kind in ("neutral", "throughput"):
            kinds.add(kind or "")
            continue
        elif kind in ("second", "device", "node") and per:
            kinds.add("single node" if kind == "node" and single else f"per {kind}")
        elif kind in ("device", "node", "total", "precision"):
            kinds.add(kind)
        elif word not in "*·)" and (per or not word.isdecimal()):
            joined = index > 0 and not word.isascii() and pieces[index - 1][1] in ("device", "node")  # 每机柜
            kinds.add("per unknown" if per or joined else "unknown")
        by_time = kind == "second" and per
        per = False
    rate, scope = {"tokens", "per second"} <= kinds, _scope(kinds, prose)
    alone = not kinds & {"unknown", "per unknown", "precision"}
    named = alone and (rate or ("throughput" in kinds and scope is not None))
    return ThroughputWords(named=named, rate=rate, scope=scope)


def _scope(kinds: set[str], prose: bool) -> Scope | None:
    if "per unknown" in kinds and not prose:
        return "unclear"
    if "per device" in kinds:
        return "unclear" if "per node" in kinds else "device"
    if {"per node", "single node"} & kinds:
        return "unclear" if prose else "node"
    if not {"tokens", "per second"} <= kinds:
        return None
    if "ambiguous" in kinds or ({"device", "node"} & kinds and "total" not in kinds and not prose):
        return "unclear"
    return "unclear" if "unknown" in kinds and not prose else "all"


def _pieces(text: str) -> list[tuple[str, str | None]]:
    """The words of a text with their kinds; Chinese text is split into known words and the rest."""
    pieces = []
    for piece in _PIECE.findall(text):
        chinese = "\u4e00" <= piece[0] <= "\u9fff"
        for word in _chinese().findall(piece) if chinese else [piece]:
            pieces.append((word, _kinds().get(word)))
    return pieces


@cache
def _kinds() -> dict[str, str]:
    return {word: kind for kind, words in _WORDS.items() for word in words.split()}


@cache
def _chinese() -> re.Pattern[str]:
    """Known Chinese words, the longest first, or a single character."""
    words = sorted((word for word in _kinds() if not word.isascii()), key=len, reverse=True)
    return re.compile("|".join([*words, "."]))
