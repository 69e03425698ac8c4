"""A checkpoint is looked at while planning: whether its weights are the model's, and that no pickle is read."""

import json
import struct

import llmperf
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from llmperf.errors import UserError
from llmperf.files.json_files import builtins
from llmperf_huggingface.export import huggingface_config
from llmperf_lora.base_folder import folder_problems, stored_shapes
from llmperf_lora.stored_weights import stored_shapes_of, weight_shapes


@pytest.fixture
def facts(program):
    return program.make_spec({"framework": "lora", "contract": {"lora": {}}}).model


def told(folder, facts):
    found = list(folder_problems(folder, facts))
    assert {one.where for one in found} <= {"framework.base_weights"}
    return [one.message for one in found]


def changed(checkpoint, folder, **values):
    """A copy of the configuration with other values, beside the same weights."""
    config = json.loads((checkpoint / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | values))
    (folder / "model.safetensors").write_bytes((checkpoint / "model.safetensors").read_bytes())
    return folder


def test_a_checkpoint_of_the_model_has_no_problems(checkpoint, facts):
    assert told(checkpoint, facts) == []


def test_another_model_is_told_by_every_fact_that_differs(checkpoint, facts, tmp_path):
    values = {"num_hidden_layers": 3, "vocab_size": 32000, "rms_norm_eps": 1e-6, "tie_word_embeddings": True}
    assert told(changed(checkpoint, tmp_path, **values), facts) == [
        "config.json: vocab_size: expected 512 (tiny), found 32000",
        "config.json: layers: expected 2 (tiny), found 3",
        "config.json: norm_eps: expected 1e-05 (tiny), found 1e-06",
        "config.json: tied_embeddings: expected False (tiny), found True",
    ]


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"rope_parameters": {"rope_theta": 5e5, "rope_type": "default"}}, "rope_theta: expected 10000.0"),
        ({"rope_theta": 5e5}, "rope_theta: expected 10000.0"),
        ({"rope_parameters": {"rope_theta": 1e4, "rope_type": "linear", "factor": 2.0}}, "rope_scaling: expected none"),
        ({"rope_parameters": {"rope_theta": 1e4, "rope_type": "longrope"}}, "longrope"),
        ({"model_type": "mistral", "sliding_window": None}, "family: expected llama"),
        ({"attention_bias": True}, "attention_bias: expected ()"),
        ({"num_key_value_heads": None}, "kv_heads: expected 2 (tiny), found 4"),
        ({"hidden_size": "64"}, "hidden_size: expected a whole number from 1"),
    ],
)
def test_what_the_definition_has_not(checkpoint, facts, tmp_path, values, message):
    (found,) = told(changed(checkpoint, tmp_path, **values), facts)
    assert message in found


def test_an_older_configuration_means_the_defaults(checkpoint, facts, tmp_path):
    config = json.loads((checkpoint / "config.json").read_text())
    for key in ("rope_parameters", "tie_word_embeddings"):
        config.pop(key, None)
    folder = changed(checkpoint, tmp_path)
    (folder / "config.json").write_text(json.dumps(config))
    assert told(folder, facts) == []


def safetensors(path, tensors):
    header = json.dumps(tensors).encode()
    path.write_bytes(struct.pack("<Q", len(header)) + header)


def test_names_and_shapes_are_held_against_the_model(checkpoint, facts, tmp_path):
    folder = changed(checkpoint, tmp_path)
    tensors = {name: {"dtype": "F16", "shape": list(shape)} for name, shape in weight_shapes(facts).items()}
    tensors.pop("lm_head.weight")
    tensors["model.layers.1.self_attn.k_proj.weight"]["shape"] = [64, 64]
    safetensors(folder / "model.safetensors", tensors)
    assert told(folder, facts) == [
        "1 of 21 tensors are missing, such as lm_head.weight",
        "model.layers.1.self_attn.k_proj.weight: expected [32, 64] (tiny), found [64, 64]",
    ]


def test_quantised_weights_pickles_and_missing_folders_are_refused(checkpoint, facts, tmp_path):
    folder = changed(checkpoint, tmp_path)
    safetensors(folder / "model.safetensors", {"a.weight": {"dtype": "I8", "shape": [2, 2]}})
    (found,) = told(folder, facts)
    assert "a.weight: expected one of F32, F16, BF16, F64, found 'I8'" in found
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    (found,) = told(folder, facts)
    assert "pytorch_model.bin is a pickle, which can run code: convert it to safetensors" in found
    (found,) = told(tmp_path / "none", facts)
    assert found.endswith("config.json: No such file or directory")


@pytest.mark.parametrize("name", ["../outside.safetensors", "missing.safetensors", "/etc/passwd"])
def test_an_index_names_files_beside_it_only(checkpoint, facts, tmp_path, name):
    folder = changed(checkpoint, tmp_path)
    (tmp_path.parent / "outside.safetensors").write_bytes(b"")
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": {"a": name}}))
    (found,) = told(folder, facts)
    assert "expected names of files beside it" in found


def test_weights_in_several_files(checkpoint, facts, tmp_path):
    (tmp_path / "config.json").write_bytes((checkpoint / "config.json").read_bytes())
    names = list(weight_shapes(facts))
    files = {name: f"model-{number % 2}.safetensors" for number, name in enumerate(names)}
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps({"weight_map": files}))
    for file in set(files.values()):
        own = [name for name in names if files[name] == file]
        safetensors(tmp_path / file, {name: {"dtype": "BF16", "shape": weight_shapes(facts)[name]} for name in own})
    assert told(tmp_path, facts) == []


@given(st.binary(max_size=40))
@settings(max_examples=100, deadline=None)
def test_any_bytes_are_refused_in_one_line(tmp_path_factory, content):
    folder = tmp_path_factory.mktemp("hostile")
    for one in (content, struct.pack("<Q", len(content)) + content, struct.pack("<Q", 2**62) + content):
        (folder / "model.safetensors").write_bytes(one)
        try:
            stored_shapes(folder)
        except UserError as error:
            assert "\n" not in str(error)  # noqa: PT017


@pytest.mark.slow
def test_every_family_has_the_shapes_its_definition_has(program):
    import torch
    from llmperf_pytorch.models import construct_model

    shelf = llmperf.library()
    tiny = [builtins(shelf.model(name)) for name in shelf.paths("models") if name.endswith("_tiny")]
    alibi = {**program.BAICHUAN, "position_encoding": "alibi"}
    for family in ({}, {"tied_embeddings": True}, program.BAICHUAN, alibi, *tiny):
        spec = program.make_spec({"framework": "lora", "model": family})
        with torch.device("meta"):
            model = construct_model(spec)
        assert {name: tuple(one.shape) for name, one in model.named_parameters()} == weight_shapes(spec.model)


def configured(folder, name):
    """A shipped model, whose configuration is written as its publisher would."""
    facts = llmperf.library().model(name)
    config = {key: value for key, value in huggingface_config(facts).items() if value is not None}
    (folder / "config.json").write_text(json.dumps(config))
    return facts


EXPERT = "model.layers.1.block_sparse_moe.experts.3.w2.weight"


@pytest.mark.parametrize(
    ("name", "tensor"),
    [
        ("llama3_tiny", "model.layers.0.mlp.gate_proj.weight"),
        ("qwen3_tiny", "model.layers.0.self_attn.q_norm.weight"),
        ("qwen3_moe_tiny", "model.layers.3.mlp.experts.7.gate_proj.weight"),
        ("mixtral_tiny", EXPERT),
    ],
)
def test_todays_checkpoints_are_the_models(tmp_path, name, tensor):
    facts = configured(tmp_path, name)
    shapes = stored_shapes_of(facts)
    tensors = {key: {"dtype": "BF16", "shape": shape} for key, shape in shapes.items()}
    safetensors(tmp_path / "model.safetensors", tensors)
    assert told(tmp_path, facts) == []
    del tensors[tensor]
    safetensors(tmp_path / "model.safetensors", tensors)
    assert told(tmp_path, facts) == [f"1 of {len(shapes)} tensors are missing, such as {tensor}"]


@pytest.mark.parametrize(("name", "reason"), [("gpt_oss_tiny", "in one tensor"), ("deepseek_v3_tiny", "balances")])
def test_checkpoints_that_cannot_be_read_are_refused_in_one_line(tmp_path, name, reason):
    facts = configured(tmp_path, name)
    safetensors(tmp_path / "model.safetensors", {})
    (message,) = told(tmp_path, facts)
    assert reason in message
    assert "no base_weights" in message


def with_weights_of(folder, program, facts):
    """A model whose weights are those of a checkpoint."""
    from llmperf_lora.base_weights import BaseWeights
    from llmperf_pytorch.models import construct_model

    spec = program.make_spec({"framework": "lora", "model": facts, "options": {"base_weights": str(folder)}})
    model = construct_model(spec)
    with BaseWeights(spec) as weights:
        for name, parameter in model.named_parameters():
            weights.fill(name, parameter)
    return model


@pytest.mark.slow
def test_experts_of_a_checkpoint_are_those_of_the_model(tmp_path, program):
    import torch
    from safetensors.torch import save_file

    facts = llmperf.library().model("mixtral_tiny")
    stored = {name: torch.randn(shape) for name, shape in stored_shapes_of(facts).items()}
    save_file(stored, tmp_path / "model.safetensors")
    model = with_weights_of(tmp_path, program, builtins(facts))
    experts = model.get_parameter("model.layers.1.mlp.experts.down_proj")
    assert torch.equal(experts[3], stored[EXPERT])
    gate = stored["model.layers.1.block_sparse_moe.gate.weight"]
    assert torch.equal(model.get_parameter("model.layers.1.mlp.router.weight"), gate)


@pytest.mark.slow
def test_every_weight_is_the_checkpoints(checkpoint, program):
    import torch
    from safetensors.torch import load_file

    stored = load_file(checkpoint / "model.safetensors")
    for name, parameter in with_weights_of(checkpoint, program, {}).named_parameters():
        assert torch.equal(parameter, stored[name])
