"""One rank of llmperf's own loop: the wall and CPU time of its measured steps, as the other sides print them."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
from ranks import own_rank


def main() -> None:
    with own_rank(Path(sys.argv[1])) as (plan, _, _, loop):
        contract = plan.spec.contract
        loop.run(contract.warmup_steps, 0, lambda *_: None)
        used = time.process_time()
        seconds = loop.run(contract.steps - contract.warmup_steps, 0, lambda *_: None).seconds
        used = time.process_time() - used
    print(json.dumps({"seconds": seconds, "cpu_seconds": used}))


if __name__ == "__main__":
    main()
