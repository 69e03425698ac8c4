"""FlagPerf's configurations become cases that plan, and a result becomes its table and back."""

import json
from pathlib import Path

import llmperf_schemas
import pytest
from llmperf import read_toml

FILES = read_toml(Path(__file__).with_name("configurations.toml"))


@pytest.fixture
def training(tmp_path):
    """A folder `training` with two configurations, and one that is of no language model."""
    megatron, paddle, other = "llama2_7b-megatron-deepspeed", "llama1_13B-paddle", "resnet50-pytorch"
    for name, text in {
        f"{megatron}/config/config_A100x1x8.py": FILES["megatron"],
        f"{megatron}/config/config_common.py": "tensor_parallel = 8\n",
        f"{megatron}/config/ds_config.json": FILES["deepspeed"],
        f"{megatron}/config/environment_variables.sh": FILES["shell"],
        f"{paddle}/config/config_TP2PP1SH2SP4A10080Gx1x8.py": FILES["paddle"],
        f"{other}/config/config_A100x1x8.py": "lr = 1\n",
    }.items():
        path = tmp_path / "training" / "nvidia" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path / "training"


def test_configurations_of_a_folder_become_cases_that_plan(ran, training, tmp_path):
    document = json.loads(ran(0, "import", training, "--out", tmp_path / "cases", "--json").out)
    assert [one["plan"] for one in document["cases"]] == ["ok", "ok"]
    assert [one["machine"] for one in document["cases"]] == ["A100-SXM4-80GB:1x8"] * 2
    assert "unknown model 'resnet50'" in document["refused"][0]
    paddle, megatron = sorted(document["cases"], key=lambda one: "megatron" in one["name"])
    assert megatron["environment"] == {"A": "1"}
    assert (megatron["stated_peak"], megatron["meaningless"]) == (312e12, ["tensor_parallel", "tokenizer"])
    assert "save_steps" in paddle["meaningless"]
    assert set(paddle["assumed"]) == {"contract.dataset=synthetic"}
    case = (tmp_path / "cases" / f"{paddle['name']}.toml").read_text()
    for line in ('model = "llama1_13b"', "global_batch = 2048", 'precision = "fp16"', "sharding_stage = 2",
                 "sharding_degree = 4", "gradient_checkpointing = true",
                 'fused_ops = ["rms_norm"]', "steps = 100"):  # fmt: skip
        assert f"\n{line}\n" in case
    case = (tmp_path / "cases" / f"{megatron['name']}.toml").read_text()
    for line in ("lr = 1e-05", "beta2 = 0.98", "eps = 1e-09", "gradient_checkpointing = true"):
        assert f"{line}\n" in case
    assert "weight_decay" not in case
    text = ran(0, "plan", tmp_path / "cases" / f"{megatron['name']}.toml", "--on", "A100-SXM4-80GB:1x8").out
    assert "8 ranks = TP1 x PP1 x DP8" in text
    (training / "README.md").write_text("| tokens/s | MFU |\n|---|---|\n| 3,700 | 49.8% |\n")
    ran(0, "import", training, "--out", tmp_path / "tables")
    assert not list((tmp_path / "tables").glob("*.toml"))
    assert "--force replaces it" in ran(2, "import", training / "nvidia", "--out", tmp_path / "cases").err


@pytest.mark.parametrize("entry", FILES["wrong"], ids=lambda entry: entry["message"][:30])
def test_what_is_missing_or_no_configuration_is_one_line(ran, tmp_path, entry):
    place = tmp_path / "nvidia" / "llama2_7b-deepspeed" / "config"
    place.mkdir(parents=True)
    (place / "config_A100x1x8.py").write_text(entry["text"] * entry.get("times", 1))
    error = ran(2, "import", place / "config_A100x1x8.py", "--out", tmp_path / "cases").err
    assert len(error.splitlines()) == 1
    assert entry["message"] in error
    assert not (tmp_path / "cases").exists()


def test_cases_of_a_test_conf_are_found(ran, training, tmp_path):
    conf = training / "run_benchmarks" / "config" / "test_conf.py"
    conf.parent.mkdir(parents=True)
    conf.write_text('VENDOR = "nvidia"\nCASES = {"llama2_7b:megatron-deepspeed:A100:1:8:1": "/data"}\n')
    assert "1 case written" in ran(0, "import", conf, "--out", tmp_path / "cases").out
    conf.write_text('CASES = {"llama2_7b:deepspeed:A100:1:8:1": "/data"}\n')
    error = ran(2, "import", conf, "--out", tmp_path / "more").err
    assert "found none for 'llama2_7b:deepspeed:A100:1:8:1'" in error


@pytest.mark.parametrize(("vendor", "device"), [("nvidia", "NVIDIA A100-SXM4-80GB"), ("cpu", "AMD EPYC")])
def test_a_result_is_flagperfs_table_and_imports_to_the_same_figures(ran, tmp_path, vendor, device, saved):
    result = llmperf_schemas.example("result")
    (tmp_path / "run").mkdir()
    path = saved(tmp_path / "run" / "result.json", result)
    assert "a device for each rank" in ran(2, "report", path, "--format", "flagperf").err
    result["hardware"] |= {"vendor": vendor, "device_model": device, "device_share": 1.0}
    path.write_text(json.dumps(result))
    ran(0, "report", path, "--format", "flagperf", "-o", tmp_path / "README.md")
    assert ran(0, "import", tmp_path / "README.md", "--out", tmp_path / "imported").err == ""
    document = json.loads((next((tmp_path / "imported").glob("*/published.json"))).read_text())
    (imported,) = document["rows"]
    assert (document["vendor"], imported["hardware"]["device_model"]) == (vendor, device)
    shown, measured = imported["metrics"], result["metrics"]
    speed = "tokens_per_second_per_device"
    assert shown[speed]["value"] == pytest.approx(measured[speed], rel=1e-3)
    assert shown["loss"]["value"] == pytest.approx(measured["final_loss"], rel=1e-3)
    nominal = next(mfu["value"] for mfu in result["mfu"] if mfu["convention"] == "nominal")
    assert shown["mfu"]["value"] == pytest.approx(nominal, abs=5e-4)
    assert (imported["model"], imported["framework"]) == (result["model"]["name"], result["tuning"]["framework"])
    batch = {name: imported["batch"][name] for name in ("micro_batch", "gradient_accumulation", "seq_len")}
    assert batch == {name: {**result["tuning"], **result["contract"]}[name] for name in batch}
