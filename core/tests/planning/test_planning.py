"""From a request to a plan: which machine, what fits, what is refused."""

import json
import time
from dataclasses import replace

import pytest
from llmperf.cli.main import call
from llmperf.errors import PluginError, UserError
from llmperf.files import json_files
from llmperf.planning.build import plan_run, run_id
from llmperf.planning.problems import MOST_STEPS, need_problems, unsupported_problems
from llmperf.planning.ready import ready
from llmperf.planning.states import Selection, Site
from llmperf.planning.vendors import machine_elsewhere, probe_all, this_machine
from llmperf.plugins.loading import Plugins
from llmperf.plugins.mending import install_own, pip_command
from llmperf.runfolder.reader import MAX_FILE_BYTES
from llmperf.types import DeviceInfo, Mixture, Needs, Offers, Probe, StepRecord
from llmperf.types.devices import normalised

VENDOR = """
from llmperf import hookimpl
from llmperf.types import DeviceInfo, Offers, Probe

@hookimpl
def llmperf_probe():
    offers = Offers(precisions=("fp32", "fp16"), runtimes=("torch",), collective_backend="gloo")
    devices = tuple(DeviceInfo(index=i, model="Acme A1", memory_bytes=2**34) for i in range({count}))
    return Probe(vendor="{name}", devices=devices, offers=offers, problems=({problems}))
"""


def vendor(name: str, count: int, problems: str = "") -> str:
    return VENDOR.format(name=name, count=count, problems=problems)


FRAMEWORK = """
from dataclasses import replace
from llmperf import agent_argv, hookimpl, standard_layout
from llmperf.types import Needs, Script, WorkerPlan

@hookimpl
def llmperf_plan_workers(spec, probe):
    worker = WorkerPlan(layout=standard_layout(spec), agent=agent_argv(),
                        needs=Needs(precision=spec.contract.precision, runtime="torch"))
    return replace(worker, {change})

@hookimpl
def llmperf_{answers}(plan, device):
    return None
"""


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (
            "layout=replace(worker.layout, data_parallel=7)",
            "layout.data_parallel: expected 2, as llmperf.standard_layout",
        ),
        ("agent=()", "agent: expected the argv that starts a node's ranks, such as llmperf.agent_argv(), found none"),
        ("script=Script(command=('x',), step_rank=0)", "a script needs llmperf_parse_log, which it does not answer"),
        ("script=Script(command=('x',), step_rank=9)", "script.step_rank: expected one of the ranks 0 to 1, found 9"),
        ("script=Script(command=(), step_rank=0)", "script.command: expected the argv of one rank, found none"),
    ],
)
def test_a_plan_that_cannot_be_is_refused_with_its_framework(install, ran, change, told):
    source = FRAMEWORK.format(change=change, answers="build_trainer")
    install("llmperf-abacus", "abacus", source, role="framework")
    out = "".join(ran(2, "plan", "--vendor", "cpu", "--framework", "abacus"))
    line = next(line for line in out.splitlines() if told in line)
    assert "framework 'abacus' (llmperf-abacus): llmperf_plan_workers: " in line


def test_a_plan_with_a_script_names_the_package_that_runs_it(install, monkeypatch, capsys):
    """Where that package is not installed, before anything starts."""
    change = "script=Script(command=('x',), step_rank=0)"
    source = FRAMEWORK.format(change=change, answers="parse_log").replace("(plan, device)", "(line)")
    install("llmperf-abacus", "abacus", source, role="framework")
    assert call(["plan", "--vendor", "cpu", "--framework", "abacus"]) == 0
    monkeypatch.setattr(Plugins, "rank_task", lambda plugins, name: None)
    capsys.readouterr()
    assert call(["run", "--vendor", "cpu", "--framework", "abacus"]) == 2
    (line,) = [line for line in capsys.readouterr().err.splitlines() if "script" in line]
    assert "abacus runs an external script, which takes llmperf-scripts; install it with: " in line
    assert line.endswith("[framework_unusable]")


def abacus(install, name="abacus", **more):
    """A framework that plans, under a name."""
    source = FRAMEWORK.format(change="padding=True", answers="build_trainer")
    install(f"llmperf-{name}", name, source, role="framework", **more)


def refused(capsys, tmp_path, *words):
    """What `llmperf run` says of a run that it refuses; no run folder is made."""
    assert call(["run", "default", "--vendor", "cpu", "--out", str(tmp_path / "runs"), *words]) == 2
    assert not (tmp_path / "runs").exists()
    return capsys.readouterr().err


@pytest.mark.slow
def test_a_framework_whose_packages_are_missing_is_refused_before_ranks_start(install, capsys, tmp_path):
    abacus(install, requires=("beads>=2.6", "llmperf-rods", "msgspec", 'frames ; extra == "fast"'))
    install("llmperf-rods", "rods", "", role="extension", requires=("wires~=1.0",))
    told = refused(capsys, tmp_path, "--framework", "abacus")
    (line,) = [line for line in told.splitlines() if "tuning.framework" in line]
    assert "framework 'abacus' (llmperf-abacus) needs beads>=2.6 (not installed), wires~=1.0 (not installed)" in line
    assert f"install with: {pip_command('install', 'beads>=2.6', 'wires~=1.0')}" in line
    assert call(["plan", "default", "--framework", "abacus", "--on", "A100-SXM4-40GB:1x2"]) == 0  # it need not be here


def test_what_is_installed_and_plans_is_offered_instead(install, capsys, tmp_path, monkeypatch):
    from llmperf.plugins import discovery

    frameworks = [one for one in discovery.discover() if one.role == "framework"]
    there = [one for one in discovery.discover() if one not in frameworks]
    abacus(install, requires=("beads>=2.6",))
    abacus(install, "sliderule")
    there += [one for one in discovery.discover() if one.name in ("abacus", "sliderule")]
    for module in ("plugins.discovery", "plugins.loading"):
        monkeypatch.setattr(f"llmperf.{module}.discover", lambda **_: there)
    (missing,) = [line for line in refused(capsys, tmp_path).splitlines() if "tuning.framework" in line]
    install_it = f"install it with: {install_own('llmperf-zero')}"
    assert f"framework 'zero' (llmperf-zero) is not installed; {install_it}" in missing
    assert missing.endswith("; what is installed can run it by --framework sliderule [framework_unusable]")
    needy = refused(capsys, tmp_path, "--set", "tuning.framework=abacus")
    assert "by --framework sliderule" in needy
    misspelt = refused(capsys, tmp_path, "--framework", "sliderul")
    assert "did you mean 'sliderule'?" in misspelt
    assert "can run it" not in misspelt


def test_a_framework_that_has_neither_trainer_nor_script_is_refused(install, capsys):
    source = FRAMEWORK.format(change="", answers="build_trainer").replace("@hookimpl\ndef llmperf_build", "def build")
    install("llmperf-abacus", "abacus", source, role="framework")
    assert call(["run", "--vendor", "cpu", "--framework", "abacus"]) == 2
    assert "ranks without a script need llmperf_build_trainer, which it does not answer" in capsys.readouterr().err


def test_a_contract_that_a_framework_would_not_train_is_refused(stub_plan):
    spec = stub_plan().spec
    spec = replace(spec, model=replace(spec.model, mixture=Mixture(experts=8, top_k=2, expert_width=8)))
    asked = replace(spec, contract=replace(spec.contract, packing="padded", routing="balanced"))
    worker = replace(stub_plan().worker, padding=False, routing_tables=False)
    assert list(unsupported_problems(spec, worker)) == []
    assert list(unsupported_problems(asked, replace(worker, padding=True, routing_tables=True))) == []
    padding, routing = unsupported_problems(asked, worker)
    assert (padding.where, routing.where) == ("contract.packing", "contract.routing")
    assert "trains on packed sequences only: expected packed, found padded" in padding.message
    assert "expected learned, found balanced; nearest: --set routing=lea" in routing.message


def test_a_device_that_is_only_played_is_taken_where_its_vendor_is_named(install, ran, monkeypatch):
    install("llmperf-acme", "acme", vendor("acme", 2).replace("vendor=", "simulated=True, vendor="))
    assert this_machine(None).vendor == "cpu"
    assert this_machine("acme").probe.simulated
    assert "Acme A1 (simulated)" in ran(0, "devices").out
    assert "Acme A1 (acme, simulated on this machine)" in ran(0, "plan", "--vendor", "acme").out
    only = [one for one in probe_all()[0] if one.vendor == "acme"]
    monkeypatch.setattr("llmperf.planning.vendors.probe_all", lambda: (only, []))
    with pytest.raises(UserError, match="no device found: acme simulates one: --vendor acme uses it"):
        this_machine(None)


def test_a_broken_or_empty_vendor_does_not_stop_the_others(install):
    install("llmperf-broken", "broken", "raise RuntimeError('boom')")
    install("llmperf-empty", "empty", vendor("empty", 0, "'driver not loaded',"))
    assert this_machine(None).vendor == "cpu"
    with pytest.raises(UserError, match="sees no device here: driver not loaded"):
        this_machine("empty")
    assert machine_elsewhere("NVIDIA_A100-SXM4-40GB:1x8", None).vendor == "nvidia"
    with pytest.raises(PluginError, match="RuntimeError: boom"):
        machine_elsewhere("A100-SXM4-40GB:1x8", "broken")


ANSWERS = "from llmperf import hookimpl\n\n@hookimpl\ndef {}:\n    {}\n"
ODD = vendor("odd", 1)
BAD_VENDORS = [
    ("raise RuntimeError('boom')", "cannot be imported: RuntimeError: boom"),
    ("raise SystemExit(3)", "cannot be imported: SystemExit: 3"),
    (
        ANSWERS.format("llmperf_probe()", "raise OSError('no\\ndriver')"),
        "raised OSError: no driver (llmperf_odd.py, line 5)",
    ),
    (ANSWERS.format("llmperf_probe()", "raise SystemExit(3)"), "raised SystemExit: 3 (llmperf_odd.py, line 5)"),
    (ANSWERS.format("llmperf_probe()", "return {}"), "expected a Probe of llmperf_probe, found dict"),
    (ODD.replace("index=i", "index='a'"), "llmperf_probe: Expected `int`, got `str` - at `$.devices[0].index`"),
    (ODD.replace("problems=()", "problems=(object(),)"), "llmperf_probe: object cannot be written"),
    ("", "does not answer llmperf_probe"),
]


@pytest.mark.slow
@pytest.mark.parametrize(("source", "reason"), BAD_VENDORS)
def test_a_fault_of_a_vendor_is_reported_and_stops_only_its_own_runs(install, ran, source, reason):
    install("llmperf-odd", "odd", source)
    doctor = [(["doctor"], 1)] * (source in (BAD_VENDORS[1][0], BAD_VENDORS[4][0]))
    for words, code in (*doctor, (["devices"], 2), (["plan"], 0), (["plan", "--vendor", "odd"], 2)):
        out, err = ran(code, *words)
        assert "vendor 'odd' (llmperf-odd)" in out + err
        assert reason in out + err
    assert this_machine(None).vendor == "cpu"


CATALOGUE = vendor("odd", 0) + "\n@hookimpl\ndef llmperf_catalogue():\n    {}\n"
BAD_CATALOGUES = {
    "raises": ("raise OSError('gone')", "llmperf_catalogue raised OSError: gone (llmperf_odd.py, line 13)"),
    "raises half way": ("yield llmperf_probe(); raise OSError('gone')", "llmperf_catalogue raised OSError: gone"),
    "is none": ("return None", "expected a list of llmperf_catalogue, found NoneType"),
    "has a number": ("yield 1", "expected a Probe of llmperf_catalogue, found int"),
    "has no device": ("yield llmperf_probe()", "llmperf_catalogue has an entry without a device"),
}


@pytest.mark.parametrize(("source", "reason"), BAD_CATALOGUES.values(), ids=BAD_CATALOGUES)
def test_a_bad_catalogue_stops_only_plans_from_it(install, example, tmp_path, ran, capsys, source, reason, saved):
    install("llmperf-odd", "odd", CATALOGUE.format(source))
    elsewhere = ["plan", "default", "--on", "A100-SXM4-40GB:1x2"]
    for words, code in ((elsewhere, 0), ([*elsewhere, "--vendor", "odd"], 2)):
        out, err = ran(code, *words)
        assert "vendor 'odd' (llmperf-odd)" in out + err
        assert reason in out + err
    assert reason in ran(2, "plan", "--on", "Odd 9:1x2").err  # which may be why the device is unknown
    example["hardware"]["vendor"] = "odd"
    path = saved(tmp_path / "result.json", example)
    call(["validate", str(path), "--select", "LP904"])
    said = "expected a plugin that says what it publishes; its devices were not checked: vendor 'odd' (llmperf-odd)"
    out = capsys.readouterr().out
    assert f"LP904 warning {said}" in out
    assert reason[:40] in out


def test_a_peak_that_raises_spoils_one_rule_and_not_the_result(install, example, tmp_path, capsys, saved):
    device = "DeviceInfo(index=0, model='Odd 1', memory_bytes=2**34)"
    offers = "Offers(precisions=('fp32',), runtimes=('torch',), collective_backend='gloo')"
    source = CATALOGUE.format(f"yield Probe(vendor='odd', devices=({device},), offers={offers})")
    install("llmperf-odd", "odd", f"{source}\n@hookimpl\ndef llmperf_peak_flops(device_model, dtype):\n    1 / 0\n")
    example["hardware"] |= {"vendor": "odd", "device_model": "Odd 1"}
    example["metrics"]["final_loss"] = -1.0
    path = saved(tmp_path / "result.json", example)
    call(["validate", str(path)])
    out = capsys.readouterr().out
    assert "LP901 warning LP307 was not applied: vendor 'odd' (llmperf-odd): llmperf_peak_flops raised" in out
    assert "LP001" not in out
    assert "/metrics/final_loss" in out


def test_a_probe_of_another_vendors_name_is_refused(install, ran):
    install("llmperf-odd", "odd", vendor("other", 1))
    assert "vendor 'odd' (llmperf-odd): llmperf_probe: vendor: expected 'odd', found 'other'" in ran(2, "devices").out


LOADER = "expected no variable of the loader or the interpreter (LD_*, DYLD_*, PYTHON*), found LD_PRELOAD;"
BAD_ANSWERS = [
    ("llmperf_worker_env(plan)", "raise OSError('gone')", "llmperf_worker_env raised OSError: gone"),
    ("llmperf_worker_env(plan)", "return None", "expected names and values of llmperf_worker_env, found NoneType"),
    ("llmperf_worker_env(plan)", "return {'OMP_NUM_THREADS': '1', 'LD_PRELOAD': '/tmp/slow.so'}",
     f"llmperf_worker_env: {LOADER} set it in your shell"),
    ("llmperf_count_flops(model, workload)", "return 5", "expected a FlopCount of llmperf_count_flops, found int"),
    ("llmperf_resources()", "raise OSError('gone')", "llmperf_resources raised OSError: gone"),
    ("llmperf_plan_workers(spec, probe)", "return None",
     "expected a WorkerPlan of llmperf_plan_workers, found NoneType"),
]  # fmt: skip


@pytest.mark.parametrize(("hook", "body", "reason"), BAD_ANSWERS)
def test_a_bad_answer_of_a_plugin_is_an_error_that_names_it(install, ran, hook, body, reason):
    role = "framework" if "workers" in hook else "extension"
    install("llmperf-odd", "odd", ANSWERS.format(hook, body), role=role)
    err = ran(2, "plan", *(["--framework", "odd"] if role == "framework" else [])).err
    assert err.startswith(f"llmperf: {role} 'odd' (llmperf-odd): {reason}")
    assert err.count("\n") == 1


RATE = (
    "from llmperf.types import PeakFlops\n    return PeakFlops(device_model=device_model, dtype=dtype, source='x',"
    " date='2026-01-01', flops_per_second={})"
)
NO_RATE = "llmperf_peak_flops: expected a finite "


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("raise KeyError(dtype)", "llmperf_peak_flops raised KeyError: 'fp32'"),
        ("return 1e12", "expected a PeakFlops of llmperf_peak_flops, found float"),
        *((RATE.format(rate), NO_RATE) for rate in ("0", "-1.0", "float('nan')", "float('inf')")),
    ],
)
def test_a_bad_peak_is_reported_before_a_run_folder_is_made(install, ran, tmp_path, body, reason):
    source = vendor("odd", 1) + "\n" + ANSWERS.format("llmperf_peak_flops(device_model, dtype)", body)
    install("llmperf-odd", "odd", source)
    assert f"vendor 'odd' (llmperf-odd): {reason}" in ran(2, "run", "--vendor", "odd", "--out", tmp_path / "runs").err
    assert not (tmp_path / "runs").exists()


@pytest.mark.slow
def test_output_of_a_plugin_is_in_no_document(install, capsys):
    printing = vendor("loud", 1).replace("    offers =", "    print('asked')\n    offers =") + "\nprint('imported')\n"
    install("llmperf-loud", "loud", printing)
    for words in (["devices", "--json"], ["doctor", "--json"], ["plan", "--vendor", "loud", "--json"]):
        assert call(words) in (0, 1)
        out, err = capsys.readouterr()
        json.loads(out)
        assert "asked\n" in err


@pytest.mark.slow
def test_doctor_reads_the_overlays_of_a_plugin(install, tmp_path, ran):
    (tmp_path / "data" / "overlays").mkdir(parents=True)
    (tmp_path / "data" / "overlays" / "mine.toml").write_text("[when]\nweather = 'fine'\n")
    resources = "@hookimpl\ndef llmperf_resources():\n    return [__file__.rsplit('/', 1)[0] + '/data']\n"
    install("llmperf-acme", "acme", vendor("acme", 1) + resources)
    assert "unknown condition 'weather'" in ran(1, "doctor").out


@pytest.mark.slow
def test_doctor_mends_two_plugins_of_one_name_by_taking_one_away(install, ran):
    install("llmperf-one", "same", vendor("same", 1))
    install("llmperf-two", "same", vendor("same", 1))
    out = ran(1, "doctor").out
    line = f"    mend: {pip_command('uninstall', 'llmperf-one')}  # or: {pip_command('uninstall', 'llmperf-two')}"
    assert out.count(line) == 2  # who does all that is said has one left


def test_more_steps_than_a_file_of_records_can_hold_are_refused(ran):
    assert call(["plan", "--set", f"steps={MOST_STEPS}"]) == 0
    err = ran(2, "run", "--set", f"steps={MOST_STEPS + 1}").err
    assert "contract.steps: expected at most 10000000 steps, which a file of records can hold, found 10000001" in err
    longest = StepRecord(
        rank=99999,
        step=MOST_STEPS,
        measured=False,
        at=1234567890.1234567,
        monotonic=1234567890.1234567,
        step_seconds=1.2345678901234567e-05,
        tokens=10**12,
        loss=None,
        nonfinite="-inf",
        grad_norm=-1.2345678901234567e-100,
        skipped=False,
    )
    assert MOST_STEPS * (len(json_files.encode(longest)) + 1) < MAX_FILE_BYTES


TOO_LARGE = {
    "global_batch=1000000000000":
        "contract.global_batch: expected at most 65536 micro batches in a step; published runs have up to 512; found"
        " 250000000000, which is global batch 1000000000000 / (micro batch 2 x data parallel 2); the nearest"
        " is --set global_batch=262144",
    "gradient_accumulation=1000000000000":
        "tuning.gradient_accumulation: expected at most 65536 micro batches in a step; published runs have up to"
        " 512; found 1000000000000, the nearest is --set gradient_accumulation=65536",
    "micro_batch=1000000000000 global_batch=1000000000001 devices=1":
        "tuning.micro_batch: expected at most 65536 sequences in one forward pass; real runs have one to some"
        " hundred; found 1000000000000, the nearest is --set micro_batch=65536",
    "seq_len=1000000000000":
        "contract.seq_len: expected at most 16777216 tokens in a sequence; the longest published contexts have 10"
        " million; found 1000000000000, the nearest is --set seq_len=16777216",
    "devices=1000000007 sharding_degree=5":
        "tuning.devices: expected at most 1024 ranks on a node; the largest nodes have 576 devices; found"
        " 1000000007, the nearest is --set devices=1024",
    "nodes=1000000007 devices=1 sharding_degree=5":
        "tuning.nodes: expected at most 1048576 ranks, several times the largest clusters; found 1000000007 nodes"
        " x 1 devices = 1000000007, the nearest is 1048576 nodes",
}  # fmt: skip


@pytest.mark.parametrize(("settings", "told"), TOO_LARGE.items())
def test_sizes_that_no_run_has_are_refused_at_once(ran, settings, told):
    began = time.monotonic()
    assert f"  {told} [value_too_large]\n" in ran(2, "run", *(f"--set={each}" for each in settings.split())).err
    assert time.monotonic() - began < 60


def test_the_published_13b_row_of_307_s_a_step_has_time_for_its_first_step():
    plan = ready(plan_run(Selection("llama1_13b_pretrain_paddle"), Site(on="A100-SXM4-80GB:1x8"))).plan
    assert plan.batch.tokens_per_step == 2048 * 2048
    assert 3 * 307 < plan.slow_step_seconds < 3600
    assert plan.first_step_seconds == plan.slow_step_seconds > plan.startup_seconds


@pytest.mark.parametrize(("name", "value", "nearest"), [("pipeline_schedule", "zero_bubble", "1f1b"),
                                                        ("virtual_stages", "2", "1")])  # fmt: skip
def test_a_setting_that_the_framework_does_not_list_is_refused(name, value, nearest):
    found = plan_run(Selection("llama2_7b_lora", settings=(f"{name}={value}",)), Site(vendor="cpu", devices=1)).problems
    (problem,) = [problem for problem in found if problem.code == "setting_not_supported"]
    assert problem.where == f"tuning.{name}"
    assert f"nearest: --set {name}={nearest}" in problem.message


def test_fewer_accelerators_than_the_case_asks_for_are_used(install):
    install("llmperf-acme", "acme", vendor("acme", 1))
    sketch = plan_run(Selection("default"))
    assert sketch.problems == ()
    assert sketch.spec.tuning.devices == 1
    assert sketch.spec.tuning.gradient_accumulation == 2
    assert not sketch.spec.variant


def test_more_accelerators_than_there_are_cannot_be_had(install):
    install("llmperf-acme", "acme", vendor("acme", 2))
    (problem,) = plan_run(Selection("default", settings=("micro_batch=1",)), Site(devices=4)).problems
    assert problem.message == "4 devices asked for, 2 here; nearest: --devices 2"


def test_devices_of_several_models_are_not_measured_together(install):
    mixed = vendor("acme", 4).replace('model="Acme A1"', 'model=f"Acme A{1 + i // 3}"')
    install("llmperf-acme", "acme", mixed)
    assert plan_run(Selection("default"), Site(devices=2)).problems == ()
    (problem,) = plan_run(Selection("default", settings=("micro_batch=1",)), Site(devices=4)).problems
    assert problem.message.endswith("the first 4 are Acme A1, Acme A2; nearest: --devices 3")


@pytest.mark.parametrize(
    ("threads", "message"),
    [
        ("'64'", "extension:extra and vendor:cpu disagree on OMP_NUM_THREADS: '64' against"),
        ("64", "extension:extra sets OMP_NUM_THREADS to 64; expected text"),
    ],
)
def test_a_variable_that_ranks_cannot_have_names_its_plugins(install, threads, message):
    source = ANSWERS.format("llmperf_worker_env(plan)", f"return {{'OMP_NUM_THREADS': {threads}}}")
    install("llmperf-extra", "extra", source, role="extension")
    with pytest.raises(PluginError, match=message):
        ready(plan_run(Selection("default")))


PROBE = Probe(
    vendor="acme",
    devices=(DeviceInfo(index=0, model="Acme A1", memory_bytes=2**34),),
    offers=Offers(precisions=("fp32",), runtimes=("torch",), collective_backend="gloo"),
)


def test_needs_against_offers():
    assert need_problems(Needs(precision="fp32", runtime="torch"), PROBE, "zero") == []
    problems = need_problems(Needs(precision="fp32", runtime="paddle", features=("flash_attention",)), PROBE, "paddle")
    assert [problem.where for problem in problems] == ["tuning.framework", "tuning"]


def test_a_divisible_host_is_shared_out():
    sketch = ready(plan_run(Selection("default", settings=("micro_batch=1",)), Site(vendor="cpu", devices=4)))
    assert sketch.problems == ()
    plan = sketch.plan
    assert plan.device_share == 0.25
    if plan.peak is None:
        pytest.skip(str(plan.peak_problem))
    assert plan.rank_peak_flops == pytest.approx(plan.peak.flops_per_second / 4)
    assert plan.peak.confidence == "measured"
    assert "measured on this host" in plan.peak.source


def test_names_of_devices_are_compared_whole():
    assert normalised("NVIDIA_A100-SXM4-40GB", "nvidia") == normalised("a100 sxm4 40gb", "nvidia")
    machine = machine_elsewhere("H800:2x8", None)
    assert (machine.nodes, len(machine.probe.devices), machine.here) == (2, 8, False)
    with pytest.raises(UserError, match="unknown device model 'A100'"):
        machine_elsewhere("A100:1x8", None)
    with pytest.raises(UserError, match="unknown device model 'A1'; the vendors asked have no device"):
        machine_elsewhere("A1:1x8", "cpu")


def test_an_unknown_device_names_the_vendors_that_are_not_installed(ran, capsys, monkeypatch):
    monkeypatch.setattr("llmperf.planning.vendors.names", lambda role: ["cpu", "rocm"])
    assert call(["plan", "default", "--on", "H800:2x8"]) == 2
    missing = "vendors not installed: llmperf-ascend, llmperf-kunlunxin, llmperf-nvidia (`llmperf doctor` shows how"
    assert missing in capsys.readouterr().err
    assert "not installed" not in ran(2, "plan", "default", "--on", "H800:2x8", "--vendor", "rocm").err
    assert "not installed" not in ran(2, "plan", "default", "--on", "MI300:2x8").err


def test_an_unknown_device_has_no_peak_and_says_so(install):
    install("llmperf-acme", "acme", vendor("acme", 2))
    plan = ready(plan_run(Selection("default"))).plan
    assert plan.peak_problem == "acme gives no fp32 peak for 'Acme A1': its plugin lacks one with a source"


def test_a_vendor_may_say_why_there_is_no_peak(install, capsys):
    source = vendor("acme", 2) + "\n" + ANSWERS.format("llmperf_peak_flops(device_model, dtype)", "return 'too\\nbusy'")
    install("llmperf-acme", "acme", source)
    call(["plan", "default", "--vendor", "acme"])
    assert "unknown, so MFU will be null: too busy" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("empty", "told"),
    [
        (["--framework", ""], "tuning.framework: unknown framework ''; expected one of: "),
        (["--set", "framework="], "tuning.framework: unknown framework ''; expected one of: "),
        (["--vendor", ""], "unknown vendor ''; expected one of: "),
        (["--vendor", "", "--on", "A1:1x8"], "unknown vendor ''; expected one of: "),
        (["--set", "model="], "''"),
        (["--on", ""], "expected MODEL:NODESxDEVICES"),
    ],
)
def test_an_empty_name_is_an_unknown_one(empty, told, ran):
    shown = ran(2, "plan", *empty)
    assert told in shown.out + shown.err


def test_run_ids_are_plain_folder_names():
    name = run_id("../../etc/passwd case", "cpu", "zero")
    assert "/" not in name
    assert " " not in name
    assert run_id("a", "b", "c") != run_id("a", "b", "c")


@pytest.mark.slow
def test_doctor_runs_the_checks_of_a_plugin(install, ran):
    install(
        "llmperf-needy",
        "needy",
        "import llmperf\n"
        "from llmperf.types import HostCheck, Facts\n"
        "@llmperf.hookimpl\n"
        "def llmperf_facts():\n"
        "    missing = HostCheck(subject='needy tool', problem=lambda: 'no such tool', mend='apt-get install tool')\n"
        "    raising = HostCheck(subject='other tool', problem=lambda: 1 / 0)\n"
        "    there = HostCheck(subject='present tool', problem=lambda: None)\n"
        "    return Facts(host_checks=(there, missing, raising))\n",
        role="extension",
    )
    output = ran(1, "doctor").out
    assert "--  needy tool: no such tool\n    mend: apt-get install tool" in output
    assert "!!  extension needy: extension 'needy' (llmperf-needy): host check 'other tool' raised ZeroDiv" in output
    assert "present tool" not in output


def test_a_plan_for_many_devices_is_small_and_quick():
    many = Selection("llama2_7b_pretrain_zero", settings=("global_batch=16384", "steps=1000000"))
    ready(plan_run(many, Site(on="H800:1x8")))  # imports
    began = time.process_time()
    plan = ready(plan_run(many, Site(on="H800:2048x8"))).plan
    assert time.process_time() - began < 5.0  # with work for each device it takes minutes
    assert plan.layout.world_size == 16384
    assert len(json_files.encode(plan)) < 2**20
