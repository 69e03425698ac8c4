"""`llmperf models` as a user meets it."""

import json
import re
import subprocess
import sys

import pytest
from llmperf.cases.library import library, read_named
from llmperf.cli.main import call
from llmperf.plugins import loading
from llmperf.types import Model
from llmperf_inspect import model_text


def test_a_model_is_shown_with_parameters_and_flops_by_component(ran):
    out = ran(0, "models", "gpt_oss_20b", "--seq-len", "4096").out
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


def test_a_model_as_json(ran):
    document = json.loads(ran(0, "models", "deepseek_v3", "--json").out)
    assert document["total_parameters"] == 671_026_404_352
    assert sum(document["parameters"].values()) == document["total_parameters"]
    assert document["seq_len"] == 4096
    named = {entry["convention"] for entry in document["conventions"]}
    assert named >= {"nominal", "full", "causal", "megatron_bridge"}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["models", "qwen3_30b_a3"], "did you mean 'qwen3_30b_a3b'?"),
        (["models", "llama2_7b", "other"], "expected one NAME, found llama2_7b other"),
    ],
)
def test_wrong_words_are_refused_in_one_line(ran, words, message):
    out, err = ran(2, *words)
    assert (out, err.count("\n")) == ("", 1)
    assert message in err


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


def test_models_are_shown_without_extensions(monkeypatch, capsys):
    monkeypatch.setattr(loading, "discover", list)
    assert call(["models", "llama_tiny"]) == 0
    assert call(["models", "import", "config.json"]) == 2
    assert "import is a command of llmperf-huggingface; install it with: " in capsys.readouterr().err


@pytest.mark.parametrize("name", sorted(library().paths("models")))
def test_a_model_is_written_as_it_is_read(tmp_path, name):
    model = library().model(name)
    path = tmp_path / f"{name}.toml"
    path.write_text(model_text(model), encoding="utf-8")
    assert read_named(path, Model) == model
    assert re.search(r"^source = ", path.read_text(), re.MULTILINE)


LISTS = ("plugins", "devices", "cases", "models")


@pytest.mark.slow
@pytest.mark.parametrize("command", [*LISTS, "doctor"])
def test_lists_are_also_json(ran, command):
    assert json.loads(ran(0, command, "--json").out)


@pytest.mark.parametrize("command", LISTS)
def test_lists_leave_unimported_what_only_other_commands_need(command):
    left_out = {"torch", "deepspeed", "transformers", "paddle"}
    if command == "plugins":  # starts quickly
        left_out |= {"packaging", "wcwidth", "importlib.metadata", "subprocess", "shutil", "difflib", "msgspec"}
        left_out |= {f"llmperf.{name}" for name in ("types.sheet", "plugins.mending", "validation", "cases", "running")}
        left_out |= {"tomllib", "tomli", "pathlib", "numpy", "llmperf.planning.vendors", "llmperf_nvidia.probe"}
    program = "import sys; from llmperf.cli.main import call; print(call(sys.argv[1:]), *sys.modules)"
    done = subprocess.run([sys.executable, "-c", program, command], capture_output=True, text=True, timeout=60)
    code, *modules = done.stdout.splitlines()[-1].split()
    assert (code, left_out & set(modules)) == ("0", set()), done.stderr


def test_a_case_is_shown_with_every_path_that_can_be_set(ran):
    from llmperf.cases.settings import full_path, known_paths

    lines = [line.split() for line in ran(0, "cases", "default").out.splitlines()]
    values = {words[0]: words[1] for words in lines if len(words) > 1}
    assert (values["model"], values["seq_len"], values["optimizer.lr"]) == ("llama_mini", "256", "0.001")
    assert {path for path in known_paths() if path.partition(".")[2] not in values} == set()
    document = json.loads(ran(0, "cases", "llama2_7b_lora", "--json").out)
    settings = {setting["path"]: setting for setting in document["settings"]}
    assert settings["contract.lora.rank"]["value"] == document["contract"]["lora"]["rank"]
    assert [full_path(setting["set"], "--set") for setting in settings.values()] == list(settings)
    assert "did you mean 'default'" in ran(2, "cases", "defualt").err
