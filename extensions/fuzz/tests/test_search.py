"""Draws, comparison and shrinking with a made-up trainer whose fault is known."""

import json
import os
import random
import re
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from llmperf.errors import UserError
from llmperf.types import Case
from llmperf_fuzz.cases import NAME, case_of, options_of, templates
from llmperf_fuzz.drawing import Space
from llmperf_fuzz.search import Search
from llmperf_fuzz.trials import Trained, compared

MODELS = {"llama": False, "qwen": False, "mixtral": True}
SPACE = Space.of(MODELS, 4, {})
SIMPLEST = SPACE.fitted({path: values[0] for path, values in SPACE.values.items()})
FIGURES = Trained(losses=(6.0, 5.5, 5.0, 4.5), norms=(1.0, 1.0, 1.0, 1.0))


def trainer(faults, refused=lambda chosen: (), first=2, runs=None):
    """Compares figures that are wrong from a step on where all settings of one of the faults are chosen."""

    def compare(chosen, seed, fresh=False):
        if paths := refused(chosen):
            return paths
        if runs is not None:
            runs.append(chosen)
        steps, wrong = chosen["contract.steps"], any(fault.items() <= chosen.items() for fault in faults)
        losses = [loss + 0.01 * (wrong and step >= first) for step, loss in enumerate(FIGURES.losses[:steps], 1)]
        return compared(Trained(losses=tuple(losses), norms=FIGURES.norms[:steps]), FIGURES)

    return compare


def search_of(compare, seed=0, space=SPACE):
    return Search(space=space, compare=compare, seed=seed)


@st.composite
def faults(draw):
    """Settings without which the fault does not show, as fitted ones are."""
    paths = draw(st.lists(st.sampled_from([*SPACE.values]), min_size=1, max_size=4, unique=True))
    drawn = {path: draw(st.sampled_from(SPACE.values[path])) for path in paths if path != "contract.steps"}
    return SPACE.departures(SPACE.fitted({**SIMPLEST, **drawn}))


@given(faults(), st.integers(0, 10**6))
@settings(max_examples=60, deadline=None)
def test_a_fault_is_shrunk_to_the_settings_that_it_needs(fault, number):
    drawn = SPACE.draw(random.Random(number))
    search = search_of(trainer([fault]))
    first = SPACE.fitted({**drawn, **fault})
    if not fault.items() <= first.items():  # the draw leaves a setting of the fault without effect
        return
    search._judge(first, 7, search.compare(first, 7), float("inf"))
    (found,) = search.found
    assert found.departures == fault
    assert (found.outcome.step, found.settings["contract.steps"], found.smallest) == (2, 2, True)


@given(st.integers(0, 10**6))
def test_draws_follow_their_seed_and_divide_the_ranks(number):
    drawn = SPACE.draw(random.Random(number))
    assert drawn == SPACE.draw(random.Random(number)) == SPACE.fitted(drawn)
    assert all(drawn[path] in values for path, values in SPACE.values.items())
    ways = [drawn[f"tuning.{name}_parallel"] for name in ("tensor", "pipeline", "context")]
    assert drawn["tuning.devices"] % (ways[0] * ways[1] * ways[2]) == 0
    assert drawn["model"] in ("mixtral",) or drawn["tuning.expert_parallel"] == 1


def test_two_faults_are_two_findings_and_neither_is_run_again():
    faults, runs = [{"tuning.tensor_parallel": 2}, {"tuning.sharding_stage": 3}], []
    search = search_of(trainer(faults, runs=runs))
    [*search.run(600, cases=80)]
    assert sorted(list(found.departures.items()) for found in search.found) == [
        [("tuning.sharding_stage", 3)],
        [("tuning.tensor_parallel", 2)],
    ]
    assert search.repeated > 0
    assert search.cases == 80
    again = search_of(trainer(faults))
    [*again.run(600, cases=80)]
    assert [found.settings for found in again.found] == [found.settings for found in search.found]
    assert len([*zip(range(1), search_of(trainer(faults)).run(600), strict=False)]) == 1


def test_fixed_settings_keep_their_values_also_while_shrinking():
    space = Space.of(MODELS, 4, {"tuning.tensor_parallel": 2, "model.layers": 4, "contract.steps": 3})
    search = search_of(trainer([{"tuning.gradient_accumulation": 3}]), space=space)
    small = next(search.run(600)).settings
    assert (small["tuning.tensor_parallel"], small["model.layers"], small["contract.steps"]) == (2, 4, 2)
    assert search.found[0].departures == {"tuning.gradient_accumulation": 3}


def test_settings_for_which_a_plan_is_refused_become_simple_and_models_are_given_up():
    def refused(chosen):
        if chosen["model"] == "qwen":
            return ("model.family",)
        return ("tuning.sharding_stage",) if chosen["tuning.sharding_stage"] == 3 else ()

    runs = []
    search = search_of(trainer([], refused, runs=runs))
    [*search.run(600, cases=100)]
    assert search.refused > 0
    assert all(chosen["model"] != "qwen" and chosen["tuning.sharding_stage"] != 3 for chosen in runs)
    assert search.space.values["model"] == ("llama", "mixtral")
    assert (search.found, search.by_chance, search.largest_share) == ([], [], 0.0)
    with pytest.raises(UserError, match="none of 400 random cases can run"):
        [*search_of(trainer([], lambda chosen: ("model.family",))).run(600)]


def test_a_difference_of_one_seed_alone_is_no_finding():
    wrong, right = trainer([{}]), trainer([])
    search = search_of(lambda chosen, seed, fresh: (wrong if seed % 2 else right)(chosen, seed))
    assert [*search.run(600, cases=20)] == []
    assert search.found == []
    assert search.by_chance


def test_limits_grow_with_steps_and_failures_are_told_apart():
    near = Trained(losses=(6.000006, 5.50003, 5.0, 4.5), norms=(1.00003, 1.0001, 1.0, 1.0))
    assert compared(near, FIGURES).summary == ""
    assert 0.5 < compared(near, FIGURES).share < 1
    far = compared(Trained(losses=FIGURES.losses, norms=(1.0001, 1.0, 1.0, 1.0)), FIGURES)
    assert (far.step, far.summary) == (1, "the gradient norm of step 1 differs")
    assert compared(Trained(losses=(6.0, float("nan")), norms=(1.0, 1.0)), FIGURES).step == 2
    assert compared(Trained(losses=FIGURES.losses, norms=(None,) * 4), FIGURES).summary == ""
    assert compared(Trained(losses=FIGURES.losses, norms=(1.01, 1.0, 1.0, 1.0)), FIGURES, "bf16").summary == ""
    memory, value = (compared(Trained(error=f"{name}: x"), FIGURES) for name in ("MemoryError", "ValueError"))
    assert memory.summary == "the layout fails with MemoryError"
    assert (memory.like(value), memory.like(memory), memory.like(far), far.like(far)) == (False, True, False, True)


def test_an_interruption_keeps_the_case_that_is_being_made_smaller():
    compare, runs = trainer([{"tuning.gradient_accumulation": 3}]), []

    def interrupted(chosen, seed, fresh=False):
        runs.append(chosen)
        if len(runs) > 1 and chosen["tuning.gradient_accumulation"] == 3 and chosen["contract.steps"] == 2:
            raise KeyboardInterrupt
        return compare(chosen, seed)

    search = search_of(interrupted)
    (found,) = search.run(600)
    assert search.interrupted
    assert found.departures["tuning.gradient_accumulation"] == 3
    assert not found.smallest


ROOT = Path(__file__).parents[3]


def fuzz(*words, code, **variables):
    command = [sys.executable, "-m", "llmperf", "fuzz", *words]
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, **variables})
    assert done.returncode == code, done.stdout + done.stderr
    return done


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--framework", "pytroch"), "unknown framework 'pytroch'"),
        (("--framework", "pytorch", "--set", "tensor_paralel=2"), "did you mean"),
        (("--framework", "pytorch", "--set", "tensor_parallel"), "expected path=value"),
        (("--framework", "pytorch", "--set", "devices=4"), "--set tuning.devices: expected a setting of"),
        (("--framework", "pytorch", "--set", "model=qwen4_tiny"), "qwen4_tiny"),
        (("--framework", "pytorch", "--devices", "1"), "--devices"),
    ],
)
def test_wrong_words_end_with_2_and_one_line(words, message, tmp_path):
    assert message in fuzz(*words, "--out", str(tmp_path / "out"), code=2).stderr


def test_a_folder_with_files_is_not_touched(tmp_path):
    (tmp_path / "notes").write_text("")
    done = fuzz("--framework", "pytorch", "--out", str(tmp_path), code=2)
    assert "expected a new or empty folder" in done.stderr


def test_every_family_has_a_small_model_and_commands_have_what_departs_from_defaults():
    models = templates()
    assert {"llama", "qwen3", "mixtral", "qwen3_moe", "gemma3", "deepseek_v3"} <= {
        one.family for one in models.values()
    }
    space = Space.of({name: model.mixture is not None for name, model in models.items()}, 2, {})
    simplest = {path: values[0] for path, values in space.values.items()}
    for name, template in models.items():
        settings = space.fitted({**simplest, "model": name, "tuning.tensor_parallel": 2, "tuning.micro_batch": 3})
        drawn = case_of(settings, template, "megatron_core", "zero", 5)
        assert drawn.model.family == template.family
        assert drawn.model.nominal_parameters < 400_000
        assert isinstance(drawn.alone, Case)
        assert (drawn.alone.tuning.devices, drawn.alone.tuning.micro_batch) == (1, 3)
        words = options_of(drawn.layout, f"{NAME}.toml")
        assert words[:6] == ["run", "default", "--framework", "megatron_core", "--devices", "2"]
        assert {"model=fuzzed.toml", "tensor_parallel=2", "micro_batch=3", "seed=5", "sharding_stage=0"} <= set(words)


@pytest.mark.slow
def test_layouts_of_pytorch_train_like_one_rank(tmp_path):
    words = ("--framework", "pytorch", "--devices", "2", "--cases", "4", "--json", "--out", str(tmp_path / "out"))
    document = json.loads(fuzz(*words, code=0).stdout)
    assert (document["cases"], document["findings"], document["by_chance"]) == (4, [], [])
    assert 0 < document["largest_share_of_limit"] < 1


@pytest.mark.slow
def test_a_fault_is_shown_by_the_commands_of_its_report(tmp_path):
    (tmp_path / "sitecustomize.py").write_text(
        "import sys\n"
        "if {'llmperf_fuzz.rank_server', 'llmperf.measuring.worker'} & {*sys.orig_argv}:\n"
        "    from llmperf_pytorch.ddp import DdpTrainer\n"
        "    plain = DdpTrainer._synchronised\n"
        "    DdpTrainer._synchronised = lambda trainer, last: plain(trainer, False)  # no reduction over ranks\n"
    )
    out = tmp_path / "out"
    words = ("--framework", "pytorch", "--set", "sharding_stage=0", "--findings", "1", "--out", str(out))
    done = fuzz(*words, code=1, PYTHONPATH=str(tmp_path))
    assert "the gradient norm of step 1 differs" in done.stdout
    report = (out / "finding-1" / "report.md").read_text()
    assert "The figures are those of these commands." in report
    assert re.search(r"Versions: .*torch 2", report)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_seeded_faults_of_other_trainers_are_found():
    program = ROOT / "benchmarks" / "seeded_faults.py"
    command = [sys.executable, str(program), "--only", "accumulation", "--seconds", "200"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "| the gradient norm of step 1 differs | tuning.gradient_accumulation=" in done.stdout
