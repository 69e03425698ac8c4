"""The models and cases that come with the core decode exactly, say their source, and add up."""

from pathlib import Path

import llmperf
import pytest
from llmperf.accounting.parameters import count_parameters
from llmperf.cases.library import read_named
from llmperf.cases.model_facts import check_model
from llmperf.types import Case, Model

DATA = Path(llmperf.__file__).parent / "data"
MODELS = sorted((DATA / "models").glob("*.toml"))
CASES = sorted((DATA / "cases").glob("*.toml"))


@pytest.mark.parametrize("path", MODELS, ids=lambda path: path.stem)
def test_model_facts_fit_together(path):
    model = read_named(path, Model)
    check_model(model, str(path))
    assert (model.name, len(model.source) > 10) == (path.stem, True)
    count = count_parameters(model)
    assert (model.position_encoding == "rope") == (model.rope_theta is not None)
    assert abs(count.total / model.nominal_parameters - 1) < 0.24  # Llama 3.2 1B has 1.24 B
    if model.nominal_active_parameters is not None:
        assert abs(count.active / model.nominal_active_parameters - 1) < 0.17


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_case_adds_up(path):
    case = read_named(path, Case)
    assert (case.name, len(case.source) > 10) == (path.stem, True)
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
