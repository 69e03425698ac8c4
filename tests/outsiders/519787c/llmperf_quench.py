"""An extension with a check of results."""

from llmperf import hookimpl
from llmperf.types import Finding


@hookimpl
def llmperf_check_result(result):
    if result.hardware.driver is None:
        yield Finding(code="QUENCH1", severity="note", path="/hardware/driver", message="no driver")
