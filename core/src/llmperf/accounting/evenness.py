"""From when on a run counts as disturbed."""

from __future__ import annotations

UNEVEN_MEAN = 1.5
"""Mean step / median step beyond which a run was disturbed."""
UNEVEN_QUANTILES = 3.0
"""95 % quantile / 5 % quantile of the steps beyond which it was."""
OTHER_CPU_SHARE = 0.1
"""Share of the host's cores that others may have: background work of a quiet host takes a hundredth or two, and what
is more is missing to a run that computes or prepares its data there."""
