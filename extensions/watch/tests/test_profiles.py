"""Log profiles: what is read from a line, and files that anybody may have written."""

import time
from pathlib import Path

import pytest
from llmperf import read_toml
from llmperf.errors import UserError
from llmperf_watch.profiles import MAX_LINE, all_profiles, find_profile, read_profile
from llmperf_watch.reading import Reader

DATA = read_toml(Path(__file__).with_name("profiles.toml"))
REAL = DATA["line"]
LINE = {entry["profile"]: entry["text"] for entry in reversed(REAL)}
TITAN, MEGATRON, HF, FACTORY, MLLOG, LIGHTNING = (
    LINE[name] for name in ("torchtitan", "megatron", "hf_trainer", "llama_factory", "mllog", "lightning")
)
BAR = "  5%|▌         | 2/40 [00:01<00:31,  1.21it/s]"


def test_every_profile_has_a_real_line():
    assert set(LINE) == {profile.name for profile in all_profiles()}


@pytest.mark.parametrize("entry", REAL, ids=lambda entry: f"{entry['profile']}: {entry['source'][:30]}")
def test_a_real_line_is_read_by_its_profile(entry):
    reader = Reader(all_profiles())
    reader.add("step: 0 is not a step")
    for line in entry["text"].split("\n"):
        reader.add(line, 1.0)
    reading = reader.best()
    (step,) = reading.steps
    assert (reading.profile.name, step.at) == (entry["profile"], 1.0)
    assert step.values == pytest.approx(entry["values"])
    assert reading.of_run == entry.get("facts", {})


def test_the_last_line_of_a_step_that_is_drawn_again_has_its_loss():
    reader = Reader([find_profile("lightning")])
    reset, other = LIGHTNING.replace("24/32", "0/32"), LIGHTNING.replace("0.289", "0.268")
    for line in (LIGHTNING, other, reset, LIGHTNING.replace("24/32", "25/32")):
        reader.add(line, float(reader.lines))
    steps = [(step.at, step.values["step"], step.values["loss"]) for step in reader.best().steps]
    assert steps == [(0, 56, 0.268), (3, 57, 0.289)]


def test_the_bar_of_a_download_is_not_the_bar_of_the_training():
    reader = Reader([find_profile("hf_trainer")])
    for line in (BAR.replace("2/40", "1/3"), BAR.replace("2/40", "3/3"), BAR, HF, BAR.replace("2/40", "9/90")):
        reader.add(line)
    assert [step.values for step in reader.best().steps] == [{"step": 2, "loss": 8.334}]


def test_a_progress_bar_counts_steps_and_the_figures_after_it_belong_to_its_step():
    reader = Reader([find_profile("hf_trainer")])
    for line in (BAR.replace("2/40", "0/40"), BAR, HF, BAR, "Loading shards: " + BAR, BAR.replace("2/40", "1/7")):
        reader.add(line, float(reader.lines))
    assert [step.values for step in reader.best().steps] == [{"step": 0}, {"step": 2, "loss": 8.334}]
    assert [step.at for step in reader.best().steps] == [0, 1]


def test_lines_of_other_ranks_are_no_steps_and_a_number_that_goes_back_is_a_new_start():
    reader = Reader([find_profile("torchtitan")])
    for step in (1, 1, 2, 2, 3, 2, 3, 4, 1, 2):
        reader.add(TITAN.replace("step:  2", f"step: {step}"))
    steps = reader.best().steps
    assert [(step.values["step"], step.attempt) for step in steps] == [(1, 0), (2, 0), (3, 0), (4, 0), (1, 1), (2, 1)]


@pytest.mark.parametrize(
    ("text", "number"),
    {
        "x: 1,234,567": 1234567, "x: 1,23": 1, "x: 12.5K ": 12500, "x: 3GiB": 3, "x: 1e-3,": 0.001, "x: -2": -2,
        "x: 1.5M": 1.5e6, "x: '0.5'": 0.5, "x: nan": None, "x: ": None, "max: 3": None, "x: .": None,
        f"x: {'9' * 30}": None,
    }.items(),
)  # fmt: skip
def test_numbers(tmp_path, text, number):
    profile = written(tmp_path, "[[line]]\nloss = 'x: {}'")
    values = profile.values(text)
    assert values == (None if number is None else {"loss": number})


def written(folder, text, name="own.toml"):
    path = folder / name
    path.write_text(text)
    read_profile.cache_clear()
    return read_profile(path)


@pytest.mark.parametrize("entry", DATA["wrong"], ids=lambda entry: entry["message"][:20])
def test_what_is_wrong_with_a_profile_is_one_line(tmp_path, entry):
    with pytest.raises(UserError) as raised:
        written(tmp_path, entry["text"])
    assert entry["message"] in str(raised.value)
    assert "\n" not in str(raised.value)


def test_a_profile_of_the_user_comes_first(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    folder = tmp_path / "llmperf" / "log-profiles"
    folder.mkdir(parents=True)
    (folder / "torchtitan.toml").write_text("title = 'mine'\n[[line]]\nloss = 'loss {}'")
    assert find_profile("torchtitan").title == "mine"
    assert len([profile for profile in all_profiles() if profile.name == "torchtitan"]) == 1


def test_what_is_counted_from_the_start_becomes_steps_and_tokens():
    reader = Reader(all_profiles())
    loss = MLLOG.split("\n")[1].replace("block_stop", "train_loss").replace("null", "2.5")
    for line in (*MLLOG.split("\n"), loss):
        reader.add(line)
    assert reader.best().steps[0].values == {"step": 192, "loss": 2.5, "time": 1715849118.295}
    reader = Reader(all_profiles())
    for step in (10, 20):
        reader.add(FACTORY.replace("3200,", f'{step}, "total_tokens": {step * 1000},'))
    assert [row.values.get("tokens") for row in reader.best().steps] == [None, 1000]


def test_the_time_that_a_line_begins_with_is_read_where_it_is_finer_than_a_second():
    reader = Reader(all_profiles())
    reader.add(TITAN)
    reader.add(TITAN.replace("step:  2", "step:  3").replace("03,418", "04,918"))
    first, second = (row.values["time"] for row in reader.best().steps)
    assert second - first == pytest.approx(1.5)
    reader = Reader(all_profiles())
    reader.add(MEGATRON)
    reader.add(TITAN.replace("11-28", "13-28"))
    assert all("time" not in row.values for row in reader.best().steps)


def test_no_profile_and_no_line_takes_long(tmp_path):
    profile = written(tmp_path, "[[line]]\nloss = ['a...{}!', 'a{}!', '1{}!']")
    reader = Reader([profile])
    began = time.process_time()
    for line in ("a" * 10**6, "a" + "." * MAX_LINE, "a1" * MAX_LINE, "a" + "1" * MAX_LINE, "a1,111" * MAX_LINE):
        for _ in range(100):
            reader.add(line)
    assert time.process_time() - began < 2
    assert reader.best() is None


@pytest.mark.parametrize("words", [["import", "u16.log", "--profile", "torchtitan"], ["watch", "--propose", "u16.log"]])
def test_a_log_in_utf_16_is_refused_in_one_line(words, tmp_path, monkeypatch, ran):
    monkeypatch.chdir(tmp_path)
    Path("u16.log").write_text("step: 1 loss: 3.0\n" * 20, encoding="utf-16")
    (line,) = ran(2, *words).err.splitlines()
    assert "expected a log in UTF-8, found bytes of 0" in line
