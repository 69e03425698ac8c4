"""`llmperf convert` as a user meets it."""

import json

import pytest
from llmperf.accounting import count_parameters, flops_by, known_conventions
from llmperf.cases.library import library
from llmperf.types import Workload
from llmperf_compare.convert import convention_of

LLAMA = ["--model", "llama3_1_8b", "--seq-len", "8192"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["50%", *LLAMA], "--from: expected the convention of '50%', found none"),
        (["50%", *LLAMA, "--from", "palm"], "--peak: expected the peak that '50%' is of, found none"),
        (["half", *LLAMA], "FIGURE: expected a number above 0 with %, TFLOP/s or tokens/s"),
        (["0", *LLAMA], "FIGURE: expected a number above 0"),
        (["9", *LLAMA, "--to", "megatron-coer"], "did you mean 'megatron-core'?"),
        (["9", *LLAMA, "--to", "active+cuasal"], "unknown choice of attention 'cuasal'"),
        (["9", *LLAMA, "--to", "nominl+causal"], "unknown choice of weights 'nominl'"),
        (["9", *LLAMA, "--to", "active+causal+hfu"], "expected WEIGHTS+ATTENTION"),
        (["9", *LLAMA, "--peak", "H100"], "--peak: expected TFLOP/s or DEVICE:DTYPE"),
        (["9", *LLAMA, "--peak", "0"], "--peak: expected TFLOP/s above 0"),
    ],
)
def test_wrong_words_are_refused_in_one_line(ran, words, message):
    out, err = ran(2, "convert", *words)
    assert (out, err.count("\n")) == ("", 1)
    assert message in err


@pytest.mark.parametrize(
    ("figure", "origin", "target", "peak", "share"),
    [
        ("10682", [], "nominal", "989.4", 51.8),  # NVIDIA dgxc 25.04 prints 62.47 by the way of `full`
        ("10682", [], "full", "989.4", 62.5),
        ("62.5%", ["--from", "torchtitan"], "causal", "989.4", 55.6),
        ("51.8%", ["--from", "nominal"], "causal", "989.4", 55.6),
        ("618.6 TFLOP/s", ["--from", "full"], "nominal", "989.4", 51.8),
        ("30624", [], "Megatron-Core", "4500", 35.0),
        ("37.6%", ["--from", "causal", "--to-peak", "989.5"], "causal", "1979", 75.2),
    ],
)
def test_published_figures_are_those_of_other_conventions(ran, figure, origin, target, peak, share):
    words = ("convert", figure, *LLAMA, *origin, "--to", target, "--peak", peak, "--json")
    (found,) = json.loads(ran(0, *words).out)["to"]
    assert 100 * found["mfu"] == pytest.approx(share, abs=0.06)
    assert "token/s x" in found["how"]


def test_the_formula_is_shown(ran):
    words = ["--from", "torchtitan", "--to", "causal", "--peak", "989.4"]
    out = ran(0, "convert", "62.5%", *LLAMA, *words).out
    assert "\ncausal (nearly Megatron-Core, nearly NeMo)" in out
    assert "6 x (8,030,261,248 - 525,336,576) + 6 x 32 x 4,096 x 8,192" in out
    assert "/ 989.4 TFLOP/s = 55.5" in out


def test_conventions_are_also_given_by_their_choices():
    model, workload = library().model("llama2_7b"), Workload(seq_len=4096)
    chosen = flops_by(convention_of("without_embedding+causal"), model, workload)
    assert chosen.flops == flops_by(known_conventions()["causal"], model, workload).flops
    assert flops_by(convention_of("total+none"), model, workload).flops == 6 * count_parameters(model).total
