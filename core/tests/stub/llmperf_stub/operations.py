import contextlib
import os
import time

SECONDS = {"matmul": 2e-3, "attention": 4e-3, "copy": 1e-3, "read": 5e-4, "launch": 1e-3, "all_reduce": 2e-3}


class StubOperations(contextlib.AbstractContextManager):
    """Operations that sleep; `wrong` names one whose output is wrong, `raises` one that fails on rank 1."""

    def __init__(self, plan):
        self.conditions = {"stub": "1.0"}
        self._options = plan.spec.framework
        self._rank = int(os.environ["RANK"])

    def prepare(self, operation):
        if operation.kind not in SECONDS or operation.dtype not in ("fp32", "bf16"):
            return None
        if self._options.get("raises") == operation.kind and self._rank == 1:
            raise MemoryError(f"no room for {operation.kind}")
        return StubOperation(operation, self._options.get("wrong") == operation.kind)

    def agree(self, figure):
        return figure

    def __exit__(self, *_):
        return None


class StubOperation:
    def __init__(self, operation, wrong):
        self._seconds = SECONDS[operation.kind]
        self._wrong = wrong

    def run(self):
        time.sleep(self._seconds)

    def check(self):
        return "expected 1, found 2" if self._wrong else None
