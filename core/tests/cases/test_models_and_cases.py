"""The models and cases that come with the core decode exactly, say their source, and add up."""

import dataclasses
import sys
from pathlib import Path
from typing import get_args, get_origin, get_type_hints

import llmperf
import pytest
from llmperf.accounting.parameters import count_parameters
from llmperf.cases.library import read_named
from llmperf.cases.model_facts import check_model
from llmperf.types import Case, Model

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

DATA = Path(llmperf.__file__).parent / "data"
MODELS = sorted((DATA / "models").glob("*.toml"))
CASES = sorted((DATA / "cases").glob("*.toml"))


def unknown_keys(table, kind):
    """Keys that the dataclass would drop in silence, nested tables included."""
    hints = get_type_hints(kind)
    found = set(table) - set(hints)
    for key, value in table.items():
        inner = [one for one in (hints.get(key), *get_args(hints.get(key))) if dataclasses.is_dataclass(one)]
        if isinstance(value, dict) and inner and get_origin(inner[0]) is None:
            found |= {f"{key}.{name}" for name in unknown_keys(value, inner[0])}
    return found


def test_unknown_keys_sees_misspelling():
    assert unknown_keys({"contract": {"optimizer": {"l_r": 1.0}}}, Case) == {"contract.optimizer.l_r"}


@pytest.mark.parametrize("path", [*MODELS, *CASES], ids=lambda path: path.stem)
def test_file_decodes_exactly(path):
    kind = Model if path.parent.name == "models" else Case
    document = read_named(path, kind)
    assert unknown_keys(tomllib.loads(path.read_text(encoding="utf-8")), kind) == set()
    assert document.name == path.stem
    assert len(document.source) > 10


def test_what_the_first_issue_asks_for_is_there():
    models = {path.stem for path in MODELS}
    real = {"llama1_7b", "llama1_13b", "llama2_7b", "llama2_70b", "llama3_8b"}
    assert models >= real | {"baichuan2_7b", "baichuan2_13b", "aquila2_7b", "llama_tiny", "llama_mini"}
    assert "default" in {path.stem for path in CASES}


@pytest.mark.parametrize("path", MODELS, ids=lambda path: path.stem)
def test_model_facts_fit_together(path):
    model = read_named(path, Model)
    check_model(model, str(path))
    count = count_parameters(model)
    assert (model.position_encoding == "rope") == (model.rope_theta is not None)
    assert abs(count.total / model.nominal_parameters - 1) < 0.24  # Llama 3.2 1B has 1.24 B
    if model.nominal_active_parameters is not None:
        assert abs(count.active / model.nominal_active_parameters - 1) < 0.17


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_case_adds_up(path):
    case = read_named(path, Case)
    contract, tuning = case.contract, case.tuning
    model = read_named(DATA / "models" / f"{contract.model}.toml", Model)
    assert contract.seq_len <= model.max_positions
    assert contract.warmup_steps < contract.steps
    ways = tuning.tensor_parallel * tuning.pipeline_parallel
    data_parallel, rest = divmod(tuning.nodes * tuning.devices, ways)
    assert rest == 0
    assert data_parallel % (tuning.sharding_degree or data_parallel) == 0
    accumulation, rest = divmod(contract.global_batch, tuning.micro_batch * data_parallel)
    assert rest == 0
    assert tuning.gradient_accumulation in (None, accumulation)


def test_tiny_model_divides_over_two_ranks_and_holds_bytes():
    tiny = read_named(DATA / "models" / "llama_tiny.toml", Model)
    assert tiny.vocab_size >= 257
    assert all(size % 2 == 0 for size in (tiny.layers, tiny.attention_heads, tiny.kv_heads, tiny.vocab_size))
