"""`llmperf devices` and `llmperf plan` on machines that are not here, from the loader's search path on."""

import json
import os
import subprocess
import sys
from dataclasses import replace

import pytest


def llmperf(machines, machine, *arguments, **environment):
    ours = {"CUDA_VISIBLE_DEVICES", "PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF"}
    env = {name: value for name, value in os.environ.items() if name not in ours}
    env |= {"LD_LIBRARY_PATH": str(machines.library.parent), "FAKE_NVML": str(machine), **environment}
    command = [sys.executable, "-m", "llmperf", *arguments]
    return subprocess.run(command, env=env, capture_output=True, text=True, timeout=120)


def test_devices_lists_what_is_there_and_what_is_left_out(machines):
    machine = machines.describe(machines.A100, replace(machines.A100, error=machines.LOST), machines.V100)
    done = llmperf(machines, machine, "devices")
    assert done.returncode == 0, done.stderr
    (row,) = [line for line in done.stdout.splitlines() if line.startswith("nvidia ")]
    assert row.split()[1:4] == ["0", "NVIDIA", "A100-SXM4-40GB"]
    assert "nvidia: GPU 1 is left out: GPU is lost (reset it or reboot)" in done.stdout
    assert "nvidia: devices left out: 2 (Tesla V100-PCIE-16GB)" in done.stdout


@pytest.mark.slow
def test_plan_is_for_the_gpus_that_are_here(machines):
    machine = machines.describe(*[machines.H800] * 8)
    done = llmperf(machines, machine, "plan", "llama2_7b_pretrain_zero", "--set", "dataset=synthetic", "--json")
    assert done.returncode == 0, done.stdout + done.stderr
    plan = json.loads(done.stdout)["plan"]
    assert (plan["vendor"], plan["probe"]["driver"], plan["probe"]["simulated"]) == ("nvidia", "580.65.06", False)
    assert (plan["worker"]["layout"]["devices_per_node"], plan["peak"]["flops_per_second"]) == (8, 989.4e12)
    assert "CUDA_VISIBLE_DEVICES" not in plan["env"]


@pytest.mark.slow
def test_plan_has_the_ranks_see_the_gpus_it_is_for(machines):
    machine = machines.describe(replace(machines.A100, mig=1), machines.A100, machines.A100)
    done = llmperf(machines, machine, "plan", "default", "--devices", "2", "--json")
    plan = json.loads(done.stdout)["plan"]
    uuids = [f"GPU-0000000{index}-aaaa-bbbb-cccc-000000000000" for index in (1, 2)]
    assert plan["env"]["CUDA_VISIBLE_DEVICES"] == ",".join(uuids)
    assert plan["env"]["CUDA_DEVICE_ORDER"] == "PCI_BUS_ID"
    text = llmperf(machines, machine, "plan", "default", "--devices", "2").stdout
    assert "nvidia says" in text
    assert "GPU 0 is left out: it is in MIG mode" in text


@pytest.mark.slow
@pytest.mark.parametrize(
    ("framework", "theirs", "set_by_us"),
    [
        ("pytorch", {}, "expandable_segments:True"),
        ("pytorch", {"PYTORCH_CUDA_ALLOC_CONF": "max_split_size_mb:512"}, None),
        ("pytorch", {"PYTORCH_ALLOC_CONF": "backend:native"}, None),
        ("paddle", {}, None),
    ],
)
def test_torchs_segments_grow_unless_the_user_has_it_otherwise(machines, framework, theirs, set_by_us):
    machine = machines.describe(machines.A100)
    words = ("plan", "default", "--framework", framework, "--devices", "1", "--set", "sharding_stage=0", "--json")
    done = llmperf(machines, machine, *words, **theirs)
    plan = json.loads(done.stdout)["plan"]
    assert plan["env"].get("PYTORCH_CUDA_ALLOC_CONF") == set_by_us
    assert "PYTORCH_ALLOC_CONF" not in plan["env"]


def test_a_vendor_asked_for_that_cannot_answer_is_one_line(machines):
    done = llmperf(
        machines, machines.describe(init=machines.MISMATCH), "plan", "default", "--vendor", "nvidia", PATH=""
    )
    assert done.returncode == 2
    assert "reload the module or reboot" in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_probing_and_sampling_need_no_torch(machines):
    code = (
        "import sys; sys.modules['torch'] = None; from llmperf.plugins.loading import load_for;"
        " p = load_for('nvidia', None);"
        " print(len(p.ask('llmperf_probe').devices), p.ask('llmperf_query_memory', devices=(0,))[0].power_watts)"
    )
    env = {
        "PATH": "",
        "LD_LIBRARY_PATH": str(machines.library.parent),
        "FAKE_NVML": str(machines.describe(machines.A100)),
    }
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, timeout=60)
    assert done.stdout.split() == ["1", "250.0"], done.stderr
