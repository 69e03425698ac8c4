"""Engine `checkout` while planning: the golden command and configuration of the seed case, and what is refused."""

import json
import math
import sys
from dataclasses import asdict, replace
from pathlib import Path

import llmperf
import numpy as np
import pytest
from llmperf.planning.build import plan_run
from llmperf.planning.states import Selection, Site
from llmperf.types import LoggedFacts, LoggedFailure, LoggedStep
from llmperf_datasets.reading import megatron_tokens
from llmperf_megatron_deepspeed.checkout.data import prepare
from llmperf_megatron_deepspeed.checkout.home import commit_of, source_hash
from llmperf_megatron_deepspeed.checkout.log import pairs, parse_log
from llmperf_megatron_deepspeed.checkout.plan import plan_checkout

CASE = "llama2_7b_pretrain_megatron"
A100 = "A100-SXM4-40GB:1x8"

GOLDEN = Path(__file__).with_name("checkout_golden.txt").read_text().split()
"""One option of `pretrain_gpt.py` a line."""

DS_CONFIG = json.loads(Path(__file__).with_name("checkout_ds_config.json").read_text())

MORE = ["--rotary-position-embeddings-theta", "--checkpoint-activations", "--deepspeed-activation-checkpointing"]
MORE += ["--fp16", "--cpu-optimizer", "--cpu_torch_adam"]


@pytest.fixture
def home(tmp_path):
    """A folder with the parts of a checkout that planning looks at; no line of it is Megatron-DeepSpeed's."""
    for name in ("pretrain_gpt.py", "megatron/training.py", "megatron/data/gpt_dataset.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("")
    known = {word for word in [*GOLDEN, *MORE] if word.startswith("--") and not word.startswith("--deepspeed_")}
    (tmp_path / "megatron" / "arguments.py").write_text("\n".join(f"'{word}'" for word in sorted(known)))
    return tmp_path


@pytest.fixture
def worker(home, monkeypatch):
    """The engine's plan for the seed case with settings, by default on eight A100."""
    monkeypatch.delenv("MEGATRON_DEEPSPEED_HOME", raising=False)

    def plan(*settings, on=A100, devices=None, megatron_home=home, **changes):
        named = (f"framework.megatron_home={megatron_home}",) if megatron_home else ()
        asked = ("framework.engine=checkout", *named, *settings)
        sketch = plan_run(Selection(CASE, settings=asked), Site(vendor=None if on else "cpu", devices=devices, on=on))
        return plan_checkout(replace(sketch.spec, **changes), sketch.machine.probe)

    return plan


def arguments(planned):
    return list(planned.script.command[planned.script.command.index("{run_dir}") + 2 :])


def told(planned):
    return {problem.where: problem.message for problem in planned.problems}


def test_the_golden_command_of_the_seed_case(worker, home):
    planned = worker()
    assert planned.problems == ()
    start = "llmperf_megatron_deepspeed.checkout.start"
    isolated = ["-P"] if sys.version_info >= (3, 11) else []
    before = ["{python}", *isolated, "-m", start, "{run_dir}", str(home)]
    assert list(planned.script.command) == [*before, *GOLDEN]
    assert planned.script.step_rank == 7
    assert json.loads(planned.files["ds_config.json"]) == DS_CONFIG


def test_every_part_of_the_case_reaches_the_command(worker):
    changes = [
        *("contract.seed=7", "contract.optimizer.schedule=constant", "contract.optimizer.warmup_steps=0"),
        *("contract.optimizer.beta2=0.99", "contract.precision=fp16", "contract.seq_len=2048"),
        *("tuning.pipeline_parallel=2", "tuning.tensor_parallel=2", "tuning.gradient_checkpointing=true"),
        *("tuning.attention=eager", "tuning.micro_batch=2"),
    ]
    planned = worker(*changes)
    words = arguments(planned)

    def value(name):
        return words[words.index(name) + 1]

    assert planned.problems == ()
    assert (value("--seed"), value("--lr-decay-style"), value("--lr-warmup-iters")) == ("1241", "constant", "0")
    assert (value("--adam-beta2"), value("--seq-length"), value("--micro-batch-size")) == ("0.99", "2048", "2")
    assert {"--fp16", "--checkpoint-activations", "--deepspeed-activation-checkpointing"} <= set(words)
    assert not {"--bf16", "--no-pipeline-parallel", "--use-flash-attn-v2"} & set(words)
    config = json.loads(planned.files["ds_config.json"])
    assert (config["fp16"]["enabled"], config["gradient_accumulation_steps"]) == (True, 16)


def test_the_facts_of_the_model_reach_the_command(worker):
    planned = worker("contract.model=llama3_8b", "tuning.tensor_parallel=8")
    words = arguments(planned)
    assert planned.problems == ()
    assert words[words.index("--rotary-position-embeddings-theta") + 1] == "500000"
    assert words[words.index("--num-key-value-heads") + 1] == "8"
    assert words[words.index("--vocab-size") + 1] == str(128256 - 1)


def test_no_clipping_is_zero_and_tied_embeddings_are_not_untied(worker):
    spec = plan_run(Selection(CASE), Site(on=A100)).spec
    contract = replace(spec.contract, optimizer=replace(spec.contract.optimizer, clip_norm=None))
    planned = worker(contract=contract, model=replace(spec.model, tied_embeddings=True))
    assert "--untie-embeddings-and-output-weights" not in arguments(planned)
    assert json.loads(planned.files["ds_config.json"])["gradient_clipping"] == 0
    assert arguments(planned)[arguments(planned).index("--clip-grad") + 1] == "0.0"


def test_a_cpu_takes_torchs_adamw(worker):
    planned = worker("model=llama_tiny", "attention=auto", "precision=fp32", "tensor_parallel=2", on=None, devices=2)
    assert {"--cpu-optimizer", "--cpu_torch_adam"} <= set(arguments(planned))
    assert arguments(planned)[arguments(planned).index("--distributed-backend") + 1] == "gloo"


def test_everything_that_cannot_run_is_told_at_once(worker):
    planned = worker(
        *("model=baichuan2_7b", "precision=fp16", "sharding_stage=3", "attention=flash", "contract.steps=20"),
        *("framework.engin=checkout", "tuning.tensor_parallel=2", 'tuning.fused_ops=["masked_softmax"]'),
        on=None,
        devices=2,
    )
    assert set(told(planned)) == {
        *("framework.engin", "model.family", "contract.precision", "tuning.sharding_stage", "tuning.attention"),
        *("tuning.fused_ops", "contract.optimizer.warmup_steps"),
    }
    assert "did you mean 'engine'?" in told(planned)["framework.engin"]
    assert "expected less than 20, found 20; the nearest is 19" in told(planned)["contract.optimizer.warmup_steps"]


@pytest.mark.parametrize(
    ("settings", "where", "message"),
    [
        (["sharding_stage=2", "pipeline_parallel=2", "tensor_parallel=1"], "tuning.sharding_stage", "nearest is 1"),
        (["sharding_stage=3"], "tuning.sharding_stage", "expected 0 or 1 or 2 without pipeline stages, found 3"),
        (["sharding_degree=1"], "tuning.sharding_degree", "expected 2, found 1"),
        (["attention=sdpa"], "tuning.attention", "the nearest is flash"),
        (["precision=tf32"], "contract.precision", "found tf32"),
        (["precision=fp32", "attention=flash"], "tuning.attention", "found fp32; nearest: --set attention=eager"),
        (["contract.optimizer.min_lr=1"], "contract.optimizer.min_lr", "the nearest is 0.0003"),
    ],
)
def test_what_the_script_cannot_do_is_refused(worker, settings, where, message):
    assert message in told(worker(*settings))[where]


def test_a_missing_or_wrong_folder_is_refused(worker, tmp_path, home):
    assert "MEGATRON_DEEPSPEED_HOME" in told(worker(megatron_home=None))["framework.megatron_home"]
    assert "found no folder" in told(worker(megatron_home=tmp_path / "nowhere"))["framework.megatron_home"]
    (home / "megatron" / "training.py").unlink()
    assert "without megatron/training.py" in told(worker())["framework.megatron_home"]


def test_a_checkout_without_an_option_that_is_needed_is_refused(worker, home):
    (home / "megatron" / "arguments.py").write_text("'--seed'")
    message = told(worker())["framework.megatron_home"]
    assert "--train-shuffle-idx-path" in message
    assert "--seed" not in message


def test_the_environment_may_name_the_folder(worker, home, monkeypatch):
    monkeypatch.setenv("MEGATRON_DEEPSPEED_HOME", str(home))
    planned = worker(megatron_home=None)
    assert planned.problems == ()
    assert str(home) in planned.script.command


@pytest.mark.slow
def test_known_defects_of_a_checkout_are_refused_or_noted(worker, home):
    transformer = home / "megatron" / "model" / "transformer.py"
    transformer.parent.mkdir()
    transformer.write_text("mixed_x_layer.shape[-1] // 3; query_layer = apply_rotary_pos_emb(query_layer, q_pos_emb)")
    (home / "megatron" / "model" / "rotary_pos_embedding.py").write_text("rope = [base.cos(), base.sin()]")
    (home / "megatron" / "utils.py").write_text("(seq_length).to(")
    assert "llama3_8b has 8" in told(worker("model=llama3_8b", "tensor_parallel=8"))["model.kv_heads"]
    assert "found 2" in told(worker("pipeline_parallel=2", "tensor_parallel=2"))["tuning.pipeline_parallel"]
    assert worker().problems == ()
    assert "losses are not comparable" in worker().notes[-1]


def test_the_result_will_say_which_checkout_it_was(worker, home):
    assert "commit unknown" in worker().notes[0]
    commit, before = "0123456789" * 4, source_hash(home)
    (home / ".git" / "refs" / "heads").mkdir(parents=True)
    (home / ".git" / "HEAD").write_text("ref: refs/heads/main\n")
    (home / ".git" / "packed-refs").write_text(f"# pack-refs\n{commit} refs/heads/main\n")
    assert commit_of(home) == commit
    (home / ".git" / "refs" / "heads" / "main").write_text("f" * 40)
    assert f"commit {'f' * 40}; SHA-256 over its Python files: {before}" in worker().notes[0]
    (home / "pretrain_gpt.py").write_text("# changed")
    assert before not in worker().notes[0]
    (home / ".git" / "HEAD").write_text("rubbish")
    assert commit_of(home) is None


LINE = (
    " iteration       10/      10 | consumed samples:           40 | consumed tokens:         5120 |"
    " elapsed time per iteration (ms): 500.0 | learning rate: 3.000E-04 | global batch size:     4 |"
    " lm loss: 5.152386E+00 | loss scale: 1.0 | actual seqlen:   128 | number of skipped iterations:   0 |"
    " number of nan iterations:   0 | samples per second: 10.378 | tokens per gpu per second (tgs): 664.211 |"
    " TFLOPs: 0.00 |"
)
STEP = LoggedStep(step=10, seconds=0.5, loss=5.152386, skipped=False)


def without(key):
    return "|".join(part for part in LINE.split("|") if key not in part)


@pytest.mark.parametrize("key", ["consumed", "learning rate", "loss scale", "TFLOPs", "actual seqlen", "batch size"])
def test_no_other_pair_is_needed_in_any_order(key):
    head, *parts = without(key).rstrip(" |").split("|")
    assert parse_log("|".join([head, *reversed(parts)]) + "|") == STEP


@pytest.mark.parametrize("before", ["node1: ", "[default0]:", "0: ", "\x1b[32m", "W1121 warning without end"])
def test_what_launchers_and_others_put_before_it_is_passed_over(before):
    assert parse_log(before + LINE) == STEP


def test_a_gradient_norm_where_there_is_one():
    assert parse_log(LINE + " grad norm: 1.250 |").grad_norm == 1.25


def test_a_loss_that_is_left_out_is_no_number():
    """The script prints the mean loss only if it is above 0, which NaN is not."""
    assert math.isnan(parse_log(without("lm loss")).loss)
    assert math.isnan(parse_log(LINE.replace("5.152386E+00", "nan")).loss)
    assert parse_log(LINE.replace("5.152386E+00", "INF")).loss == math.inf


SKIPPED = without("lm loss").replace("skipped iterations:   0", "skipped iterations:   1")


def test_a_step_skipped_to_find_a_loss_scale_has_no_loss_and_without_a_scale_it_has_diverged():
    finding = SKIPPED.replace("loss scale: 1.0", "loss scale: 4096.0")
    assert parse_log(finding) == LoggedStep(step=10, seconds=0.5, loss=None, skipped=True)
    assert math.isnan(parse_log(finding.replace("nan iterations:   0", "nan iterations:   1")).loss)
    assert math.isnan(parse_log(SKIPPED).loss)
    assert math.isnan(parse_log(SKIPPED.replace("loss scale: 1.0 |", "")).loss)


def test_memory_versions_and_failures_of_a_rank():
    line = "[Rank 1] (after 1 iterations) memory (MB) | allocated: 457.2 | max allocated: 512.5 | reserved: 600.0"
    assert parse_log(line) == LoggedFacts(peak_memory_bytes=round(512.5 * 2**20))
    assert parse_log('llmperf packages: {"torch": "2.15.0"}') == LoggedFacts(packages={"torch": "2.15.0"})
    assert parse_log("llmperf packages: [") == LoggedFacts()
    told = LoggedFailure(exception="ValueError", message="no", traceback="...")
    assert parse_log(f"llmperf failure: {json.dumps(asdict(told))}") == told


@pytest.mark.parametrize(
    "line",
    [
        "", " validation loss at iteration 10 | lm loss value: 5.1 | lm loss PPL: 160 |", " iteration 3 of 5",
        " iteration        3/       5 | learning rate: 1.0 |",
        " iteration        0/       5 | elapsed time per iteration (ms): 500.0 |",
        " iteration        3/       5 | elapsed time per iteration (ms): -1 |",
        " iteration        3/       5 | elapsed time per iteration (ms): inf |",
        " iteration        3/       5 | elapsed time per iteration (ms): 1.2.3 |",
        f" iteration {'9' * 5000}/5 | elapsed time per iteration (ms): 1 |",
        "[Rank 1] (after 1 iterations) memory (MB) | allocated: 457.2",
        "[Rank 1] (after 1 iterations) memory (MB) | max allocated: nan",
        'llmperf failure: {"exception": "ValueError"}', "llmperf failure: " + "[" * 5000, "|" * 60_000,
        " iteration 1/1 |" + "a:" * 30_000, "\x00\ufffd iteration",
    ],
)  # fmt: skip
def test_other_lines_tell_nothing(line):
    assert parse_log(line) is None


def test_pairs_that_are_none_are_passed_over():
    assert pairs("a: 1 | b | : 2 | c: x | d: 1e3 | E F (g): -2.5 |") == {"a": 1.0, "d": 1000.0, "e f (g)": -2.5}


SEQ_LEN = 32


@pytest.fixture
def make_plan(program, tmp_path, monkeypatch):
    """A function that makes a plan of 3 steps of 4 samples: `make_plan(seed=1)`."""
    monkeypatch.setenv("LLMPERF_CACHE_DIR", str(tmp_path / "cache"))

    def make(devices=2, micro_batch=1, **contract):
        facts = {"seq_len": SEQ_LEN, "steps": 3, "warmup_steps": 0, **contract}
        task = {"framework": "pytorch", "contract": facts, "tuning": {"micro_batch": micro_batch}}
        return program.make_plan(task, devices)

    return make


def by_index(folder, place):
    """The sample at a place, by Megatron's arrays: its bounds in documents of one sample each."""
    tokens, order = megatron_tokens(folder / "tokens.bin"), np.load(folder / "order.npy")
    bounds, documents = np.load(folder / "samples.npy"), np.load(folder / "documents.npy")
    (first, begin), (last, end) = bounds[order[place]], bounds[order[place] + 1]
    assert first == last
    start = documents[first] * (SEQ_LEN + 1)
    return tokens[start + begin : start + end + 1]


@pytest.mark.parametrize("micro_batch", [1, 2])
def test_every_micro_batch_has_the_rows_that_other_frameworks_see(make_plan, micro_batch):
    plan = make_plan(micro_batch=micro_batch)
    folder = prepare(plan)
    batch = plan.batch
    ranks = [llmperf.open_batches(plan, rank) for rank in range(batch.data_parallel)]
    place = 0
    for _ in range(3 * batch.gradient_accumulation):
        for rank in ranks:  # as the script's sampler deals a micro step out
            for row in rank.next_micro_batch():
                assert (by_index(folder, place) == row).all()
                place += 1
    assert place == 12


def test_the_script_may_fetch_ahead_of_the_last_sample(make_plan):
    folder = prepare(make_plan())
    order, bounds = np.load(folder / "order.npy"), np.load(folder / "samples.npy")
    assert len(order) == len(bounds) - 1
    assert order.max() < len(bounds) - 1
    assert (bounds.dtype, order.dtype) == (np.int32, np.uint32)


def test_files_are_made_once_and_kept_apart(make_plan):
    plan = make_plan()
    folder = prepare(plan)
    made = (folder / "tokens.bin").stat().st_mtime_ns
    assert prepare(plan) == folder
    assert (folder / "tokens.bin").stat().st_mtime_ns == made
    assert prepare(make_plan(seed=1)) != folder
    assert prepare(make_plan(steps=4)) != folder
    assert sorted(path.suffix for path in folder.parent.iterdir() if path.is_file()) == [".lock"] * 3


def test_ids_have_32_bits_where_the_vocabulary_needs_them(make_plan):
    plan = make_plan(devices=1)
    large = replace(plan, spec=replace(plan.spec, model=replace(plan.spec.model, vocab_size=128_256)))
    assert megatron_tokens(prepare(large) / "tokens.bin").dtype == np.int32
    assert megatron_tokens(prepare(plan) / "tokens.bin").dtype == np.uint16
