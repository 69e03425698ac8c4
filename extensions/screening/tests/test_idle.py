"""`--wait-until-idle`: a run starts on an idle machine, or not at all."""

import os
from contextlib import nullcontext
from pathlib import Path

import llmperf
import pytest
from llmperf.cli.main import call
from llmperf.plugins.loading import load_for
from llmperf.running.launched import run_plan, save_result
from llmperf.types.hosts import BusyProgram, LoadBefore
from llmperf.validation.catalogue import Catalogue
from llmperf.validation.check import findings
from llmperf_screening import idle
from llmperf_screening.idle import StillBusy, ready_by, wait

IDLE = LoadBefore(other_cpu_share=0.01)
BUSY = LoadBefore(other_cpu_share=0.5, programs=(BusyProgram(name="cc1plus", cpu_share=0.45),))
TEXT = "the machine is busy: other processes use 50 % of the cores (cc1plus 45 %)"


def looks(*loads):
    """Looks with these outcomes, one after the other; the last one again and again."""
    left = list(loads)
    return lambda *_: left.pop(0) if len(left) > 1 else left[0]


def test_the_machine_must_be_idle_three_times_in_a_row():
    shown = []
    quiet, busy = {"": IDLE}, {"": BUSY}
    wait(looks(busy, quiet, quiet, busy, quiet), 60.0, lambda text, _: shown.append(text))
    assert shown == [TEXT, "idle for the moment", "idle for the moment", TEXT, *["idle for the moment"] * 2]


def test_a_machine_that_stays_busy_is_given_up_in_one_line_with_its_nodes():
    with pytest.raises(StillBusy) as raised:
        wait(looks({"": BUSY}), 0.0, lambda *_: None)
    assert str(raised.value) == f"--wait-until-idle: not idle within 0 min; {TEXT}"
    assert raised.value.exit_code == 2
    with pytest.raises(StillBusy, match=r"node b: the machine is busy: .* and on 1 more node$"):
        wait(looks({"a": IDLE, "b": BUSY, "c": BUSY}), 0.0, lambda *_: None)


def test_what_is_in_the_way_is_shown_once_a_minute(monkeypatch, capsys):
    def waited(look, seconds, show):
        for seconds in (2.0, 4.0, 60.0, 62.0):
            show(TEXT, seconds)

    monkeypatch.setattr(idle, "wait", waited)
    monkeypatch.setattr(llmperf, "host_loads", lambda *_: nullcontext())
    ready_by(30.0)(None)
    assert capsys.readouterr().err == "".join(
        f"waiting until idle, {time} of 30 min: {TEXT}\n" for time in ("2 s", "1 min 2 s")
    )


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["default"], "'default'"),
        (["0"], "x>0"),
        (["-1"], "-1"),
        (["nan"], "number of minutes"),
    ],
)
def test_the_time_is_a_number_of_minutes(words, why, ran):
    (line,) = ran(2, "run", "--wait-until-idle", *words).err.splitlines()
    assert why in line


RUN = ["run", "default", "--vendor", "stub", "--framework", "stub", "--set", "model=llama_tiny", "--set", "seq_len=16",
       "--set", "steps=6", "--set", "warmup_steps=2", "--set", "micro_batch=1"]  # fmt: skip


@pytest.mark.slow
def test_a_run_starts_when_the_machine_is_idle(stub_site, tmp_path, monkeypatch, ran):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(llmperf, "busy_text", looks("the machine is busy: a test", None))
    monkeypatch.setattr(idle, "LOOK_SECONDS", 0.01)
    assert "waiting until idle, 0 s of 30 min: the machine is busy: a test\n" in ran(0, *RUN, "--wait-until-idle").err


@pytest.mark.slow
def test_a_matrix_stops_at_a_busy_machine_and_can_be_continued(stub_site, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(idle, "LOOK_SECONDS", 0.01)
    Path("m.toml").write_text(
        'cases = ["default"]\nvendors = ["stub"]\nframeworks = ["stub"]\nrepeats = 2\n[settings]\n'
        "model = 'llama_tiny'\nseq_len = 16\nsteps = 6\nwarmup_steps = 2\nmicro_batch = 1\n"
    )
    busy = ["the machine is busy: a test"]
    monkeypatch.setattr(llmperf, "busy_text", lambda _: busy[0])
    assert call(["run", "--matrix", "m.toml", "--wait-until-idle", "0.0001"]) == 2
    assert "not idle within 0.0001 min; the machine is busy: a test" in capsys.readouterr().err
    assert not list(Path("runs").glob("m/runs/*"))
    busy[0] = None
    assert call(["run", "--matrix", "m.toml", "--wait-until-idle", "5", "--resume"]) == 0
    assert len(list(Path("runs").glob("m/runs/*/result.json"))) == 2


@pytest.mark.slow
def test_a_module_that_the_interpreter_imports_by_itself_is_named_and_warned_of(stub_plan, tmp_path, monkeypatch):
    (tmp_path / "site").mkdir()
    custom = tmp_path / "site" / "sitecustomize.py"
    custom.write_text("")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(custom.parent), os.environ["PYTHONPATH"]]))
    monkeypatch.setenv("STUB_TOKEN", "a-secret-of-the-user")
    result = run_plan(stub_plan(steps=6, ranks=2), tmp_path / "run", load_for("stub", "stub"), save_result)
    assert result.software.startup_modules == {"sitecustomize": str(custom)}
    found = [one for one in findings("result", result, Catalogue(load_for("stub", "stub"))) if one.code == "LP655"]
    assert [(one.severity, one.path) for one in found] == [
        ("warning", "/software/environment/PYTHONPATH"),
        ("warning", "/software/startup_modules/sitecustomize"),
    ]
    assert "a-secret-of-the-user" not in (tmp_path / "run" / "result.json").read_text()
