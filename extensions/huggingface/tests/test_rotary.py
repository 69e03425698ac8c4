"""Frequencies of rotary positions equal those of transformers."""

import numpy as np
import pytest
from llmperf import library, rotary_frequencies
from llmperf_huggingface.export import huggingface_config

TINY = ("llama_tiny", "llama3_tiny", "qwen3_tiny", "gpt_oss_tiny", "deepseek_v3_tiny")
SHIPPED = ("llama3_1_8b", "gpt_oss_20b", "deepseek_v3", "deepseek_v2_lite", "chatglm3_6b", "kimi_k2")


@pytest.fixture(scope="module")
def theirs():
    """`theirs(model, layer_type=None)`: what transformers computes from the configuration of a model."""
    from transformers import AutoConfig
    from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

    def compute(model, layer_type=None):
        values = huggingface_config(model)
        config = AutoConfig.for_model(values.pop("model_type"), **values)
        if model.latent is not None:
            config.head_dim = model.latent.rope_width
        parameters = config.rope_parameters[layer_type] if layer_type else config.rope_parameters
        kind = parameters["rope_type"]
        if kind != "default":
            named = {"layer_type": layer_type} if layer_type else {}
            frequencies, scale = ROPE_INIT_FUNCTIONS[kind](config, None, **named)
            return frequencies.numpy(), scale
        width = int(config.head_dim * parameters.get("partial_rotary_factor", 1.0))
        return 1.0 / parameters["rope_theta"] ** (np.arange(0, width, 2) / width), 1.0

    return compute


@pytest.mark.slow
@pytest.mark.parametrize("name", [*TINY, *SHIPPED])
def test_frequencies_equal_those_of_transformers(theirs, name):
    model = library().model(name)
    frequencies, scale = rotary_frequencies(model)
    expected, expected_scale = theirs(model)
    assert frequencies.dtype == np.float32
    np.testing.assert_allclose(frequencies, expected, rtol=1e-6)
    assert scale == pytest.approx(expected_scale, rel=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["gemma3_tiny", "gemma3_12b"])
@pytest.mark.parametrize("layer_type", ["sliding_attention", "full_attention"])
def test_layers_with_a_window_have_their_own_base_and_no_scaling(theirs, name, layer_type):
    model = library().model(name)
    frequencies, scale = rotary_frequencies(model, windowed=layer_type == "sliding_attention")
    np.testing.assert_allclose(frequencies, theirs(model, layer_type)[0], rtol=1e-6)
    assert scale == 1.0
