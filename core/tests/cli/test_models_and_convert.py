"""`llmperf models` and `llmperf convert` as a user meets them."""

from __future__ import annotations

import json
import re

import pytest
from llmperf.cases.library import library
from llmperf.cases.model_import import model_text
from llmperf.cli.main import call

LLAMA = ["--model", "llama3_1_8b", "--seq-len", "8192"]


def run(capsys, *words):
    code = call(list(words))
    out, err = capsys.readouterr()
    return code, out, err


def test_a_model_is_shown_with_parameters_and_flops_by_component(capsys):
    code, out, _ = run(capsys, "models", "gpt_oss_20b", "--seq-len", "4096")
    assert code == 0
    for line in (
        r"experts +19,110,297,600",
        r"total +20,914,757,184",
        r"a token passes +4,187,440,704",
        r"attention +1\.61061 +0\.805306 +0\.42",
        r"full \(torchtitan, MaxText\) +26\.48\d+",
        r"causal \(nearly Megatron-Core, nearly NeMo\) +24\.06",
        r"megatron_core \(Megatron-Core, Megatron-LM, NeMo\) +24\.0[56]",
        r"windowed +22\.9",
    ):
        assert re.search(line, out), line


def test_a_model_as_json(capsys):
    code, out, _ = run(capsys, "models", "deepseek_v3", "--json")
    assert code == 0
    document = json.loads(out)
    assert document["total_parameters"] == 671_026_404_352
    assert sum(document["parameters"].values()) == document["total_parameters"]
    assert document["seq_len"] == 4096
    assert {entry["convention"] for entry in document["conventions"]} >= {
        "nominal",
        "full",
        "causal",
        "megatron_bridge",
    }


def test_an_unknown_model_names_the_closest(capsys):
    code, _, err = run(capsys, "models", "qwen3_30b_a3")
    assert code == 2
    assert "did you mean 'qwen3_30b_a3b'?" in err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["models", "import"], "expected a Hugging Face configuration, such as config.json, found none"),
        (["models", "import", "config.json", "-o", "mine.json"], "expected a name that ends in .toml"),
        (["models", "llama2_7b", "other"], "expected one NAME, or import CONFIG"),
        (["models", "llama2_7b", "-o", "x.toml"], "--output: only with"),
        (["models", "llama2_7b", "--force"], "--force: only with"),
        (["convert", "50%", *LLAMA], "--from: expected the convention of '50%', found none"),
        (["convert", "50%", *LLAMA, "--from", "palm"], "--peak: expected the peak that '50%' is of, found none"),
        (["convert", "half", *LLAMA], "FIGURE: expected a number above 0 with %, TFLOP/s or tokens/s"),
        (["convert", "0", *LLAMA], "FIGURE: expected a number above 0"),
        (["convert", "9", *LLAMA, "--to", "megatron-coer"], "did you mean 'megatron-core'?"),
        (["convert", "9", *LLAMA, "--peak", "H100"], "--peak: expected TFLOP/s or DEVICE:DTYPE"),
        (["convert", "9", *LLAMA, "--peak", "0"], "--peak: expected TFLOP/s above 0"),
    ],
)
def test_wrong_words_are_refused_in_one_line(capsys, words, message):
    code, out, err = run(capsys, *words)
    assert (code, out) == (2, "")
    assert message in err
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    ("figure", "origin", "target", "peak", "share"),
    [
        ("10682", [], "nominal", "989.4", 51.8),  # NVIDIA dgxc 25.04 prints 62.47 by the way of `full`
        ("10682", [], "full", "989.4", 62.5),
        ("62.5%", ["--from", "torchtitan"], "causal", "989.4", 55.6),
        ("51.8%", ["--from", "nominal"], "causal", "989.4", 55.6),
        ("618.6 TFLOP/s", ["--from", "full"], "nominal", "989.4", 51.8),
        ("30624", [], "Megatron-Core", "4500", 35.0),
    ],
)
def test_published_figures_are_those_of_other_conventions(capsys, figure, origin, target, peak, share):
    code, out, _ = run(capsys, "convert", figure, *LLAMA, *origin, "--to", target, "--peak", peak, "--json")
    assert code == 0
    (found,) = json.loads(out)["to"]
    assert 100 * found["mfu"] == pytest.approx(share, abs=0.06)
    assert "token/s x" in found["how"]


def test_another_peak(capsys):
    words = ["--from", "causal", "--to", "causal", "--peak", "1979", "--to-peak", "989.5", "--json"]
    (found,) = json.loads(run(capsys, "convert", "37.6%", *LLAMA, *words)[1])["to"]
    assert found["mfu"] == pytest.approx(0.752)


def test_the_formula_is_shown(capsys):
    words = ["--from", "torchtitan", "--to", "causal", "--peak", "989.4"]
    code, out, _ = run(capsys, "convert", "62.5%", *LLAMA, *words)
    assert code == 0
    assert "\ncausal (nearly Megatron-Core, nearly NeMo)" in out
    assert "6 x (8,030,261,248 - 525,336,576) + 6 x 32 x 4,096 x 8,192" in out
    assert "/ 989.4 TFLOP/s = 55.5" in out


def test_a_family_without_attention_is_neither_counted_nor_planned(tmp_path, capsys):
    text = model_text(library().model("llama_tiny"))
    for family in ("mamba", "jamba"):
        (tmp_path / "mine.toml").write_text(text.replace('name = "llama_tiny"', 'name = "mine"').replace(
            'family = "llama"', f'family = "{family}"'))  # fmt: skip
        for words in (["models", str(tmp_path / "mine.toml")],
                      ["plan", "default", "--set", f"model={tmp_path / 'mine.toml'}"]):  # fmt: skip
            assert call(words) == 2
            expected = "expected a transformer with attention in every layer, or an extension that counts the model"
            assert f"model mine: family: {expected}, found '{family}'" in capsys.readouterr().err
