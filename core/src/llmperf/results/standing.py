"""A kind of runs held against its baseline."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from llmperf.results.comparison import Comparison, compare
from llmperf.results.groups import Group, baseline_of
from llmperf.results.spread import throughputs


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """How runs of one kind do against others."""

    group: Group
    """The runs."""
    baseline: Group
    """What they are held against: the same kind of run where there is one."""
    comparison: Comparison | None
    """Of token/p/s; None where the runs or the baseline have none."""

    @property
    def share(self) -> float | None:
        """Median of the runs / median of the baseline."""
        return None if self.comparison is None else self.comparison.ratio

    @property
    def same_kind(self) -> bool:
        """Whether the baseline is of the very kind."""
        return self.group.kind == self.baseline.kind

    def document(self) -> dict[str, object]:
        """For programs, without the group."""
        runs = [one.run_id for one in self.baseline.results]
        baseline = {"kind": self.baseline.kind, "runs": runs, "same_kind": self.same_kind}
        return {"baseline": baseline, "comparison": self.comparison}


def standing(group: Group, baselines: Sequence[Group]) -> Standing | None:
    """The group against the baseline that fits it; None where none does."""
    found = baseline_of(group, baselines)
    if found is None:
        return None
    ours, theirs = throughputs(group.results), throughputs(found.results)
    comparison = compare(ours, theirs) if ours and min(*ours, *theirs) > 0 else None
    return Standing(group=group, baseline=found, comparison=comparison)
