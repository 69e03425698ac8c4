"""Contents of a line of an external script's output: the answers of `llmperf_parse_log`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from llmperf.types.units import Count, NonNegative, Positive


@dataclass(frozen=True, slots=True, kw_only=True)
class LoggedStep:
    """A step as an external script prints it. The core adds the rank, the moment and whether the step is measured."""

    step: Positive
    """Number of the step, from 1."""
    loss: float | None
    """Mean cross entropy per token of the whole step, in nats; NaN or infinite if the script prints that; None if
    it prints no loss."""
    seconds: NonNegative | None = None
    """Duration by the script's own clock; None: the core uses the time since the previous line."""
    tokens: Count | None = None
    """Tokens of the whole step, over all ranks, compared with the plan; None if the script does not print them."""
    grad_norm: float | None = None
    """Norm of the whole gradient before clipping; None if the script does not print it."""
    skipped: bool | None = None
    """True if the script skipped the update because gradients were not finite; None if it does not print it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoggedFacts:
    """Other facts in a rank's output, about that rank."""

    peak_memory_bytes: Count | None = None
    """Highest memory use of the rank so far."""
    parameters: Positive | None = None
    """Parameters of the whole model, compared with the plan; tied ones count once, adapters do not count."""
    packages: Mapping[str, str] = field(default_factory=dict)
    """Versions of packages, by name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoggedFailure:
    """The exception that ends a rank's script, printed before the script ends."""

    exception: str
    """Name of its type."""
    message: str
    """Its message."""
    traceback: str = ""
    """Traceback as Python prints it."""
