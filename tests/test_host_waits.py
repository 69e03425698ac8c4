"""In no measured step of bf16 and fp32 does the host wait for the device."""

import importlib.util
from pathlib import Path

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.long, pytest.mark.timeout(400)]

PROGRAM = Path(__file__).with_name("host_waits_program.py")
CONFTEST = PROGRAM.parents[1] / "frameworks" / "pytorch" / "tests" / "conftest.py"

_specification = importlib.util.spec_from_file_location("llmperf_ranks_for_waits", CONFTEST)
_shared = importlib.util.module_from_spec(_specification)
_specification.loader.exec_module(_shared)
train = _shared.train

LORA = {"lora": {"dropout": 0.0}}
WIDE = {"hidden_size": 128, "intermediate_size": 1024, "vocab_size": 1024}
"""Matrices over 100,000 elements: smaller ones DeepSpeed leaves whole at stage 3."""
RANKS = {
    "pytorch": 1,
    "pytorch DDP": 2,
    **{f"pytorch {stage}": 2 for stage in (1, 2, 3)},
    "pytorch 3 TP2 SP": 4,
    "pytorch PP2": 2,
    **{f"zero {stage}": 2 for stage in range(4)},
    "zero 1 overlap": 2,
    "zero 2 overlap": 2,
    "lora": 1,
    "lora DDP": 2,
    **{f"lora {stage}": 2 for stage in (1, 2, 3)},
    # last: what its pipeline leaves behind in a process, DeepSpeed's other engines take for their own
    "megatron_deepspeed DP2": 2,
    "megatron_deepspeed TP2": 2,
    "megatron_deepspeed TP2 SP overlap": 2,
    "megatron_deepspeed PP2": 2,
    "megatron_deepspeed TP2 PP2": 4,
}
TUNING = {"TP2": {"tensor_parallel": 2}, "PP2": {"pipeline_parallel": 2}, "SP": {"sequence_parallel": True}}
OVERLAP = {"zero": "overlap_comm", "megatron_deepspeed": "overlap_tensor_parallel"}


def task(name, precision):
    framework, *words = name.split()
    stage = next((int(word) for word in words if word.isdigit()), 1 if framework == "megatron_deepspeed" else 0)
    tuning = {"sharding_stage": stage, "micro_batch": 1}
    for word in words:
        tuning |= TUNING.get(word, {})
    contract = {"precision": precision, "steps": 4, **(LORA if framework == "lora" else {})}
    options = {OVERLAP[framework]: True} if "overlap" in words else {}
    return {"framework": framework, "model": WIDE, "contract": contract, "tuning": tuning, "options": options}


@pytest.fixture(scope="module")
def waits(train):
    """Who makes the host wait in one step, by name and precision."""
    found = {}
    for ranks in sorted(set(RANKS.values())):
        keys = [(name, dtype) for name in RANKS if RANKS[name] == ranks for dtype in ("fp32", "bf16")]
        tasks = [task(*key) for key in keys]
        found |= dict(zip(keys, train(tasks, ranks, program=PROGRAM), strict=True))
    return found


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
@pytest.mark.parametrize("name", list(RANKS))
def test_no_step_waits(waits, name, precision):
    assert waits[name, precision] == {}
