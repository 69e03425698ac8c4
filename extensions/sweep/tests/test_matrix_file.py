"""Matrix files: what they may say, and the cells that follow."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from llmperf.cases.settings import from_command_line, setting_text
from llmperf.errors import UserError
from llmperf_sweep.matrix_file import MOST_CELLS, read_matrix
from llmperf_sweep.matrix_runs import runs_of


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
def test_errors_name_the_place(tmp_path, text, message):
    path = written(tmp_path, text)
    with pytest.raises(UserError) as error:
        read_matrix(path)
    assert str(error.value).startswith(str(path))
    assert message in str(error.value)
    assert "\n" not in str(error.value)


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
