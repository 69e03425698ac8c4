"""What no result of a CPU can have."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from llmperf import precision_recipe
from llmperf.validation import rule

from llmperf_cpu.host import OFFERS

if TYPE_CHECKING:
    from llmperf.types import Result

PAGE = """# CPU1: A CPU computes in fp32 and bf16

Severity: error. Applies to: result.

No CPU that this plugin supports multiplies matrices in fp8, fp16 or tf32 for training. A result of vendor `cpu` in
such a precision was either emulated and does not say so (`tuning.emulate_precision`), or trained in another precision.
"""


@rule("CPU1", "error", "A CPU computes in fp32 and bf16", page=PAGE)
def precision_of_a_cpu(result: Result) -> Iterator[tuple[str, str]]:
    """The products of the precision recipe are in a dtype that CPUs have, unless they were emulated."""
    products = precision_recipe(result.contract.precision).products
    if result.hardware.vendor == "cpu" and not result.tuning.emulate_precision and products not in OFFERS.precisions:
        expected = f"expected products in one of {', '.join(OFFERS.precisions)} on a CPU, unless they are emulated"
        yield "/contract/precision", f"{expected}, found {products}"
