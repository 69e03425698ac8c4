"""Engine `checkout` while planning: the golden command and configuration of the seed case, and what is refused."""

import json
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from llmperf.planning.build import plan_run
from llmperf.planning.states import Selection, Site
from llmperf_megatron_deepspeed.checkout.home import commit_of, source_hash
from llmperf_megatron_deepspeed.checkout.plan import plan_checkout

CASE = "llama2_7b_pretrain_megatron"
A100 = "A100-SXM4-40GB:1x8"

GOLDEN = Path(__file__).with_name("checkout_golden.txt").read_text().split()
"""One option of `pretrain_gpt.py` a line."""

DS_CONFIG = {
    "train_batch_size": 64,
    "train_micro_batch_size_per_gpu": 1,
    "gradient_accumulation_steps": 32,
    "gradient_clipping": 1.0,
    "zero_optimization": {"stage": 1, "contiguous_gradients": False, "overlap_comm": False,
                          "reduce_bucket_size": 5_000_000, "allgather_bucket_size": 5_000_000},
    "bf16": {"enabled": True, "check_grad_overflow": False},
    "fp16": {"enabled": False},
    "zero_allow_untested_optimizer": True,
    "zero_force_ds_cpu_optimizer": False,
    "steps_per_print": 2147483647,
    "timers": {"throughput": {"enabled": False}},
}  # fmt: skip

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
