"""Every layout of the built-in engine trains as one plain process does."""

from pathlib import Path

import llmperf
import pytest

pytestmark = [pytest.mark.slow, pytest.mark.timeout(420)]

STEPS = {"steps": 5}
GROUPED = {"layers": 4}
TIED = {"layers": 4, "tied_embeddings": True}
FACTS = llmperf.read_toml(Path(__file__).parents[2] / "model_kinds.toml")
TIED_GEMMA = {**FACTS["gemma3"], "tied_embeddings": True}
KINDS = {"ChatGLM": FACTS["chatglm"], "Qwen3": FACTS["llama3"] | FACTS["qwen3"], "Gemma 3": TIED_GEMMA,
         "sinks": FACTS["sinks"]}  # fmt: skip
OF_KINDS = {
    "ChatGLM": ("TP2",),
    "Qwen3": ("TP2 accumulated", "TP2SP overlapped checkpointed"),
    "Gemma 3": ("TP2SP overlapped checkpointed", "PP2 checkpointed"),
    "sinks": ("TP2SP",),
}
"""Layouts of two ranks that each kind of model is trained in."""
WITH_TIED = ("TP2", "TP2SP", "PP2", "DP2")
SEQUENCE = {"tensor_parallel": 2, "sequence_parallel": True}
LAYOUTS = {
    2: {
        "TP2": {"tensor_parallel": 2, "micro_batch": 4},
        "TP2 overlapped": {"tensor_parallel": 2, "micro_batch": 2},
        "TP2SP": {**SEQUENCE, "micro_batch": 2},
        "TP2SP overlapped checkpointed": {**SEQUENCE, "micro_batch": 1, "gradient_checkpointing": True},
        "PP2": {"pipeline_parallel": 2, "micro_batch": 2},
        "DP2": {"micro_batch": 2},
        "TP2 accumulated": {"tensor_parallel": 2, "micro_batch": 1},
        "PP2 accumulated": {"pipeline_parallel": 2, "micro_batch": 1},
        "TP2 checkpointed": {"tensor_parallel": 2, "micro_batch": 2, "gradient_checkpointing": True},
        "PP2 checkpointed": {"pipeline_parallel": 2, "micro_batch": 2, "gradient_checkpointing": True},
    },
    4: {
        "TP2PP2": {"tensor_parallel": 2, "pipeline_parallel": 2, "micro_batch": 1},
        "TP2DP2": {"tensor_parallel": 2, "micro_batch": 2},
        "TP2SPPP2 overlapped": {**SEQUENCE, "pipeline_parallel": 2, "micro_batch": 1},
        "TP2SPDP2": {**SEQUENCE, "micro_batch": 2},
        "PP2DP2": {"pipeline_parallel": 2, "micro_batch": 1},
    },
}


def builtin(name, tuning, model, **contract):
    return {
        "framework": "megatron_deepspeed",
        "model": model,
        "contract": STEPS | contract,
        "tuning": {"sharding_stage": 1, **tuning},
        "options": {"overlap_tensor_parallel": True} if "overlapped" in name else {},
    }


def plain(model):
    return {"framework": "pytorch", "model": model, "contract": STEPS, "tuning": {"micro_batch": 4}}


@pytest.fixture(scope="module")
def curves(train):
    """One plain process for reference, and each layout in as few launches as there are numbers of ranks."""
    models = {"grouped": GROUPED, "tied": TIED, **KINDS}
    found = dict(zip(models, train([plain(model) for model in models.values()], ranks=1), strict=True))
    for ranks, layouts in LAYOUTS.items():
        tasks = {name: builtin(name, tuning, GROUPED) for name, tuning in layouts.items()}
        if ranks == 2:
            tasks |= {f"{name} tied": builtin(name, layouts[name], TIED) for name in WITH_TIED}
            for kind, names in OF_KINDS.items():
                tasks |= {f"{name} {kind}": builtin(name, layouts[name], KINDS[kind]) for name in names}
            for name in ("TP2", "TP2SP"):
                tasks[f"{name} bf16"] = builtin(name, layouts[name], GROUPED, precision="bf16")
        found |= dict(zip(tasks, train(list(tasks.values()), ranks=ranks), strict=True))
    return found


def same(found, expected):
    assert found["losses"] == pytest.approx(expected["losses"], abs=1e-5)
    assert found["sequences"] == pytest.approx(expected["sequences"], abs=1e-5)
    assert found["norms"] == pytest.approx(expected["norms"], abs=1e-4)


@pytest.mark.parametrize(
    ("name", "whole"),
    [*((name, "grouped") for layouts in LAYOUTS.values() for name in layouts),
     *((f"{name} tied", "tied") for name in WITH_TIED),
     *((f"{name} {kind}", kind) for kind, names in OF_KINDS.items() for name in names)],
)  # fmt: skip
def test_each_layout_equals_one_plain_process(curves, name, whole):
    same(curves[name], curves[whole])


@pytest.mark.parametrize("kind", ["ChatGLM", "Qwen3", "Gemma 3"])
def test_the_first_losses_of_each_kind_are_those_of_transformers(curves, program, kind):
    from llmperf_testing.transformers_reference import trajectory

    expected = trajectory(program.make_plan(plain(KINDS[kind])), 4).losses
    for name in OF_KINDS[kind]:
        assert curves[f"{name} {kind}"]["losses"][:4] == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize("name", ["TP2", "TP2SP"])
def test_bf16_stays_near(curves, name):
    assert curves[f"{name} bf16"]["losses"] == pytest.approx(curves["grouped"]["losses"], abs=0.03)


def test_ranks_hold_their_share_and_no_more(curves):
    """Embedding and head 512 x 64 each; a block 64 x 64 x 2 + 64 x 32 x 2 + 64 x 128 x 3 and two norms; a last norm."""
    embedding, block, norm = 512 * 64, 64 * 64 * 2 + 64 * 32 * 2 + 64 * 128 * 3 + 2 * 64, 64
    norms = 4 * 2 * 64 + norm
    whole = 2 * embedding + 4 * block + norm
    assert curves["DP2"]["parameters_here"] == whole
    assert curves["TP2"]["parameters_here"] == (whole - norms) // 2 + norms
    assert curves["PP2"]["parameters_here"] == embedding + 2 * block  # rank 0: the first stage
    assert curves["TP2PP2"]["parameters_here"] == (embedding + 2 * (block - 128)) // 2 + 2 * 128
    assert curves["DP2"]["moments_here"] == pytest.approx(whole / 2, rel=0.01)


def test_tokens_are_told_once(curves):
    assert curves["DP2"]["tokens"] == 5 * 2 * 64
    assert curves["TP2"]["tokens"] == 5 * 4 * 64
    assert curves["PP2"]["tokens"] == 0  # rank 0 is not in the last stage
