"""Initial weights of a part of a parameter are those of the whole one."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from llmperf.cases.library import whole_library

pytestmark = pytest.mark.slow

PARAMETERS = {
    "model.layers.0.self_attn.q_proj.weight": (7, 11),
    "model.layers.0.mlp.experts.gate_proj": (3, 4, 5),
    "model.layers.0.input_layernorm.weight": (13,),
}


@settings(max_examples=60, deadline=None)
@given(name=st.sampled_from(sorted(PARAMETERS)), ranks=st.integers(1, 9), chunk=st.integers(1, 80))
def test_ranks_that_draw_their_own_shards_draw_the_whole_parameter(name, ranks, chunk):
    import torch
    from llmperf_torchkit import weights

    shape, facts = PARAMETERS[name], whole_library().model("mixtral_tiny")
    whole = torch.full(shape, torch.nan)
    weights.fill_parameter(name, whole, facts, seed=3)
    each = -(-whole.numel() // ranks)
    shards = torch.full((ranks, each), torch.nan)
    before, weights.CHUNK = weights.CHUNK, chunk
    try:
        for rank, shard in enumerate(shards):
            weights.fill_slice(name, shape, shard, rank * each, facts, seed=3)
    finally:
        weights.CHUNK = before
    drawn = shards.flatten()
    assert torch.equal(drawn[: whole.numel()], whole.flatten())
    assert drawn[whole.numel() :].isnan().all()
