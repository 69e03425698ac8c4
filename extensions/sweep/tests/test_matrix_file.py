"""Matrix files: what they may say, and the cells that follow."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from llmperf.cases.settings import from_command_line, setting_text
from llmperf.cli.main import call
from llmperf.errors import Refused, UserError
from llmperf.planning.states import Request, Selection
from llmperf.running.measure import Series
from llmperf.types import RunChoice
from llmperf_sweep.efficiency import Measured, ratio_interval, scaling_document, t_quantile
from llmperf_sweep.matrix_file import MOST_CELLS, read_matrix
from llmperf_sweep.matrix_runs import runs_of
from llmperf_sweep.scaling_runs import parse_scale, scaling_runs


def written(folder, text):
    path = folder / "sweep.toml"
    path.write_text(text)
    return path


def cells(folder, text):
    """The values of each cell: case, framework, devices, settings."""
    found = read_matrix(written(folder, text)).cells
    return [(cell.case, cell.framework, cell.devices, dict(cell.settings)) for cell in found]


def test_every_combination_is_a_cell(tmp_path):
    text = 'frameworks = ["zero", "pytorch"]\ndevices = 2\n[settings]\nmicro_batch = [1, 2]\ncontract.steps = 9\n'
    assert cells(tmp_path, text) == [
        ("default", framework, 2, {"contract.steps": 9, "tuning.micro_batch": size})
        for framework in ("zero", "pytorch")
        for size in (1, 2)
    ]


def test_exclude_and_include(tmp_path):
    text = """
        frameworks = ["zero", "pytorch"]
        exclude = [{ framework = "zero", micro_batch = [1, 2] }, { framework = "pytorch", "tuning.micro_batch" = 4 }]
        include = [{ framework = "zero", devices = 2, micro_batch = 8 }, { framework = "zero", micro_batch = 4 }]
        [settings]
        micro_batch = [1, 2, 4]
    """
    assert cells(tmp_path, text) == [
        ("default", "zero", None, {"tuning.micro_batch": 4}),
        ("default", "pytorch", None, {"tuning.micro_batch": 1}),
        ("default", "pytorch", None, {"tuning.micro_batch": 2}),
        ("default", "zero", 2, {"tuning.micro_batch": 8}),
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("repeat = 3", "unknown key 'repeat'; did you mean 'repeats'?"),
        ("repeats = '2'", "repeats: expected a whole number, found '2'"),
        ("order = 'random'", "order: expected one of cheapest, file, found 'random'"),
        ("repeats = 0", "repeats: expected at least 1, found 0"),
        ('cases = ["defualt"]', "cases: unknown case 'defualt'; did you mean 'default'?"),
        ("cases = []", "cases: expected at least one, found an empty list"),
        ("devices = [1, 2, 1]", "devices: 1 is there twice"),
        ("devices = [0]", "devices"),
        ("[settings]\nmicro_bach = 1", "settings: unknown path 'micro_bach'; did you mean"),
        ('[settings]\nmicro_batch = ["a"]', "tuning.micro_batch: expected a whole number, found 'a'"),
        ("[settings]\nmicro_batch = []", "settings.micro_batch: expected at least one value, found an empty list"),
        ('[settings]\nmicro_batch = 1\n"tuning.micro_batch" = 2', "tuning.micro_batch is there twice"),
        ("[settings]\ndevices = [1, 2]", "devices: expected under 'devices', outside of settings"),
        ("exclude = [{ framework = 'zero' }]", "exclude[0]: unknown axis 'framework'"),
        ("exclude = [{}]\ndevices = [1, 2]", "exclude[0]: expected at least one of"),
        ("exclude = [{ devices = 3 }]\ndevices = [1, 2]", "exclude[0]: devices: expected one of 1, 2"),
        ("exclude = [{ devices = [1, 2] }]\ndevices = [1, 2]", "expected to leave at least one cell"),
        ("exclude = 3", "exclude"),
        ("include = [{ mikro_batch = 2 }]", "include[0]: unknown path 'mikro_batch'; did you mean"),
        ("repeats = 5001\ndevices = [1, 2]", "repeats: expected at most 10,000 runs, found 2 cells x 5,001 repeats"),
        (f"[settings]\nseed = {list(range(101))}\nsteps = {list(range(20, 120))}", "found 10,100"),
    ],
)
def test_errors_name_the_place(tmp_path, text, message, one_line):
    path = written(tmp_path, text)
    with one_line(message, start=str(path)):
        read_matrix(path)


def test_own_files_start_from_the_folder_of_the_matrix(tmp_path):
    (tmp_path / "mine.toml").write_text("title = 1")
    with pytest.raises(UserError, match=r"mine\.toml"):
        read_matrix(written(tmp_path, 'cases = ["mine.toml"]'))
    matrix = read_matrix(written(tmp_path, '[settings]\nmodel = ["llama_tiny", "own.toml"]'))
    assert matrix.cells[1].choice(matrix.folder).settings == {"contract.model": f"{tmp_path}/own.toml"}


VALUES = {
    "contract.optimizer.lr": st.floats(min_value=0, max_value=1),
    "contract.packing": st.sampled_from(["packed", "padded"]),
    "tuning.sequence_parallel": st.booleans(),
    "tuning.fused_ops": st.lists(st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs"]))),
    "tuning.gradient_accumulation": st.one_of(st.just("none"), st.integers(1, 2**40)),
    "data.tokenizer": st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs"]), min_size=1),
    "framework.anything": st.one_of(st.integers(-(2**50), 2**50), st.booleans(), st.floats(allow_nan=False)),
}


@given(st.fixed_dictionaries({}, optional=VALUES))
@settings(max_examples=60)
def test_options_mean_what_the_cell_says(values):
    from llmperf_sweep.matrix_file import _cell, _typed

    typed = {path: _typed(path, value, "here") for path, value in values.items()}
    if any(str(value) in ("inf", "-inf") for value in values.values()):
        return
    cell = _cell({"case": "default"} | typed)
    texts = [setting_text(path, value) for path, value in cell.choice().settings.items()]
    read = {setting.path: setting.value for setting in from_command_line(texts)}
    assert read == typed


@given(
    devices=st.lists(st.integers(1, 64), min_size=1, max_size=5, unique=True),
    sizes=st.lists(st.integers(1, 64), min_size=1, max_size=5, unique=True),
    repeats=st.integers(1, 4),
    parts=st.integers(1, 12),
    left_out=st.data(),
)
@settings(max_examples=25, deadline=None)
def test_expansion_exclusion_and_parts(tmp_path_factory, devices, sizes, repeats, parts, left_out):
    folder = tmp_path_factory.mktemp("matrix")
    rule = (left_out.draw(st.sampled_from(devices)), left_out.draw(st.sampled_from(sizes)))
    expected = {(count, size) for count in devices for size in sizes} - {rule}
    text = f"devices = {devices}\nrepeats = {repeats}\nexclude = [{{ devices = {rule[0]}, micro_batch = {rule[1]} }}]\n"
    path = written(folder, text + f"[settings]\nmicro_batch = {sizes}\n")
    if not expected:
        with pytest.raises(UserError, match="at least one cell"):
            read_matrix(path)
        return
    matrix = read_matrix(path)
    assert {(cell.devices, cell.settings["tuning.micro_batch"]) for cell in matrix.cells} == expected
    whole = runs_of(matrix)
    assert len(whole) == len(set(whole)) == len(expected) * repeats <= MOST_CELLS
    dealt_out = [runs_of(matrix, (part, parts)) for part in range(1, parts + 1)]
    assert sorted(run for part in dealt_out for run in part) == sorted(whole)
    assert max(map(len, dealt_out)) - min(map(len, dealt_out)) <= 1


@pytest.fixture
def scaled(stub_site):
    """A function that plans a scaling measurement of the stub with further settings."""

    def runs(settings, *scale, **known):
        choice = RunChoice(case="default", vendor="stub", framework="stub", settings=settings, **known)
        return scaling_runs(Series(Request(Selection("default")), print), choice, *scale)

    return runs


def batches(runs):
    """Ranks, global batch, micro batch and accumulation of each plan."""
    batches = [(plan.layout.world_size, plan.batch) for plan in runs[1]]
    return [(ranks, batch.global_batch, batch.micro_batch, batch.gradient_accumulation) for ranks, batch in batches]


def test_weak_scaling_keeps_what_each_rank_does_and_strong_scaling_the_global_batch(scaled):
    runs = scaled({"contract.global_batch": 8}, "4,1,2", "weak", 3)
    assert batches(runs) == [(1, 8, 2, 4), (2, 16, 2, 4), (4, 32, 2, 4)]
    assert [cell.devices for cell in runs[0].cells] == [1, 2, 4]
    assert (runs[0].repeats, runs[0].order) == (3, "shuffled")
    runs = scaled({"contract.global_batch": 8}, "1,2,4", "strong", 3)
    assert batches(runs) == [(1, 8, 2, 4), (2, 8, 2, 2), (4, 8, 2, 1)]


def test_accumulation_that_is_set_is_kept_by_weak_and_refused_by_strong_scaling(scaled):
    runs = scaled({"tuning.gradient_accumulation": 3}, "1,2", "weak", 1)
    assert batches(runs) == [(1, 6, 2, 3), (2, 12, 2, 3)]
    with pytest.raises(UserError, match="set only one of the two"):
        scaled({"tuning.gradient_accumulation": 3}, "1,3", "strong", 1)


@pytest.mark.parametrize(
    ("scale", "settings", "message"),
    [
        ("1,8", {"contract.global_batch": 8}, "--scale 8: global batch 8 is not a multiple of micro batch 2 x data"
         " parallel 8, as strong scaling needs; the nearest number of ranks is 4"),
        ("2,3", {"tuning.tensor_parallel": 2}, "--scale 3: expected a multiple of the 2 ranks that share a copy of the"
         " model; the nearest are 2 and 4"),
    ],
)  # fmt: skip
def test_numbers_that_do_not_divide_name_the_nearest_that_do(scaled, scale, settings, message, one_line):
    with one_line(message):
        scaled(settings, scale, "strong", 3)


@pytest.mark.parametrize("text", ["1", "", "1,1", "0,1", "a,b", "hosts=1,2", "1,2,", "-1,2"])
def test_scale_is_a_list_of_different_numbers(text):
    with pytest.raises(UserError, match="--scale: expected"):
        parse_scale(text)


def test_numbers_are_of_ranks_or_of_nodes():
    assert parse_scale("4, 1,2") == ("ranks", (1, 2, 4))
    assert parse_scale("nodes=2,1") == ("nodes", (1, 2))


def test_devices_with_numbers_of_ranks_are_refused(scaled):
    with pytest.raises(UserError, match="--devices: expected without --scale 1,2"):
        scaled({}, "1,2", "weak", 1, devices=2)


def test_more_nodes_than_there_are_is_a_problem_of_the_plan(scaled):
    with pytest.raises(Refused) as error:
        scaled({}, "nodes=1,2", "weak", 1)
    assert "2 nodes asked for, 1 here" in str(error.value)


def test_scaling_belongs_to_scale(stub_site, capsys):
    assert call(["run", "default", "--vendor", "stub", "--framework", "stub", "--scaling", "strong", "--dry-run"]) == 2
    assert "--scaling belongs to --scale" in capsys.readouterr().err


def measured(ranks, throughputs, share=1.0):
    return Measured(
        ranks=ranks,
        nodes=1,
        devices=ranks,
        global_batch=4 * ranks,
        device_share=share,
        throughputs=throughputs,
        runs=tuple(f"run-{number}" for number in range(len(throughputs))),
    )


def test_efficiency_is_throughput_by_rank_against_the_smallest_number_of_ranks():
    document = scaling_document(
        "default", "weak", [measured(2, (100.0, 102.0, 98.0)), measured(8, (80.0, 81.0, 79.0))], "X1"
    )
    two, eight = document.points
    assert (two.efficiency, two.speed_up, two.efficiency_low) == (1.0, 1.0, None)
    assert eight.tokens_per_second == pytest.approx(640)
    assert eight.efficiency == pytest.approx(0.8)
    assert (eight.speed_up, eight.ideal_speed_up) == (pytest.approx(3.2), 4)
    assert 0.75 < eight.efficiency_low < 0.8 < eight.efficiency_high < 0.85
    assert document.notes == ()


def test_notes_say_when_ranks_share_a_device_and_when_there_is_no_interval():
    document = scaling_document("default", "weak", [measured(1, (100.0,)), measured(2, (), 0.5)], "EPYC")
    assert document.points[1].efficiency is None
    shared, few = document.notes
    assert "the ranks of a node share one EPYC" in shared
    assert few == "no interval where there are less than 2 complete runs: 1, 2 ranks"


@pytest.mark.parametrize(
    ("degrees", "quantile"), [(1, 12.7062), (2, 4.30265), (3, 3.18245), (4, 2.77645), (9, 2.26216), (30, 2.04227)]
)
def test_quantiles_of_student(degrees, quantile):
    assert t_quantile(degrees) == pytest.approx(quantile, rel=1e-5)


@pytest.mark.slow
def test_the_interval_holds_the_true_ratio_in_95_of_100_cases():
    draws = np.random.default_rng(7)
    for repeats in (3, 5):
        groups = draws.normal(1.0, 0.02, size=(4000, 2, repeats))
        intervals = [ratio_interval(list(ours * 0.8), list(theirs)) for ours, theirs in groups]
        covered = sum(low <= 0.8 <= high for low, high in intervals) / len(intervals)
        assert 0.945 < covered < 0.99


def test_runs_that_say_nothing_about_the_ratio_give_no_interval():
    assert ratio_interval([1.0], [1.0, 2.0]) is None
    assert ratio_interval([1.0, 1.1], [0.1, 5.0]) is None
    assert ratio_interval([2.0, 2.0], [4.0, 4.0]) == (0.5, 0.5)
