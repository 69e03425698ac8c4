"""Two groups of runs side by side, and runs beside published rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from statistics import median
from typing import TYPE_CHECKING

from llmperf.reporting import cells
from llmperf.reporting.comparison_text import MAX_LINE, kind_devices, share_line
from llmperf.reporting.contract_parts import contract_parts
from llmperf.results.comparison import Comparison
from llmperf.results.comparison_side import Side, Sides, device_throughput, rank_throughput
from llmperf.types import Result

if TYPE_CHECKING:
    from llmperf_published.baselines import Held

MFU = "MFU (nominal)"
OF_A_DEVICE = "tokens/s of a whole device"

Figure = Callable[[Result], float | None]

FIGURES: dict[str, Figure] = {
    "token/p/s": rank_throughput,
    "step, s": lambda one: None if one.metrics.step_seconds is None else one.metrics.step_seconds.median,
    MFU: cells.headline_mfu,
    "memory of a rank, GiB": lambda one: _gib(cells.rank_peak(one)),
    "memory of a device, GiB": lambda one: _gib(one.metrics.device_memory_used_bytes),
    "power of a device, W": lambda one: one.metrics.power_watts,
    "energy, J a token": lambda one: one.metrics.joules_per_token,
    "final loss": lambda one: one.metrics.final_loss,
}
"""What is compared, by the name of its row."""


def figure_rows(
    ours: Sequence[Result], theirs: Sequence[Result], of_devices: bool = False, ratios: bool = True
) -> Iterator[list[str]]:
    """A row a figure that either group has: its name, the two medians and, with `ratios`, their ratio.

    `of_devices` adds the throughput of a whole device, where ranks had different parts of one.
    """
    added: dict[str, Figure] = {OF_A_DEVICE: device_throughput} if of_devices else {}
    for name, figure in (FIGURES | added).items():
        one, other = _median(ours, figure), _median(theirs, figure)
        if one is None and other is None:
            continue
        ratio = cells.UNKNOWN if one is None or not other else f"{one / other:.4f}"
        yield [name, shown(name, one), shown(name, other), *[ratio] * ratios]


def shown(name: str, value: float | None) -> str:
    """A figure of FIGURES as text: MFU in percent, as in every other report."""
    return cells.percent(value) if name == MFU else cells.significant(value)


def _gib(count: int | None) -> float | None:
    return None if count is None else count / 2**30


def _median(results: Sequence[Result], figure: Figure) -> float | None:
    known = [value for one in results if (value := figure(one)) is not None]
    return median(known) if known else None


def verdict(found: Comparison, of: str = "token/p/s") -> str:
    """One line on a throughput."""
    interval = "" if found.low is None else f", 95 % interval {found.low:.4f} to {found.high:.4f}"
    return f"{of}: {found.verdict}: ratio {found.ratio:.4f}{interval}; {found.why}"


def verdict_lines(sides: Mapping[str, Side], found: Sides) -> Iterator[str]:
    """What the throughputs say of the sides, or why they say nothing."""
    if found.contract_differences:
        different = ", ".join(difference_text(name, sides) for name in found.contract_differences)
        yield cells.printable(f"the contracts differ in {different}: these figures measure different things", MAX_LINE)
    elif found.device_throughput is None:
        yield verdict(found.throughput)
    else:
        yield verdict(found.throughput, "token/p/s of a rank")
        yield verdict(found.device_throughput, OF_A_DEVICE)
    if found.device_throughput is not None:
        yield share_line(sides)


def difference_text(part: str, sides: Mapping[str, Side]) -> str:
    """`seed (A: 0, B: 9)`; of a part that has parts itself, such as the optimiser, only those that differ."""
    every = {name: [contract_parts(one) for one in side.results] for name, side in sides.items()}
    paths = sorted({path for runs in every.values() for parts in runs for path in parts})
    told = []
    for path in paths:
        if path != part and not path.startswith(f"{part}."):
            continue
        values = {name: dict.fromkeys(one.get(path, cells.UNKNOWN) for one in runs) for name, runs in every.items()}
        if len({value for each in values.values() for value in each}) > 1:
            told.append(f"{path} ({', '.join(f'{name}: {cells.joined(list(each))}' for name, each in values.items())})")
            if path == part:  # another model: its layers and widths differ as a matter of course
                break
    return ", ".join(told) or part


ONE_FIGURE = "a published row is one figure without its spread: whether a difference is significant cannot be told"


def published_lines(held: Sequence[Held]) -> Iterator[str]:
    """For each kind of runs the published row it is held against, or why there is none."""
    alike: dict[str, list[str]] = {}
    for one in held:
        share = f"{one.share:.4f} of " if one.share is not None else ""
        alike.setdefault(f"{share}{one.why}", []).append(f"{one.group.kind.case} on {kind_devices(one.group.kind)}")
    for why, kinds in alike.items():
        names = list(dict.fromkeys(kinds))
        more = f" and {len(names) - 2} more" if len(names) > 3 else ""
        who = "; ".join(names[:2] if more else names) + more
        yield cells.printable(f"{who}: {why}", MAX_LINE)
    if any(one.share is not None for one in held):
        yield ONE_FIGURE
