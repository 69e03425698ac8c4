"""The data of a run, as far as they follow from its contract."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from llmperf.tokens.data_sets import SYNTHETIC, synthetic_fingerprint
from llmperf.types import Result, Text, Violation
from llmperf.validation.reading import shown
from llmperf.validation.violations import rule

if TYPE_CHECKING:
    from llmperf.types import Plan


@rule("LP660", "error", "Synthetic data are those of their seed", "result", "plan")
def synthetic_data_of_the_seed(document: Result | Plan) -> Iterator[Violation]:
    """The fingerprint of synthetic data follows from the seed, the vocabulary and the length of sequences."""
    owner = document if isinstance(document, Result) else document.spec
    contract, found = owner.contract, document.data_fingerprint
    if found is None or contract.dataset != SYNTHETIC or contract.packing != "packed":
        return
    expected = synthetic_fingerprint(owner.model.vocab_size, contract.seq_len, contract.seed)
    if found != expected:
        because = Text(
            "seed {}, vocabulary of {}, sequences of {}", contract.seed, owner.model.vocab_size, contract.seq_len
        )
        yield "/data_fingerprint", Text("expected {} ({}), found {}", expected, because, shown(found))
