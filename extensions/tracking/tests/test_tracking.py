"""What is logged is read back by each tool's own library."""

import builtins
import struct
import sys

import pytest
from llmperf.cli.main import call
from llmperf.errors import UserError
from llmperf.files import json_files
from llmperf.plugins.loading import load_for
from llmperf.running.launched import run_plan, save_result
from llmperf.running.observers import Observers
from llmperf.types import Progress, Result, StepProgress
from llmperf_tracking.logs import opened_logs
from llmperf_tracking.run_log import hyperparameters

STEPS = [
    StepProgress(step=step, measured=step > 1, loss=4.0 - step / 8, step_seconds=0.5, tokens_per_second_per_device=2e3)
    for step in (1, 2, 3)
]
PROGRESS = Progress(
    phase="measuring", step=3, steps=3, loss=3.5, tokens_per_second_per_device=2e3, mfu=0.25,
    memory_used_bytes=2**30, seconds_left=0.0,
)  # fmt: skip


@pytest.fixture
def followed(stub_plan, run_folder):
    """A function that lets a logger follow a run, without ranks; it gives the run's plan and result."""
    result = json_files.load(run_folder / "result.json", Result)

    def follow(log, ended=True):
        plan = stub_plan(ranks=2)
        ((_, observer),) = opened_logs([log])
        observer.started(plan, run_folder)
        observer.progress(PROGRESS)
        observer.steps(STEPS[:2])
        observer.steps(STEPS[2:])
        if ended:
            observer.ended(result, run_folder)
        return plan, result

    return follow


def test_tensorboard_shows_steps_hyperparameters_and_the_result(followed, tmp_path):
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
    from tensorboard.plugins.hparams.plugin_data_pb2 import HParamsPluginData

    plan, result = followed(f"tensorboard={tmp_path / 'boards'}")
    events = EventAccumulator(str(tmp_path / "boards" / plan.run_id))
    events.Reload()
    assert [(event.step, event.value) for event in events.Scalars("train/loss")] == [(1, 3.875), (2, 3.75), (3, 3.625)]
    assert [event.step for event in events.Scalars("train/device_memory_used_bytes")] == [2, 3]
    (final,) = events.Scalars("result/tokens_per_second_per_device")
    assert final.step == 3
    assert final.value == pytest.approx(result.metrics.tokens_per_second_per_device)
    metadata = events.SummaryMetadata("_hparams_/session_start_info")
    started = HParamsPluginData.FromString(metadata.plugin_data.content).session_start_info
    assert started.hparams["micro_batch"].number_value == plan.spec.tuning.micro_batch
    assert started.hparams["model"].string_value == plan.spec.contract.model


@pytest.mark.slow  # the import of mlflow
def test_mlflow_has_a_finished_run_with_steps_and_hyperparameters(followed, tmp_path):
    pytest.importorskip("mlflow")
    plan, result = followed(f"mlflow={tmp_path / 'mlruns'}")
    from mlflow.tracking import MlflowClient

    client = MlflowClient(tracking_uri=(tmp_path / "mlruns").as_uri())
    experiment = client.get_experiment_by_name("llmperf")
    (run,) = client.search_runs([experiment.experiment_id])
    assert (run.info.run_name, run.info.status) == (plan.run_id, "FINISHED")
    assert run.data.params["framework"] == plan.spec.tuning.framework
    assert run.data.params["optimizer.name"] == plan.spec.contract.optimizer.name
    losses = client.get_metric_history(run.info.run_id, "loss")
    assert [(metric.step, metric.value) for metric in losses] == [(1, 3.875), (2, 3.75), (3, 3.625)]
    exact = result.metrics.tokens_per_second_per_device
    assert run.data.metrics["result/tokens_per_second_per_device"] == exact


def log_entries(data):
    """The entries of an offline run: `:W&B`, then a log of LevelDB: chunks of a checksum, a length, a type and data."""
    assert data.startswith(b":W&B")
    place, whole = 7, b""
    while place < len(data):
        left = 2**15 - place % 2**15
        if left < 7:
            place += left
            continue
        _, length, kind = struct.unpack("<IHB", data[place : place + 7])
        whole += data[place + 7 : place + 7 + length]
        place += 7 + length
        if kind in (1, 4):  # full, or last of several
            yield whole
            whole = b""


@pytest.mark.slow  # starts the service of wandb
def test_wandb_keeps_an_offline_run(followed, tmp_path):
    wandb = pytest.importorskip("wandb")
    from wandb.proto.wandb_internal_pb2 import Record

    plan, result = followed(f"wandb={tmp_path / 'boards'}")
    wandb.teardown()
    (file,) = (tmp_path / "boards" / "wandb").glob(f"offline-run-*/run-{plan.run_id}.wandb")
    records = [Record.FromString(data) for data in log_entries(file.read_bytes())]
    losses = [
        float(item.value_json)
        for record in records
        if record.WhichOneof("record_type") == "history"
        for item in record.history.item
        if "loss" in (item.key, *item.nested_key)
    ]
    assert losses == [3.875, 3.75, 3.625]
    config = {
        item.key: item.value_json
        for record in records
        if record.WhichOneof("record_type") == "run"
        for item in record.run.config.update
    }
    assert config["micro_batch"] == str(plan.spec.tuning.micro_batch)
    exact = repr(result.metrics.tokens_per_second_per_device)
    assert any(exact in str(record) for record in records if record.WhichOneof("record_type") == "summary")


def samples(text):
    """The samples of an OpenMetrics text by name; the parser of node exporters reads it too."""
    pytest.importorskip("prometheus_client")
    from prometheus_client.openmetrics.parser import text_string_to_metric_families as openmetrics
    from prometheus_client.parser import text_string_to_metric_families as prometheus

    families = list(openmetrics(text))
    known = {(sample.name, tuple(sample.labels.items())): sample.value for one in families for sample in one.samples}
    others = [sample for family in prometheus(text) for sample in family.samples]
    assert {(sample.name, tuple(sample.labels.items())): sample.value for sample in others} == known
    return {(name, dict(labels).get("state")): value for (name, labels), value in known.items()}


def test_openmetrics_has_the_present_figures_then_the_result(followed, tmp_path):
    file = tmp_path / "llmperf.prom"
    followed(f"openmetrics={file}", ended=False)
    present = samples(file.read_text())
    assert present["llmperf_step", None] == 3
    assert present["llmperf_loss", None] == 3.625
    assert present["llmperf_mfu_nominal", None] == 0.25
    assert present["llmperf_run_state", "running"] == 1
    _, result = followed(f"openmetrics={file}")
    text = file.read_text()
    assert text.endswith("\n# EOF\n")
    known = samples(text)
    assert known["llmperf_run_state", "complete"] == 1
    assert known["llmperf_run_state", "running"] == 0
    exact = result.metrics.tokens_per_second_per_device
    assert known["llmperf_result_tokens_per_second_per_device", None] == exact
    assert [path.name for path in tmp_path.glob("*.prom*")] == ["llmperf.prom"]


def test_labels_with_quotes_and_lines_are_escaped(stub_plan, tmp_path, run_folder):
    from llmperf_tracking.openmetrics_sink import OpenMetricsSink

    sink = OpenMetricsSink(tmp_path / "odd.prom")
    sink.begin('a"b\\c\nd', {"case": "x"})
    assert samples((tmp_path / "odd.prom").read_text())["llmperf_run_info", None] == 1


@pytest.mark.slow
def test_a_run_is_followed_from_its_start_to_its_end(stub_plan, tmp_path):
    plan, plugins, warnings = stub_plan(ranks=2, steps=6), load_for("stub", "stub"), []
    file = tmp_path / "llmperf.prom"
    observers = Observers(plugins, warnings.append, opened_logs([f"openmetrics={file}"]))
    result = run_plan(plan, tmp_path / "run", plugins, save_result, observers, warnings.append)
    observers.ended(result, tmp_path / "run")
    known = samples(file.read_text())
    assert not any("dropped" in line for line in warnings)
    assert known["llmperf_step", None] == 6
    assert known["llmperf_loss", None] == result.metrics.final_loss


def test_hyperparameters_have_no_paths_of_this_machine(stub_plan):
    named = hyperparameters(stub_plan())
    assert {"case", "model", "framework", "device", "seq_len", "global_batch", "seed", "optimizer.name"} <= set(named)
    assert not any(name.startswith(("data.", "path")) for name in named)


@pytest.mark.parametrize(
    ("log", "message"),
    [
        ("tensorbord=x", "--log: unknown logger 'tensorbord'; did you mean 'tensorboard'?"),
        ("openmetrics", "--log: expected openmetrics=FILE, found 'openmetrics'"),
        ("openmetrics=.", "expected a file, found a folder"),
        ("openmetrics=taken/file.prom", "expected a folder that can be written: File exists"),
        ("mlflow=taken", "expected a folder that can be written: File exists"),
    ],
)
def test_a_log_that_cannot_be_opened_is_one_line(log, message, tmp_path, monkeypatch, ran):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "taken").write_text("")
    error = ran(2, "run", "--log", log).err
    assert message in error
    assert error.count("\n") == 1


def test_a_dry_run_refuses_an_unknown_logger_and_opens_none(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert call(["run", "default", "--dry-run", "--log", "foo=x"]) == 2
    assert capsys.readouterr().err.startswith("llmperf: --log: unknown logger 'foo'; ")
    assert call(["run", "default", "--vendor", "cpu", "--dry-run", "--log", "tensorboard=logs"]) == 0
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["tensorboard", "wandb"])
def test_a_missing_library_is_named_with_its_install_command(name, tmp_path, monkeypatch):
    real = builtins.__import__

    def importing(module, *rest, **named):
        if module.split(".")[0] == name:
            raise ImportError(f"No module named {module!r}")
        return real(module, *rest, **named)

    monkeypatch.delitem(sys.modules, f"llmperf_tracking.{name}_sink", raising=False)
    monkeypatch.setattr(builtins, "__import__", importing)
    with pytest.raises(UserError, match=f"--log {name}: .*pip install {name}"):
        opened_logs([f"{name}={tmp_path}"])
