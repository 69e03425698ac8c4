"""FLOP counts of extensions: in plans, in the list of models, and repeated for a document."""

import json

import pytest
from llmperf.accounting.flops import flops_of, utilisation
from llmperf.cases.library import library
from llmperf.plugins.loading import Plugins, plugins_for
from llmperf.types import Workload

COUNT = """
from dataclasses import replace
from llmperf import hookimpl

@hookimpl
def llmperf_count_flops(model, workload):
    from llmperf.types import FlopCount, FlopsPerToken
    if model.name != "llama_tiny":
        return None
    entry = FlopsPerToken(convention="nominal", flops=12.0, formula="6 x 2 active parameters")
    return FlopCount(parameters=7, embedding_parameters=1, nominal_parameters=2, per_token=(entry,))
"""


@pytest.fixture(autouse=True)
def mixture(install):
    """The extension is installed."""
    install("llmperf-mixture", "mixture", COUNT, role="extension")


def test_the_count_of_an_extension_is_named_in_plans_and_mfu(ran):
    plan = ["plan", "default", "--vendor", "cpu", "--framework", "pytorch", "--devices", "1", "--json"]
    flops = json.loads(ran(0, *plan, "--set", "model=llama_tiny").out)["plan"]["flops"]
    assert (flops["counted_by"], flops["parameters"]) == ("mixture", 7)
    count = flops_of(plugins_for(), library().model("llama_tiny"), Workload(seq_len=8))
    assert [mfu.counted_by for mfu in utilisation(count, None, None, 1.0)] == ["mixture"]


def test_models_that_the_extension_does_not_know_are_counted_by_the_core():
    model, workload = library().model("llama_mini"), Workload(seq_len=8)
    assert flops_of(plugins_for(), model, workload) == flops_of(Plugins(), model, workload)
    assert flops_of(Plugins(), model, workload).counted_by == "core"


def test_models_are_shown_with_the_count_of_the_extension(ran):
    parameters = {model["name"]: model["parameters"] for model in json.loads(ran(0, "models", "--json").out)}
    assert parameters["llama_tiny"] == 7
    assert parameters["llama2_7b"] == 6_738_415_616
    document = json.loads(ran(0, "models", "llama_tiny", "--json").out)
    assert (document["counted_by"], document["total_parameters"], document["parameters"]) == ("mixture", 7, None)
    assert [(entry["convention"], entry["flops"]) for entry in document["conventions"]] == [("nominal", 12.0)]
    shown = ran(0, "models", "llama_tiny").out
    assert "parameters, counted by extension mixture\n  total                                        7" in shown
    assert "forward pass" not in shown
    shown = ran(0, "models", "llama_mini").out
    assert "counted by" not in shown
    assert "GFLOP of a forward pass" in shown


@pytest.mark.parametrize(("model", "noted"), [("llama_tiny", True), ("llama_mini", False)])
def test_an_estimate_says_that_it_has_the_cores_formulas_and_who_counted_flops(ran, model, noted):
    plan = ["default", "--vendor", "cpu", "--framework", "pytorch", "--devices", "1", "--set", f"model={model}"]
    printed = ran(0, "estimate", *plan, "--analytic").out
    assert ("its FLOPs for MFU are counted by extension mixture" in printed) == noted
