"""Every shipped model against transformers' own class on the meta device: parameters, and FLOPs by component.

The counter sees matrix products only: eager attention computes all of S x S, and experts run as batched products of the
tokens that are routed to them. A forward pass of the whole model at full size is counted.
"""

import re
from collections import Counter
from functools import cache

import pytest
from llmperf.accounting.counting import forward_flops
from llmperf.accounting.parameters import count_parameters
from llmperf.cases.library import library
from llmperf.types import Model
from llmperf_huggingface.export import huggingface_config

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
pytestmark = pytest.mark.slow

SEQ_LEN = 4096
FAMILIES = {"baichuan"}
"""Without a class in transformers; `llmperf_pytorch` builds them."""
NAMES = sorted(name for name in library().paths("models") if library().model(name).family not in FAMILIES)

COMPONENTS = (
    (r"\.rotary_emb", ""),
    (r"\.self_attn\.\w*proj\w*$", "attention projections"),
    (r"\.self_attn$", "attention"),
    (r"\.experts$", "experts"),
    (r"\.(shared_experts|shared_expert)\.\w+$", "shared experts"),
    (r"\.mlp\.(gate|router|shared_expert_gate)$", "router"),
    (r"\.mlp\.\w+_proj$", "feed-forward"),
    (r"\.lm_head$", "head"),
)
"""Component by the path of a module; the first that matches."""


@cache
def facts(name: str) -> Model:
    return library().model(name)


@cache
def on_meta(name: str) -> torch.nn.Module:
    config = transformers.AutoConfig.for_model(**huggingface_config(facts(name)))
    with torch.device("meta"):
        model = transformers.AutoModelForCausalLM.from_config(config, attn_implementation="eager")
    if facts(name).mixture is not None:
        model.set_experts_implementation("batched_mm")
    return model


@pytest.mark.parametrize("name", NAMES)
def test_parameters_are_those_of_the_class(name: str) -> None:
    assert sum(parameter.numel() for parameter in on_meta(name).parameters()) == count_parameters(facts(name)).total


@pytest.mark.parametrize("name", NAMES)
def test_flops_of_each_component_are_those_counted(name: str) -> None:
    expected = forward_flops(facts(name), SEQ_LEN, "full")
    found = counted(on_meta(name))
    assert set(found) == set(expected)
    for component, flops in expected.items():
        assert found[component] == pytest.approx(flops, rel=0.001), component


def counted(model: torch.nn.Module) -> dict[str, float]:
    """FLOPs per token of a forward pass by component, from those of each module without its children."""
    from torch.utils.flop_counter import FlopCounterMode

    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        model(**inputs(SEQ_LEN))
    inclusive = {path: sum(flops.values()) for path, flops in counter.get_flop_counts().items()}
    own: Counter[str] = Counter(inclusive)
    for path, flops in inclusive.items():
        above = [parent for parent in inclusive if path.startswith(f"{parent}.")]
        if above:
            own[max(above, key=len)] -= flops
    components: Counter[str] = Counter()
    for path, flops in own.items():
        if flops and path != "Global":
            components[component_of(path)] += flops
    return {name: flops / SEQ_LEN for name, flops in components.items() if name}


def inputs(seq_len: int) -> dict[str, object]:
    """Tokens without a cache; a whole mask, since transformers would look for packed sequences in the values."""
    ids = torch.zeros(1, seq_len, dtype=torch.long, device="meta")
    mask = torch.zeros(1, 1, seq_len, seq_len, device="meta")
    return {"input_ids": ids, "attention_mask": mask, "use_cache": False}


def component_of(path: str) -> str:
    for pattern, component in COMPONENTS:
        if re.search(pattern, path):
            return component
    raise AssertionError(f"no component for {path}")


@pytest.mark.parametrize("name", ["llava1_5_7b", "llava1_5_13b"])
def test_stated_parts_are_the_rest_of_the_published_class(name: str) -> None:
    model = facts(name)
    vision = {
        "model_type": "clip_vision_model",
        "hidden_size": 1024,
        "intermediate_size": 4096,
        "num_hidden_layers": 24,
        "num_attention_heads": 16,
        "image_size": 336,
        "patch_size": 14,
        "projection_dim": 768,
    }
    config = transformers.LlavaConfig(text_config=huggingface_config(model), vision_config=vision)
    with torch.device("meta"):
        whole = transformers.LlavaForConditionalGeneration(config)
    stated = sum(part.parameters for part in model.stated_parts)
    assert sum(parameter.numel() for parameter in whole.parameters()) == count_parameters(model).total + stated


@pytest.mark.parametrize("name", [name for name in NAMES if name.endswith("_tiny") and name != "llama_tiny"])
def test_a_step_of_each_kind_computes_three_times_its_forward_pass(name: str) -> None:
    from torch.utils.flop_counter import FlopCounterMode

    with FlopCounterMode(display=False) as counter:
        on_meta(name)(**inputs(128)).logits.sum().backward()
    rotary = sum(
        sum(flops.values()) for path, flops in counter.get_flop_counts().items() if path.endswith("rotary_emb")
    )
    found = (counter.get_total_flops() - rotary) / 128
    assert found == pytest.approx(3 * sum(forward_flops(facts(name), 128, "full").values()), rel=0.001)
