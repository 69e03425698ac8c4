"""Log profiles: what is read from a line, and files that anybody may have written."""

import time

import pytest
from llmperf.errors import UserError
from llmperf_watch.profiles import MAX_LINE, all_profiles, find_profile, read_profile
from llmperf_watch.reading import Reader

TITAN = (
    "[titan] 2026-11-28 06:09:03,418 - root - INFO - \x1b[31mstep:  2  \x1b[32mloss:  8.77496  \x1b[38;2;180;60;0m"
    "grad_norm:  0.5117  \x1b[38;2;54;234;195mmemory:  0.95GiB(1.19%)  \x1b[34mtps: 1,149  \x1b[36mtflops: 0.03  "
    "\x1b[35mmfu: 0.01%\x1b[39m"
)
MEGATRON = (
    " [2026-11-28 06:00:02] iteration        3/     500 | consumed samples:          384 | elapsed time per iteration"
    " (ms): 1782.9 | throughput per GPU (TFLOP/s/GPU): 80.2 | learning rate: 6.000000E-07 | global batch size:   128 |"
    " lm loss: 1.043863E+01 | loss scale: 1.0 | grad norm: 26.203 | number of skipped iterations:   0 |"
)
HF_5 = "{'loss': '8.334', 'grad_norm': '1.727', 'learning_rate': '0.001', 'epoch': '0.05'}"
HF_4 = "{'loss': 8.334, 'grad_norm': 1.727, 'learning_rate': 1e-05, 'epoch': 0.05}"
BAR = "  5%|▌         | 2/40 [00:01<00:31,  1.21it/s]"

NANOTRON = (
    "12/21 01:39:51 [INFO|DP=0|TP=0|node7]: iteration: 2113 / 15000 | consumed_tokens: 480B | time_per_iteration_ms: 8.79K"  # noqa: E501
    " | tokens_per_sec: 182K | tokens_per_sec_per_gpu: 699 | global_batch_size: 1.6M | grad_norm: 0.112 | lm_loss: 2.04 |"  # noqa: E501
    " lr: 0.0001 | model_tflops_per_gpu: 15.4 | eta: 131 days, 1:45:39"
)
NEMO = (
    "0: Training epoch 0, iteration 28/99 | lr: 5.6e-06 | global_batch_size: 32 | global_step: 28 | peak_memory_usage:"
    " 70833405952 | reduced_train_loss: 2.778 | train_step_timing in s: 0.189 | consumed_samples: 928 | val_loss: 2.861"
)
MAXTEXT = (
    "completed step: 29, seconds: 7.793, TFLOP/s/device: 328.139, Tokens/s/device: 4204.799, total_weights: 16777216,"
    " loss: 11.151"
)
DEEPSPEED = (
    "[2026-11-28 08:00:00,237] [INFO] [timer.py:260:stop] epoch=0/micro_step=199/global_step=199,"
    " RunningAvgSamplesPerSec=58.7306, CurrSamplesPerSec=61.353, MemAllocated=6.01GB, MaxMemAllocated=19.52GB"
)
PADDLE = (
    "[    INFO] - loss: 12.0635252, learning_rate: 2e-06, global_step: 1, max_memory_reserved: 7.75, interval_runtime:"
    " 1.1518, interval_samples_per_second: 0.8682, interval_tokens_per_second_per_device: 889.0448,"
    " interval_hardware_tflops_per_device: 2.77, interval_steps_per_second: 0.5, progress_or_epoch: 0.0"
)
XTUNER = (
    "[XTuner][RANK 2][2026-08-29 09:17:51][INFO] Step 1/100 data_time: 0.0578 lr: 0.000020 time: 4.9770 text_tokens: 4008.0"  # noqa: E501
    " total_loss: 1.722 reduced_llm_loss: 1.684 max_memory: 15.90 GB reserved_memory: 17.87 GB grad_norm: 13.948"
    " tgs: 805.3 e2e_tgs: 796.1"
)
MMENGINE = (
    "01/29 21:35:34 - mmengine - INFO - Iter(train) [ 10/720]  lr: 9.0001e-05  eta: 0:31:46  time: 2.6851  data_time:"
    " 0.0077  memory: 12762  loss: 2.6900"
)
LIGHTNING = "Epoch 2:  40%|████      | 4/10 [00:10<00:15,  1.21it/s, v_num=0, train_loss=9.190]"
FACTORY = '{"current_steps": 10, "total_steps": 100, "loss": 2.1, "lr": 1e-05, "epoch": 0.1, "total_tokens": 12345}'
MLLOG = (
    ':::MLLOG {"namespace": "", "time_ms": 1696565401886, "event_type": "POINT_IN_TIME", "key": "train_loss", "value": 2.5,'  # noqa: E501
    ' "metadata": {"file": "callbacks.py", "lineno": 277, "samples_count": 4096}}'
)

LINES = {
    ("torchtitan", TITAN): {
        "step": 2, "loss": 8.77496, "memory_bytes": 0.95 * 2**30, "tokens_per_second_per_device": 1149,
        "flops_per_second_per_device": 0.03e12, "mfu": 0.0001,
    },
    ("megatron", MEGATRON): {
        "step": 3, "step_seconds": 1.7829, "flops_per_second_per_device": 80.2e12, "loss": 10.43863,
    },
    ("hf_trainer", HF_5): {"loss": 8.334},
    ("hf_trainer", HF_4): {"loss": 8.334},
    ("nanotron", NANOTRON): {
        "step": 2113, "step_seconds": 8.79, "tokens_per_second": 182e3, "tokens_per_second_per_device": 699,
        "tokens": 1.6e6, "loss": 2.04, "flops_per_second_per_device": 15.4e12,
    },
    ("nemo", NEMO): {"step": 28, "step_seconds": 0.189, "loss": 2.778, "memory_bytes": 70833405952},
    ("maxtext", MAXTEXT): {
        "step": 29, "step_seconds": 7.793, "flops_per_second_per_device": 328.139e12, "loss": 11.151,
        "tokens_per_second_per_device": 4204.799,
    },
    ("deepspeed", DEEPSPEED): {"step": 199, "samples_per_second": 61.353, "memory_bytes": 19.52 * 2**30},
    ("paddle", PADDLE): {
        "step": 1, "loss": 12.0635252, "step_seconds": 2, "samples_per_second": 0.8682,
        "tokens_per_second_per_device": 889.0448, "flops_per_second_per_device": 2.77e12,
    },
    ("xtuner", XTUNER): {
        "step": 1, "loss": 1.684, "step_seconds": 4.977, "tokens_per_second_per_device": 805.3,
        "memory_bytes": 15.9 * 2**30,
    },
    ("mmengine", MMENGINE): {"step": 10, "loss": 2.69, "step_seconds": 2.6851, "memory_bytes": 12762 * 2**20},
    ("lightning", LIGHTNING): {"step": 24, "loss": 9.19},
    ("llama_factory", FACTORY): {"step": 10, "loss": 2.1},
    ("mllog", MLLOG): {"time": 1696565401.886, "loss": 2.5},
}  # fmt: skip


@pytest.mark.parametrize(("profile", "line"), LINES, ids=lambda text: text[:12])
def test_a_line_of_each_program_is_read(profile, line):
    reader = Reader([find_profile(profile)])
    reader.add("step: 0 is not a step")
    reader.add(line, 1.0)
    (step,) = reader.best().steps
    assert step.values == pytest.approx(LINES[profile, line])
    assert step.at == 1.0


@pytest.mark.parametrize(("name", "line"), LINES, ids=lambda text: text[:12])
def test_the_profile_that_fits_is_found(name, line):
    reader = Reader(all_profiles())
    reader.add(line)
    assert reader.best().profile.name == name


def test_a_progress_bar_counts_steps_and_the_figures_after_it_belong_to_its_step():
    reader = Reader([find_profile("hf_trainer")])
    for line in (BAR.replace("2/40", "0/40"), BAR, HF_5, BAR, "Loading shards: " + BAR, BAR.replace("2/40", "1/7")):
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


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "expected 1 to 40 tables [[line]]"),
        ("[[line]]\nlos = 'loss {}'", "line[0]: unknown field 'los'; did you mean 'loss'?"),
        ("[[line]]\nloss = 'loss'", "line[0].loss: expected a text with one {}"),
        ("[[line]]\nloss = '{} loss'", "line[0].loss: expected a text with one {} and something before it"),
        ("[[line]]\nloss = 3", "line[0].loss: expected a text of 1 to 200 characters, found 3"),
        ("[[line]]\nstep_seconds = {text = 't {}', unit = 'sec'}", "unknown unit 'sec'"),
        ("[[line]]\nmarks = 'a'\nloss = 'l {}'", "line[0].marks: expected a list"),
        ("[[line]]\nbar = 1\nloss = 'l {}'", "line[0].bar: expected true or false"),
        ("[[line]]\nseq_len = 'l {}'", "expected a field of a step"),
        ("lines = 1", "unknown key 'lines'; did you mean 'line'?"),
    ],
)
def test_what_is_wrong_with_a_profile_is_one_line(tmp_path, text, message):
    with pytest.raises(UserError) as raised:
        written(tmp_path, text)
    assert message in str(raised.value)
    assert "\n" not in str(raised.value)


def test_an_unknown_profile_names_the_closest():
    with pytest.raises(UserError, match="did you mean 'torchtitan'"):
        find_profile("torchtitn")


def test_a_profile_of_the_user_comes_first(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    folder = tmp_path / "llmperf" / "log-profiles"
    folder.mkdir(parents=True)
    (folder / "torchtitan.toml").write_text("title = 'mine'\n[[line]]\nloss = 'loss {}'")
    assert find_profile("torchtitan").title == "mine"
    assert len([profile for profile in all_profiles() if profile.name == "torchtitan"]) == 1


def test_what_is_counted_from_the_start_becomes_steps_and_tokens():
    reader = Reader(all_profiles())
    reader.add(MLLOG.replace("train_loss", "global_batch_size").replace("2.5", "256"))
    reader.add(MLLOG)
    assert reader.best().steps[0].values["step"] == 16
    reader = Reader(all_profiles())
    for step in (10, 20):
        reader.add(FACTORY.replace("10,", f"{step},", 1).replace("12345", str(step * 1000)))
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
