"""How much the steps of one run may differ before something must have disturbed it."""

from __future__ import annotations

UNEVEN_MEAN = 1.5
"""Mean step / median step beyond which a run was disturbed."""
UNEVEN_QUANTILES = 3.0
"""95 % quantile / 5 % quantile of the steps beyond which it was."""
