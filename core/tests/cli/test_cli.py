"""The command line as a user meets it."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from llmperf.cli.main import COMMANDS, extra_commands
from llmperf.plugins.mending import install_own


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("run", "runs: cannot create; the working directory does not exist any more"),
        ("validate .", "the working directory does not exist any more"),
        ("report .", "; the working directory does not exist any more"),
        ("pack runs/a -o x.zip", "; the working directory does not exist any more"),
        ("summary .", "; the working directory does not exist any more"),
        ("new vendor zephyr", "; the working directory does not exist any more"),
    ],
)
def test_a_working_directory_that_was_deleted_is_said_in_one_line(tmp_path, words, said):
    program = "import os, sys; os.rmdir(os.getcwd()); from llmperf.cli.program import program; program()"
    folder = tmp_path / "gone"
    folder.mkdir()
    command = [sys.executable, "-c", program, *words.split()]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=60)
    errors = [line for line in done.stderr.splitlines() if line.startswith("llmperf: ")]
    assert done.returncode == 2
    assert len(errors) == 1
    assert errors[0].endswith(said)


def test_help_and_version(ran):
    out = ran(0, "--help").out
    assert all(name in out for name in COMMANDS)
    assert "Examples:" in out
    assert ran(0, "--version").out.startswith("llmperf 0.")
    out, err = ran(2)
    assert out == ""
    assert err.startswith("Usage: llmperf [OPTIONS] COMMAND")
    assert err.count("\n") > len(COMMANDS)


@pytest.mark.parametrize("command", [*COMMANDS, *extra_commands()])
def test_every_command_has_help_with_examples(ran, command):
    out = ran(0, command, "--help").out
    assert "Examples:" in out
    assert f"llmperf {command}" in out


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["rum"], "llmperf: unknown command 'rum'; did you mean 'run'?"),
        (["plan", "defualt"], "llmperf: unknown case 'defualt'; did you mean 'default'?"),
        (["plan", "--vendor", "cpuu"], "llmperf: unknown vendor 'cpuu'; did you mean 'cpu'?"),
        (["plan", "--set", "mirco_batch=1"], "did you mean 'micro_batch'?"),
        (["plan", "--on", "A100-SXM4-40G:1x8"], "did you mean 'NVIDIA A100-SXM4-40GB'?"),
        (
            ["plan", "--on", "A100:1x8"],
            "expected one of: NVIDIA A100 80GB PCIe, NVIDIA A100-PCIE-40GB, NVIDIA A100-SXM4",
        ),
        (["plan", "--on", "H801:1x8"], "did you mean 'NVIDIA H800'?"),
        (["plan", "--on", "abacus:1x8"], "unknown device model 'abacus'; expected one of: AMD Instinct MI210, "),
        (["plan", "--on", "A100-SXM4-40GB"], "expected MODEL:NODESxDEVICES, such as --on A100-SXM4-40GB:1x8"),
        (["plan", "--stall-timeout", "nan"], "nan is not a number of seconds"),
        (["run", "--startup-timeout", "inf"], "inf is not a number of seconds"),
        (["run", "llama2_70b"], "that is a model; choose a case, and add --set model=llama2_70b"),
        (["plan", "--devices", "0"], "0 is not in the range"),
        (["run", "--repeat", "many"], "'many' is not a valid integer range"),
        (["plan", "--vendor", "nvidia"], "llmperf: vendor 'nvidia' sees no device here"),
        (["completion", "tcsh"], "'tcsh' is not one of 'bash', 'zsh', 'fish'"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(ran, words, line):
    out, err = ran(2, *words)
    assert line in err
    assert (out, err.count("\n")) == ("", 1)


def test_a_plan_shows_what_would_run(ran):
    out = ran(0, "plan", "default", "--framework", "pytorch", "--devices", "1").out
    for wanted in (
        "1 rank = TP1 x PP1 x DP1",
        "micro 2 x accumulation 2 x DP 1 = 4 sequences x 256 = 1,024 tokens a step",
        "5,261,568 parameters",
        "llmperf.launching.agent",
        "OMP_NUM_THREADS=",
        "changed from the case: tuning.devices 2 -> 1 (--devices)",
    ):
        assert wanted in out


def test_a_plan_that_does_not_fit_lists_every_reason(ran):
    out = ran(2, "plan", "default", "--set", "precision=fp16", "--set", "framework.optimiser=torch").out
    assert "nearest: --set precision=bf16 (a variant)" in out
    assert "optimizer" in out.split("does not fit together:")[1]


def test_a_machine_elsewhere_is_planned_from_the_catalogue(ran):
    document = json.loads(ran(0, "plan", "llama2_7b_pretrain_zero", "--on", "A100-SXM4-40GB:1x8", "--json").out)
    assert document["problems"] == []
    assert document["runnable"] is False
    plan = document["plan"]
    assert plan["worker"]["layout"]["data_parallel"] == 8
    assert plan["peak"]["flops_per_second"] == 312e12
    assert plan["batch"]["tokens_per_step"] == 8 * 4096
    assert plan["probe"]["simulated"] is True


@pytest.mark.parametrize(("nodes", "told"), [(1, []), (3, []), (4, ["nodes 2 to 3"]), (16, ["nodes 2 to 15"])])
def test_a_plan_for_many_nodes_does_not_repeat_itself(ran, nodes, told):
    words = ("plan", "default", "--on", f"A100-SXM4-40GB:{nodes}x1", "--set", f"global_batch={2 * nodes}")
    out = ran(0, *words).out
    shown = [line.split("  ")[0].removeprefix("launch, ") for line in out.splitlines() if line.startswith("launch, ")]
    assert shown == ([f"node {rank}" for rank in range(nodes)] if nodes <= 3 else ["node 0", "node 1", *told])
    assert len(json.loads(ran(0, *words, "--json").out)["launch"]) == nodes


def test_a_plan_says_which_ranks_are_on_which_node_and_how_they_are_numbered(ran):
    words = ("plan", "llama2_7b_pretrain_megatron", "--on", "A100-SXM4-40GB:4x8", "--set", "tensor_parallel=8",
             "--set", "pipeline_parallel=2")  # fmt: skip
    out = ran(0, *words).out
    facts = dict(re.split(r"  +", line, maxsplit=1) for line in out.splitlines() if "  " in line.strip())
    assert facts["rank order"] == "TP, then DP, then PP: neighbouring ranks differ in the first"
    assert facts["ranks of node 1"] == "8-15: TP 0-7, DP 1, PP 0"
    assert facts["ranks of nodes 2 to 3"] == "8 each, in the same order"
    last = json.loads(ran(0, *words, "--json").out)["launch"][3]
    assert (last["first_rank"], last["last_rank"]) == (24, 31)
    assert last["coordinates"] == {"tensor": [0, 7], "data": [1, 1], "pipeline": [1, 1]}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("case", "on", "package"),
    [
        ("llama2_7b_pretrain_megatron", "A100-SXM4-40GB:1x8", "llmperf-megatron-deepspeed"),
        ("llama2_7b_lora", "A100-SXM4-40GB:1x1", "llmperf-lora"),
        ("llama1_7b_pretrain_paddle", "A100-SXM4-80GB:1x8", "llmperf-paddle"),
        ("llama1_13b_pretrain_paddle", "A100-SXM4-80GB:1x8", "llmperf-paddle"),
    ],
)
def test_a_case_whose_framework_is_not_installed_says_which_package_is_missing(ran, monkeypatch, case, on, package):
    from llmperf.plugins import discovery

    left = [found for found in discovery.discover() if found.distribution != package]
    for module in ("plugins.discovery", "plugins.loading"):
        monkeypatch.setattr(f"llmperf.{module}.discover", lambda **_: left)
    missing = f"({package}) is not installed; install it with: {install_own(package)}"
    out = ran(2, "plan", case, "--on", on).out
    assert missing in out
    assert "tokens a step" in out
    assert missing in ran(2, "run", case).err


def test_a_dry_run_starts_nothing(ran, tmp_path):
    assert "tokens a step" in ran(0, "run", "--dry-run", "--out", tmp_path / "runs").out
    assert not (tmp_path / "runs").exists()


def test_a_bug_keeps_its_traceback():
    program = (
        "import sys, llmperf.cli.program as p, llmperf.cli.request as c;"
        "c.command.callback = lambda **_: 1 / 0; sys.argv[1:] = ['plan']; p.program()"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=100)
    assert "ZeroDivisionError" in done.stderr
    assert "Traceback" in done.stderr


def test_output_cut_short_is_no_error():
    argv = f"{sys.executable} -m llmperf models | head -1"
    done = subprocess.run(["bash", "-c", argv], capture_output=True, text=True, timeout=100)
    assert "Traceback" not in done.stderr


@pytest.mark.slow
def test_a_run_goes_on_when_nobody_reads_its_output_any_more(stub_run, tmp_path):
    reader, writer = os.pipe()
    os.close(reader)
    command = [sys.executable, "-P", "-m", "llmperf", *stub_run, "--out", str(tmp_path)]
    done = subprocess.run(command, stdout=writer, stderr=writer, timeout=100)
    os.close(writer)
    (run,) = tmp_path.iterdir()
    assert (done.returncode, json.loads((run / "result.json").read_text())["status"]) == (0, "complete")
    assert (run / "report.md").exists()


@pytest.mark.slow
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full")
@pytest.mark.parametrize("words", [["cases"], ["validate", "cases"], ["--help"], ["models", "--json"]])
def test_a_full_disk_is_an_error_of_one_line(words, tmp_path):
    (tmp_path / "cases").mkdir()
    (tmp_path / "cases" / "wrong.toml").write_text("name = 1\n")
    with open("/dev/full", "wb") as full:
        command = [sys.executable, "-m", "llmperf", *words]
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, cwd=tmp_path)
        silent = subprocess.run(command, stdout=full, stderr=full, cwd=tmp_path)
    assert done.stderr == "llmperf: cannot write the output: No space left on device\n"
    assert (done.returncode, silent.returncode) == (2, 2)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--out", ""], "expected a folder, found an empty name"),
        (["--out", os.fsdecode(b"d\xff")], r"'d\udcff' is not UTF-8 text"),
        (["--set", os.fsdecode(b"data.path=d\xff.txt")], r"'data.path=d\udcff.txt' is not UTF-8 text"),
        ([os.fsdecode(b"d\xff")], r"'d\udcff' is not UTF-8 text"),
    ],
)
def test_a_name_that_cannot_be_written_down_is_refused_before_the_run(ran, words, told):
    out, err = ran(2, "run", *words)
    assert (out, err.count("\n")) == ("", 1)
    assert told in err
