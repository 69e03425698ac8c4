"""Cases, overlays and --set: which settings a run gets, and which errors are shown."""

from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from llmperf.cases.library import Library, library, read_named
from llmperf.cases.overlays import Facts, overlay_settings
from llmperf.cases.resolve import Available, resolve
from llmperf.cases.settings import Setting, from_command_line, known_paths
from llmperf.errors import UserError
from llmperf.files.user_files import read_toml
from llmperf.types.spec import Case

HERE = Available(1, None)
"""One node whose device can be divided at will."""


def spec_of(name, *sets, available=HERE):
    shelf = library()
    return resolve(shelf.case(name), shelf, from_command_line(sets), available)


def test_every_shipped_case_resolves_without_a_change_or_a_problem():
    shelf = library()
    for name in shelf.paths("cases"):
        case = shelf.case(name)
        spec, problems = resolve(case, shelf, [], Available(None, None))
        assert problems == []
        assert spec.changes == ()
        assert not spec.variant
        assert len(case.source) > 10


def test_a_variant_is_said_and_its_change_has_both_values():
    spec, _ = spec_of("default", "seq_len=128")
    (change,) = spec.changes
    assert (change.path, change.case_value, change.value, change.origin) == ("contract.seq_len", 256, 128, "--set")
    assert spec.variant
    spec, _ = spec_of("llama2_7b_pretrain_megatron", "gradient_accumulation=512")  # as in a published row
    assert {change.path for change in spec.changes} == {"contract.global_batch", "tuning.gradient_accumulation"}
    assert spec_of("default", "seq_len=256")[0].changes == ()


def test_a_smaller_machine_gets_fewer_devices_unless_a_number_was_asked_for():
    spec, problems = spec_of("baichuan2_13b_pretrain_zero", available=Available(1, 8))
    assert problems == []
    assert (spec.tuning.nodes, spec.tuning.devices, spec.tuning.gradient_accumulation) == (1, 8, 16)
    assert "this machine has 1" in {change.origin for change in spec.changes}
    assert not spec.variant
    asked, _ = spec_of("baichuan2_13b_pretrain_zero", "nodes=2", available=Available(1, 8))
    assert asked.tuning.nodes == 2


@pytest.mark.parametrize(
    ("given", "line"),
    [
        ("mirco_batch=2", "--set: unknown path 'mirco_batch'; did you mean 'micro_batch'?"),
        ("force_sum=true", "; an option of the framework is set as framework.force_sum"),
        ("contract.seqlen=2", "--set: unknown path 'contract.seqlen'; did you mean 'contract.seq_len'?"),
        ("micro_batch", "--set micro_batch: expected path=value, such as --set micro_batch=4"),
        ("micro_batch=two", "--set: tuning.micro_batch: expected a whole number, found 'two'"),
        ("micro_batch=1.5", "--set: tuning.micro_batch: expected a whole number, found 1.5"),
        ("micro_batch=0", "--set: tuning.micro_batch: expected at least 1, found 0"),
        ("seq_len=4k", "--set: contract.seq_len: expected a whole number, found '4k'"),
        ("lr=3e-4s", "--set: contract.optimizer.lr: expected a number, found '3e-4s'"),
        ("lr=nan", "--set: contract.optimizer.lr: expected a finite number, found nan"),
        ("beta1=1", "--set: contract.optimizer.beta1: expected at least 0 and below 1, found 1.0"),
        ("beta2=-0.1", "--set: contract.optimizer.beta2: expected at least 0 and below 1, found -0.1"),
        (
            "precision=fp8",
            "--set: contract.precision: expected one of fp32, tf32, bf16, bf16_pure, fp16, fp8_tensorwise, fp8_rowwise",
        ),
        ("seed=9007199254740992", "--set: contract.seed: expected at most 9007199254740991, found 9007199254740992"),
        (f"seed={'9' * 400}", "--set: contract.seed: expected at most 9007199254740991, found a longer one"),
        (f"seed={'9' * 5000}", "--set: contract.seed: expected a whole number, found '999"),
        (f"seed={'[' * 5000}", "--set: contract.seed: expected a whole number, found '[[["),
        (f"lr={'9' * 400}", "--set: contract.optimizer.lr: expected a number, found 999"),
        ("gradient_checkpointing=yes", "expected true or false, found 'yes'"),
    ],
)
def test_bad_settings_are_one_line_that_says_what_was_expected(given, line, one_line):
    with one_line(line):
        from_command_line([given])


def test_a_boolean_may_be_written_as_python_does():
    for text in ("true", "True", "TRUE"):
        given = from_command_line([f"framework.force_sum={text}", f"gradient_checkpointing={text}"])
        assert [one.value for one in given] == [True, True]
    assert from_command_line(["framework.force_sum='True'"])[0].value == "True"


def test_none_unsets_what_may_be_unset_also_in_a_case_file(tmp_path):
    spec, _ = spec_of("default", "clip_norm=none")
    assert spec.contract.optimizer.clip_norm is None
    path = tmp_path / "unclipped.toml"
    text = library().paths("cases")["default"].read_text()
    path.write_text(text.replace('"default"', '"unclipped"').replace("lr = 1e-3", 'lr = 1e-3, clip_norm = "none"'))
    assert library().case(str(path)).contract.optimizer.clip_norm is None


@pytest.mark.slow
@given(st.text(max_size=40))
def test_no_text_after_set_is_ever_a_traceback(text):
    try:
        settings = from_command_line([text])
    except UserError:
        return
    assert settings[0].path in known_paths() or settings[0].path.startswith("framework.")


def test_unknown_model_and_case_offer_the_nearest():
    with pytest.raises(UserError, match="did you mean 'llama_tiny'"):
        spec_of("default", "model=lama_tiny")
    with pytest.raises(UserError, match="unknown case 'defualt'; did you mean 'default'"):
        library().case("defualt")


def test_a_layout_that_does_not_divide_names_the_nearest():
    _, problems = spec_of("default", "tensor_parallel=3", "devices=8")
    told = " ".join(problem.message for problem in problems)
    assert "= 3 does not divide 1 x 8 = 8 ranks; the nearest number of ranks that works is 9" in told
    assert "4 attention heads, which tensor parallel 3 does not divide; the nearest that does is 2" in told


def test_a_global_batch_that_does_not_divide_says_what_would():
    _, (problem,) = spec_of("default", "micro_batch=3")
    assert "not a multiple of micro batch 3 x data parallel 2 = 6" in problem.message
    assert "--set micro_batch=2" in problem.message
    assert "--set global_batch=6" in problem.message


@given(st.integers(1, 64), st.integers(1, 16), st.integers(1, 8))
def test_what_resolves_always_multiplies_out(global_batch, micro_batch, devices):
    spec, problems = spec_of(
        "default", f"global_batch={global_batch}", f"micro_batch={micro_batch}", f"devices={devices}"
    )
    product = micro_batch * devices * (spec.tuning.gradient_accumulation or 0)
    assert bool(problems) == (product != global_batch)


def case_file(folder, text):
    path = folder / "mine.toml"
    path.write_bytes(text)
    return path


def test_binary_and_broken_toml_are_one_line(tmp_path):
    with pytest.raises(UserError, match=r"mine\.toml: expected a TOML file in UTF-8"):
        read_toml(case_file(tmp_path, b"\x80\xff\x00"))
    with pytest.raises(UserError, match=r"mine\.toml: not valid TOML: .*line 1"):
        read_toml(case_file(tmp_path, b"a = = 1"))
    with pytest.raises(UserError, match="No such file"):
        read_toml(tmp_path / "none.toml")
    with pytest.raises(UserError, match="larger than"):
        read_toml(case_file(tmp_path, b"#" * (2**20 + 1)))


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("seq_len", "seq_length", "contract: unknown key 'seq_length'; did you mean 'seq_len'"),
        ("[contract]", f"[contract]\nseed = {2**53}", r"contract\.seed: expected at most 9007199254740991, found 90"),
    ],
)
def test_a_fault_in_a_case_file_is_said_with_file_place_and_nearest(tmp_path, old, new, message):
    path = case_file(tmp_path, library().paths("cases")["default"].read_text().replace(old, new).encode())
    with pytest.raises(UserError, match=rf"mine\.toml: {message}"):
        read_named(path, Case)


def overlay(folder, text):
    (folder / "overlays").mkdir()
    (folder / "overlays" / "acme.toml").write_text(text)
    return Library([("acme", folder)])


def facts(device, **more):
    return Facts(case="default", device=device, framework="zero", **more)


def test_an_overlay_can_ask_for_a_model_a_kind_and_a_number_of_ranks(tmp_path):
    shelf = overlay(tmp_path, '[when]\nmodel = "m"\nkind = "cpu"\nranks = [1, 2]\n[tuning]\nmicro_batch = 1\n')
    assert overlay_settings(shelf, facts("A1", model="m", kind="cpu", ranks=2), "")
    for other in ({"model": "n"}, {"kind": "accelerator"}, {"ranks": 4}, {"ranks": None}):
        assert overlay_settings(shelf, facts("A1", **{"model": "m", "kind": "cpu", "ranks": 2} | other), "") == []


def test_an_overlay_applies_where_it_says_and_is_recorded(tmp_path):
    shelf = overlay(tmp_path, '[when]\ncase = "default"\ndevice = ["A1", "A2"]\n[tuning]\nmicro_batch = 1\n')
    found = overlay_settings(shelf, facts("A1"), "")
    assert found == [Setting("tuning.micro_batch", 1, "overlay acme.toml")]
    assert overlay_settings(shelf, facts("B1"), "") == []
    own = library()
    spec, _ = resolve(own.case("default"), own, found, HERE)
    assert "overlay acme.toml" in {change.origin for change in spec.changes}


def test_an_overlay_of_a_case_is_for_the_model_of_the_case_unless_it_names_another(tmp_path):
    shelf = overlay(tmp_path, '[when]\ncase = "default"\n[tuning]\nmicro_batch = 1\n')
    assert overlay_settings(shelf, facts("A1", model="llama_mini"), "llama_mini") != []
    assert overlay_settings(shelf, facts("A1", model="llama2_7b"), "llama_mini") == []
    file = tmp_path / "overlays" / "acme.toml"
    with pytest.raises(UserError, match=r"acme\.toml: when\.model: the overlay is for llama_mini, found 'llama2_7b'"):
        overlay_settings(Library(), facts("A1", model="llama2_7b"), "llama_mini", [file])


@pytest.mark.parametrize(
    "change",
    ["[contract]\nseq_len = 512\n", "[contract.optimizer]\nlr = 0.1\n", "[tuning]\ngradient_accumulation = 4\n"],
)
def test_an_overlay_that_changes_the_contract_is_an_error_in_one_line(tmp_path, change):
    shelf = overlay(tmp_path, f'[when]\nframework = "zero"\n{change}')
    with pytest.raises(
        UserError, match=r"acme\.toml: an overlay never changes the contract: expected tuning, .*found"
    ) as error:
        overlay_settings(shelf, facts("A1"), "")
    assert "\n" not in str(error.value)
    with pytest.raises(UserError, match="never changes the contract"):
        overlay_settings(Library(), facts("A1"), "", [tmp_path / "overlays" / "acme.toml"])


def test_an_invalid_overlay_is_an_error_that_names_the_file(tmp_path):
    shelf = overlay(tmp_path, '[when]\ncases = "default"\n')
    with pytest.raises(UserError, match="unknown condition 'cases'; did you mean 'case'"):
        overlay_settings(shelf, facts("A1"), "")


def test_two_folders_with_one_case_name_are_both_named(tmp_path):
    for owner in ("a", "b"):
        (tmp_path / owner / "cases").mkdir(parents=True)
        (tmp_path / owner / "cases" / "same.toml").write_text("")
    with pytest.raises(UserError, match="case 'same' is in"):
        Library([("a", tmp_path / "a"), ("b", tmp_path / "b")]).paths("cases")


def test_command_line_wins_over_overlay():
    shelf = library()
    case = shelf.case("default")
    settings = [Setting("tuning.micro_batch", 1, "overlay x"), *from_command_line(["micro_batch=2"])]
    spec, _ = resolve(replace(case), shelf, settings, HERE)
    assert spec.tuning.micro_batch == 2


SHIPS = "from llmperf import hookimpl\n@hookimpl\ndef llmperf_resources():\n    return [{}]\n"


def test_a_plugin_with_bad_folders_is_left_out_of_the_lists(install, ran):
    install("llmperf-odd", "odd", SHIPS.format("7"), role="extension")
    for words in (["cases"], ["models"]):
        out, err = ran(0, *words)
        assert "llama_mini" in out
        assert err == "left out: extension 'odd' (llmperf-odd): expected folders of llmperf_resources, found 7\n"


def test_a_plugin_whose_case_has_a_taken_name_is_left_out_and_a_file_that_is_no_case(install, ran, tmp_path):
    for folder, name in (("one", "default"), ("one", "mine"), ("two", "bad")):
        (tmp_path / folder / "cases").mkdir(parents=True, exist_ok=True)
        (tmp_path / folder / "cases" / f"{name}.toml").write_bytes(b"\xff")
        if name != "mine":
            install(f"llmperf-{folder}", folder, SHIPS.format(repr(str(tmp_path / folder))))
    out, err = ran(0, "cases")
    assert "default" in out
    assert "left out: case 'default' is in" in err
    assert "bad.toml: expected a TOML file in UTF-8" in err
    assert "case 'mine' is in" in ran(2, "plan", "mine").err


def test_a_changed_list_is_recorded_as_text():
    spec, _ = spec_of("default", 'fused_ops=["rms_norm", "rope"]')
    (change,) = spec.changes
    assert (change.path, change.case_value, change.value) == ("tuning.fused_ops", "auto", "rms_norm, rope")


def test_routing_is_part_of_the_contract():
    spec, problems = spec_of("default", "model=qwen3_moe_tiny", "routing=skewed", "routing_skew=1.5")
    assert problems == []
    changed = {change.path: change.value for change in spec.changes if change.contract}
    assert changed == {"contract.model": "qwen3_moe_tiny", "contract.routing": "skewed", "contract.routing_skew": 1.5}
    with pytest.raises(UserError, match="routing_skew: expected at least 0 and below 10, found 10"):
        spec_of("default", "routing_skew=10")


@pytest.mark.parametrize(
    ("sets", "where", "message"),
    [
        (["routing=balanced"], "routing", "is dense: expected learned, found balanced; nearest: --set routing=learned"),
        (["routing_skew=2"], "routing_skew", "expected 1.0 with learned routing, found 2.0"),
        (["model=mixtral_tiny", "routing_skew=2"], "routing_skew", "routing_skew=1.0, or --set routing=skewed"),
    ],
)
def test_routing_that_the_model_has_no_use_for_is_refused(sets, where, message):
    _, (problem,) = spec_of("default", *sets)
    assert problem.where == f"contract.{where}"
    assert message in problem.message


def test_a_path_that_several_end_with_sets_the_least_nested_and_says_so(ran):
    printed = ran(0, "plan", "default", "--set", "warmup_steps=3", "--set", "optimizer.warmup_steps=2")
    note = "llmperf: note: --set warmup_steps: sets contract.warmup_steps (also: contract.optimizer.warmup_steps)\n"
    assert printed.err.count("note") == 1
    assert note in printed.err
    assert [setting.path for setting in from_command_line(["warmup_steps=3"])] == ["contract.warmup_steps"]


def test_no_two_paths_of_one_depth_have_the_same_end():
    ends = Counter(
        (".".join(path.split(".")[place:]), path.count("."))
        for path in known_paths()
        for place in range(1, path.count(".") + 1)
    )
    assert [end for end, times in ends.items() if times > 1] == []


@pytest.mark.parametrize("given", ["zzqqxx", "contract.zzqqxx"])
def test_an_unknown_path_without_a_near_one_names_the_list(given, ran):
    error = ran(2, "plan", "default", "--set", f"{given}=3").err
    assert "`llmperf cases default` lists those that exist" in error or "did you mean" in error
    assert len(error) < 250


@pytest.mark.parametrize(
    ("case", "layout", "global_batch", "tokens"),
    [
        ("llama2_7b_pretrain_megatron", (4, 1, 2), 64, 262_144),
        ("llama2_7b_lora", (1, 1, 1), 2, 1024),
        ("baichuan2_13b_pretrain_zero", (1, 1, 16), 128, 262_144),
        ("llama2_7b_pretrain_zero", (1, 1, 8), 8, 32_768),
        ("llama1_7b_pretrain_paddle", (1, 1, 8), 2048, 4_194_304),
        ("llama1_13b_pretrain_paddle", (1, 1, 8), 2048, 4_194_304),
        ("llama3_1_8b_pretrain_pytorch", (1, 1, 8), 16, 131_072),
        ("llama3_1_8b_lora", (1, 1, 1), 32, 131_072),
        ("qwen3_8b_pretrain_pytorch", (1, 1, 8), 128, 1_048_576),
        ("qwen3_30b_a3b_pretrain_pytorch", (1, 1, 8), 512, 2_097_152),
        ("gpt_oss_20b_pretrain_pytorch", (1, 1, 8), 256, 1_048_576),
    ],
)
def test_published_systems_multiply_out(case, layout, global_batch, tokens):
    spec, problems = spec_of(case, available=Available(None, None))
    tuning = spec.tuning
    data_parallel = tuning.nodes * tuning.devices // (tuning.tensor_parallel * tuning.pipeline_parallel)
    assert problems == []
    assert (tuning.tensor_parallel, tuning.pipeline_parallel, data_parallel) == layout
    assert spec.contract.global_batch == global_batch
    assert tuning.micro_batch * tuning.gradient_accumulation * data_parallel == global_batch
    assert global_batch * spec.contract.seq_len == tokens
