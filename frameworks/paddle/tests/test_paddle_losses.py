"""Every layout trains as one process does, holds what it should, and one process trains as PyTorch does."""

from pathlib import Path
from statistics import fmean
from types import SimpleNamespace

import llmperf
import pytest

pytestmark = pytest.mark.slow

STEPS = 5
WHOLE = 139_584
NORMS = 5 * 64
DECAY = {"lr": 3e-3, "schedule": "cosine", "warmup_steps": 2, "clip_norm": 0.5, "weight_decay": 1.0}
"""Strong enough for a norm weight that decays to show."""
SLICED = {"segment_size": 1024}
TIED = {"tied_embeddings": True}
FACTS = llmperf.read_toml(Path(__file__).parents[2] / "model_kinds.toml")
LLAMA_3, CHATGLM, QWEN_3, GEMMA_3 = (FACTS[name] for name in ("llama3", "chatglm", "qwen3", "gemma3"))


def task(model=None, options=None, **tuning):
    return {
        "model": model or {},
        "contract": {"steps": STEPS, "optimizer": DECAY},
        "options": options or {},
        "tuning": {"micro_batch": 1, **tuning},
    }


ONE = {
    "whole": task(micro_batch=4),
    "accumulated": task(micro_batch=1),
    "recomputed": task(micro_batch=2, gradient_checkpointing=True),
    "eager": task(micro_batch=4, attention="eager"),
    "unfused": task(micro_batch=4, fused_ops=[]),
    "tied": task(TIED, micro_batch=4),
    "Llama 3": task(LLAMA_3, micro_batch=4),
    "ChatGLM": task(CHATGLM, micro_batch=4),
    "Qwen3": task(QWEN_3, micro_batch=4),
    "Gemma 3": task(GEMMA_3, micro_batch=4),
    "Gemma 3 eager": task(GEMMA_3, micro_batch=2, attention="eager", gradient_checkpointing=True),
}
KINDS = {"Llama 3": LLAMA_3, "ChatGLM": CHATGLM, "Qwen3": QWEN_3, "Gemma 3": GEMMA_3}
TWO = {
    "TP2": task(micro_batch=4, tensor_parallel=2),
    "TP2 recomputed": task(micro_batch=2, tensor_parallel=2, gradient_checkpointing=True),
    "TP2 tied": task(TIED, micro_batch=2, tensor_parallel=2),
    "PP2": task(micro_batch=2, pipeline_parallel=2),
    "PP2 recomputed": task(pipeline_parallel=2, gradient_checkpointing=True),
    "DP2": task(micro_batch=2),
    "DP2 accumulated": task(),
    "DP2 recomputed": task(gradient_checkpointing=True),
    "DataParallel": {**task(), "data_parallel": True},
    "DataParallel recomputed": {**task(gradient_checkpointing=True), "data_parallel": True},
    "stage 1": task(sharding_stage=1),
    "stage 1 tied": task(TIED, sharding_stage=1),
    "stage 2": task(sharding_stage=2),
    "stage 2 recomputed": task(sharding_stage=2, gradient_checkpointing=True),
    "stage 3": task(options=SLICED, sharding_stage=3),
    "stage 3 recomputed": task(options=SLICED, sharding_stage=3, gradient_checkpointing=True),
    "stage 3 whole": task(sharding_stage=3),
    "TP2 ChatGLM": task(CHATGLM, micro_batch=2, tensor_parallel=2),
    "TP2 Qwen3": task(QWEN_3, micro_batch=2, tensor_parallel=2),
    "TP2 Gemma 3": task(GEMMA_3, micro_batch=4, tensor_parallel=2, gradient_checkpointing=True),
    "PP2 Gemma 3": task(GEMMA_3, micro_batch=2, pipeline_parallel=2),
    "stage 3 Gemma 3": task(GEMMA_3, SLICED, sharding_stage=3),
}
FOUR = {
    "TP2 PP2": task(micro_batch=2, tensor_parallel=2, pipeline_parallel=2),
    "TP2 DP2": task(tensor_parallel=2),
    "PP2 DP2": task(pipeline_parallel=2),
    "TP2 stage 1": task(tensor_parallel=2, sharding_stage=1),
    "TP2 stage 2": task(tensor_parallel=2, sharding_stage=2),
    "TP2 stage 2 recomputed": task(tensor_parallel=2, sharding_stage=2, gradient_checkpointing=True),
    "PP2 stage 1": task(pipeline_parallel=2, sharding_stage=1),
    "DP2 stage 1": task(sharding_stage=1, sharding_degree=2),
    "DP2 stage 2": task(sharding_stage=2, sharding_degree=2),
    "DP2 stage 3": task(options=SLICED, sharding_stage=3, sharding_degree=2),
}


@pytest.fixture(scope="module")
def results(train):
    """All ranks' results of every layout; one launch for each number of ranks."""
    found = {}
    for ranks, tasks in ((1, ONE), (2, TWO), (4, FOUR)):
        found |= dict(zip(tasks, train(list(tasks.values()), ranks), strict=True))
    return found


def sequences(ranks):
    """The losses of the sequences of step 1, in the global order."""
    places = {int(place): loss for rank in ranks for place, loss in rank["sequences"].items()}
    return [places[place] for place in sorted(places)]


def losses(ranks):
    """Of each step: the mean over the ranks that have one."""
    reported = [one["losses"] for one in ranks if one["losses"][0] is not None]
    return [fmean(step) for step in zip(*reported, strict=True)]


def total(ranks, figure):
    return sum(one[figure] for one in ranks)


@pytest.mark.parametrize("name", [name for name in (*ONE, *TWO, *FOUR) if name not in ("whole", "tied", *KINDS)])
def test_every_layout_equals_one_process(results, name):
    kind = next((kind for kind in KINDS if kind in name), "tied" if "tied" in name else "whole")
    found, whole = results[name], results[kind]
    assert losses(found) == pytest.approx(losses(whole), abs=1e-5)
    assert sequences(found) == pytest.approx(sequences(whole), abs=1e-5)
    for rank in found:
        assert rank["norms"] == pytest.approx(whole[0]["norms"], rel=1e-4)


@pytest.mark.parametrize("name", [*ONE, *TWO, *FOUR])
def test_each_token_and_each_loss_is_reported_once(results, name):
    reporting = [one for one in results[name] if one["losses"][0] is not None]
    assert total(results[name], "tokens") == STEPS * 4 * 64
    assert sorted(one["data_parallel_rank"] for one in reporting) == list(range(len(reporting)))
    assert all(one["tokens"] == STEPS * 4 * 64 // len(reporting) for one in reporting)


HALF = (WHOLE - NORMS) // 2 + NORMS


@pytest.mark.parametrize("name", ["TP2", "stage 3", "DP2 stage 3"])
def test_tensor_parallel_ranks_and_stage_3_hold_half_of_each_matrix(results, name):
    assert {one["parameters"] for one in results[name]} == {one["moments"] for one in results[name]} == {HALF}


def test_pipeline_stages_hold_their_layers(results):
    held = [one["parameters"] for one in results["PP2"]]
    assert sum(held) == WHOLE
    assert held[1] - held[0] == 64  # embedding and head are of one size; the last norm stands with the head
    assert [one["moments"] for one in results["PP2"]] == held


@pytest.mark.parametrize(("name", "copies"), [("stage 1", 1), ("stage 2", 1), ("DP2 stage 1", 2), ("DP2 stage 2", 2)])
def test_stages_1_and_2_share_out_optimiser_states(results, name, copies):
    """Whole parameters, so not evenly."""
    found = results[name]
    assert [one["parameters"] for one in found] == [WHOLE] * len(found)
    assert total(found, "moments") == copies * WHOLE
    assert max(one["moments"] for one in found) < 0.65 * WHOLE


@pytest.mark.parametrize("name", ["TP2 stage 1", "TP2 stage 2"])
def test_stages_share_out_what_tensor_parallel_leaves(results, name):
    assert [one["parameters"] for one in results[name]] == [HALF] * 4
    assert total(results[name], "moments") == 2 * HALF


def test_stage_3_leaves_parameters_up_to_a_segment_whole(results):
    """Paddle's default, 2**20: nothing of this model is sliced, and equal losses alone would not show it."""
    assert [one["parameters"] for one in results["stage 3 whole"]] == [WHOLE, WHOLE]


def test_one_process_equals_pytorch(results, train_torch):
    torch_task = {"framework": "pytorch", **task(micro_batch=4)}
    tied_task = {"framework": "pytorch", **task(TIED, micro_batch=4)}
    for name, theirs in zip(("whole", "tied"), train_torch([torch_task, tied_task], ranks=1), strict=True):
        ours = losses(results[name])
        assert ours[0] == pytest.approx(theirs["losses"][0], abs=1e-5)
        assert ours == pytest.approx(theirs["losses"], abs=1e-4)
        assert results[name][0]["norms"] == pytest.approx(theirs["norms"], rel=1e-3)


@pytest.mark.parametrize("kind", KINDS)
def test_the_first_losses_of_each_kind_are_those_of_transformers(results, program, kind):
    from llmperf_testing.transformers_reference import trajectory

    plan = program.make_plan({"framework": "paddle", **task(KINDS[kind], micro_batch=4)})
    assert losses(results[kind])[:4] == pytest.approx(trajectory(plan, 4).losses, abs=1e-5)


def test_a_loss_scaler_tells_which_updates_it_left_out():
    """A scaler for CPUs does nothing, so a stand-in has what `GradScaler.step` of Paddle 3.3.1 notes."""
    import paddle
    from llmperf_paddle.losses import skipped

    assert skipped(None) is False
    assert skipped(SimpleNamespace(_cache_found_inf=True)) is True
    assert skipped(SimpleNamespace(_cache_found_inf=paddle.to_tensor([False]))) is False
    assert skipped(SimpleNamespace(_cache_found_inf=paddle.to_tensor([True]))) is True
    assert skipped(SimpleNamespace()) is None
