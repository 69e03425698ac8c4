"""`llmperf cases` and the other lists as a user meets them."""

import json
import subprocess
import sys

import pytest

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
