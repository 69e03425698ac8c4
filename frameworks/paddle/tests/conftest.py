"""Starting ranks for tests."""

import json
import socket
from pathlib import Path
from types import SimpleNamespace

import pytest
from llmperf.runfolder.create import fill
from llmperf_paddle.limits import rank_variables

PROGRAM = Path(__file__).with_name("paddle_rank_program.py")
SECONDS = 200


@pytest.fixture(scope="module")
def train(tmp_path_factory, forks):
    """A function that trains tasks on so many ranks: `train(tasks, ranks)` gives the results of all ranks for each."""

    def run(tasks, ranks):
        folder = tmp_path_factory.mktemp("paddle")
        (folder / "tasks.json").write_text(json.dumps(tasks))
        words = [str(folder / "tasks.json"), str(folder / "results")]
        alike, each = _environments(ranks)
        started = [{"log": str(folder / f"rank-{rank}.log"), "env": env} for rank, env in enumerate(each)]
        codes = forks.launch(PROGRAM, {"paddle"}, alike, words, started, SECONDS)
        logs = "\n".join(path.read_text()[-3000:] for path in sorted(folder.glob("*.log")))
        assert codes == [0] * ranks, logs
        of_ranks = [json.loads((folder / f"results.{rank}").read_text()) for rank in range(ranks)]
        return [list(one) for one in zip(*of_ranks, strict=True)]

    return run


def _environments(ranks):
    """Variables of all ranks, which Paddle reads when it is imported, and of each, as llmperf's agent makes them."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    probe = SimpleNamespace(offers=SimpleNamespace(collective_backend="gloo"))
    templates = rank_variables(None, probe, SimpleNamespace(world_size=ranks))
    each = []
    for rank in range(ranks):
        values = {
            "rank": rank, "local_rank": rank, "world_size": ranks, "local_world_size": ranks,
            "master_addr": "127.0.0.1", "master_port": port,
        }  # fmt: skip
        own = {name: fill(text, values) for name, text in templates.items()}
        each.append({**{name.upper(): str(value) for name, value in values.items()}, **own})
    return {name: text for name, text in templates.items() if "{" not in text}, each
