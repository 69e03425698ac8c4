"""`llmperf estimate --on A,B,C` as a buyer meets it."""

import json
import re

import pytest
from llmperf.cli.main import call
from llmperf_estimate.side_by_side import machines

PRICES = "".join(
    f'[prices."{device}"]\nper_hour = {price}\ncurrency = "USD"\ndate = 2026-11-01\nsource = "offer"\n'
    for device, price in (("A100-SXM4-80GB", 1.90), ("H800-80GB", 2.40), ("MI300X", 2.20))
)
BUYER = ("llama2_7b_pretrain_zero", "--set", "model=llama2_13b", "--on", "A100-SXM4-80GB,H800,R300,MI300X")


@pytest.fixture
def estimate(capfd, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "prices.toml").write_text(PRICES)

    def run(*words):
        code = call(["estimate", "--analytic", *words])
        return code, *capfd.readouterr()

    return run


def test_sizes_reach_back_to_the_names_before_them():
    assert machines("A, B:2x4,C") == ["A:2x4", "B:2x4", "C:1x8"]
    assert len(machines("all:1x4")) > 20


def test_a_buyer_sees_the_cheapest_first_and_how_sure_that_is(estimate):
    code, out, err = estimate(*BUYER, "--prices", "prices.toml", "--train-tokens", "100B")
    assert code == 0, err
    ranked = [line for line in out.splitlines() if re.match(r"\d  ", line)]
    # 39.9 days at 2.20 USD an hour for eight devices are less than 37.6 days at 2.40
    assert ["MI300X" in ranked[0], "H800" in ranked[1], "A100" in ranked[2], len(ranked)] == [True, True, True, 3]
    assert re.search(r"16,858 USD \+-\d+%", ranked[0])
    assert "3 of 4 machines have a figure with this tuning" in out
    assert "cheapest: 1 x 8 AMD Instinct MI300X" in out
    assert "larger than its lead over 1 x 8 NVIDIA H800: measure both" in out
    assert "R300:1x8: does not fit: 36.4 of 32.0 GiB" in out
    assert "no published throughput has" in out


def test_without_prices_the_fastest_is_first_and_overlays_of_one_device_do_not_apply(estimate):
    code, out, err = estimate("llama2_7b_pretrain_zero", "--on", "A100-SXM4-80GB,MI300X,R300", "--json")
    rows = json.loads(out)
    assert code == 0, err
    speeds = [row["estimate"]["tokens_per_second_per_device"] for row in rows]
    assert speeds == sorted(speeds, reverse=True)
    contracts = [row["estimate"]["spec"]["contract"] for row in rows]
    assert contracts[0] == contracts[1] == contracts[2]  # R300 has an overlay that shortens the sequence
    tunings = [row["estimate"]["spec"]["tuning"] for row in rows]
    assert tunings[0] == tunings[1] == tunings[2]


def test_each_machine_at_its_best_tuning_is_no_slower(estimate):
    words = ("llama2_7b_pretrain_zero", "--on", "A100-SXM4-80GB,A100-SXM4-40GB", "--json")
    one, tuned = json.loads(estimate(*words)[1]), json.loads(estimate(*words, "--tuned")[1])
    same = json.loads(estimate(*words[:-1], "--format", "json")[1])
    assert [list(row["estimate"]) for row in same] == [list(row["estimate"]) for row in one]
    best = {row["machine"]: row["estimate"]["tokens_per_second_per_device"] for row in tuned}
    assert all(best[row["machine"]] >= 0.99 * row["estimate"]["tokens_per_second_per_device"] for row in one)
    assert any("gradient_checkpointing=false" in row["settings"] for row in tuned)


@pytest.mark.parametrize("model", ["qwen3_8b", "config.json"])
def test_any_model_needs_no_case(estimate, tmp_path, model):
    config = {"model_type": "qwen3", "hidden_size": 1024, "intermediate_size": 3072, "num_hidden_layers": 28,
              "num_attention_heads": 16, "num_key_value_heads": 8, "head_dim": 128, "vocab_size": 151936,
              "max_position_embeddings": 2048, "rms_norm_eps": 1e-6, "rope_theta": 1e6, "tie_word_embeddings": True,
              "hidden_act": "silu"}  # fmt: skip
    (tmp_path / "config.json").write_text(json.dumps(config))
    code, out, err = estimate("--model", model, "--on", "A100-SXM4-80GB,H800", "--train-tokens", "100B")
    assert code == 0, err
    assert f"sequence {4096 if model == 'qwen3_8b' else 2048}, global batch 512" in out
    assert "fastest: 1 x 8 NVIDIA H800" in out


def test_a_chart_and_a_table_for_programs(estimate, tmp_path):
    assert estimate(*BUYER, "--format", "html", "-o", "chart.html", "--prices", "prices.toml")[::2] == (0, "")
    page = (tmp_path / "chart.html").read_text()
    assert ">estimated</span>" in page
    assert '<p class="answer">cheapest: 1 x 8 AMD Instinct MI300X' in page
    assert "R300:1x8: does not fit: 36.4 of 32.0 GiB" in page
    assert '"rank":"train_cost"' in page.replace(" ", "")
    assert "prices of a device for an hour: AMD Instinct MI300X 2.2 USD (offer, 2026-11-01)" in page
    assert re.search(r"expected <data[^>]*>[\d,.]+</data> to <data", page)  # the range beside its bar
    assert estimate(*BUYER, "--format", "csv")[1].splitlines()[1].startswith("H800:1x8,llama2_13b,")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("default", "--on", "A100-SXM4-80GB,"), "found an empty name"),
        (("default", "--on", "A100-SXM4-80GB,Acme9"), "unknown device model 'Acme9'"),
        (("default", "--tuned", "--on", "H800:1x8"), "--tuned: expected several machines for --on"),
        (("--model", "lama2_7b", "--on", "H800:1x8"), "--model: unknown model 'lama2_7b'; did you mean 'llama2_7b'?"),
    ],
)
def test_a_wrong_request_is_one_line(estimate, words, message):
    code, _, err = estimate(*words)
    assert (code, message in err, "Traceback" in err) == (2, True, False), err
